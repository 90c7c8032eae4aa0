"""Sorted and coalesced flush of temp buffers against writing the same pages one by one, in one run."""

from __future__ import annotations

from pg_lean import tempbuffers
from pg_lean.bench import Bench, Check, Estimate, Headline, Plot, Result, Series, Table, human_bytes
from pg_lean.measure import cpu_seconds, explain
from pg_lean.names import need_extension_schema

TITLE = "Flushing temporary buffers: sorted and coalesced against page by page"
PRELOAD = ("parallel_temp",)

METHODS = {"one by one": "buffer_order", "sorted": "sorted", "pg_lean": "coalesced"}


def run(bench: Bench) -> Result:
    """Dirty the same resident pages repeatedly and flush them by each method in turn."""
    tempbuffers.need_toolkit(bench.server)
    bench.pgbench_tables(bench.scale(full=10, quick=2))
    filler = tempbuffers.Filler.measure(bench.server)
    largest, _reason = tempbuffers.largest_size(bench.server)
    sizes = [size for size in bench.pick(full=(1024, 4096, 16384, 65536), quick=(1024, 8192)) if size <= largest]
    repetitions = bench.iterations(full=25, quick=9)

    for blocks in sizes:
        with bench.connect(temp_buffers=tempbuffers.temp_buffers_for(blocks), jit=False, **tempbuffers.PLAIN) as conn:
            pid = conn.info.backend_pid if bench.server.backend_is_local(conn) else None
            conn.execute(filler.statement("t", blocks))
            ext = need_extension_schema(conn, "parallel_temp")
            for order in ("in order", "at random"):
                conn.execute(f"SELECT {ext}.pg_evict_temp_relation('t'::regclass)")
                conn.execute(f"SELECT {ext}.pg_read_temp_relation('t'::regclass, %s::bool)", (order == "at random",))

                def flush(method: str) -> dict[str, float]:
                    conn.execute(f"SELECT {ext}.pg_temp_buffers_dirty('t'::regclass)")
                    bench.server.set(conn, {"parallel_temp.debug_flush_method": method})
                    before = cpu_seconds(pid) if pid else None
                    plan = explain(conn, f"SELECT {ext}.pg_flush_local_buffers()")
                    after = cpu_seconds(pid) if pid else None
                    written = plan["Plan"]["Local Written Blocks"]
                    assert written >= blocks, f"{written} blocks written instead of {blocks}"
                    return {"ms": plan["Execution Time"], "us_per_page": plan["Execution Time"] * 1000 / written, "written": written,
                            "cpu_us_per_page": None if before is None else (after - before) * 1e6 / written}

                bench.interleave({name: lambda method=method: flush(method) for name, method in METHODS.items()}, repetitions,
                                 case=f"{blocks} {order}", warmup=2, text=f"{blocks:,} blocks, read {order}")
    return present(bench, sizes, repetitions)


def present(bench: Bench, sizes: list[int], repetitions: int) -> Result:
    """Tables, plot and the target of 0.8."""
    cases = [(blocks, order) for blocks in sizes for order in ("in order", "at random")]
    ratio = {case: bench.ratio("us_per_page", "pg_lean", "one by one", f"{case[0]} {case[1]}") for case in cases}

    def table(title: str, metric: str, note: str) -> Table:
        return Table(title, ["blocks", "size", "pages came in", *METHODS, "pg_lean / one by one"],
                     [[blocks, human_bytes(blocks * tempbuffers.BLOCK), order,
                       *(bench.estimate(metric, name, f"{blocks} {order}") for name in METHODS),
                       bench.ratio(metric, "pg_lean", "one by one", f"{blocks} {order}")] for blocks, order in cases], note)

    series = [Series(name, [f"{blocks:,} {order}" for blocks, order in cases],
                     [bench.estimate("us_per_page", name, f"{blocks} {order}").median for blocks, order in cases]) for name in METHODS]
    overall = {order: Estimate.of(ratio[blocks, order].median for blocks in sizes) for order in ("in order", "at random")}
    return Result(
        title=TITLE,
        summary=f"A page costs {overall['in order'].median:.2f} of a page written alone when pages came in order, and "
                f"{overall['at random'].median:.2f} when they came at random.",
        what="The time of `pg_flush_local_buffers()` over the pages written: one by one in the order of the buffers, one by one sorted by file "
             "and block, and sorted with adjacent blocks joined into one vectored write (as pg_lean does).",
        how=f"One session for each size. The pages of one temporary table are resident, are marked dirty, and are flushed by each method in turn, "
            f"{repetitions} times after two discarded rounds. Every page has been written before, so no method pays for a new file's first "
            "write. Time is EXPLAIN's Execution Time. Writes go to the kernel's page cache, as temporary files' writes do.",
        blocks=[table("Microseconds a page", "us_per_page", ""),
                table("Microseconds of processor time a page", "cpu_us_per_page",
                      "Of the server's process with its system calls, EXPLAIN itself included: what is left of the comparison on a busy machine."),
                Plot("Microseconds a page", "blocks, and how they came into the buffers", "µs a page", series, kind="bar")],
        headlines=[Headline(f"writing {sizes[-1]:,} dirty temporary pages that came in {'file order' if order == 'in order' else 'random order'}",
                            bench.ratio("us_per_page", "one by one", "pg_lean", f"{sizes[-1]} {order}"),
                            [(name, bench.estimate("us_per_page", name, f"{sizes[-1]} {order}").median) for name in ("one by one", "pg_lean")], "µs a page")
                   for order in ("in order", "at random")],
        checks=[Check(f"cost of a page over one written alone, pages read {order}", overall[order].median, "<=", 0.8)
                for order in overall])
