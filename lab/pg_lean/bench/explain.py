"""EXPLAIN ANALYZE with time and buffers: plain query, core's instrumentation and light_explain side by side, in one run."""

from __future__ import annotations

import re

from pg_lean.bench import Bench, Check, LabError, Plot, Result, Series, Table
from pg_lean.measure import timed

TITLE = "EXPLAIN ANALYZE: what measuring a query adds to it, core against light_explain"
PRELOAD = ("auto_explain", "light_explain")
SETTINGS = {"shared_buffers": "512MB", "max_parallel_workers_per_gather": 0, "jit": False, "work_mem": "256MB", "autovacuum": False,
            "effective_cache_size": "1GB"}

OPTIONS = "ANALYZE, BUFFERS, TIMING"

#: Settings of a session under auto_explain: off, and measuring every statement but logging none.
ALWAYS_ON = "-c auto_explain.log_min_duration=1h -c auto_explain.log_analyze=on -c auto_explain.log_buffers=on -c auto_explain.log_timing=on"
OLTP = {"plain": "-c auto_explain.log_min_duration=-1",
        "core": f"{ALWAYS_ON} -c light_explain.enabled=off",
        "light_explain": f"{ALWAYS_ON} -c light_explain.enabled=on"}
TARGETS = {"count": 1.25, "other": 1.10}


def shapes(bench: Bench) -> dict[str, str]:
    """Name: query.  The first are the document's own."""
    small = f"{bench.pick(full=1_000_000, quick=300_000):,}"
    queries = {f"count(*) of {small} rows": "SELECT count(*) FROM t"}
    if not bench.quick:
        queries["count(*) of 5,000,000 rows"] = "SELECT count(*) FROM big"
    return queries | {
        "hash join": "SELECT count(*) FROM t JOIN u ON t.id = u.t_id",
        "sort": "SELECT count(*) FROM (SELECT * FROM t ORDER BY v, id OFFSET 0) s",
        "hash aggregate": "SELECT count(*) FROM (SELECT k, sum(id) FROM t GROUP BY k OFFSET 0) s",
        "nested loop, index lookups": "SELECT count(t.v) FROM u, LATERAL (SELECT v FROM t WHERE t.id = u.t_id OFFSET 0) t"}


def run(bench: Bench) -> Result:
    """Every shape: the plain query, EXPLAIN ANALYZE by core, by light_explain's automatic clock, and by each clock of its own."""
    bench.server.need_extension("light_explain")
    fill(bench)
    queries = shapes(bench)
    repetitions = bench.iterations(full=15, quick=5)
    with bench.connect() as conn:
        for case, query in queries.items():
            def variant(enabled: bool | None, timing: str = "auto"):
                def measure():
                    if enabled is None:
                        return timed(conn, query)
                    bench.server.set(conn, {"light_explain.enabled": enabled, "light_explain.timing": timing})
                    return timed(conn, f"EXPLAIN ({OPTIONS}) {query}")
                return measure

            bench.interleave({"plain": variant(None), "core": variant(False), "light_explain": variant(True),
                              "ticker": variant(True, "ticker"), "exact": variant(True, "exact"), "ordered": variant(True, "ordered")},
                             repetitions, case=case, warmup=2)
    oltp(bench)
    return present(bench, list(queries), repetitions)


def fill(bench: Bench) -> None:
    rows = bench.pick(full=1_000_000, quick=300_000)
    with bench.activity("filling tables"), bench.connect() as conn:
        conn.execute(f"CREATE TABLE t AS SELECT g AS id, g % 1000 AS k, md5(g::text) AS v FROM generate_series(1, {rows}) g")
        conn.execute("CREATE INDEX ON t (id)")
        conn.execute(f"CREATE TABLE u AS SELECT (g * 7919::bigint % {rows})::int + 1 AS t_id FROM generate_series(1, {min(rows, 200_000)}) g")
        if not bench.quick:
            conn.execute("CREATE TABLE big AS SELECT g AS id FROM generate_series(1, 5000000) g")
        conn.execute("VACUUM ANALYZE")


def oltp(bench: Bench) -> None:
    """pgbench -S -M prepared, always on through auto_explain."""
    server = bench.need_private()
    schema = bench.pgbench_tables(bench.scale(full=10, quick=2))
    seconds = str(bench.pick(full=8, quick=3))

    def variant(options: str):
        def measure():
            done = server.run("pgbench", "-n", "-S", "-M", "prepared", "-c", "1", "-T", seconds,
                              env={"PGOPTIONS": f"-c search_path={schema},public {options}"})
            found = re.search(r"tps = ([\d.]+)", done.stdout)
            if done.returncode != 0 or found is None:
                raise LabError(f"pgbench failed: {done.stderr.strip()}")
            return {"ms": 1000 / float(found[1]), "tps": float(found[1])}
        return measure

    bench.interleave({name: variant(options) for name, options in OLTP.items()}, bench.iterations(full=9, quick=3), case="pgbench -S",
                     text="pgbench -S -M prepared under auto_explain")


def present(bench: Bench, cases: list[str], repetitions: int) -> Result:
    """Tables of times and ratios, and the targets."""
    def ratio(case: str, variant: str):
        return bench.ratio("ms", variant, "plain", case)

    clocks = ("ticker", "exact", "ordered")
    table = Table("Milliseconds, and times the plain query", ["query", "plain ms", "core ms", "light_explain ms", "core / plain",
                                                              "light_explain / plain", *(f"{clock} / plain" for clock in clocks)],
                  [[case, *(bench.estimate("ms", name, case) for name in ("plain", "core", "light_explain")), ratio(case, "core"),
                    ratio(case, "light_explain"), *(ratio(case, clock) for clock in clocks)] for case in cases],
                  note="light_explain is timing = auto; the last columns are its other clocks.")
    always = Table("pgbench -S -M prepared, every statement measured by auto_explain, nothing logged",
                   ["variant", "transactions a second", "µs each, over plain"],
                   [[name, bench.estimate("tps", name, "pgbench -S"), ratio("pgbench -S", name)] for name in OLTP])
    plot = Plot("Times the plain query", "query", "times", kind="bar",
                series=[Series(name, cases, [ratio(case, name).median for case in cases]) for name in ("core", "light_explain")])
    checks = [Check(f"EXPLAIN ANALYZE over the plain query, {case}", ratio(case, "light_explain").median, "<=",
                    TARGETS["count" if case.startswith("count") else "other"]) for case in cases]
    checks += [Check("pgbench -S under auto_explain over pgbench -S without", ratio("pgbench -S", "light_explain").median, "<=", 1.02),
               Check("the same, over core's instrumentation", bench.ratio("ms", "light_explain", "core", "pgbench -S").median, "<=", 1.0)]
    first = cases[0]
    return Result(
        title=TITLE,
        summary=f"EXPLAIN ANALYZE of {first} takes {ratio(first, 'light_explain').median:.2f} times the plain query; core's takes "
                f"{ratio(first, 'core').median:.2f} times.",
        what="The time of a query as the client sees it: as it is, under EXPLAIN (ANALYZE, BUFFERS, TIMING) with the server's own instrumentation, and with light_explain.",
        how=f"One session, {repetitions} interleaved repetitions after two rounds thrown away, everything in shared buffers, no parallel workers, no JIT. "
            "Ratios are paired in each repetition, then the median is taken. pgbench runs with one client.",
        blocks=[table, plot, always], checks=checks)
