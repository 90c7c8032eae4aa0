"""Planted bugs: do the tests notice?

Each entry of mutations.py changes one line of the C code or of an SQL script.  It is built in a separate work
tree and installed into a private copy of the server, and the tests that
must fail are run: those that the entry names, then, if they pass, all regression
and isolation tests of the extension.  A bug is caught if a test fails or the server
crashes; one that passes everything has survived.  Of the named tests the one that
caught it in a run that is kept comes first, alone.  Before that each set of tests is
run once without a bug: tests that fail by themselves would catch anything.  Where no
test is known that failed (they hang, the server does not start) they must pass without
the bug again, in the same time.

    mutants.py [--check] [--only TEXT]... [--jobs N] [--json FILE [--resume]]

Ends with status 0 only if every bug was caught.  PG_CONFIG (default: pg_config of
the installed server) says which server is copied.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

import psutil
from certificate import RUNS
from mutations import MUTATIONS, Mutation

from pg_lean.cluster import LIBRARIES, exit_on_signals
from pg_lean.paths import SERVER_DIR, TOP
import record

#: The extensions, those that are in no package included.
BUILT = tuple(dict.fromkeys((*LIBRARIES, *(mutation.file.split("/")[0] for mutation in MUTATIONS if not mutation.file.startswith("common/")))))

#: Tests that take longer than this hang; whole suites on a slow machine stay well below.
PATIENCE = 900


def patience(seconds: float) -> float:
    """How long tests may take with a bug that took so long without one, on a machine that may be busier by then."""
    return min(120 + 5 * seconds, PATIENCE)

FAILED = re.compile(r"^(?:not ok \d+ +[-+] +(\S+)|test (\S+) +\.\.\. FAILED|\s+(\S+) +\.\.\. FAILED|(test/t/\S+\.pl) .*(?:Failed|dubious|Wstat))", re.I)


class Broken(Exception):
    """The list or the machine, not a test, is at fault."""


@functools.lru_cache(None)
def source(file: str) -> str:
    """A source file as it was when this run began."""
    return (TOP / file).read_text()


def place(mutation: Mutation) -> tuple[list[str], int]:
    """The lines of the mutation's file, and the number of the one that it changes."""
    lines = source(mutation.file).split("\n")
    start = 0
    if mutation.after:
        starts = [n for n, line in enumerate(lines) if line.strip() == mutation.after]
        if len(starts) != 1:
            raise Broken(f"{mutation.file}: {len(starts)} lines are '{mutation.after}'")
        start = starts[0]
    found = [n for n, line in enumerate(lines) if n >= start and line.strip() == mutation.old]
    if not found or len(found) > 1 and not mutation.after:
        raise Broken(f"{mutation.file}: {len(found)} lines are '{mutation.old}'")
    return lines, found[0]


def missing_tests(mutation: Mutation) -> list[str]:
    """Tests that it names and that are not there."""
    endings = {"sql": "sql", "specs": "spec", "t": "pl"}
    folder = TOP / mutation.file.split("/")[0] / "test"
    return [test for test in mutation.tests if not (folder / f"{test}.{endings[test.split('/')[0]]}").exists()]


@functools.lru_cache(None)
def kept_runs() -> dict[tuple[str, str], list[str]]:
    """What caught each bug (its file and description) in the runs of results/certificate/."""
    bugs = (bug for path in sorted(RUNS.glob("mutants-*.json")) for bug in json.loads(path.read_text())["bugs"])
    return {(bug["file"], bug["what"]): bug["by"] for bug in bugs if bug["outcome"] == "caught"}


def tries(mutation: Mutation) -> list[tuple[str, ...]]:
    """Sets of tests, in order: one that caught it before, all that it names, all of the extension's."""
    caught = kept_runs().get((mutation.file, mutation.what), [])
    known = [(test,) for test in mutation.tests if {test.split("/")[1], f"test/{test}.pl"} & set(caught)]
    return list(dict.fromkeys([*known[:1], mutation.tests, ()]))


def mutated(mutation: Mutation) -> str:
    """The file with its one line changed."""
    lines, n = place(mutation)
    indent = lines[n][:len(lines[n]) - len(lines[n].lstrip())]
    lines[n] = indent + mutation.new
    return "\n".join(lines)


class Workshop:
    """A copy of the C code and a copy of the server that it is built for and installed into."""

    def __init__(self, pg_config: str, number: int):
        self.name = f"mutants-{number}"
        self.user = os.environ["PG_LEAN_SERVER_USER"] if os.geteuid() == 0 else None
        self.tree = SERVER_DIR / "work" / self.name
        self.pg_config = self.copy_server(Path(pg_config))
        self.pkglibdir = Path(self.ask("--pkglibdir"))
        shutil.rmtree(self.tree, ignore_errors=True)
        for name in ("common", *BUILT):
            shutil.copytree(TOP / name, self.tree / name, ignore=shutil.ignore_patterns("*.o", "*.so", "tmp_*", "results", "log", "output_iso"))
        self.own()
        for name in BUILT:
            self.make(name, "all", "install")
        self.changed: str | None = None  # the source file that has a bug
        self.output = ""

    def copy_server(self, pg_config: Path) -> Path:
        """A server runs from any place, as long as its folders keep their places to one another."""
        def ask(option: str) -> Path:
            return Path(subprocess.run([pg_config, option], check=True, capture_output=True, text=True).stdout.strip()).resolve()

        bindir = ask("--bindir")
        copy = SERVER_DIR / "server" / self.name
        shutil.rmtree(copy, ignore_errors=True)
        match = re.fullmatch(r"(.*)/(lib/postgresql/\d+)/bin", str(bindir))
        if match is None:
            shutil.copytree(bindir.parent, copy, symlinks=True)
            return copy / "bin" / "pg_config"
        prefix, library = Path(match[1]), match[2]
        shutil.copytree(prefix / library, copy / library, symlinks=True)
        share = ask("--sharedir").relative_to(prefix)
        shutil.copytree(prefix / share, copy / share, symlinks=True)
        (copy / "include").symlink_to(prefix / "include")
        return copy / library / "bin" / "pg_config"

    def close(self) -> None:
        for folder in (self.tree, SERVER_DIR / "server" / self.name):
            shutil.rmtree(folder, ignore_errors=True)

    def ask(self, option: str) -> str:
        return subprocess.run([self.pg_config, option], check=True, capture_output=True, text=True).stdout.strip()

    def own(self) -> None:
        if self.user:
            subprocess.run(["chown", "-R", self.user, str(self.tree)], check=True)

    def make(self, extension: str, *targets: str) -> None:
        # what a bug leaves unused is no error
        done = subprocess.run(["make", "-s", "-j2", "-C", str(self.tree / extension), f"PG_CONFIG={self.pg_config}", "WERROR=", "CI=", *targets],
                              capture_output=True, text=True)
        if done.returncode:
            raise Broken(f"{extension} does not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def put(self, mutation: Mutation | None) -> None:
        """Install the code with this bug instead of the previous one; None: without a bug."""
        changed = {}
        if self.changed:
            changed[self.changed] = source(self.changed)
        if mutation:
            changed[mutation.file] = mutated(mutation)
        for file, text in changed.items():
            (self.tree / file).write_text(text)
        self.changed = mutation.file if mutation else None
        for extension in {file.split("/")[0] for file in changed}:
            self.make(extension, "all")
            # a new file, not the one that a server may still have mapped
            library = self.pkglibdir / f"{extension}.so"
            library.unlink()
            shutil.copy(self.tree / extension / f"{extension}.so", library)
        for script in (file for file in changed if file.endswith(".sql")):
            shutil.copy(self.tree / script, Path(self.ask("--sharedir")) / "extension")
        self.own()

    def test(self, extension: str, tests: tuple[str, ...], seconds: float = PATIENCE) -> tuple[bool, list[str]]:
        """Run tests ("sql/NAME", "specs/NAME", "t/NAME"; none: all but t/); whether they passed, and which failed."""
        settings = [f"PG_CONFIG={self.pg_config}"]
        if tests:
            names = {kind: [test.split("/")[1] for test in tests if test.startswith(kind + "/")] for kind in ("sql", "specs", "t")}
            settings += [f"REGRESS={' '.join(names['sql'])}", f"ISOLATION={' '.join(names['specs'])}"]
            settings += ["PROVE_TESTS=" + " ".join(f"test/t/{name}.pl" for name in names["t"])] if names["t"] else ["TAP_TESTS="]
        else:
            settings += ["TAP_TESTS="]
        command = ["make", "-s", "-C", str(self.tree / extension), *settings, "installcheck"]
        if self.user:
            command = ["setpriv", f"--reuid={self.user}", "--regid=" + subprocess.run(["id", "-g", self.user], capture_output=True, text=True).stdout.strip(),
                       "--init-groups", *command]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env={**os.environ, "HOME": "/tmp", "LC_ALL": "C.UTF-8"}, start_new_session=True)
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            end_all(process.pid, self.tree)
            process.wait()
            return False, ["(hangs)"]
        end_all(process.pid, self.tree)
        failed = [next(filter(None, match.groups())) for line in output.splitlines() if (match := FAILED.match(line))]
        if process.returncode and not failed:
            failed = ["(" + (output.strip().splitlines() or ["failed"])[-1][:120] + ")"]
        self.output = output
        return process.returncode == 0, list(dict.fromkeys(failed))


def end_all(session: int, tree: Path) -> None:
    """End what a test left: processes of its session, and servers whose data are in the work tree.

    A server process runs in its data folder.  A backend that hangs outlives its postmaster, and its command line contains no path.
    """
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session or process.name() == "postgres" and Path(process.cwd()).is_relative_to(tree.resolve()):
                process.kill()
        except (psutil.Error, OSError):
            pass


def is_of_the_bug(workshop: Workshop, extension: str, tests: tuple[str, ...], failed: list[str], seconds: float) -> bool:
    """Did tests fail of the bug, and not of the machine?  Leaves the workshop without a bug where that was asked."""
    if not all(name.startswith("(") for name in failed):
        return True
    workshop.put(None)
    return workshop.test(extension, tests, seconds)[0]


def alone() -> TextIO:
    """Another run would remove this run's folders.  The lock is released with the file."""
    (SERVER_DIR / "work").mkdir(parents=True, exist_ok=True)
    file = open(SERVER_DIR / "work" / "mutants.lock", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Broken(f"another run plants bugs in {SERVER_DIR}: set PG_LEAN_BUILD to another folder") from None
    return file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="only see that each line to change is there exactly once")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="those whose file or description holds this text")
    parser.add_argument("--jobs", type=int, default=1, help="so many at once (default 1)")
    parser.add_argument("--json", type=Path, help="write what happened to this file too")
    parser.add_argument(
        "--resume", action="store_true", help="continue from that file: bugs that were caught are not tried again, and with --only the others stay in it"
    )
    args = parser.parse_args()
    if args.resume and not args.json:
        parser.error("--resume needs --json")
    chosen = [m for m in MUTATIONS if not args.only or any(text in f"{m.file} {m.what}" for text in args.only)]
    if not chosen:
        parser.error(f"no planted bug has {' or '.join(args.only)} in its file or description")
    wrong = []
    for mutation in MUTATIONS:
        try:
            place(mutation)
        except (Broken, OSError) as error:
            wrong.append(str(error))
        wrong += [f"{mutation.file}: there is no test {test}" for test in missing_tests(mutation)]
    if wrong:
        print("\n".join(wrong))
        print(f"{len(wrong)} of {len(MUTATIONS)} do not fit the code: mutations.py has to follow it")
        return 1
    print(f"{len(MUTATIONS)} bugs fit the code")
    if args.check:
        return 0

    exit_on_signals()
    lock_file = alone()
    about = record.about("make mutants", os.environ.get("PG_CONFIG") or "pg_config")
    lock = threading.Lock()
    sound: dict[tuple[str, tuple[str, ...]], float | None] = {}  # seconds that tests take without a bug; None: they fail
    results: list[dict | None] = [None] * len(chosen)
    kept: list[dict] = []  # of an earlier run's bugs that are not chosen now
    if args.resume and args.json.exists():
        before = json.loads(args.json.read_text())
        caught_before = {(bug["file"], bug["old"], bug["new"]): {"commit": before["commit"], **bug} for bug in before["bugs"] if bug["outcome"] == "caught"}
        results = [caught_before.get((m.file, m.old, m.new)) for m in chosen]
        kept = [caught_before[m.file, m.old, m.new] for m in MUTATIONS if m not in chosen and (m.file, m.old, m.new) in caught_before]
    waiting = [n for n, result in enumerate(results) if result is None]

    def is_sound(workshop: Workshop, extension: str, tests: tuple[str, ...]) -> bool:
        """Do these tests pass without a bug?  Two workshops may both try."""
        key = (extension, tests)
        if key not in sound:
            workshop.put(None)
            took = None
            for _ in range(2):
                started = time.monotonic()
                if workshop.test(extension, tests)[0]:
                    took = time.monotonic() - started
                    break
            sound[key] = took
            if took is None:
                print(f"{extension} {' '.join(tests)} fails without a bug:\n{workshop.output[-3000:]}", flush=True)
        return sound[key] is not None

    def work(number: int) -> None:
        workshop = Workshop(shutil.which(os.environ.get("PG_CONFIG") or "pg_config"), number)
        while True:
            with lock:
                if not waiting:
                    break
                # one workshop begins at either end: their sets of tests are others
                n = waiting.pop(0 if number % 2 == 0 else -1)
            mutation = chosen[n]
            extension = mutation.file.split("/")[0]
            started = time.monotonic()
            result = {"file": mutation.file, "what": mutation.what, "old": mutation.old, "new": mutation.new, "outcome": "survived", "by": []}
            for tests in tries(mutation):
                if not is_sound(workshop, extension, tests):
                    if tests not in (mutation.tests, ()):
                        continue  # it needs what tests before it leave
                    result["outcome"] = "not tried: its tests fail without it"
                    break
                try:
                    workshop.put(mutation)
                except Broken as broken:
                    result["outcome"] = "not tried: " + str(broken)[:500]
                    break
                seconds = patience(sound[extension, tests])
                passed, failed = workshop.test(extension, tests, seconds)
                if not passed:
                    if is_of_the_bug(workshop, extension, tests, failed, seconds):
                        result["outcome"], result["by"] = "caught", failed
                    else:
                        result["outcome"] = "not tried: its tests do not end well without it either"
                    break
            result["seconds"] = round(time.monotonic() - started)
            results[n] = result
            write()
            print(f"{result['outcome']:9} {time.monotonic() - started:4.0f} s  {mutation.file}: {mutation.what}  {' '.join(result['by'][:4])}", flush=True)
        workshop.close()

    def write() -> None:
        """What is known so far: a run of an hour that is interrupted was not for nothing."""
        known = kept + [result for result in results if result is not None]
        if args.json:
            with lock:
                record.write(
                    args.json,
                    about,
                    {"listed": len(kept) + len(chosen), "planted": len(known), "caught": sum(result["outcome"] == "caught" for result in known), "bugs": known},
                )

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        try:
            for done in [pool.submit(work, number) for number in range(args.jobs)]:
                done.result()
        finally:
            waiting.clear()  # who is told to end leaves after the bug at hand
    lock_file.close()
    caught = sum(result["outcome"] == "caught" for result in results)
    print(f"{caught} of {len(results)} planted bugs caught")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as broken:
        sys.exit(f"error: {broken}")
