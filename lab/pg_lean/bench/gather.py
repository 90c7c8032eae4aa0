"""The cost of sampling a temporary table that was not analyzed, relative to filling it; and the accuracy of the planner's estimates."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from pg_lean.bench import Bench, Check, Estimate, Result, Table, Unavailable
from pg_lean.measure import cpu_seconds

TITLE = "Statistics of temporary tables that were not analyzed: their cost and accuracy"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "autovacuum": "off"}

FULL, QUICK = (10_000, 100_000, 1_000_000, 3_000_000), (10_000, 100_000)
ASKED = {"one column": "item = 5", "three columns": "item = 5 AND amount < 1000 AND part = 7", "text": "remark = 'x'"}
ANALYZE = "ANALYZE"

#: The minimum cost of sampling: one column of a sample of two rows, the size set by default_statistics_target.
LEAST = "one column, two rows"
WAYS = {**ASKED, LEAST: ASKED["one column"]}

#: Largest accepted cost of sampling one column, relative to filling the table.
OF_FILLING = 0.02

#: Conditions on columns of several distributions.
CONDITIONS = (
    "uniform < 300",
    "uniform BETWEEN 100 AND 500",
    "skewed = 0",
    "skewed < 10",
    "skewed > 500",
    "few_values = 0",
    "few_values IN (1, 2)",
    "half_null IS NULL",
    "half_null IN (7, 8, 9)",
    "half_null IS NOT NULL AND few_values = 3",
    "normal < 400",
    "normal > 600",
    "clustered < 60",
    "falling > -6000",
    "word = 'word 0'",
    "word < 'word 20'",
    "made < '2026-01-10'",
    "made > '2026-02-01'",
    "id <= 30000",
)
GUESSED, GATHERED = "guessed by the server", "gathered"


def run(bench: Bench) -> Result:
    """For each size the parts in turns, each on a new table; then the estimates."""
    bench.server.need_function("pg_temp_stats_info()")
    bench.server.make_schema()
    sizes = bench.pick(full=FULL, quick=QUICK)
    repetitions = bench.iterations(full=9, quick=2)
    with bench.connect(temp_buffers="256MB", jit=False, max_parallel_workers_per_gather=0) as conn:
        conn.prepare_threshold = None
        if cpu_seconds(conn.info.backend_pid) is None:
            raise Unavailable("the server's processor time cannot be seen", "Run it where the server runs.")
        try:
            for rows in sizes:
                conn.execute(f"DROP TABLE IF EXISTS gather_{rows}")
                conn.execute(
                    f"CREATE TABLE gather_{rows} AS SELECT g AS id, hashint4(g) & 65535 AS amount, ((hashint4(g + 1)::bigint & 1073741823) % 10000)::int AS "
                    "item,"
                    f" (hashint4(g + 2) & 1073741823) % 100 AS part, md5(g::text) AS remark FROM generate_series(1, {rows}) g"
                )
                conn.execute(f"VACUUM ANALYZE gather_{rows}")
            for rows in sizes:
                bench.interleave(
                    {name: (lambda name=name, rows=rows: once(conn, rows, name)) for name in (*WAYS, ANALYZE)}, repetitions, case=rows, text=f"{rows:,} rows"
                )
            wrong = estimates(conn, bench.pick(full=9, quick=3))
        finally:
            for rows in sizes:
                conn.execute(f"DROP TABLE IF EXISTS gather_{rows}")
    return present(bench, sizes, repetitions, wrong)


def once(conn: psycopg.Connection, rows: int, name: str) -> dict[str, float]:
    """Microseconds of the server's processor time: a load, a scan of it, and the first plan with statistics over one without."""
    pid = conn.info.backend_pid

    def used(statement: str) -> float:
        before = cpu_seconds(pid)
        conn.execute(statement)
        return (cpu_seconds(pid) - before) * 1e6

    conn.execute("SET parallel_temp.statistics = off")
    try:
        found = {"load_us": used(f"CREATE TEMP TABLE t AS SELECT * FROM gather_{rows}")}
        if name == ANALYZE:
            return found | {"us": used("ANALYZE t")}
        query = f"EXPLAIN SELECT * FROM t WHERE {WAYS[name]}"
        conn.execute(f"SET default_statistics_target = {1 if name == LEAST else 100}")
        conn.execute(query)  # the catalogs' caches know the table
        without = used(query)
        found["scan_us"] = used("SELECT count(*) FROM t")
        conn.execute("SET parallel_temp.statistics = on")
        return found | {"us": used(query) - without}
    finally:
        conn.execute("RESET default_statistics_target")
        conn.execute("DROP TABLE t")


def estimates(conn: psycopg.Connection, samples: int) -> dict[str, dict[str, Estimate]]:
    """For each condition the factor by which an estimate is wrong: guessed, gathered (of several samples), after ANALYZE."""
    conn.execute("SET parallel_temp.statistics = off")
    conn.execute(
        "CREATE TEMP TABLE t (id int, uniform int, skewed int, few_values int, half_null int, normal int, clustered int, falling int, word text, made "
        "timestamptz)"
    )
    conn.execute("SELECT setseed(0.5)")
    conn.execute(
        "INSERT INTO t SELECT i, (random() * 1000)::int, (1000 * random() ^ 4)::int, (random() * 4)::int, CASE WHEN random() < 0.5 THEN (random() * 20)::int "
        "END,"
        " ((random() + random() + random() + random()) * 250)::int, i / 100, -i, 'word ' || (random() * random() * 50)::int,"
        " timestamptz '2026-01-01' + i * interval '1 minute' FROM generate_series(1, 60000) i"
    )
    right = {condition: conn.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchone()[0] for condition in CONDITIONS}

    def wrong() -> dict[str, float]:
        found = {}
        for condition, rows in right.items():
            plan: Any = conn.execute(f"EXPLAIN (FORMAT json) SELECT * FROM t WHERE {condition}").fetchone()[0]
            guess = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"]
            found[condition] = max(guess, rows, 1) / max(min(guess, rows), 1)
        return found

    try:
        guessed = wrong()
        conn.execute("SET parallel_temp.statistics = on")
        gathered = []
        for _ in range(samples):
            gathered.append(wrong())
            conn.execute("ALTER TABLE t SET (fillfactor = 100)")  # which changes nothing, but the next look is a new one
        analyzed = []
        for _ in range(samples):
            conn.execute("ANALYZE t")
            analyzed.append(wrong())
    finally:
        conn.execute("DROP TABLE t")
    return {condition: {GUESSED: Estimate.of([guessed[condition]]), GATHERED: Estimate.of(one[condition] for one in gathered),
                        ANALYZE: Estimate.of(one[condition] for one in analyzed)} for condition in CONDITIONS}


def present(bench: Bench, sizes: tuple[int, ...], repetitions: int, wrong: dict[str, dict[str, Estimate]]) -> Result:
    def cost(rows: int, name: str) -> Estimate:
        return bench.estimate("us", name, rows)

    def load(rows: int) -> Estimate:
        return Estimate.of(row["load_us"] for row in bench.raw.rows if row["case"] == rows)

    def of_filling(rows: int, name: str) -> Estimate:
        """A look over the filling of the same table."""
        return Estimate.of(row["us"] / row["load_us"] for row in bench.raw.rows if row["case"] == rows and row["variant"] == name)

    costs = Table(
        "What looking costs: µs of processor time",
        [
            "rows",
            "filling the table",
            "one scan of it",
            *(f"the first plan | {name}" for name in WAYS),
            ANALYZE,
            *(f"of what filling cost | {name}" for name in (*WAYS, ANALYZE)),
        ],
        [
            [
                rows,
                load(rows),
                bench.estimate("scan_us", "one column", rows),
                *(cost(rows, name) for name in (*WAYS, ANALYZE)),
                *(f"{of_filling(rows, name).median:.1%}" for name in (*WAYS, ANALYZE)),
            ]
            for rows in sizes
        ],
        note="The first plan: EXPLAIN of a query with conditions on so many columns, less the same without statistics. Filling a table costs the same with "
             "and without. "
        "A table that no query uses costs nothing. Two rows: with default_statistics_target = 1, the minimum cost, and too few rows to estimate "
        "anything.",
    )
    good = Table(
        "How wrong estimates are: by what factor",
        ["condition", GUESSED, GATHERED, ANALYZE],
        [[condition, *found.values()] for condition, found in wrong.items()],
        note="60,000 rows, columns of several distributions; 1 is right. Gathered and analyzed several times, each from another sample.",
    )
    largest = max(sizes)
    return Result(
        title=TITLE,
        summary=f"The first plan that asks for one column of a table of {largest:,} rows costs {of_filling(largest, 'one column').median:.1%} of what "
                "filling the table did.",
        what="Processor time of a load, and of the look that the planner takes when it first asks for the table; estimates that come out of it.",
        how=f"{repetitions} interleaved repetitions in one session, each on a new table, after one that was discarded; no workers.",
        blocks=[costs, good],
        checks=[]
        if bench.quick
        else [
            Check.of(
                f"the first plan that asks for one column of {rows:,} rows, of what filling the table cost", of_filling(rows, "one column"), "<=", OF_FILLING
            )
            for rows in sizes
        ],
    )
