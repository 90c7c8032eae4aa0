"""docs/certificate.md says what the runs in results/certificate/ did, all of it and nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pg_lean.paths import TOP

sys.path.insert(0, str(TOP / "certificate"))
import certificate  # noqa: E402
import fuzz  # noqa: E402
from mutations import MUTATIONS  # noqa: E402

RUN = {"date": "2026-01-02", "command": "make it", "commit": "0123456789" * 4, "server": "15.20", "machine": "2 x a processor"}


def test_the_page_is_what_the_runs_give():
    assert certificate.PAGE.read_text() == certificate.draw(), "run make certificate"


def test_each_kept_run_is_on_the_page():
    for path in certificate.RUNS.glob("*.json"):
        assert path.stem.split("-")[0] in [kind for kind, *_ in certificate.KINDS]
        run = json.loads(path.read_text())
        assert f"`{run['command']}`, {run['date']}, PostgreSQL {run['server']}" in " ".join(certificate.PAGE.read_text().split())


@pytest.fixture
def page(tmp_path):
    def draw(**runs):
        for name, run in runs.items():
            (tmp_path / f"{name}.json").write_text(json.dumps({**RUN, **run}))
        return certificate.draw(tmp_path)
    return draw


def test_what_was_not_run_is_said_to_be_missing(page):
    assert page().count("No run is kept") == len(certificate.KINDS)


def test_what_went_wrong_is_on_the_page(page):
    text = page(chaos={"seed": 1, "minutes": 2, "killed": 7, "counts": {"killed: postmaster": 7, "values read": 9000, "full disks: WAL": 3, "full disks the server did not survive": 2}, "wrong": ["a value was lost\nwhere"]},
                mutants={"planted": 2, "caught": 1, "bugs": [{"file": "a.c", "what": "a bug", "outcome": "survived", "by": []},
                                                             {"file": "b.c", "what": "another", "outcome": "caught", "by": ["sql/x"]}]},
                fuzz={"seed": 3, "targets": [{"what": "bytes", "inputs": 12345, "seconds": 6, "failed": True}],
                      "random_sql": [{"what": "queries", "rounds": 4, "seconds": 7, "failed": False}]},
                neighbours={"status": 1, "lines": ["pgaudit equal DIFFERENT"]})
    assert "**wrong** | **1**" in text and "* a value was lost\n" in text and "- postmaster | 7 |" in text
    assert "times for which the disk of WAL was full | 3 |" in text and "went down of it | 2 |" in text and "disk of data" not in text
    assert "1 of 2 were caught" in text and "`a.c` | a bug | **survived** |" in text and "`b.c` | another | sql/x |" in text
    assert "bytes | 12,345 inputs | 6 | **failed** |" in text and "queries | 4 rounds | 7 | nothing found |" in text
    assert "pgaudit equal DIFFERENT" in text and "failed with status 1" in text
    assert text.count("commit 0123456789;") == 4


def test_a_loss_that_was_not_seen_is_on_the_page(page):
    text = page(power={"seed": 5, "wrong": ["fdatasync, cut 3: a row is gone\nwhere"], "blind": ["fsync = off"], "rounds": [
        {"name": "fdatasync", "loses": False, "cuts": 100, "counts": {"calls": 12345, "commits": 67, "values compared": 890}, "wrong": ["x"], "minutes": 1},
        {"name": "fsync = off", "loses": True, "cuts": 10, "counts": {}, "wrong": [], "minutes": 1},
        {"name": "full_page_writes = off", "loses": True, "cuts": 10, "counts": {}, "wrong": ["x", "y"], "minutes": 1}]})
    assert "| fdatasync | 12,345 | 67 | 100 | 890 | **1** |" in text and "* fdatasync, cut 3: a row is gone\n" in text
    assert "**No loss was seen with fsync = off.**" in text and "| `full_page_writes = off` | 0 | 0 | 10 | 0 | 2, as it must be |" in text


@pytest.mark.parametrize("target", fuzz.TARGETS, ids=lambda target: target.name)
def test_what_is_fuzzed_compiles_and_takes_the_inputs_that_are_kept(target, tmp_path):
    """Without libFuzzer and sanitizers: with them it is `make fuzz`."""
    pg_config = os.environ.get("PG_CONFIG") or "pg_config"
    if shutil.which("cc") is None or shutil.which(pg_config) is None:
        pytest.skip("no compiler, or no server")
    headers = subprocess.run([pg_config, "--includedir-server"], check=True, capture_output=True, text=True).stdout.strip()
    if not (Path(headers) / "postgres.h").exists():
        pytest.skip("no headers of the server")
    folder = TOP / "certificate" / "fuzz"
    subprocess.run(["cc", "-g", "-O1", "-w", "-isystem", headers, f"-I{TOP / 'common'}", f"-I{TOP / target.folder}", "-o", tmp_path / "once",
                    folder / f"{target.name}.c", folder / "once.c"], check=True)
    inputs = sorted((TOP / "certificate" / "corpus" / target.name).iterdir())
    done = subprocess.run([tmp_path / "once", *inputs], check=True, capture_output=True, text=True)
    assert inputs and done.stdout == f"{len(inputs)} inputs\n"


def test_changes_that_were_not_committed_are_said(page):
    assert "commit 0123456789 with changes;" in page(versions={"status": 0, "lines": [], "commit": RUN["commit"] + " with changes"})
    bug = {"file": "a.c", "what": "a bug", "outcome": "caught", "by": ["sql/x"], "commit": "abcdefghij" * 4 + " with changes"}
    assert "1 of them were tried at commit abcdefghij with changes." in page(mutants={"planted": 1, "caught": 1, "bugs": [bug]})


def test_at_least_forty_bugs_are_planted_each_another_one():
    assert len({(m.file, m.after, m.old, m.new) for m in MUTATIONS}) == len(MUTATIONS) >= 40
    for mutation in MUTATIONS:
        assert mutation.old != mutation.new and mutation.tests
        assert all(re.fullmatch(r"(sql|specs|t)/\w+", test) for test in mutation.tests)
