"""pg-lean flame: widths are times, everything is drawn once, and pages open in a browser."""

import json
import re

import pytest

import chromium
from conftest import hostile, profiling_cluster
from pg_lean import flame, nested, waits
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


def test_colors_of_waits_divide_a_nodes_own_time():
    nodes = [{**NODES[0], "waits": {"Lock:relation": 0.75, "CPU": 9.0}}, {**NODES[1], "waits": {"IO:DataFileRead": 6.0, "IO:BufFileRead": 4.0}}, *NODES[2:]]
    root = Frame("statement", children=flame.of_nodes(nodes))
    join, scan = root.children[0], root.children[0].children[0]
    assert [(kind, round(left, 3), round(to, 3)) for kind, left, to in flame.shares(join)] == [("on", 0, 0.7), ("CPU", 0.7, 0.925), ("Lock", 0.925, 1)], \
        "what is on it, then CPU by the clock, then waits"
    assert [(kind, round(to, 3)) for kind, _, to in flame.shares(scan)] == [("IO", 0.6), ("IO", 1.0)], "samples of more time than the clock's are parts of it"
    assert flame.waited(root) == {"CPU", "Lock", "IO"} and flame.shares(Frame("nothing")) == []
    page = flame.page(root, "a title", "about", True)
    assert "waits: IO:DataFileRead 3.0 ms, IO:BufFileRead 2.0 ms" in page and "var(--w-Lock) 92.50% 100.00%" in page and '>Lock</span>' in page
    assert "linear-gradient" not in flame.page(root, "a title", "about")
    assert len(re.findall("<rect", flame.svg(root, waits=True))) == len(re.findall("<rect", flame.svg(root))) + 4
    assert nested.scaled(root, 0.5).children[0].waits == {"Lock:relation": 0.375, "CPU": 4.5}


def test_samples_of_a_kept_plan_are_its_waits():
    plan = {"Node Type": "Sort", "Actual Total Time": 8.0, "Actual Loops": 1, "Samples": "IO:BufFileWrite 3, CPU 1"}
    assert flame.of_explain(json.dumps([{"Plan": plan}])).waits == {"IO:BufFileWrite": 6.0, "CPU": 2.0}


def test_waits_of_the_profile_are_divided_among_callers():
    class Cursor:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def execute(self, _query, _parameters):
            return self

        def fetchall(self):
            return [dict(dbid=1, userid=10, queryid=3, planid=5, node=0, wait_event_type=kind, wait_event=event, seconds=seconds)
                    for kind, event, seconds in (("IO", "DataFileRead", 0.02), ("CPU", "CPU", 0.01), ("IO", "DataFileRead", 0.02))]

    conn = type("Connection", (), {"cursor": lambda self, row_factory: Cursor()})()
    rows = waits.of_profile(conn, "s", profile_of((1, None, [30.0]), (3, 1, [10.0]), (3, 2, [30.0])))
    assert [row["waits"] for row in rows] == [{}, {"IO:DataFileRead": 10.0, "CPU": 2.5}, {"IO:DataFileRead": 30.0, "CPU": 7.5}]


def test_folded_stacks_add_up():
    lines = flame.folded(tree()).splitlines()
    assert "statement;Hash Join;Seq Scan on a 5000" in lines
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 10000


def test_names_are_text_in_pages_and_pictures():
    for text in (flame.page(tree(), "a <title>", "about"), flame.svg(tree()), flame.svg(tree(), dark=True)):
        assert "&lt;b&gt;" in text and "on <b>" not in text


def profile_of(*statements):
    """Rows of the profile: for each statement (queryid, caller, self_ms of its nodes), with a node on each other, and more columns by name."""
    rows = []
    for queryid, caller, times, *more in statements:
        for node, ms in enumerate(times):
            rows.append(
                dict(
                    dict(
                        dbid=1,
                        datname="d",
                        userid=10,
                        rolname="r",
                        queryid=queryid,
                        caller_queryid=caller,
                        planid=5,
                        executions=2,
                        cancelled=0,
                        failed=0,
                        query=f"q{queryid}",
                        node=node,
                        parent=node - 1 if node else None,
                        label=f"n{queryid}.{node}",
                        self_ms=ms,
                        rows=1,
                        loops=1,
                        plan_rows=1,
                    ),
                    **(more[0] if more else {}),
                )
            )
    return rows


def names(frame):
    return {frame.name: [names(child) for child in frame.children]} if frame.children else frame.name


def drawn(frame, name):
    """All frames of a name."""
    return ([frame] if frame.name == name else []) + [found for child in frame.children for found in drawn(child, name)]


def test_statements_of_the_profile_stand_apart():
    root = nested.of_profile(profile_of((1, None, [3.0, 5.0], dict(cancelled=1)), (2, None, [100.0, 5.0], dict(query=None))))
    assert names(root) == {"all statements": [{"d": [{"statement 2": [{"n2.0": ["n2.1"]}]}, {"q1": [{"n1.0": ["n1.1"]}]}]}]}, "widest first"
    assert root.total == pytest.approx(113) and "1 cancelled" in drawn(root, "q1")[0].notes


def test_time_of_nested_statements_is_counted_once():
    """As SELECT nest(1000000): its one node took 401.9 ms, which the function's statement took nearly all of."""
    root = nested.of_profile(profile_of((1, None, [401.9]), (2, 1, [66.3, 320.8])))
    assert root.total == pytest.approx(401.9)
    assert names(root) == {"all statements": [{"d": [{"q1": [{"n1.0": [{"q2": [{"n2.0": ["n2.1"]}]}]}]}]}]}
    assert drawn(root, "n1.0")[0].own == pytest.approx(14.8) and "run in a function by statement 1" in drawn(root, "q2")[0].notes
    assert nested.of_profile(profile_of((1, None, [401.9]), (2, 1, [66.3, 320.8])), queryid=2).total == pytest.approx(387.1)


def test_a_nested_statement_is_on_the_node_that_has_its_time():
    root = nested.of_profile(profile_of((1, None, [2.0, 50.0, 3.0]), (2, 1, [20.0]), (3, 2, [15.0]), (4, 1, [25.0])))
    assert root.total == pytest.approx(55)
    assert [child.name for child in drawn(root, "n1.1")[0].children] == ["n1.2", "q4", "q2"] and drawn(root, "n2.0")[0].children[0].name == "q3"
    assert drawn(root, "n1.1")[0].own == pytest.approx(5) and drawn(root, "n2.0")[0].own == pytest.approx(5)


def test_a_nested_statement_of_several_nodes_is_divided():
    root = nested.of_profile(profile_of((1, None, [30.0, 10.0]), (2, 1, [36.0])))
    assert root.total == pytest.approx(40)
    assert [found.total for found in drawn(root, "q2")] == pytest.approx([9.0, 27.0]) or [found.total for found in drawn(root, "q2")] == pytest.approx(
        [27.0, 9.0]
    )


def test_time_that_no_node_has_is_next_to_the_plan():
    """A trigger that fires after the plan has ended."""
    root = nested.of_profile(profile_of((1, None, [4.0]), (2, 1, [10.0])))
    assert root.total == pytest.approx(10) and [child.name for child in drawn(root, "q1")[0].children] == ["n1.0", "q2"]


def test_a_statement_with_two_callers_is_divided_by_their_time():
    root = nested.of_profile(profile_of((1, None, [30.0]), (2, None, [60.0]), (3, 1, [15.0]), (3, 2, [45.0]), (4, 3, [20.0])))
    assert root.total == pytest.approx(90)
    assert sorted(found.total for found in drawn(root, "q4")) == pytest.approx([5.0, 15.0])


def test_recursion_takes_no_more_than_its_caller_has():
    root = nested.of_profile(profile_of((1, None, [10.0]), (1, 1, [45.0])))
    assert root.total == pytest.approx(10)
    root = nested.of_profile(profile_of((1, None, [10.0]), (2, 1, [30.0]), (1, 2, [25.0])))
    assert root.total == pytest.approx(10) and len(drawn(root, "q2")) == 1


def test_a_caller_that_is_not_in_the_profile():
    root = nested.of_profile(profile_of((2, 1, [10.0])))
    assert root.total == 10 and "run in a function by statement 1" in drawn(root, "q2")[0].notes


def test_dropped_databases_are_told_apart():
    root = nested.of_profile(profile_of((1, None, [1.0], dict(dbid=7, datname=None)), (1, None, [2.0], dict(dbid=8, datname=None))))
    assert [(child.name, child.total) for child in root.children] == [("dropped database 8", 2.0), ("dropped database 7", 1.0)]


def test_a_running_statement_has_that_of_its_function_on_it():
    rows = [
        dict(
            pid=1,
            leader_pid=leader,
            node=node,
            parent=parent,
            label=label,
            node_type=label.strip().split(" on")[0],
            total_ms=ms,
            elapsed_ms=10.0,
            plan_rows=1,
            rows=1,
            loops=1,
            called=True,
        )
        for leader, node, parent, label, ms in ((None, 0, None, "Result", 10.0), (None, 0, None, "Aggregate", 8.0), (None, 1, 0, "  Seq Scan on t", 6.0))
    ]
    root = command.of_running(rows)
    assert names(root) == {"statements": [{"process 1": [{"Result": [{"in a function": [{"Aggregate": ["Seq Scan on t"]}]}]}]}]}
    assert root.total == pytest.approx(10.0) and drawn(root, "Aggregate")[0].own == pytest.approx(2.0)


def test_ctes_count_once():
    plan = [{"Plan": {"Node Type": "Hash Join", "Actual Total Time": 10.0, "Actual Loops": 1, "Plans": [
        {"Node Type": "Seq Scan", "Subplan Name": "CTE c", "Relation Name": "t", "Actual Total Time": 6.0, "Actual Loops": 1},
        {"Node Type": "CTE Scan", "CTE Name": "c", "Actual Total Time": 8.0, "Actual Loops": 1},
        {"Node Type": "Index Scan", "Index Name": "i", "Relation Name": "u", "Alias": "v", "Actual Total Time": 0.01, "Actual Loops": 100}]}}]
    root = flame.of_explain(json.dumps(plan))
    assert root.own == pytest.approx(1.0) and root.total == pytest.approx(10.0)
    assert [(child.name, round(child.own, 6)) for child in root.children] == [
        ("CTE c: Seq Scan on t", 6.0),
        ("CTE Scan on c", 2.0),
        ("Index Scan using i on u v", 1.0),
    ]


DAMAGED = ["1", '{"Plan": 1}', *('[{"Plan": {"Node Type": "Result", "Actual Total Time": 1, "Actual Loops": 1, %s}}]' % part for part in (
    '"Plans": 5', '"Plans": [7]', '"Plans": [{}]', '"Actual Rows": "many"', '"Actual Loops": null', '"Actual Total Time": NaN', '"Self Time": "x"',
    '"Samples": 7', '"Samples": "CPU many"', '"Samples": "CPU inf"'))]


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '[{"Plan": {"Node Type": "Result"}}]', *DAMAGED])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(LabError):
        flame.of_explain(text)


@pytest.fixture(scope="module")
def profiled():
    """A server that keeps a profile."""
    with hostile(profiling_cluster()) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE work.planted AS SELECT g, g % 10 AS k FROM generate_series(1, 200000) g")
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


def test_waits_of_the_profile_are_drawn(profiled, pg_lean, pg_lean_here, tmp_path):
    with profiled.connect() as conn:
        conn.execute("SELECT count(*) FROM (SELECT g FROM planted LIMIT 300) s WHERE pg_sleep(0.005) IS NOT NULL")
    for name in ("waits.html", "waits.svg"):
        done = pg_lean("flame", "--dsn", profiled.conninfo, "--waits", "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        # the sampler may have seen it on the CPU never or a few times
        assert re.search(r"waits: (CPU [\d,.]+ \w+, )?Timeout:PgSleep ((\d,\d\d\d|[4-9]\d\d)\.\d ms|\d+\.\d\d s)", (tmp_path / name).read_text()), name
    status, _, err = pg_lean_here("flame", "--dsn", profiled.conninfo, "--waits", "--statement", "SELECT 1")
    assert status == 1 and "--waits is for" in err


def test_a_statement_is_run_and_taken_back(profiled, pg_lean):
    with profiled.connect() as conn:
        count = "SELECT count(*) FROM planted"
        before = conn.execute(count).fetchone()
        done = pg_lean("flame", "--dsn", profiled.conninfo, "--statement", "DELETE FROM work.planted WHERE k = 1;", "--folded")
        assert done.returncode == 0 and "Delete on planted" in done.stdout, done.stdout + done.stderr
        assert conn.execute(count).fetchone() == before


@pytest.mark.parametrize(
    "statement", ["DELETE FROM work.planted; COMMIT", "SELECT 1; DELETE FROM work.planted; COMMIT", "", "COMMIT", "VACUUM", "SELECT 1; SELECT 2"]
)
def test_one_statement_is_run_and_no_other(profiled, pg_lean_here, statement):
    with profiled.connect() as conn:
        before = conn.execute("SELECT count(*) FROM planted").fetchone()
        status, out, err = pg_lean_here("flame", "--dsn", profiled.conninfo, "--statement", statement, "--folded")
        assert status == 1 and "not one statement that EXPLAIN takes" in err and not out, out + err
        assert conn.execute("SELECT count(*) FROM planted").fetchone() == before


def test_names_of_the_statement_are_looked_up_where_the_user_says(profiled, pg_lean_here):
    count = "SELECT count(*) FROM planted WHERE k % 2 = 0"
    status, _, err = pg_lean_here("flame", "--dsn", profiled.conninfo, "--statement", count, "--folded")
    assert status == 1 and 'relation "planted" does not exist' in err and "--search-path" in err
    status, out, err = pg_lean_here("flame", "--dsn", profiled.conninfo, "--statement", count, "--search-path", "work", "--folded")
    assert status == 0 and "Seq Scan on planted" in out, err


def test_a_function_is_drawn_on_its_caller(profiled, pg_lean):
    with profiled.connect() as conn:
        conn.execute("CREATE FUNCTION work.nest() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT sum(g) FROM generate_series(1, 300000) g); END$$")
        conn.execute("SELECT work.nest() AS outermost")
    done = pg_lean("flame", "--dsn", profiled.conninfo, "--folded")
    lines = [line for line in done.stdout.splitlines() if "generate_series(1, 300000)" in line]
    assert lines and all("AS outermost;Result;" in line for line in lines), done.stdout


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
