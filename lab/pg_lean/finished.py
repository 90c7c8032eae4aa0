"""Finished logs: what they take and what reading them takes, as they were grown, compacted, and as the server keeps a text.

grown       appendable_text, appended to line by line
compacted   the same after appendable_compact()
whole       appendable_text that was stored whole, uncompressed
lz4, pglz   text that the server compresses, stored whole
external    text with STORAGE EXTERNAL, stored whole
"""

from __future__ import annotations

from typing import Any, Callable

import psycopg

from pg_lean.bench import Bench, Check, LabError, Table
from pg_lean.loglines import logs
from pg_lean.measure import execution_ms, wal_position

GROWN, COMPACTED, WHOLE, LZ4, PGLZ, EXTERNAL = "grown", "compacted", "whole", "text, lz4", "text, pglz", "text EXTERNAL"
OURS = (GROWN, COMPACTED, WHOLE)
CASE = "finished logs"
#: Bytes of a slice, and how many are read.
SLICE, SLICES = 4096, 2000


class Finished:
    """The same logs in a table for each way to keep them."""

    def __init__(self, conn: psycopg.Connection, count: int, lines: int):
        self.conn, self.count = conn, count
        self.logs = logs(count, lines)
        self.live = sum(len(line) for log in self.logs for line in log)
        conn.execute("SET appendable_bytea.compress_new = off")
        self.ways = [GROWN, COMPACTED, WHOLE, LZ4, PGLZ, EXTERNAL]
        for way in self.ways[:]:
            table = self.table(way)
            conn.execute(
                f"CREATE TABLE {table} (id int PRIMARY KEY, log {'appendable_text' if way in OURS else 'text'}) WITH (fillfactor = 80, autovacuum_enabled = "
                "off)"
            )
            try:
                if way in (LZ4, PGLZ):
                    conn.execute(f"ALTER TABLE {table} ALTER log SET COMPRESSION {way.split()[1]}")
            except psycopg.errors.FeatureNotSupported:
                self.ways.remove(way)
            if way == EXTERNAL:
                conn.execute(f"ALTER TABLE {table} ALTER log SET STORAGE EXTERNAL")
            if way not in (GROWN, COMPACTED):
                with conn.cursor() as cursor:
                    cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s)", [(number, "".join(log)) for number, log in enumerate(self.logs, 1)])
        #: The variant with which the others are compared: the server's compression of whole values.
        self.stock = LZ4 if LZ4 in self.ways else PGLZ

    @staticmethod
    def table(way: str) -> str:
        return "finished_" + way.replace(", ", "_").replace(" ", "_").lower()

    def grow(self, way: str) -> None:
        """Logs that were appended to line by line, each line of all logs by one call."""
        table = self.table(way)
        self.conn.execute(f"TRUNCATE {table}")
        self.conn.execute(f"INSERT INTO {table} SELECT i, '' FROM generate_series(1, {self.count}) i")
        keys = list(range(1, self.count + 1))
        for lines in zip(*self.logs):
            self.conn.execute(f"SELECT count(*) FROM appendable_append('{table}', %s::int[], %s::text[])", (keys, list(lines)))

    def compact(self) -> dict[str, float]:
        """Grow the logs that are compacted, and compact them: seconds and WAL of that."""
        self.grow(COMPACTED)
        table = self.table(COMPACTED)
        wal = wal_position(self.conn)
        start = self.conn.execute("SELECT clock_timestamp()").fetchone()[0]
        rows, skipped, before, after, *_ = self.conn.execute(f"CALL appendable_compact('{table}')").fetchone()
        seconds = (self.conn.execute("SELECT clock_timestamp()").fetchone()[0] - start).total_seconds()
        if rows != self.count or skipped:
            raise LabError(f"{rows} of {self.count} finished logs were compacted")
        return {
            "mb_per_s": self.live / seconds / (1 << 20),
            "wal_a_byte": (wal_position(self.conn) - wal) / self.live,
            "chunks_before": before,
            "chunks_after": after,
        }

    def vacuum(self) -> None:
        """No dead rows are left, and files have the length of their contents."""
        for way in self.ways:
            self.conn.execute(f"VACUUM (FULL, ANALYZE) {self.table(way)}")
            if way in OURS:
                self.conn.execute(f"VACUUM FULL {self.store(way)}")

    def store(self, way: str) -> str:
        return self.conn.execute(f"SELECT store FROM appendable_bytea_stats('{self.table(way)}')").fetchone()[0]

    def disk(self, way: str) -> int:
        return self.conn.execute(
            f"SELECT {'appendable_bytea' if way in OURS else 'pg'}_total{'' if way in OURS else '_relation'}_size('{self.table(way)}')"
        ).fetchone()[0]

    def read(self, way: str) -> Callable[[], dict[str, float]]:
        query = f"SELECT sum(octet_length(convert_to(log, 'UTF8'))) FROM {self.table(way)}"
        return lambda: {"ms": execution_ms(self.conn, query)}

    def slices(self, way: str) -> Callable[[], dict[str, float]]:
        part = f"(appendable_tail(log, at, {SLICE})).data" if way in OURS else f"substr(log, at + 1, {SLICE})"
        shortest = min(sum(map(len, log)) for log in self.logs)
        query = (f"SELECT sum(octet_length({part})) FROM (SELECT n % {self.count} + 1 AS id, (n * 7919::bigint * 4099 % {max(shortest - SLICE, 1)})::int AS at"
                 f" FROM generate_series(1, {SLICES}) n) p JOIN {self.table(way)} USING (id)")
        return lambda: {"ms": execution_ms(self.conn, query)}

    def verify(self) -> None:
        """All tables hold the same."""
        digests = {way: self.conn.execute(f"SELECT md5(string_agg(md5(log::text), '' ORDER BY id)) FROM {self.table(way)}").fetchone()[0] for way in self.ways}
        if len(set(digests.values())) != 1:
            raise LabError(f"finished logs differ: {digests}")

    def drop(self) -> None:
        for way in (GROWN, COMPACTED, WHOLE, LZ4, PGLZ, EXTERNAL):
            self.conn.execute(f"DROP TABLE {self.table(way)}")


def measure(bench: Bench, conn: psycopg.Connection) -> tuple[list[Any], list[Check]]:
    """Blocks and checks of finished logs."""
    count, lines = bench.pick(full=(200, 150), quick=(20, 60))
    repetitions = bench.iterations(full=9, quick=3)
    with bench.activity(f"{count} finished logs of {lines} lines"):
        finished = Finished(conn, count, lines)
        finished.grow(GROWN)
    bench.interleave({"compaction": finished.compact}, bench.iterations(full=5, quick=1), case=CASE, warmup=0, text="compaction")
    finished.vacuum()
    finished.verify()
    for way in finished.ways:
        bench.raw.add(way, 0, f"{CASE}, size", disk=finished.disk(way), live=finished.live)
    reading, slicing = f"{CASE}, read whole", f"{CASE}, slices"
    bench.interleave({way: finished.read(way) for way in finished.ways}, repetitions, case=reading, text="reading finished logs")
    bench.interleave({way: finished.slices(way) for way in finished.ways}, repetitions, case=slicing, text="slices of finished logs")
    stock = finished.stock
    finished.drop()

    size = {way: bench.estimate("disk", way, f"{CASE}, size").median for way in finished.ways}
    tables = [
        Table(
            f"Finished logs: {count}, {lines} lines each",
            ["kept as", "disk / live", f"disk, over {stock}", "read whole, ms", "slices, ms"],
            [
                [way, size[way] / finished.live, size[way] / size[stock], bench.estimate("ms", way, reading), bench.estimate("ms", way, slicing)]
                for way in finished.ways
            ],
            note="Table, index, TOAST and chunks after VACUUM FULL. Grown: appendable_text, line by line; compacted: the same after appendable_compact(); "
                 "whole: appendable_text stored "
            f"whole; text: stored whole. {SLICES:,} slices of {SLICE:,} bytes at any place. Time is the server's (EXPLAIN ANALYZE).",
        ),
        Table(
            "Compaction of finished logs",
            ["MB/s", "WAL bytes a byte", "chunks before", "chunks after"],
            [[bench.estimate(metric, "compaction", CASE) for metric in ("mb_per_s", "wal_a_byte", "chunks_before", "chunks_after")]],
            note="CALL appendable_compact(), a transaction for each log; MB of lines as they were written.",
        ),
        Table(
            "Compacted logs over those as they were grown, time",
            ["", "over grown", "over whole", f"over {stock}"],
            [
                [what, *(bench.ratio("ms", COMPACTED, other, case) for other in (GROWN, WHOLE, stock))]
                for what, case in (("read whole", reading), ("slices", slicing))
            ],
        ),
    ]
    checks = [Check(f"disk of compacted logs over {stock}", size[COMPACTED] / size[stock], "<=", 1.15),
              Check.of("speed of reading compacted logs over those as they were grown", bench.ratio("ms", GROWN, COMPACTED, reading), ">=", 0.9),
              Check.of("speed of reading compacted logs over those stored whole, uncompressed", bench.ratio("ms", WHOLE, COMPACTED, reading), ">=", 0.9)]
    return tables, checks
