"""The run-log benchmark: every way to keep a log stores the same lines, also with followers, with a collector, and when logs are finished."""

import io

import pytest
from rich.console import Console

from pg_lean import bench as frame
from pg_lean import collecting, finished, walrecords
from pg_lean.bench import Bench, Options
from pg_lean.bench.runlog import LEAN, LINES, REWRITING, TAKEN_APART, WAYS, Case, Log, make_cases
from pg_lean.cluster import Cluster


@pytest.mark.slow
def test_every_way_keeps_the_same_lines():
    cluster = Cluster(name="test", preload=["appendable_bytea"])
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with cluster, cluster.connect() as conn:
        cluster.make_schema()
        bench = Bench("runlog", cluster)
        found = {}
        for name, way in WAYS.items():
            log = Log(bench, cluster, conn, way, writers=2)
            for case in (Case("loop", 5, ()), Case("paced", 5, (), synchronous=True, followers=1, rate=100)):
                figures = log.measure(case)
                assert figures["tps"] > 0 and (name == "no append" or figures["wal_a_byte"] > 0.5 and figures["disk_by_live"] > 1)
                found.setdefault(case.name, {})[name] = figures["live"]
            assert conn.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'follower'").fetchone() == (0,)
            if name not in ("large object", "no append"):
                assert log.ask("SELECT count(DISTINCT id) FROM {t} WHERE octet_length(data) BETWEEN 200 AND 10000") == 2
        for lives in found.values():
            assert len(set(lives.values())) == 1 and min(lives.values()) >= 2 * 5 * 200, lives


def test_a_small_effort_takes_lines_only_where_waiting_and_rewriting_is_what_takes_long():
    def lines(effort):
        writers, cases = make_cases(Bench("runlog", None, Options(effort=effort)))
        assert writers == 200 and [case.followers for case in cases] == [0, 0, 20, 20]
        loop, synchronous, followed, paced = cases
        assert {loop.lines_of(way) for way in loop.ways if way not in REWRITING} == {LINES} == {followed.lines}
        return loop.lines_of("bytea EXTERNAL"), synchronous.lines, paced.lines
    assert lines(1.0) == (LINES, LINES // 3, LINES // 15)
    assert lines(0.1) == lines(0.01) == (LINES // 3, LINES // 9, 5)
    assert make_cases(Bench("runlog", None, Options(effort=0.1)))[1][0].label("bytea EXTERNAL") == f"bytea EXTERNAL, {LINES // 3} lines each"
    assert make_cases(Bench("runlog", None, Options()))[1][0].label("bytea EXTERNAL") == "bytea EXTERNAL"


def test_steps_are_said_where_there_is_no_terminal(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=False)
    monkeypatch.setattr(frame, "SAID_EVERY", 0)
    with Bench("runlog", None, console=console).progress(3, "a closed loop") as step:
        for _ in range(3):
            step("a way")
    assert console.file.getvalue().splitlines() == ["  a closed loop ...", "  a closed loop: 1 of 3", "  a closed loop: 2 of 3"]


def test_records_belong_to_parts():
    for record, part in (
        ("Heap/INSERT+INIT", walrecords.BYTES),
        ("Btree/SPLIT_R", walrecords.ENTRIES),
        ("Heap/HOT_UPDATE", walrecords.ROW),
        ("Heap/LOCK", walrecords.ROW),
        ("Heap2/PRUNE", walrecords.PRUNING),
        ("Heap2/PRUNE_ON_ACCESS", walrecords.PRUNING),
        ("Transaction/COMMIT", walrecords.COMMIT),
        ("Heap2/VISIBLE", walrecords.OTHER),
        ("Standby/RUNNING_XACTS", walrecords.OTHER),
    ):
        assert walrecords.part(record) == part


@pytest.fixture(scope="module")
def quick():
    cluster = Cluster(name="test", preload=["appendable_bytea"])
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with cluster, cluster.connect() as conn:
        yield Bench("runlog", cluster, Options(quick=True, iterations=1), Console(quiet=True)), conn


def test_every_way_to_collect_writes_all_lines(quick):
    bench, conn = quick
    table, = collecting.measure(bench, conn, (200, 2000))
    assert [row[0] for row in table.rows] == list(collecting.WAYS)
    assert all(row["lines_per_s"] > 0 and row["wal_a_byte"] > 0.9 for row in bench.raw.select(case=collecting.CASE))


@pytest.mark.slow
def test_finished_logs_are_compared_as_they_are_kept(quick):
    bench, conn = quick
    tables, checks = finished.measure(bench, conn)
    size = {row["variant"]: row["disk"] / row["live"] for row in bench.raw.select(case=f"{finished.CASE}, size")}
    assert size[finished.COMPACTED] < 0.9 * size[finished.WHOLE] and 1 < size[finished.WHOLE] <= size[finished.GROWN]
    compaction, = bench.raw.select("compaction")
    assert compaction["chunks_after"] < compaction["chunks_before"] / 5 and compaction["wal_a_byte"] < 1
    assert len(tables[0].rows) == len(size) >= 5 and len(checks) == 3
    assert not conn.execute("SELECT to_regclass('finished_grown'), to_regclass('collected_chunkrows')").fetchone()[0]


def test_the_wal_of_a_line_is_taken_apart(quick):
    bench, conn = quick
    if not conn.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_walinspect'").fetchone():
        pytest.skip("pg_walinspect is not installed for this server")
    logs = {name: Log(bench, bench.cluster, conn, WAYS[name], writers=2) for name in TAKEN_APART}
    for log in logs.values():
        log.do(log.way.empty)
    table, = walrecords.measure(bench, conn, {name: log.line(walrecords.LENGTH) for name, log in logs.items()})
    assert [row[0] for row in table.rows] == [*walrecords.PARTS, "all"]
    wal = {row["variant"]: row for row in bench.raw.select(case=walrecords.CASE)}
    appends = walrecords.BEFORE + walrecords.LINES
    assert logs[LEAN].ask("SELECT octet_length(data) FROM {t} WHERE id = 1") == appends * walrecords.LENGTH
    for name, parts in wal.items():
        assert parts["all"] >= sum(parts[part] for part in walrecords.PARTS) and 30 < parts[walrecords.COMMIT] < 100
        assert (walrecords.LENGTH < parts[walrecords.BYTES] < 1.2 * walrecords.LENGTH) == (name != "no append")
        assert (parts[walrecords.ROW] > 50) == (name != "chunk rows")
