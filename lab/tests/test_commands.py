"""The command as a user runs it: what it leaves behind, and what it says when something is wrong."""

import csv
import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import processes_below
from pg_lean import __version__, cli
from pg_lean.cluster import Cluster, UserServer
from pg_lean.commands import cat
from pg_lean.demo import ORDER, append
from pg_lean.paths import SERVER_DIR


def test_demo_end_to_end_on_a_private_server(lean, pg_lean, tmp_path):
    done = pg_lean("demo", "--quick", "--parts", "temp_buffers", "--scale", "1", "--iterations", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("one by one", "16,384", "report: file://", "cut:"):
        assert text in done.stdout
    result = json.loads((tmp_path / "demo" / "temp_buffers" / "quick" / "result.json").read_text())
    with open(tmp_path / "demo" / "temp_buffers" / "quick" / "raw.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 8 and {row["case"] for row in rows} >= {"128", "16384"}
    assert all(float(row["flush"]) > float(row["dry_flush_mean"]) for row in rows)
    assert result["machine"]["extensions"]["parallel_temp"]
    assert "Temporary buffers" in (tmp_path / "report" / "index.html").read_text()
    mine = [folder for folder in (SERVER_DIR / "cluster").iterdir() if folder.name.startswith("lab-")]
    assert not [folder for folder in mine if not processes_below(folder)], "a private server's files were left"


def test_every_other_part_of_the_demo_runs(lean, pg_lean, tmp_path):
    parts = [name for name in ORDER if name != "temp_buffers"]
    done = pg_lean("demo", "--quick", "--parts", ",".join(parts), "--scale", "1", "--iterations", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in parts:
        result = json.loads((tmp_path / "demo" / name / "quick" / "result.json").read_text())
        assert result["headlines"] and not result["unavailable"], f"{name}: {result['unavailable']}"
        assert result["summary"] and result["what"] and result["how"] and result["raw"], name
    assert "At a glance" in done.stdout and (tmp_path / "report" / "index.html").as_uri() in done.stdout
    stream = [row for row in json.loads((tmp_path / "demo" / "append" / "quick" / "result.json").read_text())["raw"] if row["case"] == "stream" and row["variant"] == "pg_lean"]
    assert 5000 <= stream[-1]["length"] / len(append.STATEMENT) < 6000, "a log of so many lines, however fast they were written"


def test_demo_on_the_users_server_leaves_the_users_tables_alone(lean, pg_lean):
    with lean.connect() as conn:
        conn.execute("CREATE TABLE public.pgbench_accounts AS SELECT 'mine' AS aid")
        before = conn.execute("SELECT count(*) FROM pg_class").fetchone()
        dsn = f"{lean.conninfo} options='-c search_path=public'"
        done = pg_lean("demo", "--quick", "--parts", "temp_buffers", "--scale", "1", "--iterations", "1", "--dsn", dsn)
        assert done.returncode == 0, done.stdout + done.stderr
        assert conn.execute("SELECT count(*) FROM pg_class").fetchone() == before
        assert conn.execute("SELECT * FROM public.pgbench_accounts").fetchall() == [("mine",)]
        conn.execute("DROP TABLE public.pgbench_accounts")


def test_demo_without_the_extension_says_so(stock, pg_lean, tmp_path):
    done = pg_lean("demo", "--quick", "--parts", "temp_buffers", "--dsn", stock.conninfo)
    assert done.returncode == 1
    assert 'extension "parallel_temp" is not installed' in done.stdout and "CREATE EXTENSION" in done.stdout
    assert "not installed" in (tmp_path / "report" / "index.html").read_text()


def test_flush_benchmark_compares_the_same_pages(lean, pg_lean, tmp_path):
    done = pg_lean("bench", "flush", "--quick", "--scale", "1", "--iterations", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "bench" / "flush" / "quick" / "raw.csv") as file:
        rows = list(csv.DictReader(file))
    assert {row["variant"] for row in rows} == {"one by one", "sorted", "pg_lean"}
    assert all(int(row["written"]) >= int(row["case"].split()[0]) for row in rows)


def test_calibrate_sets_the_database_only_when_asked(lean, pg_lean):
    settings = "SELECT setconfig FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = 'postgres')"
    with lean.connect() as conn:
        done = pg_lean("calibrate", "--quick", "--scale", "1", "--iterations", "1", "--dsn", lean.conninfo)
        assert done.returncode == 0 and "ALTER SYSTEM SET parallel_temp.flush_page_cost" in done.stdout, done.stdout + done.stderr
        assert conn.execute(settings).fetchone() is None
        done = pg_lean("calibrate", "--quick", "--scale", "1", "--iterations", "1", "--dsn", lean.conninfo, "--apply", "database")
        assert done.returncode == 0, done.stdout + done.stderr
        set_now = dict(item.split("=") for item in conn.execute(settings).fetchone()[0])
        conn.execute("ALTER DATABASE postgres RESET ALL")
    assert 0 < float(set_now["parallel_temp.flush_page_cost"]) < 1000
    assert 0 <= float(set_now["parallel_temp.scan_buffer_cost"]) < 1


def test_interrupting_keeps_the_rows_and_leaves_nothing(lean, tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "pg_lean", "bench", "flush", "--quick", "--scale", "1", "--iterations", "500"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**os.environ, "PG_LEAN_BUILD": str(tmp_path), "PG_LEAN_SERVER_DIR": str(SERVER_DIR)},
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    raw = tmp_path / "bench" / "flush" / "interrupted" / "raw.csv"
    # the second case has begun, so the first one has rows
    for line in process.stdout:
        if "read at random" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "interrupted" in err and "Traceback" not in err
    assert raw.read_text().count("\n") > 500 and not (tmp_path / "bench" / "flush" / "result.json").exists()
    assert not list((SERVER_DIR / "cluster").glob(f"*-{process.pid}-*"))


def test_an_interrupt_says_what_is_true_of_every_command(pg_lean_here, monkeypatch):
    """A command without a server of its own, such as trace, stops none."""
    def interrupted(**_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    status, _out, err = pg_lean_here("trace", "1")
    assert status == 130 and "interrupted" in err and "server is stopped" not in err and "Traceback" not in err


def test_a_benchmark_of_explain_leaves_the_users_tables_alone(pg_lean, tmp_path):
    cluster = Cluster(name="test", preload=["auto_explain", "light_explain"])
    if not cluster.has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    with cluster, cluster.connect() as conn:
        conn.execute("CREATE TABLE public.mine AS SELECT generate_series(1, 1000) AS a")
        before = conn.execute("SELECT count(*) FROM pg_class").fetchone()
        done = pg_lean("bench", "explain", "--quick", "--scale", "1", "--iterations", "1", "--dsn", cluster.conninfo, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        assert conn.execute("SELECT count(*) FROM pg_class").fetchone() == before
        assert conn.execute("SELECT pg_stat_force_next_flush(), last_vacuum, last_analyze FROM pg_stat_user_tables WHERE relname = 'mine'").fetchone()[1:] == (None, None)
        assert conn.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'lean_lab')").fetchall() == [(cluster.schema,)]
    assert json.loads((tmp_path / "bench" / "explain" / "quick" / "result.json").read_text())["checks"]


def test_the_benchmark_of_the_profile_measures_a_profile(pg_lean, tmp_path):
    if not Cluster().has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    done = pg_lean("bench", "profile", "--quick", "--iterations", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "bench" / "profile" / "quick" / "result.json").read_text())["raw"]
    assert {row["variant"] for row in rows} == {"off", "off again", "identifiers", "profile"} and len({row["case"] for row in rows}) == 11


def test_without_a_command_there_is_help_and_no_error(pg_lean_here):
    status, out, err = pg_lean_here()
    assert status == 0 and "Usage:" in out and "demo" in out and err == ""


def test_version(pg_lean_here):
    assert pg_lean_here("--version")[:2] == (0, f"pg-lean {__version__}\n")


def test_results_for_machines(lean, pg_lean):
    done = pg_lean("bench", "flush", "--quick", "--scale", "1", "--iterations", "1", "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["name"] == "flush" and result["blocks"] and "raw" not in result
    assert "report:" in done.stderr


def test_completion_knows_commands_and_names(pg_lean):
    for words, expected in (("pg-lean dem", "demo"), ("pg-lean bench app", "append"), ("pg-lean demo --parts fast", "fastload")):
        done = pg_lean(_PG_LEAN_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
        assert expected in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("args, message", [
    (("bench", "no_such"), 'no benchmark "no_such"'),
    (("demo", "--parts", "no_such"), 'no part "no_such"'),
    (("demo", "--dsn", "host=/nowhere dbname=x"), "cannot connect"),
    (("demo", "--dsn", "nonsense"), "no connection string"),
    (("bench", "flush", "--pg-config", "99"), "there is no server 99"),
    (("bench", "flush", "--pg-config", "/no/such"), "no PostgreSQL server"),
    (("calibrate", "--apply", "system"), "needs a server"),
    (("calibrate", "--apply", "everywhere", "--dsn", "x"), '--apply is "none"'),
    (("bench", "flush", "--iterations", "0"), "--iterations"),
    (("no-such-command",), "No such command"),
])
def test_errors_are_short_and_carry_no_traceback(pg_lean_here, args, message):
    status, _out, err = pg_lean_here(*args)
    assert status != 0 and message in err


def test_calibrate_refuses_before_measuring_when_rights_are_missing(stock, pg_lean_here):
    with stock.connect() as conn:
        conn.execute("CREATE ROLE not_the_owner LOGIN")
    dsn = stock.conninfo.replace("user=postgres", "user=not_the_owner")
    for apply in ("system", "database"):
        status, _out, err = pg_lean_here("calibrate", "--dsn", dsn, "--apply", apply)
        assert status == 1 and "needs" in err


@pytest.fixture(scope="module")
def values(stock):
    """A table with odd names: values of 300,000 bytes, a null and an empty one."""
    with stock.connect() as conn:
        conn.execute('CREATE TABLE public."Odd Name" (id int, data bytea, label text)')
        conn.execute("""INSERT INTO public."Odd Name" SELECT g, decode(repeat(lpad(to_hex(g), 2, '0') || '00ff', 100000), 'hex'), 'x'
                        FROM generate_series(1, 3) g""")
        conn.execute("""INSERT INTO public."Odd Name" VALUES (9, NULL, ''), (10, '', '')""")
    yield stock
    with stock.connect() as conn:
        conn.execute('DROP TABLE public."Odd Name"')


@pytest.mark.parametrize("slice, start", [("100kB", 0), ("1MB", 0), ("7", 299_900)])
def test_cat_writes_the_whole_value(pg_lean_here, values, tmp_path, slice, start):
    status, _out, err = pg_lean_here("cat", '"Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 2", "--slice", slice,
                                     "-o", str(tmp_path / "out"), "--start", str(start))
    assert status == 0, err
    assert (tmp_path / "out").read_bytes() == (b"\x02\x00\xff" * 100_000)[start:]


def test_cat_to_standard_output_and_of_an_empty_value(pg_lean, values):
    done = pg_lean("cat", 'public."Odd Name"', "label", "--dsn", values.conninfo, "--where", "id = 1")
    assert done.returncode == 1 and done.stdout == ""
    done = pg_lean("cat", 'public."Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 10")
    assert done.returncode == 0 and done.stdout == ""


def test_a_reader_that_has_enough_ends_cat_without_a_word(values):
    process = subprocess.Popen([sys.executable, "-m", "pg_lean", "cat", '"Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 2", "--slice", "1kB"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(10) == b"\x02\x00\xff\x02\x00\xff\x02\x00\xff\x02"
    process.stdout.close()
    assert process.wait(60) == 141 and process.stderr.read() == b""


def test_cat_of_an_appendable_value_that_grows_meanwhile(pg_lean_here, tmp_path):
    cluster = Cluster(name="test", preload=["appendable_bytea"])
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with cluster, cluster.connect() as conn:
        conn.execute("CREATE TABLE public.log (id int, data appendable_bytea)")
        conn.execute("INSERT INTO public.log VALUES (1, '')")
        expected = b""
        for number in range(40):
            chunk = bytes([number]) * 3000
            conn.execute("UPDATE public.log SET data = data || %b::bytea WHERE id = 1", (chunk,))
            expected += chunk
        with UserServer(cluster.conninfo).connect() as reader:
            pieces = cat.slices(reader, "public.log", "data", "id = 1", 10_000)
            found = next(pieces)
            conn.execute("UPDATE public.log SET data = data || '\\xff'::bytea WHERE id = 1")
            assert found + b"".join(pieces) == expected
        status, _out, err = pg_lean_here("cat", "public.log", "data", "--dsn", cluster.conninfo, "--where", "id = 1",
                                         "-o", str(tmp_path / "out"))
        assert status == 0, err
        assert (tmp_path / "out").read_bytes() == expected + b"\xff"


@pytest.mark.parametrize("where, column, message", [
    ("id > 1", "data", "more than one row"), ("id = 77", "data", "no row"), ("id = 9", "data", "is null"),
    ("id = 1", "label", "of type text"), ("id = 1", "nothing", "does not exist"), ("id === 1", "data", "operator does not exist"),
])
def test_cat_of_what_cannot_be_streamed(pg_lean_here, values, where, column, message):
    status, out, err = pg_lean_here("cat", '"Odd Name"', column, "--dsn", values.conninfo, "--where", where)
    assert status == 1 and message in err and out == ""


@pytest.mark.parametrize("size", ["0", "big", "1GB", "-1"])
def test_cat_with_a_slice_that_is_none(pg_lean_here, values, size):
    status, _out, err = pg_lean_here("cat", '"Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 1", f"--slice={size}")
    assert status == 1 and "not a size" in err
