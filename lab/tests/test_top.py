"""pg-lean top: shares and times follow from what nodes did; locks and plans are seen; the screen does what its keys say."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from conftest import hostile, profiling_cluster
from pg_lean import progress, scenes, screen
from pg_lean.activity import Activity, Statement, by_leader, of_functions
from pg_lean.cluster import Cluster, UserServer
from pg_lean.paths import TOP
from pg_lean.progress import Progress

SLOW = "SELECT count(*) FROM big x WHERE pg_sleep(0.0005) IS NOT NULL"


def row(node, parent, label, plan_rows, rows=0, called=None, pid=1, leader=None, **more):
    """A row of light_explain_progress(); its node_type is the label's words before "on", without "Parallel"."""
    node_type = label.strip().split(" on ")[0].split(" using ")[0].removeprefix("Parallel ")
    return dict(pid=pid, leader_pid=leader, node=node, parent=parent, label=label, node_type=node_type, plan_rows=plan_rows, rows=rows, loops=1,
                called=rows > 0 if called is None else called, total_ms=None, **more)


def share(rows, elapsed=10.0, before=None):
    return progress.estimate(rows, elapsed, before)


def test_a_scan_is_as_far_as_its_rows():
    found = share([row(0, None, "Aggregate", 1), row(1, 0, "  Seq Scan on t", 1000, 250)])
    assert found.share == pytest.approx(0.25, abs=0.01) and found.left == pytest.approx(30, rel=0.05) and found.current == "Seq Scan on t"


def test_blocks_tell_more_than_rows_of_a_filtered_scan():
    found = share([row(0, None, "Aggregate", 1), row(1, 0, "Seq Scan on t", 1000, 999, shared_hit=10, shared_read=15, plan_blocks=100)])
    assert found.share == pytest.approx(0.25, abs=0.01)


def test_rows_beyond_the_estimate_are_never_more_than_all():
    found = share([row(0, None, "Seq Scan on t", 10, 5000)])
    assert found.share < 1 and found.left >= 0


def test_the_inner_side_of_a_loop_is_counted_by_its_outer_rows():
    plan = [row(0, None, "Nested Loop", 10000, 900), row(1, 0, "  Seq Scan on o", 1000, 90), row(2, 0, "  Index Scan using i on n", 10, 900)]
    plan[2]["loops"] = 90
    assert share(plan).share == pytest.approx(0.09, abs=0.01)


def test_a_sort_that_returns_rows_has_all_its_input():
    plan = [row(0, None, "Sort", 100, 2500), row(1, 0, "  Seq Scan on t", 100, 5000)]
    top = progress.tree(plan)
    progress.reckon(top)
    assert top.expected == 5000 and top.children[0].done
    assert share(plan).current == "Sort"


def test_what_is_above_an_error_of_the_planner_is_corrected():
    """A hash side with ten times the rows makes the join above it, which has not begun, expect ten times as many."""
    plan = [row(0, None, "Hash Join", 1000), row(1, 0, "  Seq Scan on a", 1000), row(2, 0, "  Hash", 10, 100, True), row(3, 2, "    Seq Scan on b", 10, 100)]
    top = progress.tree(plan)
    progress.reckon(top)
    assert top.expected == pytest.approx(10000, rel=0.1)


def test_a_sort_has_most_of_its_work_before_its_first_row():
    plan = [row(0, None, "Sort", 1000), row(1, 0, "  Seq Scan on t", 1000, 1000)]
    assert share(plan).share > 0.6, "all of its input is there"


def test_what_is_above_a_sort_waits_for_its_first_row():
    plan = [row(0, None, "GroupAggregate", 1000), row(1, 0, "  Sort", 10000), row(2, 1, "    Seq Scan on t", 10000, 9000)]
    top = progress.tree(plan)
    progress.reckon(top)
    assert top.share == 0 and top.expected == 1000


def test_subplans_are_not_paid_for_twice():
    """The price of the node above has that of its subplan in it, which is done: nothing dear is left."""
    plan = [
        row(0, None, "Aggregate", 1, plan_cost=1010),
        row(1, 0, "  Seq Scan on t", 1000, plan_cost=10),
        row(2, 0, "  Aggregate", 1, 1, plan_cost=999),
        row(3, 2, "    Seq Scan on u", 100000, 100000, plan_cost=990),
    ]
    assert share(plan).share > 0.95


def spilled(rows, read, written, taken=10000, plan=100):
    """A hash aggregate over 10,000 rows: those it has returned and taken, pages of temporary files that it has read, and that there are to read."""
    return [row(0, None, "HashAggregate", plan, rows, temp_read=read, temp_written=written), row(1, 0, "  Seq Scan on t", 10000, taken)]


def test_a_hash_that_spilled_is_as_far_as_what_it_reads_again():
    top = progress.tree(spilled(2500, 50, 100))
    progress.reckon(top)
    assert top.expected == pytest.approx(5000) and top.share == pytest.approx(0.5)
    shares = [share(spilled(rows, read, 100)).share for rows, read in ((250, 5), (1250, 25), (2500, 50), (3700, 75), (4900, 99))]
    assert shares == sorted(shares) and shares[0] < 0.7 and shares[2] < 0.85 < shares[-1]
    assert "has read 50 of 100 pages" in share(spilled(2500, 50, 100)).how
    many = progress.tree(spilled(9000, 10, 100))
    progress.reckon(many)
    assert many.expected == 10000, "at most a group for each row"


def test_an_aggregate_that_spilled_and_is_over_keeps_nothing_back():
    plan = [row(0, None, "Sort", 100, 10), *[{**one, "node": one["node"] + 1, "parent": one["node"]} for one in spilled(5000, 100, 100)]]
    top = progress.tree(plan)
    progress.reckon(top)
    assert top.children[0].done and top.expected == 5000 and share(plan).share is not None


def batches(rows, read, written, outer=1000):
    """A hash join: the table's part of the files is the hash's."""
    return [row(0, None, "Hash Join", 1000, rows, temp_read=read, temp_written=written / 2), row(1, 0, "  Seq Scan on a", 2000, outer),
            row(2, 0, "  Hash", 100, 100, True, temp_written=written / 2), row(3, 2, "    Seq Scan on b", 100, 100)]


def test_a_hash_join_in_batches_is_as_far_as_what_it_reads_again():
    """Its outer side had half of the rows that were expected, and is over: it reads what it wrote."""
    top = progress.tree(batches(500, 30, 60))
    progress.reckon(top)
    assert top.share == 0.5
    shares = [share(batches(rows, read, 60)).share for rows, read in ((200, 10), (500, 30), (800, 50))]
    assert shares == sorted(shares) and "has read 30 of 60 pages" in share(batches(500, 30, 60)).how
    top = progress.tree(batches(200, 0, 60))
    progress.reckon(top)
    assert top.share == pytest.approx(0.5), "by its outer side: nothing was read again"


def test_going_back_because_of_the_disk_says_so():
    found = share(spilled(1000, 20, 100), before=Progress(0.95, 5, ""))
    assert found.share < 0.9 and "corrected from 95%: HashAggregate does not fit into memory" in found.how


def test_going_back_says_why():
    found = share([row(0, None, "Aggregate", 1), row(1, 0, "Seq Scan on t", 1000, 250)], before=Progress(0.6, 5, ""))
    assert "corrected from 60%" in found.how and "Seq Scan on t" in found.how


def test_nothing_is_foretold_before_anything_was_counted():
    found = share([row(0, None, "Aggregate", 1), row(1, 0, "Seq Scan on t", 1000000, called=True)])
    assert (found.share, found.left, found.how) == (None, None, "too early to tell")
    assert share([row(0, None, "Seq Scan on t", 1000, 500)], elapsed=0.3).left == pytest.approx(0.3)
    assert share([]).share is None and "instrumentation" in share([]).how


def test_workers_count_with_their_leader():
    plan = [
        row(0, None, "Gather", 1700, 850),
        row(1, 0, "  Parallel Seq Scan on t", 1000, 400),
        row(1, 0, "  Parallel Seq Scan on t", 1000, 450, pid=2, leader=1),
    ]
    assert share(plan).share == pytest.approx(0.5, abs=0.03)


def test_a_plan_with_subplans_is_one_plan():
    """Subplans have higher numbers than the plan's own nodes, and stand where EXPLAIN shows them."""
    rows = [row(0, None, "Aggregate", 1), row(2, 0, "  Aggregate", 1), row(3, 2, "    Seq Scan on s", 10, 10), row(1, 0, "  Seq Scan on t", 10, 5)]
    assert by_leader(rows) == {1: rows}
    assert share(rows).current == "Seq Scan on t"


def test_the_statement_that_was_asked_for_is_shown_and_not_one_of_its_functions():
    inner, outer = [row(0, None, "Seq Scan on i", 10, 5, queryid=7)], [row(0, None, "Seq Scan on o", 10, 5, queryid=8)]
    assert by_leader(inner + outer, {1: 8}) == {1: outer}
    assert by_leader(inner, {1: 8}) == {}
    assert by_leader(inner, {1: None}) == {1: inner}


def test_inner_sides_that_run_again_and_again_are_not_done_after_their_first_run():
    plan = [
        row(0, None, "Nested Loop", 10000, 800),
        row(1, 0, "  Seq Scan on o", 1000, 80),
        row(2, 0, "  Seq Scan on i", 10, 800, plan_blocks=5, shared_hit=400),
    ]
    plan[2]["loops"] = 80
    assert share(plan).share < 0.2
    plan = [row(0, None, "Aggregate", 1), row(1, 0, "  Seq Scan on o", 1000, 10), row(2, 1, "    Seq Scan on i", 10, 100, plan_blocks=5, shared_hit=50)]
    plan[2]["loops"] = 10
    assert share(plan).share < 0.1


def test_statements_of_functions_are_not_mixed_with_their_caller():
    rows = [row(0, None, "Result", 1), row(0, None, "Aggregate", 1), row(1, 0, "  Seq Scan on t", 10, 5), row(1, 0, "  Seq Scan on t", 10, 5, pid=9, leader=8)]
    assert by_leader(rows) == {1: [rows[0]]}


def test_a_pipeline_is_told_by_its_own_pace():
    """A scan whose first half took ten seconds, and that has done a tenth in each second since."""
    def look(seconds, blocks, before):
        return share([row(0, None, "Aggregate", 1), row(1, 0, "  Seq Scan on t", 1000, blocks, plan_blocks=1000, shared_read=blocks)], seconds, before)

    told = look(10.0, 500, None)
    assert told.left == pytest.approx(10, rel=0.01)
    told = look(11.0, 600, told)
    told = look(12.0, 700, told)
    assert told.left == pytest.approx(3, rel=0.02) and "Seq Scan on t by its pace" in told.how
    again = look(5.0, 200, told)
    assert again.left == pytest.approx(20, rel=0.02) and "corrected" not in again.how, "the statement began again: nothing of its last run counts"
    slower = look(13.0, 710, told)
    slower = look(16.0, 715, slower)
    assert slower.share < told.share and "corrected from" in slower.how and "slower than before" in slower.how


def test_what_runs_once_before_the_rest_is_the_pipeline_that_runs():
    """A WITH query is read by a subplan; the plan that needs both has not been called."""
    rows = [
        row(0, None, "Aggregate", 1, called=True),
        row(1, 0, "  Hash Join", 100),
        row(2, 1, "    CTE Scan on s", 100),
        row(3, 1, "    Hash", 100),
        row(4, 3, "      Seq Scan on i", 100),
        row(5, 0, "  HashAggregate", 100, called=True),
        row(6, 5, "    Seq Scan on t", 1000, 500),
    ]
    found = share(rows)
    assert found.current == "Seq Scan on t" and found.looks[-1][1] == (6, "in") and found.looks[-1][2] == pytest.approx(0.5)
    # subplans that run for each row belong to the pipeline that calls them
    rows = [row(0, None, "Aggregate", 1), row(1, 0, "  Seq Scan on o", 1000, 100, plan_blocks=100, shared_read=10), row(2, 1, "    Seq Scan on i", 10, 1000)]
    rows[2]["loops"] = 100
    top = progress.tree(rows)
    progress.reckon(top)
    parts = {node.id: progress.work_of(node) for node in top.walk()}
    running, driver, done = progress.running_pipeline(top, parts)
    assert driver == (1, "in") and done == pytest.approx(0.1) and {part.node.id for part in running} == {0, 1, 2}


def timed(node, parent, label, rows, total_ms, called=None):
    return {**row(node, parent, label, 1000, rows, called), "total_ms": total_ms}


def test_nodes_that_have_not_returned_have_times():
    plan = [
        timed(0, None, "Aggregate", 0, 0.0),
        timed(1, 0, "  Hash Join", 500, 7000.0),
        timed(2, 1, "    Seq Scan on a", 500, 4000.0),
        timed(3, 1, "    Hash", 1, 1000.0),
    ]
    top = progress.tree(plan)
    progress.clock(top, 10000)
    assert (top.elapsed_ms, top.own_ms) == (10000, 3000) and (top.children[0].elapsed_ms, top.children[0].own_ms) == (7000, 2000)
    plan = [
        timed(0, None, "Sort", 0, 0.0),
        timed(1, 0, "  Hash Join", 0, 0.0),
        timed(2, 1, "    Seq Scan on a", 0, 0.0),
        timed(3, 1, "    Hash", 0, 0.0, True),
        timed(4, 3, "      Seq Scan on b", 500, 4000.0),
    ]
    top = progress.tree(plan)
    progress.clock(top, 9000)
    scan, built = top.children[0].children
    assert (top.elapsed_ms, top.own_ms, built.elapsed_ms, built.own_ms, scan.elapsed_ms) == (9000, 0, 9000, 5000, 0)


def test_times_that_are_unknown_are_not_shown():
    """A node has returned rows, and is in a later call, as is the node that it called: it is unknown since when."""
    plan = [timed(0, None, "Append", 100, 500.0), timed(1, 0, "  Seq Scan on a", 100, 400.0), timed(2, 0, "  Sort", 0, 0.0, True)]
    top = progress.tree(plan)
    progress.clock(top, 9000)
    assert top.elapsed_ms == 500 and top.children[1].elapsed_ms is None
    rows = [row(0, None, "Aggregate", 1), row(1, 0, "  Seq Scan on a", 10, 5)]
    top = progress.tree(rows)
    progress.clock(top, 9000)
    assert top.elapsed_ms is None, "the statement is not timed"
    annotated = progress.tree(plan)
    progress.clock(annotated, 9000)
    progress.annotate(plan, annotated)
    assert [one["elapsed_ms"] for one in plan] == [500, 400, None] and plan[2]["own_ms"] is None


def test_statements_of_functions_belong_to_their_caller():
    inner, outer = [row(0, None, "Seq Scan on i", 10, 5, queryid=7)], [row(0, None, "Seq Scan on o", 10, 5, queryid=8)]
    own = by_leader(inner + outer, {1: 8})
    assert of_functions(inner + outer, own) == {1: [inner]}
    assert of_functions(inner, by_leader(inner, {1: 8})) == {1: [inner]}, "what was asked for has no plan"
    assert of_functions(outer, by_leader(outer, {1: 8})) == {}


def test_durations_are_short():
    assert [screen.duration(s) for s in (None, 0.04, 59.9, 61, 3599, 7200, 1e6)] == ["", "0.0 s", "59.9 s", "1:01", "59:59", "2.0 h", "12 d"]
    assert [screen.short(n) for n in (0, 999, 1000, 12345, 999999, 1e6, 2.5e9)] == ["0", "999", "1.0k", "12.3k", "1.0M", "1.0M", "2.5G"]
    assert screen.bar(0.5) == "█████     " and screen.bar(None).strip() == "" and len(screen.bar(0.333)) == 10 and screen.bar(1.0) == "█" * 10


@pytest.fixture(scope="module")
def server():
    """A server whose statements all run with instrumentation."""
    cluster = profiling_cluster()
    cluster.settings["light_explain.history_interval"] = "1d"  # it ends at no quarter of an hour
    with hostile(cluster):
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE work.big AS SELECT g AS id FROM generate_series(1, 1000000) g")
            conn.execute("ANALYZE big")
            conn.execute("CREATE TABLE work.small AS SELECT g AS id FROM generate_series(1, 200000) g")
        yield cluster


@contextlib.contextmanager
def running(server, statement, **settings):
    """The statement in a separate session, from when it is seen to run; canceled at the end."""
    conn = server.connect(**settings)

    def run():
        with contextlib.suppress(psycopg.Error):
            conn.execute(statement)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with server.connect() as watch:
            until(
                lambda: watch.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND query = %s", (conn.info.backend_pid, statement)
                ).fetchone()
            )
        yield conn.info.backend_pid
    finally:
        with server.connect() as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
        thread.join(60)
        conn.close()


def until(condition, seconds=60):
    """Wait for a condition; returns what it returned."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def test_a_running_plan_is_seen(server):
    with running(server, SLOW) as pid, server.connect() as conn:
        watch = Activity(conn)
        statement = until(lambda: next((s for s in watch.look() if s.pid == pid and s.nodes and s.rows_per_second), None))
        assert statement.node.endswith("Seq Scan on big x") and 0 < statement.share < 1
        assert statement.query == SLOW and statement.as_dict()["pid"] == pid
        assert "Seq Scan on big x" in screen.plan_text(statement).plain
        assert until(lambda: next((s for s in watch.look() if s.left), None)).left > 0


def test_a_statement_that_has_returned_no_row_is_seen(server):
    """Its scan is in its first call as long as no row passes; its progress is unknown, but it is shown."""
    nothing = "SELECT count(*) FROM big WHERE pg_sleep(0.0005) IS NULL"
    with running(server, nothing, max_parallel_workers_per_gather=0) as pid, server.connect() as conn:
        watch = Activity(conn)
        found = until(lambda: next((s for s in watch.look() if s.pid == pid and s.nodes), None))
        assert [one["label"].strip() for one in found.nodes] == ["Aggregate", "Seq Scan on big"] and found.left is None
        assert found.nodes[1]["rows"] == 0 and "too early to tell" in found.how


@pytest.mark.parametrize("kind, statement", [
    ("HashAggregate", "SELECT count(*) FROM (SELECT id FROM big GROUP BY id OFFSET 0) s WHERE pg_sleep(0.0005) IS NOT NULL"),
    ("Hash Join", "SELECT count(*) FROM (SELECT id FROM big a JOIN big b USING (id) OFFSET 0) s WHERE pg_sleep(0.0005) IS NOT NULL")])
def test_what_spills_is_seen_to_read_again(server, kind, statement):
    """The pages that tell the second phase are those of the node, while it runs."""
    with (
        running(server, statement, work_mem="64kB", enable_sort="off", enable_mergejoin="off", max_parallel_workers_per_gather=0) as pid,
        server.connect() as conn,
    ):
        watch = Activity(conn)

        def reads_again():
            top = next((progress.tree(s.nodes) for s in watch.look() if s.pid == pid and s.nodes), None)
            return next((node for node in top.walk() if node.kind == kind and 0 < node.read_again() < 1), None) if top is not None else None

        def writes(top):
            return next((node for node in top.walk() if node.kind == "HashAggregate" and not node.rows and node.temp_written > 0), None)

        if kind == "HashAggregate":
            # its call began before the statement's nodes had records
            node = until(lambda: next((writes(progress.tree(s.nodes)) for s in watch.look() if s.pid == pid and s.nodes), None), 240)
            assert node.inputs()[0].rows <= 1_000_000
        node = until(reads_again, 240)
        read, written = node.spilled_pages()
        assert 0 < read < written and node.rows > 0
        assert node.inputs()[0].rows == 1_000_000, "all of its input is there"
        found = until(lambda: next((s for s in watch.look() if s.pid == pid and "pages that it wrote to disk" in s.how), None))
        assert found.share is not None and kind in found.how


def test_elapsed_and_own_time_before_a_node_returns(server):
    with running(server, SLOW, max_parallel_workers_per_gather=0) as pid, server.connect() as conn:
        watch = Activity(conn)
        found = until(lambda: next((s for s in watch.look() if s.pid == pid and s.seconds > 1 and s.nodes), None))
        top, scan = found.nodes
        assert top["label"].endswith("Aggregate") and top["rows"] == 0 and top["elapsed_ms"] == pytest.approx(found.seconds * 1000)
        assert 0 <= top["own_ms"] < top["elapsed_ms"] and scan["elapsed_ms"] > 0 and scan["expected"] > 100_000
        assert re.search(r"\d+/\d\S* +Aggregate", screen.plan_text(found).plain)


def test_a_function_shows_what_it_runs(server):
    with server.connect() as conn:
        conn.execute(f"CREATE FUNCTION work.slow_count() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN ({SLOW}); END$$")
        try:
            with running(server, "SELECT slow_count()") as pid:
                watch = Activity(conn)
                found = until(lambda: next((s for s in watch.look() if s.pid == pid and s.inner), None))
                assert found.node.startswith("in a function: ") and found.node.endswith("Seq Scan on big x") and not found.nodes
                assert "in one of its functions" in screen.plan_text(found).plain and "Seq Scan on big x" in screen.plan_text(found).plain
        finally:
            conn.execute("DROP FUNCTION work.slow_count()")


def test_statements_without_a_plan_are_counted_with_the_reason(server, pg_lean):
    with running(server, "SELECT pg_sleep(600)") as pid, server.connect() as conn:
        watch = Activity(conn)
        found = until(lambda: next((s for s in watch.look() if s.pid == pid and s.seconds > 1.2), None))
        assert found.unseen == "without instrumentation or slot" and watch.unseen() == "1 without a plan: 1 without instrumentation or slot"
        done = pg_lean("top", "--dsn", server.conninfo, "--once")
        assert done.returncode == 0 and "1 without a plan" in done.stdout
        before = watch.refused.copy()
        conn.execute("EXPLAIN ANALYZE " + " UNION ALL ".join("SELECT count(*) FROM generate_series(1, 2)" for _ in range(60)))
        watch.look()
        assert sum(watch.refused.values()) == sum(before.values()) + 1 and "not seen since: too many plan nodes" in watch.unseen()
        conn.execute("CREATE ROLE stranger")
        conn.execute("SET ROLE stranger")
        strange = Activity(conn)
        strange.look()
        assert "of roles that you may not see" in strange.unseen()
        conn.execute("RESET ROLE")
        conn.execute("DROP ROLE stranger")


def test_blocks_are_told_only_where_they_are_counted(server):
    """Else a scan would stand at none of them to its end."""
    with server.connect() as conn:
        blocks = conn.execute("SELECT pg_relation_size('small') / current_setting('block_size')::int").fetchone()[0]
    for buffers, told in (("off", {None}), ("on", {float(blocks)})):
        with (
            running(
                server, f"EXPLAIN (ANALYZE, BUFFERS {buffers}) SELECT count(*) FROM small WHERE pg_sleep(0.001) IS NOT NULL", light_explain__profile=False
            ) as pid,
            server.connect() as conn,
        ):
            found = until(
                lambda: conn.execute(
                    "SELECT plan_blocks, shared_hit + shared_read FROM light_explain_progress() WHERE pid = %s AND label LIKE '%%small'", (pid,)
                ).fetchall()
            )
            assert {blocks for blocks, _ in found} == told, found
            if buffers == "on":
                until(
                    lambda: conn.execute(
                        "SELECT FROM light_explain_progress() WHERE pid = %s AND label LIKE '%%small' AND shared_hit + shared_read > 1", (pid,)
                    ).fetchall()
                )


def test_who_blocks_whom_is_seen(server, pg_lean):
    with server.connect() as owner, owner.transaction():
        owner.execute("LOCK TABLE work.big IN ACCESS EXCLUSIVE MODE")
        with running(server, "SELECT count(*) FROM big") as pid, server.connect() as conn:
            until(lambda: conn.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", (pid,)).fetchone())
            done = pg_lean("top", "--dsn", server.conninfo, "--once", "--json")
            assert done.returncode == 0, done.stderr
            found = next(entry for entry in json.loads(done.stdout) if entry["pid"] == pid)
            assert found["blockers"] == [owner.info.backend_pid] and found["wait"].startswith("Lock:")
            assert found["lock"] == "AccessShareLock on relation work.big" and found["unseen"] == "waiting for a lock"
            done = pg_lean("top", "--dsn", server.conninfo, "--once")
            assert done.returncode == 0 and f"blocked by {owner.info.backend_pid}" in done.stdout


def test_commands_without_a_plan_are_in_the_list(server):
    with server.connect() as conn:
        conn.execute(progress.commands_query())
        watch = Activity(conn)
        conn.execute("CREATE TABLE work.wide AS SELECT g AS id, repeat(md5(g::text), 10) AS v FROM generate_series(1, 100000) g")
        conn.execute("CREATE FUNCTION work.slowly(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.001); RETURN $1; END$$")
        with running(server, "CREATE INDEX ON work.wide (work.slowly(v))") as pid:
            found = until(lambda: next((s for s in watch.look() if s.pid == pid and s.share), None))
            assert found.node.startswith("CREATE INDEX") and "server's progress view" in found.how
        conn.execute("DROP TABLE work.wide")


def test_every_command_with_a_view_of_the_server_is_in_the_list(server):
    file = f"{server.home}/rows.copy"
    slowly = dict(vacuum_cost_delay=100, vacuum_cost_limit=1)
    with server.connect() as conn:
        watch = Activity(conn)
        conn.execute("CREATE TABLE work.few AS SELECT g AS id, md5(g::text) AS v FROM generate_series(1, 5000) g")
        conn.execute("CREATE FUNCTION work.slower(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.0005); RETURN $1; END$$")
        conn.execute("CREATE INDEX few_id ON work.few (id)")
        conn.execute("CREATE INDEX ON work.few (work.slower(v))")
        conn.execute("CREATE TABLE work.taking (id int CHECK (pg_sleep(0.0005) IS NOT NULL), v text)")
        conn.execute(f"COPY (SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g) TO '{file}'")
        for statement, says, settings in (("VACUUM work.big", "VACUUM scanning heap", slowly), ("ANALYZE work.big", "ANALYZE acquiring sample rows", slowly),
                                          ("CLUSTER work.few USING few_id", "CLUSTER", {}), (f"COPY work.taking FROM '{file}'", "COPY FROM FILE", {})):
            with running(server, statement, **settings) as pid:
                found = until(lambda: next((s for s in watch.look() if s.pid == pid and s.node and s.share), None))
                assert found.node.startswith(says) and "server's progress view" in found.how, found
        conn.execute("DROP TABLE work.few, work.taking")
        conn.execute("DROP FUNCTION work.slower")
        backup = subprocess.Popen([str(server.bindir / "pg_basebackup"), "-d", server.conninfo, "-Ft", "-D", "-", "-X", "none", "--max-rate=32k", "-c", "fast"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            found = until(lambda: backup.poll() is None and next((s for s in watch.look() if s.node.startswith("BASE BACKUP streaming")), None))
            assert found.query.startswith("BASE_BACKUP") and found.how == "by the server's progress view"
        finally:
            backup.kill()
            backup.communicate()


def test_a_server_without_the_extension_says_why_plans_are_not_seen(stock, pg_lean):
    done = pg_lean("top", "--dsn", stock.conninfo, "--once")
    assert done.returncode == 0 and "CREATE EXTENSION light_explain" in done.stdout


def drive(server, script):
    """Run the screen without a terminal, 80 columns by 24 lines, and a script of keys."""
    async def go():
        app = screen.Top(UserServer(server.conninfo), 0.2)
        async with app.run_test(size=(80, 24)) as pilot:
            async def wait(condition, seconds=120):
                end = time.monotonic() + seconds
                while not condition():
                    assert time.monotonic() < end, "waited in vain"
                    await pilot.pause(0.05)
            await script(app, pilot, wait)
    asyncio.run(go())


def test_keys_of_the_screen(server):
    async def script(app, pilot, wait):
        await wait(lambda: any(s.pid == pid and s.nodes for s in app.statements))
        await pilot.press("s")
        await wait(lambda: app.order == "left")
        await pilot.press("p")
        await wait(lambda: app.paused)
        await pilot.press("p", "slash", *"nothing like it", "enter")
        await wait(lambda: not app.shown())
        await pilot.press("slash", *["backspace"] * 20, "enter")
        await wait(lambda: app.shown())
        await pilot.press("enter")
        await wait(lambda: isinstance(app.screen, screen.Plan))
        await wait(lambda: "Seq Scan on big x" in str(app.screen.query_one("#plan").render()))
        await pilot.press("escape")
        await wait(lambda: not isinstance(app.screen, screen.Plan))
        await pilot.press("c")
        await wait(lambda: isinstance(app.screen, screen.Question))
        await pilot.press("n")
        await wait(lambda: not isinstance(app.screen, screen.Question))
        assert any(s.pid == pid for s in app.watch.look()), "no is no"
        await pilot.press("c")
        await wait(lambda: isinstance(app.screen, screen.Question))
        await pilot.press("y")
        await wait(lambda: not any(s.pid == pid for s in app.statements))

    with running(server, SLOW) as pid:
        drive(server, script)


def test_the_screen_outlives_a_restart_of_the_server(server):
    async def script(app, pilot, wait):
        await wait(lambda: app.watch is not None)
        before = app.watch
        server.restart()  # in this thread: the server ends with the thread that started it
        await wait(lambda: app.watch not in (None, before) and not app.trouble)
        with running(server, SLOW) as pid:
            await wait(lambda: any(s.pid == pid for s in app.statements))
    drive(server, script)


def test_a_server_that_does_not_answer_is_told(server):
    async def script(app, pilot, wait):
        await wait(lambda: app.watch is not None and app.asked_at is None)
        backend = app.watch.conn.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        try:
            await wait(lambda: app.trouble.startswith("no answer for"))
            assert sum(not worker.is_finished for worker in app.workers) <= 1, "questions pile up"
            await pilot.press("s")
            await wait(lambda: app.order == "left")  # the keys work meanwhile
        finally:
            os.kill(backend, signal.SIGCONT)
        await wait(lambda: not app.trouble)
    drive(server, script)


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_in_a_terminal_of_80_by_24(server, tmp_path, environment):
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux here")
    socket = str(tmp_path / "tmux")

    def tmux(*args):
        return subprocess.run(["tmux", "-S", socket, "-f", "/dev/null", *args], capture_output=True, text=True, timeout=60)

    def says(text):
        return until(lambda: text in tmux("capture-pane", "-p").stdout)

    with running(server, SLOW) as pid:
        begun = tmux(
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            *[part for name, value in {"LC_ALL": "C.UTF-8", **environment}.items() for part in ("-e", f"{name}={value}")],
            sys.executable,
            "-m",
            "pg_lean",
            "top",
            "--dsn",
            server.conninfo,
            "--every",
            "0.3",
        )
        if begun.returncode != 0:
            pytest.skip(f"tmux does not start here: {begun.stderr}")
        try:
            says(str(pid))
            says("SELECT count(*)")
            tmux("send-keys", "Enter")
            says("Seq Scan on big x")
            tmux("send-keys", "Escape")
            says("statements, by for")
            tmux("send-keys", "q")
            until(lambda: tmux("has-session").returncode != 0)
        finally:
            tmux("kill-server")


def test_a_closed_pipe_ends_it_quietly(server):
    command = f"exec {sys.executable} -m pg_lean top --once --json --dsn '{server.conninfo}'"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; ({command}) | head -c 0; exit 0"], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr


def test_waits_are_told_in_few_letters():
    def doing(wait, **more):
        return screen.doing(Statement(1, "d", "u", 1.0, "q", wait=wait, node="Sort", **more))

    assert [doing(wait) for wait in ("", "Timeout:PgSleep", "Lock:relation", "IPC:BgWorkerShutdown")] == ["Sort", "PgSleep Sort", "Lock:relation Sort", "Sort"]
    assert doing("Lock:relation", blockers=[7]) == "blocked by 7"
    assert doing("Lock:relation", blockers=[7], lock="ShareLock on transactionid 5") == "blocked by 7 (ShareLock on transactionid 5)"


def test_an_answer_while_the_screen_of_a_plan_is_closed(server):
    async def script(app, pilot, _wait):
        await app.push_screen(screen.Plan(1))
        app.take([], "", "")
        assert "runs no statement" in str(app.screen.query_one("#head").render())
        await app.screen.query_one("#head").remove()
        app.take([], "", "")
    drive(server, script)


def test_answers_while_the_application_ends(server):
    """In each turn of the event loop, from the last in which it runs to the one in which no screen is left."""
    turns = []

    async def answers(app):
        while app.is_running:
            await asyncio.sleep(0)
        while app.screen_stack:
            turns.append(len(app.screen_stack[0].query("DataTable, #status")))
            app.take([], "", "")
            app.look()
            await asyncio.sleep(0)

    async def script(app, pilot, _wait):
        ended.append(asyncio.create_task(answers(app)))

    ended = []
    drive(server, script)
    assert ended[0].done() and ended[0].exception() is None
    assert turns[0] == 2 and 0 in turns


@pytest.mark.slow
def test_pictures_show_what_runs_and_fetch_nothing(tmp_path):
    if not Cluster(name="test").has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    found = {path.name: path.read_text().replace("&#160;", " ") for path in scenes.take(tmp_path / "scenes", rows=100_000)}
    for scheme in scenes.SCHEMES:
        assert "blocked by" in found[f"top-{scheme}.svg"] and "CREATE INDEX" in found[f"top-{scheme}.svg"]
        assert "Seq Scan on sale" in found[f"plan-{scheme}.svg"] and "Hash Join" in found[f"flame-{scheme}.svg"]
        assert "PgSleep" in found[f"waits-{scheme}.svg"] and "transactionid" in found[f"waits-{scheme}.svg"]
    for name in ("top", "plan", "flame", "waits"):
        assert found[f"{name}-light.svg"] != found[f"{name}-dark.svg"]
    for name, text in found.items():
        assert not re.findall(r"https?://(?!www\.w3\.org/)[^\s\"]+", text), name
        assert (TOP / "docs" / "scenes" / name).exists(), f"{name} is not in docs/scenes: make scenes"
