"""The cost of being watched: CPU time of busy sessions' transactions with and without a screen that polls twice a second.

Wall clock on a machine with as many busy sessions as processors tells little in minutes: it wanders by percents.  So one pgbench
runs all the while; the screen is there in some slices of a second and not in the others, in an order by chance; and of each slice it is
taken how long the sessions' processes had a processor (the kernel's /proc/PID/schedstat, nanoseconds) and how many transactions ended
(pgbench's log, microseconds).  Adjacent slices are compared, so drift affects both.  CPU time of the screen's
session in the server is included, and also shown separately, as is that of the screen's program, which may run elsewhere.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

import psutil

from pg_lean.activity import Activity
from pg_lean.bench import Bench, Estimate, LabError, Result, Table, Unavailable, not_slower
from pg_lean.cluster import Cluster

TITLE = "Being watched: what a screen of running statements costs those who run them"
PRELOAD = ("light_explain",)
SETTINGS = {
    "shared_buffers": "1GB",
    "jit": False,
    "autovacuum": False,
    "compute_query_id": True,
    "light_explain.profile": True,
    "light_explain.progress_statements": 100,
    # who waits for the disk is not busy, and how many commits wait together is what processor time would tell
    "synchronous_commit": False,
}

#: Seconds between two samples of the screen, samples in a slice, and busy sessions.
SCREEN, LOOKS, SESSIONS = 0.5, 1, 16
#: How much more processor time a transaction may take.
MARGIN = 0.01
#: pgbench's options and what they are.
LOADS = {"pgbench -S": ("-S",), "pgbench -N": ("-N",)}
#: Slices of a block: the watched one is compared with the mean of the two others, and these with each other, which shows the noise.
WAYS = ("alone", "watched", "alone again")
#: Figures of a slice that are compared.
COMPARED = ("us", "busy_us", "wall_us")


@dataclass
class Slice:
    """Readings at one end of a slice and at the other."""

    way: str
    block: int
    began: float
    ended: float
    #: Nanoseconds of a processor: of the busy sessions, of the screen's session, of the screen.
    busy: int
    session: int
    screen: int


def run(bench: Bench) -> Result:
    """Both loads, each in blocks of one slice of each of WAYS."""
    if not isinstance(bench.server, Cluster):
        raise Unavailable("pgbench runs against a private server only", "Leave out --dsn.")
    bench.server.need_function("light_explain_progress()")
    if ran(os.getpid()) is None:
        raise Unavailable("the kernel does not tell how long processes ran (/proc/PID/schedstat)", "It must be Linux with CONFIG_SCHED_INFO.")
    bench.pgbench_tables(bench.scale(full=10, quick=2))
    blocks = bench.iterations(full=90, quick=4)
    for name, options in LOADS.items():
        with bench.progress(blocks, name) as step:
            measure_load(bench, name, options, blocks, step)
    return present(bench, blocks)


def ran(pid: int) -> int | None:
    """Nanoseconds for which a process had a processor; None if it is gone, or the kernel does not count them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def measure_load(bench: Bench, name: str, options: tuple[str, ...], blocks: int, step: Callable[[], None]) -> None:
    """Run pgbench as long as the blocks take, watched in a third of the slices, and keep a row for each slice."""
    chance = random.Random(f"{name} {blocks}")
    with busy(bench, options, blocks * len(WAYS) * LOOKS * SCREEN) as (pids, log), bench.connect() as conn:
        activity = Activity(conn)
        activity.look()
        slices = []
        for block in range(blocks):
            for way in chance.sample(WAYS, len(WAYS)):
                slices.append(one_slice(activity, conn.info.backend_pid, pids, way, block))
            step()
        ends = log()
    for part in slices:
        transactions = bisect.bisect_left(ends, part.ended) - bisect.bisect_left(ends, part.began)
        if transactions == 0:
            raise LabError(f"{name}: no transaction ended within {part.ended - part.began:.1f} s")
        bench.raw.add(
            part.way,
            part.block,
            name,
            us=(part.busy + part.session) / 1000 / transactions,
            busy_us=part.busy / 1000 / transactions,
            wall_us=1e6 * (part.ended - part.began) / transactions,
            transactions=transactions,
            session_ms=part.session / 1e6,
            screen_ms=part.screen / 1e6,
        )
    for block in range(blocks):
        pair = [row for row in bench.raw.select(case=name) if row["repetition"] == block and row["variant"] != "watched"]
        bench.raw.add("unwatched", block, name, **{metric: sum(row[metric] for row in pair) / len(pair) for metric in COMPARED})


def one_slice(activity: Activity, session: int, pids: list[int], way: str, block: int) -> Slice:
    """Wait for as long as LOOKS looks of a screen take, and look if it is watched."""
    before = [ran(pid) for pid in pids], ran(session), time.thread_time_ns()
    began = time.time()
    start = time.monotonic()
    for number in range(LOOKS):
        if way == "watched":
            activity.look()
        time.sleep(max(start + (number + 1) * SCREEN - time.monotonic(), 0.0))
    # its last answer is here; the time until it waits again is of this slice too
    while psutil.Process(session).status() == psutil.STATUS_RUNNING:
        time.sleep(0.001)
    ended = time.time()
    after = [ran(pid) for pid in pids], ran(session), time.thread_time_ns()
    if None in before[0] or None in after[0]:
        raise LabError("a session of pgbench ended before its time")
    return Slice(way, block, began, ended, sum(after[0]) - sum(before[0]), after[1] - before[1], after[2] - before[2])


@contextlib.contextmanager
def busy(bench: Bench, options: tuple[str, ...], seconds: float) -> Iterator[tuple[list[int], Callable[[], list[float]]]]:
    """pgbench at work: processes of its sessions, and a function that waits for it and returns when its transactions ended (seconds, in order)."""
    server = bench.server
    folder = Path(server.sockets)
    prefix, done = f"watched{random.randrange(1 << 30)}", []
    stop = str(int(seconds * 1.1) + 15)

    def work() -> None:
        done.append(
            server.run(
                "pgbench",
                "-n",
                *options,
                "-c",
                str(SESSIONS),
                "-j",
                "2",
                "-T",
                stop,
                "-l",
                f"--log-prefix={server.inside(folder / prefix)}",
                env={"PGAPPNAME": prefix},
            )
        )

    def cancel() -> None:
        with bench.connect() as conn:
            conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (prefix,))
        thread.join()

    def log() -> list[float]:
        cancel()
        found = []
        for path in folder.glob(f"{prefix}.*"):
            with path.open() as lines:
                for line in lines:
                    fields = line.split()
                    if len(fields) >= 6 and fields[2].isdigit():
                        found.append(int(fields[4]) + int(fields[5]) / 1e6)
        return sorted(found)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with bench.connect() as conn:
            end = time.monotonic() + 30
            while (
                len(pids := [row[0] for row in conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s AND state IS NOT NULL", (prefix,))])
                < SESSIONS
            ):
                if done or time.monotonic() > end:
                    raise Unavailable(f"pgbench did not run: {done[0].stderr.strip()[:300] if done else 'its sessions did not come'}")
                time.sleep(0.1)
        time.sleep(1.0)  # connections, caches of catalogs
        yield pids, log
    finally:
        cancel()
        for path in folder.glob(f"{prefix}.*"):
            path.unlink()


def present(bench: Bench, blocks: int) -> Result:
    """Ratios of watched over alone, with what chance makes of alone over alone."""
    def ratio(name: str, metric: str = "us") -> Estimate:
        return bench.ratio(metric, "watched", "unwatched", name)

    def chance(name: str) -> Estimate:
        return bench.ratio("us", "alone again", "alone", name)

    rows = [
        [name, bench.estimate("us", "unwatched", name), bench.estimate("us", "watched", name), ratio(name), ratio(name, "busy_us"), chance(name)]
        for name in LOADS
    ]
    looks = [
        [
            name,
            bench.estimate("session_ms", "watched", name),
            bench.estimate("screen_ms", "watched", name),
            bench.estimate("wall_us", "unwatched", name),
            ratio(name, "wall_us"),
        ]
        for name in LOADS
    ]
    told = "; ".join(
        f"{name}: {ratio(name).median:.3f} ({ratio(name).low:.3f} to {ratio(name).high:.3f}; unwatched in turns {chance(name).median:.3f})" for name in LOADS
    )
    return Result(
        title=TITLE,
        summary=f"The server's processor time for a transaction of {SESSIONS} busy sessions with a screen that looks twice a second, over that without: "
                f"{told}.",
        what="Processor time of a transaction with and without `pg-lean top` looking, that of the screen's session included: "
        + "; ".join(f"`pgbench {' '.join(options)}`" for options in LOADS.values())
        + ".",
        how=f"{SESSIONS} sessions of one pgbench on a private server with light_explain's profile on and synchronous_commit off; {blocks} blocks of three "
            f"slices of {LOOKS * SCREEN:g} s in an order by chance, one of them watched, which is compared with the middle of the others; "
        "processor time by the kernel's account of each process, transactions by pgbench's log.",
        blocks=[
            Table(
                f"Processor time of a transaction of {SESSIONS} busy sessions",
                [
                    "load",
                    "µs | unwatched",
                    "µs | watched at 2 Hz",
                    "over unwatched | watched",
                    "over unwatched | without the screen's session",
                    "over each other | unwatched",
                ],
                rows,
            ),
            Table(
                "A look, and the clock on the wall",
                [
                    "load",
                    "ms of a sample | in the server",
                    "ms of a sample | in the screen",
                    "µs of a transaction by the clock | unwatched",
                    "over unwatched | watched",
                ],
                looks,
            ),
        ],
        checks=[] if bench.quick else [not_slower(f"watched over unwatched, {name}", ratio(name), MARGIN) for name in LOADS],
    )
