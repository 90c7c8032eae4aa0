"""One byte added to 100 MB, and a growing file streamed into one row: appendable_bytea beside bytea.

Both are bounded by size. What one byte costs is measured a fixed number of times.
The file grows to a fixed length and no further, and is followed until
appendable_bytea holds all of it; bytea holds what it could follow until then.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

import psycopg

from pg_lean.appending import PG_LEAN, STOCK, Method, Store, make_source
from pg_lean.bench import Bench, Check, Estimate, Headline, LabError, Note, Plot, Result, Series, Table, Unavailable, human_bytes
from pg_lean.cluster import Cluster

TITLE = "One byte added to 100 MB, and a growing file in one row"
PRELOAD = ("appendable_bytea",)
#: The server writes every statement to its log, which is the file that is streamed.
SETTINGS = {"log_statement": "all", "log_parameter_max_length": "0", "max_wal_size": "16GB"}

MB = 1 << 20
#: The value that a byte is added to.
VALUE = 100 * MB
#: The most that one append takes from the file, the most of it that is followed, and how long a follower sleeps if nothing is new.
MOST, LONGEST, NAP = 64 << 10, 256 * MB, 0.005
#: Seconds without anything new after which a file of the user's is taken to have ended.
IDLE = 2

#: What pgbench runs while the log is streamed, so many times: its length is a line of the log.
STATEMENT = f"SELECT count(*) FROM pgbench_branches WHERE filler <> '{'a long literal, as applications write them; ' * 50}';\n"


@dataclass
class Follower:
    """Appends what is new in a file to one row until the file ends, and remembers what each append cost."""

    method: Method
    conn: psycopg.Connection
    table: str
    seconds: list[float] = field(default_factory=list)      # when each append was done
    lengths: list[int] = field(default_factory=list)        # the value's length then
    ms: list[float] = field(default_factory=list)
    error: Exception | None = None

    def prepare(self) -> None:
        for statement in self.method.setup.format(t=self.table).split(";"):
            self.conn.execute(statement)
        self.conn.execute(f"INSERT INTO {self.table} VALUES (1, '')")

    def follow(self, path: Path, start: float, ended: Callable[[], bool], stop: threading.Event) -> None:
        """Append until the file has ended and all of it is in the row, or until `stop`."""
        statement = f"UPDATE {self.table} SET data = data || %b::bytea WHERE id = 1"
        length = 0
        try:
            with open(path, "rb") as file:
                while not stop.is_set() and length < LONGEST:
                    over = ended()
                    chunk = file.read(min(MOST, LONGEST - length))
                    if not chunk:
                        if over:
                            return
                        time.sleep(NAP)
                        continue
                    before = time.perf_counter()
                    self.conn.execute(statement, (chunk,), prepare=True)
                    length += len(chunk)
                    self.ms.append((time.perf_counter() - before) * 1000)
                    self.seconds.append(time.perf_counter() - start)
                    self.lengths.append(length)
        except Exception as error:
            self.error = error

    def holds_prefix_of(self, path: Path) -> bool:
        """Are the bytes in the row those of the file, as far as it was followed?"""
        length, digest = self.conn.execute(f"SELECT octet_length(data), sha256(data) FROM {self.table}").fetchone()
        expected = hashlib.sha256()
        left = length
        with open(path, "rb") as file:
            while left > 0:
                part = file.read(min(left, MB))
                expected.update(part)
                left -= len(part)
        return length == (self.lengths[-1] if self.lengths else 0) and bytes(digest) == expected.digest()


def run(bench: Bench) -> Result:
    """What one byte costs, then the growing file, followed by both methods at once."""
    bench.server.need_extension("appendable_bytea")
    one_byte(bench)
    followers, sizes, what, intact = stream(bench)
    return present(bench, followers, sizes, what, intact)


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


def stream(bench: Bench) -> tuple[dict[str, Follower], list[tuple[float, int]], str, dict[str, bool]]:
    """Let a file grow to its length and follow it with both methods at once, until appendable_bytea holds it."""
    followers = {}
    for method in (PG_LEAN, STOCK):
        conn = bench.connect(synchronous_commit=False)
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            conn.execute("SET log_statement = 'none'")
        followers[method.name] = Follower(method, conn, f"followed_by_{method.name}")
        followers[method.name].prepare()

    stop = threading.Event()
    sizes: list[tuple[float, int]] = []
    with contextlib.ExitStack() as stack:
        for follower in followers.values():
            stack.callback(follower.conn.close)
        path, what, ended = stack.enter_context(growing_file(bench))
        start = time.perf_counter()
        threads = {name: threading.Thread(target=follower.follow, args=(path, start, ended, stop)) for name, follower in followers.items()}
        with bench.activity(f"streaming {what}"):
            for thread in threads.values():
                thread.start()
            try:
                while threads["pg_lean"].is_alive():
                    threads["pg_lean"].join(0.1)
                    sizes.append((time.perf_counter() - start, min(path.stat().st_size, LONGEST)))
            finally:
                stop.set()
                for thread in threads.values():
                    thread.join()
        for follower in followers.values():
            if follower.error:
                raise follower.error
        intact = {name: follower.holds_prefix_of(path) for name, follower in followers.items()}
        for follower in followers.values():
            follower.conn.execute(f"DROP TABLE {bench.server.schema}.{follower.table}")
    return followers, sizes, what, intact


@contextlib.contextmanager
def growing_file(bench: Bench) -> Iterator[tuple[Path, str, Callable[[], bool]]]:
    """The file given with --file, else the private server's log under load, else a file that grows here; and whether it has ended."""
    given = getattr(bench.options, "file", None)
    lines = bench.pick(full=20_000, quick=5_000)
    if given:
        path = Path(given)
        if not path.is_file() or not os.access(path, os.R_OK):
            raise Unavailable(f"cannot read the file {path}", "Give another one with --file.")
        yield path, str(path), lambda: time.time() - path.stat().st_mtime > IDLE
    elif isinstance(bench.server, Cluster):
        bench.pgbench_tables(1)
        load = threading.Thread(target=bench.server.run, args=("pgbench", "-n", "-t", str(lines), "-f", "-"), kwargs={"input": STATEMENT})
        load.start()
        try:
            yield bench.server.log, "the server's own log under pgbench", lambda: not load.is_alive()
        finally:
            load.join()
    else:
        with tempfile.NamedTemporaryFile("wb", prefix="pg_lean-", suffix=".log") as file:
            leave = threading.Event()

            def write() -> None:
                for number in range(lines):
                    file.write(f"{time.time():.6f} line {number} {os.urandom(1000).hex()}\n".encode())
                    if number % 50 == 49:
                        file.flush()
                        if leave.wait(0.01):
                            return
                file.flush()

            writer = threading.Thread(target=write)
            writer.start()
            try:
                yield Path(file.name), "a file of log lines", lambda: not writer.is_alive()
            finally:
                leave.set()
                writer.join()


def present(bench: Bench, followers: dict[str, Follower], sizes: list[tuple[float, int]], what: str, intact: dict[str, bool]) -> Result:
    """What a byte costs, both curves, and what an append costs at the end."""
    rows, grown, cost = [], [Series("the file", [t for t, _ in sizes], [size / MB for _, size in sizes], dashed=True)], []
    for name, follower in followers.items():
        if not follower.ms:
            raise Unavailable(f"{what} did not grow", "Give a file that grows, with --file.")
        for n, (at, length, ms) in enumerate(zip(follower.seconds, follower.lengths, follower.ms)):
            bench.raw.add(name, n, "stream", seconds=at, length=length, ms=ms)
        last = follower.ms[-max(len(follower.ms) // 10, 1):]
        rows.append([name, len(follower.ms), follower.lengths[-1] / MB, Estimate.of(follower.ms), Estimate.of(last), intact[name]])
        every = max(len(follower.ms) // 400, 1)
        grown.append(Series(name, follower.seconds[::every], [length / MB for length in follower.lengths[::every]]))
        cost.append(Series(name, [length / MB for length in follower.lengths[::every]],
                           [Estimate.of(follower.ms[i:i + every]).median for i in range(0, len(follower.ms), every)]))
    lean, stock = followers["pg_lean"], followers["stock"]
    ratio = bench.ratio("ms", "stock", "pg_lean", "one byte")
    ms = {name: bench.estimate("ms", name, "one byte") for name in followers}
    wal = {name: bench.estimate("wal_bytes", name, "one byte") for name in followers}
    return Result(
        title=TITLE,
        summary=f"One byte added to {human_bytes(VALUE)} takes {ms['pg_lean'].median * 1000:,.0f} µs and {wal['pg_lean'].median:,.0f} bytes of WAL instead of "
                f"{ms['stock'].median:,.0f} ms and {human_bytes(wal['stock'].median)}. By the time `appendable_bytea` held all {human_bytes(lean.lengths[-1])} of "
                f"{what}, `bytea` held {human_bytes(stock.lengths[-1])}.",
        what=f"`UPDATE t SET data = data || $1`, on a row with `appendable_bytea` and on one with `bytea` (STORAGE EXTERNAL): one byte added to a value of "
             f"{human_bytes(VALUE)}; and what is new in a growing file, at most {human_bytes(MOST)} at once.",
        how=f"One byte: methods in turns, each append committed (`synchronous_commit` off), time and WAL as the server tells them. File: two sessions follow "
            f"{what} at the same time, each as fast as it can, the time is the client's; both stop when `appendable_bytea` holds the whole file. "
            "At the end the SHA-256 of each row is compared with that of the file.",
        headlines=[Headline(f"one byte added to {human_bytes(VALUE)}", ratio, [("bytea", ms["stock"].median), ("appendable_bytea", ms["pg_lean"].median)])],
        blocks=[
            Table(f"One byte added to {human_bytes(VALUE)}", ["method", "ms", "WAL bytes"], [[name, ms[name], wal[name]] for name in ("stock", "pg_lean")]),
            Plot("A growing file: how far each one has come", "seconds", "MB", grown),
            Plot("What one append costs as the value grows", "MB in the row", "ms", cost, log_y=True),
            Table("The streams", ["method", "appends", "MB in the row", "ms an append", "ms an append, last tenth", "same bytes as the file"], rows),
            Note("`bytea` writes the whole value again at every append, so each one takes longer than the one before it; `appendable_bytea` writes the new "
                 "bytes."),
        ],
        checks=[Check("both rows hold the file's own bytes, as far as they followed it (1 is yes)", int(all(intact.values())), ">=", 1)])
