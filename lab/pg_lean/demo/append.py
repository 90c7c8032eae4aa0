"""A growing file streamed into one row by appends: appendable_bytea beside bytea, each as fast as it can follow."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import psycopg

from pg_lean.appending import PG_LEAN, STOCK, Method
from pg_lean.bench import Bench, Check, Estimate, Note, Plot, Result, Series, Table, Unavailable, human_bytes
from pg_lean.cluster import Cluster

TITLE = "A growing file in one row: appendable_bytea beside bytea"
PRELOAD = ("appendable_bytea",)
#: The server writes every statement to its log, which is the file that is streamed.
SETTINGS = {"log_statement": "all", "log_parameter_max_length": "0", "max_wal_size": "16GB"}

#: The most that one append takes from the file, and how long a follower sleeps if nothing is new.
MOST, NAP = 64 << 10, 0.005
MB = 1 << 20

#: What pgbench runs while the log is streamed: long enough for a log of a few MB a second.
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

    def follow(self, path: Path, start: float, stop: threading.Event) -> None:
        statement = f"UPDATE {self.table} SET data = data || %b::bytea WHERE id = 1"
        length = 0
        try:
            with open(path, "rb") as file:
                while not stop.is_set():
                    chunk = file.read(MOST)
                    if not chunk:
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
    """Let a file grow, follow it with both methods at once, and compare."""
    bench.server.need_extension("appendable_bytea")
    seconds = bench.pick(full=25, quick=8)
    followers = {}
    for method in (PG_LEAN, STOCK):
        conn = bench.connect(synchronous_commit=False)
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            conn.execute("SET log_statement = 'none'")
        followers[method.name] = Follower(method, conn, f"followed_by_{method.name}")
        followers[method.name].prepare()

    stop = threading.Event()
    with growing_file(bench, seconds) as (path, what):
        start = time.perf_counter()
        threads = [threading.Thread(target=follower.follow, args=(path, start, stop)) for follower in followers.values()]
        sizes: list[tuple[float, int]] = []
        with bench.activity(f"streaming {what} for {seconds} s"):
            for thread in threads:
                thread.start()
            try:
                while time.perf_counter() - start < seconds:
                    time.sleep(0.2)
                    sizes.append((time.perf_counter() - start, path.stat().st_size))
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
        for follower in followers.values():
            if follower.error:
                raise follower.error
        intact = {name: follower.holds_prefix_of(path) for name, follower in followers.items()}
    result = present(bench, followers, sizes, what, seconds, intact)
    for follower in followers.values():
        follower.conn.execute(f"DROP TABLE {follower.table}")
        follower.conn.close()
    return result


@contextlib.contextmanager
def growing_file(bench: Bench, seconds: int) -> Iterator[tuple[Path, str]]:
    """The file given with --file, else the private server's log under load, else a file that grows here."""
    given = getattr(bench.options, "file", None)
    if given:
        path = Path(given)
        if not path.is_file() or not os.access(path, os.R_OK):
            raise Unavailable(f"cannot read the file {path}", "Give another one with --file.")
        yield path, str(path)
    elif isinstance(bench.server, Cluster):
        bench.pgbench_tables(1)
        load = threading.Thread(target=bench.server.run, args=("pgbench", "-n", "-T", str(seconds), "-f", "-"), kwargs={"input": STATEMENT})
        load.start()
        try:
            yield bench.server.log, "the server's own log under pgbench"
        finally:
            load.join()
    else:
        with tempfile.NamedTemporaryFile("wb", prefix="pg_lean-", suffix=".log") as file:
            done = threading.Event()

            def write() -> None:
                number = 0
                while not done.is_set():
                    for _ in range(200):
                        number += 1
                        file.write(f"{time.time():.6f} line {number} {os.urandom(60).hex()}\n".encode())
                    file.flush()
                    time.sleep(0.01)

            writer = threading.Thread(target=write)
            writer.start()
            try:
                yield Path(file.name), "a file of log lines that grows by about 3 MB/s"
            finally:
                done.set()
                writer.join()


def present(bench: Bench, followers: dict[str, Follower], sizes: list[tuple[float, int]], what: str, seconds: int,
            intact: dict[str, bool]) -> Result:
    """Both curves, and what an append costs at the end."""
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
    size = sizes[-1][1] if sizes else lean.lengths[-1]
    return Result(
        title=TITLE,
        summary=f"In {seconds} s {what} grew to {human_bytes(size)}: `appendable_bytea` holds {human_bytes(lean.lengths[-1])} of it after "
                f"{len(lean.ms):,} appends, `bytea` {human_bytes(stock.lengths[-1])} after {len(stock.ms):,}.",
        what=f"`UPDATE t SET data = data || $1` with what is new in the file, at most {human_bytes(MOST)} at once, on a row with `appendable_bytea` and on "
             "one with `bytea` (STORAGE EXTERNAL).",
        how=f"Two sessions follow the same file at the same time, each as fast as it can: {what}. `synchronous_commit` is off. The time is the client's. "
            "At the end the SHA-256 of each row is compared with that of the file.",
        blocks=[
            Plot("How far each one has come", "seconds", "MB", grown),
            Plot("What one append costs as the value grows", "MB in the row", "ms", cost, log_y=True),
            Table("The streams", ["method", "appends", "MB in the row", "ms an append", "ms an append, last tenth", "same bytes as the file"], rows),
            Note("`bytea` writes the whole value again at every append, so each one takes longer than the one before it; `appendable_bytea` writes the new "
                 "bytes."),
        ],
        checks=[Check("rows that hold the file's bytes", sum(intact.values()), ">=", len(intact)),
                Check("share of the file that appendable_bytea holds when time is up", lean.lengths[-1] / size, ">=", 0.9)])
