"""The command as a user runs it: what it leaves behind, and what it says when something is wrong."""

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from conftest import hostile, processes_below
from pg_lean import __version__, always, cli, measure, prices
from pg_lean.bench import Bench, Options, calibrate, explain, fill, profile, run_module, sweep
from pg_lean.cluster import Cluster, Server, UserServer
from pg_lean.commands import cat
from pg_lean.demo import ORDER, append
from pg_lean.errors import LabError
from pg_lean.paths import SERVER_DIR


PLAN = Path(__file__).with_name("plan.json")


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


@pytest.mark.slow
def test_every_other_part_of_the_demo_runs(lean, pg_lean, tmp_path):
    parts = [name for name in ORDER if name != "temp_buffers"]
    done = pg_lean("demo", "--quick", "--parts", ",".join(parts), "--scale", "1", "--iterations", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in parts:
        result = json.loads((tmp_path / "demo" / name / "quick" / "result.json").read_text())
        assert (result["headlines"] or name == "waits") and not result["unavailable"], f"{name}: {result['unavailable']}"
        assert result["summary"] and result["what"] and result["how"] and result["raw"], name
    assert "At a glance" in done.stdout and (tmp_path / "report" / "index.html").as_uri() in done.stdout
    raw = json.loads((tmp_path / "demo" / "append" / "quick" / "result.json").read_text())["raw"]
    lines = {row["variant"]: row["ms"] * row["lines_per_s"] / 1000 for row in raw if row["case"] == append.LOG}
    assert lines == pytest.approx(dict.fromkeys(append.WAYS, append.WRITERS)), "both ways write a line to every log in the time of a line"


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


@pytest.mark.slow
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
    for name in prices.SETTINGS_OF:  # on a machine that is very busy a cost may be left out, and then it stays as it was
        assert float(set_now.get(name, 0)) >= 0


def test_calibrate_for_machines(lean, pg_lean):
    done = pg_lean("calibrate", "--quick", "--scale", "1", "--iterations", "1", "--dsn", lean.conninfo, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["name"] == "calibrate" and found["blocks"] and set(found["settings"]) <= {*calibrate.SETTINGS_OF, *prices.SETTINGS_OF}
    assert "raw" not in found and "ALTER SYSTEM SET" in done.stderr


@pytest.mark.slow
def test_the_sweep_tells_what_was_chosen_and_what_was_faster(lean, pg_lean, tmp_path):
    done = pg_lean("bench", "sweep", "--quick", "--iterations", "1", "--dsn", lean.conninfo)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "bench" / "sweep" / "quick" / "result.json").read_text())
    cells = next(block for block in result["blocks"] if block.get("title") == "All cells")["rows"]
    assert len(cells) == len(sweep.KINDS) * 4 and {row[5] for row in cells} <= {"serial", "workers"}
    assert {*sweep.VARIANTS, prices.VARIANT} <= {row["variant"] for row in result["raw"]} <= {*sweep.VARIANTS, prices.VARIANT, sweep.DEFAULTS}
    told = {row[0]: row[1:] for row in next(block for block in result["blocks"] if block.get("title", "").startswith("Prices"))["rows"]}
    assert set(told) == set(prices.DEFAULTS)


def test_a_cell_that_loses_is_the_servers_only_if_unlogged_tables_lose_as_well():
    bench = Bench("sweep", Server("host=/nowhere"), Options(), Console(quiet=True))
    cells = [sweep.Cell(1000, True, "scan", part) for part in (0.1, 0.2, 0.3)]
    # chosen, serial, workers; of stock PostgreSQL also without Memoize
    times = {str(cells[0]): (20, 10, 30), str(cells[1]): (20, 30, 10), str(cells[2]): (10, 10, 30),
             f"unlogged: {cells[0]}": (10, 10, 30, 30), f"unlogged: {cells[1]}": (20, 30, 30, 10)}
    for case, ways in times.items():
        for repetition in range(20):
            for variant, ms in zip(sweep.UNLOGGED, ways):
                bench.raw.add(variant, repetition, case, ms=ms)
    plans = {cell: {"chosen": "Gather 0", "serial": "scan", "workers": "Gather 1"} for cell in cells}
    plans[cells[2]]["chosen"] = "scan"
    # the default costs choose workers in the first, which there take three times the serial plan's time
    for cell, plan in zip(cells, ("Gather 1", "scan", "scan")):
        plans[cell][sweep.DEFAULTS] = plan
    result = sweep.present(bench, plans, {cell: {**plans[cell], "workers, no Memoize": "Gather 2"} for cell in cells[:2]})
    assert [check.value for check in result.checks] == [2, 1, 0, 1]
    otherwise = next(block for block in result.blocks if "choose another plan" in block.title)
    assert [row[5] for row in otherwise.rows] == ["workers", "serial"]
    stock = next(block for block in result.blocks if "unlogged" in block.title)
    assert [row[5] for row in stock.rows] == ["serial", "workers, no Memoize"] and {len(row) for row in stock.rows} == {len(stock.columns)}


@pytest.mark.slow
def test_the_filling_benchmark_says_which_plan_ran(lean, pg_lean, tmp_path):
    done = pg_lean("bench", "fill", "--quick", "--iterations", "1", "--dsn", lean.conninfo, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "bench" / "fill" / "quick" / "result.json").read_text())
    block = next(block for block in result["blocks"] if block.get("title") == "Plans")
    plans = {(row[0], row[1]): dict(zip(block["columns"][2:], row[2:], strict=True)) for row in block["rows"]}
    assert set(plans) == {(into, query) for into in fill.INTO for query in fill.QUERIES}
    # the server alone gives an INSERT no workers, nor does fast load; those who ask for them have them
    for query in ("filtered scan", "hash join"):
        stock, fast, asked = (plans["INSERT ... SELECT", query][variant] for variant in (fill.STOCK, fill.FAST, fill.ASKED))
        assert stock.startswith("serial") and fast.startswith("serial") and asked.startswith("Gather") and not asked.endswith("pages"), plans
    priced = next(block for block in result["blocks"] if block.get("title", "").startswith("The price of rows in pages"))
    assert len(priced["rows"]) == (len(fill.WIDTHS) + 1) * len(fill.SOURCES) and {row[-2] for row in priced["rows"]} <= {"serial", "workers"}
    cases = {(row["case"], row["variant"]) for row in result["raw"]}
    assert cases == {
        *((fill.case_of(*case), variant) for case in plans for variant in fill.VARIANTS),
        *((f"short, {name}", kind) for name in fill.SHORT for kind in (fill.OFF, fill.ON)),
        *((row[0], variant) for row in priced["rows"] for variant in fill.PRICED),
        *((f"row costs, {query}", part) for query in fill.MODELLED for part in ("query", "load", "pages")),
        *((fill.SESSION, name) for name in fill.SESSIONS),
        *((row["case"], prices.VARIANT) for row in result["raw"] if row["variant"] == prices.VARIANT),
    }
    with lean.connect() as conn:
        assert conn.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'fill%'").fetchone() == (0,), "its tables were left"


def test_more_workers_are_faster_until_the_leader_takes_pages_all_the_time():
    costs = fill.RowCosts(rows=1_000_000, query=400, load=200, hand_over=200, take=100, write=50)
    times = [costs.seconds(workers) for workers in (1, 2, 4, 8, 16)]
    assert times[0] == (pytest.approx(1e-9 * 1_000_000 * 360_000 / 1100, rel=0.01), "all processes make rows")
    assert times[-1] == (pytest.approx(0.1), "the leader takes pages") and sorted(times, reverse=True)[:3] == times[:3]
    assert costs.most == 6
    slow_file = replace(costs, take=3, write=120)
    assert slow_file.seconds(2)[1] == "all processes make rows" and slow_file.seconds(16) == (pytest.approx(0.12), "one process after the other writes")
    assert slow_file.most == 5


def test_the_filling_benchmark_notices_a_wrong_answer(lean, monkeypatch):
    answers = iter([(3, 6, 9), (3, 6, 8)])
    monkeypatch.setattr(fill, "answer", lambda conn, source: next(answers))
    monkeypatch.setitem(fill.QUERIES, "filtered scan", "SELECT 1 AS id, 2 AS amount")
    bench = Bench("fill", lean, Options(quick=True), Console(quiet=True))
    with pytest.raises(LabError, match="different answer"):
        fill.fill(bench, "INSERT ... SELECT", "filtered scan", 1, {}, {})


@pytest.mark.slow
def test_single_queries_of_the_analytic_benchmark(lean, pg_lean, tmp_path):
    done = pg_lean("bench", "analytics", "--quick", "--iterations", "1", "--queries", "sleeping customers,1", "--dsn", lean.conninfo)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "bench" / "analytics" / "quick" / "result.json").read_text())
    assert result["quick"], "a choice of queries takes no full result's place"
    table = next(block for block in result["blocks"] if block.get("title", "").startswith("Each query"))
    plans = [row[table["columns"].index("plan here")] for row in table["rows"]]
    assert [row[0] for row in table["rows"]] == ["sales by flag", "sleeping customers"] and set(plans) <= {"parallel", "serial"}
    again = [row[table["columns"].index("planned again, % of stock serial")] for row in table["rows"]]
    assert all(isinstance(value, float) for value in again), "the cost of planning twice is shown next to stock's"


def test_prices_of_plans_come_from_plans_with_workers_and_without(lean):
    with prices.Tables(lean, 64) as tables:
        found = tables.measure()
        assert (
            found["rows"] > 5 * found["thin_rows"]
            and tables.conn.execute("SELECT pg_relation_size('dense'), pg_relation_size('thin')").fetchone() == (64 * 8192,) * 2
        )
        assert found["entered"] > 64 and all(found[name] > 0 for name in ("thin", "dense", "worth_it", "worth_it_workers", "look_up_tiny", "look_up_dense"))
        # what was set for the measurement is taken back
        assert tables.conn.execute("SELECT current_setting('cpu_tuple_cost')::float, current_setting('enable_seqscan')").fetchone() == (0.01, "on")
        # a server without workers to give is an error, not a cost
        tables.conn.execute("SET max_parallel_workers = 0")
        with pytest.raises(LabError, match="got 0"):
            tables.measure()


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
    """A command without a private server, such as trace, stops none."""
    def interrupted(**_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    status, _out, err = pg_lean_here("trace", "1")
    assert status == 130 and "interrupted" in err and "server is stopped" not in err and "Traceback" not in err


@pytest.mark.slow
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
        assert conn.execute("SELECT pg_stat_force_next_flush(), last_vacuum, last_analyze FROM pg_stat_user_tables WHERE relname = 'mine'").fetchone()[1:] == (
            None,
            None,
        )
        assert conn.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'lean_lab')").fetchall() == [(cluster.schema,)]
    assert json.loads((tmp_path / "bench" / "explain" / "quick" / "result.json").read_text())["checks"]


@pytest.mark.slow
def test_the_benchmark_of_the_profile_measures_a_profile(pg_lean, tmp_path):
    if not Cluster().has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    done = pg_lean("bench", "profile", "--quick", "--iterations", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "bench" / "profile" / "quick" / "result.json").read_text())["raw"]
    assert {row["variant"] for row in rows} == {"off", "off again", "identifiers", "profile"} and len({row["case"] for row in rows}) == 14


@pytest.mark.slow
def test_the_benchmark_of_the_profile_in_full_shape(monkeypatch, tmp_path):
    """With a full run's checks, which a quick one has not, but few and small measurements."""
    cluster = Cluster(name="test", settings=profile.SETTINGS, preload=profile.PRELOAD)
    if not cluster.has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    monkeypatch.setattr(measure, "FIRST_TRANSACTIONS", 5)
    monkeypatch.setattr(profile, "STATEMENTS", 20)
    with cluster:
        result = run_module(profile, "profile", cluster, Options(scale=1, iterations=2), Console(quiet=True), tmp_path)
    assert not result.failed and not result.unavailable and (tmp_path / "result.json").exists()
    assert {(row["variant"], row["repetition"]) for row in result.raw.rows} == {(kind, n) for kind in profile.KINDS for n in range(2)}
    goals, table = result.blocks[:2]
    assert [row[1] for row in goals.rows] == [*["1.08"] * 5, *["1.05"] * 5] and len(table.rows) == len(result.raw.cases)
    assert [check.target for check in result.checks] == [*[1.08] * 5, *[1.05] * 5, 1 + profile.MARGIN]
    assert all(row.get("cpu_us", 0) > 0 for row in result.raw.rows if row["case"] not in profile.BUSY)


@pytest.mark.slow
def test_the_benchmark_of_explain_in_full_shape(monkeypatch, tmp_path):
    """Each goal has its line, and the battery runs; with few and small measurements."""
    cluster = Cluster(name="test", settings=explain.SETTINGS, preload=explain.PRELOAD)
    if not all(map(cluster.has_library, explain.PRELOAD)):
        pytest.skip("light_explain is not installed for this server (make install)")
    monkeypatch.setattr(measure, "FIRST_TRANSACTIONS", 5)
    monkeypatch.setattr(explain, "LOOPS", {name: (statement, 50 + n) for n, (name, (statement, _)) in enumerate(explain.LOOPS.items())})
    monkeypatch.setattr(always, "LOADS", {name: replace(load, size=5) for name, load in always.LOADS.items()})
    with cluster:
        result = run_module(explain, "explain", cluster, Options(quick=True, scale=1, iterations=2), Console(quiet=True), tmp_path)
    assert not result.failed and not result.unavailable, result.failed
    goals = next(block for block in result.blocks if getattr(block, "title", "") == "Goals")
    assert [row[1] for row in goals.rows] == [*["1.08"] * 5, "1.05", "1.06", "1.12", "1.12", "1.08", "1.10", "1.10", "1.06", "1.20", "1.08"]
    assert all(float(row[3]) >= float(row[2]) > 0 for row in goals.rows)
    timed = {row["case"] for row in result.raw.rows if str(row["case"]).startswith("battery")}
    assert len(timed) > 250 and sum("battery" in check.what for check in result.checks) == 2


def test_without_a_command_there_is_help_and_no_error(pg_lean_here):
    status, out, err = pg_lean_here()
    assert status == 0 and "Usage:" in out and "demo" in out and err == ""


def test_version(pg_lean_here):
    assert pg_lean_here("--version")[:2] == (0, f"pg-lean {__version__}\n")


@pytest.mark.slow
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
    (("demo", "--dsn", "nonsense"), "not a connection string"),
    (("bench", "flush", "--pg-config", "99"), "there is no server 99"),
    (("bench", "flush", "--pg-config", "/no/such"), "no PostgreSQL server"),
    (("bench", "flush", "--queries", "1"), "no queries to choose"),
    (("bench", "analytics", "--queries", "1,23"), 'no query "23"'),
    (("calibrate", "--apply", "system"), "needs a server"),
    (("calibrate", "--apply", "everywhere", "--dsn", "x"), '--apply is "none"'),
    (("bench", "flush", "--iterations", "0"), "--iterations"),
    (("no-such-command",), "No such command"),
    (("top", "--dsn", "x", "--json"), "Add --once"),
    (("flame", "--dsn", "x", "--search-path", "public"), "is for --statement"),
    (("flame", "--dsn", "x", "--statement", "SELECT 1", "--pid", "1"), "exclude each other"),
    (("flame",), "nothing to draw"),
    (("flame", "--file", "/bin/sh"), "not a plan of EXPLAIN"),
    (("flame", "--file", str(PLAN), "-o", "/proc/no/such/flame.html"), "cannot read or write"),
    (("trace", "1", "--method", "magic"), '--method is "auto"'),
    (("trace", "1", "--method", "counters"), "--dsn"),
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
def values():
    """A table with odd names: values of 300,000 bytes, a null and an empty one; and a role whose search_path finds it."""
    with hostile(Cluster(name="test", extension_schema="work")) as server:
        with server.connect() as conn:
            make_values(conn)
        yield server


def make_values(conn):
    conn.execute('CREATE TABLE work."Odd Name" (id int, data bytea, label text)')
    conn.execute("""INSERT INTO work."Odd Name" SELECT g, decode(repeat(lpad(to_hex(g), 2, '0') || '00ff', 100000), 'hex'), 'x'
                    FROM generate_series(1, 3) g""")
    conn.execute("""INSERT INTO work."Odd Name" VALUES (9, NULL, ''), (10, '', '')""")
    conn.execute('CREATE VIEW work.seen AS SELECT * FROM work."Odd Name"')
    conn.execute("ALTER ROLE postgres SET search_path = public, pg_catalog, work")


@pytest.mark.parametrize("slice, start", [("100kB", 0), ("1MB", 0), ("7", 299_900)])
def test_cat_writes_the_whole_value(pg_lean_here, values, tmp_path, slice, start):
    status, _out, err = pg_lean_here("cat", '"Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 2", "--slice", slice,
                                     "-o", str(tmp_path / "out"), "--start", str(start))
    assert status == 0, err
    assert (tmp_path / "out").read_bytes() == (b"\x02\x00\xff" * 100_000)[start:]


def test_cat_to_standard_output_and_of_an_empty_value(pg_lean, values):
    done = pg_lean("cat", 'work."Odd Name"', "label", "--dsn", values.conninfo, "--where", "id = 1")
    assert done.returncode == 1 and done.stdout == ""
    done = pg_lean("cat", 'work."Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 10")
    assert done.returncode == 0 and done.stdout == ""


def test_a_reader_that_has_enough_ends_cat_without_a_word(values):
    process = subprocess.Popen([sys.executable, "-m", "pg_lean", "cat", '"Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 2", "--slice", "1kB"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(10) == b"\x02\x00\xff\x02\x00\xff\x02\x00\xff\x02"
    process.stdout.close()
    assert process.wait(60) == 141 and process.stderr.read() == b""


@pytest.mark.slow
def test_cat_of_an_appendable_value_that_grows_meanwhile(pg_lean_here, tmp_path):
    cluster = Cluster(name="test", preload=["appendable_bytea"], extension_schema="work")
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with hostile(cluster), cluster.connect() as conn:
        conn.execute("CREATE TABLE work.log (id int, data appendable_bytea)")
        conn.execute("INSERT INTO work.log VALUES (1, '')")
        expected = b""
        for number in range(40):
            chunk = bytes([number]) * 3000
            conn.execute("UPDATE work.log SET data = data || %b::bytea WHERE id = 1", (chunk,))
            expected += chunk
        with UserServer(cluster.conninfo).connect() as reader:
            pieces = cat.slices(reader, "work.log", "data", "id = 1", 10_000)
            found = next(pieces)
            conn.execute("UPDATE work.log SET data = data || '\\xff'::bytea WHERE id = 1")
            assert found + b"".join(pieces) == expected
        status, _out, err = pg_lean_here("cat", "work.log", "data", "--dsn", cluster.conninfo, "--where", "id = 1",
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


@pytest.mark.parametrize("table, message", [("work.seen", "is a view"), ("work.nothing", "does not exist"), ("a.b.c", "not a table's name"),
                                            ('"Odd Name', "not a table's name"), ("", "not a table's name"), ("pg_class", "is a view")])
def test_cat_of_what_is_no_table(pg_lean_here, values, table, message):
    """Public's pg_class comes before the server's on the role's path, so that name means a view of another role."""
    status, out, err = pg_lean_here("cat", table, "data", "--dsn", values.conninfo, "--where", "id = 1")
    assert status == 1 and message in err and out == ""


@pytest.mark.parametrize("size", ["0", "big", "1GB", "-1"])
def test_cat_with_a_slice_that_is_none(pg_lean_here, values, size):
    status, _out, err = pg_lean_here("cat", '"Odd Name"', "data", "--dsn", values.conninfo, "--where", "id = 1", f"--slice={size}")
    assert status == 1 and "not a size" in err
