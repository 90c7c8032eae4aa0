"""The published ten-step experiment on temporary buffers, repeated on this machine and compared with the published figures."""

from __future__ import annotations

from typing import Any

from pg_lean import tempbuffers
from pg_lean.bench import Bench, Estimate, Headline, Note, Plot, Result, Series, Table, human_bytes
from pg_lean.cluster import Cluster

TITLE = "Temporary buffers: what writing and reading a page costs"
PRELOAD = ("parallel_temp",)

#: Where the published figures come from: the article, and its raw files.
SOURCE = (
    "danolivo, https://danolivo.substack.com/p/inventing-a-cost-model-for-postgresql, raw files in github.com/danolivo/conf, Scripts/temp_buffers_benchmark"
)

#: Largest size with --quick, in blocks.
QUICK_SIZE = 16384
#: Repetitions of sizes up to so many blocks, unless --iterations is given: the largest take half a minute each on a slow machine.
REPETITIONS = {16384: 11, 65536: 7, 262144: 3}
QUICK_REPETITIONS = 5

#: The publication's own table in ms: blocks: (write, dry write, read, dry read).
PUBLISHED = {
    512: (0.54, 0.002, 0.58, 0.016), 1024: (1.07, 0.003, 1.13, 0.028), 2048: (3.02, 0.004, 2.42, 0.054),
    4096: (6.36, 0.007, 4.81, 0.107), 8192: (12.34, 0.013, 9.79, 0.210), 16384: (24.63, 0.026, 19.35, 0.421),
    32768: (49.60, 0.051, 38.72, 0.838), 65536: (98.93, 0.102, 77.46, 1.681), 131072: (283.15, 0.204, 180.06, 3.353),
    262144: (728.18, 0.413, 373.46, 6.725),
}
#: Medians of the publication's 360 raw files in ms: blocks: (write, dry write, read, random-order write).
RECOMPUTED = {
    128: (0.185, 0.002, 0.184, 0.165), 256: (0.282, 0.002, 0.283, 0.268), 512: (0.533, 0.002, 0.540, 0.471),
    1024: (0.984, 0.002, 1.048, 1.066), 2048: (3.01, 0.004, 2.35, 3.03), 4096: (6.46, 0.006, 4.67, 6.32),
    8192: (12.46, 0.009, 9.37, 13.11), 16384: (25.31, 0.017, 19.26, 27.88), 32768: (50.53, 0.031, 39.44, 58.79),
    65536: (102.4, 0.060, 86.7, 119.9), 131072: (205.0, 0.114, 168.4, 247.9), 262144: (416.5, 0.223, 348.8, 513.5),
}


def run(bench: Bench) -> Result:
    """Repeat the experiment for every size that fits, sizes in turns, and compare."""
    tempbuffers.need_toolkit(bench.server)
    bench.pgbench_tables(bench.scale(full=10, quick=2))
    filler = tempbuffers.Filler.measure(bench.server)
    largest, reason = tempbuffers.largest_size(bench.server)
    cuts = []
    if largest < tempbuffers.SIZES[-1]:
        cuts.append(f"sizes above {largest:,} blocks were left out ({reason})")
    if bench.quick and largest > QUICK_SIZE:
        largest = QUICK_SIZE
        cuts = [f"sizes above {QUICK_SIZE:,} blocks were left out (--quick)"]
    sizes = [size for size in tempbuffers.SIZES if size <= largest]
    done = measure(bench, filler, {size: repetitions_of(bench, size) for size in sizes})
    if cuts:
        bench.say("  cut: " + "; ".join(cuts))
    return present(bench, sizes, done, cuts)


def repetitions_of(bench: Bench, size: int) -> int:
    """How often a size is measured: a number that does not depend on how fast the machine is."""
    return bench.iterations(full=next(times for up_to, times in REPETITIONS.items() if size <= up_to), quick=QUICK_REPETITIONS)


def measure(bench: Bench, filler: tempbuffers.Filler, repetitions: dict[int, int]) -> dict[int, int]:
    """All sizes in turns, so that a slow minute falls on each; returns the repetitions of each size."""
    tempbuffers.ten_steps(bench.server, filler, next(iter(repetitions)))  # discarded: first touch of code and catalogs
    with bench.progress(sum(repetitions.values()), "ten-step experiment") as step:
        for repetition in range(max(repetitions.values())):
            for size, times in repetitions.items():
                if repetition < times:
                    bench.raw.add("this machine", repetition, size, **tempbuffers.ten_steps(bench.server, filler, size))
                    step(f"{size:,} blocks")
    return repetitions


def present(bench: Bench, sizes: list[int], repetitions: dict[int, int], cuts: list[str]) -> Result:
    """Tables and plots from bench.raw."""
    here = {size: tempbuffers.constants(bench.raw, size, "this machine") for size in sizes}

    def ms(step: str, size: int) -> Estimate:
        return bench.estimate(step, "this machine", size)

    times = Table(
        "Milliseconds: the publication's table, and this machine",
        ["blocks", "size", *(f"{step} | {where}" for step in ("write", "dry write", "read", "dry read") for where in ("published", "here"))],
        [[size, human_bytes(size * tempbuffers.BLOCK)] + _beside(size, ms) for size in sizes],
        note="Dry: the same call again with nothing left to write or read. The publication prints no row for 128 and 256 blocks.")
    ratios = Table(
        "In units of one sequential page read, which is what the planner's constants are",
        ["blocks", *(f"{term} | {where}" for term in ("write / read", "random-order write / read", "scan term") for where in ("published", "here")),
         "repetitions"],
        [[size, RECOMPUTED[size][0] / RECOMPUTED[size][2], here[size]["write"], RECOMPUTED[size][3] / RECOMPUTED[size][2],
          here[size]["random_write"], RECOMPUTED[size][1] / RECOMPUTED[size][2], here[size]["scan"], here[size]["write"].n]
         for size in sizes],
        note=f"Published: {SOURCE}. Here recomputed from the medians of the publication's own 360 raw files. Its formula is 1.3 for each dirty page and 0.01 "
             "for each allocated buffer. The scan term is the dry flush for each allocated buffer.")
    ordered = Table(
        "Microseconds a page: writing one by one in buffer order, and sorted and coalesced by pg_lean",
        ["blocks", "new file | one by one", "again, in order | one by one", "again, in order | coalesced", "again, in order | ratio",
         "again, after random read | one by one", "again, after random read | coalesced", "again, after random read | ratio"],
        [[size, *(_per_page(ms(step, size), size) for step in ("flush", "flush_again", "flush_again_coalesced")),
          _pair(bench, "flush_again_coalesced", "flush_again", size),
          *(_per_page(ms(step, size), size) for step in ("random_flush", "random_flush_coalesced")),
          _pair(bench, "random_flush_coalesced", "random_flush", size)] for size in sizes],
        note="The same pages each time, marked dirty between. make bench-flush measures this alone and with more repetitions.")
    steady = [size for size in sizes if size >= 2048] or sizes[-1:]
    write = Estimate.of(here[size]["write"].median for size in steady)
    scan = Estimate.of(here[size]["scan"].median for size in steady)
    random_write = Estimate.of(here[size]["random_write"].median for size in steady)
    summary = (f"From {steady[0]:,} blocks up, writing a dirty temporary page costs {write.median:.2f} page reads here "
               f"({random_write.median:.2f} after reading in random order), and looking at a clean buffer {scan.median:.4f}; "
               "the formula that danolivo published says 1.30 and 0.01.")
    blocks: list[Any] = [times, ratios, _curves(sizes, ms), _ratio_curves(sizes, here), ordered]
    if cuts:
        blocks.append(Note("; ".join(cuts) + ".", "What was cut"))
    where = "a private cluster with checksums on" if isinstance(bench.server, Cluster) else "the user's own server"
    large = sizes[-1]
    pages = {step: _per_page(ms(step, large), large) for step in ("random_flush", "random_flush_coalesced")}
    return Result(
        title=TITLE,
        summary=summary,
        blocks=blocks,
        headlines=[
            Headline(
                f"writing {large:,} dirty temporary pages that came in random order: one by one, and sorted and joined",
                _pair(bench, "random_flush", "random_flush_coalesced", large),
                [("one by one", pages["random_flush"]), ("pg_lean", pages["random_flush_coalesced"])],
                "µs a page",
            )
        ],
        what="Milliseconds of writing all dirty temporary buffers of a session (`pg_flush_local_buffers()`), of reading a temporary table into "
        "them (`pg_read_temp_relation()`), in file order and at random, and of the same calls when there is nothing to do. Tables are "
        "filled from `pgbench_accounts`.",
        how=f"The ten steps of the publication ({SOURCE}), each run in a new session with `temp_buffers` at 110 % of the table, on {where}; "
        f"{min(repetitions.values())} to {max(repetitions.values())} repetitions of each size, sizes in turns. Time is the Execution Time of `EXPLAIN "
        "(ANALYZE, TIMING OFF)`, and the counted local "
        "blocks are checked at each step. Flushes are done page by page in buffer order as in the publication "
        "(`parallel_temp.debug_flush_method = buffer_order`), except in columns named coalesced. The scan term comes from many dry flushes in "
        "one statement, because EXPLAIN shows no less than a microsecond. Parallel query over temporary tables is off. "
        "Medians with 95 % intervals; ratios are taken within a repetition.",
    )


def _beside(size: int, ms: Any) -> list[Any]:
    """Published and measured here, in turns."""
    published = PUBLISHED.get(size, (None,) * 4)
    row: list[Any] = []
    for figure, step in zip(published, ("flush", "dry_flush", "read", "dry_read")):
        row += [figure, ms(step, size)]
    return row


def _per_page(estimate: Estimate, size: int) -> float:
    return estimate.median * 1000 / size


def _pair(bench: Bench, step: str, base: str, size: int) -> Estimate:
    return bench.raw.ratio(step, "this machine", "this machine", size, base_metric=base)


def _curves(sizes: list[int], ms: Any) -> Plot:
    def per_page(name: str, step: str) -> Series:
        found = [ms(step, size) for size in sizes]
        return Series(name, sizes, [e.median * 1000 / size for e, size in zip(found, sizes)],
                      [e.low * 1000 / size for e, size in zip(found, sizes)], [e.high * 1000 / size for e, size in zip(found, sizes)])

    published = [size for size in sizes if size in RECOMPUTED]
    return Plot("Microseconds a page", "table size in blocks", "µs a page",
                [per_page("write", "flush"), per_page("read", "read"), per_page("random-order write", "random_flush"),
                 Series("write, published", published, [RECOMPUTED[size][0] * 1000 / size for size in published], dashed=True),
                 Series("read, published", published, [RECOMPUTED[size][2] * 1000 / size for size in published], dashed=True)],
                log_x=True, note="Bands are 95 % intervals of the medians. Published: medians of the publication's raw files, on another machine.")


def _ratio_curves(sizes: list[int], here: dict[int, Any]) -> Plot:
    def curve(name: str, key: str) -> Series:
        found = [here[size][key] for size in sizes]
        return Series(name, sizes, [e.median for e in found], [e.low for e in found], [e.high for e in found])

    return Plot("Write over read", "table size in blocks", "page reads a page written",
                [curve("this machine", "write"), curve("random order", "random_write"),
                 Series("published", sizes, [RECOMPUTED[size][0] / RECOMPUTED[size][2] for size in sizes], dashed=True),
                 Series("formula: 1.3", sizes, [1.3] * len(sizes), dashed=True)], log_x=True)
