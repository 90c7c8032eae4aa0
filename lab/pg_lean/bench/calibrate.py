"""This machine's prices, of a flush and of parallel plans over temporary tables: what pg-lean calibrate measures and can set."""

from __future__ import annotations

import math

from pg_lean import prices, tempbuffers
from pg_lean.bench import Bench, Estimate, Result, Table, human_bytes
from pg_lean.measure import Measurements

TITLE = "Calibration: this machine's prices of a flush and of parallel plans over temporary tables"
PRELOAD = ("parallel_temp",)

#: Settings of the flush cost and the column of the table that they come from, and the published constants.
SETTINGS_OF = {"parallel_temp.flush_page_cost": "write", "parallel_temp.scan_buffer_cost": "scan"}
PUBLISHED = {"parallel_temp.flush_page_cost": 1.3, "parallel_temp.scan_buffer_cost": 0.01}


def run(bench: Bench) -> Result:
    """The ten-step experiment with pg_lean's writes, for sizes whose cost matters; then the cost constants of parallel plans."""
    tempbuffers.need_toolkit(bench.server)
    bench.pgbench_tables(bench.scale(full=5, quick=2))
    filler = tempbuffers.Filler.measure(bench.server)
    largest, _reason = tempbuffers.largest_size(bench.server)
    sizes = [size for size in bench.pick(full=(2048, 4096, 8192, 16384, 32768), quick=(2048, 4096, 8192)) if size <= largest] or [largest]
    repetitions = bench.iterations(full=15, quick=5)
    tempbuffers.ten_steps(bench.server, filler, sizes[0], method="coalesced", settings={})
    with bench.progress(repetitions * len(sizes), "calibrating") as step:
        for repetition in range(repetitions):
            for size in sizes:
                bench.raw.add("this machine", repetition, size,
                              **tempbuffers.ten_steps(bench.server, filler, size, method="coalesced", settings={}))
                step(f"{size:,} blocks")
    in_plans = [size for size in bench.pick(full=prices.PAGES, quick=(1024, 2048)) if size <= largest] or [largest]
    with bench.progress(repetitions * len(in_plans), "prices of parallel plans") as step:
        prices.measure_into(bench.raw, bench.server, in_plans, repetitions, step)

    found = {size: {**tempbuffers.constants(bench.raw, size, "this machine"),
                    "again": bench.raw.ratio("flush_again", "this machine", "this machine", size, base_metric="read")}
             for size in sizes}
    best = recommended(bench.raw)
    columns = ("write", "again", "random_write", "scan")
    table = Table("In units of one sequential page read of a temporary table", ["blocks", "size", "write, new file", "write again",
                  "write again, after random read", "scan a buffer"],
                  [[size, human_bytes(size * tempbuffers.BLOCK), *(found[size][key] for key in columns)] for size in sizes],
                  note="The first write of a page of a new file also pays for its place on disk where the load only lengthened the file.")
    priced = {size: prices.constants(bench.raw, size) for size in in_plans}
    plans = Table("Parallel plans, in units of the server's time for rows", ["blocks", "start of a worker", "page in buffers", "entering a page",
                  "a unit, us", "a row, us", "a page, us"],
                  [[size, *(priced[size][key] for key in ("start", "held", "enter", "unit", "row", "page"))] for size in in_plans])
    advice = Table("Settings", ["setting", "default", "this machine"],
                   [[name, default, best[name] if math.isfinite(best[name]) else "not measured"]
                    for name, default in {**PUBLISHED, **prices.DEFAULTS}.items()])
    return Result(
        title=TITLE,
        summary=f"Here `parallel_temp.flush_page_cost = {best['parallel_temp.flush_page_cost']:.2f}` and "
        f"`parallel_temp.scan_buffer_cost = {best['parallel_temp.scan_buffer_cost']:.4f}`; the published constants are 1.3 and 0.01. Plans: "
        + ", ".join(f"`{name} = {value:.3g}`" for name, value in prices.settings(bench.raw).items())
        + ".",
        what="What the planner prices: writing one dirty temporary page before a parallel query, and looking at one buffer, in units of reading "
        "one page of a temporary table from its file; starting workers, entering a page into a worker's buffers, and reading a page that is in "
        "temporary buffers, in units of the server's time for rows.",
        how=f"The ten-step experiment with tables loaded and pages written as pg_lean does it, {repetitions} repetitions of each size in turns, a "
        "new session each. A setting is the median over the sizes of each size's median. The write of a page of a new file is taken, "
        "because a table is mostly flushed once, after its load. The prices of plans are differences of two statements each: "
        "serial scans of as many pages with few rows and with many, a scan by two workers and without, less what they save by the server's estimate; "
        "lookups by workers through a "
        "large table's index and a small one's.",
        blocks=[advice, table, plans],
    )


def recommended(raw: Measurements) -> dict[str, float]:
    """The settings that follow from the raw rows of a calibration."""
    sizes = list(dict.fromkeys(row["case"] for row in raw.select("this machine")))
    per_size = [tempbuffers.constants(raw, size, "this machine") for size in sizes]
    flush = {setting: Estimate.of(constants[key].median for constants in per_size).median for setting, key in SETTINGS_OF.items()}
    return {**flush, **prices.recommended(raw)}
