"""DDL in a database with thousands of chunk stores, compared with the same in one with as many TOAST tables."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from pg_lean.bench import Bench, Check, Note, Result, Table
from pg_lean.measure import cpu_seconds

TITLE = "DDL with thousands of chunk stores: compared with TOAST tables"
PRELOAD = ()
#: Fewer locks than tables: what looks at all tables must not keep them.
SETTINGS = {"autovacuum": "off", "synchronous_commit": "off", "wal_level": "logical", "max_locks_per_transaction": "10"}

TYPES = {"stock": "bytea", "pg_lean": "appendable_bytea"}
#: Statements whose time must not depend on the number of stores, with what prepares and what undoes each; %s: the type.
PLAIN, TEMPORARY, OWN, PUBLISH, ALTER = (
    "DROP TABLE, plain",
    "DROP TABLE, temporary",
    "DROP TABLE with the type",
    "CREATE PUBLICATION of one table",
    "ALTER of a partitioned table",
)
CASES: dict[str, tuple[str, str, str]] = {
    PLAIN: ("CREATE TABLE made (id int)", "DROP TABLE made", ""),
    TEMPORARY: ("CREATE TEMP TABLE made (id int)", "DROP TABLE made", ""),
    OWN: ("CREATE TABLE made (data %s)", "DROP TABLE made", ""),
    PUBLISH: ("", "CREATE PUBLICATION p FOR TABLE t0", "DROP PUBLICATION p"),
    ALTER: ("", "ALTER TABLE root ADD COLUMN x int", "ALTER TABLE root DROP COLUMN x"),
}
#: The overhead that is accepted over stock's time; dropping a store drops one more table and index than dropping a TOAST table does.
LIMITS = {PLAIN: 1.2, TEMPORARY: 1.2, PUBLISH: 1.2, ALTER: 1.2}


def run(bench: Bench) -> Result:
    """Fill two databases of one server with tables, and alternate the same statements in both."""
    bench.need_private()
    tables, partitions = bench.pick(full=3000, quick=300), bench.pick(full=1000, quick=100)
    repetitions = bench.iterations(full=21, quick=5)
    with bench.connect() as conn:
        for name in TYPES:
            conn.execute(f"CREATE DATABASE {name}")
    sessions = {name: psycopg.connect(bench.need_private().conninfo, dbname=name, autocommit=True) for name in TYPES}
    try:
        for name, conn in sessions.items():
            fill(bench, conn, name, tables, partitions)
        for case, statements in CASES.items():
            times = 1 if case == ALTER else bench.pick(full=20, quick=5)
            bench.interleave({name: lambda conn=conn, name=name: measured(conn, TYPES[name], statements, times) for name, conn in sessions.items()},
                             repetitions, case=case, warmup=1, text=case)
        start = time.perf_counter()
        problems = sessions["pg_lean"].execute("SELECT count(*) FROM appendable_bytea_check()").fetchone()[0]
        seconds = time.perf_counter() - start
    finally:
        for conn in sessions.values():
            conn.close()
    return present(bench, tables, partitions, repetitions, problems, seconds)


def fill(bench: Bench, conn: psycopg.Connection, name: str, tables: int, partitions: int) -> None:
    if name == "pg_lean":
        conn.execute("SET client_min_messages = warning; CREATE EXTENSION appendable_bytea")
    with bench.progress(tables + partitions, f"tables of {TYPES[name]}") as step:
        for n in range(tables):
            conn.execute(f"CREATE TABLE t{n} (data {TYPES[name]})")
            step("")
        conn.execute(f"CREATE TABLE root (k int, data {TYPES[name]}) PARTITION BY RANGE (k)")
        for n in range(partitions):
            conn.execute(f"CREATE TABLE part{n} (k int, data {TYPES[name]})")
            conn.execute(f"ALTER TABLE root ATTACH PARTITION part{n} FOR VALUES FROM ({n}) TO ({n + 1})")
            step("")
        conn.execute("CHECKPOINT")
    conn.execute("VACUUM ANALYZE pg_class, pg_attribute, pg_depend")


def measured(conn: psycopg.Connection, type_name: str, statements: tuple[str, str, str], times: int) -> dict[str, Any]:
    """Milliseconds of the second statement, and of the server's process for it."""
    before, statement, after = (text.replace("%s", type_name) for text in statements)
    pid, wall, cpu = conn.info.backend_pid, 0.0, 0.0
    for _ in range(times):
        if before:
            conn.execute(before)
        used, start = cpu_seconds(pid) or 0.0, time.perf_counter()
        conn.execute(statement)
        wall, cpu = wall + time.perf_counter() - start, cpu + (cpu_seconds(pid) or 0.0) - used
        if after:
            conn.execute(after)
    return {"ms": wall * 1000 / times, "cpu_ms": cpu * 1000 / times}


def present(bench: Bench, tables: int, partitions: int, repetitions: int, problems: int, seconds: float) -> Result:
    cost = Table("What a statement takes", ["statement", "stock, ms", "pg_lean, ms", "pg_lean / stock", "CPU time: pg_lean / stock"],
                 [[case, bench.estimate("ms", "stock", case), bench.estimate("ms", "pg_lean", case), bench.ratio("ms", "pg_lean", "stock", case),
                   bench.ratio("cpu_ms", "pg_lean", "stock", case)] for case in CASES],
                 note=f"One database has {tables:,} tables with a bytea column and {partitions:,} partitions, the other as many of appendable_bytea.")
    worst = max(LIMITS, key=lambda case: bench.ratio("ms", "pg_lean", "stock", case).median / LIMITS[case])
    ratio = bench.ratio("ms", "pg_lean", "stock", worst)
    return Result(
        title=TITLE,
        summary=f"With {tables:,} chunk stores, the statement that differs most from stock PostgreSQL takes {ratio.median:.2f} of its time ({worst}).",
        what="DDL in a database with the extension, compared with a database of the same server without it.",
        how=f"{repetitions} interleaved repetitions in two sessions of one server.",
        checks=[
            *(Check(f"{case}, of stock's time", bench.ratio("ms", "pg_lean", "stock", case).median, "<=", LIMITS[case]) for case in LIMITS),
            Check("problems that appendable_bytea_check() of all tables finds, with fewer locks than tables", problems, "<=", 0),
        ],
        blocks=[
            cost,
            Note(f"appendable_bytea_check() of all tables, with max_locks_per_transaction = {SETTINGS['max_locks_per_transaction']}: {seconds:.1f} s."),
        ],
    )
