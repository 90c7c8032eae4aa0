"""pg-lean doctor: finds what was planted, and nothing on a server that is well."""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from conftest import hostile
from pg_lean import doctor
from pg_lean.cluster import LIBRARIES, Cluster, UserServer


@pytest.fixture(scope="module")
def server():
    """A private server with every library preloaded as the front page advises."""
    cluster = Cluster(
        name="test",
        preload=["light_explain", "parallel_temp", "appendable_bytea", "ram_tablespace"],
        settings={"compute_query_id": "on", "max_prepared_transactions": "2", "light_explain.progress_nodes": "4", "light_explain.profile_max": "200"},
        extension_schema="work",
    )
    if not all(map(cluster.has_library, LIBRARIES)):
        pytest.skip("the extensions are not installed for this server (make install)")
    with hostile(cluster):
        yield cluster


@pytest.fixture
def found(server):
    """Findings of now, by level."""
    def look(level=None, role=None):
        with server.connect() as conn:
            if role:
                conn.execute(f"SET ROLE {role}")
            return [finding for finding in doctor.examine(conn) if level in (None, finding.level)]
    return look


def says(findings, *words):
    return [finding for finding in findings if all(word in f"{finding.what} {finding.do}" for word in words)]


def test_a_server_that_is_well_has_notes_at_most(found, server, pg_lean):
    assert doctor.status(found()) == 0, [finding for finding in found() if finding.level not in ("ok", "note")]
    done = pg_lean("doctor", "--dsn", server.conninfo, "--json")
    assert done.returncode == 0 and {entry["check"] for entry in json.loads(done.stdout)} == set(doctor.CHECKS)
    done = pg_lean("doctor", "--dsn", server.conninfo)
    assert "0 error, 0 warning" in done.stdout and "calibrate" in done.stdout


def test_every_statement_of_it_works_on_a_stock_server(stock):
    with stock.connect() as conn:
        findings = doctor.examine(conn)
    assert not [finding for finding in findings if finding.level in ("error", "warning")], findings


def test_wrong_settings_are_found(found, server):
    with server.connect() as conn:
        conn.execute("ALTER DATABASE postgres SET parallel_temp.debug_force = on")
        conn.execute("ALTER DATABASE postgres SET max_parallel_workers_per_gather = 0")
        conn.execute("ALTER DATABASE postgres SET light_explain.timing = 'system'")
        try:
            bad = found("warning")
            assert says(bad, "parallel_temp.debug_force = on") and says(bad, "max_parallel_workers_per_gather is 0")
            assert says(found("note"), "light_explain.timing = system")
        finally:
            conn.execute("ALTER DATABASE postgres RESET ALL")
    assert not says(found(), "parallel_temp.debug_force")


def test_old_versions_and_missing_extensions_are_found(found, server):
    with server.connect() as conn, conn.transaction(force_rollback=True):
        conn.execute("UPDATE pg_extension SET extversion = '0.1' WHERE extname = 'parallel_temp'")
        conn.execute("DROP EXTENSION ram_tablespace")
        findings = doctor.examine(conn)
        assert says(findings, "0.9", "ALTER EXTENSION parallel_temp UPDATE;") and says(findings, "CREATE EXTENSION ram_tablespace;")


def test_tables_whose_appends_find_no_room_are_found(found, server):
    with server.connect() as conn:
        conn.execute("CREATE TABLE work.logs (id int, n int, data appendable_bytea)")
        conn.execute("CREATE INDEX ON work.logs (n)")
        conn.execute("INSERT INTO work.logs SELECT g, 0, repeat('x', 20000)::bytea FROM generate_series(1, 20) g")
        conn.execute("DO $$ BEGIN FOR i IN 1 .. 60 LOOP UPDATE work.logs SET n = i, data = data || 'x'; END LOOP; END $$")
        conn.execute("SELECT pg_stat_force_next_flush()")
        conn.execute("SELECT 1")
        try:
            assert says(found("ok"), "1 stores")
            assert says(found("note"), "only 0%", "logs", "fillfactor")
        finally:
            conn.execute("DROP TABLE work.logs")


def test_dead_chunks_of_a_store_are_found(found, server, monkeypatch):
    monkeypatch.setattr(doctor, "DEAD_STORE", 0)
    with server.connect() as conn:
        conn.execute("CREATE TABLE work.dead (id int, data appendable_bytea)")
        conn.execute("INSERT INTO work.dead SELECT g, repeat('x', 20000)::bytea FROM generate_series(1, 50) g")
        assert not says(found("warning"), "dead chunks")
        conn.execute("DELETE FROM work.dead")
        conn.execute("SELECT pg_stat_force_next_flush()")
        conn.execute("SELECT 1")
        try:
            assert says(found("warning"), "dead chunks", "VACUUM appendable_store.")
        finally:
            conn.execute("DROP TABLE work.dead")


def test_a_library_that_was_built_anew_is_found(found, server):
    """The running server still has the old one."""
    file = server.outside(server.pkglibdir) / "appendable_bytea.so"
    before = file.stat()
    assert says(found("ok"), "older than the server's start")
    try:
        os.utime(file, (time.time(), time.time() + 5))
        assert says(found("warning"), "appendable_bytea is newer than the running server")
    except PermissionError:
        pytest.skip("the library belongs to another user")
    finally:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with server.connect() as conn:
        conn.execute("CREATE ROLE watcher")
        conn.execute("GRANT pg_monitor TO watcher")
        try:
            assert [finding for finding in found("note", role="watcher") if finding.check == "library files" and finding.what.startswith("not seen")], (
                "never taken to be well"
            )
        finally:
            conn.execute("DROP ROLE watcher")


def test_slots_memory_and_clock_are_told(found):
    ok = says(found("ok"), "slots; profile:", "MB of shared memory", "clock:")
    assert ok and ok[0].check == "instrumentation"


def test_a_slow_clock_is_told():
    assert not list(doctor.slow_clock("tsc", io_timing=True))
    assert [finding.what.split()[0] for finding in doctor.slow_clock("system", io_timing=False)] == ["light_explain"]
    assert says(doctor.slow_clock("system", io_timing=True), "track_io_timing is on")


@pytest.fixture(scope="module")
def sick():
    """A private server on which much is wrong."""
    cluster = Cluster(
        name="sick",
        preload=["parallel_temp", "light_explain", "ram_tablespace"],
        settings={
            "autovacuum": "off",
            "temp_buffers": "1MB",
            "light_explain.profile": "on",
            "light_explain.profile_max": "100",
            "light_explain.progress_statements": "1",
            "compute_query_id": "off",
            "max_prepared_transactions": "2",
        },
        extension_schema="work",
    )
    if not all(map(cluster.has_library, LIBRARIES)):
        pytest.skip("the extensions are not installed for this server (make install)")
    with hostile(cluster):
        yield cluster


def test_what_holds_old_rows_is_found(sick, monkeypatch):
    for name in ("OLD_TRANSACTION", "KEPT_WAL"):
        monkeypatch.setattr(doctor, name, 0)
    with sick.connect() as conn, sick.connect() as old, sick.connect() as looker:
        conn.execute("CREATE TABLE work.t (a int)")
        conn.execute("SELECT pg_create_physical_replication_slot('forgotten', true)")
        conn.execute("BEGIN")
        conn.execute("INSERT INTO work.t VALUES (1)")
        conn.execute("PREPARE TRANSACTION 'left behind'")
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM work.t")
        try:
            bad = [finding for finding in doctor.examine(looker) if finding.level == "warning"]
            assert says(bad, f"process {old.info.backend_pid} (idle in transaction)", "pg_terminate_backend")
            assert says(bad, "'left behind' has been prepared", "ROLLBACK PREPARED") and says(bad, "autovacuum is off")
            assert says(bad, "slot forgotten is not in use", "pg_drop_replication_slot('forgotten')")
        finally:
            old.execute("ROLLBACK")
            conn.execute("ROLLBACK PREPARED 'left behind'")
            conn.execute("SELECT pg_drop_replication_slot('forgotten')")
            conn.execute("DROP TABLE work.t")


def test_temporary_tables_beyond_their_buffers_are_found(sick):
    with sick.connect() as conn, sick.connect() as looker:
        conn.execute("CREATE TEMP TABLE much AS SELECT g, repeat('x', 100) FROM generate_series(1, 50000) g")
        assert says(doctor.examine(looker), "of temporary tables on disk, and temp_buffers is 1 MB", "SET temp_buffers")


def test_order_room_and_identifiers_are_looked_at(sick, monkeypatch):
    with sick.connect() as conn:
        conn.execute("SELECT count(*) FROM generate_series(1, 1000)")
        findings = doctor.examine(conn)
        assert says(findings, "light_explain is loaded after parallel_temp", "Put it first")
        assert [finding.level for finding in says(findings, "statements have no query identifier", "compute_query_id = on")] == ["warning"]
        conn.execute("SET compute_query_id = on")
        findings = doctor.examine(conn)
        assert not says(findings, "statements have no query identifier"), "what was wrong is no warning for ever"
        assert [finding.level for finding in says(findings, "since the server started had no query identifier")] == ["note"]
        for n in range(1, conn.execute("SELECT profile_max_nodes FROM light_explain_status()").fetchone()["profile_max_nodes"] + 200):
            conn.execute(f"SELECT {', '.join(['1'] * (n % 300 + 1))}" + f" WHERE {' AND '.join(['1 = 1'] * (n // 300 + 1))}")
        assert says(doctor.examine(conn), "the profile dropped", "light_explain.profile_max")
        monkeypatch.setattr(doctor, "preloaded", lambda conn: ["light_explain", "parallel_temp", "plprofiler"])
        findings = doctor.examine(conn)
        assert says(findings, "plprofiler comes after a library of pg_lean") and says(findings, "ram_tablespace is not preloaded")
        monkeypatch.setattr(doctor, "preloaded", lambda conn: [])
        assert says(doctor.examine(conn), "light_explain is not preloaded")


def test_statements_without_a_slot_are_told(sick):
    """There is one slot, which this session's own statement takes while it is looked at."""
    with sick.connect() as conn, sick.connect() as looker:
        before = looker.execute("SELECT progress_refused_full + progress_refused_role FROM light_explain_status()").fetchone()[0]
        conn.execute("BEGIN")
        conn.execute("DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 100000) g")
        conn.execute("FETCH 10000 FROM c")
        looker.execute("SELECT count(*) FROM generate_series(1, 10000)")
        after = looker.execute("SELECT progress_refused_full + progress_refused_role FROM light_explain_status()").fetchone()[0]
        findings = doctor.examine(looker)
        conn.execute("ROLLBACK")
    assert after > before and says(findings, "statements were not visible while they ran", "progress_statements")
    assert says(findings, "1 of 1 slots for progress are taken")


def test_a_ram_tablespace_without_its_directory_is_found(sick):
    folder = Path(tempfile.mkdtemp(prefix="lean_doctor_", dir="/dev/shm"))
    try:
        if sick.user:
            os.chown(folder, sick.user.pw_uid, sick.user.pw_gid)
        with sick.connect() as conn:
            conn.execute(f"CALL ram_tablespace_create('ram', '{folder}')")
            assert not [finding for finding in doctor.examine(conn) if finding.check == "RAM tablespaces" and "missing" in finding.what]
            location = conn.execute("SELECT location FROM ram_tablespaces()").fetchone()["location"]
            shutil.rmtree(location)
            found = [finding for finding in doctor.examine(conn) if finding.check == "RAM tablespaces"]
            assert says(found, "directory is missing", "restart the server") and doctor.status(found) == 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_statements_that_got_no_slot_are_counted(found, server):
    with server.connect() as conn:
        conn.execute(
            "EXPLAIN ANALYZE SELECT count(*) FROM (SELECT a FROM generate_series(1, 10) a JOIN pg_get_keywords() b ON a = length(b.word) ORDER BY 1 LIMIT 5) s"
        )
    assert says(found("note"), "too many nodes", "light_explain.progress_nodes")


def test_the_labs_leftovers_are_found_unless_it_runs(found, server):
    with server.connect() as conn:
        conn.execute("CREATE SCHEMA lean_lab_0123abcd")
        assert not says(found("note"), "lean_lab_0123abcd"), "this session is one of the lab's"
        conn.execute("SET application_name = 'another'")
        assert says(found("note"), "DROP SCHEMA lean_lab_0123abcd CASCADE;")
        conn.execute("DROP SCHEMA lean_lab_0123abcd")


def test_a_role_without_rights_is_told_what_it_cannot_see(found, server):
    with server.connect() as conn:
        conn.execute("CREATE ROLE plain")
        assert not [finding for finding in found("error", role="plain")]
        conn.execute("DROP ROLE plain")


def test_functions_of_others_are_not_run(stock):
    """Who may create in public does not stand before an extension."""
    with stock.connect() as conn, UserServer(stock.conninfo).connect() as other:
        conn.execute(
            "CREATE FUNCTION public.ram_tablespace_check(OUT name text, OUT problem text, OUT remedy text) LANGUAGE plpgsql AS $$BEGIN RAISE 'a stranger "
            "ran'; END$$"
        )
        try:
            assert not says(doctor.examine(other), "a stranger ran")
        finally:
            conn.execute("DROP FUNCTION public.ram_tablespace_check()")


def test_statuses_are_for_monitoring():
    def status(*levels):
        return doctor.status([doctor.Finding(level, "") for level in levels])
    assert [status(), status("ok", "note"), status("note", "warning"), status("error", "ok")] == [0, 0, 1, 2]


def test_a_server_that_is_not_there(pg_lean):
    done = pg_lean("doctor", "--dsn", "host=/nonexistent")
    assert done.returncode == 1 and "cannot connect" in done.stderr


def test_one_check_that_fails_hides_no_other(server, monkeypatch):
    def fails(conn):
        conn.execute("SELECT 1/0")
        yield
    monkeypatch.setitem(doctor.CHECKS, "extensions", fails)
    with server.connect() as conn:
        findings = doctor.examine(conn)
    assert says(findings, "division by zero") and {finding.check for finding in findings} == set(doctor.CHECKS)
    with pytest.raises(psycopg.OperationalError), server.connect() as conn, server.connect() as other:
        monkeypatch.setitem(
            doctor.CHECKS,
            "extensions",
            lambda conn: other.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,)) and conn.execute("SELECT 1").fetchall(),
        )
        doctor.examine(conn)
