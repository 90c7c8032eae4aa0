"""Nodes' shares of a statement's time by a profiler: whose code a function is, and what is compared."""

import json
import os
import shutil

import pytest

from pg_lean import profiler, shares


def test_a_function_is_its_node_s():
    program = object.__new__(profiler.Program)
    program.names = {100: "ExecScan", 200: "ExecReScanSampleScan", 300: "ExecInitSeqScan", 500: "heap_getnextslot", 600: "ExecInitAgg",
                     700: "ExecProcNodeFirst"}
    program.exported = sorted(program.names)
    program.functions = [50, 100, 200, 250, 300, 500, 550, 600, 700, 750]
    seen = {address: program.node(address + 5) for address in program.functions}
    assert seen == {50: "Scan", 100: "Scan", 200: None, 250: "Scan", 300: "Scan", 500: None, 550: "Agg", 600: "Agg", 700: None, 750: None}


def test_scans_of_a_statement_are_one():
    assert shares.by_node([("Aggregate", 1.0), ("Seq Scan", 2.0), ("Index Scan", 1.0)]) == {"Agg": 25.0, "Scan": 75.0}


def test_own_times_of_a_plan_and_how_they_are_rounded():
    def node(node_type: str, ms: float, loops: int, *plans: dict) -> dict:
        return {"Node Type": node_type, "Actual Total Time": ms, "Actual Loops": loops, "Plans": list(plans)}

    shown = shares.shown_by_core(node("Aggregate", 10.0, 1, node("Nested Loop", 8.0, 1, node("Seq Scan", 1.0, 1), node("Index Scan", 0.5, 10))))
    assert [(name, round(own, 6)) for name, own, _ in shown] == [("Aggregate", 2.0), ("Nested Loop", 2.0), ("Seq Scan", 1.0), ("Index Scan", 5.0)]
    assert round(shown[3][2], 6) == 0.005


def test_points_off_are_the_largest_difference():
    found = shares.Shares({"Agg": 30.0, "Scan": 70.0}, 1000, {})
    assert found.points_off({"Agg": 35.0, "Scan": 64.0, "Sort": 1.0}) == 6.0
    assert found.points_off({"Agg": 100.0}) == 70.0


def test_where_there_is_no_profiler_it_says_so(pg_lean_here, monkeypatch):
    monkeypatch.setattr(profiler.shutil, "which", lambda _program: None)
    status, _out, err = pg_lean_here("shares")
    assert status == 1 and "perf is not installed" in err


@pytest.mark.slow
def test_a_scan_that_returns_nothing_has_the_time(pg_lean):
    if shutil.which("perf") is None or os.geteuid() != 0:
        pytest.skip("perf is not installed, or nothing may be profiled")
    done = pg_lean("shares", "--rows", "200000", "--seconds", "2", "--runs", "3", "--case", "5,000 rows at the beginning", "--json", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)
    assert found["profiler"]["Scan"] > 90 and found["light_explain"]["Scan"] > 90 and found["points off"]["light_explain"] < 10
