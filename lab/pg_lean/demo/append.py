"""One byte added to 100 MB, and the run log: writers, followers, and finished logs that are compacted; compared with stock.

All of it is bounded by size.  Writers append the same lines to a log each, one line a
transaction, to `appendable_text` and to `text` in turns; followers read what is new
meanwhile, and must have got every byte of their log in the end.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import psycopg

from pg_lean.appending import PG_LEAN, STOCK, Store, make_source
from pg_lean.bench import Bench, Check, Estimate, Headline, LabError, Note, Plot, Result, Series, Table, human_bytes
from pg_lean.loglines import logs
from pg_lean.measure import wal_position
from pg_lean.names import need_extension_schema

TITLE = "One byte added to 100 MB, and logs that grow line by line"
PRELOAD = ("appendable_bytea",)
SETTINGS = {"max_wal_size": "16GB"}

MB = 1 << 20
#: The value that a byte is added to.
VALUE = 100 * MB
#: Sessions that write a log each, sessions that follow some of them, and seconds between two checks of a follower.
WRITERS, FOLLOWERS, NAP = 8, 2, 0.02
LOG = "run log"


@dataclass(frozen=True)
class Way:
    """A table of logs: {t} is its name, {ext} the extension's schema; parameters are what is appended, or what was read, and the log."""

    setup: str
    follow: str
    disk: str


_TABLE = "CREATE TABLE {{t}} (id int PRIMARY KEY, log {0} NOT NULL) WITH (fillfactor = 80)"
WAYS = {
    "stock": Way(_TABLE.format("text") + "; ALTER TABLE {t} ALTER log SET STORAGE EXTERNAL", "SELECT substr(log, %s::int4 + 1) FROM {t} WHERE id = %s::int4",
                 "SELECT pg_total_relation_size('{t}'::regclass)"),
    "pg_lean": Way(_TABLE.format("{ext}.appendable_text"),
                   "SELECT ({ext}.appendable_tail(log, %s::int8, 1048576, false)).data FROM {t} WHERE id = %s::int4",
                   "SELECT {ext}.appendable_bytea_total_size('{t}'::regclass)"),
}


@dataclass
class RunLog:
    """One way's table, and the sessions that write to it and follow it."""

    bench: Bench
    name: str
    lines: list[list[str]]
    table: str = ""
    #: The time of each line in the last repetition, in the order of the log, of all writers.
    ms: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table, self.way = f"run_log_{self.name}", WAYS[self.name]
        with self.bench.connect() as conn:
            self.ext = need_extension_schema(conn, "appendable_bytea")
            for statement in self.sql(self.way.setup).split(";"):
                conn.execute(statement)

    def sql(self, text: str) -> str:
        return text.format(t=self.table, ext=self.ext)

    def write(self, number: int, errors: list[Exception]) -> None:
        try:
            with self.bench.connect(synchronous_commit=False) as conn:
                took = self.ms[number]
                for line in self.lines[number]:
                    before = time.perf_counter()
                    conn.execute(f"UPDATE {self.table} SET log = log || %s::text WHERE id = %s::int4", (line, number), prepare=True)
                    took.append((time.perf_counter() - before) * 1000)
        except Exception as error:
            errors.append(error)

    def follow(self, numbers: range, got: dict[int, str], done: threading.Event, errors: list[Exception]) -> None:
        """Read what is new in these logs until all writers have ended and nothing is new."""
        try:
            with self.bench.connect() as conn:
                query = self.sql(self.way.follow)
                while True:
                    last = done.is_set()
                    for number in numbers:
                        got[number] += conn.execute(query, (len(got[number]), number), prepare=True).fetchone()[0]
                    if last:
                        return
                    time.sleep(NAP)
        except Exception as error:
            errors.append(error)

    def measure(self) -> dict[str, float]:
        """All lines once, to empty logs: milliseconds a line of a writer, WAL and bytes on disk for each byte of a line."""
        errors: list[Exception] = []
        done = threading.Event()
        got = dict.fromkeys(range(len(self.lines)), "")
        self.ms = [[] for _ in self.lines]
        with self.bench.connect() as conn:
            conn.execute(f"TRUNCATE {self.bench.server.schema}.{self.table}")
            conn.execute(f"INSERT INTO {self.table} SELECT i, '' FROM generate_series(0, {len(self.lines) - 1}) i")
            followers = [threading.Thread(target=self.follow, args=(range(n, len(self.lines), FOLLOWERS), got, done, errors)) for n in range(FOLLOWERS)]
            writers = [threading.Thread(target=self.write, args=(number, errors)) for number in range(len(self.lines))]
            wal, start = wal_position(conn), time.perf_counter()
            for thread in followers + writers:
                thread.start()
            for thread in writers:
                thread.join()
            seconds, wal = time.perf_counter() - start, wal_position(conn) - wal
            done.set()
            for thread in followers:
                thread.join()
            if errors:
                raise errors[0]
            for number, log in enumerate(self.lines):
                if got[number] != "".join(log):
                    raise LabError(f"the follower of log {number} in {self.table} has {len(got[number]):,} bytes that are not those that were written")
            written = sum(len(line) for log in self.lines for line in log)
            return {"ms": seconds * 1000 / len(self.lines[0]), "lines_per_s": sum(map(len, self.lines)) / seconds, "wal_a_byte": wal / written,
                    "disk_by_live": conn.execute(self.sql(self.way.disk)).fetchone()[0] / written}

    def growth(self) -> Series:
        """What a line took, by how long its log was."""
        kilobytes, ms, length = [], [], 0
        step = max(len(self.lines[0]) // 50, 1)
        for at in range(0, len(self.lines[0]), step):
            length += sum(len(line) for log in self.lines for line in log[at:at + step]) / len(self.lines)
            kilobytes.append(length / 1024)
            ms.append(Estimate.of(value for took in self.ms for value in took[at:at + step]).median)
        return Series(self.name, kilobytes, ms)


def run(bench: Bench) -> Result:
    """What one byte costs, then the run log by both ways in turns, then the logs, which are finished, compacted."""
    bench.server.need_extension("appendable_bytea")
    one_byte(bench)
    lines = logs(WRITERS, bench.pick(full=400, quick=150))
    both = {name: RunLog(bench, name, lines) for name in WAYS}
    bench.interleave({name: log.measure for name, log in both.items()}, bench.iterations(full=7, quick=6), case=LOG, warmup=0,
                     text=f"{WRITERS} logs of {len(lines[0])} lines")
    sizes = compact(bench, both["pg_lean"], lines)
    for log in both.values():
        with bench.connect() as conn:
            conn.execute(f"DROP TABLE {bench.server.schema}.{log.table}")
    return present(bench, both, lines, sizes)


def one_byte(bench: Bench) -> None:
    """Add a byte to a value of 100 MB, each method in turn; rows of case "one byte"."""
    with contextlib.ExitStack() as stack:
        stores = {method.name: Store(bench, method, "one_byte_") for method in (STOCK, PG_LEAN)}
        for store in stores.values():
            stack.callback(store.close)
        with bench.activity(f"values of {human_bytes(VALUE)}"):
            make_source(stores["stock"].conn, VALUE)
            keys = {name: store.insert()[0] for name, store in stores.items()}

        def append(store: Store) -> Callable[[], dict[str, float]]:
            def measure() -> dict[str, float]:
                us, wal = store.each(keys[store.name], 1, 1)[0]
                return {"ms": us / 1000, "wal_bytes": wal}
            return measure

        bench.interleave({name: append(store) for name, store in stores.items()}, bench.iterations(full=11, quick=6), case="one byte",
                         text=f"one byte added to {human_bytes(VALUE)}")
        for name, store in stores.items():
            if store.length(keys[name]) != store.lengths[keys[name]]:
                raise LabError(f"{name}: the value has {store.length(keys[name]):,} bytes, {store.lengths[keys[name]]:,} were written")
            store.drop_values()
        stores["stock"].conn.execute(f"TRUNCATE {bench.server.schema}.src")


def compact(bench: Bench, log: RunLog, lines: list[list[str]]) -> list[tuple[str, float]]:
    """Compact the logs, and keep them as the server compresses a text: bytes of each."""
    with bench.connect() as conn, bench.activity("compacting the finished logs"):
        rows, _skipped, _before, _after, before, after = conn.execute(
            f"CALL {log.ext}.appendable_compact('{bench.server.schema}.{log.table}'::regclass, NULL::text, NULL::int8, NULL::int8,"
            " NULL::int8, NULL::int8, NULL::int8, NULL::int8)").fetchone()
        conn.execute("CREATE TABLE finished_stock (id int, log text)")
        method = "LZ4"
        try:
            conn.execute("ALTER TABLE finished_stock ALTER log SET COMPRESSION lz4")
        except psycopg.errors.FeatureNotSupported:
            method = "pglz"
            conn.execute("ALTER TABLE finished_stock ALTER log SET COMPRESSION pglz")
        with conn.cursor() as cursor:
            cursor.executemany("INSERT INTO finished_stock VALUES (%s::int4, %s::text)", [(number, "".join(log)) for number, log in enumerate(lines)])
        differ = conn.execute(
            f"SELECT count(*) FROM {log.table} a FULL JOIN finished_stock b USING (id) WHERE md5(a.log) IS DISTINCT FROM md5(b.log)"
        ).fetchone()[0]
        stock = conn.execute("SELECT sum(pg_column_size(log)) FROM finished_stock").fetchone()[0]
        conn.execute(f"DROP TABLE {bench.server.schema}.finished_stock")
    if rows != len(lines) or differ:
        raise LabError(f"{rows} of {len(lines)} logs were compacted, {differ} are not what was written")
    found = [
        ("the lines", sum(len(line) for log in lines for line in log)),
        ("pg_lean, as they were grown", before),
        ("pg_lean, compacted", after),
        (f"stock, whole with {method}", stock),
    ]
    for name, size in found:
        bench.raw.add(name, 0, "finished logs", bytes=int(size))
    return [(name, float(size)) for name, size in found]


def present(bench: Bench, both: dict[str, RunLog], lines: list[list[str]], sizes: list[tuple[str, float]]) -> Result:
    ratio = bench.ratio("ms", "stock", "pg_lean", "one byte")
    ms = {name: bench.estimate("ms", name, "one byte") for name in WAYS}
    wal = {name: bench.estimate("wal_bytes", name, "one byte") for name in WAYS}
    line = {name: bench.estimate("ms", name, LOG) for name in WAYS}
    written, compacted = sizes[0][1], dict(sizes)["pg_lean, compacted"]
    columns: dict[str, str] = {"ms": "ms a line", "lines_per_s": "lines a second", "wal_a_byte": "WAL bytes a byte", "disk_by_live": "bytes on disk a byte"}
    table: list[list[Any]] = [[name, *(bench.estimate(metric, name, LOG) for metric in columns)] for name in WAYS]
    return Result(
        title=TITLE,
        summary=f"One byte added to {human_bytes(VALUE)} takes {ms['pg_lean'].median * 1000:,.0f} µs and {wal['pg_lean'].median:,.0f} bytes of WAL instead of "
        f"{ms['stock'].median:,.0f} ms and {human_bytes(wal['stock'].median)}. {WRITERS} writers get "
        f"{bench.estimate('lines_per_s', 'pg_lean', LOG).median:,.0f} lines a "
        f"second into their logs instead of {bench.estimate('lines_per_s', 'stock', LOG).median:,.0f}; finished and compacted, the logs take "
        f"{compacted / written:.2f} of the bytes written.",
        what="`UPDATE t SET data = data || $1`, with `appendable_bytea` or `appendable_text` and with `bytea` or `text` (STORAGE EXTERNAL): one byte added "
             f"to a value of {human_bytes(VALUE)}; and "
        f"{WRITERS} sessions that write {len(lines[0])} lines of 200 to 2,000 bytes to a log each, {human_bytes(written)} in all, while {FOLLOWERS} more "
        "read what is new. "
        "Then `appendable_compact()`.",
        how="Methods in turns, each append committed (`synchronous_commit` off). One byte: time and WAL as the server tells them. Run log: the client's "
            f"time; {FOLLOWERS} followers look at each log every "
        f"{NAP * 1000:.0f} ms, and the bytes that they read, and the compacted logs, are compared with the bytes written.",
        headlines=[
            Headline(f"one byte added to {human_bytes(VALUE)}", ratio, [("bytea", ms["stock"].median), ("appendable_bytea", ms["pg_lean"].median)]),
            Headline(
                f"a line of a run log, {WRITERS} writers and {FOLLOWERS} followers",
                bench.ratio("ms", "stock", "pg_lean", LOG),
                [("text", line["stock"].median), ("appendable_text", line["pg_lean"].median)],
            ),
        ],
        blocks=[
            Table(f"One byte added to {human_bytes(VALUE)}", ["method", "ms", "WAL bytes"], [[name, ms[name], wal[name]] for name in WAYS]),
            Table(f"The run log: {WRITERS} writers, {len(lines[0])} lines each, {FOLLOWERS} followers", ["method", *columns.values()], table),
            Plot("What one line costs as its log grows", "kB in the log", "ms", [log.growth() for log in both.values()], log_y=True),
            Table(
                "The finished logs",
                ["", "bytes", "by bytes written"],
                [[name, int(size), size / written] for name, size in sizes],
                note="As they were grown, and compacted: their chunks in pages, with headers. Stock: the compressed values alone, without their pages.",
            ),
            Note(
                "`text` writes the whole log again at every line, so each one takes longer than the one before it; `appendable_text` writes the line. `make "
                "bench-runlog` measures 200 writers, "
                "also with chunk tables and large objects."
            ),
        ],
        checks=[Check("followers have read every byte, and compacted logs are what was written (1 is yes)", 1, ">=", 1)],
    )
