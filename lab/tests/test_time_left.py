"""The benchmark of the time left counts what was not told as what it is."""

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
    assert len(raw.rows) == 9, "a moment without a look is a moment"
    assert progress.errors(raw, 0.5, 100.0) == pytest.approx([10, 100, 100]) and progress.errors(raw, 0.5, None) == pytest.approx([10])
    assert progress.errors(raw, 0.75, 100.0) == pytest.approx([10, 50, 100]) and progress.errors(raw, 0.75, None) == pytest.approx([10, 50])
    bench = Bench("progress", UserServer.__new__(UserServer), raw=raw)
    result = progress.present(bench, 1)
    assert [check.value for check in result.checks] == pytest.approx([100]) and "told at 4 of 9 moments" in result.summary
    assert [row[-1] for row in result.blocks[0].rows] == ["100%", "33%", "0%"]
    assert result.blocks[1].rows[2][1:] == ["33%", "33%", "67%"]
