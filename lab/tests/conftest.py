"""What the lab's tests share: one private server a session, and a way to run the command as a user does."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import chromium
from hostile import Hostile
from pg_lean import cli, cluster
from pg_lean.cluster import Cluster
from pg_lean.flame import Frame
from pg_lean.measure import Measurements, describe_machine
from pg_lean.paths import SERVER_DIR
from pg_lean.result import Check, Flame, Headline, Listing, Note, Plot, Result, Series, SideBySide, Table, Waits


# Hostile objects are made in one transaction, with a lock for each.
cluster.QUIET["max_locks_per_transaction"] = "512"


@pytest.fixture(scope="module")
def browser():
    """Chromium; without it, its tests are left out."""
    program = chromium.find()
    if program is None:
        pytest.skip("there is no Chromium here (Debian's package chromium)")
    opened = chromium.Chromium(program)
    try:
        opened.__enter__()
    except (EOFError, OSError) as error:
        pytest.skip(f"Chromium does not start on this machine: {error}")
    yield opened
    opened.__exit__()


@pytest.fixture(scope="session")
def stock():
    """A private server without any library of the project."""
    with Cluster(name="test") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def lean():
    """A private server with parallel_temp preloaded and its extension created."""
    cluster = Cluster(name="test", preload=["parallel_temp"])
    if not cluster.has_library("parallel_temp"):
        pytest.skip("parallel_temp is not installed for this server (make install)")
    with cluster:
        yield cluster


#: Servers whose schema public is in the hands of another role.
HOSTILE: list[Hostile] = []


@contextlib.contextmanager
def hostile(cluster):
    """Start a cluster, with objects in schema public that match the lab's queries better than the server's; after each test none was called.

    The cluster's own sessions do not look there: extensions and the tests' tables are in schema work.
    """
    with cluster:
        HOSTILE.append(Hostile(cluster))
        try:
            yield cluster
        finally:
            HOSTILE.pop()


@pytest.fixture(autouse=True)
def no_hostile_object_is_called():
    yield
    for objects in HOSTILE:
        objects.check()


def free_port():
    """A TCP port that no process listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def profiling_cluster():
    """A private server, not started, whose statements are all measured and go to light_explain's profile."""
    cluster = Cluster(name="test", preload=["light_explain"], settings={"compute_query_id": "on", "light_explain.profile": "on"}, extension_schema="work")
    if not cluster.has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    return cluster


@contextlib.contextmanager
def plans_kept_of(*statements):
    """A server that has run statements over table work.t (500 rows) and kept the plans of those that took 50 ms; role "other" sees none of them."""
    cluster = profiling_cluster()
    # this session's plans alone are kept, not those of the tests' own statements on a busy machine
    cluster.settings |= {"light_explain.plans_min_duration": "-1", "light_explain.sample_interval": "10"}
    with hostile(cluster):
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE work.t AS SELECT g AS id FROM generate_series(1, 500) g")
            conn.execute("CREATE ROLE other LOGIN")
            conn.execute("SELECT light_explain_plans_reset(), light_explain_profile_reset()")
            conn.execute("SET light_explain.plans_min_duration = '50ms'")
            for statement in statements:
                conn.execute(statement)
        yield cluster


@pytest.fixture
def pg_lean(tmp_path):
    """Run pg-lean with its results below tmp_path; returns the finished process."""
    def run(*args, timeout=1800, **env):
        return subprocess.run([sys.executable, "-m", "pg_lean", *args], capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, "PG_LEAN_BUILD": str(tmp_path), "PG_LEAN_SERVER_DIR": str(SERVER_DIR),
                                   "COLUMNS": "200", **env})
    return run


@pytest.fixture
def pg_lean_here(monkeypatch, capsys):
    """Run pg-lean inside this process, for what fails early or needs no results; returns (status, stdout, stderr)."""
    def run(*args):
        monkeypatch.setattr(sys, "argv", ["pg-lean", *args])
        monkeypatch.setattr(cli, "exit_on_signals", lambda: None)
        capsys.readouterr()
        try:
            cli.main()
            status = 0
        except SystemExit as leaving:
            status = leaving.code or 0
        return status, *capsys.readouterr()
    return run


def processes_below(folder: Path) -> list[int]:
    """Processes whose command line names this folder: servers that were not stopped."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(folder).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


SIZES = [128, 1024, 8192]


@pytest.fixture
def result():
    return make_result()


def make_result():
    """A result with one of everything that a report shows."""
    raw = Measurements()
    for size in SIZES:
        for repetition in range(7):
            raw.add("stock", repetition, size, ms=size * 0.002 + repetition)
            raw.add("pg_lean", repetition, size, ms=size * 0.001 + repetition)

    def series(name):
        found = [raw.estimate("ms", name, size) for size in SIZES]
        return Series(name, SIZES, [e.median for e in found], [e.low for e in found], [e.high for e in found])

    return Result(
        "Counting <rows>",
        "Half the time with `SET x = on`.",
        "The time of `count(*)`.",
        "Seven times & more.",
        blocks=[
            Table(
                "Times",
                ["rows", "time | stock", "time | pg_lean", "note"],
                [[size, raw.estimate("ms", "stock", size), raw.estimate("ms", "pg_lean", size), "<b>" if size == 128 else None] for size in SIZES],
                note="a note",
            ),
            Plot("Curves & lines", "rows", "ms", [series("stock"), series("pg_lean")], log_x=True, log_y=True),
            Plot("Bars", "query", "ms", [Series("stock", ["count", "join"], [3.0, 30.0]), Series("pg_lean", ["count", "join"], [1, 10])], kind="bar"),
            Note("What was left out."),
            Listing("A plan", "Seq Scan on <t>", folded=True),
            SideBySide("Two plans", [Listing("stock", "Seq Scan"), Listing("pg_lean", "Gather")]),
            Flame(
                "Flames",
                Frame("statement", 0.0, [Frame("Sort", 3.0, [Frame("Seq Scan on <t>", 5.0, notes=["7 rows"]), Frame("Materialize", 1.0)])]),
                "wide is long",
            ),
            Waits(
                "Waits",
                [("SELECT <1>", "Seq Scan on <t>", "IO:DataFileRead", 30), ("SELECT <1>", "Seq Scan on <t>", "CPU", 10), ("SELECT <1>", "Sort", "CPU", 20),
                 ("UPDATE " + "a_long_name_without_a_place_to_break_it_" * 4 + "long", "Update on " + "t" * 63, "Lock:transactionid", 60),
                 ("COMMIT", "(commit)", "IO:WALSync", 1), ("COMMIT", "(commit)", "LWLock:WALWrite", 1)],
                "bars are samples",
            ),
        ],
        headlines=[Headline("three sizes", raw.ratio_of_sums("ms", "stock", "pg_lean", SIZES), [("stock", 30.0), ("pg_lean", 16.0)])],
        checks=[Check("ratio", 0.5, "<=", 0.8), Check("speed", 2.0, ">=", 3.0, "x"), Check("nothing", float("nan"), "<=", 1)],
        name="counting",
        machine=describe_machine(),
        raw=raw,
        seconds=1.5,
    )
