"""Six applications, replayed: the statements that they send, on stock PostgreSQL and after one ALTER TABLE, with the same answers."""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass, field

import numpy as np
import psycopg
from psycopg.types.string import TextLoader

from pg_lean.applications import APPLICATIONS, Application, Event, as_bytes
from pg_lean.bench import Bench, Check, Headline, LabError, Note, Result, Table
from pg_lean.measure import cpu_seconds, wal_position
from pg_lean.names import extension_schema

TITLE = "Six applications, replayed: what their statements take after one ALTER TABLE"
PRELOAD = ("appendable_bytea",)
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "32GB",
    "autovacuum": False,
    # waiting for the disk is the same in all ways, and no part of what differs
    "synchronous_commit": False,
    "appendable_bytea.store_differences": True,
}

#: Ways to store the column, and the setting of their sessions.
LZ4, PGLZ, LEAN = "stock lz4", "stock pglz", "pg_lean"
WAYS = {LZ4: "lz4", PGLZ: "pglz", LEAN: "lz4"}
#: Values of an application, and events of each: 100,000 lines, or more than 1,000 messages.
SIZES = {"Windmill": (100, 1000), "Coolify": (100, 1000), "Gitea": (20, 500), "Open WebUI": (3, 1500), "LangGraph": (5, 800), "Mastra": (5, 800)}
#: Events that a way has before it is the next one's turn; and between two vacuums, as autovacuum would do it.
TURN, VACUUM = 25, 100
#: What tables, indexes and chunks may take of the disk space of stock with lz4.
DISK = 1.3


@dataclass
class Store:
    """The tables of an application in a schema, and a session of the application."""

    conn: psycopg.Connection
    tables: tuple[str, ...]
    took: list[float] = field(default_factory=list)
    wal: int = 0
    cpu: float = 0.0
    answers: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def send(self, events: list[Event], watcher: psycopg.Connection) -> None:
        """Do what the application does, and measure it."""
        pid = self.conn.info.backend_pid
        wal, cpu = wal_position(watcher), cpu_seconds(pid)
        for event in events:
            answers = []
            start = time.perf_counter()
            with self.conn.transaction() if event.together else contextlib.nullcontext():
                for statement, parameters in event.statements:
                    cursor = self.conn.execute(statement, parameters, prepare=True)
                    answers.append((cursor.rowcount, cursor.fetchall() if cursor.description else []))
            self.took.append((time.perf_counter() - start) * 1000)
            for count, rows in answers:
                self.answers.update(b"%d\n" % count)
                for row in rows:
                    self.answers.update(b"\t".join(map(as_bytes, row)) + b"\n")
        self.wal += wal_position(watcher) - wal
        self.cpu += (cpu_seconds(pid) or 0.0) - (cpu or 0.0)

    def vacuum(self) -> None:
        for table in (*self.tables, *self.stores()):
            self.conn.execute(f"VACUUM {table}")

    def stores(self) -> list[str]:
        """The chunk stores of the tables."""
        return [store for table in self.tables
                if (store := self.conn.execute("SELECT to_regclass('appendable_store.chunks_' || %s::regclass::oid)::text", (table,)).fetchone()[0])]

    def disk(self) -> int:
        """Bytes of the tables, their indexes, TOAST and chunks."""
        return sum(self.conn.execute("SELECT pg_total_relation_size(%s::regclass)", (name,)).fetchone()[0] for name in (*self.tables, *self.stores()))

    def measured(self, changed: int) -> dict[str, float]:
        """The events since the last call, which made so many bytes: what one of them took."""
        events = len(self.took)
        found = {
            "events": events,
            "wal": self.wal / events,
            "wal_a_byte": self.wal / changed,
            "cpu_ms": self.cpu * 1000 / events,
            "median_ms": float(np.median(self.took)),
            "p99_ms": float(np.quantile(self.took, 0.99)),
        }
        self.wal, self.cpu, self.took = 0, 0.0, []
        return found


def make_store(bench: Bench, app: Application, way: str) -> Store:
    """The application's tables in a schema of this way, as the application makes them; ours after one command."""
    schema = f"apps_{app.name}_{way}".lower().replace(" ", "_")
    conn = bench.connect(default_toast_compression=WAYS[way])
    for kind in ("json", "jsonb"):
        # what is compared is the text that the server sends, not what Python makes of it
        conn.adapters.register_loader(kind, TextLoader)
    conn.execute(f"CREATE SCHEMA {schema}")
    conn.execute(f"SET search_path = {schema}, pg_temp")
    for statement in app.setup.split("; "):
        conn.execute(statement)
    if way == LEAN:
        conn.execute(app.alter.format(ext=extension_schema(conn, "appendable_bytea")))
    return Store(conn, app.tables)


def replay(bench: Bench, app: Application, values: int, count: int) -> None:
    """All values of an application, one after the other; the ways take turns, and have the same answers."""
    stores = {way: make_store(bench, app, way) for way in WAYS}
    names = list(stores)
    watcher = bench.connect()
    with bench.progress(values * count, app.name) as step:
        for number in range(1, values + 1):
            events, done, changed = app.events(number, count), 0, 0
            while batch := [event for event, _ in zip(events, range(TURN))]:
                turn = done // TURN % len(names)
                for way in names[turn:] + names[:turn]:
                    stores[way].send(batch, watcher)
                done += len(batch)
                changed += sum(event.changed for event in batch)
                if done % VACUUM < TURN:
                    for store in stores.values():
                        store.vacuum()
                step(f"value {number}", len(batch))
            compare(app, stores, number)
            for way, store in stores.items():
                bench.raw.add(way, number - 1, app.name, **store.measured(changed))
    for way, store in stores.items():
        store.vacuum()
        bench.raw.add(way, 0, f"{app.name}, disk", disk=store.disk())
        store.conn.close()
    watcher.close()


def compare(app: Application, stores: dict[str, Store], number: int) -> None:
    """All answers so far, and the value as it is now, are those of stock."""
    for store in stores.values():
        for row in store.conn.execute(*app.whole(number)):
            store.answers.update(b"\t".join(map(as_bytes, row)) + b"\n")
    digests = {way: store.answers.hexdigest() for way, store in stores.items()}
    different = [way for way, digest in digests.items() if digest != digests[LZ4]]
    if different:
        raise LabError(f"{app.name}: the answers of {', '.join(different)} differ from those of {LZ4} (value {number})")


def run(bench: Bench) -> Result:
    """Each application; the number of values is scaled by --effort, their length is not."""
    bench.need_private().need_extension("appendable_bytea")
    sizes = {name: (bench.iterations(full=values, quick=1), bench.pick(full=count, quick=60)) for name, (values, count) in SIZES.items()}
    for app in APPLICATIONS:
        replay(bench, app, *sizes[app.name])
    return present(bench, sizes)


def present(bench: Bench, sizes: dict[str, tuple[int, int]]) -> Result:
    """For each figure a table of the applications."""
    def table(title: str, metric: str, of: str = "{}", note: str = "") -> Table:
        cases = {app.name: of.format(app.name) for app in APPLICATIONS}
        return Table(title, ["application", *WAYS, f"{LZ4} / {LEAN}"], [
            [name, *(bench.estimate(metric, way, case) for way in WAYS), bench.ratio(metric, LZ4, LEAN, case)] for name, case in cases.items()], note=note)

    tables = [
        table("Bytes of WAL of an event", "wal"),
        table("Bytes of WAL for each byte that is new", "wal_a_byte"),
        table("Bytes on disk after VACUUM", "disk", "{}, disk", "Tables, indexes, TOAST and chunks."),
        table("Median time of an event, ms", "median_ms"),
        table("99th percentile of the time of an event, ms", "p99_ms"),
        table("CPU time of the server process for an event, ms", "cpu_ms"),
    ]
    loudest = "Open WebUI"
    stock, lean = (bench.estimate("wal", way, loudest) for way in (LZ4, LEAN))
    what = f"{APPLICATIONS[3].event} in a chat of {loudest}"
    return Result(
        title=TITLE,
        summary=f"{what[0].upper()}{what[1:]} writes {lean.median:,.0f} bytes of WAL instead of {stock.median:,.0f}; all answers are the same.",
        what="The statements that six applications send when a log, a chat or an agent's state grows, in the order in which they send them, to columns of the "
             "applications' types with both compression methods of the server, and to the same tables after one ALTER TABLE, with "
             "`appendable_bytea.store_differences = on`.",
        how=f"Values are written one after the other from nothing; the ways take turns every {TURN} events; tables are vacuumed every {VACUUM} events, "
            "which is not measured. All answers and the finished values are compared byte by byte. Times are the client's, with "
            "`synchronous_commit = off`. A row's figures are medians over its values.",
        headlines=[Headline(what, bench.ratio("wal", LZ4, LEAN, loudest), [(LZ4, stock.median), (LEAN, lean.median)], "bytes of WAL")],
        blocks=[*tables, *(describe(app, *sizes[app.name]) for app in APPLICATIONS)],
        checks=[Check.of(f"{app.name}: bytes on disk after VACUUM, {LEAN} / {LZ4}", bench.ratio("disk", LEAN, LZ4, f"{app.name}, disk"), "<=", DISK)
                for app in APPLICATIONS],
    )


def describe(app: Application, values: int, count: int) -> Note:
    psycopg_too = "" if app.driver.startswith("psycopg") else "; here psycopg sends the same statements"
    return Note(f"{values} times {app.value}, {count} events each; an event is {app.event}. Source: {app.source}. Driver: {app.driver}{psycopg_too}.", app.name)
