"""Random statements that SQLsmith makes, of everything that the catalogs offer.

SQLsmith (Debian's package) reads a server with all of the project's libraries and
extensions and makes statements of the tables, types, operators and functions that it
finds there; further random statements are made for special parts.  Half of the time

* it queries that server, with the catalogs, as a role without privileges, and with the project's
  features forced on in every session;
* its statements on the project's tables are run by sessions in which these are temporary tables:
  with the features off, then on and forced, in a transaction that is rolled back each
  time.  The rows must be the same, if they are the same when the statement is run twice with the features off
  and has no LIMIT or TABLESAMPLE.  A statement that fails one way is not
  compared further: the order in which a query reads rows is not guaranteed.

No process may die, and no message in the log may speak of a leak or of a failed
assertion.

    sqlsmith.py [--minutes N] [--pg-config LABEL] [--seed N] [--json FILE]

Ends with status 0 only if nothing was found.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import random
import re
import subprocess
import sys
import time

import psycopg

from pg_lean.cluster import LIBRARIES, Cluster, without_pg_variables
import record

#: Settings under which our features are on wherever they can be, and those under which they are off.
FORCED = {"parallel_temp.enabled": "on", "parallel_temp.debug_force": "on", "parallel_temp.fast_load": "on", "parallel_temp.explain": "off",
          "light_explain.enabled": "on", "light_explain.instrument_all": "on", "light_explain.switch_after": "2",
          "parallel_setup_cost": "0", "parallel_tuple_cost": "0", "min_parallel_table_scan_size": "0", "min_parallel_index_scan_size": "0"}
OFF = {**FORCED, "parallel_temp.enabled": "off", "parallel_temp.debug_force": "off", "parallel_temp.fast_load": "off", "light_explain.enabled": "off",
       "light_explain.instrument_all": "off"}
#: Tables, made in public for SQLsmith to see and in pg_temp for the sessions that run what it makes of them.
TABLES = """
CREATE {temp} TABLE {schema}.t_orders AS SELECT g AS id, g % 37 AS customer, (g * 7 % 1000)::numeric AS amount, 'note ' || g % 11 AS note,
    DATE '2024-01-01' + g % 90 AS day, g % 3 = 0 AS paid
    FROM generate_series(1, 1500) g;
CREATE INDEX ON {schema}.t_orders (id);
CREATE {temp} TABLE {schema}.t_customers AS SELECT g AS id, 'customer ' || g AS name, ARRAY[g, g + 1] AS near FROM generate_series(0, 36) g;
CREATE {temp} TABLE {schema}.t_logs (id int PRIMARY KEY, data appendable_bytea NOT NULL DEFAULT '', said appendable_text);
INSERT INTO {schema}.t_logs SELECT g, decode(repeat('ab12', g * 40), 'hex'), repeat('said ', g) FROM generate_series(1, 60) g;
CREATE {temp} TABLE {schema}.t_long AS SELECT g AS id, repeat(md5(g::text), 100) AS v FROM generate_series(1, 80) g;
ANALYZE {schema}.t_orders; ANALYZE {schema}.t_customers; ANALYZE {schema}.t_logs; ANALYZE {schema}.t_long;
"""
#: Statements that SQLsmith makes at a time.
BATCH = 100
#: Rows in an order that no ORDER BY requested.
ANY_ROWS = re.compile(r"\b(limit|tablesample)\b", re.I)
FOUND = re.compile(
    r"TRAP:|PANIC:|terminated by signal|WARNING: .*(leak|refcount)|ERROR: .*(could not find .* in (child|parent) target|unrecognized node type|cache lookup "
    r"failed for .* 0$)"
)
GONE = (psycopg.OperationalError, psycopg.InterfaceError)


def same(value):
    """A value as it is compared: sums of floating point numbers end in digits that depend on the order."""
    if isinstance(value, float):
        return f"{value:.9g}"
    return repr(value)


class Smith:
    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.rng = random.Random(args.seed)
        self.counts: collections.Counter = collections.Counter()
        self.wrong: list[str] = []
        self.version: str | None = None

    def report(self, text: str) -> None:
        self.wrong.append(text)
        print(f"WRONG: {text}", flush=True)

    def run(self) -> None:
        with Cluster(
            self.args.pg_config,
            preload=LIBRARIES,
            settings={**FORCED, "max_worker_processes": "16", "max_parallel_workers": "4", "log_min_messages": "warning"},
            name="sqlsmith",
        ) as server:
            with server.connect() as conn:
                self.version = conn.info.parameter_status("server_version").split()[0]
                if conn.execute("SHOW debug_assertions").fetchone()[0] == "on":
                    self.version += " with assertions"
                conn.execute("CREATE ROLE smith LOGIN; ALTER ROLE smith SET statement_timeout = '2s'")
                for name in FORCED:
                    conn.execute(f"GRANT SET ON PARAMETER {name} TO smith")
                conn.execute(TABLES.format(temp="", schema="public"))
                conn.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO smith")
            seconds = self.args.minutes * 30
            self.ask(server, seconds)
            self.compare(server, seconds)
            for line in server.log.read_text(errors="replace").splitlines():
                if FOUND.search(line):
                    self.report(f"in the server's log: {line[:300]}")

    def sqlsmith(self, server: Cluster, *options: str) -> list[str]:
        # in libpq's words, without folders
        return ["sqlsmith", f"--target={server.conninfo.replace('user=postgres', 'user=smith')}", f"--seed={self.rng.randrange(1 << 30)}", *options]

    def ask(self, server: Cluster, seconds: float) -> None:
        """SQLsmith asks the server until the time is over."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 1:
            with contextlib.suppress(subprocess.TimeoutExpired), without_pg_variables():
                done = subprocess.run(self.sqlsmith(server, "--max-queries=2000"), capture_output=True, text=True, errors="replace", timeout=left)
                if done.returncode:
                    self.counts["runs of SQLsmith that failed"] += 1
                    print(done.stderr[-500:], flush=True)
                    time.sleep(1)
            if server.process.poll() is not None:
                self.report("the server ended")
                server._launch()
        with server.connect() as conn:
            self.counts["statements asked"] = conn.execute("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'").fetchone()[0]

    def made(self, server: Cluster) -> list[str]:
        """Statements over the tables alone."""
        with without_pg_variables():
            done = subprocess.run(
                self.sqlsmith(server, "--dry-run", "--exclude-catalog", f"--max-queries={BATCH}"), capture_output=True, text=True, errors="replace"
            )
        return [statement.replace("public.t_", "pg_temp.t_").strip() for statement in done.stdout.split(";\n") if "public.t_" in statement]

    def session(self, server: Cluster) -> psycopg.Connection:
        deadline = time.monotonic() + 120
        while True:  # one that crashed comes back
            try:
                with without_pg_variables():
                    conn = psycopg.connect(server.conninfo.replace("user=postgres", "user=smith"), autocommit=True, application_name="sqlsmith")
                break
            except GONE:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
        conn.execute(TABLES.format(temp="TEMP", schema="pg_temp"))
        conn.execute("SET statement_timeout = '3s'; SET client_min_messages = error")
        return conn

    @staticmethod
    def once(conn: psycopg.Connection, statement: str, settings: dict) -> tuple:
        """What a statement gives in a transaction that is rolled back."""
        conn.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))
        try:
            conn.execute("BEGIN")
            cursor = conn.execute(statement.encode())
            rows = sorted(tuple(same(value) for value in row) for row in cursor.fetchall()) if cursor.description else cursor.rowcount
            return ("rows", rows)
        except GONE as error:
            if conn.closed:
                raise
            return ("error", error.sqlstate)
        except psycopg.Error as error:
            return ("error", error.sqlstate)
        finally:
            if not conn.closed:
                conn.execute("ROLLBACK")

    def compare(self, server: Cluster, seconds: float) -> None:
        """The same statements over temporary tables, with our features off and on."""
        end = time.monotonic() + seconds
        with server.connect() as conn:  # it makes statements of everything that it can read; the extensions' views differ each time
            for (view,) in conn.execute("SELECT oid::regclass::text FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace").fetchall():
                conn.execute(f"REVOKE ALL ON {view} FROM public, smith")
        conn = self.session(server)
        while time.monotonic() < end:
            for statement in self.made(server):
                if time.monotonic() > end:
                    break
                try:
                    off = self.once(conn, statement, OFF)
                    on = self.once(conn, statement, FORCED)
                    self.counts["statements over temporary tables"] += 1
                    if off[0] != on[0] or off[0] == "error":
                        self.counts["that failed one way or both"] += 1
                    elif ANY_ROWS.search(statement) or off != on and self.once(conn, statement, OFF) != off:
                        self.counts["with rows in no order or of no snapshot"] += 1
                    elif off != on:
                        self.report(f"other rows with our features on: {statement}")
                    else:
                        self.counts["with the same rows, off and on"] += 1
                except GONE as error:
                    self.report(f"the session ended: {error}: {statement}")
                    if server.process.poll() is not None:
                        server._launch()
                    conn = self.session(server)
                except psycopg.Error as error:
                    self.report(f"{error}: {statement}")
                    conn = self.session(server)
        conn.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=4.0, help="how long (default 4)")
    parser.add_argument("--pg-config", help="pg_config of a server or a label of ci/lib.sh (18-assert)")
    args = record.begin(parser)
    smith = Smith(args)
    run = record.about(record.made(f"sqlsmith MINUTES={args.minutes:g}", args.pg_config))
    try:
        smith.run()
    except KeyboardInterrupt:
        return 130
    for name, n in sorted(smith.counts.items()):
        print(f"{n:9} {name}")
    print(
        f"{smith.counts['statements asked']} statements of SQLsmith's, {smith.counts['statements over temporary tables']} over temporary tables, "
        f"{len(smith.wrong)} wrong"
    )
    if args.json:
        record.write(args.json, {**run, "server": smith.version}, {"seed": args.seed, "counts": dict(sorted(smith.counts.items())), "wrong": smith.wrong})
    return 1 if smith.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
