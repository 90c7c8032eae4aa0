"""The query store: what samples, history and kept plans add to the profile alone, and what the sampler takes.

Each kind of store has a separate server, because memory of the store is allocated when a server starts.  All have equal data,
and start again together every few sessions: two equal servers differ by where their memory happens to lie.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, Mapping

import psycopg

from pg_lean import always
from pg_lean.always import Goal
from pg_lean.bench import Bench, LabError, Result, Table, analytics
from pg_lean.cluster import Cluster
from pg_lean.measure import bursts, cpu_seconds, timed

TITLE = "The query store: samples, history and kept plans, next to the profile alone"
PRELOAD = ("light_explain",)
#: The bench's own server, on which the sampler is measured; it has the settings that a new server has.
SETTINGS = {
    "shared_buffers": "256MB",
    "max_connections": 300,
    "max_parallel_workers_per_gather": 0,
    "jit": False,
    "autovacuum": False,
    "compute_query_id": "on",
    "light_explain.profile": True,
}
PROFILE = {"light_explain.sample_interval": 0, "light_explain.history_size": 0, "light_explain.plans_size": 0}
#: Settings of each kind of server in addition.  The second one without a store shows the noise.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "profile": PROFILE,
    "profile again": PROFILE,
    "store": {},
    "store, plans of all": {"light_explain.plans_min_duration": 0},
}
#: Times of the profile alone that the store may take, and with plans of all statements of a lookup.
AT_MOST, ALL_PLANS_AT_MOST = 1.005, 1.02
#: Which way of `pg-lean instructions` a kind is.
COUNTED = {"profile": "profile alone", "store": "profile"}
LOOKUPS = ("pgbench -S", "pgbench -S -M prepared", "range of 41 rows")
QUERIES = "22 analytic queries"
#: Rounds between two starts of the servers, and sizes of the data: scale of pgbench, thousandths of the analytic data.
ROUNDS, SCALE, THOUSANDTHS = 5, 2, 20

#: Statements that wait while the sampler is measured, and percent of a processor that it may take with the first.
SESSIONS = (200, 250)
#: The load for which the limit of a round, in microseconds, was set: idle sessions, and sessions in scans with naps.
IDLE, SCANNING = 200, 50
SCANS = """SELECT count(*) FROM generate_series(1, 1000) g, pgbench_accounts a
    WHERE CASE WHEN a.aid % 1000 = 0 THEN pg_sleep(0.05) IS NOT NULL ELSE true END"""
MIXED = f"{IDLE} idle sessions, {SCANNING} in scans"
PERCENT_AT_MOST, ROUND_AT_MOST = 0.5, 100.0
SECONDS = 5
WAITS = "SELECT count(*) FROM pgbench_branches b, LATERAL (SELECT pg_sleep(60 + b.bid) FROM pgbench_tellers t LIMIT 1) x"

#: Sessions that run one statement at the same time, and how many times each does in one measurement.
BUSY, TIMES = (1, 16), 3000


def run(bench: Bench) -> Result:
    """Lookups and analytic queries on every kind of server in turns; many sessions at a time; then the sampler."""
    bench.need_private().need_function("light_explain_samples()")
    sessions = bench.iterations(full=90, quick=2)
    with servers(bench) as clusters:
        rounds = 0

        def before() -> None:
            nonlocal rounds
            if rounds % ROUNDS == 0:
                for cluster in clusters.values():
                    cluster.restart()
                    warm(cluster)
            rounds += 1

        def connect(kind: str) -> psycopg.Connection:
            return always.prepare(clusters[kind].connect())

        with bench.progress(sessions * len(LOOKUPS), "lookups") as step:
            for name in LOOKUPS:
                load = always.LOADS[name]
                bursts({kind: functools.partial(connect, kind) for kind in clusters}, load.transaction(name, SCALE * 100_000),
                       bench.pick(load.size, load.quick_size), sessions, into=bench.raw, case=name, before=before,
                       after_each=lambda name=name: step(name), local=True, turns=always.TURNS)

        def analytic(kind: str) -> dict[str, float]:
            with clusters[kind].connect() as conn:
                conn.prepare_threshold = None
                samples = [[timed(conn, query, cpu=True) for query in analytics.QUERIES.values()] for _ in range(2)][1]
            return {"us": 1000 * sum(sample["ms"] for sample in samples), "cpu_us": 1000 * sum(sample["cpu_ms"] for sample in samples)}

        bench.interleave({kind: functools.partial(analytic, kind) for kind in clusters}, bench.iterations(full=60, quick=2),
                         case=QUERIES, warmup=0, before=before)
        check_stores(clusters)
        many_sessions(bench, clusters)
    measure_sampler(bench)
    count_instructions(bench)
    return present(bench, sessions)


@contextlib.contextmanager
def servers(bench: Bench) -> Iterator[dict[str, Cluster]]:
    """A server of every kind, with the data of both loads."""
    with contextlib.ExitStack() as stack:
        found = {}
        for kind, settings in KINDS.items():
            with bench.activity(f"a server with data: {kind}"):
                cluster = found[kind] = stack.enter_context(bench.cluster(settings={**SETTINGS, **settings}, preload=PRELOAD))
                if (done := cluster.run("pgbench", "-i", "-q", "-s", str(SCALE))).returncode != 0:
                    raise LabError(f"pgbench -i failed: {done.stderr.strip()}")
                with cluster.connect() as conn:
                    analytics.make_tables(conn, THOUSANDTHS, "")
                    conn.execute("CREATE EXTENSION pg_prewarm")
                    conn.execute("VACUUM ANALYZE")
                    conn.execute(f"""CREATE FUNCTION look_up() RETURNS void LANGUAGE plpgsql AS $$DECLARE r int; BEGIN
                        FOR i IN 1..{bench.pick(TIMES, 200)} LOOP EXECUTE 'SELECT abalance FROM pgbench_accounts WHERE aid = $1' INTO r USING i;
                        END LOOP; END$$""")
        yield found


def warm(cluster: Cluster) -> None:
    """Read all tables and indexes of a server that has just started."""
    with cluster.connect() as conn:
        conn.execute("SELECT pg_prewarm(c.oid) FROM pg_class c WHERE relkind IN ('r', 'i') AND relnamespace >= 16384")


def check_stores(clusters: Mapping[str, Cluster]) -> None:
    """A figure of a store that did not work would be no figure: each kind has what it should have, and nothing else."""
    for kind, cluster in clusters.items():
        with cluster.connect() as conn:
            nodes, buckets, rounds, plans = conn.execute(
                "SELECT profile_nodes, history_buckets, sampler_rounds, plans_kept FROM light_explain_status()").fetchone()
        stores = kind.startswith("store")
        if not nodes or bool(buckets) != stores or bool(rounds) != stores or (plans > 0 if not stores else not plans and "plans" in kind):
            raise LabError(f"{kind}: {nodes} nodes in the profile, {buckets} buckets, {rounds} rounds of the sampler, {plans} plans: "
                           "what was measured is not this store")


def many_sessions(bench: Bench, clusters: Mapping[str, Cluster]) -> None:
    """One session and many run the same statement inside the server: where locks were in the way, many would take longer for each."""
    for sessions in BUSY:
        with contextlib.ExitStack() as stack:
            opened = {kind: [stack.enter_context(cluster.connect()) for _ in range(sessions)] for kind, cluster in clusters.items()}
            threads = stack.enter_context(ThreadPoolExecutor(sessions))

            def run_all(kind: str) -> dict[str, float]:
                start = time.perf_counter()
                list(threads.map(lambda conn: conn.execute("SELECT look_up()"), opened[kind]))
                return {"us": (time.perf_counter() - start) * 1e6 / (bench.pick(TIMES, 200) * sessions)}

            bench.interleave({kind: functools.partial(run_all, kind) for kind in clusters}, bench.iterations(full=60, quick=2), case=busy_name(sessions))


def busy_name(sessions: int) -> str:
    return f"{sessions} session{'s' if sessions > 1 else ''}, one statement"


def measure_sampler(bench: Bench) -> None:
    """The sampler's processor time with so many statements that wait in a plan node, and how many of them it sees."""
    if (done := bench.need_private().run("pgbench", "-i", "-q", "-s", "1")).returncode != 0:
        raise LabError(f"pgbench -i failed: {done.stderr.strip()}")
    with contextlib.ExitStack() as stack:
        watcher, opened = stack.enter_context(bench.connect()), []

        def open_until(sessions: int, statement: str | None) -> None:
            while len(opened) < sessions:
                opened.append(bench.connect())
                stack.callback(opened[-1].close)  # its statement does not end
                if statement:
                    opened[-1].pgconn.send_query(statement.encode())

        def end_all() -> None:
            for conn in opened:
                watcher.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
            opened.clear()

        open_until(IDLE, None)
        open_until(IDLE + SCANNING, SCANS)
        measure_rounds(bench, watcher, MIXED)
        end_all()
        for sessions in SESSIONS:
            open_until(sessions, WAITS)
            measure_rounds(bench, watcher, sampler_name(sessions))
        end_all()


def measure_rounds(bench: Bench, watcher: psycopg.Connection, case: str) -> None:
    """The sampler's processor time while sessions do what they do, several times for some seconds."""
    time.sleep(1)
    for repetition in range(bench.iterations(full=20, quick=2)):
        before, start = sampler(watcher), time.monotonic()
        time.sleep(bench.pick(SECONDS, 1))
        after, elapsed = sampler(watcher), time.monotonic() - start
        used, count = after[0] - before[0], after[1] - before[1]
        if not count:
            raise LabError("the sampler took no samples")
        bench.raw.add("sampler", repetition, case, percent=100 * used / elapsed, us=1e6 * used / count, rounds=count, seen=(after[2] - before[2]) / count)


def count_instructions(bench: Bench) -> None:
    """Instructions and lightweight locks with the store and with the profile alone: they do not depend on what else the machine does."""
    from pg_lean.commands import instructions

    if bench.quick or shutil.which("valgrind") is None or bench.need_private().root is not None:
        return
    with bench.cluster(settings=instructions.SETTINGS, name="counted") as server:
        instructions.fill(server)
        cases = [case for case in instructions.of_goals() if case.name in LOOKUPS]
        cases.append(instructions.of_queries(server))
        for kind, way in COUNTED.items():
            for case, counted in instructions.count(server, way, cases, bench.console, ("light_explain",)):
                bench.raw.add(kind, 0, counted_name(case.name), instructions=counted["light_explain"], locks=counted["locks"])


def counted_name(lookup: str) -> str:
    return f"instructions: {lookup}"


def sampler_name(sessions: int) -> str:
    return f"{sessions} waiting statements"


def sampler(conn: psycopg.Connection) -> tuple[float, int, int]:
    """Seconds of a processor that the sampler has used, its rounds, and samples that it took."""
    pid, rounds, taken = conn.execute("SELECT sampler_pid, sampler_rounds, samples_taken FROM light_explain_status()").fetchone()
    used = cpu_seconds(pid)
    if used is None:
        raise LabError("the sampler's processor time cannot be seen")
    return used, rounds, taken


def goals(bench: Bench) -> list[Goal]:
    """The limits, each with the measured value."""
    return [
        *(Goal(f"{case}: store over the profile alone", AT_MOST, bench.raw.quartile_ratio("cpu_us", "store", "profile", case)) for case in (*LOOKUPS, QUERIES)),
        *(Goal(f"{case}: store with plans of all statements over the profile alone", ALL_PLANS_AT_MOST,
               bench.raw.quartile_ratio("cpu_us", "store, plans of all", "profile", case)) for case in LOOKUPS),
        *(Goal(f"{case}: instructions, store over the profile alone", AT_MOST, bench.ratio("instructions", "store", "profile", counted_name(case)))
          for case in (*LOOKUPS, QUERIES) if bench.raw.select("store", counted_name(case))),
    ]


def present(bench: Bench, sessions: int) -> Result:
    """Processor time of each load on every kind of server, many sessions, and the sampler."""
    held = goals(bench)
    kinds = list(KINDS)
    cases = [*LOOKUPS, QUERIES]
    noise = max(abs(bench.raw.quartile_ratio("cpu_us", "profile again", "profile", case).median - 1) for case in cases)
    most = max(held[: len(cases)], key=lambda goal: goal.found.median)
    percent = bench.estimate("percent", "sampler", sampler_name(SESSIONS[0]))
    look = bench.estimate("us", "sampler", MIXED)

    return Result(
        title=TITLE,
        summary=f"With samples, history and kept plans statements take at most {most.found.median:.3f} of the processor time with the profile alone "
                f"({most.what.split(':')[0]}); two equal servers differ by up to {noise:.3f}. The sampler takes {percent.median:.2f} % of a processor with "
                f"{SESSIONS[0]} waiting statements.",
        what="Processor time of `pgbench -S`, of a range of 41 rows and of the 22 queries of `make bench-analytics` (over small permanent tables, without "
             "workers) on servers with `light_explain.profile` on: without sampler, history and kept plans; with all three as they are by default; and with "
             "plans of all statements kept (`light_explain.plans_min_duration = 0`). Then the sampler's own.",
        how=f"Each kind of store is a private server with the same data; all start again every {ROUNDS} rounds. Sessions of every kind take turns in bursts, "
            f"{sessions} times; then the queries do. That each server has what it is named for is checked. Many sessions run one statement in PL/pgSQL, "
            f"and their time is the client's. The sampler is measured while so many sessions wait in a function of a plan's node, and with {MIXED}, "
            f"{SECONDS} s at a time.",
        blocks=[
            always.goals_table(held, note="Lower quartile of processor time over that of the profile alone."),
            Table("Processor time of a transaction, µs", ["load", *(f"µs | {kind}" for kind in kinds), *(f"over profile | {kind}" for kind in kinds[1:])],
                  [[case, *(bench.estimate("cpu_us", kind, case) for kind in kinds),
                    *(bench.raw.quartile_ratio("cpu_us", kind, "profile", case) for kind in kinds[1:])] for case in cases],
                  note="Microseconds are medians, ratios those of lower quartiles."),
            Table("Many sessions, µs of a statement", ["sessions", *(f"µs | {kind}" for kind in kinds), *(f"over profile | {kind}" for kind in kinds[1:])],
                  [[case, *(bench.estimate("us", kind, case) for kind in kinds), *(bench.ratio("us", kind, "profile", case) for kind in kinds[1:])]
                   for case in map(busy_name, BUSY)]),
            Table("Instructions and lightweight locks of a transaction",
                  ["load", *(f"instructions | {kind}" for kind in COUNTED), "instructions | store over profile", *(f"locks | {kind}" for kind in COUNTED)],
                  [[case, *(f"{bench.estimate('instructions', kind, counted_name(case)).median:,.0f}" for kind in COUNTED),
                    f"{bench.ratio('instructions', 'store', 'profile', counted_name(case)).median:.4f}",
                    *(f"{bench.estimate('locks', kind, counted_name(case)).median:.2f}" for kind in COUNTED)]
                   for case in (*LOOKUPS, QUERIES) if bench.raw.select("store", counted_name(case))],
                  note="Counted by valgrind's callgrind, on tables of 200,000 rows; the queries, as one, over smaller ones than above. The lock is that of the "
                       "statement's plan; no session waits for it."),
            Table("The sampler", ["sessions", "percent of a processor", "µs of a round", "statements seen in a round"],
                  [[name, *(bench.estimate(metric, "sampler", name) for metric in ("percent", "us", "seen"))]
                   for name in (MIXED, *map(sampler_name, SESSIONS))]),
        ],
        checks=[] if bench.quick else always.goal_checks([
            *held,
            Goal(f"percent of a processor that the sampler takes with {SESSIONS[0]} statements", PERCENT_AT_MOST, percent),
            Goal(f"microseconds of a round of the sampler with {MIXED}", ROUND_AT_MOST, look),
        ]),
    )
