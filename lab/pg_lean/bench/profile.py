"""The profile of plan nodes, always on: what it adds to short, middle-sized and long statements, sessions with and without it in turns."""

from __future__ import annotations

import functools
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable

import psycopg

from pg_lean.bench import Bench, LabError, Plot, Result, Series, Table, not_slower
from pg_lean.measure import bursts, check_result, prepare_select, select_one, timed

TITLE = "The profile, always on: pgbench -S, TPC-B, a middle-sized and an analytic statement, eight busy sessions"
PRELOAD = ("light_explain",)
SETTINGS = {"shared_buffers": "512MB", "max_parallel_workers_per_gather": 0, "jit": False, "autovacuum": False, "synchronous_commit": "off"}

#: What a session has switched on. "off again" is the same as "off": how far chance goes. The profile needs identifiers of statements.
KINDS = {"off": "-c compute_query_id=off", "off again": "-c compute_query_id=off", "identifiers": "-c compute_query_id=on",
         "profile": "-c compute_query_id=on -c light_explain.profile=on"}
#: What "not slower" allows the profile.
MARGIN = 0.05

#: Sessions that are busy at a time, and how many different statements they run: the same one, as many as the profile has room for, and more.
BUSY = {f"{sessions} session{'s' if sessions > 1 else ''}, {kinds:,} statement{'s' if kinds > 1 else ''}": (sessions, kinds)
        for kinds in (1, 1024, 4096) for sessions in (1, 8)}
COLUMNS = 12
#: Statements of each of them in one measurement.
STATEMENTS = 2000

ANALYTIC = "SELECT b.bid, count(*), sum(a.abalance) FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) GROUP BY b.bid ORDER BY b.bid"


def run(bench: Bench) -> Result:
    """Every load in sessions of all kinds, in turns, on one server that has the library."""
    bench.server.need_function("light_explain_profile()")
    scale = bench.scale(full=10, quick=2)
    accounts = scale * 100_000
    bench.pgbench_tables(scale)
    with bench.connect() as conn:
        conn.execute("VACUUM ANALYZE pgbench_accounts, pgbench_branches, pgbench_tellers")

    def connect(kind: str) -> psycopg.Connection:
        return prepare_select(bench.server.connect(KINDS[kind]))

    kinds = {kind: functools.partial(connect, kind) for kind in KINDS}
    loads = {"pgbench -S": (select_one(accounts, prepared=False), 400), "pgbench -S -M prepared": (select_one(accounts), 700),
             "TPC-B": (tpcb(scale), 60), "1,000 rows": (thousand_rows(accounts), 60)}
    sessions = bench.iterations(full=60, quick=3)
    with bench.progress(sessions * len(loads), "sessions") as step:
        for name, (transaction, size) in loads.items():
            bursts(kinds, transaction, size, sessions, into=bench.raw, case=name, after_each=lambda name=name: step(name))

    case = f"{accounts:,} rows"
    opened = {kind: make() for kind, make in kinds.items()}
    try:
        def statement(conn: psycopg.Connection) -> Callable[[], dict[str, float]]:
            return lambda: {"us": timed(conn, ANALYTIC)["ms"] * 1000}

        bench.interleave({kind: statement(conn) for kind, conn in opened.items()}, bench.iterations(full=31, quick=6), case=case)
        seen = opened["off"].execute("SELECT count(DISTINCT queryid) FROM light_explain_profile() WHERE executions > 0").fetchone()[0]
    finally:
        for conn in opened.values():
            conn.close()
    if seen < len(loads):
        raise LabError(f"the profile has {seen} statements only: what was measured is not the profile")
    busy_sessions(bench)
    return present(bench, [*loads, case], sessions)


def tpcb(scale: int) -> Callable[[psycopg.pq.abc.PGconn], None]:
    """pgbench's own transaction, as statements' texts."""
    def transaction(pgconn: psycopg.pq.abc.PGconn) -> None:
        aid, tid, bid, delta = random.randint(1, scale * 100_000), random.randint(1, scale * 10), random.randint(1, scale), random.randint(-5000, 5000)
        for statement in ("BEGIN", f"UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {aid}", f"SELECT abalance FROM pgbench_accounts WHERE aid = {aid}",
                          f"UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {tid}",
                          f"UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {bid}",
                          f"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({tid}, {bid}, {aid}, {delta}, CURRENT_TIMESTAMP)", "COMMIT"):
            check_result(pgconn.exec_(statement.encode()))
    return transaction


def thousand_rows(accounts: int) -> Callable[[psycopg.pq.abc.PGconn], None]:
    def transaction(pgconn: psycopg.pq.abc.PGconn) -> None:
        first = random.randint(1, accounts - 1000)
        check_result(pgconn.exec_(f"SELECT bid, count(*), sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN {first} AND {first + 999} GROUP BY bid".encode()))
    return transaction


def busy_sessions(bench: Bench) -> None:
    """One session, and eight at a time, run many different statements: where locks were in the way, the profile would cost eight of them more.

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


def present(bench: Bench, cases: list[str], sessions: int) -> Result:
    """Microseconds of a transaction and what each kind of session adds to it."""
    def ratio(kind: str, case: str):
        return bench.ratio("us", kind, "off", case)

    alone, cases = cases, [*cases, *BUSY]

    table = Table("Microseconds of a transaction", ["load", *(f"µs | {kind}" for kind in KINDS), *(f"over off | {kind}" for kind in list(KINDS)[1:])],
                  [[case, *(bench.estimate("us", kind, case) for kind in KINDS), *(ratio(kind, case) for kind in list(KINDS)[1:])] for case in cases],
                  note="off again is the same as off: how far chance goes. identifiers: compute_query_id alone, which the profile needs.")
    worst = max(cases, key=lambda case: ratio("profile", case).median)
    found = [ratio(kind, case) for kind in ("profile", "off again") for case in cases]
    return Result(
        title=TITLE,
        summary=f"With the profile on a transaction takes {min(estimate.median for estimate in found[:len(cases)]):.3f} to {ratio('profile', worst).median:.3f} of the time "
                f"without (most: {worst}); a second session without takes {min(e.median for e in found[len(cases):]):.3f} to {max(e.median for e in found[len(cases):]):.3f}.",
        what="The time of a transaction in sessions with `light_explain.profile` on and off: one account looked up (`pgbench -S`, simple and prepared), pgbench's TPC-B, a "
             f"statement over 1,000 rows, and a join with groups over all accounts: `{ANALYTIC}`; and of one of the statements that one session, or eight at a time, run inside the server.",
        how=f"Sessions of every kind are open on one server and take turns in bursts; then new ones take their place, {sessions} times. The statement over all accounts "
            "takes turns in one session of each kind. One and eight sessions of a kind run a function that makes statements of other columns each and executes them; 4,096 are more than the profile "
            "has room for. `synchronous_commit` is off; time is the client's. That the profile has the statements is checked.",
        blocks=[table, Plot("Time over off", "load", "times", [Series(kind, cases, [ratio(kind, case).median for case in cases]) for kind in list(KINDS)[1:]], kind="bar")],
        checks=[not_slower(f"{case}: with the profile over without", ratio("profile", case), MARGIN) for case in alone] if not bench.quick else [])
