"""What a run says of itself in results/certificate/*.json: when, where, of what, by which command."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import time
from pathlib import Path

from pg_lean.cluster import LIBRARIES, exit_on_signals
from pg_lean.paths import TOP

#: The tested code; the rest of the repository changes independently.
CODE = ("common", *LIBRARIES)
#: The C code: commits to it make a run older.
SOURCE = ("common", *(f"{library}/src" for library in LIBRARIES))


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, cwd=TOP).stdout.strip()


def git(*arguments: str) -> subprocess.CompletedProcess:
    """A command of git here; where there is no git it fails, as without a history."""
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=TOP)
    except FileNotFoundError:
        return subprocess.CompletedProcess(arguments, 127, "", "there is no git")


def about(command: str, server: str | None = None) -> dict:
    """Of a run that begins now.  server: a pg_config, or the version itself.  The commit is the last one that changed what is tried."""
    commit = git("rev-list", "-1", "HEAD", "--", *CODE).stdout.strip()
    if git("status", "--porcelain", "--", *CODE).stdout:
        commit += " with changes"
    if server and "/" in server or server == "pg_config":
        server = output(server, "--version").removeprefix("PostgreSQL ").split()[0]
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
                 platform.machine()) if Path("/proc/cpuinfo").exists() else platform.machine()
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "command": command, "commit": commit or "unknown", "server": server,
            "machine": f"{os.cpu_count()} x {model}, Linux {platform.release()}"}


def version_of(label: str) -> str:
    """The version of the server of a label, such as 18.6, or "18.6 with assertions"."""
    script = '. "$1/ci/lib.sh"; on "$2" server "$(pg_config_of "$2") --version"'
    found = output("bash", "-c", script, "version", str(TOP), label).removeprefix("PostgreSQL ").split()
    return (found[0] if found else label) + (" with assertions" if label.endswith("-assert") else "")


def made(target: str, server: str | None, *arguments: str) -> str:
    """The command that tries this again: make's target, on a server (a label or a pg_config; None: the machine's), with these arguments."""
    if server and "/" in server:
        arguments = ("--pg-config", server, *arguments)
    return (f"make {target}" + (f" LABEL={server}" if server and "/" not in server else "")
            + (f" ARGS='{' '.join(arguments)}'" if arguments else ""))


def begin(parser: argparse.ArgumentParser, chosen: str = "all random choices") -> argparse.Namespace:
    """The arguments of a run that begins now, --seed and --json among them.

    chosen: what the seed decides.  It is printed first, so that a run can be
    repeated however it ended; on a signal the servers are stopped first.
    """
    parser.add_argument("--seed", type=int, help=f"of {chosen} (default: a new one)")
    parser.add_argument("--json", type=Path, help="write what happened to this file too")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.randrange(1 << 30)
    print(f"seed {args.seed}", flush=True)
    exit_on_signals()
    return args


def write(path: Path, run: dict, result: dict) -> None:
    """Put a run's result where the certificate is drawn from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**run, **result}, indent=1) + "\n")
