"""What the lab's tests share: one private server a session, and a way to run the command as a user does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pg_lean import cli
from pg_lean.cluster import Cluster
from pg_lean.paths import SERVER_DIR


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


@pytest.fixture
def pg_lean(tmp_path):
    """Run pg-lean with its results below tmp_path; returns the finished process."""
    def run(*args, timeout=300, **env):
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
