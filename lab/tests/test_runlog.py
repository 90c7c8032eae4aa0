"""The run-log benchmark: every way to keep a log holds the same lines, also beside followers."""

import pytest

from pg_lean.bench import Bench
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
