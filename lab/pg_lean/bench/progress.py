"""Time left as pg-lean top shows it: how wrong it is at a quarter, half and three quarters of a statement.

The looks are recorded, and replayed without each constant of the model: a constant that does not pay is to be removed.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from typing import Any, Iterable

from pg_lean import progress
from pg_lean.activity import Activity
from pg_lean.bench import Bench, Check, Estimate, LabError, Measurements, Plot, Result, Series, Table

TITLE = "Time left: how wrong it is while statements run"
PRELOAD = ("light_explain",)
SETTINGS = {"shared_buffers": "1GB", "jit": False, "autovacuum": False, "compute_query_id": True, "light_explain.profile": True, "work_mem": "32MB",
            "light_explain.progress_statements": 100}

#: Parts of a statement's time at which the foretold rest is compared with the true one.
POINTS = (0.25, 0.5, 0.75)
#: Error in percent that stands for a time that was not told.
UNTOLD = 100.0
#: Percentage points of the median error at half time that a constant must save to be kept.
WORTH = 2.0
#: Seconds between two samples.
LOOK = 0.1

#: Tables: sales of {rows} rows over items and customers, some columns that go together, which the planner does not know; and {times} times as many of them.
TABLES = """
CREATE TABLE item AS SELECT g AS item_id, g % 50 AS kind, g % 50 AS shelf, md5(g::text) AS name FROM generate_series(1, {rows} / 20) g;
CREATE TABLE customer AS SELECT g AS customer_id, g % 25 AS region, md5(g::text) AS name FROM generate_series(1, {rows} / 10) g;
CREATE TABLE sale AS SELECT g AS sale_id, 1 + (g * 7919::bigint) % ({rows} / 20) AS item_id, 1 + (g * 104729::bigint) % ({rows} / 10) AS customer_id,
    g % 365 AS day, (g % 1000)::numeric / 7 AS amount
    FROM generate_series(1, {rows}) g;
CREATE TABLE long_sale AS SELECT g AS sale_id, 1 + (g * 7919::bigint) % ({rows} / 20) AS item_id,
    1 + (g * 104729::bigint) % ({rows} / 10) AS customer_id, g % 365 AS day, (g % 1000)::numeric / 7 AS amount
    FROM generate_series(1, {times} * {rows}) g;
CREATE INDEX ON item (item_id); CREATE INDEX ON customer (customer_id);
VACUUM ANALYZE item; VACUUM ANALYZE customer; VACUUM ANALYZE sale; VACUUM ANALYZE long_sale"""

#: Rows of long_sale for each of sale.
TIMES = 4

#: Shapes that analytic work is made of; in brackets of the name what is hard about them.  Those that would take less than some seconds read long_sale:
#: the time left of a finished statement is of no use.
QUERIES = {
    "scan and sum": "SELECT day % 7, count(*), sum(amount), avg(amount), sum(amount * 1.19), stddev(amount), max(amount) FROM long_sale GROUP BY 1",
    "filter (rows at the end)": "SELECT count(*), sum(sqrt(amount)) FROM long_sale WHERE sale_id > {times} * {rows} / 2 AND amount::text LIKE '%1%'",
    "hash joins": "SELECT region, kind, sum(amount) FROM sale JOIN item USING (item_id) JOIN customer USING (customer_id) GROUP BY 1, 2",
    "join (columns that go together)": "SELECT region, sum(amount) FROM long_sale JOIN item USING (item_id) JOIN customer USING (customer_id) WHERE kind < "
                                       "25 AND shelf < 25 GROUP BY 1",
    "sort": "SELECT count(name) FROM (SELECT c.name FROM sale JOIN customer c USING (customer_id) ORDER BY c.name, amount OFFSET 0) s",
    "sort (merge passes)": "SELECT count(*) FROM (SELECT amount, sale_id FROM sale ORDER BY amount, item_id OFFSET 0) s",
    "many groups": "SELECT count(*) FROM (SELECT customer_id, day, sum(amount) FROM sale GROUP BY 1, 2 OFFSET 0) s",
    "distinct": "SELECT day, count(DISTINCT item_id) FROM long_sale GROUP BY day",
    "nested loop": "SELECT count(*) FROM (SELECT * FROM long_sale WHERE day < 90 OFFSET 0) s, LATERAL (SELECT name FROM item WHERE item.item_id = s.item_id "
                   "OFFSET 0) i",
    "subplan": "SELECT count(*) FROM long_sale WHERE day < 60 AND amount > (SELECT avg(length(name)) FROM item WHERE item.item_id = long_sale.item_id)",
    "windows": "SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY day ORDER BY amount) AS r FROM sale) s",
    "two aggregates": "WITH s AS MATERIALIZED (SELECT item_id, sum(amount) AS t FROM long_sale GROUP BY 1) SELECT count(*) FROM s JOIN item USING (item_id) "
                      "WHERE t > (SELECT avg(t) FROM s)",
    "semi join": "SELECT count(*) FROM customer c WHERE EXISTS (SELECT 1 FROM long_sale WHERE long_sale.customer_id = c.customer_id AND amount > 100)",
}

#: Settings of some of them.
SETTINGS_OF = {"sort (merge passes)": {"work_mem": "256kB"}}


def run(bench: Bench) -> Result:
    """Every query several times, looked at while it runs."""
    bench.server.need_function("light_explain_progress()")
    rows = bench.pick(full=4_000_000, quick=400_000)
    with bench.activity("filling tables"), bench.connect() as conn:
        bench.server.make_schema()
    with bench.activity(f"{rows:,} and {TIMES * rows:,} sales"), bench.connect() as conn:
        for statement in TABLES.format(rows=rows, times=TIMES).split(";"):
            conn.execute(statement)
    repetitions = bench.iterations(full=5, quick=1)
    found: list[Recording] = []
    with bench.progress(repetitions * len(QUERIES), "statements") as step:
        for repetition in range(repetitions):
            for name, query in QUERIES.items():
                found.append(watched(bench, name, query.format(rows=rows, times=TIMES), repetition))
                found[-1].keep(bench.raw)
                step(name)
    return present(bench, repetitions, ablations(found))


@dataclass
class Recording:
    """A statement that ran from `start` to `end`, and looks at it: moment, seconds since it began, its nodes."""

    name: str
    repetition: int
    start: float = 0.0
    end: float = 0.0
    looks: list[tuple[float, float, list[dict[str, Any]]]] = field(default_factory=list)

    def keep(self, raw: Measurements, **constants: float) -> None:
        """Put the errors of the time left into `raw`, as they are with these constants."""
        seen, last = [], None
        for moment, seconds, nodes in self.looks:
            last = progress.estimate(nodes, seconds, last, **constants) if nodes else None
            seen.append((moment, last.left if last else None, last.share if last else None))
        keep(raw, self.name, self.repetition, self.start, self.end, seen)


def watched(bench: Bench, name: str, query: str, repetition: int) -> Recording:
    """Run a query, and look at it all the while."""
    found, failed = Recording(name, repetition), []
    with bench.connect(**SETTINGS_OF.get(name, {})) as conn, bench.connect() as watch:
        pid = conn.info.backend_pid

        def work() -> None:
            try:
                found.start = time.monotonic()
                conn.execute(query).fetchall()
            except Exception as error:
                failed.append(error)
            found.end = time.monotonic()

        activity = Activity(watch)
        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            found.looks += [(time.monotonic(), one.seconds, one.nodes) for one in activity.look() if one.pid == pid]
            time.sleep(LOOK)
        thread.join()
    if failed:
        raise LabError(f"{name}: {failed[0]}")
    return found


def ablations(found: Iterable[Recording]) -> dict[str, list[float]]:
    """For each constant the median errors at POINTS without it."""
    errors_without = {}
    for constant, replaced in progress.ABLATIONS.items():
        raw = Measurements()
        for recording in found:
            recording.keep(raw, **replaced)
        errors_without[constant] = [middle(errors(raw, point, UNTOLD)) for point in POINTS]
    return errors_without


def keep(raw: Measurements, name: str, repetition: int, start: float, end: float, seen: list[tuple[float, float | None, float | None]]) -> None:
    """Put a row into `raw` for each of POINTS of a statement that ran from `start` to `end`: how wrong the look next to it was, or that nothing was told.

    `seen` are the looks at which the statement was there: moment, time left and share.  No look near a point is no time told.
    """
    seconds = end - start
    for point in POINTS:
        moment = start + point * seconds
        near = [entry for entry in seen if abs(entry[0] - moment) < max(0.05 * seconds, LOOK)]
        at, left, share = min(near, key=lambda entry: abs(entry[0] - moment)) if near else (moment, None, None)
        true = end - at
        if left is None:
            raw.add("unknown", repetition, f"{name} at {point:.0%}", true=true, seconds=seconds)
        else:
            raw.add("pg_lean", repetition, f"{name} at {point:.0%}", error=100 * abs(left - true) / true, left=left, true=true, share=share, seconds=seconds)


def middle(values: list[float]) -> float:
    """The median; of an even number the upper one."""
    return sorted(values)[len(values) // 2]


def errors(raw: Measurements, point: float, untold: float | None) -> list[float]:
    """The median error of each statement at a point over its repetitions; `untold` stands for a time that was not told, None leaves these out."""
    found = []
    for name in QUERIES:
        rows = [row for row in raw.rows if row["case"] == f"{name} at {point:.0%}"]
        values = [row["error"] if row["variant"] == "pg_lean" else untold for row in rows]
        values = [value for value in values if value is not None]
        found += [middle(values)] if values else []
    return found


def present(bench: Bench, repetitions: int, without: dict[str, list[float]]) -> Result:
    def error(name: str, point: float) -> Estimate | None:
        case = f"{name} at {point:.0%}"
        return bench.raw.estimate("error", "pg_lean", case) if any(row["case"] == case and "error" in row for row in bench.raw.rows) else None

    def told(point: float, name: str = "") -> float:
        """Part of the moments in which a time was told."""
        rows = [row for row in bench.raw.rows if row["case"].endswith(f" at {point:.0%}") and row["case"].startswith(name)]
        return sum(row["variant"] == "pg_lean" for row in rows) / max(len(rows), 1)

    def seconds(name: str) -> float:
        return middle([row["seconds"] for row in bench.raw.rows if row["case"] == f"{name} at 50%"])

    table = Table(
        "Error of the time left, in percent of the true time left",
        ["statement", "seconds", *(f"at | {point:.0%}" for point in POINTS), "told"],
        [
            [
                name,
                f"{seconds(name):.1f}",
                *(error(name, point) for point in POINTS),
                f"{sum(told(point, name + ' at ') for point in POINTS) / len(POINTS):.0%}",
            ]
            for name in QUERIES
        ],
        note="Errors are those at the moments at which a time was shown; the last column is their number. Empty: never.",
    )
    every = {point: errors(bench.raw, point, UNTOLD) for point in POINTS}
    known = {point: errors(bench.raw, point, None) for point in POINTS}
    medians = Table("Medians over the statements", ["", *(f"at | {point:.0%}" for point in POINTS)],
                    [["error, %; 100 where no time was told", *(f"{middle(every[point]):.0f}" for point in POINTS)],
                     ["error, %, where one was told", *(f"{middle(known[point]):.0f}" if known[point] else "" for point in POINTS)],
                     ["moments at which one was told", *(f"{told(point):.0%}" for point in POINTS)]])
    constants = Table("What each constant of the model is worth: percentage points that it takes from the median error",
                      ["constant", *(f"at | {point:.0%}" for point in POINTS)],
                      [[name, *(f"{value - middle(every[point]):+.1f}" for point, value in zip(POINTS, values))]
                       for name, values in without.items()],
                      note=f"The same looks without it. One that takes no more than {WORTH:g} is to be removed.")
    blocks = [
        table,
        medians,
        constants,
        Plot(
            "Error of the time left at half time",
            "statement",
            "%",
            [Series("pg_lean", list(QUERIES), [found.median if (found := error(name, 0.5)) else 0 for name in QUERIES])],
            kind="bar",
        ),
    ]
    checks = [Check("median error at half time, 100 % where no time was told", middle(every[0.5]), "<=", 25, "%")]
    text = ", ".join(f"{middle(every[point]):.0f} % at {point:.0%}" for point in POINTS)
    summary = (
        f"The time left is wrong by {text} of the statement's time (medians over {len(QUERIES)} kinds of statements, of the true time left; "
        "100 % where no time was told). "
    )
    summary += f"A time was told at {sum(row['variant'] == 'pg_lean' for row in bench.raw.rows)} of {len(bench.raw.rows)} moments."
    return Result(
        title=TITLE,
        summary=summary,
        what="While a statement runs, the time left that `pg-lean top` shows, against what it then took.",
        how=f"{len(QUERIES)} statements, {repetitions} times each, on tables whose columns go together in ways that the planner does not know; looked at "
            f"every {LOOK:g} s. "
        "A moment is a quarter, half or three quarters of a statement's time.",
        blocks=blocks,
        checks=checks,
    )
