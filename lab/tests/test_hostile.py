"""A superuser's commands on a server where another role has schema public, in which the extensions are, too."""

import json
import threading

import psycopg
import pytest

from hostile import Hostile
from pg_lean.cluster import LIBRARIES, Cluster, UserServer
from pg_lean.demo import ORDER

SAFE = "-c search_path=pg_catalog"

TABLES = """
CREATE SCHEMA app;
CREATE TABLE app.sale AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 50000) g;
CREATE TABLE app.log (id int PRIMARY KEY, log public.appendable_text, data public.appendable_bytea);
INSERT INTO app.log SELECT 1, repeat('line' || chr(10), 1000), convert_to(repeat('x', 50000), 'UTF8');
CREATE TRIGGER tell AFTER UPDATE OF log ON app.log FOR EACH ROW EXECUTE FUNCTION public.appendable_notify('told', 'id');
"""


@pytest.fixture(scope="module")
def server():
    cluster = Cluster(
        name="test",
        preload=["light_explain", "parallel_temp", "appendable_bytea", "ram_tablespace"],
        settings={"compute_query_id": "on", "light_explain.profile": "on", "max_worker_processes": "16"},
    )
    if not all(map(cluster.has_library, LIBRARIES)):
        pytest.skip("the extensions are not installed for this server (make install)")
    with cluster:
        with connect(cluster) as conn:
            conn.execute(TABLES)
        yield cluster


@pytest.fixture(scope="module")
def objects(server):
    return Hostile(server)


@pytest.fixture(autouse=True)
def none_is_called(objects):
    yield
    objects.check()


def connect(server):
    return psycopg.connect(server.conninfo, autocommit=True, options=SAFE)


def test_the_objects_are_found_by_a_careless_session(server, objects):
    """What the lab's sessions looked like: public on their path, numbers without casts."""
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        for query, parameters in (
            ("SELECT make_interval(secs => %s)", (60,)),
            ("SELECT 0.5::pg_catalog.float8 / 2::bigint", None),
            ("SELECT 1 FROM pg_stat_activity", None),
            ("SELECT %s & 16", (17,)),
            ("SELECT 'sale'::name = 'sale'::text", None),
            ("SELECT 5::int8::float8", None),
        ):
            conn.execute(query, parameters)
            assert objects.called(), query
        with connect(server) as admin:
            admin.execute("SET search_path = pg_catalog; SELECT rolsuper FROM pg_roles WHERE rolname = 'bob'")
            assert admin.execute("SELECT rolsuper FROM pg_roles WHERE rolname = 'bob'").fetchone()[
                0
            ], "a session of a superuser gave it"
            admin.execute("ALTER ROLE bob NOSUPERUSER")
    objects.called()


def test_top_with_an_index_a_lock_and_a_plan(server, pg_lean):
    with connect(server) as owner, connect(server) as blocked, connect(server) as busy:
        owner.execute("BEGIN; LOCK TABLE app.log")
        pids = {blocked.info.backend_pid, busy.info.backend_pid}
        threads = [
            threading.Thread(target=run, args=args)
            for args in (
                (blocked, "SELECT count(*) FROM app.log"),
                (busy, "SELECT count(*) FROM app.sale WHERE pg_sleep(0.001) IS NOT NULL"),
            )
        ]
        for thread in threads:
            thread.start()
        done = pg_lean("top", "--once", "--json", "--dsn", server.conninfo)
        flame = pg_lean("flame", "--pid", str(busy.info.backend_pid), "--folded", "--dsn", server.conninfo)
        doctor = pg_lean("doctor", "--json", "--dsn", server.conninfo)
        owner.execute("ROLLBACK")
        with connect(server) as killer:
            killer.execute("SELECT pg_cancel_backend(%s)", (busy.info.backend_pid,))
        for thread in threads:
            thread.join()
    assert done.returncode == 0 and pids <= {entry["pid"] for entry in json.loads(done.stdout)}, (
        done.stdout + done.stderr
    )
    assert any(entry["blockers"] for entry in json.loads(done.stdout))
    assert flame.returncode == 0 and "Seq Scan on" in flame.stdout, flame.stderr
    assert doctor.returncode == 0 and not [
        entry for entry in json.loads(doctor.stdout) if entry["level"] == "error"
    ], doctor.stdout


def run(conn, statement):
    try:
        conn.execute(statement)
    except psycopg.errors.QueryCanceled:
        pass


def test_what_reads_the_profile(server, pg_lean):
    with connect(server) as conn:
        conn.execute("SELECT count(*) FROM app.sale WHERE k = 1 AND id % 10 = 1")
    for args in (
        ("flame", "--folded"),
        ("flame", "--folded", "--statement", "SELECT k, count(*) FROM app.sale GROUP BY k"),
        ("misestimates", "--json"),
    ):
        done = pg_lean(*args, "--dsn", server.conninfo)
        assert done.returncode == 0, done.stderr
        assert "sale" in done.stdout


def test_values(server, pg_lean):
    done = pg_lean("cat", "app.log", "data", "--where", "id = 1", "--slice", "20kB", "--dsn", server.conninfo)
    assert done.returncode == 0 and done.stdout == "x" * 50000, done.stderr
    from pg_lean.following import Follower

    pieces = Follower(UserServer(server.conninfo), "app.log", "log", "id = 1", start=-20, every=0.05).pieces()
    assert next(pieces) == b"line\n" * 4
    with connect(server) as conn:
        conn.execute("UPDATE app.log SET log = log || 'more'::text")
    assert next(pieces) == b"more"
    pieces.close()


@pytest.mark.parametrize("command", [("cat", "data"), ("follow", "log")])
def test_a_type_of_another_role_with_a_known_name(server, objects, pg_lean, command):
    """Its cast to the extension's type, and a function next to it, would run with the reader's privileges."""
    with connect(server) as conn:
        conn.execute("""CREATE SCHEMA trap AUTHORIZATION bob; SET ROLE bob;
            CREATE TYPE trap.appendable_bytea AS (a int);
            CREATE TYPE trap.appendable_text AS (a int);
            CREATE FUNCTION trap.reads(trap.appendable_bytea) RETURNS public.appendable_bytea LANGUAGE sql AS
                $$SELECT ''::pg_catalog.bytea::public.appendable_bytea WHERE public.hostile_read('cast')$$;
            CREATE CAST (trap.appendable_bytea AS public.appendable_bytea) WITH FUNCTION trap.reads AS IMPLICIT;
            CREATE FUNCTION trap.appendable_tail(trap.appendable_text, int8, int4, bool, OUT data text, OUT next_offset int8) LANGUAGE sql AS
                $$SELECT 'trapped', 7::int8 WHERE public.hostile_read('tail')$$;
            CREATE TABLE trap.t AS SELECT 1 AS id, row(1)::trap.appendable_bytea AS data, row(1)::trap.appendable_text AS log;
            RESET ROLE""")
        try:
            done = pg_lean(command[0], "trap.t", command[1], "--where", "id = 1", "--dsn", server.conninfo, timeout=60)
        finally:
            conn.execute("DROP SCHEMA trap CASCADE")
    assert done.returncode == 1 and "is of type appendable_" in done.stderr and not done.stdout
    objects.check()


def test_trace_by_counters(server, pg_lean):
    with connect(server) as conn:
        done = threading.Event()

        def work():
            while not done.wait(0.2):
                conn.execute(
                    "CREATE TEMP TABLE IF NOT EXISTS t (g int); INSERT INTO pg_temp.t SELECT generate_series(1, 1000)"
                )

        thread = threading.Thread(target=work)
        thread.start()
        told = pg_lean(
            "trace",
            str(conn.info.backend_pid),
            "--method",
            "counters",
            "--count",
            "1",
            "--dsn",
            server.conninfo,
            timeout=120,
        )
        done.set()
        thread.join()
    assert told.returncode == 0 and "INSERT INTO" in told.stdout, told.stdout + told.stderr


@pytest.mark.slow
def test_every_part_of_the_demo(server, pg_lean, tmp_path):
    done = pg_lean("demo", "--quick", "--scale", "1", "--iterations", "1", "--dsn", server.conninfo, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ORDER:
        result = json.loads((tmp_path / "demo" / name / "quick" / "result.json").read_text())
        assert not result["unavailable"] and not result["failed"], f"{name}: {result['unavailable']}{result['failed']}"
