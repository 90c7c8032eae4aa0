"""What the planner's prices of parallel plans over temporary tables are on this machine.

Three settings of parallel_temp have no counterpart among the server's: what the
start of one worker costs, what a page costs that is in temporary buffers, and what
it costs to enter a page into the buffers of a worker that uses an index.  Each is
the difference of two statements that differ in nothing else:

- pages: serial scans of as many pages with few rows and with many, which have two
  unknowns, the time of a page and that of a row;
- start: a scan of a table that is just worth it by two workers, and the time in which
  the leader does it alone, divided by the processes that can run at once, as the
  library divides it: what is more than that is the start of two (the leader works
  while they start, so what passes until they have started and gone is not what they
  cost);
- entering: a lookup by workers through the index of a large table, and through
  that of a table of one page.  On 19, where workers use no index of a temporary
  table, nothing is entered, and the setting keeps its default.

Times become costs relative to the server's time for a row of such a scan, a tuple and
an operator: a parallel plan's cost is compared with that of rows.
"""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Optional

import psycopg

from pg_lean.cluster import Server
from pg_lean.errors import LabError
from pg_lean.measure import Estimate, Measurements, execution_ms, explain
from pg_lean.names import need_extension_schema
from pg_lean.tempbuffers import FILLFACTOR

#: The name of a raw row of these measurements, next to those of the flush cost.
VARIANT = "prices"
#: Pages of the tables that are measured; with the smallest alone, the result for entering a page was a third of that of the others.
PAGES = (2048, 8192, 16384)
#: Pages of the table that is just worth two workers.
WORTH_IT = 1024
#: How many of a leader and two workers can run at once, as the library counts them (plan_cost.c).
PROCESSES = min(3, max(os.cpu_count() or 2, 2))
#: Settings and what of constants() they are.
SETTINGS_OF = {"parallel_temp.worker_start_cost": "start", "parallel_temp.enter_page_cost": "enter", "parallel_temp.held_page_cost": "held"}
#: The defaults of the library.
DEFAULTS = {"parallel_temp.worker_start_cost": 1000, "parallel_temp.enter_page_cost": 0.05, "parallel_temp.held_page_cost": 0.15}

#: Rows are so expensive that any plan with workers wins.
WORKERS = {"max_parallel_workers_per_gather": 2, "cpu_tuple_cost": 1000, "parallel_setup_cost": 0, "parallel_tuple_cost": 0,
           "parallel_temp__worker_start_cost": 0, "parallel_temp__enter_page_cost": 0}
ALONE = {"max_parallel_workers_per_gather": 0}
INDEX = {"enable_seqscan": False, "enable_bitmapscan": False, "enable_indexonlyscan": False}

SCAN = "SELECT count(*) FROM {} WHERE b < 0"
LOOK_UP = "SELECT count(b) FROM {} WHERE a < 50"


@dataclass
class Tables:
    """Temporary tables of this many pages, resident, in a separate session."""

    server: Server
    pages: int

    def __enter__(self) -> "Tables":
        with ExitStack() as stack:
            # the dense table's index is about as large as it is
            self.conn = stack.enter_context(self.server.connect(temp_buffers=4 * self.pages + 2 * WORTH_IT, jit=False))
            rows = _make(self.conn, "dense", self.pages)
            thin = _make(self.conn, "thin", self.pages, f"WITH (fillfactor = {FILLFACTOR})")
            self.rows, self.thin_rows = rows, thin
            _make(self.conn, "worth_it", WORTH_IT)
            _make(self.conn, "tiny", 1)
            ext = need_extension_schema(self.conn, "parallel_temp")
            for table in ("dense", "tiny"):
                self.conn.execute(f"CREATE INDEX ON {table} (a)")
                self.conn.execute(f"SELECT {ext}.pg_read_temp_relation(indexrelid::regclass, false) FROM pg_index WHERE indrelid = '{table}'::regclass")
            self.entered = self.conn.execute("SELECT (pg_relation_size('dense') + pg_indexes_size('dense')) / current_setting('block_size')::int").fetchone()[0]
            self.row_price = sum(float(row[0]) for row in self.conn.execute(
                "SELECT reset_val FROM pg_settings WHERE name IN ('cpu_tuple_cost', 'cpu_operator_cost')"))
            stack.pop_all()
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.conn.close()

    def measure(self) -> dict[str, Optional[float]]:
        """Milliseconds of each statement, with their divisors; lookups are None if workers use no index."""
        indexes = self.conn.info.server_version < 190000
        return {
            "thin": self._alone(SCAN.format("thin")),
            "dense": self._alone(SCAN.format("dense")),
            "worth_it": self._alone(SCAN.format("worth_it")),
            "worth_it_workers": self._workers(SCAN.format("worth_it")),
            "look_up_tiny": self._workers(LOOK_UP.format("tiny"), INDEX) if indexes else None,
            "look_up_dense": self._workers(LOOK_UP.format("dense"), INDEX) if indexes else None,
            "processes": PROCESSES,
            "pages": self.pages,
            "rows": self.rows,
            "thin_rows": self.thin_rows,
            "entered": self.entered,
            "row_price": self.row_price,
        }

    def _alone(self, query: str) -> float:
        self.server.set(self.conn, ALONE)
        return execution_ms(self.conn, query)

    def _workers(self, query: str, settings: Optional[dict[str, Any]] = None) -> float:
        """The time of a run with two workers; settings are reset."""
        settings = {**WORKERS, **(settings or {})}
        self.server.set(self.conn, settings)
        found = explain(self.conn, query, "ANALYZE, TIMING OFF, BUFFERS OFF")
        for name in settings:
            self.conn.execute(f"RESET {name.replace('__', '.')}")
        launched = _launched(found["Plan"])
        if launched != 2:
            raise LabError(f"a plan that needs two parallel workers got {launched}",
                           "Others use them, or max_parallel_workers or max_worker_processes is too small; parallel_temp.enabled has to be on.")
        return float(found["Execution Time"])


def measure_into(raw: Measurements, server: Server, sizes: Iterable[int], repetitions: int, after_each: Callable[[str], Any] = lambda text: None) -> None:
    """Measure tables of these many pages in turns, so often each after a first time that does not count; a raw row of VARIANT for each."""
    with ExitStack() as stack:
        tables = {size: stack.enter_context(Tables(server, size)) for size in sizes}
        for repetition in range(-1, repetitions):
            for size, of_size in tables.items():
                found = of_size.measure()
                if repetition >= 0:
                    raw.add(VARIANT, repetition, size, **found)
                    after_each(f"{size:,} blocks")


def _make(conn: psycopg.Connection, table: str, pages: int, options: str = "") -> int:
    """A table of exactly so many full pages; how many rows it has.  "tiny", of one page, has a hundred."""
    conn.execute(f"CREATE TEMP TABLE {table} (a int, b int) {options}")
    conn.execute(f"INSERT INTO {table} SELECT g, g FROM generate_series(1, 300) g")
    a_page = conn.execute(f"SELECT count(*) FROM {table} WHERE ctid < '(1,0)'").fetchone()[0]
    rows = 100 if pages == 1 else a_page * pages
    conn.execute(f"TRUNCATE {table}")
    conn.execute(f"INSERT INTO {table} SELECT g, g FROM generate_series(1, {rows}) g")
    conn.execute(f"ALTER TABLE {table} SET (parallel_workers = 2)")
    conn.execute(f"ANALYZE {table}")
    return rows


def _launched(plan: dict[str, Any]) -> int:
    """Workers of the first Gather of a plan."""
    return plan.get("Workers Launched", 0) or sum(_launched(below) for below in plan.get("Plans", ()))


def constants(raw: Measurements, pages: int) -> dict[str, Estimate]:
    """What one size says: each price, and the microseconds of its unit, a row and a page."""
    found: dict[str, list[float]] = {name: [] for name in (*SETTINGS_OF.values(), "unit", "row", "page")}
    for m in raw.select(VARIANT, pages):
        row = (m["dense"] - m["thin"]) / (m["rows"] - m["thin_rows"])
        page = (m["thin"] - row * m["thin_rows"]) / m["pages"]
        unit = row / m["row_price"]
        if unit <= 0:
            continue  # a moment in which the few rows took longer than the many says nothing
        found["unit"].append(unit * 1000)
        found["row"].append(row * 1000)
        found["page"].append(page * 1000)
        found["held"].append(max(page / unit, 0))
        if m["look_up_dense"] is not None:
            found["enter"].append(max((m["look_up_dense"] - m["look_up_tiny"]) / m["entered"] / unit, 0))
        found["start"].append(max((m["worth_it_workers"] - m["worth_it"] / m["processes"]) / unit / 2, 0))
    return {name: Estimate.of(values) for name, values in found.items()}


def sizes_of(raw: Measurements) -> list[int]:
    """The sizes, in pages, that have been measured."""
    return list(dict.fromkeys(row["case"] for row in raw.select(VARIANT)))


def settings(raw: Measurements) -> dict[str, float]:
    """recommended(), without what could not be told (on a machine that is very busy, or on 19): that stays at its default."""
    return {name: value for name, value in recommended(raw).items() if math.isfinite(value)}


def recommended(raw: Measurements) -> dict[str, float]:
    """The settings that follow from the raw rows: medians over the sizes, as those of the flush cost are."""
    sizes = sizes_of(raw)
    per_size = [constants(raw, size) for size in sizes]
    return {setting: Estimate.of(found[key].median for found in per_size).median for setting, key in SETTINGS_OF.items()}
