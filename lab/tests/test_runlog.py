"""The run-log benchmark: every way to keep a log holds the same lines, also beside followers, of a collector, and when logs are finished."""

import pytest
from rich.console import Console

from pg_lean import collecting, finished
from pg_lean.bench import Bench, Options
from pg_lean.bench.runlog import WAYS, Case, Log
from pg_lean.cluster import Cluster


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


def test_finished_logs_are_compared_as_they_are_kept(quick):
    bench, conn = quick
    tables, checks = finished.measure(bench, conn)
    size = {row["variant"]: row["disk"] / row["live"] for row in bench.raw.select(case=f"{finished.CASE}, size")}
    assert size[finished.COMPACTED] < 0.9 * size[finished.WHOLE] and 1 < size[finished.WHOLE] <= size[finished.GROWN]
    compaction, = bench.raw.select("compaction")
    assert compaction["chunks_after"] < compaction["chunks_before"] / 5 and compaction["wal_a_byte"] < 1
    assert len(tables[0].rows) == len(size) >= 5 and len(checks) == 3
    assert not conn.execute("SELECT to_regclass('finished_grown'), to_regclass('collected_chunkrows')").fetchone()[0]
