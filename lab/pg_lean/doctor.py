"""What may be wrong with a server that uses pg_lean, and what to type.

Each check looks at one thing and yields findings; it reads catalogs, statistics
and settings, takes no lock that anybody waits for, and changes nothing.  What a
role may not see is said to be unseen, never taken to be well.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterator

import psycopg
from psycopg.rows import dict_row

from pg_lean import prices
from pg_lean.bench import calibrate
from pg_lean.cluster import LIBRARIES
from pg_lean.names import extension_schema

#: Severities in ascending order; the position is the command's exit status, except that of the first two, which are 0.
LEVELS = ("ok", "note", "warning", "error")

#: Major versions that the extensions are built for.
MAJORS = (15, 19)

#: Seconds from which waiting for a lock is a warning.
LONG_WAIT = 60

#: Seconds from which a transaction is old, bytes of WAL that an idle slot may keep, bytes from which dead chunks of a store count,
#: updates from which their share that found room in the page counts, and the share of slots in use from which there may soon be none.
OLD_TRANSACTION, KEPT_WAL, DEAD_STORE, MANY_UPDATES, NEARLY_ALL = 3600, 1 << 30, 64 << 20, 1000, 0.75


#: Time limit of one check.
TIMEOUT = "15s"


@dataclass
class Finding:
    """One thing that was looked at."""

    level: str
    what: str
    do: str = ""
    check: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


Check = Callable[[psycopg.Connection], Iterator[Finding]]
CHECKS: dict[str, Check] = {}


def check(title: str) -> Callable[[Check], Check]:
    """Register a check under a title."""
    def register(function: Check) -> Check:
        CHECKS[title] = function
        return function
    return register


def status(findings: list[Finding]) -> int:
    """Exit status for monitoring: 0 well, 1 a warning, 2 an error."""
    return max([0, *(LEVELS.index(finding.level) - 1 for finding in findings)])


def examine(conn: psycopg.Connection) -> list[Finding]:
    """Run every check; one that cannot look says why and hides no other."""
    conn.row_factory = dict_row
    conn.execute(f"SET statement_timeout = '{TIMEOUT}'; SET lock_timeout = '1s'")
    found = []
    for title, function in CHECKS.items():
        mine = []
        try:
            mine.extend(function(conn))
        except psycopg.errors.InsufficientPrivilege as error:
            mine.append(Finding("note", f"not seen: {error.diag.message_primary}", "Run it as a role that has pg_monitor."))
        except psycopg.OperationalError as error:
            if conn.closed:
                raise
            mine.append(Finding("note", f"not seen: {str(error).strip()}"))
        except psycopg.Error as error:
            mine.append(Finding("error", f"cannot be looked at: {str(error).strip()}", getattr(error.diag, "message_hint", None) or ""))
        for finding in mine or [Finding("ok", "nothing to see")]:
            finding.check = title
            found.append(finding)
    return found


def rows(conn: psycopg.Connection, query: str, *parameters: Any) -> list[dict[str, Any]]:
    return conn.execute(query, parameters or None).fetchall()


def installed(conn: psycopg.Connection) -> dict[str, str]:
    """Versions of the project's extensions in this database."""
    return {
        row["extname"]: row["extversion"] for row in rows(conn, "SELECT extname, extversion FROM pg_extension WHERE extname = ANY(%s::name[])", list(LIBRARIES))
    }


def setting(conn: psycopg.Connection, name: str) -> dict[str, Any]:
    """A setting's value, source and unit; empty if there is none of that name."""
    found = rows(conn, "SELECT setting, source, unit, boot_val FROM pg_settings WHERE name = %s::text", name)
    return found[0] if found else {}


def preloaded(conn: psycopg.Connection) -> list[str]:
    """Names in shared_preload_libraries, in their order, without paths."""
    value = rows(conn, "SELECT current_setting('shared_preload_libraries') AS value")[0]["value"]
    return [name.strip().strip('"').rsplit("/", 1)[-1].removesuffix(".so") for name in value.split(",") if name.strip()]


# -- the checks --------------------------------------------------------------

@check("server")
def server_version(conn: psycopg.Connection) -> Iterator[Finding]:
    version = conn.info.server_version
    text = rows(conn, "SHOW server_version")[0]["server_version"]
    if not MAJORS[0] <= version // 10000 <= MAJORS[1]:
        yield Finding("error", f"PostgreSQL {text} is none of those that the extensions are for ({MAJORS[0]} to {MAJORS[1]})")
    else:
        yield Finding("ok", f"PostgreSQL {text}")
    if rows(conn, "SHOW debug_assertions")[0]["debug_assertions"] == "on":
        yield Finding("note", "this server was built with assertions: fit for tests, slow for work")


@check("extensions")
def extension_versions(conn: psycopg.Connection) -> Iterator[Finding]:
    have = installed(conn)
    for row in rows(conn, "SELECT name, default_version FROM pg_available_extensions WHERE name = ANY(%s::name[]) ORDER BY name", list(LIBRARIES)):
        name = row["name"]
        if name not in have:
            yield Finding("note", f"{name} is installed on the server but not in this database", f"CREATE EXTENSION {name};")
        elif have[name] != row["default_version"]:
            yield Finding("warning", f"{name} is at {have[name]} here, its files are of {row['default_version']}", f"ALTER EXTENSION {name} UPDATE;")
        else:
            yield Finding("ok", f"{name} {have[name]}")
    for name in sorted(have):
        if not rows(conn, "SELECT 1 FROM pg_available_extensions WHERE name = %s::name", name):
            yield Finding("error", f"{name} is in this database, but its files are not on the server", "make install, for the server of this PG_CONFIG")


@check("libraries")
def libraries(conn: psycopg.Connection) -> Iterator[Finding]:
    names, have = preloaded(conn), installed(conn)
    if "light_explain" in have:
        if "light_explain" not in names:
            yield Finding("note", "light_explain is not preloaded: no progress of other sessions, and no profile",
                          "ALTER SYSTEM SET shared_preload_libraries = light_explain, ...; and restart")
        elif names[0] != "light_explain":
            yield Finding(
                "note", f"light_explain is loaded after {names[0]}: statements of microseconds cost a little more", "Put it first in shared_preload_libraries."
            )
        for row in rows(conn, f"SELECT enabled, problem FROM {extension_schema(conn, 'light_explain')}.light_explain_status()"):
            if not row["enabled"]:
                yield Finding("error" if row["problem"] else "note", f"light_explain is off: {row['problem'] or 'light_explain.enabled is off'}",
                              "make install, and restart the server" if row["problem"] else "")
            elif row["problem"] and "light_explain" in names:
                yield Finding("warning", f"light_explain: {row['problem']}", "make install, and restart the server when it suits")
    if "plprofiler" in names and any(name in LIBRARIES for name in names[:names.index("plprofiler")]):
        yield Finding("warning", "plprofiler comes after a library of pg_lean: it swallows the shared memory that those before it asked for",
                      "Put plprofiler in front of them in shared_preload_libraries, and restart.")
    if "ram_tablespace" in have and "ram_tablespace" not in names:
        yield Finding("warning", "ram_tablespace is not preloaded: its directories are not created again after a reboot",
                      "Add ram_tablespace to shared_preload_libraries, and restart.")
    for name, usual in (
        ("parallel_temp.debug_force", "off"),
        ("light_explain.instrument_all", "off"),
        ("parallel_temp.debug_flush_method", "coalesced"),
        ("parallel_temp.debug_pool_read", "map"),
    ):
        now = setting(conn, name).get("setting")
        if now is not None and now != usual:
            yield Finding("warning", f"{name} = {now}, which is for tests and measurements", f"ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();")


@check("library files")
def library_files(conn: psycopg.Connection) -> Iterator[Finding]:
    mine = [name for name in preloaded(conn) if name in LIBRARIES]
    if not mine:
        return
    newer = rows(
        conn,
        """SELECT name, (pg_stat_file((SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR') || '/' || name || '.so',
            true)).modification > pg_postmaster_start_time() AS newer
                          FROM unnest(%s::text[]) AS name ORDER BY name""",
        mine,
    )
    for row in newer:
        if row["newer"]:
            yield Finding(
                "warning",
                f"the file of {row['name']} is newer than the running server, which still has the one before",
                "Restart the server: sessions use the old code until then.",
            )
    if not any(row["newer"] for row in newer):
        yield Finding("ok", f"{', '.join(mine)}: the files are older than the server's start")


@check("parallel plans")
def parallel_plans(conn: psycopg.Connection) -> Iterator[Finding]:
    if "parallel_temp" not in installed(conn):
        return
    loaded = ",".join(row["setting"] for row in rows(conn, "SELECT setting FROM pg_settings WHERE name LIKE '%%preload_libraries'"))
    if "parallel_temp" not in loaded:
        yield Finding("warning", "parallel_temp is not loaded when sessions begin: they plan as stock until they call one of its functions",
                      "ALTER SYSTEM SET session_preload_libraries = parallel_temp; SELECT pg_reload_conf();")
    for name in ("max_parallel_workers_per_gather", "max_parallel_workers", "max_worker_processes"):
        if setting(conn, name)["setting"] == "0":
            yield Finding("warning", f"{name} is 0: nothing runs in parallel", f"ALTER SYSTEM SET {name} = ...;")
    for name in (*calibrate.SETTINGS_OF, *prices.SETTINGS_OF):
        found = setting(conn, name)
        if found and found["source"] == "default":
            yield Finding("note", f"{name} is the default ({found['setting']}), not measured on this machine", "lab/run calibrate --dsn ... --apply database")


@check("temporary tables")
def temporary_tables(conn: psycopg.Connection) -> Iterator[Finding]:
    # a relation may be dropped between the snapshot and the look at its file: its size is null then
    found = rows(conn, """SELECT n.nspname, count(*) AS relations, coalesce(sum(pg_relation_size(c.oid)), 0) AS bytes
                          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                          WHERE c.relpersistence = 't' AND c.relkind IN ('r', 'i', 't', 'm') GROUP BY 1 ORDER BY 3 DESC""")
    buffers = int(
        rows(conn, "SELECT setting::bigint * current_setting('block_size')::bigint AS bytes FROM pg_settings WHERE name = 'temp_buffers'")[0]["bytes"]
    )
    if not found:
        yield Finding("ok", "no session has a temporary table now")
    elif (largest := int(found[0]["bytes"])) > buffers:
        yield Finding("note", f"a session has {largest >> 20:,} MB of temporary tables on disk, and temp_buffers is {buffers >> 20:,} MB by default",
                      f"Where memory allows it: SET temp_buffers = '{(largest >> 20) + 1} MB' at the beginning of such sessions.")
    else:
        yield Finding("ok", f"{len(found)} sessions have temporary tables, the largest {largest >> 20:,} MB on disk")


@check("RAM tablespaces")
def ram_tablespaces(conn: psycopg.Connection) -> Iterator[Finding]:
    schema = extension_schema(conn, "ram_tablespace")
    if schema is None:
        return
    found = rows(conn, f"SELECT name, problem, remedy FROM {schema}.ram_tablespace_check()")
    for row in found:
        yield Finding("error", f"tablespace {row['name']}: {row['problem']}", row["remedy"] or "")
    if not found:
        yield Finding("ok", "all as they should be")


@check("instrumentation")
def instrumentation(conn: psycopg.Connection) -> Iterator[Finding]:
    schema = extension_schema(conn, "light_explain")
    if schema is None:
        return
    state = rows(conn, f"SELECT * FROM {schema}.light_explain_status()")[0]
    for column, why, do in (("progress_refused_full", "no slot was free", "Raise light_explain.progress_statements, and restart."),
                            ("progress_refused_role", "their role had its share of the slots", "Raise light_explain.progress_statements, and restart."),
                            ("progress_refused_nodes", "their plans have too many nodes", "Raise light_explain.progress_nodes, and restart.")):
        if state[column]:
            yield Finding("note", f"{state[column]:,} statements were not visible while they ran: {why}", do)
    # counters start with the server: they are warnings only as long as their cause is there
    if state["profile_dropped_plans"] or state["profile_dropped_nodes"]:
        full = state["profile_nodes"] >= NEARLY_ALL * state["profile_max_nodes"]
        yield Finding("warning" if full else "note",
                      f"the profile dropped {state['profile_dropped_plans']:,} plans and {state['profile_dropped_nodes']:,} nodes since the server started, "
                      f"because it had no space; it is {state['profile_nodes'] / max(state['profile_max_nodes'], 1):.0%} full now",
                      "Raise light_explain.profile_max, and restart.")
    profiling = setting(conn, "light_explain.profile").get("setting") == "on"
    identified = rows(conn, "SELECT query_id IS NOT NULL AS known FROM pg_stat_activity WHERE pid = pg_backend_pid()")[0]["known"]
    if profiling and not identified:
        yield Finding("warning", "statements have no query identifier, and are not in the profile",
                      "ALTER SYSTEM SET compute_query_id = on; SELECT pg_reload_conf();")
    elif state["profile_without_queryid"]:
        yield Finding("note", f"{state['profile_without_queryid']:,} statements since the server started had no query identifier, and are not in the profile",
                      "If that number grows, look for roles, databases and sessions that set compute_query_id = off.")
    if state["progress_slots"] and state["progress_used"] >= NEARLY_ALL * state["progress_slots"]:
        yield Finding(
            "note",
            f"{state['progress_used']} of {state['progress_slots']} slots for progress are taken: statements may soon not be visible",
            "Raise light_explain.progress_statements, and restart.",
        )
    yield from slow_clock(state["clock"], rows(conn, "SHOW track_io_timing")[0]["track_io_timing"] == "on")
    if setting(conn, "light_explain.timing").get("setting") == "system":
        yield Finding(
            "note",
            "light_explain.timing = system: reading the clock takes longer than with auto",
            "ALTER SYSTEM RESET light_explain.timing;",
        )
    if state["progress_slots"]:
        memory = ""
        if rows(conn, "SELECT has_table_privilege('pg_shmem_allocations', 'SELECT') AS may")[0]["may"]:
            taken = rows(conn, "SELECT coalesce(sum(allocated_size), 0) AS bytes FROM pg_shmem_allocations WHERE name LIKE 'light_explain%%'")[0]["bytes"]
            memory = f", {int(taken) / (1 << 20):,.1f} MB of shared memory"
        yield Finding(
            "ok",
            f"progress: {state['progress_used']} of {state['progress_slots']} slots; profile: {state['profile_nodes']:,} of {state['profile_max_nodes']:,} "
            f"nodes in {state['profile_plans']:,} plans{memory}; "
            f"clock: {state['clock']}",
        )


def slow_clock(clock: str, io_timing: bool) -> Iterator[Finding]:
    """What it means that light_explain reads this clock; io_timing: track_io_timing is on."""
    if clock != "system":
        return
    yield Finding(
        "note",
        "light_explain reads the system's clock, because the processor's counter cannot be relied on here",
        "On Linux see /sys/devices/system/clocksource/clocksource0/current_clocksource: tsc is best.",
    )
    if io_timing:
        yield Finding(
            "note",
            "track_io_timing is on, and the system's clock may be slow",
            "pg_test_timing tells how slow; ALTER SYSTEM RESET track_io_timing; SELECT pg_reload_conf();",
        )


@check("chunk stores")
def chunk_stores(conn: psycopg.Connection) -> Iterator[Finding]:
    schema = extension_schema(conn, "appendable_bytea")
    if schema is None:
        return
    stores = rows(
        conn,
        """SELECT s.relname, s.n_live_tup, s.n_dead_tup, pg_total_relation_size(s.relid) AS bytes
                           FROM pg_stat_all_tables s JOIN pg_class c ON c.oid = s.relid WHERE s.schemaname = 'appendable_store'
                               AND s.relname <> 'stores' AND c.relkind = 'r'
                           ORDER BY bytes DESC""",
    )
    for row in stores:
        dead = row["n_dead_tup"] / max(row["n_dead_tup"] + row["n_live_tup"], 1)
        if dead > 0.5 and row["bytes"] > DEAD_STORE:
            yield Finding(
                "warning",
                f"store {row['relname']}: {dead:.0%} of {row['bytes'] >> 20:,} MB are dead chunks",
                f"VACUUM appendable_store.{row['relname']}; and see what holds old rows (below)",
            )
    if stores:
        yield Finding(
            "ok",
            f"{len(stores)} stores, {sum(row['bytes'] for row in stores) >> 20:,} MB; whether each value is whole is seen by SELECT * FROM "
            f"{schema}.appendable_bytea_check();",
        )
    for row in rows(conn, """SELECT c.oid::regclass::text AS name, s.n_tup_upd, s.n_tup_hot_upd
                             FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_stat_all_tables s ON s.relid = c.oid
                             WHERE a.amname = 'appendable_heap' AND s.n_tup_upd >= %s::bigint AND s.n_tup_hot_upd < 0.8 * s.n_tup_upd""", MANY_UPDATES):
        yield Finding(
            "note",
            f"only {row['n_tup_hot_upd'] / row['n_tup_upd']:.0%} of the {row['n_tup_upd']:,} updates of {row['name']} found room in their row's page",
            f"ALTER TABLE {row['name']} SET (fillfactor = 50); and no index on columns that appends change",
        )


@check("what holds old rows")
def old_rows(conn: psycopg.Connection) -> Iterator[Finding]:
    if rows(conn, "SHOW autovacuum")[0]["autovacuum"] == "off":
        yield Finding("warning", "autovacuum is off: dead rows and chunks are never freed", "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();")
    for row in rows(
        conn,
        """SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::bigint AS seconds, state FROM pg_stat_activity
                             WHERE backend_xmin IS NOT NULL AND xact_start < clock_timestamp() - make_interval(secs => %s::float8)
                                 AND backend_type <> 'walsender' ORDER BY xact_start LIMIT 5""",
        OLD_TRANSACTION,
    ):
        yield Finding(
            "warning",
            f"process {row['pid']} ({row['state']}) has had a transaction open for {row['seconds'] // 60:,} minutes",
            f"SELECT pg_terminate_backend({row['pid']});",
        )
    for row in rows(
        conn,
        "SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::bigint AS seconds FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - "
        "make_interval(secs => %s::float8) LIMIT 5",
        OLD_TRANSACTION,
    ):
        yield Finding("warning", f"transaction {row['gid']!r} has been prepared for {row['seconds'] // 60:,} minutes", "COMMIT PREPARED or ROLLBACK PREPARED")
    for row in rows(
        conn,
        """SELECT slot_name, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
            restart_lsn)::bigint AS bytes
                             FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL""",
    ):
        if row["bytes"] >= KEPT_WAL:
            yield Finding(
                "warning",
                f"replication slot {row['slot_name']} is not in use and keeps {row['bytes'] >> 20:,} MB of WAL, and old rows of the catalogs",
                f"SELECT pg_drop_replication_slot('{row['slot_name']}');",
            )


@check("who waits for whom")
def waiting(conn: psycopg.Connection) -> Iterator[Finding]:
    for row in rows(conn, """SELECT w.pid, w.seconds, b.pid AS blocker, coalesce(b.state, b.backend_type) AS state
                             FROM (SELECT pid, max(extract(epoch FROM clock_timestamp() - waitstart))::bigint AS seconds, pg_blocking_pids(pid) AS blockers
                                   FROM pg_locks WHERE NOT granted GROUP BY pid) w
                             JOIN pg_stat_activity b ON b.pid = ANY(w.blockers) ORDER BY w.seconds DESC NULLS LAST, w.pid, b.pid LIMIT 10"""):
        seconds = row["seconds"] or 0
        yield Finding(
            "warning" if seconds >= LONG_WAIT else "note",
            f"process {row['pid']} has waited {seconds:,} s for a lock of process {row['blocker']} ({row['state'] or 'its state is not visible to you'})",
            f"pg-lean top shows both; SELECT pg_cancel_backend({row['blocker']}); ends a statement, pg_terminate_backend({row['blocker']}) an open transaction",
        )


@check("left by the lab")
def leftovers(conn: psycopg.Connection) -> Iterator[Finding]:
    busy = rows(conn, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'pg-lean' AND pid <> pg_backend_pid()")
    for row in rows(conn, r"SELECT nspname FROM pg_namespace WHERE nspname ~ '^lean_lab_[0-9a-f]{8}$'"):
        yield Finding(
            "ok" if busy else "note",
            f"schema {row['nspname']} is the lab's" + (", which seems to run now" if busy else ", and the lab is not running"),
            "" if busy else f"DROP SCHEMA {row['nspname']} CASCADE;",
        )
