"""The user's picture of parallel_temp: an analysis over a temporary table, stock and pg_lean side by side."""

from __future__ import annotations

import os
from typing import Any, Callable

import psycopg

from pg_lean.bench import Bench, Check, Headline, LabError, Listing, Plot, Result, Series, SideBySide, Table, Unavailable, human_bytes
from pg_lean.measure import explain, explain_text, timed
from pg_lean.names import need_extension_schema

TITLE = "A temporary table in parallel: stock PostgreSQL and pg_lean"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "512MB", "work_mem": "64MB", "max_worker_processes": "16", "max_parallel_workers": "16"}

#: An analyst's queries over an intermediate result: name, statement over temporary table "work".
QUERIES = {
    "count": "SELECT count(*) FROM work",
    "filter": "SELECT count(*), min(balance), max(balance) FROM work WHERE balance BETWEEN -50 AND 50 AND filler <> 'x'",
    "group": "SELECT bid, count(*), avg(balance), max(balance) FROM work GROUP BY bid ORDER BY bid",
    "join": "SELECT w.bid, count(*), sum(w.balance) FROM work w JOIN pgbench_accounts a USING (aid)"
            " WHERE a.abalance = 0 GROUP BY w.bid ORDER BY w.bid",
    "top": "SELECT aid, balance FROM work ORDER BY balance DESC, aid LIMIT 10",
}
#: The query whose plans are shown.
SHOWN = "join"

VARIANTS: dict[str, dict[str, Any]] = {
    "stock": {"parallel_temp.enabled": False},
    "pg_lean": {"parallel_temp.enabled": True, "parallel_temp.method": "auto"},
    "flush first": {"parallel_temp.enabled": True, "parallel_temp.method": "flush"},
}


def run(bench: Bench) -> Result:
    """Fill a temporary table from pgbench_accounts, then run each query by each variant in turns."""
    need_feature(bench)
    schema_scale = bench.scale(full=20, quick=5)
    bench.pgbench_tables(schema_scale)
    repetitions = bench.iterations(full=11, quick=6)
    workers = max(1, min(4, len(os.sched_getaffinity(0)) - 1))
    rows = schema_scale * 100_000
    with bench.connect(temp_buffers=f"{schema_scale * 18 + 32}MB", max_parallel_workers_per_gather=workers, jit=False) as conn:
        conn.prepare_threshold = None  # a prepared statement would keep the plan of the variant that came first
        fill(bench, conn)
        size = conn.execute("SELECT pg_relation_size('work')").fetchone()[0]
        answers = {name: {variant: answer(bench, conn, settings, query) for variant, settings in VARIANTS.items()}
                   for name, query in QUERIES.items()}
        wrong = [name for name, found in answers.items() if any(rows != found["stock"] for rows in found.values())]
        if wrong:
            raise LabError(f"different answers with and without pg_lean: {', '.join(wrong)}", "This is a fault of pg_lean; please report it.")
        for name, query in QUERIES.items():
            bench.interleave({variant: run_query(bench, conn, settings, query) for variant, settings in VARIANTS.items()},
                             repetitions, case=name)
        plans = {}
        for variant, settings in VARIANTS.items():
            dirty(bench, conn, settings)
            plans[variant] = explain_text(conn, QUERIES[SHOWN], "ANALYZE, BUFFERS, COSTS OFF")
        launched = {name: explain_workers(bench, conn, name) for name in QUERIES}
    return present(bench, rows, size, workers, repetitions, plans, launched)


def need_feature(bench: Bench) -> None:
    with bench.connect() as conn:
        try:
            bench.server.set(conn, VARIANTS["flush first"])
        except psycopg.Error as error:
            raise Unavailable(f"this parallel_temp cannot run temporary tables in parallel: {error.diag.message_primary}") from None


def fill(bench: Bench, conn: psycopg.Connection) -> None:
    with bench.activity("filling a temporary table from pgbench_accounts"):
        conn.execute("CREATE TEMP TABLE work AS SELECT aid, bid, mod(hashint4(aid), 10000) AS balance, filler FROM pgbench_accounts")
        conn.execute("ANALYZE work")
        conn.execute("ANALYZE pgbench_accounts")


def dirty(bench: Bench, conn: psycopg.Connection, settings: dict[str, Any]) -> None:
    """The state that a query finds after a load: every page of the table resident and not written."""
    bench.server.set(conn, settings)
    ext = need_extension_schema(conn, "parallel_temp")
    conn.execute(f"SELECT {ext}.pg_read_temp_relation('work'::regclass, false), {ext}.pg_temp_buffers_dirty('work'::regclass)")


def run_query(bench: Bench, conn: psycopg.Connection, settings: dict[str, Any], query: str) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        dirty(bench, conn, settings)
        return timed(conn, query)
    return measure


def answer(bench: Bench, conn: psycopg.Connection, settings: dict[str, Any], query: str) -> list[tuple[Any, ...]]:
    bench.server.set(conn, settings)
    return conn.execute(query).fetchall()


def explain_workers(bench: Bench, conn: psycopg.Connection, name: str) -> int:
    """Workers that pg_lean's plan of a query launched."""
    dirty(bench, conn, VARIANTS["pg_lean"])

    def launched(node: dict[str, Any]) -> int:
        return max([node.get("Workers Launched", 0), *(launched(child) for child in node.get("Plans", []))])

    return launched(explain(conn, QUERIES[name])["Plan"])


def present(bench: Bench, rows: int, size: int, workers: int, repetitions: int, plans: dict[str, str], launched: dict[str, int]) -> Result:
    """Tables, plot, plans."""
    def speedup(variant: str, name: str) -> Any:
        return bench.ratio("ms", "stock", variant, name)

    table = Table("Milliseconds, every page of the table dirty in memory at the start",
                  ["query", *(f"time | {variant}" for variant in VARIANTS), "times as fast as stock | pg_lean", "times as fast as stock | flush first",
                   "workers"],
                  [[name, *(bench.estimate("ms", variant, name) for variant in VARIANTS), speedup("pg_lean", name), speedup("flush first", name),
                    launched[name]] for name in QUERIES])
    plot = Plot("Milliseconds", "query", "ms", [Series(variant, list(QUERIES), [bench.estimate("ms", variant, name).median for name in QUERIES])
                                               for variant in VARIANTS], kind="bar")
    total = bench.raw.ratio_of_sums("ms", "stock", "pg_lean", list(QUERIES))
    spent = {variant: sum(bench.estimate("ms", variant, name).median for name in QUERIES) for variant in ("stock", "pg_lean")}
    gains = {name: speedup("pg_lean", name).median for name in QUERIES}
    best = max(gains, key=lambda name: gains[name])
    return Result(
        title=TITLE,
        summary=f"Over a temporary table of {rows:,} rows ({human_bytes(size)}), with {workers} worker{'s' if workers > 1 else ''} and the leader, "
                f"queries are {min(gains.values()):.2f} to {gains[best]:.2f} times as fast as stock ({best} most), with the same answers.",
        what="The time of an analyst's queries over a temporary table filled from `pgbench_accounts`: "
             + "; ".join(f"{name}: `{query}`" for name, query in QUERIES.items()) + ".",
        how=f"One session. `stock` is `parallel_temp.enabled = off`, which plans as PostgreSQL without the library does; `pg_lean` lets workers read "
            "the leader's buffers; `flush first` writes the dirty pages before the workers start, as the published design does. Before each run all "
            f"pages are made resident and dirty. {repetitions} repetitions, variants in turns; time as the client sees it. The answers of the "
            "variants are compared first.",
        headlines=[Headline(f"{len(QUERIES)} queries over a temporary table of {rows:,} rows, leader and {workers} worker{'s' if workers > 1 else ''}",
                            total, list(spent.items()))],
        blocks=[table, plot,
                SideBySide(f"EXPLAIN (ANALYZE, BUFFERS) of {SHOWN}", [Listing(variant, plans[variant]) for variant in ("stock", "pg_lean")]),
                Listing("The same with the flush first", plans["flush first"], folded=True), Listing("The query", QUERIES[SHOWN] + ";", folded=True)],
        checks=[Check("count: times as fast as stock", gains["count"], ">=", 1.8, "x")] if not bench.quick else [])
