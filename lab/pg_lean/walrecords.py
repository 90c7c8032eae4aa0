"""What the WAL of a line is made of: records of the server, counted for lines of one length that one session appends to one log."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import psycopg

from pg_lean.bench import Bench, Table
from pg_lean.measure import wal_position

CASE = "WAL of a line"
#: Bytes of a line, how many are counted, and how many are written before: until pages are in the state that appends keep them in.
LENGTH, LINES, BEFORE = 1000, 256, 64

BYTES, ENTRIES, ROW, PRUNING, COMMIT, OTHER = "the line", "entries in indexes", "the row's new version", "pruning", "commit", "other"
PARTS = (BYTES, ENTRIES, ROW, PRUNING, COMMIT, OTHER)


def part(record: str) -> str:
    """Which part a record of the server belongs to, by the name that pg_walinspect has for it."""
    manager, _, kind = record.partition("/")
    if manager == "Heap" and kind.startswith("INSERT"):
        return BYTES
    if manager == "Btree":
        return ENTRIES
    if manager == "Heap" and (kind.startswith(("HOT_UPDATE", "UPDATE")) or kind == "LOCK"):
        return ROW
    if manager == "Heap2" and kind.startswith("PRUNE"):
        return PRUNING
    return COMMIT if manager == "Transaction" else OTHER


def count(conn: psycopg.Connection, append: str) -> dict[str, float]:
    """WAL bytes a line by part, without images of pages, which come after each checkpoint; all: with what aligns records."""
    for _ in range(BEFORE):
        conn.execute(append)
    start = wal_position(conn)
    for _ in range(LINES):
        conn.execute(append)
    end = wal_position(conn)
    # what was not flushed is not to be read
    conn.execute("SELECT pg_switch_wal()")
    found = dict.fromkeys(PARTS, 0.0)
    lsn = "'0/0'::pg_lsn + %s::numeric"
    for record, size in conn.execute(
        f'SELECT "resource_manager/record_type", record_size FROM pg_get_wal_stats({lsn}, {lsn}, true) WHERE count > 0', (start, end)
    ):
        found[part(record)] += float(size) / LINES
    return found | {"all": (end - start) / LINES}


def measure(bench: Bench, conn: psycopg.Connection, appends: Mapping[str, str]) -> list[Table]:
    """A table of the ways in "appends" (statements of a line of LENGTH bytes), each to its own log; none on a server that has no pg_walinspect."""
    if not conn.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_walinspect'").fetchone():
        bench.say("  pg_walinspect is not installed: the WAL of a line is not divided into records")
        return []
    conn.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
    conn.execute("SET synchronous_commit = off")
    conn.execute("CHECKPOINT")
    variants: dict[str, Callable[[], dict[str, float]]] = {name: lambda append=append: count(conn, append) for name, append in appends.items()}
    bench.interleave(variants, 1, case=CASE, warmup=0, text=CASE)

    def cells(metric: str) -> list[Any]:
        return [round(bench.estimate(metric, name, CASE).median) for name in appends]
    return [
        Table(
            f"What the WAL of a line of {LENGTH:,} bytes is made of, bytes",
            ["", *appends],
            [*([name, *cells(name)] for name in PARTS), ["all", *cells("all")]],
            note=f"One session, a transaction each, means of {LINES}, without images of pages; all: with what aligns records. A statement that updates a row "
                 "writes a version of it, "
            "and its commit, whatever it stores.",
        )
    ]
