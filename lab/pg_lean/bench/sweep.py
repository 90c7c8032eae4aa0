"""Is the plan that is chosen the faster one?  Table sizes, selectivities, kinds of joins, tables in buffers or not.

Each cell is one query over temporary tables, run in three ways that take turns: as
the planner chooses with everything on, by the server's best plan without workers,
and by the best plan with workers, whatever it costs to start them.  The prices of
parallel plans are right if the first is nowhere much slower than the faster of the
other two.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import psycopg

from pg_lean.bench import Bench, Check, Estimate, LabError, Plot, Result, Series, Table
from pg_lean.measure import explain_text, timed

TITLE = "The plan that is chosen beside the faster one: sizes, selectivities, kinds of joins, in buffers or not"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "128MB", "max_worker_processes": "16", "max_parallel_workers": "16", "autovacuum": "off"}

#: What the chosen plan may take of the faster one's time.
MARGIN = 1.10

#: Rows of the larger table; the smaller one has a tenth of them.
ROWS = (20_000, 150_000, 1_000_000)
#: The part of the rows that the condition leaves.
PARTS = (0.001, 0.02, 0.3, 1.0)

#: Kinds: the settings that ask for them, and the query; {part} is the condition's, {bound} the number of rows that it leaves.
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "scan": ({}, "SELECT count(*), sum(a.v) FROM a WHERE a.part < {part}"),
    "index range": ({}, "SELECT count(a.pad), sum(a.v) FROM a WHERE a.id <= {bound}"),
    "groups": ({}, "SELECT count(*), max(n) FROM (SELECT b_id, sum(v) AS n FROM a WHERE part < {part} GROUP BY b_id) x"),
    "hash join": ({"enable_nestloop": False, "enable_mergejoin": False},
                  "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON b.id = a.b_id WHERE a.part < {part}"),
    "merge join": ({"enable_nestloop": False, "enable_hashjoin": False},
                   "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON b.id = a.b_id WHERE a.part < {part}"),
    "loop, index of the smaller": ({"enable_hashjoin": False, "enable_mergejoin": False},
                                   "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON b.id = a.b_id WHERE a.part < {part}"),
    "loop, index of the larger": ({"enable_hashjoin": False, "enable_mergejoin": False},
                                  "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON b.id = a.b_id WHERE b.part < {part}"),
    "any join": ({}, "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON b.id = a.b_id WHERE b.part < {part}"),
}

ON = {"parallel_temp__enabled": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "chosen": ON,
    "serial": {"parallel_temp__enabled": False},
    # rows are so dear that dividing them always pays
    "workers": {**ON, "parallel_setup_cost": 0, "parallel_temp__worker_start_cost": 0, "parallel_temp__enter_page_cost": 0,
                "parallel_temp__held_page_cost": 0},
}
FORCED = sorted({name for settings in VARIANTS.values() for name in settings} - set(ON))


@dataclass(frozen=True)
class Cell:
    """One query over tables of one size."""

    rows: int
    resident: bool
    kind: str
    part: float

    def __str__(self) -> str:
        return f"{self.kind}, {self.rows:,} rows, {self.part:.1%} of them, {'in buffers' if self.resident else 'in files'}"

    @property
    def query(self) -> str:
        return KINDS[self.kind][1].format(part=self.part, bound=round(self.part * self.rows))


def run(bench: Bench) -> Result:
    """All cells, one size and residence after the other."""
    bench.server.need_function("parallel_temp_stats()")
    plans: dict[Cell, dict[str, str]] = {}
    for rows in bench.pick(full=ROWS, quick=(30_000,)):
        for resident in (True, False):
            with tables(bench, rows, resident) as conn:
                for kind in KINDS:
                    for part in bench.pick(full=PARTS, quick=(0.02, 1.0)):
                        cell = Cell(rows, resident, kind, part)
                        plans[cell] = measure_cell(bench, conn, cell)
    return present(bench, plans)


@contextlib.contextmanager
def tables(bench: Bench, rows: int, resident: bool) -> Iterator[psycopg.Connection]:
    """A session with both tables, whose buffers hold them all or a tenth."""
    pages = rows // 60 + 200
    with bench.connect(jit=False, work_mem="64MB", temp_buffers=4 * pages if resident else max(100, pages // 10)) as conn:
        conn.prepare_threshold = None  # a prepared statement would keep the plan of the variant that came first
        with bench.activity(f"making tables, {rows:,} rows, {'in buffers' if resident else 'in files'}"):
            hashed = "(hashint8extended(g, {}) & 1073741823)"
            conn.execute(f"CREATE TEMP TABLE b AS SELECT g::int AS id, {hashed.format(1)}::int % 1000 AS v, {hashed.format(2)} / 1073741824.0::float8 AS part,"
                         f" repeat('b', 40) AS pad FROM generate_series(1, {rows // 10}::bigint) g")
            conn.execute(f"CREATE TEMP TABLE a AS SELECT g::int AS id, {hashed.format(3)}::int % {rows // 10} + 1 AS b_id, {hashed.format(4)}::int % 1000 AS v,"
                         f" {hashed.format(5)} / 1073741824.0::float8 AS part, repeat('a', 60) AS pad FROM generate_series(1, {rows}::bigint) g")
            for index in ("a (id)", "a (b_id)", "b (id)"):
                conn.execute(f"CREATE INDEX ON {index}")
            conn.execute("VACUUM ANALYZE a, b")
            if resident:
                conn.execute("SELECT pg_read_temp_relation(relation, false) FROM pg_temp_relations WHERE pages > 0")
        yield conn


def measure_cell(bench: Bench, conn: psycopg.Connection, cell: Cell) -> dict[str, str]:
    """Times of the three ways in turns; their plans, once their answers are the same."""
    def ready(variant: str) -> None:
        for name in FORCED:
            conn.execute(f"RESET {name.replace('__', '.')}")
        bench.server.set(conn, VARIANTS[variant])

    def way(variant: str) -> Callable[[], dict[str, float]]:
        def one() -> dict[str, float]:
            ready(variant)
            return timed(conn, cell.query)
        return one

    bench.server.set(conn, KINDS[cell.kind][0])
    plans, answers = {}, {}
    for variant in VARIANTS:
        ready(variant)
        plans[variant] = explain_text(conn, cell.query, "COSTS OFF")
        answers[variant] = conn.execute(cell.query).fetchall()
    if len({str(answer) for answer in answers.values()}) != 1:
        raise LabError(f"{cell}: the plans have different answers", "This is a fault of pg_lean; please report it.")
    bench.interleave({variant: way(variant) for variant in VARIANTS}, bench.iterations(full=9, quick=3), case=str(cell), warmup=0, text=str(cell))
    for name in KINDS[cell.kind][0]:
        conn.execute(f"RESET {name}")
    return plans


def faster(bench: Bench, cell: Cell) -> str:
    """Which of the two that are not chosen is the faster one, by medians."""
    return min(("serial", "workers"), key=lambda variant: bench.estimate("ms", variant, str(cell)).median)


def present(bench: Bench, plans: dict[Cell, dict[str, str]]) -> Result:
    ratios = {cell: bench.ratio("ms", "chosen", faster(bench, cell), str(cell)) for cell in plans}
    ordered = sorted(plans, key=lambda cell: -ratios[cell].median)

    def chosen(cell: Cell) -> str:
        return next((variant for variant in ("serial", "workers") if plans[cell][variant] == plans[cell]["chosen"]),
                    "workers, another plan" if "Gather" in plans[cell]["chosen"] else "serial, another plan")

    def lines(cells: list[Cell]) -> list[list[Any]]:
        return [[cell.kind, cell.rows, f"{cell.part:.1%}", "yes" if cell.resident else "no", chosen(cell), faster(bench, cell),
                 *(bench.estimate("ms", variant, str(cell)).median for variant in VARIANTS), ratios[cell]] for cell in cells]

    columns = ["kind", "rows", "part", "in buffers", "chosen", "faster", *(f"ms | {variant}" for variant in VARIANTS), "chosen / faster"]
    # where the chosen plan is the faster one only the planner's time is between them, and what the machine did else
    same = {cell for cell in plans if plans[cell]["chosen"] == plans[cell][faster(bench, cell)]}
    lost = [cell for cell in plans if (ratios[cell].low if cell in same else ratios[cell].median) > MARGIN]
    worst = max(lost or plans, key=lambda cell: ratios[cell].median)
    gain = {cell: bench.ratio("ms", "chosen", "serial", str(cell)).median for cell in plans}
    return Result(
        title=TITLE,
        summary=f"Of {len(plans)} cells the chosen plan takes more than {MARGIN:.2f} of the faster one's time in {len(lost)}; the worst takes "
                f"{ratios[worst].median:.2f} ({ratios[worst].low:.2f} to {ratios[worst].high:.2f}): {worst}. Beside serial plans the chosen ones take "
                f"{Estimate.of(gain.values()).median:.2f} in the middle, {min(gain.values()):.2f} at best.",
        what="One query a cell over a temporary table and one of a tenth of its rows: a scan, a range of an index, groups, and joins by hashing, by merging and by "
             "look-ups in either table's index; with conditions that leave little or all; with both tables in temporary buffers, and with buffers for a tenth.",
        how="`chosen` is the plan with everything on, `serial` the server's own without workers, `workers` the plan if starting workers and pages in buffers cost nothing (if a table is "
            "large enough for the server to consider workers at all). "
            "The three take turns; time is the client's, planning included; answers are compared. The faster one is that of the lower median; ratios are taken within a repetition. Where both are one plan a cell counts as lost only if the whole interval is above the margin.",
        blocks=[Table("The cells in which the chosen plan loses most", columns, lines(ordered[:12])),
                Plot("Chosen over faster, cell by cell, the worst first", "cell", "ratio",
                     [Series("chosen / faster", [str(number + 1) for number in range(len(ordered))], [ratios[cell].median for cell in ordered])], kind="bar"),
                Table("All cells", columns, lines(list(plans)))],
        checks=[] if bench.quick else [
            Check(f"cells in which another plan than the faster one takes more than {MARGIN:.2f} of its time, or the same plan certainly does", float(len(lost)), "<=", 0)])
