"""Run the same work for hours, and look for resources that grow.

One server has all of the project's libraries, and most of its work is done by sessions that stay
open (those that create tables leave now and then, see LEAVES): writers change appended values in every way and have a model of them, temporary tables are
loaded, read in parallel and emptied, EXPLAIN ANALYZE and the views of the query store are read,
tables with appended columns are created and dropped, short sessions connect and leave, a logical
slot is read, and everything is vacuumed. Each minute a sample is taken of:

* private memory of the open sessions and of the server's processes,
* open descriptors, files of the data directory, size of the catalogs and of the tables with their stores,
* WAL that the slot keeps,
* the median and the 99th percentile of each kind of work.

The server returns freed memory to the kernel at once (RETURNED). By default glibc has up to 64 MB of it in each
process, more or less of it by chance: a session whose memory contexts had 1.3 MB had 53 MB, and 20 MB a minute later.

The writers compare their values with the model and with the checksums in the rows. At the end a line
is fitted to the samples of each resource (Theil-Sen: the median of the slopes between samples of one start
of the server, which single peaks do not move), without the first WARM minutes after each start. A resource grows if the line gains
more than a tenth of the level in the run, more than ENOUGH, and more than chance: the lower end of the gain's interval is above 0.
Its upper end is what the run cannot exclude. Tables vary by half of their level from minute to minute, so that without the last
condition many runs without growth would have some (test_noise_is_no_growth).
Latencies are shown, but not judged: they depend on the other work of the machine.

    soak.py [--hours N] [--pg-config LABEL] [--seed N] [--json FILE]

With --json, an interrupted run continues until its hours are N, with the same data (build/soak-LABEL)
if these still exist; a complete run starts from the beginning. Each start has the commit that it ran in
its samples; the run counts as one of the oldest commit. The status is 0 only if no value was wrong and
no resource grew.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import math
import os
import random
import shutil
import statistics
import sys
import threading
import time
import traceback
from typing import NamedTuple

import psutil
import psycopg

from pg_lean.cluster import LIBRARIES, Cluster
from pg_lean.paths import SERVER_DIR
import changes
import record

#: glibc's M_TRIM_THRESHOLD for the server's processes, bytes: its default. Setting it keeps glibc from raising it, and the size from which
#: memory has a separate mapping, whenever a large block is freed (mallopt(3)).
RETURNED = 128 * 1024
#: Seconds between samples, and minutes after a start that are not judged, in which caches fill.
EVERY = 60.0
WARM = 20.0
#: Hours of samples after WARM that a start of the server must have to be judged: in less, a line follows the noise.
JUDGED = 0.5
#: Rows of a writer, and bytes at which its appends stop.
ROWS = 12
LONG = 300_000
#: Seconds of rest after a piece of work on average, so that the machine is not saturated and latencies are comparable.
REST = 0.08
#: A resource that gains less than this in a run does not grow: the noise of small ones.
ENOUGH = {"memory of sessions, MB": 4.0, "memory of the server, MB": 4.0, "descriptors": 8.0, "files": 20.0, "catalogs, MB": 2.0,
          "tables and stores, MB": 8.0, "WAL kept by the slot, MB": 16.0}
#: Pieces of work after which a session that creates tables leaves.  The server keeps the answer "there is none" to lookups of a
#: dropped table's statistics until the session's end: on 15, 1.2 kB for a table of text, and 4.7 kB if its column is changed to
#: the type, which makes a chunk store and a TOAST table more.
LEAVES = 300
#: Half the width of an interval, in standard deviations: 99 % for independent samples.
WIDE = 2.576
#: Of one run no more samples are drawn than this.
DRAWN = 240

SETTINGS = {
    "wal_level": "logical", "max_wal_size": "512MB", "checkpoint_timeout": "2min", "autovacuum_naptime": "10s", "shared_buffers": "128MB",
    "bgwriter_lru_maxpages": "100", "max_parallel_workers": "4", "light_explain.profile": "on", "fsync": "off", "max_slot_wal_keep_size": "2GB",
}

TABLES = """
CREATE TABLE soak (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_bytea NOT NULL) WITH (fillfactor = 70);
CREATE TABLE soak_text (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_text NOT NULL) WITH (fillfactor = 70);
CREATE TABLE soak_json (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_json NOT NULL) WITH (fillfactor = 70);
CREATE TABLE soak_jsonb (id int PRIMARY KEY, n int NOT NULL, sum bytea NOT NULL, data appendable_jsonb NOT NULL) WITH (fillfactor = 70);
CREATE TABLE soak_rows AS SELECT g AS k, g % 97 AS v, md5(g::text) AS t FROM generate_series(1, 40000) g;
CREATE INDEX ON soak_rows (k);
ANALYZE soak_rows;
"""

#: Tables that writers change.
WRITTEN = ("soak", "soak_text", "soak_json", "soak_jsonb")
#: Sum of t's length and of v over soak_rows: what the same rows in a temporary table have, too.
ANSWER = "SELECT count(*), sum(v), sum(length(t)) FROM"


class Wrong(Exception):
    """An answer that is not what it must be."""


class Standing(Cluster):
    """A cluster whose data stays when it is closed, in a folder with a fixed name."""

    def __init__(self, pg_config: str | None, folder: str):
        super().__init__(pg_config, preload=LIBRARIES, settings=SETTINGS, name=folder)
        self.schema = "soak"
        self.kept = (self.root / "var/tmp" if self.root else SERVER_DIR) / folder
        self.patience = 300.0

    def forget(self) -> None:
        shutil.rmtree(self.kept, ignore_errors=True)

    def _initdb(self) -> None:
        if not (self.kept / "data" / "PG_VERSION").exists():
            self.forget()
            super()._initdb()
            self.home.rename(self.kept)
        else:
            super()._initdb()
            shutil.rmtree(self.home)
        self.home = self.kept

    def make_schema(self) -> None:
        with self.connect() as conn:
            self.fresh = conn.execute("SELECT to_regnamespace('soak') IS NULL").fetchone()[0]
            conn.execute("CREATE SCHEMA IF NOT EXISTS soak")
        self._schema_made = True

    def close(self) -> None:
        self.stop()
        self.home = None
        super().close()


class Soak:
    """The run: sessions, samples and what was wrong."""

    def __init__(self, args: argparse.Namespace, before: dict, commit: str):
        self.args = args
        self.random = random.Random(args.seed)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.counts: collections.Counter = collections.Counter(before.get("counts", {}))
        self.wrong: list[str] = list(before.get("wrong", ()))
        #: Samples of each start of the server, and the commit that it ran.
        self.parts: list[dict] = [*before.get("parts", ()), {"commit": commit, "samples": []}]
        self.took: dict[str, list[float]] = collections.defaultdict(list)
        self.held: dict[str, psycopg.Connection] = {}
        self.server_version: str | None = before.get("server")

    def count(self, name: str, n: int = 1) -> None:
        with self.lock:
            self.counts[name] += n

    def report(self, text: str) -> None:
        with self.lock:
            self.wrong.append(text)
            print(f"WRONG: {text}", flush=True)

    def connect(self, name: str) -> psycopg.Connection:
        return psycopg.connect(self.server.conninfo, autocommit=True, application_name=name,
                               options=f"-c search_path={self.server.schema},public -c statement_timeout=300s -c temp_buffers=4MB")

    def actor(self, name: str, step, rest: float = REST, leaves: int | None = None) -> threading.Thread:
        """A thread that calls step(conn, random) until the end, in one session, or in a new one after `leaves` calls."""
        rng = random.Random(f"{self.args.seed} {name} {len(self.parts)}")

        def session() -> None:
            with self.connect(name) as conn:
                self.held[name] = conn
                for _ in itertools.count() if leaves is None else range(leaves):
                    if self.stop.is_set():
                        break
                    started = time.monotonic()
                    try:
                        step(conn, rng)
                        with self.lock:
                            self.took[name.rstrip("0123456789")].append(time.monotonic() - started)
                        self.count(name.rstrip("0123456789"))
                    except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
                        self.count("deadlocks")
                    except (psycopg.Error, Wrong) as error:
                        self.report(f"{name}: {error}")
                        time.sleep(5)
                    except Exception:
                        self.report(f"{name}: {traceback.format_exc()}")
                        time.sleep(5)
                    self.stop.wait(rest * 2 * rng.random())

        def run() -> None:
            while not self.stop.is_set():
                session()
        return threading.Thread(target=run, name=name, daemon=True)

    # -- the work ------------------------------------------------------------

    def writer(self, number: int, table: str):
        """Changes of one's rows, compared with the model after every hundred."""
        ids = range(number * 100, number * 100 + ROWS)
        shown = changes.TEXTS.get(changes.kind_of(table), "{column}::bytea").format(column="data")
        model: dict[int, changes.Value] = {}
        turns = itertools.count()

        def check(conn) -> None:
            rows = {row[0]: (row[1], bytes(row[2])) for row in conn.execute(
                f"SELECT id, {shown}, sum FROM {table} WHERE id = ANY(%s)", (list(ids),), binary=True)}
            for key, (value, total) in rows.items():
                if changes.digest(value) != total:
                    raise Wrong(f"row {key} of {table} does not match its checksum")
            found = {key: value for key, (value, _) in rows.items()}
            if model and found != model:
                raise Wrong(f"rows {[key for key in ids if found.get(key) != model.get(key)]} of {table} are not what was written")
            model.clear()
            model.update(found)
            self.count("values compared", len(rows))

        def step(conn, rng) -> None:
            if next(turns) % 100 == 0:
                check(conn)
            now = dict(model)
            with conn.transaction():
                changes.change(conn, rng, table, ids, now, LONG)
            model.clear()
            model.update(now)
        return self.actor(f"writer{number}", step)

    def temporary(self, conn, rng) -> None:
        """A table that comes and goes, and one that stays and is emptied."""
        conn.execute("CREATE TEMP TABLE IF NOT EXISTS stays (k int, v int, t text)")
        conn.execute("INSERT INTO stays SELECT * FROM soak_rows")
        conn.execute("CREATE TEMP TABLE goes AS SELECT * FROM soak_rows")
        conn.execute("CREATE INDEX ON goes (k)")
        expected = conn.execute(f"{ANSWER} soak_rows").fetchone()
        for table in ("stays", "goes"):
            if conn.execute(f"{ANSWER} {table}").fetchone() != expected:
                raise Wrong(f"the temporary table {table} has not what was loaded")
        self.count("temporary answers compared", 2)
        conn.execute("DROP TABLE goes")
        conn.execute(rng.choice(("TRUNCATE stays", "SELECT pg_truncate_temp_relation('stays')")))

    def explain(self, conn, rng) -> None:
        k = rng.randrange(1, 39000)
        conn.execute("EXPLAIN (ANALYZE, BUFFERS) SELECT v, count(*) FROM soak_rows a JOIN soak_rows b USING (k, v) GROUP BY v")
        conn.execute(f"SELECT t FROM soak_rows WHERE k BETWEEN {k} AND {k + 40}")
        conn.execute("DO $$BEGIN FOR i IN 1..50 LOOP PERFORM v FROM soak_rows WHERE k = i; END LOOP; END$$")
        for view in self.views:
            conn.execute(f"SELECT * FROM {view}").fetchall()

    def tables(self, conn, rng) -> None:
        """A table of an appended column comes, is changed and goes."""
        conn.execute("CREATE TABLE comes (id int PRIMARY KEY, data text)")
        conn.execute("INSERT INTO comes SELECT g, repeat(g::text, 3000) FROM generate_series(1, 20) g")
        conn.execute("ALTER TABLE comes ALTER data TYPE appendable_text")
        conn.execute("UPDATE comes SET data = data || repeat('x', 5000)")
        if conn.execute("SELECT sum(length(data)) FROM comes").fetchone()[0] != sum(3000 * len(str(g)) + 5000 for g in range(1, 21)):
            raise Wrong("a table that came has not what was written")
        conn.execute("DROP TABLE comes")

    def visit(self, conn, rng) -> None:
        """A session that comes and leaves."""
        with self.connect("visitor") as one:
            one.execute("CREATE TEMP TABLE t AS SELECT * FROM soak_rows WHERE k < 2000")
            one.execute("SELECT count(*) FROM t")
            one.execute("SELECT sum(length(data)) FROM soak")

    def consume(self, conn, rng) -> None:
        n = conn.execute("SELECT count(*) FROM pg_logical_slot_get_changes('soak', NULL, 20000)").fetchone()[0]
        self.count("changes read through the slot", n)

    def maintain(self, conn, rng) -> None:
        conn.execute(rng.choice(("VACUUM soak", f"VACUUM {', '.join(WRITTEN[1:])}", "VACUUM (ANALYZE) soak", "REINDEX TABLE soak_text", "ANALYZE soak_rows")))
        problems = conn.execute("SELECT table_name::text, column_name, problem FROM appendable_bytea_check()").fetchall()
        if problems:
            raise Wrong(f"appendable_bytea_check(): {problems[:3]}")
        self.count("checks of the stores")

    # -- samples -------------------------------------------------------------

    def sample(self, conn, hours: float) -> dict:
        """What there is of everything now, and how long the work took since the last sample."""
        held = {one.info.backend_pid for one in self.held.values() if not one.closed}
        memory = {"sessions": 0.0, "server": 0.0}
        descriptors = 0
        postmaster = psutil.Process(int((self.server.data / "postmaster.pid").read_text().split()[0]))
        for process in [postmaster, *postmaster.children()]:
            with contextlib.suppress(psutil.Error):
                mine = process.pid in held
                title = " ".join(process.cmdline())
                # parallel workers, visitors and workers of autovacuum come and go
                if not mine and any(word in title for word in ("visitor", "parallel worker", "autovacuum worker", "[local]")):
                    continue
                memory["sessions" if mine else "server"] += process.memory_full_info().uss / 2**20
                descriptors += process.num_fds()
        with self.lock:
            took, self.took = self.took, collections.defaultdict(list)
        row = conn.execute(
            "SELECT (SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'),"
            " (SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relkind IN ('r', 't', 'i') AND relpersistence = 'p' AND oid >= 16384),"
            " (SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = 'soak')").fetchone()
        # a dropped table's first file stays until then, so that the work of the last minutes would be counted
        conn.execute("CHECKPOINT")
        files = sum(1 for path in (self.server.data / "base").rglob("*") if not path.name.startswith("t"))
        return {
            "hours": round(hours, 4),
            "memory of sessions, MB": round(memory["sessions"], 2), "memory of the server, MB": round(memory["server"], 2), "descriptors": descriptors,
            "files": files, "catalogs, MB": round(float(row[0]) / 2**20, 2), "tables and stores, MB": round(float(row[1]) / 2**20, 2),
            "WAL kept by the slot, MB": round(float(row[2]) / 2**20, 2),
            "latencies, ms": {name: [round(1000 * statistics.median(times), 2), round(1000 * sorted(times)[int(0.99 * len(times))], 2)]
                              for name, times in sorted(took.items())},
        }

    # -- the run -------------------------------------------------------------

    def run(self, done: float, save) -> None:
        """Work until all hours are full, of which `done` were before."""
        with Standing(self.args.pg_config, f"soak-{self.args.pg_config or 'host'}") as self.server:
            with self.connect("setup") as conn:
                if self.server.fresh:
                    conn.execute(TABLES)
                    conn.execute("SELECT pg_create_logical_replication_slot('soak', 'test_decoding')")
                self.server_version = conn.execute("SELECT split_part(current_setting('server_version'), ' ', 1)").fetchone()[0]
                self.views = [row[0] for row in conn.execute(
                    "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e'"
                    " JOIN pg_extension e ON e.oid = d.refobjid WHERE relkind = 'v' AND extname = 'light_explain'")]
            actors = [self.writer(number, table) for number, table in enumerate(WRITTEN)]
            actors += [self.actor("temporary tables", self.temporary, leaves=LEAVES), self.actor("explain", self.explain),
                       self.actor("tables that go", self.tables, 0.5, LEAVES), self.actor("visits", self.visit, 0.5), self.actor("slot", self.consume, 0.5),
                       self.actor("maintenance", self.maintain, 3.0)]
            for thread in actors:
                thread.start()
            started, samples = time.monotonic(), self.parts[-1]["samples"]
            try:
                with self.connect("sampler") as conn:
                    while not self.stop.is_set():
                        hours = done + (time.monotonic() - started) / 3600
                        if hours >= self.args.hours:
                            break
                        self.stop.wait(min(EVERY, max(1.0, 3600 * (self.args.hours - hours))))
                        samples.append(self.sample(conn, done + (time.monotonic() - started) / 3600))
                        if len(samples) % 10 == 0:
                            save()
                            last = {name: value for name, value in samples[-1].items() if name != "latencies, ms"}
                            print(f"{time.strftime('%H:%M:%S')} {last}, wrong {len(self.wrong)}", flush=True)
            finally:
                self.stop.set()
                for thread in actors:
                    thread.join(300)
                    if thread.is_alive():
                        self.report(f"{thread.name} hangs")
                log = self.server.log.read_text(errors="replace")
                for line in log.splitlines():
                    if any(word in line for word in ("TRAP:", "PANIC:", "terminated by signal")):
                        self.report(f"in the server's log: {line}")
                self.server.log.write_text("")


def hours_of(parts: list[dict]) -> float:
    """How long the servers worked until the last sample."""
    return max((one["hours"] for part in parts for one in part["samples"]), default=0.0)


def slopes(points: list[tuple[float, float]]) -> list[float]:
    """The slopes between all pairs of points."""
    return [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2) if b[0] > a[0]]


def judged(part: dict) -> list[dict]:
    """The samples of a start that are judged: none if there are too few."""
    samples = part["samples"]
    found = [one for one in samples if one["hours"] >= samples[0]["hours"] + WARM / 60]
    return found if found and found[-1]["hours"] - found[0]["hours"] >= JUDGED else []


def judged_hours(parts: list[dict]) -> float:
    return sum(found[-1]["hours"] - found[0]["hours"] for found in map(judged, parts) if found)


class Growth(NamedTuple):
    """Of a resource, in its unit: its level (the median), what it gained in all judged hours together, and the interval of that."""

    level: float
    gained: float
    least: float
    most: float


def growth(parts: list[dict], name: str) -> Growth:
    """How much a resource grew.

    The line's slope is the median of the slopes between samples of the same start (Theil 1950), of all starts
    together, and its interval is between two of these slopes, by the variance of Kendall's S (Sen 1968). That
    takes samples for independent: those that follow each other are alike, so the interval is too narrow. A start
    has as much weight as it has pairs: with a line for each, the noise of a short one would be added to the sum.
    """
    levels, found, variance = [], [], 0.0
    for part in parts:
        points = [(one["hours"], float(one[name])) for one in judged(part)]
        points = points[::-(-len(points) // DRAWN) or 1]
        levels += [value for _, value in points]
        found += slopes(points)
        variance += len(points) * (len(points) - 1) * (2 * len(points) + 5) / 18
    if not found:
        return Growth(0.0, 0.0, 0.0, 0.0)
    found.sort()
    half = min(WIDE * math.sqrt(variance), len(found) - 1) / 2
    middle, hours = (len(found) - 1) / 2, judged_hours(parts)
    least, most = found[math.floor(middle - half)], found[math.ceil(middle + half)]
    return Growth(statistics.median(levels), statistics.median(found) * hours, least * hours, most * hours)


def grown(parts: list[dict]) -> list[str]:
    """Which resources grew."""
    found = []
    for name, enough in ENOUGH.items():
        one = growth(parts, name)
        if one.gained > max(enough, one.level / 10) and one.least > 0:
            found.append(f"{name} grew by {one.gained:.1f} ({one.least:.1f} to {one.most:.1f}) from about {one.level:.1f}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--hours", type=float, default=0.1, help="in total, with those before an interruption (default 0.1)")
    parser.add_argument("--pg-config", help="pg_config of a server, or a label of ci/lib.sh (18)")
    args = record.begin(parser)
    os.environ["MALLOC_TRIM_THRESHOLD_"] = str(RETURNED)
    before = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    run = record.about(record.made(f"soak HOURS={args.hours:g}", args.pg_config), args.pg_config)
    done = hours_of(before.get("parts", []))
    if done >= args.hours:
        before, done = {}, 0.0
    soak = Soak(args, before, run["commit"])
    if not done:
        Standing(args.pg_config, f"soak-{args.pg_config or 'host'}").forget()

    def save() -> dict:
        parts = [part for part in soak.parts if part["samples"]]
        hours = hours_of(parts)
        result = {"seed": args.seed, "hours": round(hours, 2), "unfinished": hours < args.hours,
                  "judged": round(judged_hours(parts), 2), "counts": dict(sorted(soak.counts.items())), "wrong": soak.wrong, "parts": parts}
        if args.json:
            record.write(args.json, {**run, "commit": soak.parts[0]["commit"], "server": soak.server_version}, result)
        return result

    try:
        soak.run(done, save)
    except KeyboardInterrupt:
        save()
        return 130
    except SystemExit:
        save()
        raise
    result = save()
    for name in ENOUGH:
        one = growth(result["parts"], name)
        print(f"{name:28} about {one.level:9.1f}, gained {one.gained:+.1f} ({one.least:+.1f} to {one.most:+.1f})")
    found = grown(result["parts"])
    for name, n in result["counts"].items():
        print(f"{n:9} {name}")
    print(f"{result['hours']} hours, {soak.counts['values compared']} values compared, {len(soak.wrong)} wrong, "
          f"{'grown: ' + '; '.join(found) if found else 'nothing grew'}")
    return 1 if soak.wrong or found else 0


if __name__ == "__main__":
    sys.exit(main())
