"""The benchmark of being watched: processor time and transactions of each slice, whoever looks, and nothing left behind."""

from pathlib import Path

import pytest
from conftest import profiling_cluster
from pg_lean.bench import Bench, Options, watched
from test_top import until


def test_slices_are_counted_and_compared(monkeypatch):
    monkeypatch.setattr(watched, "LOADS", {"pgbench -S": ("-S",)})
    monkeypatch.setattr(watched, "SCREEN", 0.3)
    with profiling_cluster() as server:
        server.make_schema()
        bench = Bench("watched", server, Options(quick=True, scale=1, iterations=2))
        result = watched.run(bench)
        left = list(Path(server.sockets).glob("watched*"))
        with server.connect() as conn:
            until(lambda: conn.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchone()[0] == 1)
    rows = {way: bench.raw.select(way) for way in (*watched.WAYS, "unwatched")}
    assert [len(found) for found in rows.values()] == [2, 2, 2, 2]
    for way in watched.WAYS:
        for row in rows[way]:
            assert row["transactions"] > 0 and 0 < row["busy_us"] <= row["us"] and (row["session_ms"] > 0) == (way == "watched"), row
    for block, row in enumerate(rows["unwatched"]):
        pair = [rows[way][block]["us"] for way in ("alone", "alone again")]
        assert rows["alone"][block]["repetition"] == rows["alone again"][block]["repetition"] == block and row["us"] == pytest.approx(sum(pair) / 2)
    assert left == [] and "pgbench -S: " in result.summary and not result.checks


def test_a_process_that_is_gone_has_no_time():
    assert watched.ran(2 ** 22 + 12345) is None
