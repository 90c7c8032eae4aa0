"""Run a command and keep its closing lines for the certificate.

    keep.py [--server VERSION | --label LABEL] NAME COMMAND...

NAME is that of the file in results/certificate/ and begins with the kind of run:
neighbours-15, versions-17.  Its output is passed through; the lines that count are
kept: tests that passed and failed on a server, and results with other extensions.
Ends with the command's status.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

from certificate import RUNS
from pg_lean.cluster import exit_on_signals
import record

COUNTS = re.compile(
    r"^(core's suite on PostgreSQL .*|(pg_upgrade|ALTER EXTENSION UPDATE|suites|minors|fresh|scripts|valgrind)\b.*: .*|PostgreSQL \S+.* \d+ passed, \d+ failed"
    r"|\d+ passed, \d+ failed|\d+ passed.* in [\d.]+s.*"
    r"|(Debian packages for|RPM packages|archive for PGXN|extension images for|the steps of Dockerfile)\b.*: .*"
    r"|neighbours: .*|citus: .*|\w+ +(equal|DIFFERENT|not tried).*|PostgreSQL \d+ +loaded .*"
    r"|\d+ looks of the sampler, .*)$"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name")
    parser.add_argument("--server", help="its version, if it is not the one of PG_CONFIG")
    parser.add_argument("--label", help="that server's label (ci/lib.sh), which is asked for its version")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    exit_on_signals()
    # the folder of a source is not shown
    shown = [re.sub(r"=/\S*/", "=", word) for word in args.command]
    run = record.about(" ".join(shown), args.server or args.label or os.environ.get("PG_CONFIG") or "pg_config")
    lines = []
    with subprocess.Popen(args.command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if COUNTS.match(line.rstrip()):
                lines.append(line.rstrip())
    if args.label:
        run["server"] = record.version_of(args.label)  # the command may have made that server
    record.write(RUNS / f"{args.name}.json", run, {"status": process.returncode, "lines": lines})
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
