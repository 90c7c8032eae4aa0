"""The demo's parts without measuring: repetitions, bounds, figures that follow from known times, and parts that fail."""

import contextlib
import time
from types import SimpleNamespace

import pytest
from psycopg.rows import dict_row
from rich.console import Console

from pg_lean import demo, loglines, report, tempbuffers
from pg_lean.bench import Bench, Options, Result, Table
from pg_lean.cluster import Cluster, Server
from pg_lean.demo import append, runner, temp_buffers, waits
from pg_lean.errors import LabError, Unavailable

SIZES = [128, 2048, 4096]


@pytest.fixture
def experiment(monkeypatch):
    """ten_steps that takes no time and answers with known costs: a page is read in 1 us, written in 1.5, in random order in 2."""
    def ten_steps(server, filler, blocks, **_kwargs):
        time.sleep(0.001)
        read = blocks / 1000
        return {"create": 1.0, "allocated": blocks + 10, "flush": 1.5 * read, "dry_flush": 0.001, "dry_flush_mean": 0.002 * read,
                "read": read, "dry_read": 0.1 * read, "flush_again": 1.5 * read, "flush_again_coalesced": 0.75 * read,
                "random_read": read, "random_flush": 2 * read, "random_flush_coalesced": read}

    monkeypatch.setattr(tempbuffers, "ten_steps", ten_steps)

    def bench(**options):
        return Bench("temp_buffers", Server("host=/nowhere"), Options(**options), Console(quiet=True))

    return bench


def test_ratios_follow_from_the_times(experiment):
    bench = experiment()
    temp_buffers.measure(bench, None, dict.fromkeys(SIZES, 7))
    result = temp_buffers.present(bench, SIZES, dict.fromkeys(SIZES, 7), [])
    assert "costs 1.50 page reads here (2.00 after reading in random order)" in result.summary
    tables = [block for block in result.blocks if isinstance(block, Table)]
    ratios = tables[1].rows[1]
    assert ratios[0] == 2048 and ratios[2].median == pytest.approx(1.5) and ratios[4].median == pytest.approx(2.0)
    assert ratios[6].median == pytest.approx(0.002 * 2048 / 2058)
    assert ratios[1] == pytest.approx(3.01 / 2.35) and ratios[7] == 7
    assert tables[2].rows[1][4].median == pytest.approx(0.5)


def test_repetitions_depend_on_the_size_and_not_on_the_clock(experiment):
    bench = experiment()
    wanted = {size: temp_buffers.repetitions_of(bench, size) for size in tempbuffers.SIZES}
    assert wanted[128] == 11 and wanted[65536] == 7 and wanted[262144] == 3
    assert temp_buffers.measure(bench, None, wanted) == wanted
    assert {size: len(bench.raw.select(case=size)) for size in wanted} == wanted


@pytest.mark.parametrize("options, full, made", [({}, 100, 100), ({"effort": 0.2}, 100, 20), ({"effort": 0.2}, 7, 3), ({"effort": 0.2}, 2, 2),
                                                 ({"effort": 0.2, "iterations": 9}, 100, 9), ({"effort": 0.2, "quick": True}, 100, 5)])
def test_effort_takes_repetitions_and_never_sizes(experiment, options, full, made):
    bench = experiment(**options)
    assert bench.iterations(full, quick=5) == made
    assert bench.pick(full=5_000_000, quick=300_000) == (300_000 if bench.quick else 5_000_000)


@pytest.mark.parametrize("options, made", [({}, 7), ({"effort": 0.2}, 6), ({"effort": 0.2, "iterations": 4}, 4), ({"effort": 0.2, "quick": True}, 2)])
def test_a_small_effort_leaves_as_many_repetitions_as_three_variants_have_orders(experiment, options, made):
    assert experiment(**options).all_orders(full=7, quick=2, variants=3) == made


def test_iterations_that_the_user_asks_for_are_never_cut(experiment):
    assert temp_buffers.repetitions_of(experiment(iterations=12), 262144) == 12


def test_the_published_tables_are_whole():
    assert set(temp_buffers.RECOMPUTED) == set(tempbuffers.SIZES)
    assert set(temp_buffers.PUBLISHED) == set(tempbuffers.SIZES) - {128, 256}


def test_temp_buffers_are_110_percent_and_at_least_100():
    assert [tempbuffers.temp_buffers_for(blocks) for blocks in (10, 128, 1024)] == [100, 141, 1127]


# -- the run log -------------------------------------------------------------


def test_both_ways_of_the_run_log_hold_and_tell_the_same_lines():
    cluster = Cluster(name="test", preload=["appendable_bytea"])
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with cluster:
        bench = Bench("append", cluster, Options(quick=True), Console(quiet=True))
        lines = loglines.logs(append.WRITERS, 12)
        both = {name: append.RunLog(bench, name, lines) for name in append.WAYS}
        for repetition in range(2):
            for name, log in both.items():
                figures = log.measure()
                assert figures["lines_per_s"] > 0 and figures["disk_by_live"] > 1 and figures["wal_a_byte"] > 0.9
                assert [len(took) for took in log.ms] == [12] * append.WRITERS and len(log.growth().x) == 12
                bench.raw.add(name, repetition, append.LOG, **figures)
                bench.raw.add(name, repetition, "one byte", ms=1.0, wal_bytes=100)
        sizes = append.compact(bench, both["pg_lean"], lines)
        assert len(sizes) == 4 and sizes[2][1] < sizes[0][1] < sizes[1][1], "compaction makes logs smaller"
        result = append.present(bench, both, lines, sizes)
        assert [headline.what.split(",")[0] for headline in result.headlines] == ["one byte added to 100 MB", "a line of a run log"]


def test_lines_are_the_same_for_the_same_seed_and_end_once():
    one, other = loglines.logs(2, 20, seed=3), loglines.logs(2, 20, seed=3)
    assert one == other != loglines.logs(2, 20, seed=4)
    assert all(200 <= len(line) <= 2000 and line.index("\n") == len(line) - 1 and line.isascii() for log in one for line in log)


# -- parts that fail ---------------------------------------------------------


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """A demo of three parts that do what a test says, on a server that does nothing, with results below tmp_path."""
    @contextlib.contextmanager
    def connect():
        raise LabError("there is no server")
        yield

    server = SimpleNamespace(configure=lambda *_: None, connect=connect)
    monkeypatch.setattr(runner, "_open", lambda *_: contextlib.nullcontext(server))
    for module in (runner, report):
        monkeypatch.setattr(module, "BUILD", tmp_path)

    def run(**runs):
        for name in runs:
            monkeypatch.setattr(__import__(f"pg_lean.demo.{name}", fromlist=[name]), "run", runs[name])
        return runner.run(Options(quick=True), Console(quiet=True), list(runs))
    return run


def good(bench):
    bench.raw.add("stock", 0, ms=1.0)
    return Result("A good part", "All is well.", "what", "how")


def bad(bench):
    bench.raw.add("stock", 0, ms=1.0)
    return 1 / 0


def unavailable(bench):
    raise Unavailable("no such extension", "Install it.")


def test_a_part_that_fails_is_shown_with_its_reason_and_the_others_go_on(parts, tmp_path):
    results = parts(parallel=bad, append=unavailable, explain=good)
    assert [(bool(result.failed), bool(result.unavailable), result.whole) for result in results] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    page = (tmp_path / "report" / "index.html").read_text()
    for text in ("Failed:", "ZeroDivisionError: division by zero (test_demo.py", "Not measured: no such extension. Install it.", "All is well."):
        assert text in page, text
    assert (tmp_path / "demo" / "parallel" / "failed" / "raw.csv").read_text().count("\n") == 2, "the rows that were measured are kept"


def test_the_status_says_that_a_part_failed(monkeypatch, pg_lean_here):
    failed = [Result("t", "", "", "", name="parallel", failed="the server said no"), Result("t", "", "", "", name="append")]
    monkeypatch.setattr(runner, "run", lambda *_: failed)
    status, _out, err = pg_lean_here("demo")
    assert status == 1 and "failed: parallel" in err
    monkeypatch.setattr(runner, "run", lambda *_: failed[1:])
    assert pg_lean_here("demo")[0] == 0


def test_an_interrupted_demo_writes_the_report_of_what_it_has(parts, tmp_path):
    def interrupted(bench):
        bench.raw.add("stock", 0, ms=1.0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts(parallel=good, append=interrupted, explain=bad)
    page = (tmp_path / "report" / "index.html").read_text()
    assert "All is well." in page and "Interrupted:" in page and "Failed:" not in page
    assert (tmp_path / "demo" / "append" / "interrupted" / "raw.csv").exists()


def test_only_a_full_run_takes_a_full_results_place(parts, tmp_path, monkeypatch):
    full = tmp_path / "demo" / "parallel"
    Result("An old full one", "Old.", "", "", name="parallel").save(full)
    before = (full / "result.json").read_text()
    page = tmp_path / "report" / "index.html"
    for run in (good, bad, unavailable):
        parts(parallel=run)
        assert (full / "result.json").read_text() == before
    parts(parallel=good)
    assert "All is well." in page.read_text(), "what was measured now is shown"
    report.write(tmp_path)
    assert "An old full one" in page.read_text() and "A good part" not in page.read_text()
    runner.run(Options(quick=False), Console(quiet=True), ["parallel"])
    assert "A good part" in (full / "result.json").read_text()


def test_waits_are_those_of_the_sessions_of_the_run():
    cluster = Cluster(name="test", preload=list(waits.PRELOAD), settings=waits.SETTINGS)
    if not cluster.has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    with cluster:
        bench = Bench("waits", cluster, Options(quick=True, scale=1, iterations=10), Console(quiet=True))
        result = waits.run(bench)
        rows = result.blocks[0].rows
        found = {(query, node): wait for query, node, wait, _ in sorted(rows, key=lambda row: row[3])}
        assert found[waits.UPDATE, "Update on waits_counter"].startswith("Lock:"), found
        assert found[waits.SENT, "(sending rows)"] == "Client:ClientWrite"
        # whether a sample of a sort that spills is a wait depends on the storage: 014_sampling makes it slow
        assert {node for query, node, wait, _ in rows if query == waits.SORT and wait.startswith(("IO:BufFile", "CPU"))} >= {"Sort"}, rows
        assert any(query == waits.GROUP and wait == "CPU" for query, _, wait, _ in rows)
        assert sum(row[3] for row in rows) == sum(row["samples"] for row in bench.raw.rows) > 100
        assert "were of processes that waited" in result.summary and not any("light_explain" in row[0] for row in rows)
        with cluster.connect(light_explain__profile=False) as conn, pytest.raises(Unavailable, match="profile is off"):
            waits.check(conn, cluster.need_extension("light_explain"))


def test_a_node_of_an_unknown_plan_is_not_shown_as_a_phase_of_the_statement():
    """Samples of a statement get their plan in the sampler's next round after it ended; names of nodes are those of a plan."""
    sample = {"activity": "execute", "node": 2, "label": None}
    assert waits.node_of(sample) == "(node 2 of an unknown plan)"
    assert waits.node_of({**sample, "label": "Sort"}) == "Sort"
    assert waits.node_of({**sample, "node": None}) == "(sending rows)"


def test_the_last_statement_of_a_run_has_names_of_nodes_too():
    """The sampler's rounds are long, so that without waiting for one the samples would be read before they have their plan."""
    cluster = Cluster(name="test", preload=list(waits.PRELOAD), settings={**waits.SETTINGS, "light_explain.sample_interval": "300"})
    if not cluster.has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    with cluster, cluster.connect() as conn:
        schema = cluster.need_extension("light_explain")
        slow = "SELECT sum(length(pg_sleep(0.25)::text)) FROM generate_series(1, 10)"
        started = conn.execute("SELECT clock_timestamp()").fetchone()[0]
        conn.execute(slow)
        waits.settle(conn, schema)
        samples = conn.cursor(row_factory=dict_row).execute(waits.SAMPLES.replace("{s}", schema), ([conn.info.backend_pid], started)).fetchall()
        names = {waits.node_of(row) for row in samples if row["query"] == slow}
        # a busy machine may stop it while it is planned
        assert "Aggregate" in names and names <= {"Aggregate", "(planning)", "(sending rows)"}, samples
    idle = SimpleNamespace(cursor=lambda row_factory: SimpleNamespace(execute=lambda _statement: SimpleNamespace(fetchone=lambda: (7,))))
    with pytest.raises(Unavailable, match="sampler did nothing in 0.1 s"):
        waits.settle(idle, "public", seconds=0.1)


def test_the_story_begins_with_what_most_people_ask_for():
    assert demo.ORDER == ("parallel", "append", "explain", "waits", "fastload", "temp_buffers")
    assert "danolivo.substack.com" in temp_buffers.SOURCE
