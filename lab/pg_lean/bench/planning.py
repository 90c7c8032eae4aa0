"""What planning with workers in mind costs statements over temporary tables: joins of 2 to 12 tables.

A statement over temporary tables may be planned a second time, to see whether workers would be
faster.  Here most of them stay serial, or are so short that planning is a large part of their
time: joins in a chain, whose tables are each joined with the one before, and joins in which any
two tables may be joined, which take far longer to plan.  Each is run as a SELECT, an INSERT, a
CREATE TABLE AS and a prepared statement that is planned each time, and again after a DDL
command of the session, with parallel_temp.enabled on and off.
"""

from __future__ import annotations

from typing import Any, Callable

import psycopg

from pg_lean.bench import Bench, Check, Headline, Result, Table
from pg_lean.measure import Estimate, timed

TITLE = "Statements over 2 to 12 temporary tables, planning included"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "128MB", "autovacuum": "off"}

#: Largest accepted ratio to a statement's time without the library's plans.
LIMIT = 1.05
#: Where that is not decided after the repetitions, so many times as many.
LONGER = 4

TABLES = range(2, 13)
#: Joins: the condition by which table {i} is joined with those before it.
JOINS = {"in a chain": "JOIN t{i} ON t{i}.id = t{before}.next", "any two tables": "JOIN t{i} USING (id)"}
#: Kinds of statements: what is run before each, and the statement over "FROM ...".
STATEMENTS: dict[str, tuple[str, str]] = {
    "SELECT": ("", "SELECT count(*) {source}"),
    "INSERT": ("TRUNCATE filled", "INSERT INTO filled SELECT t1.id {source}"),
    "CREATE TABLE AS": ("DROP TABLE IF EXISTS made", "CREATE TEMP TABLE made AS SELECT t1.id {source}"),
    "prepared": ("", "EXECUTE kept"),
    "SELECT after DDL": ("CREATE TEMP TABLE zz (a int); DROP TABLE zz", "SELECT count(*) {source}"),
}


def source_of(join: str, tables: int) -> str:
    """The FROM clause of that many tables."""
    return "FROM t1 " + " ".join(JOINS[join].format(i=i, before=i - 1) for i in range(2, tables + 1))


def run(bench: Bench) -> Result:
    """All joins, one after the other."""
    bench.server.need_function("parallel_temp_stats()")
    rows = bench.pick(full=10_000, quick=2_000)
    numbers = bench.pick(full=tuple(TABLES), quick=(2, 5, 8))
    repetitions = bench.iterations(full=40, quick=3)
    found: dict[tuple[str, str, int], tuple[Estimate, Estimate]] = {}
    with bench.connect(temp_buffers="64MB", jit=False) as conn:
        conn.prepare_threshold = None
        with bench.activity("making the tables"):
            for i in range(1, max(TABLES) + 1):
                conn.execute(f"CREATE TEMP TABLE t{i} AS SELECT g AS id, g % {rows} + 1 AS next, repeat('x', 20) AS pad FROM generate_series(1, {rows}) g")
                conn.execute(f"CREATE INDEX ON t{i} (id)")
            conn.execute("CREATE TEMP TABLE filled (id int)")
            conn.execute("ANALYZE")
            conn.execute("SET plan_cache_mode = force_custom_plan")
        for join in JOINS:
            for tables in numbers:
                for kind in STATEMENTS:
                    found[join, kind, tables] = measure_one(bench, conn, join, kind, tables, repetitions)
    worst, where = max((ratio.median, f"{kind} over {tables} tables, {join}") for (join, kind, tables), (ratio, _) in found.items())
    lost = [key for key, (ratio, _) in found.items() if ratio.low > LIMIT]
    return Result(
        title=TITLE,
        summary=f"With parallel_temp.enabled statements take at most {worst:.2f} of their time without it ({where}); "
                f"{len(lost)} of {len(found)} certainly take more than {LIMIT}.",
        what="The time of the statement as the client sees it, planned each time. Ratios of one session with `parallel_temp.enabled` on and off.",
        how=f"{rows:,} rows in each table; {repetitions} interleaved repetitions, up to {LONGER} times as many where the interval does not decide; "
            "medians with 95 % intervals.",
        blocks=[Table(f"Time with parallel_temp.enabled over time without, joins {join}", ["tables", *STATEMENTS, "SELECT without, ms"],
                      [[tables, *(found[join, kind, tables][0] for kind in STATEMENTS), found[join, "SELECT", tables][1]] for tables in numbers])
                for join in JOINS],
        headlines=[Headline(f"the slowest of {len(found)} statements over 2 to 12 tables", found[max(found, key=lambda key: found[key][0].median)][0], [])],
        checks=[Check(f"statements that certainly take more than {LIMIT} of their time", len(lost), "<=", 0)],
    )


def measure_one(bench: Bench, conn: psycopg.Connection, join: str, kind: str, tables: int, repetitions: int) -> tuple[Estimate, Estimate]:
    """One statement over that many tables, with and without: the ratio, and the time without."""
    before, statement = STATEMENTS[kind]
    source = source_of(join, tables)
    statement = statement.format(source=source)
    case = f"{join}, {kind}, {tables}"
    if kind == "prepared":
        conn.execute("DEALLOCATE ALL")
        conn.execute(f"PREPARE kept AS SELECT count(*) {source}")

    def variant(enabled: bool) -> Callable[[], Any]:
        def measure() -> Any:
            bench.server.set(conn, {"parallel_temp.enabled": enabled})
            for command in filter(None, before.split("; ")):
                conn.execute(command)
            return timed(conn, statement)
        return measure

    def settled() -> bool:
        ratio = bench.ratio("ms", "on", "off", case)
        return ratio.high <= LIMIT or ratio.low > LIMIT

    bench.interleave({"off": variant(False), "on": variant(True)}, repetitions, case=case, most=repetitions * LONGER, settled=settled)
    return bench.ratio("ms", "on", "off", case), bench.estimate("ms", "off", case)
