"""Everything at once, while parts of it are killed, compared with a model outside.

One primary with all of the project's libraries, one standby, one logical
subscriber.  At the same time:

* writers change appended values, of bytes, text and JSON, in every way (insert, append, replace, edit,
  truncate, delete; plain, in savepoints, rolled back, prepared) and keep what each
  of their rows must hold; each row also carries the checksum of its value,
* readers compare value and checksum on the primary and, with snapshots that stay
  open, on the standby,
* sessions load temporary tables and read them in parallel, some of them in a
  tablespace that is too small for them; the answers are known,
* sessions run EXPLAIN ANALYZE, and read progress and profile,
* maintenance vacuums, rewrites, reindexes and alters the tables,

and a killer ends backends, workers, the walwriter, the checkpointer, the standby
and the postmaster with SIGKILL, terminates and cancels sessions, breaks connections,
lets the servers' wall clock jump, and the primary's disk be full for a while, that of
its data, of its WAL or of its temporary files (faults.c), while processes are killed as
before: it may stop, and must recover when there is space.

After each crash every writer compares all its values.  A transaction whose commit
was under way when the server went must be there wholly or not at all.  Every
CALM_AFTER kills, and at the end, writers hold still until standby and subscriber
have caught up, and every value is compared on all three servers.  At the end
appendable_bytea_check() must find nothing, every chunk must have an owner once the
store has been vacuumed, and no file, shared memory object or slot may be left.

    chaos.py [--minutes N | --kills N] [--pg-config LABEL] [--seed N] [--only FAULT]... [--pause SECONDS] [--json FILE]

Ends with status 0 only if everything matched.

Longer than other files: sessions, faults and comparison share the model and its locks.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import itertools
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Iterator

import psycopg

from pg_lean.cluster import LIBRARIES, Cluster
from pg_lean.errors import LabError
from pg_lean.paths import BUILD, SERVER_DIR
import changes
import record

WRITERS = 6
ROWS = 12
#: Seconds in which a server must start, or one that waits for another must get ahead.
PATIENCE = 900
#: Of a writer after a commit; the subscriber has one process for what all writers do.
PAUSE = 0.01
#: Appends stop at this size: all of a value goes to the subscriber at each change, so most rows stay at a tenth.
LONG = 400_000
#: So many kills later all servers are compared; the lag of the subscriber, which decodes again after each crash, stays bounded.
CALM_AFTER = 30
#: struct faults of faults.c: the clock's seconds, which disk is full (see DISKS), of which data directory.
FAULTS = struct.Struct("=qq4096s")
DISKS = {"data": 1, "WAL": 2, "temporary files": 4}
#: Seconds after a full disk in which the session that asked for a checkpoint may be told that it failed.
SHORTLY = 15
#: Seconds without a startup process after which a server that does not answer will never have one.
ABANDONED = 30
#: Seconds for which a disk is full.
FULL = 3.0
#: Faults that are not injected at the same time: the server has to start again, or the disk is full already.
NOT_WHEN_FULL = ("postmaster", "immediate stop", "standby postmaster", "full disk")
#: A clock may go ahead by an hour, but back only this many seconds: the server's timeouts (also for deadlocks) wait that much longer.
CLOCK_BACK = 15

#: The server went away, is going, or is not there yet.
GONE = (psycopg.OperationalError, psycopg.InterfaceError)
#: Errors that cancels, deadlocks, conflicts and concurrent DDL may raise in a session of the test.
REFUSED = (psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable,
           psycopg.errors.DiskFull)

SETTINGS = {
    "wal_level": "logical", "max_prepared_transactions": 20, "max_wal_senders": 8, "max_replication_slots": 8, "max_worker_processes": 24,
    "fsync": "off", "autovacuum_naptime": "5s", "max_wal_size": "1GB", "hot_standby": "on", "max_standby_streaming_delay": "2s",
    "restart_after_crash": "on", "max_connections": 80, "max_parallel_workers": 8, "light_explain.profile": "on",
    "wal_receiver_timeout": "10s", "wal_sender_timeout": "10s", "shared_buffers": "64MB", "wal_retrieve_retry_interval": "500ms",
    # a standby that is killed begins again where its last restartpoint is
    "checkpoint_timeout": "30s",
}

TABLES = """
CREATE TABLE chaos (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_bytea NOT NULL);
CREATE TABLE chaos_parts (id int, n int NOT NULL, sum bytea NOT NULL, data appendable_bytea NOT NULL, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE chaos_part1 PARTITION OF chaos_parts FOR VALUES FROM (0) TO (200);
CREATE TABLE chaos_part2 PARTITION OF chaos_parts FOR VALUES FROM (200) TO (100000);
CREATE TABLE chaos_text (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_text NOT NULL);
CREATE TABLE chaos_json (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_json NOT NULL);
CREATE TABLE chaos_jsonb (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_jsonb NOT NULL);
CREATE TABLE rows AS SELECT g AS k, g % 97 AS v, md5(g::text) AS t FROM generate_series(1, 60000) g;
CREATE INDEX ON rows (k);
ANALYZE rows;
"""


#: Tables that writers change.
WRITTEN = ("chaos", "chaos_parts", "chaos_text", "chaos_json", "chaos_jsonb")
#: Has an appendable_jsonb other parts than the jsonb that it is?
OTHER_PARTS = " OR ".join(f"data {part} IS DISTINCT FROM data::jsonb {part}" for part in ("-> -1", "#> '{0,text}'"))
#: Every value with its expected and its actual checksum.
EVERY_VALUE = (f"({' UNION ALL '.join(f'SELECT {changes.columns(changes.kind_of(table))} FROM {table}' for table in WRITTEN)})"
               " a (id, n, digest, sum)")


class Wrong(Exception):
    """An answer that is not what it must be."""


class Copy(Cluster):
    """A standby of another cluster: its base backup, with separate `settings`."""

    def __init__(self, primary: Cluster, small: str | None):
        self.primary, self.small = primary, small
        super().__init__(primary.pg_config if primary.root is None else primary.root.name, preload=primary.preload,
                         settings=primary.settings, name="standby")

    def _initdb(self) -> None:
        # The folders are made as for any cluster; the data comes from the primary.
        super()._initdb()
        subprocess.run(["rm", "-rf", str(self.data)], check=True)
        source = f"host={self.inside(self.primary.sockets)} user=postgres application_name=standby"
        done = self.run("pg_basebackup", "-D", self.inside(self.data), "-R", "-C", "-S", "standby", "-d", source, "-c", "fast",
                        *(["-T", f"{self.small}={self.small}-of-standby"] if self.small else []))
        if done.returncode:
            raise LabError(f"no base backup: {done.stderr}")

    def create_extensions(self) -> None:
        pass

    def make_schema(self) -> None:
        pass


class Chaos:
    """The run: servers, what happened (counts) and what was wrong."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.end = float("inf")
        self.counts: collections.Counter = collections.Counter()
        self.wrong: list[str] = []
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.hold = threading.Event()  # set: actors hold still, the servers are being compared
        self.writing = 0
        self.sessions: dict[str, psycopg.Connection] = {}
        self.faults: Path | None = None
        self.full_until = float("-inf")
        self.random = random.Random(args.seed)
        self.marks = 0
        self.server_version: str | None = None

    def cluster(self, make, *args, **kwargs) -> Cluster:
        server = make(*args, **kwargs)
        server.patience = PATIENCE
        return server

    def count(self, name: str, n: int = 1) -> None:
        with self.lock:
            self.counts[name] += n

    def report(self, text: str) -> None:
        with self.lock:
            self.wrong.append(text)
            print(f"WRONG: {text}", flush=True)

    @property
    def over(self) -> bool:
        return self.stop.is_set() or time.monotonic() > self.end or (self.args.kills is not None and self.killed >= self.args.kills)

    def connect(self, server: Cluster, name: str, patience: float = 120) -> psycopg.Connection:
        """A session, as soon as the server is there."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return psycopg.connect(server.conninfo, autocommit=True, application_name=name, connect_timeout=20,
                                       options=f"-c search_path={self.primary.schema},public -c statement_timeout=120s -c lock_timeout=20s")
            except GONE:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def actor(self, step, server: Cluster, name: str):
        """A thread that calls step(conn, random) until the end, in new sessions after errors that a crash explains."""
        def run() -> None:
            rng = random.Random(f"{self.args.seed} {name}")
            conn = None
            while not self.over:
                try:
                    if conn is None or conn.closed:
                        self.sessions[name] = conn = self.connect(server, name)
                    with self.turn(writes=name.startswith("writer")):
                        step(conn, rng)
                    self.count(name.rstrip("0123456789"))
                except REFUSED as error:
                    self.count(f"refused: {type(error).__name__}")
                    with contextlib.suppress(psycopg.Error):
                        conn.rollback()
                except GONE:
                    with contextlib.suppress(Exception):
                        conn.close()
                    conn = None
                    time.sleep(0.1)
                except Wrong as error:
                    self.report(f"{name}: {error}")
                    time.sleep(0.5)
                except psycopg.Error as error:
                    self.report(f"{name}: {error.sqlstate} {error}")
                    with contextlib.suppress(psycopg.Error):
                        conn.rollback()
                    time.sleep(0.5)
                except Exception:
                    self.report(f"{name}: {traceback.format_exc()}")
                    time.sleep(0.5)
            if conn is not None:
                conn.close()
        return threading.Thread(target=run, name=name, daemon=True)

    @contextlib.contextmanager
    def turn(self, writes: bool):
        """Around what an actor does at a time: nothing begins while the servers are being compared."""
        while True:
            with self.lock:
                if not self.hold.is_set():
                    self.writing += writes
                    break
            time.sleep(0.05)
        try:
            yield
        finally:
            with self.lock:
                self.writing -= writes

    # -- writers -------------------------------------------------------------

    def writer(self, number: int):
        table = WRITTEN[number % len(WRITTEN)]
        kind = changes.kind_of(table)
        shown = changes.TEXTS.get(kind, "{column}::bytea").format(column="data")
        model: dict[int, bytes | str] = {}
        ids = range(number * 100, number * 100 + ROWS)
        state = {"doubt": None, "server": None, "prepared": 0}

        def check(conn) -> None:
            """Compare every row; decide first what became of a transaction in doubt."""
            # Behind a connection that broke the server may still be at its statement.
            deadline = time.monotonic() + 300
            while conn.execute("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid())",
                               (f"writer{number}",)).fetchone()[0]:
                if time.monotonic() > deadline:
                    raise Wrong("a session without its client does not end")
                time.sleep(0.05)
            for (gid,) in conn.execute("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE %s", (f"w{number}-%",)).fetchall():
                with contextlib.suppress(psycopg.errors.UndefinedObject):
                    conn.execute(f"ROLLBACK PREPARED '{gid}'")
            rows = {row[0]: (row[1], bytes(row[2])) for row in conn.execute(
                f"SELECT id, {shown}, sum FROM {table} WHERE id = ANY(%s)", (list(ids),), binary=True)}
            found = {key: value for key, (value, _) in rows.items()}
            for key, (value, total) in rows.items():
                if hashlib.sha256(changes.encoded(value)).digest() != total:
                    raise Wrong(f"row {key} of {table} does not match its own checksum")
                if kind == "jsonb":
                    if conn.execute(f"SELECT {OTHER_PARTS} FROM {table} WHERE id = %s", (key,)).fetchone()[0]:
                        raise Wrong(f"a part of row {key} of {table} is another one")
                if kind.startswith("json"):
                    continue
                at = random.randrange(len(value) + 1)
                start = len(changes.encoded(value[:at]))
                piece = conn.execute(
                    f"SELECT t.data, next_offset FROM {table}, appendable_tail(data, %s, 5000) t WHERE id = %s", (start, key), binary=True
                ).fetchone()
                if not value[at:].startswith(piece[0]) or piece[1] != start + len(changes.encoded(piece[0])) or (not piece[0] and at < len(value)):
                    raise Wrong(f"what follows byte {start} of row {key} of {table} is something else")
            self.count("values compared", len(rows))
            doubt = state["doubt"]
            if found != model and not (doubt is not None and found == doubt):
                bad = [key for key in ids if found.get(key) != model.get(key)]
                raise Wrong(f"rows {bad} of {table} are not as acknowledged (in doubt: {doubt is not None})")
            if found != model:
                self.count("commits in doubt that were there")
                model.clear()
                model.update(found)
            state["doubt"] = None

        def step(conn, rng) -> None:
            if state["server"] is not conn:
                check(conn)
                state["server"] = conn
            now = dict(model)
            way = rng.random()
            conn.execute("BEGIN")
            try:
                for _ in range(rng.choice((1, 1, 2, 4))):
                    if rng.random() < 0.2:
                        kept = dict(now)
                        conn.execute("SAVEPOINT s")
                        changes.change(conn, rng, table, ids, now, LONG)
                        if rng.random() < 0.5:
                            conn.execute("ROLLBACK TO s")
                            now = kept
                    changes.change(conn, rng, table, ids, now, LONG)
                if way < 0.1:
                    conn.execute("ROLLBACK")
                    return
                if way < 0.2:
                    state["prepared"] += 1
                    gid = f"w{number}-{state['prepared']}"
                    conn.execute(f"PREPARE TRANSACTION '{gid}'")
                    if rng.random() < 0.3:
                        conn.execute(f"ROLLBACK PREPARED '{gid}'")
                        return
                    end = f"COMMIT PREPARED '{gid}'"
                else:
                    end = "COMMIT"
                state["doubt"] = now
                conn.execute(end)
            except BaseException:
                state["server"] = None
                with contextlib.suppress(psycopg.Error):
                    conn.execute("ROLLBACK")
                raise
            state["doubt"] = None
            model.clear()
            model.update(now)
            self.count("commits acknowledged")
            time.sleep(PAUSE)

        return self.actor(step, self.primary, f"writer{number}"), check

    # -- the others ----------------------------------------------------------

    def read(self, conn, rng) -> None:
        """Value and checksum of rows, with a snapshot that stays for a while."""
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        first = None
        for _ in range(3):
            rows = conn.execute(f"SELECT id, n, digest = sum FROM {EVERY_VALUE} ORDER BY id").fetchall()
            if not all(row[2] for row in rows):
                raise Wrong(f"values do not match their checksums: {[row[0] for row in rows if not row[2]]}")
            if first is not None and rows != first:
                raise Wrong("a snapshot does not see the same rows twice")
            first = rows
            self.count("values read", len(rows))
            time.sleep(rng.random())
        conn.execute("COMMIT")

    def read_standby(self, conn, rng) -> None:
        try:
            self.read(conn, rng)
        finally:
            with contextlib.suppress(psycopg.Error):
                conn.rollback()

    def analyse(self, conn, rng) -> None:
        """Load a temporary table and read it, in parallel and serially."""
        n = rng.choice((500, 20000, 60000))
        small = rng.random() < 0.2 and self.small
        conn.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
        conn.execute(f"SET temp_tablespaces = '{'small' if small else ''}'")
        try:
            conn.execute("DROP TABLE IF EXISTS mine")  # whoever cancels may do so twice
            conn.execute(f"CREATE TEMP TABLE mine AS SELECT * FROM rows WHERE k <= {n}")
            if rng.random() < 0.5:
                conn.execute("CREATE INDEX ON mine (k)")
            conn.execute("ANALYZE mine")
            conn.execute(f"INSERT INTO mine SELECT k + {n}, v, t FROM mine")
            if rng.random() < 0.3:
                conn.execute("BEGIN; DELETE FROM mine WHERE v < 50; ROLLBACK")
            wanted = (2 * n, 2 * sum(g % 97 for g in range(1, n + 1)))
            for workers in (2, 0):
                conn.execute(f"SET max_parallel_workers_per_gather = {workers}")
                got = conn.execute("SELECT count(*), sum(v)::bigint FROM mine").fetchone()
                if got != wanted:
                    raise Wrong(f"count and sum are {got} instead of {wanted} with {workers} workers")
                got = conn.execute("SELECT count(*) FROM mine m JOIN rows r ON m.k = r.k").fetchone()[0]
                if got != min(2 * n, 60000):
                    raise Wrong(f"a join has {got} rows with {workers} workers")
            self.count("temporary answers compared", 4)
        except psycopg.errors.DiskFull:
            self.count("temporary tables on a full disk")
            with contextlib.suppress(psycopg.Error):
                conn.rollback()
        finally:
            if not conn.closed:
                with contextlib.suppress(psycopg.Error):
                    conn.rollback()
                    conn.execute("DROP TABLE IF EXISTS mine")

    def explain(self, conn, rng) -> None:
        for statement in ("SELECT count(*) FROM rows", "SELECT v, count(*) FROM rows GROUP BY v ORDER BY 2",
                          "SELECT count(*) FROM rows a JOIN rows b USING (k) WHERE a.v < 20", "SELECT id, length(data) FROM chaos"):
            conn.execute(f"EXPLAIN (ANALYZE) {statement}").fetchall()
        conn.execute("SELECT count(*) FROM pg_stat_activity").fetchone()
        for view in self.views:
            conn.execute(f"SELECT count(*) FROM {view}").fetchone()

    def maintain(self, conn, rng) -> None:
        store = conn.execute("SELECT store FROM appendable_bytea_stats() ORDER BY random() LIMIT 1").fetchone()[0]
        conn.execute("SET client_min_messages = error")
        table = rng.choice(("chaos", "chaos_part1", "chaos_part2", "chaos_text", "chaos_json", "chaos_jsonb"))
        command = rng.choice((f"VACUUM {table}", f"VACUUM {store}", f"VACUUM {table}", "ANALYZE chaos", "CHECKPOINT", f"VACUUM FULL {table}",
                              f"REINDEX TABLE {store}", f"REINDEX TABLE CONCURRENTLY {store}", f"CLUSTER {table} USING {table}_pkey",
                              "ALTER TABLE chaos ADD COLUMN IF NOT EXISTS more int DEFAULT 1; ALTER TABLE chaos DROP COLUMN more",
                              f"CALL appendable_compact('{table}')", f"CALL appendable_compact('{table}', 'n % 2 = 0')", f"CALL appendable_shrink('{table}')"))
        self.count(f"maintenance: {command.split()[0]}")
        try:
            for part in command.split(";"):
                conn.execute(part)
        except psycopg.errors.InternalError_ as error:
            # the checkpointer met a full disk, and tells that to its own log only
            if "checkpoint request failed" not in str(error) or not self.disk_was_full():
                raise
            self.count("refused: checkpoint on a full disk")
        time.sleep(rng.random() * 2)

    # -- the killer ----------------------------------------------------------

    def processes(self, server: Cluster, kinds: str) -> list[int]:
        """Pids of a server's children whose title matches; kinds is a part of it."""
        parent = self.postmaster(server)
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    if int(stat[1]) == parent and kinds in (entry / "cmdline").read_bytes().decode(errors="replace"):
                        found.append(int(entry.name))
        return found

    def postmaster(self, server: Cluster) -> int:
        """The postmaster as seen from here (in a root its pid file contains the same: there is no pid namespace)."""
        return int((server.data / "postmaster.pid").read_text().split()[0])

    def await_gone(self, children: list[int]) -> None:
        """Wait for the children of a postmaster that was killed.

        The server checks for its postmaster where it waits, so a running computation continues to its end: a VACUUM of
        chunks on a busy machine took more than a minute.  A process that is left after PATIENCE hangs.
        """
        deadline = time.monotonic() + PATIENCE
        while left := {pid: title for pid in children if (title := title_of(pid))}:
            if time.monotonic() > deadline:
                raise LabError(f"children of a postmaster that was killed are still there: {left}", "Look at them with gdb.")
            time.sleep(0.1)

    def kill_postmaster(self, server: Cluster) -> None:
        children = self.processes(server, "")
        os.kill(self.postmaster(server), signal.SIGKILL)
        server.process.wait()
        self.await_gone(children)
        self.relaunch(server)

    def relaunch(self, server: Cluster) -> None:
        """Start a server whose postmaster and children are gone."""
        server.process = None
        for _ in range(5):
            try:
                server._launch()
                return
            except LabError as error:
                last = error
                time.sleep(2)
        raise last

    def kill(self, but: tuple[str, ...] = ()) -> None:
        """End something, or be another fault: any kind but these."""
        rng = self.random
        kinds = (("backend", 6), ("parallel worker", 3), ("walwriter", 1), ("checkpointer", 1), ("background writer", 1), ("autovacuum worker", 1),
                 ("walsender", 1), ("terminate", 3), ("cancel", 4), ("postmaster", 3), ("immediate stop", 1), ("standby postmaster", 1),
                 ("connection", 4), ("clock", 1), ("full disk", 2))
        kinds = [(kind, weight) for kind, weight in kinds if (not self.args.only or kind in self.args.only) and kind not in but]
        if not kinds:
            return
        kind = rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        if kind == "connection":
            # The client's end goes without a word, whatever the server is at.
            with socket.socket(fileno=os.dup(rng.choice(list(self.sessions.values())).fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
            self.count("connections broken")
            return
        if kind == "clock":
            if self.faults is not None:
                self.jump(rng.choice((-rng.randint(1, CLOCK_BACK), rng.randint(1, 3600))))
            return
        if kind == "full disk":
            if self.faults is not None:
                self.fill_disk(rng.choice(tuple(DISKS)))
            return
        if kind in ("terminate", "cancel"):
            with self.connect(self.primary, "killer", patience=1 if but else 120) as conn:
                conn.execute(f"SELECT pg_{kind}_backend(pid) FROM pg_stat_activity WHERE application_name <> 'killer' AND backend_type IN"
                             " ('client backend', 'parallel worker') ORDER BY random() LIMIT 2")
        elif kind == "postmaster":
            self.kill_postmaster(self.primary)
        elif kind == "immediate stop":
            self.primary.stop("immediate")
            self.primary._launch()
        elif kind == "standby postmaster":
            self.kill_postmaster(self.standby)
        else:
            title = "postgres: postgres postgres" if kind == "backend" else kind.replace("backend", "")
            deadline = time.monotonic() + 5
            while not (victims := self.processes(self.primary, title)) and time.monotonic() < deadline:
                time.sleep(0.02)
            if not victims:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
        self.count(f"killed: {kind}")

    def jump(self, seconds: int) -> None:
        """Move the wall clock of all servers."""
        self.set_faults(ahead=seconds)
        self.count(f"clock jumps {'ahead' if seconds > 0 else 'back'}")

    def set_faults(self, ahead: int = 0, full: int | None = None) -> None:
        """Move the clock, and have these disks of the primary full (None: those that are)."""
        clock, now_full, _ = FAULTS.unpack(self.faults.read_bytes())
        with open(self.faults, "r+b") as file:
            file.write(FAULTS.pack(clock + ahead, now_full if full is None else full, os.fsencode(self.primary.inside(self.primary.data))))

    def disk_was_full(self) -> bool:
        """Is a disk full, or was one until a short time ago?"""
        return time.monotonic() < self.full_until + SHORTLY

    def fill_disk(self, name: str) -> None:
        """Fill the primary's disk of that name for a while, during which kills continue; then the server must come back."""
        children = self.processes(self.primary, "")
        panics, killed = self.panics(), self.killed
        self.full_until = float("inf")
        self.set_faults(full=DISKS[name])
        try:
            end = time.monotonic() + FULL
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, self.args.pause * (0.5 + self.random.random())))
                with contextlib.suppress(*GONE, OSError, ValueError, IndexError):
                    self.kill(but=NOT_WHEN_FULL)
        finally:
            self.full_until = time.monotonic()
            self.set_faults(full=0)
        self.count(f"full disks: {name}")
        self.count("full disks: processes killed meanwhile", self.killed - killed)
        if self.panics() > panics:
            self.count("full disks the server did not survive")
        # Recovery also needs space: if it found the full disk, the postmaster has ended; or it waits for
        # no process: if recovery fails between its start and the postmaster's notice of that, which
        # takes a busy machine, HandleChildCrash() takes the startup process for one that was
        # told to exit, and no other is started (seen on 18.6).
        deadline = time.monotonic() + PATIENCE
        recovering = time.monotonic()
        while time.monotonic() < deadline:
            if self.primary.process.poll() is not None:
                self.await_gone(children)
                self.relaunch(self.primary)
            elif self.processes(self.primary, "startup"):
                recovering = time.monotonic()
            elif time.monotonic() > recovering + ABANDONED:
                self.count("full disks: postmasters that waited for a startup process that was gone")
                self.kill_postmaster(self.primary)
                recovering = time.monotonic()
            with contextlib.suppress(*GONE), psycopg.connect(self.primary.conninfo, autocommit=True, connect_timeout=20) as conn:
                conn.execute("SELECT 1")
                return
            time.sleep(0.2)
        self.report(f"the server did not come back when there was room again for {name}")

    def panics(self) -> int:
        """How often the primary went down because a disk was full."""
        return sum(b"PANIC:" in line and b"No space left" in line for line in self.primary.log.read_bytes().splitlines())

    def make_faults(self, stack: contextlib.ExitStack) -> None:
        """Servers started from now on have a clock that jumps and disks that fill; without a C compiler they keep the machine's."""
        base = self.primary.root / "var/tmp/pg_lean-cluster" if self.primary.root else SERVER_DIR / "cluster"
        base.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"faults-{os.getpid()}-", dir=base))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        library, faults = folder / "faults.so", folder / "faults"
        faults.write_bytes(FAULTS.pack(0, 0, b""))
        if shutil.which("cc") is None:
            return
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(Path(__file__).parent / "faults.c"), "-ldl"], check=True)
        for path in (library, faults):
            path.chmod(0o644)
        os.environ["CHAOS_FAULTS"], os.environ["LD_PRELOAD"] = self.primary.inside(faults), self.primary.inside(library)
        stack.callback(os.environ.pop, "LD_PRELOAD")
        self.faults = faults

    # -- the run -------------------------------------------------------------

    def wait_caught_up(self, server: Cluster, what: str, condition: str, values: tuple, place: str) -> None:
        """Wait until the condition is true, as long as the server's place (a query's answer) moves."""
        deadline, last = time.monotonic() + PATIENCE, None
        while time.monotonic() < deadline:
            with contextlib.suppress(*GONE, *REFUSED):
                with self.connect(server, "wait") as conn:
                    if conn.execute(condition, values).fetchone()[0]:
                        return
                    if (now := conn.execute(place).fetchone()[0]) != last:
                        deadline, last = time.monotonic() + PATIENCE, now
            time.sleep(0.2)
        raise Wrong(f"{what} did not catch up")

    def compare_servers(self) -> None:
        """While no session writes, standby and subscriber catch up, and hold the same values as the primary."""
        self.marks += 1
        while True:
            try:
                with self.connect(self.primary, "verify") as conn:
                    conn.execute("INSERT INTO chaos VALUES (99999, %s, sha256(''), ''::bytea) ON CONFLICT (id) DO UPDATE SET n = excluded.n", (self.marks,))
                    end = conn.execute("SELECT pg_current_wal_lsn()").fetchone()[0]
                break
            except (*GONE, *REFUSED):  # the last kill may come to the server after this began
                time.sleep(0.2)
        marked = "SELECT EXISTS (SELECT FROM chaos WHERE id = 99999 AND n = %s)"
        self.wait_caught_up(self.standby, "the standby", f"{marked} AND pg_last_wal_replay_lsn() >= %s::pg_lsn", (self.marks, end),
                            "SELECT pg_last_wal_replay_lsn()")
        self.wait_caught_up(self.subscriber, "the subscriber", marked, (self.marks,), "SELECT max(remote_lsn) FROM pg_replication_origin_status")
        primary = self.contents(self.primary)
        for name, server in (("standby", self.standby), ("subscriber", self.subscriber)):
            if self.contents(server) != primary:
                raise Wrong(f"the {name} does not hold what the primary holds")
        self.count("comparisons of all three servers")

    def calm(self) -> None:
        """Actors end what they are at; then all servers are compared."""
        started = time.monotonic()
        self.hold.set()
        try:
            deadline = time.monotonic() + 600
            while self.writing:
                if time.monotonic() > deadline:
                    raise Wrong("writers hang")
                time.sleep(0.05)
            self.compare_servers()
        except Wrong as error:
            self.report(str(error))
        finally:
            self.hold.clear()
        self.count("seconds of comparisons", round(time.monotonic() - started))

    def run(self) -> None:
        settings = dict(SETTINGS)
        with contextlib.ExitStack() as stack:
            self.primary = self.cluster(Cluster, self.args.pg_config, preload=LIBRARIES, settings=settings, name="chaos")
            self.make_faults(stack)
            stack.enter_context(self.primary)
            self.small = self.make_small_space()
            with self.connect(self.primary, "setup") as conn:
                self.server_version = conn.info.parameter_status("server_version").split()[0]
                if conn.execute("SHOW debug_assertions").fetchone()[0] == "on":
                    self.server_version += " with assertions"
                conn.execute(TABLES)
                if self.small:
                    conn.execute(f"CREATE TABLESPACE small LOCATION '{self.small}'")
                    conn.execute("ALTER DATABASE postgres SET log_min_error_statement = panic")
                self.views = [row[0] for row in conn.execute(
                    "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e'"
                    " JOIN pg_extension e ON e.oid = d.refobjid WHERE relkind = 'v' AND extname <> 'appendable_bytea'")]
            self.standby = stack.enter_context(self.cluster(Copy, self.primary, self.small))
            self.subscriber = subscriber = stack.enter_context(
                self.cluster(Cluster, self.args.pg_config, preload=("appendable_bytea",), settings=settings, name="subscriber")
            )
            self.make_subscription(subscriber)
            writers = [self.writer(number) for number in range(WRITERS)]
            threads = [thread for thread, _ in writers]
            threads += [self.actor(self.read, self.primary, "reader"), self.actor(self.read_standby, self.standby, "standby reader"),
                        self.actor(self.analyse, self.primary, "analyst1"), self.actor(self.analyse, self.primary, "analyst2"),
                        self.actor(self.explain, self.primary, "explainer"), self.actor(self.maintain, self.primary, "maintenance")]
            for thread in threads:
                thread.start()
            last = time.monotonic()
            if self.args.kills is None:
                self.end = last + 60 * self.args.minutes
            compared = 0
            while not self.over:
                time.sleep(self.args.pause * (0.5 + self.random.random()))
                try:
                    self.kill()
                except (*GONE, OSError, ValueError, IndexError):
                    pass
                if self.killed >= compared + CALM_AFTER:
                    compared = self.killed
                    self.calm()
                if time.monotonic() - last > 60:
                    last = time.monotonic()
                    print(f"{time.strftime('%H:%M:%S')} killed {self.killed}, commits {self.counts['commits acknowledged']},"
                          f" values compared {self.counts['values compared'] + self.counts['values read']}, wrong {len(self.wrong)}", flush=True)
            self.stop.set()
            for thread in threads:
                thread.join(300)
                if thread.is_alive():
                    self.report(f"{thread.name} hangs")
            self.verify(writers)

    @property
    def killed(self) -> int:
        return sum(n for name, n in list(self.counts.items()) if name.startswith("killed") and not name.endswith("cancel"))

    def make_small_space(self) -> str | None:
        """A tablespace with room for one of the two sizes of temporary tables; needs root."""
        if os.geteuid() != 0:
            return None
        folder = self.primary.home / "small"
        folder.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=6m,mode=700,uid={self.primary.user.pw_uid}", "none", str(folder)],
                          capture_output=True).returncode:
            return None
        if self.primary.root is not None:
            # a server in a root has a mount namespace made before this one
            subprocess.run(["umount", str(folder)], check=True)
            return None
        self.primary.restart()  # into this process's mount namespace
        return self.primary.inside(folder)

    def make_subscription(self, subscriber: Cluster) -> None:
        with self.connect(self.primary, "setup") as conn:
            conn.execute(f"CREATE PUBLICATION chaos FOR TABLE {WRITTEN[0]} (id, n, sum, data), {', '.join(WRITTEN[1:])}"
                         " WITH (publish_via_partition_root = true)")
        with self.connect(subscriber, "setup") as conn:
            conn.execute(f"CREATE SCHEMA {self.primary.schema}; SET search_path = {self.primary.schema}, public")
            conn.execute(TABLES)
            conn.execute(f"CREATE SUBSCRIPTION chaos CONNECTION 'host={self.primary.inside(self.primary.sockets)} user=postgres dbname=postgres'"
                         " PUBLICATION chaos")

    def contents(self, server: Cluster) -> list:
        for attempt in range(20):
            try:
                with self.connect(server, "verify") as conn:
                    rows = conn.execute(f"SELECT id, digest = sum, sum FROM {EVERY_VALUE} ORDER BY id").fetchall()
                break
            except GONE:  # replay went before a query of the standby
                if attempt == 19:
                    raise
                time.sleep(1)
        self.count("values compared", len(rows))
        if not all(row[1] for row in rows):
            raise Wrong("values do not match their checksums")
        return rows

    def verify(self, writers) -> None:
        """All three servers hold the same, nothing is damaged and nothing is left."""
        try:
            with self.connect(self.primary, "verify") as conn:
                for _, check in writers:
                    check(conn)
            self.compare_servers()
            for server in (self.primary, self.subscriber):
                self.check_stores(server)
            with self.connect(self.primary, "verify") as conn:
                left = conn.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'").fetchone()[0]
                if left:
                    raise Wrong(f"{left} parallel workers are left")
            self.primary.restart()
            files = [path for path in (self.primary.data / "base").rglob("*") if path.name.startswith("t") and "_" in path.name and path.is_file()]
            files += list((self.primary.data / "base" / "pgsql_tmp").glob("*"))
            if files:
                raise Wrong(f"files are left: {files[:5]}")
            for server in (self.primary, self.standby, self.subscriber):
                log = server.log.read_text(errors="replace")
                for line in deaths(log):
                    kept = shutil.copy(server.log, BUILD / f"chaos-{server.name}.log")
                    print("\n".join(around(log, line)), flush=True)
                    raise Wrong(f"in the server's log ({os.path.basename(kept)}): {line}")
        except Wrong as error:
            self.report(str(error))
        except Exception:
            self.report(traceback.format_exc())

    def check_stores(self, server: Cluster) -> None:
        with self.connect(server, "verify") as conn:
            problems = conn.execute("SELECT table_name::text, column_name, problem FROM appendable_bytea_check()").fetchall()
            if problems:
                raise Wrong(f"appendable_bytea_check(): {problems[:5]}")


def deaths(log: str) -> Iterator[str]:
    """The lines of a server's log about processes that ended otherwise than by the faults of this program.

    A full disk ends the process that met it, and another once the first was aborted.  A startup
    process that waits for a lock when its postmaster goes releases the lock that it never got,
    which trips an assertion of the server's (StandbyReleaseXidEntryLocks()); seen on 18.6 without
    any library.  So does a session that waits for its parallel workers then: it cannot wait for
    their end any more, so its rollback at exit fails, and statistics are reported in the midst of
    a transaction (18.6 without any library: SIGSTOP to the workers, SIGKILL to the postmaster).
    And so does a session of 18 that reads ahead: its rollback at exit waits for the read, sees
    again that the postmaster is gone, and exits once more from within.
    """
    lines = log.splitlines()
    full = sum("PANIC:" in line and "No space left" in line for line in lines)
    waited = sum("RecoveryLockHash contains entry for lock no longer recorded" in line for line in lines)
    orphans = {found[1] for line in lines if (found := re.search(r"\[(\d+)\] FATAL:  postmaster exited during a parallel transaction", line))}
    for at, line in enumerate(lines):
        if "PANIC:" in line and "No space left" in line:
            continue
        if "!IsTransactionOrTransactionBlock()" in line and '"pgstat.c"' in line:
            trace = "\n".join(itertools.takewhile(lambda below: not re.match(r"\d{4}-", below), lines[at + 1:]))
            if line.rpartition(" ")[2] in orphans or (trace.count("(proc_exit+") > 1 and "(pgaio_wref_wait+" in trace):
                continue
        if "TRAP:" in line and '"standby.c"' in line and waited > 0:
            waited -= 1
        elif "terminated by signal 6" in line and full > 0:
            full -= 1
        elif "TRAP:" in line or "PANIC:" in line or ("terminated by signal" in line and "signal 9" not in line):
            yield line


def title_of(pid: int) -> str:
    """What a process calls itself; nothing if it is gone, or only its parent has not noticed."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def around(log: str, line: str) -> list[str]:
    """What the process of a LINE of a server's log said before, and what follows there: the backtrace of a failed assertion."""
    lines = log.splitlines()
    at = lines.index(line)
    pid = re.search(r"(?:PID:? |\[)(\d+)", line)
    said = [other for other in lines[:at] if pid and f"[{pid[1]}]" in other]
    return said[-15:] + lines[at:at + 30]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long (default 3)")
    parser.add_argument("--kills", type=int, help="instead: until so many processes were killed or terminated")
    parser.add_argument("--pg-config", help="pg_config of a server or a label of ci/lib.sh (18-assert)")
    parser.add_argument("--only", action="append", metavar="FAULT", help="only these faults: postmaster, 'full disk' and so on, see kill()")
    parser.add_argument("--pause", type=float, default=1.5, help="seconds between two kills on average (default 1.5)")
    args = record.begin(parser)
    chaos = Chaos(args)
    run = record.about(record.made("chaos " + (f"KILLS={args.kills}" if args.kills is not None else f"MINUTES={args.minutes:g}"), args.pg_config,
                                   *(f'--only "{kind}"' for kind in args.only or ())))
    started = time.monotonic()
    try:
        chaos.run()
    except KeyboardInterrupt:
        return 130
    result = {"seed": args.seed, "minutes": round((time.monotonic() - started) / 60, 1), "killed": chaos.killed,
              "counts": dict(sorted(chaos.counts.items())), "wrong": chaos.wrong}
    for name, n in result["counts"].items():
        print(f"{n:9} {name}")
    print(f"{chaos.killed} killed, {chaos.counts['commits acknowledged']} commits, "
          f"{chaos.counts['values compared'] + chaos.counts['values read']} values compared, {len(chaos.wrong)} wrong")
    if args.json:
        record.write(args.json, {**run, "server": chaos.server_version}, result)
    return 1 if chaos.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
