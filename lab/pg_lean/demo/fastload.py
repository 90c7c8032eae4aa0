"""Loading a temporary table from pgbench data, stock and with pg_lean's fast load, and the first query after it."""

from __future__ import annotations

from typing import Any, Callable

import psycopg

from pg_lean.bench import Bench, Headline, Listing, Plot, Result, Series, SideBySide, Table, Unavailable, human_bytes
from pg_lean.measure import explain_text, timed

TITLE = "Loading a temporary table: stock PostgreSQL and fast load"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "1GB"}

SOURCE = "SELECT aid, bid, abalance, filler FROM pgbench_accounts"
#: Name, statement before the measured one, the measured one.
LOADS = {
    "CREATE TABLE AS": ("", f"CREATE TEMP TABLE loaded AS {SOURCE}"),
    "INSERT ... SELECT": ("CREATE TEMP TABLE loaded (aid int, bid int, abalance int, filler char(84))", f"INSERT INTO loaded {SOURCE}"),
}
VARIANTS = {"stock": False, "pg_lean": True}


def run(bench: Bench) -> Result:
    """Both loads into default temp_buffers (the table spills) and into enough of them, variants in turns."""
    scale = bench.scale(full=20, quick=3)
    bench.pgbench_tables(scale)
    rows, enough = scale * 100_000, scale * 18 + 32
    repetitions = bench.iterations(full=11, quick=6)
    cases = []
    size, plans = 0, []
    for buffers, text in (("8MB", "spills"), (f"{enough}MB", "fits")):
        with bench.connect(temp_buffers=buffers, jit=False, max_parallel_workers_per_gather=0) as conn:
            need_fast_load(bench, conn)
            conn.execute(f"SELECT count(*) FROM ({SOURCE}) s")
            for name, (before, statement) in LOADS.items():
                case = f"{name}, {text}"
                cases.append(case)
                bench.interleave({variant: load(bench, conn, fast, before, statement) for variant, fast in VARIANTS.items()},
                                 repetitions, case=case)
            if not plans:
                for variant, fast in VARIANTS.items():
                    bench.server.set(conn, {"parallel_temp.fast_load": fast})
                    plans.append(Listing(variant, explain_text(conn, LOADS["CREATE TABLE AS"][1], "ANALYZE, BUFFERS, COSTS OFF")))
                    size = conn.execute("SELECT pg_relation_size('loaded')").fetchone()[0]
                    conn.execute("DROP TABLE pg_temp.loaded")
    return present(bench, cases, rows, size, repetitions, plans)


def need_fast_load(bench: Bench, conn: psycopg.Connection) -> None:
    try:
        bench.server.set(conn, {"parallel_temp.fast_load": True})
    except psycopg.Error as error:
        raise Unavailable(f"this parallel_temp has no fast load: {error.diag.message_primary}") from None


def load(bench: Bench, conn: psycopg.Connection, fast: bool, before: str, statement: str) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        bench.server.set(conn, {"parallel_temp.fast_load": fast})
        try:
            with conn.transaction():
                if before:
                    conn.execute(before)
                loading = timed(conn, statement)["ms"]
            first = timed(conn, "SELECT count(*), sum(abalance) FROM loaded")["ms"]
            return {"ms": loading, "query_ms": first, "both_ms": loading + first}
        finally:
            conn.execute("DROP TABLE IF EXISTS pg_temp.loaded")
    return measure


def present(bench: Bench, cases: list[str], rows: int, size: int, repetitions: int, plans: list[Listing]) -> Result:
    """One row a case; the load, the query after it, and both together."""
    def figures(metric: str, case: str) -> list[Any]:
        return [*(bench.estimate(metric, variant, case) for variant in VARIANTS), bench.ratio(metric, "stock", "pg_lean", case)]

    columns = [f"{what} | {name}" for what in ("load", "first query", "both") for name in (*VARIANTS, "times as fast")]
    table = Table("Milliseconds", ["statement", *columns],
                  [[case, *figures("ms", case), *figures("query_ms", case), *figures("both_ms", case)] for case in cases])
    gains = {case: bench.ratio("both_ms", "stock", "pg_lean", case).median for case in cases}
    return Result(
        title=TITLE,
        summary=f"{rows:,} rows ({human_bytes(size)}) are loaded and queried once {min(gains.values()):.2f} to {max(gains.values()):.2f} times as fast "
        "as with stock PostgreSQL.",
        what="The time of `CREATE TEMP TABLE AS` and of `INSERT ... SELECT` into a temporary table created in the same transaction, from "
        "`pgbench_accounts`, and of the first query over it, because a load can leave work behind (pages to write, hint bits to set).",
        how=f"One session for each case: the table spills (`temp_buffers` at its default, 8 MB) or fits; {repetitions} repetitions, `stock` "
            "(`parallel_temp.fast_load = off`) and `pg_lean` in turns; time as the "
        "client sees it, no parallel workers. make bench-extend counts the file extensions and writes behind these times.",
        headlines=[
            Headline(
                f"{cases[0].split(',')[0]} of {rows:,} rows, {human_bytes(size)}, and the first query",
                bench.ratio("both_ms", "stock", "pg_lean", cases[0]),
                [(variant, bench.estimate("both_ms", variant, cases[0]).median) for variant in VARIANTS],
            )
        ],
        blocks=[
            table,
            Plot(
                "Load and first query, milliseconds",
                "",
                "ms",
                [Series(variant, cases, [bench.estimate("both_ms", variant, case).median for case in cases]) for variant in VARIANTS],
                kind="bar",
            ),
            SideBySide("EXPLAIN (ANALYZE, BUFFERS) of CREATE TEMP TABLE AS with default temp_buffers", plans),
        ],
    )
