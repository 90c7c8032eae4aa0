"""pg-lean flame: widths are times, everything is drawn once, and pages open in a browser."""

import json

import pytest

import chromium
from conftest import profiling_cluster
from pg_lean import flame
from pg_lean.commands import flame as command
from pg_lean.errors import LabError
from pg_lean.flame import Frame

NODES = [dict(node=1, parent=None, label="Hash Join", self_ms=3.0, rows=10, loops=1, plan_rows=20),
         dict(node=2, parent=1, label="  Seq Scan on a", self_ms=5.0, rows=5, loops=1, plan_rows=5, shared_hit=7),
         dict(node=3, parent=1, label="  Hash", self_ms=1.0, rows=5, loops=1, plan_rows=5),
         dict(node=4, parent=3, label="    Index Scan using i on <b>", self_ms=1.0, rows=5, loops=1, plan_rows=5)]


def tree():
    return Frame("statement", children=flame.of_nodes(NODES))


def test_a_frame_is_as_wide_as_its_time():
    placed = {box.frame.name: box for box in flame.boxes(tree())}
    assert placed["statement"].width == 1 and placed["Hash Join"].level == 1
    assert placed["Seq Scan on a"].width == 0.5 and placed["Seq Scan on a"].level == 2
    assert placed["Hash"].left == 0.5 and placed["Hash"].width == pytest.approx(0.2)
    assert placed["Index Scan using i on <b>"].left == pytest.approx(0.5), "on its parent"
    assert "7 hit" in placed["Seq Scan on a"].frame.notes[1]


def test_folded_stacks_add_up():
    lines = flame.folded(tree()).splitlines()
    assert "statement;Hash Join;Seq Scan on a 5000" in lines
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 10000


def test_names_are_text_in_pages_and_pictures():
    for text in (flame.page(tree(), "a <title>", "about"), flame.svg(tree()), flame.svg(tree(), dark=True)):
        assert "&lt;b&gt;" in text and "on <b>" not in text


def test_statements_of_the_profile_stand_apart():
    one = dict(datname="d", rolname="r", queryid=1, caller_queryid=None, planid=5, executions=2, cancelled=1, failed=0, query="SELECT\n 1")
    rows = [{**one, **node} for node in NODES] + [{**one, "queryid": 2, "caller_queryid": 1, "query": None, **node, "self_ms": 100.0} for node in NODES]
    root = flame.of_profile(rows)
    assert [child.name for child in root.children[0].children] == ["statement 2", "SELECT 1"], "widest first"
    assert root.total == pytest.approx(410)
    assert "run in a function by statement 1" in root.children[0].children[0].notes
    assert "1 cancelled" in root.children[0].children[1].notes


def test_a_running_statement_and_that_of_its_function_stand_apart():
    rows = [dict(pid=1, leader_pid=leader, node=node, parent=parent, label=label, total_ms=ms)
            for leader, node, parent, label, ms in ((None, 0, None, "Result", 10.0), (None, 0, None, "Aggregate", 8.0), (None, 1, 0, "  Seq Scan on t", 6.0))]
    root = command.of_running(rows)
    assert [[frame.name for frame in process.children] for process in root.children] == [["Result"], ["Aggregate"]]
    assert root.children[1].children[0].own == pytest.approx(2.0) and root.children[1].children[0].children[0].own == pytest.approx(6.0)


def test_ctes_count_once():
    plan = [{"Plan": {"Node Type": "Hash Join", "Actual Total Time": 10.0, "Actual Loops": 1, "Plans": [
        {"Node Type": "Seq Scan", "Subplan Name": "CTE c", "Relation Name": "t", "Actual Total Time": 6.0, "Actual Loops": 1},
        {"Node Type": "CTE Scan", "CTE Name": "c", "Actual Total Time": 8.0, "Actual Loops": 1},
        {"Node Type": "Index Scan", "Index Name": "i", "Relation Name": "u", "Alias": "v", "Actual Total Time": 0.01, "Actual Loops": 100}]}}]
    root = flame.of_explain(json.dumps(plan))
    assert root.own == pytest.approx(1.0) and root.total == pytest.approx(10.0)
    assert [(child.name, round(child.own, 6)) for child in root.children] == [("CTE c: Seq Scan on t", 6.0), ("CTE Scan on c", 2.0), ("Index Scan using i on u v", 1.0)]


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '[{"Plan": {"Node Type": "Result"}}]'])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(LabError):
        flame.of_explain(text)


@pytest.fixture(scope="module")
def profiled():
    """A server that keeps a profile."""
    with profiling_cluster() as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE public.planted AS SELECT g, g % 10 AS k FROM generate_series(1, 200000) g")
            conn.execute("SELECT k, count(*) FROM planted GROUP BY k").fetchall()
        yield cluster


def test_the_profile_is_drawn(profiled, pg_lean, tmp_path):
    page = tmp_path / "out" / "profile.html"
    done = pg_lean("flame", "--dsn", profiled.conninfo, "-o", str(page))
    assert done.returncode == 0, done.stdout + done.stderr
    assert page.as_uri() in done.stdout
    text = page.read_text()
    assert "Seq Scan on planted" in text and "SELECT k, count(*) FROM planted" in text
    done = pg_lean("flame", "--dsn", profiled.conninfo, "--folded")
    assert any("HashAggregate;Seq Scan on planted " in line for line in done.stdout.splitlines()), done.stdout


def test_a_statement_is_run_and_taken_back(profiled, pg_lean):
    with profiled.connect() as conn:
        count = "SELECT count(*) FROM planted"
        before = conn.execute(count).fetchone()
        done = pg_lean("flame", "--dsn", profiled.conninfo, "--statement", "DELETE FROM planted WHERE k = 1;", "--folded")
        assert done.returncode == 0 and "Delete on planted" in done.stdout, done.stdout + done.stderr
        assert conn.execute(count).fetchone() == before


def test_a_server_without_the_library_draws_plans(stock, pg_lean, tmp_path):
    done = pg_lean("flame", "--dsn", stock.conninfo, "--folded")
    assert done.returncode == 1 and "CREATE EXTENSION light_explain" in done.stderr
    done = pg_lean("flame", "--dsn", stock.conninfo, "--folded", "--statement", "SELECT count(*) FROM generate_series(1, 100000)")
    assert done.returncode == 0 and "Aggregate;Function Scan on generate_series " in done.stdout, done.stdout + done.stderr
    with stock.connect() as conn:
        plan = conn.execute("EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM generate_series(1, 100000)").fetchone()[0]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = pg_lean("flame", "--file", str(tmp_path / "plan.json"), "-o", str(tmp_path / "plan.svg"))
    assert done.returncode == 0 and "Function Scan on generate_series" in (tmp_path / "plan.svg").read_text()


def test_the_page_zooms_and_finds(tmp_path):
    program = chromium.find()
    if program is None:
        pytest.skip("there is no Chromium here (Debian's package chromium)")
    path = tmp_path / "flame.html"
    path.write_text(flame.page(tree(), "One statement", "about"))
    try:
        browser = chromium.Chromium(program)
        browser.__enter__()
    except (EOFError, OSError) as error:
        pytest.skip(f"Chromium does not start on this machine: {error}")
    try:
        for width in (1280, 390):
            browser.open(path.as_uri(), width)
            assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
        hash_box = "[...document.querySelectorAll('.box')].find(box => box.textContent === 'Hash')"
        wide = f"{hash_box}.getBoundingClientRect().width / document.querySelector('.boxes').getBoundingClientRect().width"
        assert browser.ask(wide) == pytest.approx(0.2, abs=0.01)
        assert browser.ask(f"({hash_box}.click(), {wide})") == pytest.approx(1, abs=0.01)
        assert browser.ask("(document.querySelector('.flame button').click(), " + wide + ")") == pytest.approx(0.2, abs=0.01)
        find = "(e => { e.value = 'scan'; e.oninput(); return document.querySelector('.flame output').textContent })(document.querySelector('.flame input'))"
        assert browser.ask(find) == "60.0 % of the time"
    finally:
        browser.__exit__()
