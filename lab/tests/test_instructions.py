"""Counting instructions: the cost of measuring shows in the counts, whatever else the machine does."""

import json
import shutil

import pytest

from pg_lean.cluster import Cluster
from pg_lean.commands import instructions

#: Enough that the 70,000 instructions of EXPLAIN itself are the smaller part of the difference.
ROWS = 5000


@pytest.mark.slow
def test_the_way_of_measuring_shows_in_the_counts(pg_lean):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    if not all(map(Cluster().has_library, ("light_explain", "auto_explain"))):
        pytest.skip("light_explain or auto_explain is not installed for this server (make install)")
    done = pg_lean("instructions", "--setup", f"CREATE TABLE t AS SELECT generate_series(1, {ROWS}) AS a; VACUUM ANALYZE t",
                   "--statement", "SELECT count(*) FROM t", "--rows", str(ROWS), "--json", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {row["way"]: row for row in json.loads(done.stdout)}
    assert list(found) == list(instructions.WAYS)
    for way, row in found.items():
        assert row["plain"] > 50 * ROWS, "the scan's own work is in every count"
        assert row["light_explain"] < row["plain"] + 60 * ROWS, f"{way}: what the first session reads is in no count"
        assert row["light_explain"] > row["plain"] + ROWS, f"{way}: a call that is measured takes more"
        if "core" in row:
            assert row["core"] > row["light_explain"] + 20 * ROWS, f"{way}: the server's way takes many more"
    assert found["auto_explain"]["plain"] == pytest.approx(found["profile"]["plain"], rel=0.02), "the same statement"


def test_where_nothing_counts_it_says_so(pg_lean_here, monkeypatch):
    monkeypatch.setattr(instructions.shutil, "which", lambda _program: None)
    status, _out, err = pg_lean_here("instructions")
    assert status == 1 and "valgrind is not installed" in err
