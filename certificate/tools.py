"""Tools that people run against their databases, on columns of the extension's types next to plain ones.

Each row of the table "twin" holds the same value in a column of bytea and one of
appendable_bytea, and in one of text and one of appendable_text; the same statements change
both.  Where a tool has made a copy, or a database has been used through it, both columns of
each pair must be equal, the rows must be those that are expected, and
appendable_bytea_check() must find nothing.

    tools.py [--tool NAME]... [--list] [--pg-config PATH] [--seed N] [--json FILE]

A tool that is not installed is said to be "not tried"; "certificate/run tools" installs the
packages that it can have.  Ends with status 0 only if nothing differed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from pg_lean.cluster import LIBRARIES, PORT, Cluster
from pg_lean.errors import LabError
from pg_lean.paths import TOP
import record

TWIN = """
CREATE TABLE twin (id int PRIMARY KEY, plain bytea NOT NULL, lean appendable_bytea NOT NULL, ptext text, ltext appendable_text);
CREATE TABLE other (id int PRIMARY KEY, v text);
INSERT INTO other SELECT g, repeat(md5(g::text), g % 50) FROM generate_series(1, 500) g;
"""
#: Shows that the columns of each pair are equal, and which rows there are.
VERIFY = """
SELECT count(*), count(*) FILTER (WHERE plain IS DISTINCT FROM lean::bytea OR ptext IS DISTINCT FROM ltext::text),
       md5(string_agg(id || md5(plain) || coalesce(md5(ptext), 'null'), '' ORDER BY id))
FROM twin
"""


#: Programs of applications, and the Python environment that they run in.
HERE = TOP / "certificate" / "tools"
PROGRAMS = Path(os.environ.get("PG_LEAN_BUILD", TOP / "build")) / "tools-venv" / "bin"


class NotTried(Exception):
    """A program is missing."""


class Copy(Cluster):
    """A server on data that a tool has made."""

    def __init__(self, make: Callable[[Cluster], None], **settings: str):
        super().__init__(preload=LIBRARIES, settings=settings, name="copy")
        self.make = make

    def _initdb(self) -> None:
        super()._initdb()
        shutil.rmtree(self.data)
        self.make(self)

    def create_extensions(self) -> None:
        """They come with the data, which may be a standby's."""

    def make_schema(self) -> None:
        """As above."""


def connect(server: Cluster, database: str = "postgres") -> psycopg.Connection:
    """A session as any program has it."""
    return psycopg.connect(server.conninfo.replace("dbname=postgres", f"dbname={database}"), autocommit=True)


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise NotTried(f"{program} is not installed")
    return found


def check(done: subprocess.CompletedProcess, what: str) -> str:
    """The output of a program that must have succeeded."""
    if done.returncode != 0:
        raise AssertionError(f"{what} ended with status {done.returncode}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout + (done.stderr or "")


class Tools:
    """Every method whose name begins with "try_" is one tool."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.rng = random.Random(args.seed)
        self.work = Path()

    # -- the table -------------------------------------------------------------

    def change(self, conn: psycopg.Connection, times: int, first: int = 1, last: int = 60) -> None:
        """Change random rows, both columns of a pair by the same expression."""
        for _ in range(times):
            row, size, at = self.rng.randint(first, last), self.rng.choice((1, 40, 900, 5000, 30000)), self.rng.randint(1, 4000)
            chunk = f"convert_to(repeat('{self.rng.choice('abcde')}{self.rng.randint(0, 99)}', {size}), 'UTF8')"
            text = f"repeat('{self.rng.choice('äöxyz')}', {size})"
            kind = self.rng.random()
            if kind < 0.6:
                conn.execute(
                    f"UPDATE twin SET plain = plain || {chunk}, lean = lean || {chunk}, ptext = ptext || {text}, ltext = ltext || {text} WHERE id = {row}"
                )
            elif kind < 0.75:
                conn.execute(f"UPDATE twin SET plain = overlay(plain PLACING {chunk} FROM {at}), lean = overlay(lean PLACING {chunk} FROM {at})"
                             f" WHERE id = {row} AND length(plain) >= {at}")
            elif kind < 0.85:
                conn.execute(
                    f"UPDATE twin SET plain = substr(plain, 1, {at}), lean = appendable_truncate(lean, {at}) WHERE id = {row} AND length(plain) >= {at}"
                )
            elif kind < 0.93:
                conn.execute(f"DELETE FROM twin WHERE id = {row}")
            else:
                conn.execute(f"INSERT INTO twin VALUES ({row}, {chunk}, {chunk}, {text}, {text}) ON CONFLICT (id) DO UPDATE SET ptext = NULL, ltext = NULL")

    def fill(self, server: Cluster) -> None:
        with connect(server) as conn:
            conn.execute(TWIN)
            conn.execute(
                "INSERT INTO twin SELECT g, convert_to(repeat('v', g * 300), 'UTF8'), convert_to(repeat('v', g * 300), 'UTF8'), repeat('t', g * 100), "
                "repeat('t', g * 100)"
                " FROM generate_series(1, 60) g"
            )
            self.change(conn, 200)

    @contextlib.contextmanager
    def server(self, **settings: str) -> Iterator[Cluster]:
        with Cluster(preload=LIBRARIES, settings=settings, name="tools") as server:
            self.fill(server)
            yield server

    @contextlib.contextmanager
    def writer(self, server: Cluster, first: int = 1, last: int = 60) -> Iterator[None]:
        """Changes in another session continue in the meantime."""
        stop, failed = threading.Event(), []

        def write() -> None:
            try:
                with connect(server) as conn:
                    while not stop.is_set():
                        self.change(conn, 5, first, last)
            except Exception as error:  # handed on below
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]

    @staticmethod
    def rows(server: Cluster, database: str = "postgres") -> tuple:
        """The rows of "twin", whose pairs must be equal and whose chunks must be right."""
        with connect(server, database) as conn:
            count, different, digest = conn.execute(VERIFY).fetchone()
            problems = conn.execute("SELECT * FROM appendable_bytea_check()").fetchall()
        if different or problems or not count:
            raise AssertionError(f"{different} of {count} rows differ from their plain columns; appendable_bytea_check(): {problems[:3]}")
        return count, digest

    def same(self, one: tuple, other: tuple) -> None:
        if one != other:
            raise AssertionError(f"the copy has other rows: {one} and {other}")

    def tool(self, server: Cluster, program: str, *args: str, **env: str) -> str:
        """Run a program that is not in the server's folder, as the server's user."""
        return self.program(server, *server._as_user(), need(program), *args, **env)

    def program(self, server: Cluster, *command: str, **env: str) -> str:
        environment = {
            **os.environ,
            "PGHOST": str(server.sockets),
            "PGPORT": str(PORT),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
            "HOME": str(self.work),
            **env,
        }
        return check(subprocess.run(command, env=environment, text=True, capture_output=True, cwd=self.work, timeout=300), " ".join(command)[:100])

    # -- copies ----------------------------------------------------------------

    def try_pg_basebackup(self) -> str:
        """A base backup that is taken and verified while rows change, and a server on it."""
        with self.server() as server:
            with self.writer(server), Copy(lambda copy: check(server.run("pg_basebackup", "-D", str(copy.data), "-X", "stream", "-c", "fast"), "pg_basebackup")
                                           and check(server.run("pg_verifybackup", str(copy.data)), "pg_verifybackup")) as copy:
                count, _ = self.rows(copy)
            self.rows(server)
        return f"{count} rows of a backup taken while rows change"

    def try_pg_rewind(self) -> str:
        """A former primary that has changed rows alone follows the new one again."""
        with self.server(wal_log_hints="on", wal_keep_size="1GB") as old:
            with Copy(
                lambda copy: check(old.run("pg_basebackup", "-R", "-D", str(copy.data), "-X", "stream", "-c", "fast"), "pg_basebackup"), wal_keep_size="1GB"
            ) as new:
                with connect(new) as conn, connect(old) as rival:
                    conn.execute("SELECT pg_promote()")
                    self.change(conn, 150)
                    self.change(rival, 150)
                    conn.execute("CHECKPOINT")
                old.stop()
                source = f"host={new.sockets} port={PORT} user=postgres dbname=postgres"
                check(old.run("pg_rewind", "-D", str(old.data), "--source-server", source), "pg_rewind")
                (old.data / "standby.signal").touch()
                old.settings["primary_conninfo"] = source
                old.restart()
                with connect(new) as conn:
                    self.change(conn, 50)
                    end = conn.execute("SELECT pg_current_wal_lsn()").fetchone()[0]
                with connect(old) as conn:
                    deadline = time.monotonic() + 60
                    while not conn.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (end,)).fetchone()[0]:
                        assert time.monotonic() < deadline, "the rewound server does not follow"
                        time.sleep(0.1)
                rows = self.rows(new)
                self.same(rows, self.rows(old))
        return f"{rows[0]} rows of a former primary that follows the new one"

    def try_pg_amcheck(self) -> str:
        """Every table and index, those that hold chunks too."""
        with self.server() as server:
            out = check(server.run("pg_amcheck", "--install-missing", "--heapallindexed", "--parent-check", "--verbose", "-d", "postgres"), "pg_amcheck")
            self.rows(server)
        return f"{len(re.findall('checking (?:heap|btree)', out))} tables and indexes"

    def try_pg_dump(self) -> str:
        """A dump in the directory format by two processes, restored by two into another database."""
        with self.server() as server:
            before = self.rows(server)
            check(server.run("pg_dump", "-Fd", "-j2", "-f", str(self.work / "dump")), "pg_dump")
            with connect(server) as conn:
                conn.execute("CREATE DATABASE restored")
            check(server.run("pg_restore", "-j2", "-d", "restored", "--exit-on-error", str(self.work / "dump")), "pg_restore")
            self.same(before, self.rows(server, "restored"))
        return f"{before[0]} rows in another database"

    def try_pgcopydb(self) -> str:
        """A database is cloned with its extensions."""
        need("pgcopydb")
        with self.server() as server:
            before = self.rows(server)
            with Cluster(preload=LIBRARIES, name="target") as target:
                with connect(target) as conn:
                    conn.execute("CREATE DATABASE cloned TEMPLATE template0")
                source, goal = (f"host={one.sockets} port={PORT} user=postgres dbname={name}" for one, name in ((server, "postgres"), (target, "cloned")))
                self.tool(
                    server,
                    "pgcopydb",
                    "clone",
                    "--source",
                    source,
                    "--target",
                    goal,
                    "--table-jobs",
                    "2",
                    "--index-jobs",
                    "2",
                    "--dir",
                    str(self.work / "pgcopydb"),
                    PATH=f"{server.bindir}:{os.environ['PATH']}",
                )
                self.same(before, self.rows(target, "cloned"))
        return f"{before[0]} rows of a cloned database"

    def try_pgbackrest(self) -> str:
        """A full and an incremental backup with archived WAL, restored."""
        need("pgbackrest")
        config = self.work / "pgbackrest.conf"
        with self.server(archive_mode="on", archive_command=f"pgbackrest --config={config} --stanza=s archive-push %p") as server:
            config.write_text(
                f"[global]\nrepo1-path={self.work}/repo\nlog-path={self.work}\nlock-path={self.work}\n"
                f"spool-path={self.work}\nlog-level-file=off\nstart-fast=y\n"
                f"[s]\npg1-path={server.data}\npg1-socket-path={server.sockets}\npg1-port={PORT}\npg1-user=postgres\n"
            )

            def pgbackrest(*args: str) -> str:
                return self.tool(server, "pgbackrest", f"--config={config}", "--stanza=s", *args)

            pgbackrest("stanza-create")
            with self.writer(server):
                pgbackrest("--type=full", "backup")
            with self.writer(server):
                pgbackrest("--type=incr", "backup")
            with Copy(
                lambda copy: pgbackrest(f"--pg1-path={copy.data}", "--archive-mode=off", "--type=immediate", "--target-action=promote", "restore"),
                archive_mode="off",
            ) as copy:
                count, _ = self.rows(copy)
        return f"{count} rows of an incremental backup"

    def try_pg_repack(self) -> str:
        """A plain table of a database in which the extensions are installed is repacked."""
        need("pg_repack")
        with self.server() as server:
            with connect(server) as conn:
                try:
                    conn.execute("CREATE EXTENSION pg_repack")
                except psycopg.errors.FeatureNotSupported:
                    raise NotTried("the extension pg_repack is not installed for this server") from None
            before = self.rows(server)
            self.tool(server, "pg_repack", "-d", "postgres", "-t", "other")
            self.same(before, self.rows(server))
        return "a plain table of the database"

    # -- between program and server --------------------------------------------

    def try_pgbouncer(self) -> str:
        """Four programs through two sessions, which change owners after each transaction."""
        need("pgbouncer")
        with self.server() as server:
            config = self.work / "pgbouncer.ini"
            (self.work / "users").write_text('"postgres" ""\n')
            config.write_text(
                f"[databases]\npostgres = host={server.sockets} port={PORT} user=postgres\n[pgbouncer]\nunix_socket_dir = {self.work}\nlisten_addr "
                "=\nlisten_port = 6432\n"
                f"auth_type = trust\nauth_file = {self.work}/users\npool_mode = transaction\ndefault_pool_size = 2\nlogfile = "
                f"{self.work}/pgbouncer.log\npidfile = {self.work}/pgbouncer.pid\n"
            )
            pool = subprocess.Popen([*server._as_user(), need("pgbouncer"), "-q", str(config)], cwd=self.work)
            try:
                deadline = time.monotonic() + 20
                while not (self.work / ".s.PGSQL.6432").exists() and time.monotonic() < deadline:
                    time.sleep(0.05)
                failed: list[Exception] = []

                def program(number: int) -> None:
                    try:
                        with psycopg.connect(f"host={self.work} port=6432 user=postgres dbname=postgres", autocommit=True, prepare_threshold=None) as conn:
                            for _ in range(30):
                                with conn.transaction():
                                    self.change(conn, 2, number * 15 + 1, number * 15 + 15)
                                    conn.execute("CREATE TEMP TABLE t ON COMMIT DROP AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 20000) g")
                                    assert conn.execute("SELECT count(*), sum(k) FROM t WHERE id > 10").fetchone() == (19990, 59971), (
                                        "a temporary table's rows are not what they should be"
                                    )
                    except Exception as error:  # handed on below
                        failed.append(error)

                threads = [threading.Thread(target=program, args=(number,)) for number in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                if failed:
                    raise failed[0]
            finally:
                pool.terminate()
                pool.wait(20)
            count, _ = self.rows(server)
        return f"120 transactions, {count} rows"

    def try_pg_activity(self) -> str:
        """The statements of the server, shown for some seconds."""
        need("pg_activity")
        with self.server() as server, self.writer(server):
            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
            shown = bytearray()
            process = subprocess.Popen(
                [*server._as_user(), need("pg_activity"), "-h", str(server.sockets), "-p", str(PORT), "-U", "postgres", "--refresh", "0.5"],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env={**os.environ, "TERM": "xterm", "HOME": str(self.work)},
            )
            os.close(slave)
            reader = threading.Thread(target=lambda: read_all(master, shown))
            reader.start()
            time.sleep(4)
            os.write(master, b"q")
            status = process.wait(20)
            reader.join()
            os.close(master)
            if status != 0 or b"UPDATE" not in shown and b"PID" not in shown:
                raise AssertionError(f"pg_activity ended with status {status}: {shown[-500:].decode(errors='replace')}")
        return "statements shown while rows change"

    def try_pgbadger(self) -> str:
        """A log with the plans that light_explain made is read: as many statements as were run."""
        need("pgbadger")
        with self.server(log_line_prefix="%t [%p]: user=%u,db=%d ", log_min_duration_statement="0", lc_messages="C") as server:
            with connect(server) as conn:
                conn.execute("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on")
                for _ in range(20):
                    conn.execute("SELECT count(*) FROM twin a JOIN other b USING (id)").fetchone()
            report = self.work / "report.json"
            self.tool(server, "pgbadger", "-q", "-f", "stderr", "-x", "json", "-o", str(report), "--prefix", "%t [%p]: user=%u,db=%d ", str(server.log))
            statements = json.loads(report.read_text(errors="replace"))["normalyzed_info"]["postgres"]
            # one with its duration, and one with its plan
            counted = [found["count"] for text, found in statements.items() if "from twin a join other b" in text.lower()]
            if sum(map(int, counted)) != 40:
                raise AssertionError(f"pgbadger counted {counted} of 20 statements and 20 plans")
        return "20 statements with plans"

    # -- applications ----------------------------------------------------------

    def application(self, server: Cluster, *command: str, **env: str) -> str:
        """Run a program of the Python environment of certificate/tools/requirements.txt."""
        program = PROGRAMS / command[0]
        if not program.exists():
            raise NotTried(f"{command[0]} is not in {PROGRAMS}")
        return self.program(server, str(program), *command[1:], **env)

    def try_dbt(self) -> str:
        """Incremental models, views and snapshots, made three times while rows change."""
        with self.server() as server:
            project = self.work / "dbt"
            shutil.copytree(HERE / "dbt", project)
            for _ in range(3):
                for verb in ("run", "snapshot"):
                    self.application(server, "dbt", verb, "--project-dir", str(project), "--profiles-dir", str(project), DBT_SEND_ANONYMOUS_USAGE_STATS="false")
                with connect(server) as conn:
                    for what, columns in (("rows", "id, data::bytea, note::text, size"), ("view", "id, note::text, twice::bytea"),
                                          ("history", "id, data::bytea, note::text, dbt_valid_to IS NULL")):
                        plain, lean = (f"SELECT {columns} FROM {kind}_{what}" for kind in ("plain", "lean"))
                        count, different = conn.execute(f"SELECT (SELECT count(*) FROM plain_{what}), (SELECT count(*) FROM (({plain} EXCEPT ALL {lean})"
                                                        f" UNION ALL ({lean} EXCEPT ALL {plain})) d)").fetchone()
                        if different or not count:
                            raise AssertionError(f"{what}: {different} rows of {count} differ")
                    self.change(conn, 40)
            self.rows(server)
        return f"{count} rows of a snapshot, three runs"

    def try_django(self) -> str:
        """An application whose columns become appendable between two migrations."""
        with self.server() as server:
            return self.application(server, "python", str(HERE / "django_app.py")).strip().splitlines()[-1]

    def try_alembic(self) -> str:
        """Two revisions that autogenerate finds, with the types that the documentation shows."""
        page = (TOP / "appendable_bytea/docs/clients.md").read_text()
        types = re.search(r"```python\n# SQLAlchemy\n(.*?)```", page, re.S)[1]
        with self.server() as server:
            return self.application(server, "python", str(HERE / "alembic_app.py"), TYPES=types).strip().splitlines()[-1]


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A folder with a short name, for sockets, that the server's user may write to."""
    with tempfile.TemporaryDirectory(prefix="pg_lean-tools-", ignore_cleanup_errors=True) as name:
        user = Cluster().user
        if user is not None:
            os.chown(name, user.pw_uid, user.pw_gid)
        yield Path(name)


def read_all(descriptor: int, found: bytearray) -> None:
    """Read a terminal until its last program has ended."""
    with contextlib.suppress(OSError):
        while data := os.read(descriptor, 65536):
            found += data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    names = [name.removeprefix("try_") for name in vars(Tools) if name.startswith("try_")]
    parser.add_argument("--tool", action="append", choices=names, help="only this one (may be given more than once)")
    parser.add_argument("--list", action="store_true", help="show the tools")
    parser.add_argument("--pg-config", help="of the server")
    args = record.begin(parser, "the changes")
    if args.list:
        print("\n".join(f"{name:15} {getattr(Tools, f'try_{name}').__doc__}" for name in names))
        return 0
    if args.pg_config:
        os.environ["PG_CONFIG"] = args.pg_config
    run = record.about(record.made("tools", args.pg_config), args.pg_config or os.environ.get("PG_CONFIG") or "pg_config")
    found = {}
    for name in args.tool or names:
        tools = Tools(args)
        with work_folder() as tools.work:
            try:
                found[name] = {"outcome": "equal", "what": getattr(tools, f"try_{name}")()}
            except NotTried as reason:
                found[name] = {"outcome": "not tried", "what": str(reason)}
            except (AssertionError, LabError, psycopg.Error, subprocess.TimeoutExpired) as error:
                traceback.print_exc()
                found[name] = {"outcome": "DIFFERENT", "what": (str(error).splitlines() or [type(error).__name__])[0][:300]}
        print(f"{name:15} {found[name]['outcome']:10} {found[name]['what']}", flush=True)
    wrong = sum(each["outcome"] == "DIFFERENT" for each in found.values())
    if args.json:
        record.write(args.json, run, {"seed": args.seed, "tools": found})
    print(
        f"tools: {sum(each['outcome'] == 'equal' for each in found.values())} equal, {wrong} different, "
        f"{sum(each['outcome'] == 'not tried' for each in found.values())} not tried"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
