"""EXPLAIN ANALYZE with time and buffers: plain query, core's instrumentation and light_explain side by side, in one run."""

from __future__ import annotations

import contextlib
import functools
import random
import shutil
from typing import Any, Iterable

import psycopg

from pg_lean import always, battery, profiler, shares
from pg_lean.always import Goal
from pg_lean.bench import Bench, Check, Headline, Note, Plot, Result, Series, Table, not_slower
from pg_lean.errors import Unavailable
from pg_lean.measure import Estimate, bursts, explain_text, timed

TITLE = "EXPLAIN ANALYZE: what measuring a query adds to it, core against light_explain"
PRELOAD = ("light_explain", "auto_explain")
SETTINGS = {"shared_buffers": "512MB", "max_parallel_workers_per_gather": 0, "jit": False, "work_mem": "256MB", "autovacuum": False,
            "effective_cache_size": "1GB"}

OPTIONS = "ANALYZE, BUFFERS, TIMING"
#: The next best way on a stock server: rows and buffers, and no times of nodes.
WITHOUT_TIMES = "core, TIMING OFF"

#: Statements inside of functions: not measured, and measured one by one but none logged.
NESTED = {"plain": {"auto_explain.log_min_duration": -1, "light_explain.enabled": True}}
NESTED |= {name: {"auto_explain.log_min_duration": "1h", "auto_explain.log_analyze": True, "auto_explain.log_buffers": True,
                  "auto_explain.log_timing": True, "auto_explain.log_nested_statements": True, "light_explain.enabled": name != "core"}
           for name in ("core", "light_explain")}
#: Name, statement of PL/pgSQL, times it runs in one measurement.
LOOPS = {"index lookup": ("SELECT abalance INTO r FROM pgbench_accounts WHERE aid = i", 20_000),
         "join of two": ("SELECT abalance + bbalance INTO r FROM pgbench_accounts JOIN pgbench_branches USING (bid) WHERE aid = i", 15_000),
         "range of 41 rows": ("PERFORM abalance FROM pgbench_accounts WHERE aid BETWEEN i AND i + 40", 4_000),
         "sum of 100 rows": ("SELECT sum(abalance) INTO r FROM pgbench_accounts WHERE aid BETWEEN i AND i + 99", 2_000)}
#: Settings of a session with auto_explain that logs nothing: looking at the whole statement only, and measuring its nodes.
ALONE = "-c auto_explain.log_min_duration=1h"
ALWAYS_ON = f"{ALONE} -c auto_explain.log_analyze=on -c auto_explain.log_buffers=on -c auto_explain.log_timing=on"
#: Name, what the session loads, its settings.  "plain again" shows how much two equal kinds of session differ.
OLTP = {"plain": ("", ""),
        "plain again": ("", ""),
        "auto_explain, log_analyze off": ("auto_explain", ALONE),
        "core": ("auto_explain", ALWAYS_ON),
        "light_explain": ("light_explain,auto_explain", ALWAYS_ON)}
#: By the beginning of a query's name: what EXPLAIN ANALYZE may make of it (lower quartiles of CPU time), and by how many points of the whole a
#: node's share of the time may differ from the true one.  Both, so that neither is improved at the expense of the other.
TARGETS = {"count": 1.06, "filter": 1.12, "nested": 1.06, "hash join": 1.08, "lateral": 1.20, "": 1.10}
POINTS = 3
ANALYTIC_CASE = "join with groups over all accounts"
#: Rows of the table of which instructions are counted: what is counted is fifty times as slow.
COUNTED_ROWS = 20_000
#: Repetitions of a shape over those of others: what differs most from session to session has more, what is decided and takes long fewer.
REPEATED = {"nested": 3, "5,000,000": 0.6}
#: What "not slower" allows: half of what two equal sessions of one server differ by.
MARGIN = 0.02


def target(case: str) -> float:
    return next(most for beginning, most in TARGETS.items() if case.startswith(beginning))


def core_by_counter(conn: psycopg.Connection) -> bool:
    """Can the server's instrumentation be told to read the CPU's counter (since 19)?"""
    return conn.execute("SELECT count(*) FROM pg_settings WHERE name = 'timing_clock_source' AND 'tsc' = ANY (enumvals)").fetchone()[0] > 0


#: Statements whose nodes' shares are known to differ, over the tables of make_tables().
STATEMENTS = {
    "filter, half of the rows": "SELECT count(*) FROM t WHERE k < 500",
    "filter, 5,000 rows at the beginning": "SELECT count(*) FROM t WHERE id + 0 <= 5000",
    "hash join": "SELECT count(*) FROM t JOIN u ON t.id = u.t_id",
    "sort": "SELECT count(*) FROM (SELECT * FROM t ORDER BY v, id OFFSET 0) s",
    "hash aggregate": "SELECT count(*) FROM (SELECT k, sum(id) FROM t GROUP BY k OFFSET 0) s",
    "nested loop, index lookups": "SELECT count(t.v) FROM u, LATERAL (SELECT v FROM t WHERE t.id = u.t_id OFFSET 0) t",
    "lateral aggregate, groups of unequal size": "SELECT sum(s) FROM c, LATERAL (SELECT sum(t.id) AS s FROM t WHERE t.id BETWEEN c.first AND c.last "
                                                 "OFFSET 0) l",
}


def shapes(bench: Bench) -> dict[str, str]:
    """Name: query.  The first are the document's own."""
    small = f"{rows_of(bench):,}"
    queries = {f"count(*) of {small} rows": "SELECT count(*) FROM t"}
    if not bench.quick:
        queries["count(*) of 5,000,000 rows"] = "SELECT count(*) FROM big"
    return queries | STATEMENTS


def run(bench: Bench) -> Result:
    """Every shape: the plain query, EXPLAIN ANALYZE by core and by light_explain, with either clock of each."""
    bench.server.need_extension("light_explain")
    fill(bench)
    queries = shapes(bench)
    repetitions = bench.iterations(full=25, quick=6)
    small = {case: query for case, query in queries.items() if "5,000,000" not in case}
    for case, query in queries.items():
        more = next((times for part, times in REPEATED.items() if part in case), 1)
        measure_shape(bench, case, query, max(round(repetitions * more), 3), with_system_clock=case in with_system_clock(queries))
    with bench.connect() as conn:
        share_errors(bench, conn, small)
    count_instructions(bench, small)
    memory(bench)
    statements = []
    if bench.server.private:
        always_on(bench)
        tries = bench.iterations(full=75, quick=2)
        with bench.progress(len(battery.read()[1]), "statements of the battery") as step:
            statements = battery.run(bench.need_private(), tries, bench.raw, lambda text: step(" ".join(text.split())[:50]))
    loops(bench)
    return present(bench, list(queries), repetitions, statements)


def measure_shape(bench: Bench, case: str, query: str, repetitions: int, *, with_system_clock: bool) -> None:
    """The plain query and EXPLAIN ANALYZE in turns, each round in another session."""
    local = bench.server.private
    with contextlib.ExitStack() as stack:
        session: list[psycopg.Connection] = []
        with bench.connect() as conn:
            counter = core_by_counter(conn)

        def another_session() -> None:
            """What a call of a node costs depends on where a session's memory happens to lie: each round has another one, shifted by chance."""
            stack.close()
            session[:] = [stack.enter_context(bench.connect())]
            session[0].execute(f"PREPARE elsewhere AS SELECT '{'x' * random.randint(1, 20_000)}'")
            timed(session[0], query)
            timed(session[0], f"EXPLAIN ({OPTIONS}) {query}")

        def variant(enabled: bool | None, timing: str = "auto", source: str = "auto", options: str = OPTIONS):
            def measure():
                if enabled is None:
                    return timed(session[0], query, cpu=local)
                bench.server.set(
                    session[0], {"light_explain.enabled": enabled, "light_explain.timing": timing} | ({"timing_clock_source": source} if counter else {})
                )
                return timed(session[0], f"EXPLAIN ({options}) {query}", cpu=local)
            return measure

        variants = {"plain": variant(None), "core": variant(False), "light_explain": variant(True)}
        if counter:
            variants["core, tsc"] = variant(False, source="tsc")
        if with_system_clock:
            variants["light_explain, system clock"] = variant(True, "system")
            variants[WITHOUT_TIMES] = variant(False, options="ANALYZE, BUFFERS, TIMING OFF")
        bench.interleave(variants, repetitions, case=case, before=another_session)


def front(bench: Bench) -> tuple[Headline, tuple[str, float]]:
    """The first shape."""
    bench.server.need_extension("light_explain")
    bench.server.make_schema()
    with bench.activity("filling tables"), bench.connect() as conn:
        make_tables(conn, rows_of(bench))
    case, query = next(iter(shapes(bench).items()))
    measure_shape(bench, case, query, bench.iterations(full=25, quick=6), with_system_clock=True)
    return headline(bench, case), ("`TIMING OFF`", bench.estimate("ms", WITHOUT_TIMES, case).median)


def headline(bench: Bench, case: str) -> Headline:
    return Headline(
        f"EXPLAIN (ANALYZE, BUFFERS) of {case}",
        bench.ratio("ms", "core", "light_explain", case),
        [(name, bench.estimate("ms", name, case).median) for name in ("core", "plain", "light_explain")],
    )


def rows_of(bench: Bench) -> int:
    return bench.pick(full=1_000_000, quick=300_000)


def with_system_clock(queries: Iterable[str]) -> list[str]:
    """The shapes that are also measured with the clock of machines whose counter cannot be trusted."""
    return [case for case in queries if case in ("hash join", next(iter(queries)))]


def fill(bench: Bench) -> None:
    with bench.activity("filling tables"), bench.connect() as conn:
        make_tables(conn, rows_of(bench))
        if not bench.quick:
            conn.execute("CREATE TABLE big AS SELECT g AS id FROM generate_series(1, 5000000) g")
            conn.execute("VACUUM ANALYZE big")


def make_tables(conn: psycopg.Connection, rows: int) -> None:
    conn.execute(f"CREATE TABLE t AS SELECT g AS id, g % 1000 AS k, md5(g::text) AS v FROM generate_series(1, {rows}) g")
    conn.execute("CREATE INDEX ON t (id)")
    conn.execute(f"CREATE TABLE u AS SELECT (g * 7919::bigint % {rows})::int + 1 AS t_id FROM generate_series(1, {min(rows, 200_000)}) g")
    # one group in twenty has nearly all of the rows
    conn.execute(f"""CREATE TABLE c AS SELECT g AS id, g * {rows // 400} AS first, g * {rows // 400} + CASE WHEN g % 20 = 0 THEN {rows // 25}
        ELSE 50 END AS last
        FROM generate_series(0, 399) g""")
    conn.execute("VACUUM ANALYZE t, u, c")


def share_errors(bench: Bench, conn: psycopg.Connection, queries: dict[str, str]) -> None:
    """How far the nodes' shares of the time are from the true ones: the largest difference of a statement's nodes, in points (percent of the statement).

    True is what a profiler sees of the plain statement, which it does not slow down.
    """
    if not bench.server.private:
        return
    cluster = bench.need_private()
    runs = bench.iterations(full=25, quick=1)
    try:
        profiler.need()
        program = profiler.Program(cluster.bindir / "postgres", cluster.root)
        with bench.progress(len(queries), "shares of nodes") as step:
            for case, query in queries.items():
                found = shares.compare(conn, program, query, OPTIONS, bench.pick(full=5.0, quick=1.0), runs)
                for source, said in found.said.items():
                    for run, one in enumerate(said):
                        bench.raw.add(source, run, f"shares: {case}", percent=found.points_off(one))
                step(case)
    except Unavailable as error:
        bench.console.print(f"  how true the shares are is not measured: {error}")


def count_instructions(bench: Bench, queries: dict[str, str]) -> None:
    """Instructions of the queries over small tables, plain and under EXPLAIN ANALYZE: they do not depend on what else the machine does."""
    from pg_lean.commands import instructions

    if bench.quick or shutil.which("valgrind") is None or not bench.server.private or bench.need_private().root is not None:
        return
    with bench.cluster(settings=SETTINGS, preload=["light_explain", "auto_explain"], name="counted") as server:
        with server.connect() as conn:
            make_tables(conn, COUNTED_ROWS)
        cases = [instructions.of_statement(query, COUNTED_ROWS, case) for case, query in queries.items()]
        for case, counted in instructions.count(server, "EXPLAIN ANALYZE", cases, bench.console):
            for kind, found in counted.items():
                bench.raw.add(kind, 0, f"instructions: {case.name}", instructions=found)


def memory(bench: Bench) -> None:
    """Bytes that the executor of a statement with some hundred nodes has in use, measured from inside of it."""
    nodes = 300
    query = ("SELECT max(used_bytes)::float8 FROM pg_backend_memory_contexts WHERE name = 'ExecutorState'"
             + "".join(f" UNION ALL SELECT {n}::float8 WHERE random() < 0" for n in range(nodes)))
    settings = {"plain": (False, False, 0), "plain, light_explain on": (True, False, 0), "core": (False, True, 0), "light_explain": (True, True, 0)}
    with bench.connect() as conn:
        conn.prepare_threshold = None
        # progress of statements this large is not in shared memory
        count = len(explain_text(conn, query, "COSTS OFF").split("->"))
        for name, (enabled, instrumented, switch_after) in settings.items():
            bench.server.set(conn, {"light_explain.enabled": enabled, "light_explain.switch_after": switch_after,
                                    "auto_explain.log_min_duration": "1h" if instrumented else -1, "auto_explain.log_analyze": True,
                                    "auto_explain.log_buffers": True})
            conn.execute(query)
            bench.raw.add(name, 0, "memory", bytes=conn.execute(query).fetchone()[0], nodes=count)


def always_on(bench: Bench) -> None:
    """Statements of every length, always measured by auto_explain: sessions in turns on a server that preloads nothing."""
    bench.need_private()
    scale = bench.scale(full=10, quick=2)
    with bench.cluster(settings=SETTINGS) as server:
        server.make_schema()
        server.run("pgbench", "-i", "-q", "-s", str(scale))

        def connect(libraries: str, options: str) -> psycopg.Connection:
            return always.prepare(server.connect(f"-c session_preload_libraries={libraries} {options}"))

        kinds = {name: functools.partial(connect, *session) for name, session in OLTP.items()}
        sessions = bench.iterations(full=always.SESSIONS, quick=3)
        for case, load in always.LOADS.items():
            with bench.progress(sessions, f"{case} under auto_explain") as step:
                bursts(
                    kinds,
                    load.transaction(case, scale * 100_000),
                    bench.pick(load.size, load.quick_size),
                    sessions,
                    into=bench.raw,
                    case=case,
                    after_each=step,
                    local=True,
                    turns=always.TURNS,
                )
        with always.Analytic(kinds, local=True) as analytic:
            bench.interleave(analytic.variants(), bench.iterations(full=60, quick=3), case=ANALYTIC_CASE, warmup=0, before=analytic.before)


def loops(bench: Bench) -> None:
    """Short statements in a PL/pgSQL loop, each measured by auto_explain: microseconds of one, without client and protocol."""
    bench.pgbench_tables(bench.scale(full=10, quick=2))
    repetitions = bench.iterations(full=31, quick=5)
    with bench.connect() as conn:
        for case, (statement, times) in LOOPS.items():
            conn.execute(f"""CREATE FUNCTION run_{times}() RETURNS void LANGUAGE plpgsql AS $$
                DECLARE r bigint; BEGIN FOR i IN 1..{times} LOOP {statement}; END LOOP; END$$""")

            def variant(settings: dict[str, Any]):
                def measure():
                    bench.server.set(conn, settings)
                    sample = timed(conn, f"SELECT run_{times}()", cpu=bench.server.private)
                    return {name.replace("ms", "us"): ms * 1000 / times for name, ms in sample.items()}
                return measure

            bench.interleave({name: variant(settings) for name, settings in NESTED.items()}, repetitions, case=f"loop: {case}")


def goals(bench: Bench, cases: list[str], statements: list[battery.Statement]) -> list[Goal]:
    """The goals, each with the measured value."""
    def found(case: str, metric: str = "cpu_us") -> Estimate:
        estimate = bench.raw.quartile_ratio(metric, "light_explain", "plain", case)
        return estimate if estimate.n else bench.raw.quartile_ratio(metric.removeprefix("cpu_"), "light_explain", "plain", case)

    every = [Goal(f"{case}, auto_explain", load.at_most, found(case)) for case, load in always.LOADS.items()]
    every.append(Goal(f"{ANALYTIC_CASE}, auto_explain", always.ANALYTIC_AT_MOST, found(ANALYTIC_CASE)))
    every += [Goal(f"EXPLAIN ANALYZE of {case}", target(case), found(case, "cpu_ms")) for case in cases]
    if statements:
        every.append(Goal("index lookup in a loop of PL/pgSQL, auto_explain", always.LOADS["pgbench -S"].at_most, found("loop: index lookup")))
    return [goal for goal in every if goal.found.n]


def present(bench: Bench, cases: list[str], repetitions: int, statements: list[battery.Statement]) -> Result:
    """Tables of times and ratios, and the targets."""
    def ratio(case: str, variant: str):
        return bench.ratio("ms", variant, "plain", case)

    def thousandths(estimate: Estimate) -> str:
        return f"{estimate.median:.3f} ({estimate.low:.3f}-{estimate.high:.3f})"

    table = Table("Milliseconds, and times the plain query", ["query", "plain ms", "core ms", f"{WITHOUT_TIMES} ms", "light_explain ms", "core / plain",
                                                              "light_explain / plain"],
                  [[case, *(bench.estimate("ms", name, case) if bench.raw.select(name, case) else None
                            for name in ("plain", "core", WITHOUT_TIMES, "light_explain")),
                    ratio(case, "core"),
                    ratio(case, "light_explain")] for case in cases],
                  note="light_explain is timing = auto, core is the server as it is by default.")
    clocks = [name for name in ("core", "core, tsc", "light_explain", "light_explain, system clock") if bench.raw.select(name)]
    by_clock = Table("Every clock, times the plain query", ["query", *clocks],
                     [[case, *(ratio(case, clock) if bench.raw.select(clock, case) else None for clock in clocks)] for case in cases])

    def share(case: str, name: str):
        if bench.raw.select(name, f"shares: {case}"):
            return bench.estimate("percent", name, f"shares: {case}")
        return "rounded" if bench.raw.select("light_explain", f"shares: {case}") else None

    def counted(case: str, name: str) -> str | None:
        rows = {row["variant"]: row["instructions"] for row in bench.raw.select(case=f"instructions: {case}")}
        return f"{rows[name] / rows['plain']:.3f}" if rows else None

    shared = [case for case in cases if bench.raw.select("light_explain", f"shares: {case}")]
    small = [case for case in cases if "5,000,000" not in case]
    short = [case for case in (*always.LOADS, ANALYTIC_CASE) if bench.raw.select(case=case)]
    ways = {way: battery.ratios(bench.raw, statements, way) for way in battery.WAYS} if statements else {}
    held = goals(bench, cases, statements)
    quartiles = {name: {case: bench.raw.quartile_ratio("cpu_ms" if bench.server.private else "ms", name, "plain", case) for case in small}
                 for name in ("core", "core, tsc", "light_explain") if bench.raw.select(name)}
    both = Table(
        "What measuring costs, and how true it is",
        [
            "query",
            *(f"time over plain | {name}" for name in quartiles),
            *(f"instructions over plain | {name}" for name in ("core", "light_explain")),
            *(f"points off | {name}" for name in ("core", "light_explain")),
        ],
        [
            [
                case,
                *(f"{found[case].median:.3f}" for found in quartiles.values()),
                *(counted(case, name) for name in ("core", "light_explain")),
                *(share(case, name) for name in ("core", "light_explain")),
            ]
            for case in small
        ],
        note="Lower quartiles of CPU time. Points off: the largest difference of a node's share of the time from the true one, percent of the statement. "
             "True is what a profiler sees of the plain statement. rounded: the server's figures are thousandths of a millisecond for each loop, which is "
             "too coarse here. Instructions: valgrind's callgrind, "
        f"tables of {COUNTED_ROWS:,} rows.",
    )
    goal_table = always.goals_table(
        held, note="Lower quartile of processor time over that of the same without measuring; for EXPLAIN ANALYZE over that of the plain query."
    )
    by_load = Table("Every statement measured by auto_explain, nothing logged: microseconds of processor time",
                    ["", "session", "microseconds", "over plain", "over core"],
                    [[case, name, bench.estimate("cpu_us", name, case), *(thousandths(bench.ratio("cpu_us", name, base, case)) for base in ("plain", "core"))]
                     for case in short for name in OLTP],
                    note="plain has neither library; plain again is the same and shows how far chance goes. With log_analyze off auto_explain looks at "
                         "the whole statement only; what it takes then is in core's and light_explain's figure too.")
    looped = Table("Statements in a PL/pgSQL loop, each measured by auto_explain, nothing logged: microseconds",
                   ["statement", *NESTED, "core / plain", "light_explain / plain", "light_explain / core"],
                   [[case, *(bench.estimate("us", name, f"loop: {case}") for name in NESTED),
                     *(bench.ratio("us", *pair, f"loop: {case}") for pair in (("core", "plain"), ("light_explain", "plain"), ("light_explain", "core")))]
                    for case in LOOPS])
    used = {row["variant"]: row["bytes"] for row in bench.raw.select(case="memory")}
    nodes = bench.raw.select(case="memory")[0]["nodes"]
    a_node = (used["light_explain"] - used["core"]) / nodes
    unmeasured = used["plain, light_explain on"] - used["plain"]
    space = Table(f"Memory of a statement with {nodes} nodes", ["", "bytes"],
                  [["a node, beyond the server's instrumentation", a_node], ["a statement without instrumentation", unmeasured]])
    plot = Plot("Times the plain query", "query", "times", kind="bar",
                series=[Series(name, cases, [ratio(case, name).median for case in cases]) for name in ("core", "light_explain")])
    checks = always.goal_checks(held)
    checks += [Check(f"points that a node's share is off, {case}", share(case, "light_explain").median, "<=", POINTS) for case in shared]
    checks += [
        not_slower(f"{case} under auto_explain, over core's instrumentation", bench.ratio("cpu_us", "light_explain", "core", case), MARGIN) for case in short
    ]
    checks += [Check(f"statements of the battery that are certainly slower than with core, {way}", float(len(battery.slower(found, MARGIN))), "<=", 0)
               for way, found in ways.items()]
    checks += [Check("bytes a node beyond core's struct", a_node, "<=", 512), Check("bytes without instrumentation", unmeasured, "<=", 0)]
    checks += [not_slower(f"{case} in a loop under auto_explain, over core's instrumentation",
                          bench.ratio("us", "light_explain", "core", f"loop: {case}"), MARGIN) for case in LOOPS]
    first = cases[0]
    return Result(
        title=TITLE,
        summary=f"EXPLAIN ANALYZE of {first} takes {ratio(first, 'light_explain').median:.2f} times the plain query; core's takes "
        f"{ratio(first, 'core').median:.2f} times.",
        what="The time of a query as the client sees it: as it is, under EXPLAIN (ANALYZE, BUFFERS, TIMING) with the server's instrumentation, and with "
             "light_explain.",
        how=f"{repetitions} interleaved repetitions or a multiple, each in a new session, after one that is discarded; everything in shared buffers, no "
            "parallel workers, no JIT. "
        "Ratios are paired in each repetition, then the median is taken. Short statements run in one session of each kind at a time.",
        headlines=[headline(bench, case) for case in (first, "hash join")],
        blocks=[
            both,
            goal_table,
            table,
            plot,
            by_clock,
            *([by_load, battery.table(ways, MARGIN)] if short else [Note("Short statements and the battery were not measured: they need a private server.")]),
            looped,
            space,
        ],
        checks=checks,
    )
