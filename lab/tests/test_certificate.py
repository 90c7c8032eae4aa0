"""docs/certificate.md says what the runs in results/certificate/ did, all of it and nothing else."""

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pg_lean.paths import TOP

sys.path.insert(0, str(TOP / "certificate"))
import all as certificate_all
import certificate
import chaos
import fuzz
import keep
import mutants
from mutations import MUTATIONS, Mutation
import record
import soak

RUN = {"date": "2026-01-02", "command": "make it", "commit": "0123456789" * 4, "server": "15.20", "machine": "2 x a processor"}


def without_counts(page: str) -> str:
    """The page without its last columns, which each commit changes."""
    return re.sub(r"\| (\d+|\?) \| (\d+ %|\?) \|$", "|", page, flags=re.M)


def test_the_pages_are_what_the_runs_give():
    assert without_counts(certificate.PAGE.read_text()) == without_counts(certificate.draw()), "run make certificate"
    assert certificate.DETAILS.read_text() == certificate.draw_details(), "run make certificate"


def test_each_kept_run_is_on_the_pages():
    page = certificate.PAGE.read_text()
    for path in certificate.RUNS.glob("*.json"):
        assert path.stem.split("-")[0] in [kind for kind, *_ in certificate.KINDS]
        run = json.loads(path.read_text())
        assert f"`{run['command']}`, {run['date']}, PostgreSQL {run['server']}" in " ".join(certificate.DETAILS.read_text().split())
        assert re.search(rf"\| `{re.escape(run['command'])}` \|.*\| {run['commit'][:10]}", page)


def in_history() -> bool:
    """Is this a clone with its history?  An archive has none, and a machine may have no git."""
    return record.git("rev-list", "--max-parents=0", "HEAD").returncode == 0


def unfounded(claims, runs=certificate.RUNS) -> list[str]:
    """The claims whose words are not in their document, or whose runs are missing, failed or too old."""
    found = []
    for document, words, names in claims:
        if words not in " ".join((TOP / document).read_text().split()):
            found.append(f"{document} does not say: {words}")
        for name in names:
            path = runs / f"{name}.json"
            if not path.exists():
                found.append(f"{document}: {words}: no run {name} is kept")
                continue
            run = json.loads(path.read_text())
            kind = name.split("-")[0]
            *_, commits, written = certificate.draw_line(kind, run)
            wrong = getattr(certificate, f"sum_{kind}", certificate.sum_kept)(run)[1]
            if commits == "?" or int(commits) > certificate.DISTANCE or int(written.split()[0]) > certificate.WRITTEN or wrong:
                found.append(f"{document}: {words}: {name} is {commits} commits old, {written} of the code are newer, {wrong} wrong")
    return found


def test_what_documents_say_was_run_was_run():
    if not in_history():
        pytest.skip("no history to count commits in")
    assert not unfounded(certificate.CLAIMS)


def test_a_claim_without_a_run_is_found(tmp_path):
    if not in_history():
        pytest.skip("no history to count commits in")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True).stdout.strip()
    first = subprocess.run(["git", "rev-list", "--max-parents=0", "HEAD"], cwd=TOP, capture_output=True, text=True).stdout.split()[0]
    run = {**RUN, "commit": head, "status": 0, "lines": ["PostgreSQL 15: 3 passed, 0 failed"]}
    assert unfounded([("README.md", "no such words", ())])
    words = ("README.md", "Managed servers", ("versions-x",))
    assert "no run" in unfounded([words], tmp_path)[0]
    for change, fine in (({}, True), ({"commit": first}, False), ({"commit": "0" * 40}, False), ({"status": 1, "lines": []}, False),
                         ({"lines": ["PostgreSQL 15: 3 passed, 1 failed"]}, False)):
        (tmp_path / "versions-x.json").write_text(json.dumps({**run, **change}))
        assert (not unfounded([words], tmp_path)) == fine, change


def test_all_runs_the_parts_that_the_code_lacks(tmp_path, monkeypatch, capsys):
    """A current one is skipped, an old one repeated, a failed one reported and the next one run."""
    monkeypatch.setattr(certificate_all, "RUNS", tmp_path)
    monkeypatch.setattr(certificate_all, "exit_on_signals", lambda: None)
    monkeypatch.setattr(certificate_all, "since", lambda commit: "0" if commit == "now" else "7")
    ran = []
    monkeypatch.setattr(
        certificate_all.subprocess, "run", lambda command, **_: ran.append(command) or subprocess.CompletedProcess(command, int(command == ["b"]))
    )
    monkeypatch.setattr(certificate_all, "parts", lambda: {"a": ["a"], "b": ["b"], "c": ["c"], "d": ["d"]})
    for name, commit in (("a", "now"), ("c", "then")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"commit": commit}))

    def run(*arguments):
        ran.clear()
        monkeypatch.setattr(sys, "argv", ["all.py", *arguments])
        return certificate_all.main()

    assert run("--list") == 0 and not ran and "7 commits since" in capsys.readouterr().out
    assert run() == 1 and ran[:-1] == [["b"], ["c"], ["d"]] and "failed: b" in capsys.readouterr().out
    assert run("a", "--again") == 0 and ran[0] == ["a"]
    with pytest.raises(SystemExit):
        run("e")


def test_the_parts_are_kinds_of_the_page_and_their_commands_exist():
    targets = set(re.findall(r"^([\w-]+):", (TOP / "Makefile").read_text(), re.M))
    for name, command in certificate_all.parts().items():
        assert name.split("-")[0] in [kind for kind, *_ in certificate.KINDS]
        words = [word for word in command if word in targets or word.startswith("ci/")]
        assert words and all(word in targets or (TOP / word).exists() for word in words), command


#: Words by which a document says that something was run; pages that describe tests which are part of the suite are not meant.
SAYS = re.compile(r"\b(was|were|is|are) (tested|tried|fuzzed|compared) (by|on|with|under)\b|print the same output|\b(found|finds) nothing\b|were caught\b")


def test_no_other_sentence_says_that_something_was_run():
    pages = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md")), *sorted(TOP.glob("*/README.md"))]
    known = " ".join(words for _, words, _ in certificate.CLAIMS)
    for page in pages:
        if page == certificate.PAGE:
            continue
        for sentence in re.split(r"(?<=[.:;])\s", " ".join(page.read_text().split())):
            match = SAYS.search(sentence)
            assert not match or match.group(0) in known or re.search(r"\d{4}-\d\d-\d\d", sentence), (
                f"{page.name}: {sentence}: no claim of certificate.py, and no date"
            )


@pytest.fixture
def page(tmp_path):
    def draw(**runs):
        for name, run in runs.items():
            (tmp_path / f"{name}.json").write_text(json.dumps({**RUN, **run}))
        return certificate.draw(tmp_path) + certificate.draw_details(tmp_path)
    return draw


def test_what_was_not_run_is_said_to_be_missing(page):
    assert page().count("No run is kept") == page().count("not run") == len(certificate.KINDS)


def test_what_went_wrong_is_on_the_page(page):
    text = page(
        chaos={
            "seed": 1,
            "minutes": 2,
            "killed": 7,
            "counts": {
                "killed: postmaster": 7,
                "values read": 9000,
                "full disks: WAL": 3,
                "full disks: temporary files": 5,
                "full disks: processes killed meanwhile": 4,
                "full disks the server did not survive": 2,
                "full disks: postmasters that waited for a startup process that was gone": 1,
            },
            "wrong": ["a value was lost\nwhere"],
        },
        mutants={
            "planted": 2,
            "caught": 1,
            "bugs": [
                {"file": "a.c", "what": "a bug", "outcome": "survived", "by": []},
                {"file": "b.c", "what": "another", "outcome": "caught", "by": ["sql/x"]},
            ],
        },
        fuzz={
            "seed": 3,
            "targets": [{"what": "bytes", "inputs": 12345, "seconds": 6, "failed": True}],
            "random_sql": [{"what": "queries", "rounds": 4, "seconds": 7, "failed": False}],
        },
        neighbours={"status": 1, "lines": ["pgaudit equal DIFFERENT"]},
    )
    assert "**wrong** | **1**" in text and "* a value was lost\n" in text and "- postmaster | 7 |" in text
    assert "disk of temporary files was full | 5 |" in text and "killed meanwhile | 4 |" in text
    assert (
        "times for which the disk of WAL was full | 3 |" in text
        and "went down of it | 2 |" in text
        and "did not notice (a fault of the server's) | 1 |" in text
        and "disk of data" not in text
    )
    assert "1 of 2 were caught" in text and "`a.c` | a bug | **survived** |" in text and "`b.c` | another | sql/x |" in text
    assert "bytes | 12,345 inputs | 6 | **failed** |" in text and "queries | 4 rounds | 7 | nothing found |" in text
    assert "pgaudit equal DIFFERENT" in text and "failed with status 1" in text
    assert text.count("commit 0123456789;") == 4


def test_what_sqlsmith_found_is_on_the_page(page):
    text = page(sqlsmith={"seed": 4, "counts": {"statements asked": 12345, "with the same rows, off and on": 678}, "wrong": ["other rows: SELECT\nmore"]})
    assert "| statements asked | 12,345 |" in text and "| **wrong** | **1** |" in text and "* other rows: SELECT\n" in text


def test_a_run_says_its_seed_and_can_be_had_again(monkeypatch, capsys):
    monkeypatch.setattr(record, "exit_on_signals", lambda: None)

    def begin(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        args = record.begin(argparse.ArgumentParser())
        assert capsys.readouterr().out == f"seed {args.seed}\n"
        return args

    assert begin().seed != begin().seed and begin().json is None
    again = begin("--seed", "0", "--json", "run.json")
    assert again.seed == 0 and again.json == Path("run.json")


@pytest.mark.parametrize("server,arguments,command", [(None, (), "make chaos KILLS=3"), ("18-assert", (), "make chaos KILLS=3 LABEL=18-assert"),
                                                      ("18", ('--only "x y"',), """make chaos KILLS=3 LABEL=18 ARGS='--only "x y"'"""),
                                                      ("/a/pg_config", (), "make chaos KILLS=3 ARGS='--pg-config /a/pg_config'")])
def test_a_run_names_the_command_that_tries_it_again(server, arguments, command):
    """A label goes where make also installs for it."""
    assert record.made("chaos KILLS=3", server, *arguments) == command
    if server is None or "/" not in server:
        shown = subprocess.run([*shlex.split(command), "-n", "-C", TOP], check=True, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""}).stdout
        assert f"ci/install.sh {server or ''}".rstrip() in [line.strip().removeprefix(f"{TOP}/") for line in shown.splitlines()]
        assert (f"--pg-config {server}" in shown) == (server is not None)


def test_what_a_server_died_of_is_told_from_what_was_done_to_it():
    full = 'PANIC:  could not write to file "x": No space left on device'
    aborted = "LOG:  server process (PID 1) was terminated by signal 6: Aborted"
    trap = 'TRAP: failed Assert("false"), File: "standby.c", Line: 1054, PID: 2'
    waited = "LOG:  RecoveryLockHash contains entry for lock no longer recorded by lock manager: xid 3 database 5 relation 6"

    def found(*lines):
        return list(chaos.deaths("\n".join(lines)))

    assert found("LOG:  client backend (PID 7) was terminated by signal 9: Killed", full, aborted, waited, trap) == []
    assert found(full, aborted, aborted) == [aborted]
    assert found(trap) == [trap] and found(waited, trap, trap) == [trap]
    other = 'TRAP: failed Assert("x"), File: "chunk.c", Line: 1, PID: 2'
    assert found(waited, other) == [other]
    assert found("PANIC:  corrupted page", aborted) == ["PANIC:  corrupted page", aborted]
    trap = 'TRAP: failed Assert("!IsTransactionOrTransactionBlock()"), File: "pgstat.c", Line: 702, PID: 28722'
    orphan = "2026-01-01 00:00:00.000 UTC [28722] FATAL:  postmaster exited during a parallel transaction"
    assert found(trap) == [trap] and found(orphan, trap) == []
    assert found(orphan.replace("28722", "28723"), trap) == [trap]
    assert found(orphan, other.replace("PID: 2", "PID: 28722")) == [other.replace("PID: 2", "PID: 28722")]
    exits, waits = "postgres: CLUSTER(proc_exit+0x1f)[0x5]", "postgres: CLUSTER(pgaio_wref_wait+0x1d)[0x5]"
    assert found(trap, exits, exits, waits) == []
    assert found(trap, exits, waits) == found(trap, exits, exits) == found(trap, exits, "2026-01-01 LOG:  other", exits, waits) == [trap]


def test_what_a_process_said_is_shown_with_its_failed_assertion():
    trap = 'TRAP: failed Assert("x"), File: "chunk.c", Line: 1, PID: 12'
    log = ["09:00 [12] LOG:  begins", "09:01 [13] LOG:  another's", "09:02 [12] ERROR:  that one", trap, "postgres: ab_one(+0x1)", "postgres: main(+0x2)"]
    assert chaos.around("\n".join(log), trap) == [log[0], *log[2:]]


def test_a_bug_is_tried_first_with_a_test_that_caught_it(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "RUNS", tmp_path)
    mutants.kept_runs.cache_clear()
    bug = Mutation("a/src/a.c", "a bug", "x", "y", ("sql/one", "sql/two", "t/003"))
    assert mutants.tries(bug) == [bug.tests, ()]
    for caught, first in (["two", "one"], "sql/one"), (["two"], "sql/two"), (["test/t/003.pl"], "t/003"):
        (tmp_path / "mutants-15.json").write_text(json.dumps({"bugs": [{"file": bug.file, "what": bug.what, "outcome": "caught", "by": caught}]}))
        mutants.kept_runs.cache_clear()
        assert mutants.tries(bug) == [(first,), bug.tests, ()]
    mutants.kept_runs.cache_clear()


@pytest.mark.parametrize("failed, passes, caught", [(["tables"], False, True), (["(hangs)"], True, True), (["(hangs)"], False, False),
                                                    (["(make: *** Error 2)"], False, False), (["(failed)", "tables"], False, True)])
def test_a_machine_that_fails_catches_no_bug(failed, passes, caught):
    class Workshop:
        planted = "a bug"

        def put(self, mutation):
            self.planted = mutation

        def test(self, extension, tests, seconds):
            assert self.planted is None and (extension, tests, seconds) == ("a", ("sql/tables",), 130)
            return passes, []

    assert mutants.is_of_the_bug(Workshop(), "a", ("sql/tables",), failed, 130) == caught


def test_only_one_run_plants_bugs(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "SERVER_DIR", tmp_path)
    first = mutants.alone()
    with pytest.raises(mutants.Broken, match="another run"):
        mutants.alone()
    first.close()
    mutants.alone().close()


def test_backends_of_the_work_tree_are_ended_without_their_postmaster(tmp_path):
    data = tmp_path / "tree" / "tmp_check" / "data"
    data.mkdir(parents=True)
    program = shutil.copy(shutil.which("sleep") or "sleep", tmp_path / "postgres")
    hangs, other = (subprocess.Popen([program, "60"], cwd=folder, start_new_session=True) for folder in (data, tmp_path))
    try:
        mutants.end_all(-1, tmp_path / "tree")
        assert hangs.wait(10) == -signal.SIGKILL and other.poll() is None
    finally:
        for process in (hangs, other):
            process.kill()
            process.wait()


def test_what_hangs_is_given_up_by_what_its_tests_took():
    assert mutants.patience(2) == 130 and mutants.patience(1000) == mutants.PATIENCE


@pytest.mark.parametrize(
    "line, counts",
    [
        ("PostgreSQL 16: 98 passed, 0 failed", True),
        ("core's suite on PostgreSQL 16: 213 passed, 1 failed", True),
        ("neighbours: 18 equal, 0 different", True),
        ("pgaudit              equal      DIFFERENT  7 hooks", True),
        ("pgaudit              not tried: why", True),
        ("minors: built for PostgreSQL 15.18, run on 15.20: 9 passed, 0 failed", True),
        ("ALTER EXTENSION UPDATE: 12 passed, 0 failed", True),
        ("scripts: pgspot 0.9 finds nothing in 4 of 4", True),
        ("1000420 looks of the sampler, 0 impossible pairs of node and wait", True),
        ("ok 1 - storage", False),
        ("21:00:00 == building", False),
    ],
)
def test_lines_that_count_are_kept(line, counts):
    assert bool(keep.COUNTS.match(line)) == counts


def test_looks_of_the_sampler_are_counted(page):
    lines = ["PostgreSQL host: 90 passed, 0 failed", "1000420 looks of the sampler, 0 impossible pairs of node and wait"]
    text = page(**{"times-15": {"status": 0, "lines": lines}})
    assert "| 90 passed, 1,000,420 looks of the sampler | 0 |" in text and lines[1] in text
    lines[1] = lines[1].replace(" 0 ", " 3 ")
    assert "| 90 passed, 1,000,420 looks of the sampler | **3** |" in page(**{"times-15": {"status": 0, "lines": lines}})


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


def test_each_function_that_fuzzes_the_protocol_is_in_the_result():
    assert set(re.findall(r"^func (Fuzz\w+)\(", (TOP / "streams" / "src" / "fuzz_test.go").read_text(), re.MULTILINE)) == set(fuzz.PROTOCOL)


def test_a_protocol_without_inputs_has_failed(monkeypatch):
    """Also if the script ended before it fuzzed, or said nothing of a function."""
    said = "FuzzToken: 5 inputs in 1 s\nFuzzJSON:  inputs in 1 s\nFuzzEvents: 7 inputs in 1 s; FAILED\n"
    monkeypatch.setattr(fuzz.subprocess, "run", lambda *_args, **_more: subprocess.CompletedProcess([], 1, said, ""))
    assert [(result["inputs"], result["failed"]) for result in fuzz.fuzz_protocol(4)] == [(5, False), (0, True), (7, True), (0, True)]


def test_changes_that_were_not_committed_are_said(page):
    assert "commit 0123456789 with changes;" in page(versions={"status": 0, "lines": [], "commit": RUN["commit"] + " with changes"})
    bug = {"file": "a.c", "what": "a bug", "outcome": "caught", "by": ["sql/x"], "commit": "abcdefghij" * 4 + " with changes"}
    assert "1 of them were tried at commit abcdefghij with changes." in page(mutants={"planted": 1, "caught": 1, "bugs": [bug]})


def test_at_least_forty_bugs_are_planted_each_another_one():
    assert len({(m.file, m.after, m.old, m.new) for m in MUTATIONS}) == len(MUTATIONS) >= 40
    for mutation in MUTATIONS:
        assert mutation.old != mutation.new and mutation.tests
        assert all(re.fullmatch(r"(sql|specs|t)/\w+", test) for test in mutation.tests)


def soaked(gain: float, starts: int = 1, noise: float = 0.0) -> list[dict]:
    """Samples of two hours a start, in which the sessions' memory gains so much an hour after the first minutes, and peaks now and then."""
    parts = []
    for start in range(starts):
        samples = []
        for minute in range(120):
            hours = 2 * start + minute / 60
            memory = 100 + (0 if minute < 15 else gain * hours) + (noise if minute % 11 == 0 else 0) - (50 if minute < 15 else 0)
            samples.append({**dict.fromkeys(soak.ENOUGH, 50.0), "hours": hours, "memory of sessions, MB": memory, "latencies, ms": {"explain": [1.0, 3.0]}})
        parts.append({"commit": RUN["commit"], "samples": samples})
    return parts


def test_what_grows_for_hours_is_found():
    assert soak.hours_of([]) == 0 and soak.hours_of(soaked(0, 3)) == pytest.approx(5.98, abs=0.01)
    assert soak.grown(soaked(0)) == soak.grown(soaked(0, noise=80.0)) == [], "caches that fill in the beginning and single peaks are no growth"
    assert "memory of sessions" in soak.grown(soaked(10))[0], "a tenth of the level"
    assert soak.grown(soaked(3)) == [] and soak.grown(soaked(3, 4)), "what a short run does not show, a long one does"
    assert soak.judged_hours(soaked(0, 3)) == pytest.approx(3 * 99 / 60, abs=0.1)
    short = [{**part, "samples": part["samples"][:40]} for part in soaked(500, 3)]
    assert soak.grown(short) == [] and soak.judged_hours(short) == 0, "a line through a few minutes follows the noise"
    first, second = soaked(0, 2)
    drifts = [{**one, "memory of sessions, MB": 100 + 20 * one["hours"]} for one in first["samples"][:60]]
    assert soak.grown([{**first, "samples": drifts}, second]) == [], "the noise of a short start is not added to hours without growth"
    one = soak.growth(soaked(10, 2), "memory of sessions, MB")
    assert one.gained == pytest.approx(10 * 2 * 100 / 60, rel=0.05) and 100 < one.level < 140 and one.least <= one.gained <= one.most


def test_noise_is_no_growth():
    """A resource that varies by half of its level: its line gains more than a tenth in many runs of two hours, which is chance."""
    name, chance = "memory of sessions, MB", random.Random(1)

    def varied(gain):
        return [{**part, "samples": [{**one, name: one[name] * (1 + chance.uniform(-0.9, 0.9))} for one in part["samples"]]} for part in soaked(gain)]
    flat = [varied(0) for _ in range(60)]
    found = [soak.growth(parts, name) for parts in flat]
    assert sum(one.gained > one.level / 10 for one in found) > 5 and sum(map(bool, map(soak.grown, flat))) <= 1
    assert sum(one.least <= 0 <= one.most for one in found) >= 57, "nearly all intervals have the true gain"
    assert sum(map(bool, map(soak.grown, (varied(120) for _ in range(10))))) == 10, "what grows by more than its level is found in spite of it"


def test_a_soak_run_is_on_the_page_and_drawn(page):
    run = {"seed": 6, "hours": 7.5, "judged": 6.2, "counts": {"values compared": 1234, "explain": 9}, "wrong": ["x\ny"], "parts": soaked(60)}
    text = page(soak=run)
    assert "7.5 hours, of which growth was judged in 6.2, 1,234 values compared" in text and "**2**" in text
    assert "* memory of sessions, MB grew by" in text and "* x\n" in text
    picture = certificate.soak_picture(run)
    assert picture.count("explain: median and 99 %") == 1 and all(name in picture for name in soak.ENOUGH)


def test_an_unfinished_part_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(certificate_all, "RUNS", tmp_path)
    monkeypatch.setattr(certificate_all, "since", lambda commit: "0")
    for unfinished, state in ((True, "unfinished"), (False, "current")):
        (tmp_path / "soak-15.json").write_text(json.dumps({"commit": "now", "unfinished": unfinished}))
        assert certificate_all.state("soak-15") == state
