"""The run log: many writers that append lines to a log each, followers that read what is new, a collector, and finished logs, by several ways to keep them."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Iterator

import psycopg

from pg_lean import collecting, finished, loglines, walrecords
from pg_lean.bench import Bench, Check, Headline, LabError, Note, Plot, Result, Series, Table, human_bytes
from pg_lean.cluster import Cluster
from pg_lean.result import format_value

TITLE = "Logs that grow line by line: writers and followers"
PRELOAD = ("appendable_bytea",)
SETTINGS = {"shared_buffers": "256MB", "max_connections": 260, "max_wal_size": "16GB"}

#: Bytes of a line, evenly spread.
LINE = loglines.LENGTHS
#: Seconds that a follower keeps its snapshot open.
SNAPSHOT = 1
#: Logs in the table for each that is written: in a table of some pages the server would scan all of them for a log.
IDLE = 20
#: Lines of each log, and the smallest part of them that a small effort leaves if it omits some: the cost of a method that rewrites the value at every
#: line grows with their square, and waiting for the disk or for the next line is most of other cases.
LINES, LEAST = 150, 1 / 3
#: Lines a second of all writers together, where they are paced.
PACE = 400


@dataclass(frozen=True)
class Way:
    """SQL of one way to keep logs, as pgbench runs it: {t} is the table, :id the log, :n the line's length, :at what was read."""

    name: str
    setup: str
    append: str
    #: The new value of :at, once what is behind the old one was read.
    follow: str
    live: str = "SELECT sum(octet_length(data)) FROM {t}"
    #: Bytes on disk, and what is vacuumed.
    disk: str = "SELECT pg_total_relation_size('{t}')"
    vacuum: str = "VACUUM {t}"
    #: Remove all logs, and create them again.
    empty: str = "TRUNCATE {t}; INSERT INTO {t} SELECT i, '' FROM generate_series(1, {rows}) i"


_ROW = "CREATE TABLE {{t}} (id int PRIMARY KEY, data {0}) WITH (fillfactor = 80)"
_STORE = "SELECT appendable_bytea_total_size('{t}')"
_VACUUM = "VACUUM {t}; VACUUM {store}"
_FOLLOW = "SELECT next_offset AS at FROM {t}, appendable_tail(data, :at) WHERE id = :id"
_EXTERNAL = "; ALTER TABLE {t} ALTER data SET STORAGE EXTERNAL"
_TEXT, _BYTES = "repeat('x', :n)", "convert_to(repeat('x', :n), 'UTF8')"

WAYS = {
    way.name: way
    for way in (
        Way("pg_lean, text", _ROW.format("appendable_text"), f"UPDATE {{t}} SET data = data || {_TEXT} WHERE id = :id", _FOLLOW, disk=_STORE, vacuum=_VACUUM),
        Way(
            "pg_lean, bytea", _ROW.format("appendable_bytea"), f"UPDATE {{t}} SET data = data || {_BYTES} WHERE id = :id", _FOLLOW, disk=_STORE, vacuum=_VACUUM
        ),
        Way(
            "pg_lean, notifying",
            _ROW.format("appendable_text") + "; CREATE TRIGGER told AFTER UPDATE OF data ON {t} FOR EACH ROW EXECUTE FUNCTION appendable_notify('{t}', 'id')",
            f"UPDATE {{t}} SET data = data || {_TEXT} WHERE id = :id",
            _FOLLOW,
            disk=_STORE,
            vacuum=_VACUUM,
        ),
        Way(
            "chunk rows",
            "CREATE TABLE {t} (id int, start bigint, data text, PRIMARY KEY (id, start))" + _EXTERNAL,
            f"INSERT INTO {{t}} SELECT :id, coalesce((SELECT start + octet_length(data) FROM {{t}} WHERE id = :id ORDER BY start DESC LIMIT 1), 0), {_TEXT}",
            "SELECT :at + coalesce(sum(octet_length(data)), 0) AS at FROM {t} WHERE id = :id AND start >= :at",
            empty="TRUNCATE {t}",
        ),
        Way(
            "large object",
            "CREATE TABLE {t} (id int PRIMARY KEY, data oid)",
            f"SELECT lo_put(data, :done, {_BYTES}) FROM {{t}} WHERE id = :id;\n\\set done :done + :n",
            "SELECT :at + length(lo_get(data, :at, 1048576)) AS at FROM {t} WHERE id = :id",
            live="SELECT sum(length(lo_get(data))) FROM {t}",
            disk="SELECT pg_total_relation_size('{t}') + pg_total_relation_size('pg_largeobject')",
            vacuum="VACUUM {t}; VACUUM pg_largeobject",
            empty="SELECT count(lo_unlink(data)) FROM {t}; VACUUM pg_largeobject; TRUNCATE {t}; INSERT INTO {t} SELECT i, lo_create(0) FROM "
                  "generate_series(1, {rows}) i",
        ),
        Way(
            "no append",
            "CREATE TABLE {t} (id int PRIMARY KEY, n bigint) WITH (fillfactor = 80)",
            f"UPDATE {{t}} SET n = n + octet_length({_TEXT}) WHERE id = :id",
            "SELECT :at + 0 AS at FROM {t} WHERE id = :id",
            live="SELECT sum(n) FROM {t}",
            empty="TRUNCATE {t}; INSERT INTO {t} SELECT i, 0 FROM generate_series(1, {rows}) i",
        ),
        Way(
            "text EXTERNAL",
            _ROW.format("text") + _EXTERNAL,
            f"UPDATE {{t}} SET data = data || {_TEXT} WHERE id = :id",
            "SELECT :at + octet_length(substr(data, :at + 1)) AS at FROM {t} WHERE id = :id",
        ),
        Way(
            "bytea EXTERNAL",
            _ROW.format("bytea") + _EXTERNAL,
            f"UPDATE {{t}} SET data = data || {_BYTES} WHERE id = :id",
            "SELECT :at + octet_length(substr(data, :at + 1)) AS at FROM {t} WHERE id = :id",
        ),
    )
}
LEAN = "pg_lean, text"
#: Which write the value again at every line.
REWRITING = ("text EXTERNAL", "bytea EXTERNAL")
#: Of these the way of the headline, and the next best way on a stock server.
REWRITTEN, NEXT_BEST = "bytea EXTERNAL", "chunk rows"
#: Whose WAL is taken apart.
TAKEN_APART = (LEAN, "chunk rows", "no append")


@dataclass(frozen=True)
class Case:
    """One way to write, by all writers at once."""

    name: str
    lines: int
    ways: tuple[str, ...]
    synchronous: bool = False
    followers: int = 0
    rate: int | None = None
    #: Lines of the ways that rewrite the value at every one, if they get fewer.
    rewritten: int | None = None

    def lines_of(self, way: str) -> int:
        return self.rewritten if self.rewritten and way in REWRITING else self.lines

    def label(self, way: str) -> str:
        """How a table names the way."""
        return way if self.lines_of(way) == self.lines else f"{way}, {self.lines_of(way)} lines each"


class Log:
    """One way's table."""

    def __init__(self, bench: Bench, cluster: Cluster, conn: psycopg.Connection, way: Way, writers: int):
        self.bench, self.cluster, self.conn, self.way, self.writers = bench, cluster, conn, way, writers
        self.table = "log_" + re.sub(r"\W+", "_", way.name)
        self.store = None
        self.do(way.setup)
        if "{store}" in way.vacuum:
            self.store = conn.execute(f"SELECT store FROM appendable_bytea_stats('{self.table}')").fetchone()[0]

    def sql(self, text: str) -> str:
        return text.format(t=self.table, rows=IDLE * self.writers, store=self.store)

    def do(self, statements: str) -> None:
        for statement in self.sql(statements).split(";"):
            self.conn.execute(statement)

    def ask(self, query: str) -> int:
        return int(self.conn.execute(self.sql(query)).fetchone()[0] or 0)

    def parts(self) -> dict[str, int]:
        """Bytes on disk of the table and the chunks, and of the indexes of either."""
        return {
            name: self.ask(f"SELECT pg_{kind}_size('{relation}')") if relation else 0
            for name, (kind, relation) in {
                "table": ("relation", "{t}"),
                "indexes": ("indexes", "{t}"),
                "chunks": ("relation", self.store),
                "chunk_indexes": ("indexes", self.store),
            }.items()
        }

    def line(self, length: int) -> str:
        """The statement that appends a line of that length to the first log."""
        return re.sub(r":(id|n)\b", lambda name: {"id": "1", "n": str(length)}[name[1]], self.sql(self.way.append))

    def pgbench(self, script: str, clients: int, transactions: int, case: Case, name: str, *options: str) -> Any:
        settings = f"-c search_path={self.cluster.schema},public -c synchronous_commit={'on' if case.synchronous else 'off'}"
        return self.cluster.run("pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", "2" if clients > 1 else "1", "-t", str(transactions),
                                "-D", "at=0", "-D", "done=0", "-f", "-", *options, input=self.sql(script), env={"PGOPTIONS": settings, "PGAPPNAME": name})

    @contextlib.contextmanager
    def followers(self, case: Case) -> Iterator[None]:
        """Sessions that read what is new and keep each snapshot for a while, until the block ends."""
        if not case.followers:
            yield
            return
        script = (f"\\set id :client_id % {self.writers} + 1\nBEGIN ISOLATION LEVEL REPEATABLE READ;\n{self.way.follow} \\gset\n"
                  f"\\sleep {SNAPSHOT} s\nCOMMIT;\n")
        done: list[Any] = []
        thread = threading.Thread(target=lambda: done.append(self.pgbench(script, case.followers, 1_000_000, case, "follower")))
        thread.start()
        mine = "FROM pg_stat_activity WHERE application_name = 'follower'"
        try:
            deadline = time.monotonic() + 60
            while self.ask(f"SELECT count(*) {mine} AND backend_xmin IS NOT NULL") < case.followers:
                if done or time.monotonic() > deadline:
                    raise LabError(f"followers of {self.way.name} do not start: {done[0].stderr.strip() if done else ''}")
                time.sleep(0.05)
            yield
            if done:
                raise LabError(f"followers of {self.way.name} ended: {done[0].stderr.strip()}")
        finally:
            while thread.is_alive():
                self.ask(f"SELECT count(pg_terminate_backend(pid)) {mine}")
                thread.join(0.1)

    def measure(self, case: Case) -> dict[str, float]:
        self.do(self.way.empty)
        start = self.conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
        script = f"\\set id :client_id + 1\n\\set n random({LINE[0]}, {LINE[1]})\n{self.way.append}" + ("" if "\n" in self.way.append else ";") + "\n"
        lines = case.lines_of(self.way.name)
        with self.followers(case):
            done = self.pgbench(script, self.writers, lines, case, "writer", "--random-seed=1", *([f"--rate={case.rate}"] if case.rate else []))
        found = {name: re.search(pattern, done.stdout, re.M) for name, pattern in
                 (("tps", r"^tps = ([\d.]+)"), ("ms", r"^latency average = ([\d.]+)"), ("lines", r"actually processed: (\d+)"))}
        if done.returncode or not all(found.values()) or int(found["lines"][1]) != self.writers * lines:
            raise LabError(f"pgbench failed for {self.way.name}: {done.stderr.strip() or done.stdout}")
        wal = self.ask(f"SELECT pg_current_wal_insert_lsn() - '{start}'::pg_lsn")
        live = self.ask(self.way.live)
        rows, disk, parts = self.ask("SELECT pg_relation_size('{t}')"), self.ask(self.way.disk), self.parts()
        self.do(self.way.vacuum)
        return {"tps": float(found["tps"][1]), "latency_ms": float(found["ms"][1]), "wal_a_byte": wal / live, "live": live, "disk_by_live": disk / live,
                "vacuumed_by_live": self.ask(self.way.disk) / live, "rows_bytes": rows,
                **{name: size / live for name, size in parts.items()}}


def make_cases(bench: Bench) -> tuple[int, list[Case]]:
    """Writers, and what they write: at a small effort less, where that says the same."""
    writers, lines, followers = bench.pick(full=(200, LINES, 20), quick=(20, 40, 4))
    part = bench.pick(full=max(LEAST, bench.options.effort), quick=1)
    some = round(lines * part)
    every, fast = tuple(WAYS), tuple(name for name in WAYS if name not in REWRITING)
    # of the two ways that rewrite the value at every line one: their tables are alike
    rewriting_once = tuple(name for name in every if name != "text EXTERNAL")
    return writers, [
        Case("closed loop", lines, rewriting_once, rewritten=some), Case("closed loop, waiting for the disk", max(some // 3, 5), fast, synchronous=True),
        Case(f"closed loop with {followers} followers", lines, tuple(name for name in fast if name != "pg_lean, notifying"), followers=followers),
        Case(f"{PACE} lines a second with {followers} followers", max(some // 15, 5), every, synchronous=True, followers=followers, rate=PACE)]


def measure(bench: Bench, conn: psycopg.Connection, writers: int, cases: list[Case]) -> dict[str, Log]:
    """Every way of each case in turns; what is written is bounded by size."""
    cluster = bench.need_private()
    cluster.need_extension("appendable_bytea")
    ways = [name for name in WAYS if any(name in case.ways for case in cases)]
    logs = {name: Log(bench, cluster, conn, WAYS[name], writers) for name in ways}
    for case in cases:
        bench.interleave(
            {name: lambda log=logs[name], case=case: log.measure(case) for name in case.ways},
            bench.iterations(full=5, quick=1),
            case=case.name,
            warmup=0,
            text=case.name,
        )
    return logs


def front(bench: Bench) -> tuple[Headline, tuple[str, float]]:
    """The closed loop, in bytea, in chunk rows and in pg_lean; of logs in bytea the part that a small effort leaves, of which each line costs less."""
    bench.server.make_schema()
    writers, (loop, *_) = make_cases(bench)
    loop = replace(loop, ways=(LEAN, NEXT_BEST, REWRITTEN), rewritten=round(loop.lines * LEAST))
    with bench.connect() as conn:
        measure(bench, conn, writers, [loop])
    return headline(bench, writers, loop.name), (NEXT_BEST, bench.estimate("latency_ms", NEXT_BEST, loop.name).median)


def headline(bench: Bench, writers: int, loop: str) -> Headline:
    return Headline(
        f"a line of a run log, {writers} writers",
        bench.ratio("latency_ms", REWRITTEN, LEAN, loop),
        [("bytea", bench.estimate("latency_ms", REWRITTEN, loop).median), ("appendable_text", bench.estimate("latency_ms", LEAN, loop).median)],
    )


def run(bench: Bench) -> Result:
    """The cases, then what takes other tables."""
    writers, cases = make_cases(bench)
    conn = bench.connect()
    try:
        logs = measure(bench, conn, writers, cases)
        for log in logs.values():
            log.do(log.way.empty)
        records = walrecords.measure(bench, conn, {name: logs[name].line(walrecords.LENGTH) for name in TAKEN_APART})
        collected = collecting.measure(bench, conn, LINE)
        compacted, compacted_checks = finished.measure(bench, conn)
    finally:
        conn.close()
    return report(bench, cases, writers, [*records, *collected, *compacted], compacted_checks)


def report(bench: Bench, cases: list[Case], writers: int, more: list[Any], more_checks: list[Check]) -> Result:
    columns = {
        "tps": "lines a second",
        "latency_ms": "ms a line",
        "wal_a_byte": "WAL bytes a byte",
        "disk_by_live": "disk / live",
        "vacuumed_by_live": "after VACUUM",
        "rows_bytes": "bytes of the row table",
    }
    tables = [Table(f"{case.name.capitalize()}: {writers} writers, {case.lines} lines each", ["kept as", *columns.values()],
                    [[case.label(name), *(bench.estimate(metric, name, case.name) for metric in columns)] for name in case.ways],
                    note=f"synchronous_commit = {'on' if case.synchronous else 'off'}; lines of {LINE[0]} to {LINE[1]:,} bytes; no autovacuum. "
                              f"One log in {IDLE} is written to. no append: an UPDATE of a number, which stores no line: what the statement takes in any case."
                         + (f" Followers keep each snapshot for {SNAPSHOT} s." if case.followers else "")) for case in cases]
    loop, _, followed, _ = (case.name for case in cases)
    parts = {"table": "table", "indexes": "its indexes", "chunks": "chunks", "chunk_indexes": "their index"}
    tables.append(
        Table(
            f"What is on disk, over live bytes: {loop}",
            ["kept as", *parts.values()],
            [[name, *(bench.estimate(metric, name, loop) for metric in parts)] for name in TAKEN_APART],
            note="Main forks. Every writer has a page that it is filling, and pages that the server has made in advance are not in use yet: the shorter the "
                 "logs, the more that is of them.",
        )
    )
    live = bench.estimate("live", LEAN, followed).median
    checks = [
        Check.of("lines a second, pg_lean over chunk rows, closed loop", bench.ratio("tps", LEAN, "chunk rows", loop), ">=", 1.15),
        Check.of("WAL bytes a byte, closed loop", bench.estimate("wal_a_byte", LEAN, loop), "<=", 1.15),
        Check.of("disk by live bytes, closed loop", bench.estimate("disk_by_live", LEAN, loop), "<=", 1.10),
        Check("row table by live bytes with followers", bench.estimate("rows_bytes", LEAN, followed).median / live, "<=", 0.10),
    ]
    most = Note(
        f"An UPDATE that stores no line has {format_value(bench.ratio('tps', 'no append', 'chunk rows', loop))} times the lines a second of the chunk table "
        "in a closed loop, "
        f"and pg_lean {format_value(bench.ratio('tps', LEAN, 'no append', loop))} times those of that UPDATE.",
        title="The UPDATE alone",
    )
    first = cases[0]
    scaled = (
        []
        if first.rewritten in (None, first.lines)
        else [
            Note(
                f"bytea EXTERNAL got {first.rewritten} lines a log in the closed loop, where a full run writes {first.lines}, and so in proportion all ways "
                "in the cases that wait for the disk. "
                "What a way pays that writes the value again at every line grows with its length: in a full run it is further behind.",
                title="Smaller than a full run",
            )
        ]
    )
    plot = Plot(
        f"Lines a second, {loop}",
        "",
        "lines a second",
        [Series("lines", list(cases[0].ways), [bench.estimate("tps", name, loop).median for name in cases[0].ways])],
        kind="bar",
    )
    return Result(
        TITLE,
        f"A line of a run log costs {bench.estimate('latency_ms', LEAN, loop).median:.3g} ms, compared with "
        f"{bench.estimate('latency_ms', 'chunk rows', loop).median:.3g} in a chunk table by hand "
        f"and {bench.estimate('latency_ms', 'bytea EXTERNAL', loop).median:.3g} in bytea.",
        what=f"{writers} sessions append a line at a time to a log each, {human_bytes(live)} in the end, in columns of appendable_text and appendable_bytea, "
             "of text and bytea "
        "with STORAGE EXTERNAL, as rows of a hand-written chunk table, and as large objects whose writers know where they end.",
        how="`pgbench` with prepared statements; each line is a transaction. Ways take turns in each repetition. WAL and sizes are the server's, of table, "
            "indexes, TOAST and chunks.",
        headlines=[headline(bench, writers, loop)],
        blocks=[*scaled, *tables, most, *more, plot],
        checks=[*checks, *more_checks],
    )
