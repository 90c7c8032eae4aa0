"""Cut the power at many moments of a server's run, and compare with a model outside.

A server with all of the project's libraries and fsync on works for a while: writers
change appended values of bytes, text and JSON in every way, tables with such columns come and
go, temporary tables are loaded, everything is vacuumed, rewritten and checkpointed, and
halfway the server is stopped and started.  A recorder below it (power/record.c) logs
every call that changes a file.  Then, for each of many cuts through that log,
replay.py builds possible contents of the disk after a power cut at that point: all synced writes,
any part of the others, torn within pages, and with names lost.  The server must start on it;
every value that was acknowledged before the cut must be there, and otherwise
only values that were being committed; appendable_bytea_check() must find nothing; the server must
accept more, and stop and start again with the same; and no file of the project may be left over.

That the method would see a loss is tried too: the same with fsync, full_page_writes or
synchronous_commit off must fail.

    power.py [--cuts N] [--seconds N] [--pg-config LABEL] [--seed N] [--only TEXT] [--keep FOLDER] [--json FILE]

Ends with status 0 only if everything matched, and a loss was seen where there had to be one.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import contextlib
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import psycopg

from pg_lean.cluster import LIBRARIES, Cluster
from pg_lean.errors import LabError
import changes
import record
import replay

WRITERS = 4
ROWS = 8
#: Bytes; all files of a state are written for each cut.
LONG = 150_000

SETTINGS = {
    # over QUIET of cluster.py: checkpoints, the background writer and autovacuum are at work
    "fsync": "on", "full_page_writes": "on", "max_wal_size": "8MB", "min_wal_size": "4MB", "checkpoint_timeout": "30s", "checkpoint_completion_target": "0.5",
    "shared_buffers": "16MB", "temp_buffers": "1MB", "wal_buffers": "256kB", "bgwriter_lru_maxpages": "100", "autovacuum_naptime": "3s",
    "max_prepared_transactions": "10", "max_connections": "30", "light_explain.profile": "on", "max_parallel_workers": "4",
}


class Round(NamedTuple):
    name: str
    settings: dict
    loses: bool = False  #: must lose something: that is what the method is tried with
    share: float = 1.0  #: of the cuts of other rounds


ROUNDS = (
    Round("fdatasync", {}),
    # relations made by a transaction are not logged, but synced at its commit
    Round("open_datasync, wal_level = minimal", {"wal_sync_method": "open_datasync", "wal_level": "minimal", "max_wal_senders": "0"}),
    Round("fsync = off", {"fsync": "off"}, loses=True, share=0.1),
    # a server that starts as if nothing had happened
    Round("synchronous_commit = off", {"synchronous_commit": "off", "wal_writer_delay": "10s"}, loses=True, share=0.2),
    Round("full_page_writes = off", {"full_page_writes": "off"}, loses=True, share=0.4),
)

TABLES = """
CREATE TABLE power (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_bytea NOT NULL);
CREATE TABLE power_text (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_text NOT NULL);
CREATE TABLE power_json (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_json NOT NULL);
CREATE TABLE power_jsonb (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_jsonb NOT NULL);
CREATE TABLE rows AS SELECT g AS k, g % 97 AS v, md5(g::text) AS t FROM generate_series(1, 5000) g;
"""
#: Tables that writers change.
WRITTEN = ("power", "power_text", "power_json", "power_jsonb")

REFUSED = (psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable)


class Wrong(Exception):
    """A disk from which the server does not come back as it must."""


def small_segments(cluster: Cluster) -> None:
    """WAL files of 1 MB, before the cluster's first start: many of them, and less to write for each cut."""
    done = cluster.run("pg_resetwal", "--wal-segsize=1", "-f", "-D", cluster.inside(cluster.data))
    if done.returncode:
        raise LabError(f"pg_resetwal failed: {done.stderr.strip()}")


class Recorded(Cluster):
    """A cluster whose later starts are below the recorder."""

    def _initdb(self) -> None:
        super()._initdb()
        small_segments(self)

    def record(self) -> None:
        """Log what is done from now on; the server is stopped."""
        library, self.log_file, self.count_file = (self.home / name for name in ("record.so", "calls", "count"))
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(Path(__file__).parent / "power" / "record.c"), "-ldl"], check=True)
        self.log_file.touch()
        self.count_file.write_bytes(bytes(8))
        for path in (library, self.log_file, self.count_file):
            self._folder(path)
        # a server in a chroot knows them by other names
        self.preloaded = {"LD_PRELOAD": self.inside(library), "POWER_ROOT": self.inside(self.data), "POWER_LOG": self.inside(self.log_file),
                          "POWER_COUNT": self.inside(self.count_file)}
        with open(self.count_file, "rb") as file:
            self.count = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    @property
    def records(self) -> int:
        """How many calls were logged so far."""
        return struct.unpack("=Q", self.count[:8])[0]

    def _launch(self) -> None:
        os.environ.update(preloaded := getattr(self, "preloaded", {}))
        try:
            super()._launch()
        finally:
            for name in preloaded:
                del os.environ[name]


class Restored(Cluster):
    """A server on a disk after a power cut."""

    def _initdb(self) -> None:
        super()._initdb()
        shutil.rmtree(self.data)

    def create_extensions(self) -> None:
        pass

    def make_schema(self) -> None:
        pass

    def prepare(self) -> None:
        """The folders, without a server."""
        self._initdb()


class Commit(NamedTuple):
    """An acknowledged transaction of a writer: what its rows are from then on."""

    sent: int  #: records when the commit was sent
    acked: int  #: records when it was acknowledged
    values: dict  #: key: (length, digest)


class Writer:
    """One session that changes a set of rows, and the commits that were acknowledged."""

    def __init__(self, run: "Recording", number: int):
        self.run, self.name = run, f"writer{number}"
        self.table = WRITTEN[number % len(WRITTEN)]
        self.kind = changes.kind_of(self.table)
        self.ids = range(number * 100, number * 100 + ROWS)
        self.model: dict[int, changes.Value] = {}
        self.commits = [Commit(0, 0, {})]
        self.prepared = 0

    def step(self, conn, rng) -> None:
        now = dict(self.model)
        conn.execute("BEGIN")
        try:
            for _ in range(rng.choice((1, 1, 2, 3))):
                if rng.random() < 0.2:
                    kept = dict(now)
                    conn.execute("SAVEPOINT s")
                    changes.change(conn, rng, self.table, self.ids, now, LONG)
                    if rng.random() < 0.5:
                        conn.execute("ROLLBACK TO s")
                        now = kept
                changes.change(conn, rng, self.table, self.ids, now, LONG)
            way = rng.random()
            if way < 0.1:
                conn.execute("ROLLBACK")
                return
            if way < 0.2:
                self.prepared += 1
                gid = f"{self.name}-{self.prepared}"
                conn.execute(f"PREPARE TRANSACTION '{gid}'")
                self.commit(conn, f"COMMIT PREPARED '{gid}'", now)
            else:
                self.commit(conn, "COMMIT", now)
        except REFUSED:
            conn.execute("ROLLBACK")

    def commit(self, conn, statement: str, now: dict) -> None:
        sent = self.run.server.records
        conn.execute(statement)
        self.model = now
        self.commits.append(Commit(sent, self.run.server.records, {key: (len(value), changes.digest(value)) for key, value in now.items()}))

    def check(self, conn, cut: int, counts: collections.Counter) -> None:
        """Is what was acknowledged at a cut there, or that and the transaction which was being committed?"""
        last = bisect.bisect_right([commit.acked for commit in self.commits], cut) - 1
        allowed = [self.commits[last].values]
        if last + 1 < len(self.commits) and self.commits[last + 1].sent < cut:
            allowed.append(self.commits[last + 1].values)
        found = self.found(conn)
        counts["values compared"] += len(found)
        if found not in allowed:
            bad = [key for key in self.ids if found.get(key) != allowed[0].get(key)]
            raise Wrong(f"rows {bad} of {self.table} are not as acknowledged ({len(allowed)} states possible)")

    def found(self, conn) -> dict:
        rows = conn.execute(f"SELECT {changes.columns(self.kind)} FROM {self.table} WHERE id = ANY(%s)", (list(self.ids),), binary=True).fetchall()
        for key, _, digest, total in rows:
            if bytes(digest) != bytes(total):
                raise Wrong(f"row {key} of {self.table} does not match its own checksum")
        return {key: (length, bytes(digest)) for key, length, digest, _ in rows}


class Maker(Writer):
    """A session whose rows are tables with a value each."""

    def __init__(self, run: "Recording", number: int):
        super().__init__(run, number)
        self.table = "made"

    def step(self, conn, rng) -> None:
        now = dict(self.model)
        key = rng.choice(self.ids)
        conn.execute("BEGIN")
        if key in now:
            conn.execute(f"DROP TABLE made_{key}")
            del now[key]
        else:
            now[key] = changes.some(rng, rng.choice((10, 3000, 50000)), False)
            conn.execute(f"CREATE TABLE made_{key} (id int, sum bytea, data appendable_bytea)")
            conn.execute(f"INSERT INTO made_{key} VALUES (%s, %s, %s::bytea)", (key, changes.digest(now[key]), now[key]))
        if rng.random() < 0.2:
            conn.execute("ROLLBACK")
        else:
            self.commit(conn, "COMMIT", now)
        time.sleep(0.05)

    def found(self, conn) -> dict:
        return {
            key: (length, bytes(digest))
            for (table,) in conn.execute("SELECT relname FROM pg_class WHERE relname ~ '^made_[0-9]+$' AND relkind = 'r'").fetchall()
            for key, length, digest, _ in conn.execute(f"SELECT {changes.columns('bytea')} FROM {table}", binary=True).fetchall()
        }


def load(conn, rng) -> None:
    """A temporary table larger than its buffers."""
    conn.execute("SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0")
    conn.execute("CREATE TEMP TABLE mine AS SELECT * FROM rows")
    conn.execute("CREATE INDEX ON mine (k)")
    conn.execute("INSERT INTO mine SELECT k + 5000, v, t FROM mine")
    conn.execute("SELECT count(*), sum(v) FROM mine")
    conn.execute("DROP TABLE mine")
    time.sleep(rng.random())


def maintain(conn, rng) -> None:
    store = conn.execute("SELECT store FROM appendable_bytea_stats() WHERE store::text !~ 'made' ORDER BY random() LIMIT 1").fetchone()[0]
    table = rng.choice(WRITTEN)
    with contextlib.suppress(psycopg.errors.UndefinedTable):
        conn.execute(rng.choice(("CHECKPOINT", "CHECKPOINT", f"VACUUM {table}", f"VACUUM {store}", f"VACUUM FULL {table}", f"REINDEX TABLE {store}",
                                 f"CLUSTER {table} USING {table}_pkey")))
    time.sleep(rng.random())


class Recording:
    """The calls that a server made, and the commits that it acknowledged."""

    def __init__(self, args: argparse.Namespace, round_: Round):
        self.args, self.round = args, round_
        self.server = Recorded(args.pg_config, preload=LIBRARIES, settings={**SETTINGS, **round_.settings}, name="power")
        self.writers = [Writer(self, number) for number in range(WRITERS)] + [Maker(self, WRITERS)]
        self.errors: list[str] = []
        self.stop = threading.Event()

    def actor(self, name: str, step) -> threading.Thread:
        def run() -> None:
            rng = random.Random(f"{self.args.seed} {self.round.name} {name} {time.monotonic()}")
            try:
                with psycopg.connect(self.server.conninfo, autocommit=True, application_name=name,
                                     options=f"-c search_path={self.server.schema},public -c client_min_messages=error -c lock_timeout=20s") as conn:
                    while not self.stop.is_set():
                        step(conn, rng)
            except Exception:
                self.errors.append(f"{name}: {traceback.format_exc()}")
        return threading.Thread(target=run, name=name, daemon=True)

    def work(self, seconds: float) -> None:
        self.stop.clear()
        threads = [self.actor(writer.name, writer.step) for writer in self.writers] + [self.actor("load", load), self.actor("maintain", maintain)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.errors:
            time.sleep(0.1)
        self.stop.set()
        for thread in threads:
            thread.join(120)
        if self.errors:
            raise Wrong(f"the server did not work below the recorder: {self.errors[0]}")

    def make(self, seconds: float) -> None:
        """Work, stop, start and work again; the disk is what it was before."""
        with self.server.connect() as conn:
            self.version = conn.info.parameter_status("server_version").split()[0]
            if conn.execute("SHOW debug_assertions").fetchone()[0] == "on":
                self.version += " with assertions"
            conn.execute(TABLES)
        self.server.stop()
        self.disk = replay.Disk(self.server.data)
        self.server.record()
        self.server._launch()
        self.work(seconds / 2)
        self.server.restart()
        self.work(seconds / 2)
        self.server.stop()
        with open(self.server.log_file, "rb") as file:
            self.log = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def cuts(self, rng: random.Random, n: int) -> list[int]:
        """The moments of the cuts: half of them anywhere, half next to a sync or a change of names."""
        kinds = replay.kinds(self.log)
        if len(kinds) != self.server.records:
            raise Wrong(f"the log has {len(kinds)} records, and {self.server.records} were counted")
        marked = [at for at, kind in enumerate(kinds) if kind not in "wa"]
        return sorted(rng.randint(1, len(kinds)) if i % 2 else min(rng.choice(marked) + rng.randint(0, 1), len(kinds)) for i in range(n))


class Power:
    """All rounds, with what came of them."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.random = random.Random(args.seed)
        self.results: list[dict] = []
        self.version: str | None = None

    def run(self) -> None:
        for round_ in ROUNDS:
            if not self.args.only or self.args.only in round_.name:
                self.results.append(self.run_round(round_))

    def run_round(self, round_: Round) -> dict:
        counts: collections.Counter = collections.Counter()
        wrong: list[str] = []
        started = time.monotonic()
        recording = Recording(self.args, round_)
        with recording.server:
            try:
                recording.make(self.args.seconds)
            except Wrong as error:
                print(f"WRONG: {error}", flush=True)
                return {"name": round_.name, "loses": round_.loses, "cuts": 0, "counts": {}, "wrong": [str(error)] if not round_.loses else [], "minutes": 0}
            self.version = recording.version
            cuts = recording.cuts(self.random, max(round(self.args.cuts * round_.share / sum(1 for r in ROUNDS if not r.loses)), 2))
            print(f"{round_.name}: {recording.server.records} calls, {len(recording.log) >> 20} MB,"
                  f" {sum(len(w.commits) - 1 for w in recording.writers)} commits; {len(cuts)} cuts", flush=True)
            with contextlib.ExitStack() as stack:
                server = Restored(self.args.pg_config, preload=LIBRARIES, settings={**SETTINGS, **round_.settings, "fsync": "off"}, name="restored")
                stack.callback(server.close)
                server.prepare()
                server.schema = recording.server.schema
                for number, cut in enumerate(cuts):
                    recording.disk.replay(recording.log, cut)
                    # the seed of one cut, so that it can be repeated
                    problem = self.cut(server, recording, cut, random.Random(f"{self.args.seed} {round_.name} {cut} {number}"), counts)
                    if problem:
                        wrong.append(f"{round_.name}, cut {number} after {cut} calls: {problem}")
                        if not round_.loses:
                            print(f"WRONG: {wrong[-1]}", flush=True)
                        if self.args.keep and not round_.loses:
                            shutil.copytree(server.home, self.args.keep / f"{round_.name.split()[0]}-{number}", symlinks=True)
                    if (number + 1) % 25 == 0:
                        print(f"{time.strftime('%H:%M:%S')} {round_.name}: {number + 1} of {len(cuts)} cuts, {len(wrong)} wrong", flush=True)
            counts["calls"], counts["commits"] = recording.server.records, sum(len(w.commits) - 1 for w in recording.writers)
            recording.server.count.close()
        print(f"{round_.name}: {len(wrong)} of {len(cuts)} cuts lost something" + (", as they must" if round_.loses and wrong else ""), flush=True)
        return {"name": round_.name, "loses": round_.loses, "cuts": len(cuts), "counts": dict(sorted(counts.items())), "wrong": wrong,
                "minutes": round((time.monotonic() - started) / 60, 1)}

    def cut(self, server: Restored, recording: Recording, cut: int, rng: random.Random, counts: collections.Counter) -> str | None:
        """The power goes at a cut; what is wrong then, if anything is."""
        if server.data.exists():
            shutil.rmtree(server.data)
        server.log.unlink(missing_ok=True)
        owner = (server.user.pw_uid, server.user.pw_gid) if server.user else None
        counts["calls not synced"] += sum(len(entry.pending) for entry in recording.disk.inodes.values() if isinstance(entry, replay.File))
        counts["names not synced"] += len(recording.disk.names)
        recording.disk.crash(rng, server.data, owner)
        try:
            server._launch()
            self.look_for_files(server)  # before a session that makes some
            self.verify(server, recording, cut, rng, counts)
            before = self.contents(server)
            server.restart()
            if self.contents(server) != before:
                raise Wrong("a second start changed values")
            counts["second starts"] += 1
            self.look_for_files(server)
        except Wrong as error:
            return str(error)
        except (LabError, psycopg.Error) as error:
            lines = [line for line in server.log.read_text(errors="replace").splitlines() if any(word in line for word in ("FATAL", "PANIC", "ERROR", "TRAP"))]
            what = "the server did not start" if isinstance(error, LabError) else str(error).splitlines()[0]
            return f"{what}: {' / '.join(lines[-3:])}"
        finally:
            server.stop("immediate")
        return None

    def verify(self, server: Restored, recording: Recording, cut: int, rng: random.Random, counts: collections.Counter) -> None:
        with psycopg.connect(server.conninfo, autocommit=True, options=f"-c search_path={server.schema},public") as conn:
            for (gid,) in conn.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
                conn.execute(f"ROLLBACK PREPARED '{gid}'")
            for writer in recording.writers:
                writer.check(conn, cut, counts)
            self.check_stores(conn)
            # and it continues
            for writer in recording.writers[:2]:
                key = writer.ids[-1] + 1
                more = changes.some(rng, 9000, writer.kind == "text")
                conn.execute(f"INSERT INTO {writer.table} VALUES (%s, 0, %s, %s::{writer.kind})", (key, changes.digest(more * 2), more))
                conn.execute(f"UPDATE {writer.table} SET data = data || %s::{writer.kind} WHERE id = %s", (more, key))
            conn.execute("CREATE TEMP TABLE mine AS SELECT * FROM rows")
            if conn.execute("SELECT count(*) FROM mine").fetchone()[0] != 5000:
                raise Wrong("a temporary table has not what was loaded")
            conn.execute(f"VACUUM {', '.join(WRITTEN)}")
            self.check_stores(conn)
            if conn.execute("SELECT count(*) FROM rows").fetchone()[0] != 5000:
                raise Wrong("rows of a plain table are lost")

    @staticmethod
    def check_stores(conn) -> None:
        problems = conn.execute("SELECT table_name::text, column_name, problem FROM appendable_bytea_check()").fetchall()
        if problems:
            raise Wrong(f"appendable_bytea_check(): {problems[:3]}")

    @staticmethod
    def contents(server: Restored) -> list:
        with psycopg.connect(server.conninfo, autocommit=True, options=f"-c search_path={server.schema},public") as conn:
            return [conn.execute(f"SELECT {changes.columns(changes.kind_of(table))} FROM {table} ORDER BY 1").fetchall() for table in WRITTEN]

    @staticmethod
    def look_for_files(server: Restored) -> None:
        """Of temporary tables and of light_explain's saved profile nothing stays behind."""
        left = [path for path in (server.data / "base").rglob("*") if path.name.startswith("t") and "_" in path.name and not path.is_dir()]
        left += [path for path in (server.data / "base").glob("pgsql_tmp/*")]
        left += list((server.data / "pg_stat").glob("light_explain*"))
        if left:
            raise Wrong(f"files are left: {[str(path.relative_to(server.data)) for path in left[:5]]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cuts", type=int, default=200, help="how often the power goes (default 200), rounds that must lose something not counted")
    parser.add_argument("--seconds", type=float, default=20.0, help="of work that is recorded in each round (default 20)")
    parser.add_argument("--pg-config", help="pg_config of a server, or a label of ci/lib.sh (18, 18-assert)")
    parser.add_argument("--only", help="rounds with this in their name")
    parser.add_argument("--keep", type=Path, help="copy what went wrong into this folder")
    args = record.begin(parser, "random choices; what the server does meanwhile is never the same")
    power = Power(args)
    run = record.about(record.made(f"power CUTS={args.cuts}", args.pg_config, *([f'--only "{args.only}"'] if args.only else [])))
    try:
        power.run()
    except KeyboardInterrupt:
        return 130
    wrong = [text for result in power.results if not result["loses"] for text in result["wrong"]]
    blind = [result["name"] for result in power.results if result["loses"] and not result["wrong"]]
    for name in blind:
        print(f"WRONG: no loss was seen with {name}")
    print(f"{sum(result['cuts'] for result in power.results if not result['loses'])} cuts,"
          f" {sum(result['counts'].get('values compared', 0) for result in power.results if not result['loses'])} values compared, {len(wrong)} wrong")
    if args.json:
        record.write(args.json, {**run, "server": power.version}, {"seed": args.seed, "rounds": power.results, "wrong": wrong, "blind": blind})
    return 1 if wrong or blind else 0


if __name__ == "__main__":
    sys.exit(main())
