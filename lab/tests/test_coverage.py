"""pg-lean coverage: lines that the tests executed, counted from the files of gcovr and coverage.py."""

import json
import lzma

import pytest

from pg_lean import docs
from pg_lean.commands import coverage
from pg_lean.errors import LabError
from pg_lean.result import Result


def line(number: int, count: int, **further: bool) -> dict:
    return {"line_number": number, "count": count, "branches": [], **further}


@pytest.fixture
def collected(tmp_path):
    """What ci/coverage.sh leaves: an extension with two folders, and the lab."""
    gcov = {"files": [
        {"file": "src/show/explain.c", "lines": [line(3, 7), line(4, 0), line(5, 0), line(9, 0), line(10, 0, **{"gcovr/noncode": True})]},
        {"file": "src/guc.c", "lines": [line(1, 1), line(2, 1)]},
        {"file": "src/show/show.h", "lines": []}]}
    python = {"files": {
        "/x/pg_lean/lab/pg_lean/bench/temp.py": {"summary": {"num_statements": 4}, "missing_lines": [8]},
        "pg_lean/cli.py": {"summary": {"num_statements": 2}, "missing_lines": []},
        "pg_lean/demo/__init__.py": {"summary": {"num_statements": 0}, "missing_lines": []}}}
    folder = tmp_path / "collected"
    folder.mkdir()
    (folder / "light_explain.json").write_text(json.dumps(gcov))
    (folder / "light_explain.log").write_text("03:04:05 == testing\nPostgreSQL host: 139 passed, 2 failed\n")
    (folder / "lab.json").write_text(json.dumps(python))
    for name in ("light_explain", "lab"):
        (folder / f"{name}.revision").write_text("abc\n")
    (folder / "lab.log").write_text("....\n12 passed, 3 skipped in 4.5s\n")
    return folder


def test_lines_are_counted_by_file_and_folder(collected):
    found = coverage.result(coverage.parts(collected))
    folders, tests, files = found.blocks
    assert folders.rows == [
        ["**light_explain**", 2, 6, 3, 50.0], ["light_explain: `./`", 1, 2, 2, 100.0], ["light_explain: `show/`", 1, 4, 1, 25.0],
        ["**lab**", 2, 6, 5, 83.3], ["lab: `./`", 1, 2, 2, 100.0], ["lab: `bench/`", 1, 4, 3, 75.0]]
    assert coverage.revisions(collected) == "abc"
    assert tests.rows == [["light_explain", 139, 2], ["lab", 12, 0]]
    assert [row[0] for row in files.rows] == ["light_explain: guc.c", "light_explain: show/explain.c", "lab: bench/temp.py", "lab: cli.py"]
    assert [(row["case"], row["missed"]) for row in found.raw.rows if row["missed"]] == [("show/explain.c", "4-5 9"), ("bench/temp.py", "8")]


def test_it_is_kept_and_drawn_like_a_benchmark(collected, tmp_path, monkeypatch):
    monkeypatch.setattr(docs, "TOP", tmp_path)
    monkeypatch.setattr(docs, "RESULTS", tmp_path / "results")
    found = coverage.result(coverage.parts(collected))
    found.machine = {"server": "PostgreSQL 15.1", "measured": "2026", "pg_lean": "abc"}
    found.save(tmp_path / "build" / "bench" / "coverage")
    assert docs.keep(tmp_path / "build") == [tmp_path / "results" / "15" / "coverage"]
    assert b"show/explain.c" in lzma.decompress((tmp_path / "results" / "15" / "coverage" / "raw.csv.xz").read_bytes())
    assert Result.load(tmp_path / "results" / "15" / "coverage").summary == found.summary
    drawn = docs.figures("coverage", "Lines executed, by folder")
    assert "| **light_explain** | 2 | 6 | 3 | 50.0 |" in drawn and "explain.c" not in drawn


def test_nothing_collected_is_an_error_with_the_command(tmp_path):
    with pytest.raises(LabError, match="no coverage was collected") as error:
        coverage.parts(tmp_path)
    assert "make coverage" in error.value.hint


def test_a_log_without_a_closing_line_counts_nothing():
    assert coverage.counts("error: make failed\n") == (0, 0) and coverage.counts("1 failed in 3s") == (0, 1)
