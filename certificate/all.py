"""Run every part of the certificate that today's code lacks, and keep the results.

    all.py [--list] [--again] [PART...]

A part is one kept run (results/certificate/PART.json).  One that exists for the current
commit of the code is skipped, so that an interrupted run is resumed by starting it again;
--again repeats it.  Parts without a name given: all, in the order of PARTS.  A part whose
command fails is kept with its result, and the others are run.  --list shows what there is.
Ends with status 0 only if every part that was run succeeded, and draws the pages.

Some parts need what a machine does not have by itself, and do not exist without the variable that
names it: MIRROR_16 (an Ubuntu mirror, for PostgreSQL 16), CITUS (the archive of Citus's source). SUITES is a
folder with sources of other extensions in 15, 17 and 18, for mirrors that do not have their source packages.

Takes many hours in total; nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from certificate import PAGE, RUNS, since
from pg_lean.cluster import exit_on_signals
from pg_lean.paths import TOP


#: Samples in which no node may be seen waiting that does not.
LOOKS = 1_000_000
#: Tests of core's suite that run with caches that are discarded whenever they could be, which makes them tens of times
#: slower: temporary and toasted values, plans, cursors, subtransactions, EXPLAIN.
DISCARDING = ("test_setup temp copydml insert insert_conflict update truncate select_into transactions portals plancache prepare explain compression"
              " indirect_toast drop_if_exists")
KEEP = str(TOP / "certificate" / "run")


def kept(name: str, label: str, *command: str) -> list[str]:
    """A command whose closing lines keep.py keeps, and the label of the server that it tests."""
    return [KEEP, "keep", "--label", label, name, *command]


def tried(name: str, target: str, **variables: str) -> list[str]:
    """A command of the Makefile that writes its result itself."""
    return ["make", "-s", "-C", str(TOP), target, *(f"{key}={value}" for key, value in variables.items()), f"ARGS=--json {RUNS / name}.json"]


def parts() -> dict[str, list[str]]:
    """Every part and its command."""
    found = {}
    sixteen = ("16",) if os.environ.get("MIRROR_16") else ()
    for label in ("host", *sixteen, "17", "18", "18-assert", "19"):
        version = "15" if label == "host" else label
        found[f"versions-{version}"] = kept(f"versions-{version}", label, "ci/check.sh", label)
        # The archive does not have the source of release candidates for long.  In the suite of 18, join_hash forbids Materialize
        # and makes workers free of cost: 19 chooses a nested loop for it, whose inner Gather starts workers 30,000 times.
        # sequence and stats_import show there an LSN and an OID, which differ in any two runs.
        suite = ("env", "SUITE=18", "BUT=join_hash sequence stats_import") if label == "19" else ()
        found[f"versions-core-{version}"] = kept(f"versions-core-{version}", label, *suite, "ci/core.sh", label)
    found["versions-discard-18-assert"] = kept("versions-discard-18-assert", "18-assert", "env", f"TESTS={DISCARDING}", "ci/core.sh", "18-assert",
                                               "+debug_discard_caches = 1")
    for label in ("17", "18"):
        found[f"versions-upgrade-{label}"] = kept(f"versions-upgrade-{label}", label, "ci/upgrade.sh", label, "host")
    found["versions-upgrade-17-18"] = kept("versions-upgrade-17-18", "18", "ci/upgrade.sh", "18", "17")
    for label in ("host", "18-assert"):
        version = "15" if label == "host" else label
        found[f"times-{version}"] = kept(f"times-{version}", label, "env", f"LOOKS={LOOKS}", "SKIP_REGRESS=1",
                                         "PROVE_TESTS=test/t/013_true_shares.pl test/t/014_sampling.pl", "ci/check.sh", label, "light_explain")
    found["mutants-15"] = tried("mutants-15", "mutants")
    for label, minutes in (("15", "60"), ("18-assert", "60"), ("19", "15")):
        found[f"chaos-{label}"] = tried(f"chaos-{label}", "chaos", MINUTES=minutes, **({} if label == "15" else {"LABEL": label}))
    # eight hours in total
    for label, hours in (("15", "6"), ("18", "2")):
        found[f"soak-{label}"] = tried(f"soak-{label}", "soak", HOURS=hours, **({} if label == "15" else {"LABEL": label}))
    for label in ("15", "18"):
        found[f"power-{label}"] = tried(f"power-{label}", "power", CUTS="200", **({} if label == "15" else {"LABEL": label}))
    found["fuzz-15"] = tried("fuzz-15", "fuzz", MINUTES="60")
    # each parser of bytes that come from outside, for an hour: values with their lists of pieces, the binary form of jsonb, the profile's file, a protocol
    for name in ("value", "jsonb", "profile", "streams"):
        found[f"fuzz-15-{name}"] = tried(f"fuzz-15-{name}", "fuzz", MINUTES="60", ONLY=name)
    found["sqlsmith-15"] = tried("sqlsmith-15", "sqlsmith", MINUTES="10")
    found["tools-15"] = tried("tools-15", "tools")
    found["valgrind-18"] = kept("valgrind-18", "18-assert", "make", "-s", "valgrind")
    for label in ("host", "17", "18"):
        version = "15" if label == "host" else label
        found[f"neighbours-{version}"] = kept(f"neighbours-{version}", label, "make", "-s", "neighbours", f"LABEL={label}")
        sources = (f"SRC={os.environ['SUITES']}/{version}",) if os.environ.get("SUITES") else ()
        found[f"suites-{version}"] = kept(f"suites-{version}", label, "make", "-s", "suites", f"LABEL={label}", *sources)
    if os.environ.get("CITUS"):
        found["citus-17"] = kept("citus-17", "17", "make", "-s", "citus", f"SRC={os.environ['CITUS']}")
    found["versions-minors"] = kept("versions-minors", "host", "make", "-s", "minors")
    found["versions-arm"] = kept("versions-arm", "host", "make", "-s", "arm")
    for state, server in (("bookworm", "15 of Debian 12"), ("trixie", "17 of Debian 13"), ("noble", "16 of Ubuntu 24.04")):
        if state == "noble" and not sixteen:
            continue
        found[f"fresh-{state}"] = [KEEP, "keep", "--server", server, f"fresh-{state}", "make", "-s", "fresh", f"STATES={state}-bare"]
    found["packages-15"] = kept("packages-15", "host", "make", "-s", "packages", "container")
    found["scripts-15"] = kept("scripts-15", "host", "make", "-s", "pgspot")
    return found


def state(name: str) -> str:
    """Of a part: today's, older, unfinished (the next run continues it) or missing."""
    path = RUNS / f"{name}.json"
    if not path.exists():
        return "missing"
    run = json.loads(path.read_text())
    if run.get("unfinished"):
        return "unfinished"
    commits = since(run["commit"])
    return "current" if commits == "0" else f"{commits} commits since"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--list", action="store_true", help="show the parts and how old their runs are")
    parser.add_argument("--again", action="store_true", help="also run parts that were run for the current code")
    parser.add_argument("part", nargs="*")
    args = parser.parse_args()
    found = parts()
    for name in args.part:
        if name not in found:
            parser.error(f"no part {name}: --list shows them")
    chosen = args.part or list(found)
    if args.list:
        for name in chosen:
            print(f"{name:24} {state(name)}")
        return 0
    exit_on_signals()
    failed = []
    for name in chosen:
        if state(name) == "current" and not args.again:
            print(f"{name}: run for this code already", flush=True)
            continue
        print(f"{name}: {' '.join(found[name])}", flush=True)
        if subprocess.run(found[name], cwd=TOP).returncode != 0:
            failed.append(name)
    subprocess.run([sys.executable, str(TOP / "certificate" / "certificate.py")], check=True)
    print(f"{PAGE.relative_to(TOP)}: {'failed: ' + ', '.join(failed) if failed else 'every part that was run succeeded'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
