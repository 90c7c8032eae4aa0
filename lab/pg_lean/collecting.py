"""A collector: one session that gathers lines of many logs and writes them together, a transaction for all."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any, Callable

import psycopg

from pg_lean.bench import Bench, LabError, Table
from pg_lean.measure import wal_position

CASE = "collector"
BATCH, UPDATE, EACH, CHUNKS, LARGE = "appendable_append()", "UPDATE ... FROM unnest", "a statement for each line", "chunk rows", "large objects"


@dataclass(frozen=True)
class Way:
    """SQL of one way; %(ids)s, %(lines)s and %(at)s are arrays: the logs, what goes to each, and where each ends."""

    setup: str
    fill: str
    write: str
    live: str = "SELECT sum(octet_length(log)) FROM {t}"
    each: bool = False


_OURS = dict(
    setup="CREATE TABLE {t} (id int PRIMARY KEY, log appendable_text) WITH (fillfactor = 80, autovacuum_enabled = off)",
    fill="INSERT INTO {t} SELECT i, '' FROM generate_series(1, {n}) i",
)
WAYS = {
    BATCH: Way(write="SELECT count(*) FROM appendable_append('{t}', %(ids)s::int[], %(lines)s::text[])", **_OURS),
    UPDATE: Way(write="UPDATE {t} SET log = log || line FROM unnest(%(ids)s::int[], %(lines)s::text[]) AS new(key, line) WHERE id = key", **_OURS),
    EACH: Way(write="UPDATE {t} SET log = log || %(line)s::text WHERE id = %(id)s", each=True, **_OURS),
    CHUNKS: Way(
        "CREATE TABLE {t} (id int, start bigint, log text, PRIMARY KEY (id, start)) WITH (autovacuum_enabled = off); ALTER TABLE {t} ALTER log SET STORAGE "
        "EXTERNAL",
        "",
        "INSERT INTO {t} SELECT key, coalesce((SELECT start + octet_length(log) FROM {t} WHERE id = key ORDER BY start DESC LIMIT 1), 0), line"
        " FROM unnest(%(ids)s::int[], %(lines)s::text[]) AS new(key, line)",
    ),
    LARGE: Way(
        "CREATE TABLE {t} (id int PRIMARY KEY, log oid) WITH (autovacuum_enabled = off)",
        "INSERT INTO {t} SELECT i, lo_create(0) FROM generate_series(1, {n}) i",
        "SELECT count(lo_put(log, at, convert_to(line, 'UTF8'))) FROM unnest(%(ids)s::int[], %(lines)s::text[], %(at)s::bigint[]) AS new(key, line, at) JOIN "
        "{t} ON id = key",
        "SELECT sum(length(lo_get(log))) FROM {t}",
    ),
}


class Collector:
    """One way's table and how it is written to."""

    def __init__(self, conn: psycopg.Connection, name: str, logs: int, rounds: list[list[str]]):
        self.conn, self.way, self.rounds, self.logs = conn, WAYS[name], rounds, logs
        self.table = "collected_" + "".join(c for c in name.lower() if c.isalpha())
        for statement in self.way.setup.format(t=self.table).split(";"):
            conn.execute(statement)

    def empty(self) -> None:
        if self.way is WAYS[LARGE]:
            self.conn.execute(f"SELECT count(lo_unlink(log)) FROM {self.table}")
        self.conn.execute(f"TRUNCATE {self.table}")
        if self.way.fill:
            self.conn.execute(self.way.fill.format(t=self.table, n=self.logs))

    def measure(self) -> dict[str, float]:
        """Write all rounds to empty logs: lines a second and WAL."""
        self.empty()
        write, ids, at = self.way.write.format(t=self.table), list(range(1, self.logs + 1)), [0] * self.logs
        wal, start = wal_position(self.conn), time.perf_counter()
        for lines in self.rounds:
            with self.conn.transaction():
                if self.way.each:
                    for key, line in zip(ids, lines):
                        self.conn.execute(write, {"id": key, "line": line}, prepare=True)
                else:
                    self.conn.execute(write, {"ids": ids, "lines": lines, "at": at}, prepare=True)
            at = [end + len(line) for end, line in zip(at, lines)]
        seconds = time.perf_counter() - start
        live = self.conn.execute(self.way.live.format(t=self.table)).fetchone()[0]
        if live != sum(at):
            raise LabError(f"{self.table} has {live:,} bytes of {sum(at):,}")
        return {"lines_per_s": len(self.rounds) * self.logs / seconds, "wal_a_byte": (wal_position(self.conn) - wal) / float(live)}


def measure(bench: Bench, conn: psycopg.Connection, lengths: tuple[int, int]) -> list[Any]:
    """The table of this case."""
    logs, count = bench.pick(full=(200, 60), quick=(20, 20))
    rng = random.Random(1)
    rounds = [["x" * rng.randint(*lengths) for _ in range(logs)] for _ in range(count)]
    conn.execute("SET synchronous_commit = off")
    collectors = {name: Collector(conn, name, logs, rounds) for name in WAYS}
    variants: dict[str, Callable[[], dict[str, float]]] = {name: collector.measure for name, collector in collectors.items()}
    bench.interleave(variants, bench.iterations(full=9, quick=3), case=CASE, warmup=0, text="a collector")
    for collector in collectors.values():
        if collector.way is WAYS[LARGE]:
            conn.execute(f"SELECT count(lo_unlink(log)) FROM {collector.table}")
        conn.execute(f"DROP TABLE {collector.table}")
    return [
        Table(
            f"A collector: {logs} logs, a line for each in one transaction, {count} of them",
            ["written by", "lines a second", "WAL bytes a byte", "speed, over chunk rows"],
            [
                [name, bench.estimate("lines_per_s", name, CASE), bench.estimate("wal_a_byte", name, CASE), bench.ratio("lines_per_s", name, CHUNKS, CASE)]
                for name in WAYS
            ],
            note=f"One session in Python, arrays as parameters, lines of {lengths[0]} to {lengths[1]:,} bytes; synchronous_commit off.",
        )
    ]
