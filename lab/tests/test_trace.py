"""The tracer's parsing, its program, and its counters; with the kernel's probes if root, bpftrace and the kernel allow them, and its messages otherwise."""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
from types import SimpleNamespace
from typing import Iterator

import psycopg
import pytest

from conftest import hostile
from pg_lean import trace
from pg_lean.cluster import Cluster
from pg_lean.errors import LabError, Unavailable


def kernel(output: str) -> trace.KernelTrace:
    """A tracer whose bpftrace has already said all this."""
    tracer = trace.KernelTrace.__new__(trace.KernelTrace)
    tracer.process = SimpleNamespace(stdout=io.StringIO(output), poll=lambda: 0, kill=lambda: None)
    return tracer


@contextlib.contextmanager
def loading(conn: psycopg.Connection) -> Iterator[None]:
    """A session that fills a temporary table repeatedly."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.3):
            conn.execute("CREATE TEMP TABLE IF NOT EXISTS t (g int, v text)")
            conn.execute("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_statements_are_put_together() -> None:
    output = """@@begin SELECT 1
@@text
@@end 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5000
@@idle
@@begin INSERT INTO t
SELECT 2
@@text
@@end 1 1 1000 0 0 0 0 0 0 0 0 0 0 0 0 2000
@@begin INSERT INTO t
SELECT 2
@@text
@@end 2 65 3000 4 4 6000 3 60000 2000 1 0 500 1 0 9000 18000
@@idle
@@begin BEGIN
@@text
@@end 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1000
@@begin COMMIT
@@text
@@end 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1000
@@idle
"""
    found = list(kernel(output).statements())
    assert [s.query for s in found] == ["SELECT 1", "INSERT INTO t\nSELECT 2", "BEGIN", "COMMIT"]
    insert = found[1]
    assert (insert.extends, insert.extended_pages, insert.extend_us) == (3, 66, 4.0)
    assert (insert.writes, insert.written_pages, insert.write_us, insert.total_us) == (4, 4, 6.0, 20.0)
    assert (insert.appends, insert.appended_bytes, insert.append_us, insert.shares, insert.share_us, insert.loads, insert.load_us) == (
        3,
        60000,
        2.0,
        1,
        0.5,
        1,
        9.0,
    )
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


@pytest.fixture(scope="module")
def server():
    """A private server with the libraries that a session is traced in."""
    cluster = Cluster(name="test", preload=["parallel_temp", "appendable_bytea"], settings={"track_io_timing": "on"}, extension_schema="work")
    if not all(map(cluster.has_library, ("parallel_temp", "appendable_bytea"))):
        pytest.skip("the extensions are not installed for this server (make install)")
    with hostile(cluster):
        yield cluster


def test_probes_are_on_what_the_libraries_export(server):
    with server.connect() as conn:
        pid = conn.info.backend_pid
        text = trace.program(pid)
    for function in (
        "mdextend",
        "pgstat_report_activity",
        "pt_relfile_append",
        "pt_share_begin",
        "pt_load_begin",
        "pt_load_end",
        "ab_writer_open",
        "ab_writer_put",
        "ab_writer_close",
    ):
        assert f":{function} /pid == {pid}/" in text, function
    assert text.count("{") == text.count("}") and text.count("%lld") == 3 * len(trace.KINDS) + 1


#: Statements of a session that is traced, and the events that must be seen.
TRACED = [("SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0", {}),
          ("CREATE TEMP TABLE traced AS SELECT g, repeat('x', 100) AS v FROM generate_series(1, 200000) g", {"loads": 1}),
          ("SELECT count(*), max(v) FROM traced", {"shares": 1, "extends": 0}),
          ("INSERT INTO work.traced_values SELECT repeat('x', 100000)::bytea", {"appends": 1, "appended_bytes": 100000}),
          ("UPDATE work.traced_values SET data = data || repeat('y', 5000)::bytea", {"appends": 1})]


def test_the_kernel_sees_what_a_session_does(server, pg_lean):
    """With bpftrace itself; if it is not available or is refused, the command reports that and asks the server."""
    with server.connect() as conn:
        conn.execute("CREATE TABLE work.traced_values (data appendable_bytea)")
        pid, found = conn.info.backend_pid, []
        try:
            with trace.KernelTrace(pid) as kernel:
                for statement, _ in TRACED:
                    conn.execute(statement)
                    found.append(kernel.wait_for(statement[:40]))
                pages = conn.execute("SELECT pg_relation_size('traced') / 8192").fetchone()[0]
        except Unavailable as reason:
            assert re.search("need root|not installed|cannot attach", str(reason)) and reason.hint, reason
        else:
            for (_, wanted), seen in zip(TRACED, found):
                assert {name: getattr(seen, name) for name in wanted} == wanted, seen
            assert pages <= found[1].extended_pages <= pages + 100 and 0 < found[1].load_us < found[1].total_us
            assert 5000 <= found[4].appended_bytes < 50000, "what was added, not the value"
        with loading(conn):
            told = pg_lean("trace", str(pid), "--dsn", server.conninfo, "--count", "4", timeout=120)
        conn.execute("DROP TABLE work.traced_values")
    assert told.returncode == 0, told.stderr
    assert ("with bpftrace; Ctrl-C" in told.stdout) if found else ("using the server's counters" in told.stdout), told.stdout
    assert "INSERT INTO t SELECT" in told.stdout and (not found or re.search(r"extend +count: +[\d,]+  pages: +[1-9][\d,]*  time: ", told.stdout)), told.stdout


@pytest.mark.parametrize("plain_chroot", [False, True])
def test_a_kernel_that_refuses_is_an_answer(server, tmp_path, monkeypatch, pg_lean_here, plain_chroot):
    """bpftrace says why it ended among other things; its reason is told, and the server's counters take its place.

    In a chroot whose root is no mount point, unshare fails.
    """
    if plain_chroot:
        unshare = tmp_path / "unshare"
        unshare.write_text("#!/bin/sh\necho 'unshare: cannot change root filesystem propagation: Invalid argument' >&2\nexit 1\n")
        unshare.chmod(0o755)
        monkeypatch.setattr(trace, "TRACEFS", tmp_path)
    fake = tmp_path / "bpftrace"
    fake.write_text(
        "#!/bin/sh\necho 'ERROR: Unknown error -1: could not set RLIMIT_MEMLOCK for bpftrace.'\necho 'ERROR: Could not resolve symbol: mdextend'\necho "
        "'stdin:1:2: WARNING: signs'\nexit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(trace.os, "geteuid", lambda: 0)
    monkeypatch.setattr(trace, "watch_counters", lambda *_args, **_more: iter([trace.Statement("SELECT 1", 0, 0, None, 1, 1, None)]))
    with server.connect() as conn:
        status, out, _ = pg_lean_here("trace", str(conn.info.backend_pid), "--dsn", server.conninfo)
    assert status == 0 and "bpftrace cannot attach: " in out and "using the server's counters" in out
    assert (
        trace.reason_of(["ERROR: could not set RLIMIT_MEMLOCK", "ERROR: Could not resolve symbol: mdextend", "WARNING: signs"])
        == "ERROR: Could not resolve symbol: mdextend"
    )
    if os.getuid() == 0:
        assert "Could not resolve symbol" in " ".join(out.split()) and "WARNING" not in out


def test_what_is_seen_without_probes(server):
    with server.connect() as conn, server.connect() as watch:
        counters = trace.Counters(watch, conn.info.backend_pid)
        told = "; ".join(counters.blind)
        assert "fast loads" in told and "shares" in told and "which session appended" in told
        before = counters.look()
        conn.execute("CREATE TEMP TABLE t AS SELECT g, repeat('x', 100) FROM generate_series(1, 200000) g")
        conn.execute("CREATE TABLE work.values (data appendable_bytea)")
        conn.execute("INSERT INTO work.values SELECT repeat('x', 100000)::bytea")
        conn.execute("SELECT pg_stat_force_next_flush()")
        conn.execute("SELECT 1")
        found = counters.between("q", before, counters.look(), 2)
        conn.execute("DROP TABLE work.values")
    assert found.chunks > 0 and found.workers == 2
    if server.version >= 160000:
        assert found.extends > 0 and found.extend_us is not None
    else:
        assert found.written_pages > 1000 and found.extends is None and "extensions of files" in told
    assert found.shares is None and found.loads is None and found.appends is None


def test_the_command_falls_back_and_says_what_it_cannot_see(server, pg_lean):
    with server.connect() as conn:
        with loading(conn):
            found = pg_lean("trace", str(conn.info.backend_pid), "--method", "counters", "--dsn", server.conninfo, "--count", "2", timeout=120)
    assert found.returncode == 0, found.stderr
    assert "not seen without probes: " in found.stdout and "fast loads" in found.stdout
    assert "INSERT INTO t SELECT" in found.stdout and re.search(r"write +count: +[\d,]+  pages: +[\d,]+", found.stdout), found.stdout


def test_without_bpftrace_the_counters_take_its_place(server, monkeypatch, pg_lean_here):
    """And without a server to ask, it says what to do."""
    monkeypatch.setattr(trace.shutil, "which", lambda name: None)
    with server.connect() as conn:
        status, _, err = pg_lean_here("trace", str(conn.info.backend_pid))
        assert status == 1 and ("bpftrace is not installed" in err or "need root" in err)
        monkeypatch.setattr(trace, "watch_counters", lambda *_args, **_more: iter([trace.Statement("SELECT 1", 0, 0, None, 1, 1, None)]))
        status, out, err = pg_lean_here("trace", str(conn.info.backend_pid), "--dsn", server.conninfo)
        assert status == 0 and "using the server's counters" in out and "SELECT 1" in out
        status, _, err = pg_lean_here("trace", "999999999", "--method", "counters", "--dsn", server.conninfo)
        assert status == 1 and "no process 999999999" in err


def test_counters_by_version() -> None:
    with pytest.raises(Unavailable, match="15"):
        trace.counters_query(150000)
    assert "pg_stat_get_backend_io" in trace.counters_query(180001)
    assert "pg_stat_io" in trace.counters_query(160004)


def test_difference_of_counters() -> None:
    found = trace.between("q", (1, 10, 1.0, 2, 20, None), (4, 74, 1.5, 2, 20, None), timed=True)
    assert (found.extends, found.extended_pages, found.extend_us, found.writes, found.write_us) == (3, 64, 500.0, 0, 0.0)
    assert trace.between("q", (0,) * 6, (0,) * 6, timed=False).share() is None
    reset = trace.between("q", (9, 90, 1.0, 7, 70, 1.0), (1, 90, 0.1, 8, 71, 0.0), timed=True)
    assert (reset.extends, reset.extended_pages, reset.writes, reset.written_pages) == (None, 0, 1, 1), "statistics were reset in the meantime"
    assert (reset.extend_us, reset.write_us) == (None, None)
