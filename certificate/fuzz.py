"""Random inputs, for a given time.

Most of the time goes to libFuzzer, with the address and undefined behavior
sanitizers, on code of the extensions that is compiled outside of a server
(certificate/fuzz/): the datum parser, the reader of jsonb and the difference finder of appendable_bytea, the
page reader of parallel_temp's scans, and the profile's file and the record arithmetic of light_explain.  It begins with
the inputs of certificate/corpus/, which --keep replaces by the inputs that were found.  A share as long as
one of these goes to Go's fuzzing of the protocol of streams/ (streams/src/fuzz_test.go): offsets, bodies, events, and
requests to a server with a database.  The rest goes to the generators of random SQL that the tests have, each with new
seeds until its share is over: the same statements with a feature on and off, or on
bytea and appendable_bytea.

    fuzz.py [--minutes N] [--seed N] [--only TEXT]... [--keep] [--json FILE]

Ends with status 0 only if nothing was found.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from pg_lean.paths import BUILD, SERVER_DIR, TOP
import record

HERE = Path(__file__).parent
#: So many inputs of a target are kept in the repository, the shortest.
KEPT = 50
FLAGS = ["-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined", "-Wno-everything",
         # a damaged page may point anywhere within itself; the server reads it so, too
         "-fno-sanitize=alignment"]


class Target(NamedTuple):
    name: str
    what: str
    folder: str  #: its sources' include folder
    longest: int  #: bytes of an input


class Generator(NamedTuple):
    name: str
    what: str
    extension: str
    test: str
    seconds: str | None  #: environment variable for how long, if it has one
    seed: str | None


TARGETS = (Target("value", "bytes as a value of appendable_bytea", "appendable_bytea/src", 600),
           Target("jsonb", "bytes as a jsonb of appendable_jsonb", "appendable_bytea/src", 1500),
           Target("difference", "two strings, what they have in common", "appendable_bytea/src", 4096),
           Target("page", "8 kB as a page of a temporary table", "parallel_temp/src", 8192),
           Target("profile", "bytes as a kept profile of light_explain", "light_explain/src", 4096),
           Target("usage", "calls among plan nodes, against a model", "light_explain/src", 600))
#: The protocol of streams/, in Go: its functions in streams/src/fuzz_test.go.
STREAMS = "streams"
PROTOCOL = {"FuzzToken": "offsets of streams", "FuzzJSON": "bodies of streams as JSON messages", "FuzzEvents": "appended bytes as events, read again",
            "FuzzRequest": "requests to a server of streams with a database"}
GENERATORS = (
    Generator("queries", "random queries over temporary tables, serial and parallel", "parallel_temp", "110_random_queries", None, "PG_LEAN_FUZZ_SEED"),
    Generator("loads", "random loads of temporary tables, with and without fast load", "parallel_temp", "115_random_loads", None, "PG_LEAN_FUZZ_SEED"),
    Generator("statements", "random statements on bytea and on appendable_bytea", "appendable_bytea", "007_differential", "STRESS_SECONDS", None),
)


def build(target: Target) -> Path:
    program = BUILD / "fuzz" / target.name
    program.parent.mkdir(parents=True, exist_ok=True)
    headers = subprocess.run([os.environ.get("PG_CONFIG") or "pg_config", "--includedir-server"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["clang", *FLAGS, "-isystem", headers, f"-I{TOP / 'common'}", f"-I{TOP / target.folder}", "-o", program, HERE / "fuzz" / f"{target.name}.c"],
                   check=True)
    return program


def fuzz(target: Target, seconds: int, seed: int, keep: bool) -> dict:
    """Run libFuzzer; what it did, with the input that failed if there is one."""
    program = build(target)
    found = BUILD / "fuzz" / f"{target.name}.found"
    found.mkdir(exist_ok=True)
    corpus = HERE / "corpus" / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    failure = BUILD / "fuzz" / f"{target.name}.failed"
    failure.unlink(missing_ok=True)
    done = subprocess.run([program, f"-max_total_time={seconds}", f"-max_len={target.longest}", f"-seed={seed}", "-print_final_stats=1",
                           f"-exact_artifact_path={failure}", found, corpus], capture_output=True, text=True, errors="replace")
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    if keep and done.returncode == 0:
        smallest = BUILD / "fuzz" / f"{target.name}.corpus"
        shutil.rmtree(smallest, ignore_errors=True)
        smallest.mkdir()
        subprocess.run([program, "-merge=1", f"-max_len={target.longest}", smallest, found, corpus], check=True, capture_output=True)
        shutil.rmtree(corpus)
        corpus.mkdir()
        for path in sorted(smallest.iterdir(), key=lambda path: path.stat().st_size)[:KEPT]:
            shutil.copy(path, corpus)
    result = {"name": target.name, "what": target.what, "seconds": seconds, "inputs": int(runs[1]) if runs else 0,
              "edges": int(covered[-1]) if covered else 0, "failed": done.returncode != 0}
    print(
        f"{target.name}: {result['inputs']} inputs in {seconds} s, {result['edges']} edges of code"
        + (f"; FAILED, input in {failure}" if result["failed"] else ""),
        flush=True,
    )
    if result["failed"]:
        print("\n".join(line for line in done.stderr.splitlines() if not re.match(r"#\d+\s", line))[-4000:], flush=True)
    return result


def fuzz_protocol(seconds: int) -> list[dict]:
    """Run Go's fuzzing of streams/, each of its functions for a part of the time; what they did."""
    share = max(seconds // len(PROTOCOL), 1)
    done = subprocess.run([TOP / "streams" / "test" / "run.sh"], env={**os.environ, "FUZZ": str(share)}, capture_output=True, text=True, errors="replace")
    counts = {name: (int(n or 0), bool(failed)) for name, n, failed in re.findall(r"^(Fuzz\w+): (\d*) inputs in \d+ s(; FAILED)?$", done.stdout, re.MULTILINE)}
    results = []
    for name, what in PROTOCOL.items():
        inputs, failed = counts.get(name, (0, True))
        results.append({"name": f"{STREAMS} {name}", "what": what, "seconds": share, "inputs": inputs, "failed": failed or inputs == 0})
        print(f"{name}: {inputs} inputs in {share} s" + ("; FAILED" if results[-1]["failed"] else ""), flush=True)
    if any(result["failed"] for result in results):
        print(f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}", flush=True)
    return results


def generate(generator: Generator, seconds: int, rng: random.Random) -> dict:
    """Run a test that generates random SQL repeatedly until the time is over."""
    user = os.environ["PG_LEAN_SERVER_USER"]
    end = time.monotonic() + seconds
    rounds, failed, began = 0, False, time.monotonic()
    while not failed and (rounds == 0 or time.monotonic() < end):
        env = {**os.environ, "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
        if generator.seconds:
            # the test has two of them
            env[generator.seconds] = str(max(int((end - time.monotonic()) / 2), 5))
        if generator.seed:
            env[generator.seed] = str(rng.randrange(1 << 28))
        command = ["make", "-s", "-C", str(SERVER_DIR / "work" / "host" / generator.extension), f"PG_CONFIG={os.environ.get('PG_CONFIG') or 'pg_config'}",
                   "REGRESS=", "ISOLATION=", f"PROVE_TESTS=test/t/{generator.test}.pl", "installcheck"]
        if os.geteuid() == 0:
            group = subprocess.run(["id", "-g", user], capture_output=True, text=True).stdout.strip()
            command = ["setpriv", f"--reuid={user}", f"--regid={group}", "--init-groups", *command]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env)
        rounds += 1
        failed = done.returncode != 0
        if failed:
            print(f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}", flush=True)
    result = {"name": generator.name, "what": generator.what, "seconds": round(time.monotonic() - began), "rounds": rounds, "failed": failed}
    print(f"{generator.name}: {rounds} rounds in {result['seconds']} s" + ("; FAILED" if failed else ""), flush=True)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long in all (default 10)")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="those whose name is this")
    parser.add_argument("--keep", action="store_true", help="replace certificate/corpus/ by the inputs that were found")
    args = record.begin(parser)
    rng = random.Random(args.seed)
    only = f" ONLY='{' '.join(args.only)}'" if args.only else ""
    run = record.about(f"make fuzz MINUTES={args.minutes:g}{only}", os.environ.get("PG_CONFIG") or "pg_config")
    targets = [t for t in TARGETS if not args.only or t.name in args.only]
    generators = [g for g in GENERATORS if not args.only or g.name in args.only]
    protocol = not args.only or STREAMS in args.only
    if not targets and not generators and not protocol:
        parser.error(f"nothing is named {' or '.join(args.only)}: there are {', '.join([*(t.name for t in TARGETS), STREAMS, *(g.name for g in GENERATORS)])}")
    share = int(args.minutes * 60 / (len(targets) + len(generators) + protocol))
    results = [fuzz(target, share, rng.randrange(1 << 30), args.keep) for target in targets]
    if protocol:
        results += fuzz_protocol(share)
    random_sql = [generate(generator, share, rng) for generator in generators]
    failed = [result["name"] for result in results + random_sql if result["failed"]]
    print(
        f"{sum(result['inputs'] for result in results)} inputs and {sum(result['rounds'] for result in random_sql)} rounds of random SQL, {len(failed)} failed"
    )
    if args.json:
        record.write(args.json, run, {"seed": args.seed, "targets": results, "random_sql": random_sql, "failed": failed})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
