"""One query plain, under core's EXPLAIN ANALYZE, and under light_explain's: three wall times, and both plans."""

from __future__ import annotations

from typing import Any, Callable

import psycopg
from psycopg.rows import dict_row

from pg_lean.bench import Bench, Flame, Headline, Listing, Plot, Result, Series, SideBySide, Table
from pg_lean.commands.flame import of_statement
from pg_lean.measure import explain_text, timed

TITLE = "EXPLAIN ANALYZE: what measuring a query does to it"
PRELOAD = ("light_explain",)
SETTINGS = {"shared_buffers": "512MB", "work_mem": "64MB"}

#: Name, statement over the pgbench tables.  The first one's plans are shown.
QUERIES = {
    "join and group": "SELECT b.bid, count(*), sum(a.abalance) FROM pgbench_accounts a JOIN pgbench_branches b USING (bid)"
                      " GROUP BY b.bid ORDER BY b.bid",
    "count": "SELECT count(*) FROM pgbench_accounts",
    "index lookups": "SELECT count(a.abalance) FROM generate_series(1, 100000, 2) g JOIN pgbench_accounts a ON a.aid = g",
}
OPTIONS = "ANALYZE, BUFFERS, COSTS OFF"


def run(bench: Bench) -> Result:
    """Each query three ways in turns, warm cache, no parallel workers, no JIT."""
    bench.server.need_extension("light_explain")
    bench.pgbench_tables(bench.scale(full=20, quick=5))
    repetitions = bench.iterations(full=11, quick=6)
    with bench.connect(jit=False, max_parallel_workers_per_gather=0, enable_hashjoin=True) as conn:
        for query in QUERIES.values():
            conn.execute(query).fetchall()
        for name, query in QUERIES.items():
            prepare(conn, name)
            bench.interleave({"plain": lambda query=query: timed(conn, query), "stock EXPLAIN ANALYZE": analyzed(bench, conn, query, False),
                              "pg_lean EXPLAIN ANALYZE": analyzed(bench, conn, query, True)}, repetitions, case=name)
        first = next(iter(QUERIES))
        prepare(conn, first)
        plans = []
        for name, enabled in (("stock", False), ("pg_lean", True)):
            bench.server.set(conn, {"light_explain.enabled": enabled})
            plans.append(Listing(name, explain_text(conn, QUERIES[first], OPTIONS)))
        conn.row_factory = dict_row
        flame = Flame(
            f"Where its time went: {first}",
            of_statement(conn, QUERIES[first]),
            "A box stands on the node that called it and is as wide as its own time and that of all boxes on it, under pg_lean's EXPLAIN ANALYZE; pg-lean "
            "flame draws any statement.",
        )
    return present(bench, repetitions, plans, flame)


def prepare(conn: psycopg.Connection, name: str) -> None:
    """Index lookups want a nested loop whatever the statistics say."""
    conn.execute(f"SET enable_hashjoin = {'off' if name == 'index lookups' else 'on'}")
    conn.execute(f"SET enable_mergejoin = {'off' if name == 'index lookups' else 'on'}")


def analyzed(bench: Bench, conn: psycopg.Connection, query: str, enabled: bool) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        bench.server.set(conn, {"light_explain.enabled": enabled})
        return timed(conn, f"EXPLAIN ({OPTIONS}) {query}")
    return measure


def present(bench: Bench, repetitions: int, plans: list[Listing], flame: Flame) -> Result:
    """Three wall times and how much each way of measuring adds."""
    ways = ("plain", "stock EXPLAIN ANALYZE", "pg_lean EXPLAIN ANALYZE")

    def slower(way: str, name: str) -> Any:
        return bench.ratio("ms", way, "plain", name)

    table = Table("Milliseconds, and times the plain query's",
                  ["query", *(f"time | {way.replace(' EXPLAIN ANALYZE', '')}" for way in ways), "over plain | stock", "over plain | pg_lean"],
                  [[name, *(bench.estimate("ms", way, name) for way in ways), slower(ways[1], name), slower(ways[2], name)] for name in QUERIES])
    plot = Plot("Milliseconds", "query", "ms", [Series(way, list(QUERIES), [bench.estimate("ms", way, name).median for name in QUERIES])
                                               for way in ways], kind="bar")
    first = next(iter(QUERIES))
    return Result(
        title=TITLE,
        summary=f"The query \"{first}\" takes {bench.estimate('ms', 'plain', first).median:,.0f} ms plain, "
                f"{bench.estimate('ms', ways[1], first).median:,.0f} ms under stock EXPLAIN ANALYZE ({slower(ways[1], first).median:.2f} times), "
                f"{bench.estimate('ms', ways[2], first).median:,.0f} ms with pg_lean ({slower(ways[2], first).median:.2f} times).",
        what="The wall time of a statement and of `EXPLAIN (ANALYZE, BUFFERS)` of it, with PostgreSQL's own instrumentation and with light_explain's: "
             + "; ".join(f"{name}: `{query}`" for name, query in QUERIES.items()) + ".",
        how=f"One session, tables in shared buffers, no parallel workers, no JIT; {repetitions} repetitions, the three ways in turns, time as the "
            "client sees it. `stock` is `light_explain.enabled = off`. `light_explain.timing` is as the server has it.",
        headlines=[Headline(f"EXPLAIN (ANALYZE, BUFFERS) of a query: {first}", bench.ratio("ms", ways[1], ways[2], first),
                            [(way.replace(" EXPLAIN ANALYZE", ""), bench.estimate("ms", way, first).median) for way in (ways[1], ways[0], ways[2])])],
        blocks=[table, plot, SideBySide(f"EXPLAIN ({OPTIONS}) of {first}", plans), flame])
