"""The private server: who runs it, where it listens, and that it never outlives the lab."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from conftest import processes_below
from pg_lean.cluster import Cluster, UserServer
from pg_lean.errors import LabError, Unavailable
from pg_lean.measure import check_result, describe_machine, memory_peak, timed

HOLD = """
import sys, time
from pg_lean.cluster import Cluster, exit_on_signals
exit_on_signals()
with Cluster(name="test") as cluster:
    conn = cluster.connect()
    print(cluster.home, cluster.sockets, flush=True)
    {action}
"""


def hold(action):
    """Start a separate lab that runs a server; returns the process and the server's two folders."""
    # A shell's background job has Ctrl-C switched off, and what it starts inherits that.
    process = subprocess.Popen([sys.executable, "-c", HOLD.format(action=action)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    home, sockets = process.stdout.readline().split()
    return process, Path(home), Path(sockets)


def gone(home):
    """Wait for every process of that server to end."""
    deadline = time.monotonic() + 60
    while processes_below(home) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not processes_below(home)


def test_server_is_private(stock):
    assert stock.data.stat().st_uid == (os.getuid() or stock.user.pw_uid)
    assert stock.data.stat().st_uid != 0
    assert stock.sockets.stat().st_mode & 0o077 == 0
    with stock.connect() as conn:
        assert conn.execute("SHOW listen_addresses").fetchone()[0] == ""
        assert conn.execute("SHOW data_checksums").fetchone()[0] == "on"
    inodes = {line.split()[9] for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]}
    held = {os.readlink(fd)[8:-1] for fd in Path(f"/proc/{stock.process.pid}/fd").iterdir() if os.readlink(fd).startswith("socket:")}
    assert not inodes & held


def test_a_session_begins_in_the_labs_schema_with_the_settings_asked_for(stock):
    with stock.connect(temp_buffers=1000, jit=False, search_path=f"{stock.schema}") as conn:
        assert conn.execute("SHOW temp_buffers").fetchone()[0] == "8000kB"
        assert conn.execute("SHOW jit").fetchone()[0] == "off"
        assert conn.execute("SELECT current_schema()").fetchone()[0] == stock.schema


def test_the_users_environment_does_not_reach_the_server(stock, monkeypatch):
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=1MB")
    assert stock.run("psql", "-Atc", "SHOW work_mem").stdout.strip() == "4MB"


PG_VARIABLES = {"PGHOST": "/nowhere", "PGPORT": "9999", "PGSERVICE": "nothing", "PGOPTIONS": "-c work_mem=1MB", "PGUSER": "nobody", "PGDATABASE": "nothing",
                "PGSSLMODE": "require", "PGTARGETSESSIONATTRS": "standby"}


def test_no_pg_variable_reaches_a_private_server(monkeypatch):
    for name, value in PG_VARIABLES.items():
        monkeypatch.setenv(name, value)
    with Cluster(name="test") as cluster, cluster.connect() as conn:
        assert conn.execute("SELECT current_setting('work_mem'), current_setting('port'), current_user::text").fetchone() == ("4MB", "5432", "postgres")
        assert cluster.run("psql", "-Atc", "SELECT current_setting('work_mem')").stdout.strip() == "4MB"
    assert {name: os.environ[name] for name in PG_VARIABLES} == PG_VARIABLES


def test_pg_variables_are_honoured_on_the_users_server(stock, monkeypatch):
    for name, value in {"PGHOST": str(stock.sockets), "PGPORT": "5432", "PGUSER": "postgres", "PGDATABASE": "postgres", "PGOPTIONS": "-c work_mem=1MB"}.items():
        monkeypatch.setenv(name, value)
    with UserServer("application_name=x") as server, server.connect() as conn:
        assert conn.execute("SHOW work_mem").fetchone()[0] == "1MB"


def test_memory_wal_and_machine_can_be_seen(stock):
    with stock.connect() as conn:
        assert stock.backend_is_local(conn)
        assert memory_peak(conn.info.backend_pid) > 1 << 20
        sample = timed(conn, "CREATE TABLE seen AS SELECT generate_series(1, 1000)", wal=True)
        assert sample["ms"] > 0 and sample["wal_bytes"] > 30_000
        facts = describe_machine(conn, stock.data)
    assert facts["server"].startswith("PostgreSQL") and facts["memory_bytes"] > 0 and facts["filesystem"] != "unknown"
    assert facts["settings"]["autovacuum_naptime"] == "1h" and facts["data_checksums"] == "on"


def test_restart_configure_and_crash_keep_the_data():
    with Cluster(name="test") as cluster:
        home = cluster.home
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE kept AS SELECT 7 AS a")
        cluster.stop("immediate")
        assert gone(home)
        cluster.configure(settings={"work_mem": "5MB", "track_io_timing": True})
        with cluster.connect() as conn:
            assert conn.execute("SELECT a, current_setting('work_mem'), current_setting('track_io_timing') FROM kept").fetchone() \
                == (7, "5MB", "on")
        with pytest.raises(Unavailable, match="no_such_library"):
            cluster.configure(preload=["no_such_library"])
    assert gone(home) and not home.exists()
    cluster.close()  # a second time is nothing


def test_a_server_that_does_not_start_says_why_and_leaves_nothing():
    cluster = Cluster(name="test", settings={"max_connections": "many"})
    with pytest.raises(LabError, match="max_connections"):
        cluster.start()
    assert cluster.home is None and cluster.sockets is None and cluster.process is None


def test_no_server_programs():
    with pytest.raises(LabError, match="no PostgreSQL server") as error:
        Cluster("/no/such/pg_config")
    assert "PG_CONFIG" in error.value.hint


def test_an_exception_stops_the_server():
    process, home, sockets = hold("raise ValueError('measuring failed')")
    assert process.wait(90) != 0
    assert gone(home) and not home.exists() and not sockets.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server(number):
    process, home, sockets = hold("time.sleep(60)")
    process.send_signal(number)
    assert process.wait(90) != 0
    assert gone(home) and not home.exists() and not sockets.exists()


def test_even_a_killed_lab_leaves_no_server_and_the_next_one_cleans_up():
    process, home, sockets = hold("time.sleep(60)")
    process.kill()
    process.wait(90)
    assert gone(home)
    with Cluster(name="test"):
        assert not home.exists() and not sockets.exists()


def test_the_users_server_is_left_as_it_was(stock):
    objects = "SELECT count(*) FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg\\_%')"
    with stock.connect() as conn:
        before = conn.execute(objects).fetchone()
        schemas = conn.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lean\\_lab%'").fetchone()
        with UserServer(stock.conninfo) as server:
            server.make_schema()
            assert server.schema != stock.schema
            with server.connect() as mine:
                mine.execute("CREATE TABLE t AS SELECT 1 AS a")
                assert mine.execute("SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = 't'::regclass").fetchone()[0] \
                    == server.schema
        assert conn.execute(objects).fetchone() == before
        assert conn.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lean\\_lab%'").fetchone() == schemas


def test_the_users_server_without_the_extension(stock):
    with UserServer(stock.conninfo) as server, pytest.raises(Unavailable, match="parallel_temp") as error:
        server.configure(preload=["parallel_temp"])
    assert "CREATE EXTENSION" in error.value.hint


def test_a_library_that_is_not_preloaded_is_loaded_in_each_session(lean):
    lean.configure()  # the extension stays, its library is no longer preloaded
    try:
        with UserServer(lean.conninfo) as server:
            server.configure(preload=["parallel_temp"])
            with server.connect() as conn:
                conn.execute("SELECT current_setting('parallel_temp.debug_flush_method')")
    finally:
        lean.configure(preload=["parallel_temp"])


def test_a_role_without_rights_gets_a_clear_error(stock):
    with stock.connect() as conn:
        conn.execute("CREATE ROLE nobody_much LOGIN")
    with UserServer(stock.conninfo.replace("user=postgres", "user=nobody_much")) as server:
        with pytest.raises(LabError, match="schema") as error:
            server.make_schema()
        assert "Grant CREATE" in error.value.hint


def test_options_are_there_when_the_session_starts(stock):
    with stock.connect("-c session_preload_libraries=auto_explain", jit=False) as conn:
        assert conn.execute("SELECT current_setting('auto_explain.log_min_duration'), current_setting('jit')").fetchone() == ("-1", "off")


def test_a_statement_that_libpq_ran_itself_raises_its_error(stock):
    with stock.connect() as conn:
        check_result(conn.pgconn.exec_(b"SELECT 1"))
        with pytest.raises(LabError, match="division by zero"):
            check_result(conn.pgconn.exec_(b"SELECT 1/0"))


@pytest.mark.parametrize("dsn", ["mydb", "host=x frobnicate=y", "postgresql://[::1"])
def test_a_malformed_connection_string(dsn):
    with pytest.raises(LabError, match="not a connection string") as error:
        UserServer(dsn)
    assert "--dsn 'host=" in error.value.hint


def test_a_library_without_an_extension_is_loaded_and_no_extension_asked_for(stock):
    with UserServer(stock.conninfo) as server:
        server.configure(preload=["auto_explain"], settings={"auto_explain.log_min_duration": "1h"})
        with server.connect() as conn:
            assert conn.execute("SHOW auto_explain.log_min_duration").fetchone()[0] == "1h"


def test_a_server_that_died_is_started_again_for_the_next_part():
    with Cluster(name="test") as cluster:
        cluster.process.send_signal(signal.SIGQUIT)
        cluster.process.wait(60)
        cluster.configure()
        with cluster.connect() as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)


def test_connecting_to_nothing():
    with pytest.raises(LabError, match="cannot connect") as error:
        UserServer("host=/nowhere dbname=x")
    assert "--dsn" in error.value.hint


def test_settings_of_the_users_server_are_the_sessions_only(stock):
    with UserServer(stock.conninfo) as server:
        server.configure(settings={"work_mem": "7MB", "shared_buffers": "1GB"})
        with server.connect() as conn:
            assert conn.execute("SHOW work_mem").fetchone()[0] == "7MB"
            assert conn.execute("SHOW shared_buffers").fetchone()[0] == "128MB"
    with stock.connect() as conn:
        assert conn.execute("SHOW work_mem").fetchone()[0] == "4MB"


def test_a_setting_that_is_not_allowed_is_reported(stock):
    with pytest.raises(psycopg.Error), stock.connect(work_mem="much"):
        pass
