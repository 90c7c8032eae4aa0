"""Time left as pg-lean top tells it: how wrong it is at a quarter, half and three quarters of a statement, and what being watched costs."""

from __future__ import annotations

import re
import threading
import time

from pg_lean.activity import Activity
from pg_lean.bench import Bench, Check, Estimate, LabError, Plot, Result, Series, Table, Unavailable, not_slower
from pg_lean.cluster import Cluster

TITLE = "Time left: how wrong it is while statements run, and what it costs to be watched"
PRELOAD = ("light_explain",)
SETTINGS = {"shared_buffers": "1GB", "jit": False, "autovacuum": False, "compute_query_id": True, "light_explain.profile": True, "work_mem": "32MB",
            "light_explain.progress_statements": 100}

#: Parts of a statement's time at which the foretold rest is compared with the true one.
POINTS = (0.25, 0.5, 0.75)
#: Seconds between two looks: a screen at 2 Hz for the costs, more often for the errors.
LOOK, SCREEN = 0.1, 0.5
SESSIONS = 16

#: Tables: sales of {rows} rows over items and customers, some columns that go together, which the planner does not know.
TABLES = """
CREATE TABLE item AS SELECT g AS item_id, g % 50 AS kind, g % 50 AS shelf, md5(g::text) AS name FROM generate_series(1, {rows} / 20) g;
CREATE TABLE customer AS SELECT g AS customer_id, g % 25 AS region, md5(g::text) AS name FROM generate_series(1, {rows} / 10) g;
CREATE TABLE sale AS SELECT g AS sale_id, 1 + (g * 7919::bigint) % ({rows} / 20) AS item_id, 1 + (g * 104729::bigint) % ({rows} / 10) AS customer_id, g % 365 AS day, (g % 1000)::numeric / 7 AS amount
    FROM generate_series(1, {rows}) g;
CREATE INDEX ON item (item_id); CREATE INDEX ON customer (customer_id);
VACUUM ANALYZE item; VACUUM ANALYZE customer; VACUUM ANALYZE sale"""

#: Shapes that analytic work is made of; in brackets of the name what is hard about them.
QUERIES = {
    "scan and sum": "SELECT day % 7, sum(amount) FROM sale GROUP BY 1",
    "filter (rows at the end)": "SELECT count(*), sum(sqrt(amount)) FROM sale WHERE sale_id > {rows} / 2 AND amount::text LIKE '%1%'",
    "hash joins": "SELECT region, kind, sum(amount) FROM sale JOIN item USING (item_id) JOIN customer USING (customer_id) GROUP BY 1, 2",
    "join (columns that go together)": "SELECT region, sum(amount) FROM sale JOIN item USING (item_id) JOIN customer USING (customer_id) WHERE kind < 25 AND shelf < 25 GROUP BY 1",
    "sort": "SELECT count(name) FROM (SELECT c.name FROM sale JOIN customer c USING (customer_id) ORDER BY c.name, amount OFFSET 0) s",
    "many groups": "SELECT count(*) FROM (SELECT customer_id, day, sum(amount) FROM sale GROUP BY 1, 2 OFFSET 0) s",
    "distinct": "SELECT day, count(DISTINCT item_id) FROM sale GROUP BY day",
    "nested loop": "SELECT count(*) FROM (SELECT * FROM sale WHERE day < 90 OFFSET 0) s, LATERAL (SELECT name FROM item WHERE item.item_id = s.item_id OFFSET 0) i",
    "subplan": "SELECT count(*) FROM sale WHERE day < 60 AND amount > (SELECT avg(length(name)) FROM item WHERE item.item_id = sale.item_id)",
    "windows": "SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY day ORDER BY amount) AS r FROM sale) s",
    "two aggregates": "WITH s AS MATERIALIZED (SELECT item_id, sum(amount) AS t FROM sale GROUP BY 1) SELECT count(*) FROM s JOIN item USING (item_id) WHERE t > (SELECT avg(t) FROM s)",
    "semi join": "SELECT count(*) FROM customer c WHERE EXISTS (SELECT 1 FROM sale WHERE sale.customer_id = c.customer_id AND amount > 100)",
}


def run(bench: Bench) -> Result:
    """Every query several times, looked at while it runs; then pgbench with and without somebody who looks."""
    bench.server.need_function("light_explain_progress()")
    rows = bench.pick(full=4_000_000, quick=400_000)
    with bench.activity("filling tables"), bench.connect() as conn:
        bench.server.make_schema()
    with bench.activity(f"{rows:,} sales"), bench.connect() as conn:
        for statement in TABLES.format(rows=rows).split(";"):
            conn.execute(statement)
    repetitions = bench.iterations(full=5, quick=1)
    with bench.progress(repetitions * len(QUERIES), "statements") as step:
        for repetition in range(repetitions):
            for name, query in QUERIES.items():
                watched(bench, name, query.format(rows=rows), repetition)
                step(name)
    watchers(bench, bench.iterations(full=15, quick=3))
    return present(bench, repetitions)


def watched(bench: Bench, name: str, query: str, repetition: int) -> None:
    """Run a query, look all the while, and keep how wrong the time left was at each of POINTS."""
    with bench.connect() as conn, bench.connect() as watch:
        pid, outcome, seen = conn.info.backend_pid, {}, []

        def work() -> None:
            try:
                outcome["start"] = time.monotonic()
                conn.execute(query).fetchall()
            except Exception as error:
                outcome["error"] = error
            outcome["end"] = time.monotonic()

        activity = Activity(watch)
        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            for statement in activity.look():
                if statement.pid == pid:
                    seen.append((time.monotonic(), statement.left, statement.share))
            time.sleep(LOOK)
        thread.join()
    if "error" in outcome:
        raise LabError(f"{name}: {outcome['error']}")
    seconds = outcome["end"] - outcome["start"]
    for point in POINTS:
        moment = outcome["start"] + point * seconds
        near = [entry for entry in seen if abs(entry[0] - moment) < max(0.1 * seconds, LOOK)]
        if near:
            at, left, share = min(near, key=lambda entry: abs(entry[0] - moment))
            true = outcome["end"] - at
            if left is not None:
                bench.raw.add("pg_lean", repetition, f"{name} at {point:.0%}", error=100 * abs(left - true) / true, left=left, true=true, share=share, seconds=seconds)
            else:
                bench.raw.add("unknown", repetition, f"{name} at {point:.0%}", true=true, seconds=seconds)


def watchers(bench: Bench, repetitions: int) -> None:
    """Transactions a second of busy sessions while a screen looks twice a second, and while none does."""
    if not isinstance(bench.server, Cluster):
        return
    bench.pgbench_tables(bench.scale(full=10, quick=2))

    def load(with_screen: bool):
        def measure() -> dict[str, float]:
            stop = threading.Event()

            def look() -> None:
                with bench.connect() as conn:
                    activity = Activity(conn)
                    while not stop.wait(SCREEN):
                        activity.look()

            thread = threading.Thread(target=look)
            if with_screen:
                thread.start()
            try:
                done = bench.server.run("pgbench", "-n", "-S", "-c", str(SESSIONS), "-j", "2", "-T", str(bench.pick(full=5, quick=1)))
            finally:
                stop.set()
                if with_screen:
                    thread.join()
            found = re.search(r"^tps = ([\d.]+)", done.stdout, re.M)
            if found is None:
                raise Unavailable(f"pgbench did not run: {done.stderr.strip()[:300]}")
            return {"us": 1e6 / float(found.group(1))}
        return measure

    bench.interleave({"alone": load(False), "watched": load(True), "alone again": load(False)}, repetitions, case=f"{SESSIONS} sessions")


def present(bench: Bench, repetitions: int) -> Result:
    def error(name: str, point: float) -> Estimate | None:
        case = f"{name} at {point:.0%}"
        return bench.raw.estimate("error", "pg_lean", case) if any(row["case"] == case and "error" in row for row in bench.raw.rows) else None

    table = Table("Error of the time left, in percent of the true time left", ["statement", *(f"at | {point:.0%}" for point in POINTS)],
                  [[name, *(error(name, point) for point in POINTS)] for name in QUERIES], note="Empty: no time was told then.")
    medians = {point: sorted(found.median for name in QUERIES if (found := error(name, point))) for point in POINTS}

    def middle(point: float) -> float:
        values = medians[point]
        return values[len(values) // 2] if values else float("nan")

    blocks = [table, Plot("Error of the time left at half time", "statement", "%", [Series("pg_lean", list(QUERIES), [found.median if (found := error(name, 0.5)) else 0 for name in QUERIES])], kind="bar")]
    checks = [Check("median error at half time", middle(0.5), "<=", 25, "%")]
    text = ", ".join(f"{middle(point):.0f} % at {point:.0%}" for point in POINTS)
    summary = f"The time left is wrong by {text} of the statement's time (medians over {len(QUERIES)} kinds of statements, of the true time left)."
    case = f"{SESSIONS} sessions"
    if any(row["case"] == case for row in bench.raw.rows):
        ratio, chance = bench.ratio("us", "watched", "alone", case), bench.ratio("us", "alone again", "alone", case)
        blocks.append(Table("Time of a transaction of 16 busy sessions (pgbench -S), profile on", ["µs | alone", "µs | watched at 2 Hz", "watched over alone", "alone again over alone"],
                            [[bench.estimate("us", "alone", case), bench.estimate("us", "watched", case), ratio, chance]]))
        if not bench.quick:
            checks.append(not_slower("watched over alone", ratio, 0.01))
        summary += f" {SESSIONS} busy sessions take {ratio.median:.3f} of the time when a screen looks twice a second ({chance.median:.3f} without it, in turns)."
    return Result(
        title=TITLE, summary=summary,
        what="While a statement runs, the time left that `pg-lean top` shows, against what it then took; and the time of a transaction of busy sessions with and without such a screen.",
        how=f"{len(QUERIES)} statements, {repetitions} times each, on tables whose columns go together in ways that the planner does not know; looked at every {LOOK:g} s. "
            f"For the costs {SESSIONS} sessions of `pgbench -S` in turns, the screen's queries every {SCREEN:g} s.",
        blocks=blocks, checks=checks)
