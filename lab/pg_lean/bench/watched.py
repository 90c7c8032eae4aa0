"""What it costs to be watched: transactions of busy sessions while a screen looks twice a second, beside none."""

from __future__ import annotations

import re
import threading
from typing import Callable

from pg_lean.activity import Activity
from pg_lean.bench import Bench, Estimate, Result, Table, Unavailable, not_slower
from pg_lean.cluster import Cluster

TITLE = "Being watched: what a screen of running statements costs those who run them"
PRELOAD = ("light_explain",)
SETTINGS = {"shared_buffers": "1GB", "jit": False, "autovacuum": False, "compute_query_id": True, "light_explain.profile": True, "light_explain.progress_statements": 100}

#: Seconds between two looks of the screen, and busy sessions.
SCREEN, SESSIONS = 0.5, 16
#: How much longer a transaction may take.
MARGIN = 0.01
#: pgbench's options and what they are.
LOADS = {"pgbench -S": ("-S",), "pgbench -N": ("-N",)}


def run(bench: Bench) -> Result:
    """Both loads with a screen, without, and without again, in turns."""
    if not isinstance(bench.server, Cluster):
        raise Unavailable("pgbench runs against a private server only", "Leave out --dsn.")
    bench.server.need_function("light_explain_progress()")
    bench.pgbench_tables(bench.scale(full=10, quick=2))
    repetitions = bench.iterations(full=41, quick=3)
    looks: list[int] = []
    for name, options in LOADS.items():
        bench.interleave({"alone": load(bench, options, None), "watched": load(bench, options, looks), "alone again": load(bench, options, None)}, repetitions, case=name)
    return present(bench, repetitions, looks)


def load(bench: Bench, options: tuple[str, ...], looks: list[int] | None) -> Callable[[], dict[str, float]]:
    """A measurement of microseconds a transaction over all sessions; `looks`: with a screen, whose looks are counted there."""
    def measure() -> dict[str, float]:
        stop, failed = threading.Event(), []

        def look() -> None:
            count = 0
            try:
                with bench.connect() as conn:
                    activity = Activity(conn)
                    while not stop.is_set():
                        activity.look()
                        count += 1
                        stop.wait(SCREEN)
            except Exception as error:
                failed.append(error)
            looks.append(count)

        thread = threading.Thread(target=look)
        if looks is not None:
            thread.start()
        try:
            done = bench.server.run("pgbench", "-n", *options, "-c", str(SESSIONS), "-j", "2", "-T", str(bench.pick(full=5, quick=1)))
        finally:
            stop.set()
            if looks is not None:
                thread.join()
        if failed:
            raise failed[0]
        return {"us": time_of(done.stdout, done.stderr)}
    return measure


def time_of(stdout: str, stderr: str) -> float:
    """Microseconds a transaction, by what pgbench printed."""
    found = re.search(r"^tps = ([\d.]+)", stdout, re.M)
    if found is None or not float(found.group(1)):
        raise Unavailable(f"pgbench did not run: {stderr.strip()[:300]}")
    return 1e6 / float(found.group(1))


def present(bench: Bench, repetitions: int, looks: list[int]) -> Result:
    """Ratios of watched over alone, with what chance makes of alone over alone."""
    def ratio(way: str, name: str) -> Estimate:
        return bench.ratio("us", way, "alone", name)

    rows = [[name, bench.estimate("us", "alone", name), bench.estimate("us", "watched", name), ratio("watched", name), ratio("alone again", name)] for name in LOADS]
    told = "; ".join(f"{name}: {ratio('watched', name).median:.3f} ({ratio('watched', name).low:.3f} to {ratio('watched', name).high:.3f}; "
                     f"unwatched in turns {ratio('alone again', name).median:.3f})" for name in LOADS)
    return Result(
        title=TITLE, summary=f"Time of a transaction of {SESSIONS} busy sessions with a screen that looks twice a second, over that without: {told}.",
        what="The time of a transaction with and without `pg-lean top` looking: " + "; ".join(f"`pgbench {' '.join(options)}`" for options in LOADS.values()) + ".",
        how=f"{SESSIONS} sessions of pgbench on a private server with light_explain's profile on, {repetitions} repetitions; each runs alone, watched, and alone again in turns. "
            f"The screen's own queries and reckoning run on the same machine, every {SCREEN:g} s; it looked {min(looks, default=0)} times or more in each repetition.",
        blocks=[Table(f"Time of a transaction of {SESSIONS} busy sessions", ["load", "µs | alone", "µs | watched at 2 Hz", "over alone | watched", "over alone | alone again"], rows)],
        checks=[] if bench.quick else [not_slower(f"watched over alone, {name}", ratio("watched", name), MARGIN) for name in LOADS])
