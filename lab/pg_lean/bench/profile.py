"""The profile of plan nodes, always on: what it adds to statements of every length, sessions with and without it in turns."""

from __future__ import annotations

import functools
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable

import psycopg

from pg_lean import always
from pg_lean.always import Goal
from pg_lean.bench import Bench, LabError, Plot, Result, Series, Table, not_slower
from pg_lean.measure import Estimate, bursts, check_result

TITLE = "The profile, always on: statements of every length, TPC-B, busy sessions"
PRELOAD = ("light_explain",)
SETTINGS = {
    "shared_buffers": "512MB",
    "max_connections": 100,
    "max_parallel_workers_per_gather": 0,
    "jit": False,
    "autovacuum": False,
    "synchronous_commit": "off",
}

#: Features that a session has enabled. "off again" is the same as "off" and shows the noise. The profile needs identifiers of statements.
KINDS = {"off": "-c compute_query_id=off", "off again": "-c compute_query_id=off", "identifiers": "-c compute_query_id=on",
         "profile": "-c compute_query_id=on -c light_explain.profile=on"}
#: The tolerance of "not slower": TPC-B with the profile, and many sessions compared with one.
MARGIN = 0.05

#: Sessions that are busy at a time, and how many different statements they run: the same one, as many as the profile has room for, and more.
BUSY = {f"{sessions} session{'s' if sessions > 1 else ''}, {kinds:,} statement{'s' if kinds > 1 else ''}": (sessions, kinds)
        for kinds in (1, 1024, 4096) for sessions in ((1, 8, 16) if kinds == 1 else (1, 8))}
COLUMNS = 12
#: Statements of each of them in one measurement.
STATEMENTS = 2000


def run(bench: Bench) -> Result:
    """Every load in sessions of all kinds, in turns, on one server that has the library."""
    bench.server.need_function("light_explain_profile()")
    scale = bench.scale(full=10, quick=2)
    accounts = scale * 100_000
    bench.pgbench_tables(scale)
    with bench.connect() as conn:
        conn.execute("VACUUM ANALYZE pgbench_accounts, pgbench_branches, pgbench_tellers")

    def connect(kind: str) -> psycopg.Connection:
        return always.prepare(bench.server.connect(KINDS[kind]))

    local = bench.server.private
    kinds = {kind: functools.partial(connect, kind) for kind in KINDS}
    loads = {name: (load.transaction(name, accounts), bench.pick(load.size, load.quick_size)) for name, load in always.LOADS.items()} | {
        "TPC-B": (tpcb(scale), bench.pick(20, 10))
    }
    sessions = bench.iterations(full=always.SESSIONS, quick=3)
    with bench.progress(sessions * len(loads), "sessions") as step:
        for name, (transaction, size) in loads.items():
            bursts(kinds, transaction, size, sessions, into=bench.raw, case=name, after_each=lambda name=name: step(name), local=local, turns=always.TURNS)

    case = f"{accounts:,} rows"
    with always.Analytic(kinds, local=local) as analytic:
        bench.interleave(analytic.variants(), bench.iterations(full=90, quick=6), case=case, warmup=0, before=analytic.before)
    with bench.connect() as conn:
        seen = conn.execute("SELECT count(DISTINCT queryid) FROM light_explain_profile() WHERE executions > 0").fetchone()[0]
    if seen < len(loads):
        raise LabError(f"the profile has {seen} statements only: what was measured is not the profile")
    busy_sessions(bench)
    return present(bench, [*loads, case], sessions)


def tpcb(scale: int) -> Callable[[psycopg.pq.abc.PGconn], None]:
    """pgbench's own transaction, as statements' texts."""
    def transaction(pgconn: psycopg.pq.abc.PGconn) -> None:
        aid, tid, bid, delta = random.randint(1, scale * 100_000), random.randint(1, scale * 10), random.randint(1, scale), random.randint(-5000, 5000)
        for statement in (
            "BEGIN",
            f"UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {aid}",
            f"SELECT abalance FROM pgbench_accounts WHERE aid = {aid}",
            f"UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {tid}",
            f"UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {bid}",
            f"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({tid}, {bid}, {aid}, {delta}, CURRENT_TIMESTAMP)",
            "COMMIT",
        ):
            check_result(pgconn.exec_(statement.encode()))
    return transaction


def busy_sessions(bench: Bench) -> None:
    """One session, and many at a time, run the same statement and different ones: where locks were in the way, the profile would cost many of them more.

    Statements are run inside the server, so that no client is in the way; each selects other columns of one row.
    """
    with bench.connect() as conn:
        columns = ", ".join(f"g AS c{i}" for i in range(COLUMNS))
        conn.execute(f"CREATE TABLE wide AS SELECT g AS id, {columns} FROM generate_series(1, 10000) g; ALTER TABLE wide ADD PRIMARY KEY (id)")
        conn.execute("VACUUM ANALYZE wide")
        conn.execute(f"""CREATE FUNCTION run_different(times int, kinds int) RETURNS void LANGUAGE plpgsql AS $$
            DECLARE n int; list text; BEGIN FOR i IN 1..times LOOP
                n := random() * (kinds - 1);
                list := '';
                FOR c IN 0..{COLUMNS - 1} LOOP IF n >> c & 1 = 1 THEN list := list || ', c' || c; END IF; END LOOP;
                EXECUTE format('SELECT id%s FROM wide WHERE id = $1', list) USING n + i % 5000; END LOOP; END$$""")
    times = bench.pick(full=STATEMENTS, quick=200)
    for case, (sessions, kinds) in BUSY.items():
        opened = {kind: [bench.server.connect(options) for _ in range(sessions)] for kind, options in KINDS.items()}
        try:
            with ThreadPoolExecutor(sessions) as threads:
                def run_all(kind: str) -> dict[str, float]:
                    start = time.perf_counter()
                    list(threads.map(lambda conn: conn.execute("SELECT run_different(%s, %s)", (times, kinds)), opened[kind]))
                    return {"us": (time.perf_counter() - start) * 1e6 / (times * sessions)}

                bench.interleave({kind: functools.partial(run_all, kind) for kind in KINDS}, bench.iterations(full=31, quick=2), case=case)
        finally:
            for conn in (conn for some in opened.values() for conn in some):
                conn.close()


def many_beside_one(bench: Bench, many: int, kinds: int) -> Estimate:
    """The profile's overhead with many sessions relative to that with one; contention for locks would show here."""
    def ratios(sessions: int) -> dict[int, float]:
        case = next(case for case, (n, different) in BUSY.items() if (n, different) == (sessions, kinds))
        off = {row["repetition"]: row["us"] for row in bench.raw.select("off", case)}
        return {row["repetition"]: row["us"] / off[row["repetition"]] for row in bench.raw.select("profile", case)}

    one, all_of_them = ratios(1), ratios(many)
    return Estimate.of(all_of_them[repetition] / one[repetition] for repetition in all_of_them)


def goals(bench: Bench, analytic: str) -> list[Goal]:
    """The goals, each with the measured value."""
    def found(case: str) -> Estimate:
        estimate = bench.raw.quartile_ratio("cpu_us", "profile", "off", case)
        return estimate if estimate.n else bench.raw.quartile_ratio("us", "profile", "off", case)

    return [
        *(Goal(f"{case}, profile", load.at_most, found(case)) for case, load in always.LOADS.items()),
        Goal(f"join with groups over {analytic}, profile", always.ANALYTIC_AT_MOST, found(analytic)),
        *(
            Goal(f"{case}: the profile's ratio over that of one session", 1 + MARGIN, many_beside_one(bench, many, kinds))
            for case, (many, kinds) in BUSY.items()
            if many > 1
        ),
    ]


def present(bench: Bench, cases: list[str], sessions: int) -> Result:
    """Microseconds of a transaction and what each kind of session adds to it."""
    def ratio(kind: str, case: str):
        return bench.ratio("us", kind, "off", case)

    held = goals(bench, cases[-1])
    cases = [*cases, *BUSY]

    table = Table("Microseconds of a transaction", ["load", *(f"µs | {kind}" for kind in KINDS), *(f"over off | {kind}" for kind in list(KINDS)[1:])],
                  [[case, *(bench.estimate("us", kind, case) for kind in KINDS), *(ratio(kind, case) for kind in list(KINDS)[1:])] for case in cases],
                  note="off again is the same as off: how far chance goes. identifiers: compute_query_id alone, which the profile needs.")
    worst = max(cases, key=lambda case: ratio("profile", case).median)
    found = [ratio(kind, case) for kind in ("profile", "off again") for case in cases]
    return Result(
        title=TITLE,
        summary=f"With the profile on a transaction takes {min(estimate.median for estimate in found[: len(cases)]):.3f} to "
                f"{ratio('profile', worst).median:.3f} of the time "
        f"without (most: {worst}); a second session without takes {min(e.median for e in found[len(cases) :]):.3f} to "
        f"{max(e.median for e in found[len(cases) :]):.3f}.",
        what="The time of a transaction in sessions with `light_explain.profile` on and off: one account looked up (`pgbench -S`, simple and prepared), "
        f"41 and 5,000 of them by their key, pgbench's TPC-B, and a join with groups over all accounts: `{always.ANALYTIC}`; and of one of the statements "
        "that one session, or 8 or 16 at a time, run inside the server.",
        how=f"Sessions of every kind are open on one server and take turns in bursts; then new ones take their place, {sessions} times. The statement over "
            "all accounts "
        "takes turns in one session of each kind. One and more sessions of a kind run a function that makes statements of other columns each and executes "
        "them; 4,096 are more than the profile "
        "has room for. `synchronous_commit` is off; time is the client's, and in the goals, except of many sessions, processor time of the server's process. "
        "That the profile has the statements is checked.",
        blocks=[
            always.goals_table(
                held, note="Lower quartile with the profile over that of sessions without it and without identifiers; of many sessions over one medians."
            ),
            table,
            Plot("Time over off", "load", "times", [Series(kind, cases, [ratio(kind, case).median for case in cases]) for kind in list(KINDS)[1:]], kind="bar"),
        ],
        checks=[*always.goal_checks(held), not_slower("TPC-B: with the profile over without", ratio("profile", "TPC-B"), MARGIN)] if not bench.quick else [],
    )
