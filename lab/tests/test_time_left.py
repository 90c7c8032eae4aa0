"""The benchmark of the time left counts moments without an estimate as such."""

import pytest

from pg_lean.bench import Bench, Measurements, progress
from pg_lean.cluster import UserServer


def test_what_was_not_told_is_counted(monkeypatch):
    monkeypatch.setattr(progress, "QUERIES", {"told": "", "late": "", "never seen": ""})
    raw = Measurements()
    every = [0.1 * moment for moment in range(101)]
    progress.keep(raw, "told", 0, 100.0, 110.0, [(100 + at, 1.1 * (10 - at), 0.5) for at in every])
    progress.keep(raw, "late", 0, 100.0, 110.0, [(100 + at, None if at < 6 else 0.5 * (10 - at), 0.5) for at in every])
    progress.keep(raw, "never seen", 0, 100.0, 110.0, [])
    assert len(raw.rows) == 9, "a moment without a sample is a moment"
    assert progress.errors(raw, 0.5, 100.0) == pytest.approx([10, 100, 100]) and progress.errors(raw, 0.5, None) == pytest.approx([10])
    assert progress.errors(raw, 0.75, 100.0) == pytest.approx([10, 50, 100]) and progress.errors(raw, 0.75, None) == pytest.approx([10, 50])
    bench = Bench("progress", UserServer.__new__(UserServer), raw=raw)
    result = progress.present(bench, 1, {"PACE_OF": [12.0, 102.5, 60.0]})
    assert [check.value for check in result.checks] == pytest.approx([100]) and "told at 4 of 9 moments" in result.summary
    assert [row[-1] for row in result.blocks[0].rows] == ["100%", "33%", "0%"]
    assert result.blocks[1].rows[2][1:] == ["33%", "33%", "67%"]
    assert result.blocks[2].rows == [["PACE_OF", "-88.0", "+2.5", "+10.0"]]


def test_constants_are_left_out_of_recorded_looks(monkeypatch):
    """A scan that reads its second half at twice the pace of the first."""
    monkeypatch.setattr(progress, "QUERIES", {"scan": ""})
    recording = progress.Recording("scan", 0, 100.0, 115.0)
    for tenth in range(151):
        seconds = tenth / 10
        blocks = 50 * seconds if seconds <= 10 else 500 + 100 * (seconds - 10)
        recording.looks.append((100 + seconds, seconds, [dict(
            pid=1, leader_pid=None, node=0, parent=None, label="Seq Scan on t", node_type="Seq Scan", plan_rows=1000, rows=blocks, loops=1,
            called=True, total_ms=None, shared_read=blocks, plan_blocks=1000)]))
    raw = progress.Measurements()
    recording.keep(raw)
    found, without = progress.errors(raw, 0.75, 100.0)[0], progress.ablations([recording])["PACE_OF"][2]
    assert found < without - 10, "the pace of the last part is the one that continues"
