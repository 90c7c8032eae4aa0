"""The tracer's parsing, its program, and its counters, without a kernel that has to play along."""

from __future__ import annotations

import io
import os
from types import SimpleNamespace

import pytest

from pg_lean import trace
from pg_lean.errors import LabError, Unavailable


def kernel(output: str) -> trace.KernelTrace:
    """A tracer whose bpftrace has already said all this."""
    tracer = trace.KernelTrace.__new__(trace.KernelTrace)
    tracer.process = SimpleNamespace(stdout=io.StringIO(output), poll=lambda: 0, kill=lambda: None)
    return tracer


def test_statements_are_put_together() -> None:
    output = """@@begin SELECT 1
@@text
@@end 0 0 0 0 0 0 5000
@@idle
@@begin INSERT INTO t
SELECT 2
@@text
@@end 1 1 1000 0 0 0 2000
@@begin INSERT INTO t
SELECT 2
@@text
@@end 2 65 3000 4 4 6000 18000
@@idle
@@begin BEGIN
@@text
@@end 0 0 0 0 0 0 1000
@@begin COMMIT
@@text
@@end 0 0 0 0 0 0 1000
@@idle
"""
    found = list(kernel(output).statements())
    assert [s.query for s in found] == ["SELECT 1", "INSERT INTO t\nSELECT 2", "BEGIN", "COMMIT"]
    insert = found[1]
    assert (insert.extends, insert.extended_pages, insert.extend_us) == (3, 66, 4.0)
    assert (insert.writes, insert.written_pages, insert.write_us, insert.total_us) == (4, 4, 6.0, 20.0)
    assert insert.share() == pytest.approx(0.5)
    assert kernel(output).wait_for("INSERT").extends == 3


def test_end_of_bpftrace_is_an_answer() -> None:
    with pytest.raises(Unavailable):
        kernel("@@begin SELECT 1\n@@text\n").wait_for("INSERT")


def test_no_such_process() -> None:
    with pytest.raises(LabError):
        trace.executable_of(2 ** 22 + 12345)


def test_program_wants_a_server() -> None:
    with pytest.raises(Unavailable, match="does not export"):
        trace.program(os.getpid())


def test_counters_by_version() -> None:
    with pytest.raises(Unavailable, match="15"):
        trace.counters_query(150000)
    assert "pg_stat_get_backend_io" in trace.counters_query(180001)
    assert "pg_stat_io" in trace.counters_query(160004)


def test_difference_of_counters() -> None:
    found = trace.between("q", (1, 10, 1.0, 2, 20, None), (4, 74, 1.5, 2, 20, None), timed=True)
    assert (found.extends, found.extended_pages, found.extend_us, found.writes, found.write_us) == (3, 64, 500.0, 0, 0.0)
    assert trace.between("q", (0,) * 6, (0,) * 6, timed=False).share() is None
