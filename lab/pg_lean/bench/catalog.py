"""The cost of CREATE and DROP of a temporary table, and the part of the catalogs: rows, index entries, files, invalidations, WAL, and growth."""

from __future__ import annotations

import re
import time
from typing import Any, Callable

import psutil
import psycopg

from pg_lean.bench import Bench, Note, Result, Table, human_bytes
from pg_lean.measure import cpu_seconds, wal_position

TITLE = "Creating and dropping temporary tables: what it costs, and how the catalogs grow"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "256MB", "autovacuum": "off", "synchronous_commit": "off", "track_counts": "on"}

#: Statements that create a table each time, or that use an existing one.
CREATED = {
    "4 int columns": "CREATE TEMP TABLE made (a int, b int, c int, d int)",
    "20 int columns": f"CREATE TEMP TABLE made ({', '.join(f'c{n} int' for n in range(20))})",
    "4 columns, one of them text": "CREATE TEMP TABLE made (a int, b int, c int, d text)",
    "4 int columns, primary key": "CREATE TEMP TABLE made (a int PRIMARY KEY, b int, c int, d int)",
}
KEPT, EMPTY, IN_ONE = "TRUNCATE of one that is kept", "DELETE of one row from one that is kept", "4 int columns, both in one transaction"
CASE = "a table"
#: With the library recycled_temp, if it is installed: off and on, in one session.
NOT_KEPT, KEPT_BY_POOL = "recycled_temp off", "recycled_temp on"

#: How a table that is kept, with a primary key, a second index and a TOAST table, is emptied.
EMPTIED = {
    "TRUNCATE": "TRUNCATE emptied",
    "pg_truncate_temp_relation()": "SELECT pg_truncate_temp_relation('emptied')",
    "DELETE": "DELETE FROM emptied",
}
#: Rows that it has then, and how many of them have a value out of line.
CONTENTS = {"10 rows": (10, 0), "1,000 rows": (1000, 0), "1,000 rows, 100 with TOAST": (1000, 100)}

#: A session that fills catalogs: rounds, tables of each, and how often the sizes are looked at.
ROUNDS, TABLES, LOOKS = 150, 20, 5
CATALOGS = ("pg_attribute", "pg_class", "pg_type", "pg_depend")
WITHOUT, WITH = "autovacuum off", "autovacuum on, each second"


def run(bench: Bench) -> Result:
    """Each kind of table in turns; then what one of each leaves in the catalogs; then two servers whose catalogs grow."""
    bench.need_private()
    times = bench.pick(full=100, quick=10)
    repetitions = bench.iterations(full=9, quick=2)
    with bench.connect() as conn:
        conn.prepare_threshold = None
        conn.execute("CREATE TEMP TABLE kept (a int, b int, c int, d int)")
        bench.interleave({name: lambda step=step: cycles(conn, step, times) for name, step in steps().items()}, repetitions, case=CASE,
                         before=lambda: vacuum(conn), text="creating and dropping")
        left = {name: traces(conn, CREATED[name]) for name in CREATED}
        conn.execute("CREATE EXTENSION IF NOT EXISTS parallel_temp")
        conn.execute(
            "CREATE TEMP TABLE emptied (id int PRIMARY KEY, a int, b text); CREATE INDEX ON emptied (a); ALTER TABLE emptied ALTER b SET STORAGE EXTERNAL"
        )
        for contents in CONTENTS:
            bench.interleave({name: lambda name=name: emptying(conn, EMPTIED[name], contents, times) for name in EMPTIED}, repetitions, case=contents,
                             before=lambda: conn.execute("TRUNCATE emptied"), text=f"emptying {contents}")
    pooled = recycled(bench, times, repetitions) if bench.need_private().has_library("recycled_temp") else {}
    rounds = bench.pick(full=ROUNDS, quick=10)
    grown = {name: growth(bench, name, settings, rounds) for name, settings in
             {WITHOUT: {"autovacuum": "off"}, WITH: {"autovacuum": "on", "autovacuum_naptime": "1s"}}.items()}
    return present(bench, times, repetitions, rounds, left, grown, pooled)


def steps() -> dict[str, Callable[[psycopg.Connection], Any]]:
    def created(text: str) -> Callable[[psycopg.Connection], None]:
        def step(conn: psycopg.Connection) -> None:
            conn.execute(text)
            conn.execute("DROP TABLE made")
        return step

    def in_one(conn: psycopg.Connection) -> None:
        with conn.transaction():
            conn.execute(CREATED["4 int columns"])
            conn.execute("DROP TABLE made")

    def empty(conn: psycopg.Connection) -> None:
        conn.execute("INSERT INTO kept VALUES (1)")
        conn.execute("DELETE FROM kept")

    return {name: created(text) for name, text in CREATED.items()} | {IN_ONE: in_one, KEPT: lambda conn: conn.execute("TRUNCATE kept"), EMPTY: empty}


def vacuum(conn: psycopg.Connection) -> None:
    conn.execute("VACUUM " + ", ".join(CATALOGS))


def cycles(conn: psycopg.Connection, step: Callable[[psycopg.Connection], Any], times: int) -> dict[str, float]:
    """Microseconds of one step: of the client, and of the server's process in its own code and in the kernel."""
    pid = conn.info.backend_pid
    before, process, wal, start = cpu_seconds(pid) or 0.0, psutil.Process(pid).cpu_times(), wal_position(conn), time.perf_counter()
    for _ in range(times):
        step(conn)
    took, cpu, after = time.perf_counter() - start, (cpu_seconds(pid) or 0.0) - before, psutil.Process(pid).cpu_times()
    ticks = (after.user - process.user) + (after.system - process.system)
    return {"us": took * 1e6 / times, "cpu_us": cpu * 1e6 / times, "kernel": (after.system - process.system) / ticks if ticks else 0.0,
            "wal": (wal_position(conn) - wal) / times}


def emptying(conn: psycopg.Connection, statement: str, contents: str, times: int) -> dict[str, float]:
    """Microseconds of emptying a table that is filled before each time, and of the server's processor time, and bytes of WAL."""
    rows, wide = CONTENTS[contents]
    fill = f"INSERT INTO emptied SELECT g, g % 10, CASE WHEN g <= {wide} THEN repeat('x', 10000) ELSE 'y' END FROM generate_series(1, {rows}) g"
    pid = conn.info.backend_pid
    took = cpu = wal = 0.0
    for _ in range(times):
        conn.execute(fill)
        position, used, start = wal_position(conn), cpu_seconds(pid) or 0.0, time.perf_counter()
        conn.execute(statement)
        took += time.perf_counter() - start
        cpu += (cpu_seconds(pid) or 0.0) - used
        wal += wal_position(conn) - position
    return {"us": took * 1e6 / times, "cpu_us": cpu * 1e6 / times, "wal": wal / times}


def changed_rows(conn: psycopg.Connection) -> dict[str, int]:
    """Rows of each catalog that were inserted, updated or deleted since the server started."""
    conn.execute("SELECT pg_stat_force_next_flush()")
    return dict(conn.execute("SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_sys_tables WHERE schemaname = 'pg_catalog'").fetchall())


def traces(conn: psycopg.Connection, create: str) -> dict[str, Any]:
    """What one CREATE and DROP leaves: rows of catalogs, entries of their indexes, files, messages of invalidation (None where they cannot be seen)."""
    before, start = changed_rows(conn), conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
    conn.execute(create)
    files = conn.execute(
        "SELECT count(*) FROM pg_class WHERE relfilenode <> 0 AND (oid = 'made'::regclass OR oid IN (SELECT reltoastrelid FROM pg_class WHERE oid = "
        "'made'::regclass)"
        " OR oid IN (SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON i.indrelid IN (c.oid, c.reltoastrelid) WHERE c.oid = 'made'::regclass))"
    ).fetchone()[0]
    conn.execute("DROP TABLE made")
    end, after = conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0], changed_rows(conn)
    rows = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    indexes = dict(conn.execute("SELECT indrelid::regclass::text, count(*) FROM pg_index WHERE indrelid < 16384 GROUP BY 1").fetchall())
    return {"rows": rows, "made": sum(rows.values()) // 2, "entries": sum(rows[name] // 2 * indexes.get(name, 0) for name in rows), "files": files,
            "messages": invalidations(conn, start, end)}


def invalidations(conn: psycopg.Connection, start: str, end: str) -> int | None:
    """Messages in the commit records between two places of the WAL, as pg_walinspect shows them."""
    try:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        conn.execute("CHECKPOINT")  # it reads what is on disk
        records = conn.execute("SELECT description FROM pg_get_wal_records_info(%s, %s) WHERE resource_manager = 'Transaction'", (start, end)).fetchall()
    except psycopg.Error:
        return None
    found = [text.partition("inval msgs:")[2] for (text,) in records]
    return sum(len(re.findall(r"catcache|catalog|relcache|snapshot|relmap|smgr|unrecognized", text)) for text in found)


def recycled(bench: Bench, times: int, repetitions: int) -> dict[str, dict[str, Any]]:
    """The tables of CREATED without and with recycled_temp; what a cycle leaves with it, by table."""
    left = {}
    with bench.cluster(preload=("recycled_temp",), settings=SETTINGS) as server, server.connect() as conn:
        conn.prepare_threshold = None

        def measured(enabled: str, name: str) -> dict[str, float]:
            conn.execute(f"SET recycled_temp.enabled = {enabled}")
            return cycles(conn, steps()[name], times)

        for name in CREATED:
            bench.interleave({NOT_KEPT: lambda name=name: measured("off", name), KEPT_BY_POOL: lambda name=name: measured("on", name)}, repetitions,
                             case=f"recycled, {name}", before=lambda: vacuum(conn), text=f"recycled_temp, {name}")
            conn.execute("SET recycled_temp.enabled = on")
            left[name] = traces(conn, CREATED[name])
    return left


def growth(bench: Bench, name: str, settings: dict[str, Any], rounds: int) -> list[tuple[int, dict[str, int], float]]:
    """Create tables, insert a row and drop them, in rounds, on a private server; after some rounds record the catalogs' sizes, and a round's time in ms."""
    looks = []
    with bench.cluster(settings={**SETTINGS, **settings}) as server, server.connect() as conn, bench.progress(rounds, f"catalogs grow, {name}") as step:
        conn.prepare_threshold = None
        since, start = 0, time.perf_counter()
        for number in range(rounds + 1):
            if number % (rounds // LOOKS) == 0:
                ms = (time.perf_counter() - start) * 1000 / max(number - since, 1)
                sizes = {catalog: conn.execute("SELECT pg_total_relation_size(%s::regclass)", (catalog,)).fetchone()[0] for catalog in CATALOGS}
                looks.append((number, sizes, ms if number else float("nan")))
                since, start = number, time.perf_counter()
            for n in range(TABLES):
                conn.execute(f"CREATE TEMP TABLE t{n} (id int, item int, amount int, price numeric, state text, remark text)")
                conn.execute(f"INSERT INTO t{n} VALUES (1)")
            conn.execute("DROP TABLE " + ", ".join(f"t{n}" for n in range(TABLES)))
            step(name)
    return looks


def present(bench: Bench, times: int, repetitions: int, rounds: int, left: dict[str, dict[str, Any]],
            grown: dict[str, list[tuple[int, dict[str, int], float]]], pooled: dict[str, dict[str, Any]]) -> Result:
    def value(metric: str, name: str) -> Any:
        return bench.estimate(metric, name, CASE)

    cost = Table("What it takes", ["what is created and dropped", "µs", "µs of the server's processor time", "of that in the kernel", "bytes of WAL"],
                 [[name, value("us", name), value("cpu_us", name), f"{value('kernel', name).median:.0%}", value("wal", name).median] for name in steps()],
                 note="The last three make nothing new for each step, or save a commit: they show what is not the table's own making.")
    emptied = Table(
        "Emptying a table that is kept, with two indexes and a TOAST table",
        ["rows", "how", "µs", "µs of the server's processor time", "bytes of WAL", "of TRUNCATE's µs"],
        [
            [
                contents,
                name,
                bench.estimate("us", name, contents),
                bench.estimate("cpu_us", name, contents),
                bench.estimate("wal", name, contents).median,
                "" if name == "TRUNCATE" else bench.ratio("us", name, "TRUNCATE", contents),
            ]
            for contents in CONTENTS
            for name in EMPTIED
        ],
        note="DELETE leaves its rows for VACUUM, and the table grows with each round; it is truncated between repetitions.",
    )
    catalogs = sorted(
        {catalog for found in left.values() for catalog in found["rows"]}, key=lambda catalog: -max(found["rows"].get(catalog, 0) for found in left.values())
    )
    rows = Table(
        "What it leaves in the catalogs",
        ["what is created and dropped", "rows made and deleted", "index entries", "files", "invalidation messages", *catalogs],
        [
            [
                name,
                found["made"],
                found["entries"],
                found["files"],
                "not seen" if found["messages"] is None else found["messages"],
                *(found["rows"].get(catalog, 0) for catalog in catalogs),
            ]
            for name, found in left.items()
        ],
        note="Of each catalog: rows that were made, changed and deleted. Index entries are those that a row needs in all of its catalog's indexes; deleting "
             "removes none, "
        "that is VACUUM's work. Messages are those of the commit records, for other sessions and for standbys.",
    )
    growing = Table(
        f"How the catalogs grow: {TABLES} tables of six columns a round",
        ["server", "after rounds", *CATALOGS, "ms a round"],
        [
            [name, number, *(human_bytes(sizes[catalog]) for catalog in CATALOGS), "" if ms != ms else ms]
            for name, looks in grown.items()
            for number, sizes, ms in looks
        ],
        note="Sizes with their indexes. Each server was made for this, and nothing else ran on it.",
    )
    kept = Table(
        "With recycled_temp",
        ["what is created and dropped", "µs of CPU time, off", "on", "on / off", "bytes of WAL, off", "on", "rows written, off", "on", "messages, off", "on"],
        [
            [
                name,
                *(bench.estimate("cpu_us", variant, f"recycled, {name}") for variant in (NOT_KEPT, KEPT_BY_POOL)),
                bench.ratio("cpu_us", KEPT_BY_POOL, NOT_KEPT, f"recycled, {name}"),
                *(bench.estimate("wal", variant, f"recycled, {name}").median for variant in (NOT_KEPT, KEPT_BY_POOL)),
                *(sum(found["rows"].values()) for found in (left[name], pooled[name])),
                *("not seen" if found["messages"] is None else found["messages"] for found in (left[name], pooled[name])),
            ]
            for name in pooled
        ],
        note="An update of a row counts as one row that is written.",
    )
    most = grown[WITHOUT]
    return Result(
        title=TITLE,
        summary=f"CREATE and DROP of a temporary table of four columns takes {value('cpu_us', '4 int columns').median:.0f} µs of processor time, and makes "
        f"{left['4 int columns']['made']} rows of catalogs with {left['4 int columns']['entries']} index entries. Without autovacuum {rounds} rounds of "
        f"{TABLES} tables "
        f"made pg_attribute grow from {human_bytes(most[0][1]['pg_attribute'])} to {human_bytes(most[-1][1]['pg_attribute'])}.",
        what="CREATE TEMP TABLE and DROP TABLE of empty tables on a stock server with parallel_temp loaded, which has no part in it; what a table that is "
             "kept takes instead.",
        how=f"{repetitions} interleaved repetitions of {times} steps each, in one session; the catalogs are vacuumed before each round.",
        blocks=[cost, emptied, rows, *([kept] if pooled else []), growing, Note("Instructions by function: `ci/catalog.sh`.")],
    )
