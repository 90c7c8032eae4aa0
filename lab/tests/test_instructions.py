"""Counting instructions: the cost of measuring shows in the counts, whatever else the machine does."""

import json
import shutil

import pytest

from pg_lean.cluster import Cluster
from pg_lean.commands import instructions

#: Enough that the 70,000 instructions of EXPLAIN itself are the smaller part of the difference.
ROWS = 5000


def need(*libraries: str) -> None:
    """Skip a test without Valgrind, or without these libraries."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    if missing := [name for name in libraries if not Cluster().has_library(name)]:
        pytest.skip(f"{', '.join(missing)}: not installed for this server (make install)")


@pytest.mark.slow
def test_the_way_of_measuring_shows_in_the_counts(pg_lean):
    need(*instructions.OURS, "auto_explain")
    done = pg_lean("instructions", "--setup", f"CREATE TABLE t AS SELECT generate_series(1, {ROWS}) AS a; VACUUM ANALYZE t",
                   "--statement", "SELECT count(*) FROM t", "--rows", str(ROWS), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {row["way"]: row for row in json.loads(done.stdout)}
    assert [*found, instructions.LIBRARY] == list(instructions.WAYS)
    for way, row in found.items():
        assert row["plain"] > 50 * ROWS, "the scan's own work is in every count"
        assert row["light_explain"] < row["plain"] + 60 * ROWS, f"{way}: what the first session reads is in no count"
        assert row["light_explain"] > row["plain"] + ROWS, f"{way}: a call that is measured takes more"
        if "core" in row:
            assert row["core"] > row["light_explain"] + 20 * ROWS, f"{way}: the server's way takes many more"
    assert found["EXPLAIN ANALYZE"]["locks"] == 0
    assert 0.9 <= found["profile"]["locks"] < 3, "the lock of the statement's plan, and below Valgrind those of plans that take long enough to be kept"
    assert found["auto_explain"]["plain"] == pytest.approx(found["profile"]["plain"], rel=0.02), "the same statement"


@pytest.mark.slow
def test_a_library_that_a_statement_does_not_use_costs_it_little(pg_lean):
    need(*instructions.OURS, "auto_explain")
    done = pg_lean("instructions", "--ways", instructions.LIBRARY, "--case", "pgbench", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [row["case"] for row in found] == ["pgbench -S", "pgbench -S -M prepared"]
    for row in found:
        assert row["plain"] < row[instructions.LIBRARY] < 1.01 * row["plain"]


def over_toast(pg_lean, sizes: str) -> dict[str, float]:
    """Instructions of an UPDATE that replaces a value of these lengths, over those in TOAST, by change."""
    need("appendable_bytea")
    done = pg_lean("instructions", "--replaced", sizes, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return {row["change"]: row["pg_lean / stock lz4"] for row in json.loads(done.stdout)}


@pytest.mark.slow
def test_a_short_value_that_replaces_another_takes_little_more_than_in_toast(pg_lean):
    found = over_toast(pg_lean, "7000,30000")
    assert found["7 kB, all new"] < 1.15, "little of the old value is read to see that it has nothing of the new one"
    assert found["7 kB, another title"] < 1.13 and found["7 kB, unchanged"] < 0.72 and found["7 kB, an exchange of 5 kB added"] < 0.25
    assert found["30 kB, all new"] < 1.04 and found["30 kB, another title"] < 0.86
    assert found["30 kB, unchanged"] < 0.5 and found["30 kB, an exchange of 5 kB added"] < 0.25


@pytest.mark.slow
def test_looking_for_what_moved_takes_bounded_time(pg_lean):
    found = over_toast(pg_lean, "300000")
    assert found["300 kB, an exchange of 5 kB added"] < 0.5 and found["300 kB, all new"] < 1
    assert found["300 kB, in another order"] < 2, "with a budget of twice the lengths it is 4"


@pytest.mark.slow
def test_what_followers_need_costs_tables_that_have_it(pg_lean):
    need("appendable_bytea")
    done = pg_lean("instructions", "--appended", "200", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(done.stdout)
    assert row.pop("append") == "200 bytes"
    plain = row.pop("no trigger")
    assert row.keys() == {name for name in instructions.FOLLOWED if name}
    assert 50_000 < plain < min(row.values()), "a trigger is more work than none"


def test_where_nothing_counts_it_says_so(pg_lean_here, monkeypatch):
    monkeypatch.setattr(instructions.shutil, "which", lambda _program: None)
    status, _out, err = pg_lean_here("instructions")
    assert status == 1 and "valgrind is not installed" in err


def test_locks_are_those_that_light_explain_acquires():
    written = """ob=(1) /usr/lib/postgresql/15/lib/light_explain.so
fn=(1) light_profile_merge
cob=(2) /usr/lib/postgresql/15/bin/postgres
cfn=(2) LWLockAcquire
calls=3 0
16 90
fn=(3) light_now
cob=(2)
cfn=(4) LWLockRelease
calls=3 0
16 30
ob=(2)
fn=(5) ReadBuffer
cfn=(2)
calls=70 0
16 700
ob=(1)
fn=(1)
cob=(2)
cfn=(6) LWLockConditionalAcquire
calls=2 0
16 20
totals: 840
"""
    assert instructions.locks(written) == 5


def test_kinds_of_sessions_that_are_left_out(monkeypatch):
    """A benchmark that compares two servers needs one kind of session on each."""
    sessions = []

    class Private:
        data = instructions.Path("/nowhere/data")

        def restart(self):
            pass

    def counted(_cluster, options, _case, _step, times):
        sessions.append((options, times))
        return instructions.Counts(1000 + 10 * times, times)

    monkeypatch.setattr(instructions, "session", counted)
    case = instructions.of_statement("SELECT 1", instructions.ACCOUNTS)
    ((_, found),) = instructions.count(Private(), "profile", [case], instructions.Console(quiet=True), ("light_explain",))
    assert found == {"light_explain": 10.0, "locks": 1.0}
    profiled = instructions.PROFILED["light_explain"]
    assert sessions == [("", 2), (profiled, 1), (profiled, 1), (profiled, 2)]
    ((_, found),) = instructions.count(Private(), "profile", [case], instructions.Console(quiet=True))
    assert found == {"plain": 10.0, "light_explain": 10.0, "locks": 1.0}


def test_one_choice_of_statements(pg_lean_here):
    status, _out, err = pg_lean_here("instructions", "--analytic", "--battery", "all")
    assert status == 1 and "exclude each other" in err
