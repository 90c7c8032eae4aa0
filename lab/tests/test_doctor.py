"""pg-lean doctor: finds what was planted, and nothing on a server that is well."""

import json

import psycopg
import pytest

from pg_lean import doctor
from pg_lean.cluster import LIBRARIES, Cluster


@pytest.fixture(scope="module")
def server():
    """A private server with every library preloaded as the front page advises."""
    cluster = Cluster(name="test", preload=["light_explain", "parallel_temp", "appendable_bytea", "ram_tablespace"],
                      settings={"compute_query_id": "on", "max_prepared_transactions": "2", "light_explain.progress_nodes": "4", "light_explain.profile_max": "200"})
    if not all(map(cluster.has_library, LIBRARIES)):
        pytest.skip("the extensions are not installed for this server (make install)")
    with cluster:
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
        conn.execute("ALTER DATABASE postgres SET parallel_temp.force = on")
        conn.execute("ALTER DATABASE postgres SET max_parallel_workers_per_gather = 0")
        conn.execute("ALTER DATABASE postgres SET light_explain.timing = 'ordered'")
        try:
            bad = found("warning")
            assert says(bad, "parallel_temp.force = on") and says(bad, "max_parallel_workers_per_gather is 0")
            assert says(found("note"), "light_explain.timing = ordered")
        finally:
            conn.execute("ALTER DATABASE postgres RESET ALL")
    assert not says(found(), "parallel_temp.force")


def test_old_versions_and_missing_extensions_are_found(found, server):
    with server.connect() as conn, conn.transaction(force_rollback=True):
        conn.execute("UPDATE pg_extension SET extversion = '0.9' WHERE extname = 'parallel_temp'")
        conn.execute("DROP EXTENSION ram_tablespace")
        findings = doctor.examine(conn)
        assert says(findings, "0.9", "ALTER EXTENSION parallel_temp UPDATE;") and says(findings, "CREATE EXTENSION ram_tablespace;")


def test_tables_whose_appends_find_no_room_are_found(found, server):
    with server.connect() as conn:
        conn.execute("CREATE TABLE public.logs (id int, n int, data appendable_bytea)")
        conn.execute("CREATE INDEX ON public.logs (n)")
        conn.execute("INSERT INTO public.logs SELECT g, 0, repeat('x', 20000)::bytea FROM generate_series(1, 20) g")
        conn.execute("DO $$ BEGIN FOR i IN 1 .. 60 LOOP UPDATE public.logs SET n = i, data = data || 'x'; END LOOP; END $$")
        conn.execute("SELECT pg_stat_force_next_flush()")
        conn.execute("SELECT 1")
        try:
            assert says(found("ok"), "1 stores")
            assert says(found("note"), "only 0%", "logs", "fillfactor")
        finally:
            conn.execute("DROP TABLE public.logs")


def test_statements_that_got_no_slot_are_counted(found, server):
    with server.connect() as conn:
        conn.execute("EXPLAIN ANALYZE SELECT count(*) FROM (SELECT a FROM generate_series(1, 10) a JOIN generate_series(1, 10) b ON a = b ORDER BY 1 LIMIT 5) s")
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
    with stock.connect() as conn, stock.connect() as other:
        conn.execute("CREATE FUNCTION public.ram_tablespace_check(OUT name text, OUT problem text, OUT remedy text) LANGUAGE plpgsql AS $$BEGIN RAISE 'a stranger ran'; END$$")
        try:
            assert not says(doctor.examine(other), "a stranger ran")
            assert conn.execute("SHOW search_path").fetchone()[0].endswith("public")
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
        monkeypatch.setitem(doctor.CHECKS, "extensions", lambda conn: other.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,)) and conn.execute("SELECT 1").fetchall())
        doctor.examine(conn)
