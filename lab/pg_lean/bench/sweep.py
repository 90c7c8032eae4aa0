"""Is the plan that is chosen the faster one?  Table sizes, selectivities, kinds of joins, tables in buffers or not.

Each cell is one query over temporary tables, run in three ways that take turns: as
the planner chooses with everything on, by the server's best plan without workers,
and by the best plan with workers, whatever it costs to start them.  The prices of
parallel plans are right if the first is nowhere much slower than the faster of the
other two.  A cell is measured until the interval of that ratio tells, or long enough.

The planner uses this machine's prices, measured at the beginning as "lab/run calibrate"
does: the sweep tells whether few constants are enough, not whether all machines are
alike.  The plan that the library's defaults would choose is also shown; it is mostly
one of the other two, and needs no separate run.

A cell in which the chosen plan is the faster one itself takes few repetitions, as only
the planner's time is between them.

Cells that lose are also run on stock PostgreSQL over unlogged tables: a server's estimate
that is wrong there as well is not one of parallel_temp's costs.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping

import psycopg

from pg_lean import prices
from pg_lean.bench import Bench, Check, Estimate, LabError, Plot, Result, Series, Table
from pg_lean.measure import explain_text, timed, verdict
from pg_lean.names import need_extension_schema

TITLE = "The chosen plan compared with the faster one: sizes, selectivities, kinds of joins, in buffers or not"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "128MB", "max_worker_processes": "16", "max_parallel_workers": "16", "autovacuum": "off"}

#: Largest accepted ratio of the chosen plan's time to the faster one's.
MARGIN = 1.10

#: Where that is not decided after the repetitions, so many times as many.
LONGER = 3

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

ON = {"parallel_temp.enabled": True}
#: The plan of the library's defaults, which is run only where it is none of the others.
DEFAULTS = "default costs"
VARIANTS: dict[str, dict[str, Any]] = {
    "chosen": ON,
    "serial": {"parallel_temp.enabled": False},
    # rows are so expensive that dividing them always pays
    "workers": {**ON, "parallel_setup_cost": 0, "parallel_temp.worker_start_cost": 0, "parallel_temp.enter_page_cost": 0,
                "parallel_temp.held_page_cost": 0},
}
#: The same of stock PostgreSQL over unlogged tables.
UNLOGGED: dict[str, dict[str, Any]] = {
    "chosen": {"parallel_temp.enabled": False},
    "serial": {"parallel_temp.enabled": False, "max_parallel_workers_per_gather": 0},
    "workers": {"parallel_temp.enabled": False, "parallel_setup_cost": 0, "parallel_tuple_cost": 0, "seq_page_cost": 0.1, "random_page_cost": 0.1},
}
#: Regardless of the cost of pages, the server treats a lookup in Memoize's cache as nearly free, so it never considers the loop that is faster without it.
UNLOGGED["workers, no Memoize"] = {**UNLOGGED["workers"], "enable_memoize": False}
FORCED = sorted({name for settings in (*VARIANTS.values(), *UNLOGGED.values()) for name in settings} - set(ON))


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
    bench.server.make_schema()
    variants = {**VARIANTS, "chosen": {**ON, **machine_prices(bench)}}
    plans: dict[Cell, dict[str, str]] = {}
    unlogged: dict[Cell, dict[str, str]] = {}
    for rows in bench.pick(full=ROWS, quick=(30_000,)):
        for resident in (True, False):
            with tables(bench, rows, resident) as conn:
                for kind in KINDS:
                    for part in bench.pick(full=PARTS, quick=(0.02, 1.0)):
                        cell = Cell(rows, resident, kind, part)
                        plans[cell] = measure_cell(bench, conn, cell, {**variants, DEFAULTS: ON})
                if not bench.quick:
                    unlogged |= stock_cells(
                        bench, conn, [cell for cell in plans if (cell.rows, cell.resident) == (rows, resident) and loses(bench, cell, plans[cell])]
                    )
    return present(bench, plans, unlogged)


def machine_prices(bench: Bench) -> dict[str, float]:
    """This machine's prices of parallel plans, measured now as "lab/run calibrate" does, as settings."""
    # all cells stand on these few figures, and single ones differ by half: ten of each, however small the effort
    sizes, repetitions = bench.pick(full=prices.PAGES, quick=(1024,)), bench.pick(full=max(bench.iterations(full=30, quick=1), 10), quick=1)
    with bench.progress(len(sizes) * repetitions, "this machine's prices") as step:
        prices.measure_into(bench.raw, bench.server, sizes, repetitions, step)
    return prices.settings(bench.raw)


def prices_table(found: Mapping[str, float]) -> Table:
    return Table("Prices that the plans were chosen by", ["setting", "default", "this machine"],
                 [[name, default, found.get(name, default)] for name, default in prices.DEFAULTS.items()])


@contextlib.contextmanager
def tables(bench: Bench, rows: int, resident: bool) -> Iterator[psycopg.Connection]:
    """A session with both tables, whose buffers hold them all or a tenth."""
    pages = rows // 60 + 200
    with bench.connect(jit=False, work_mem="64MB", temp_buffers=4 * pages if resident else max(100, pages // 10)) as conn:
        conn.prepare_threshold = None  # a prepared statement would keep the plan of the variant that came first
        with bench.activity(f"making tables, {rows:,} rows, {'in buffers' if resident else 'in files'}"):
            fill(conn, rows, "TEMP")
            if resident:
                ext = need_extension_schema(conn, "parallel_temp")
                conn.execute(f"SELECT {ext}.pg_read_temp_relation(relation, false) FROM {ext}.pg_temp_relations WHERE pages > 0")
        yield conn


def fill(conn: psycopg.Connection, rows: int, kind: str) -> None:
    """Both tables, with indexes and statistics: temporary ones, or unlogged ones in the lab's schema."""
    hashed = "(hashint8extended(g, {}) & 1073741823)"
    conn.execute(f"CREATE {kind} TABLE b AS SELECT g::int AS id, {hashed.format(1)}::int % 1000 AS v, {hashed.format(2)} / 1073741824.0::float8 AS part,"
                 f" repeat('b', 40) AS pad FROM generate_series(1, {rows // 10}::bigint) g")
    conn.execute(f"CREATE {kind} TABLE a AS SELECT g::int AS id, {hashed.format(3)}::int % {rows // 10} + 1 AS b_id, {hashed.format(4)}::int % 1000 AS v,"
                 f" {hashed.format(5)} / 1073741824.0::float8 AS part, repeat('a', 60) AS pad FROM generate_series(1, {rows}::bigint) g")
    for index in ("a (id)", "a (b_id)", "b (id)"):
        conn.execute(f"CREATE INDEX ON {index}")
    conn.execute("VACUUM ANALYZE a, b")


def measure_cell(bench: Bench, conn: psycopg.Connection, cell: Cell, variants: Mapping[str, dict[str, Any]] = VARIANTS, case: str = "") -> dict[str, str]:
    """Times of the ways in turns, once their answers are the same; their plans."""
    def ready(variant: str) -> None:
        for name in FORCED:
            conn.execute(f"RESET {name}")
        bench.server.set(conn, variants[variant])

    def way(variant: str) -> Callable[[], dict[str, float]]:
        def one() -> dict[str, float]:
            ready(variant)
            return timed(conn, cell.query)
        return one

    case = case or str(cell)
    bench.server.set(conn, KINDS[cell.kind][0])
    plans, answers = {}, {}
    for variant in variants:
        ready(variant)
        plans[variant] = explain_text(conn, cell.query, "COSTS OFF")
        if variant == DEFAULTS and plans[variant] in [plans[other] for other in variants if other != variant]:
            continue
        answers[variant] = conn.execute(cell.query).fetchall()
    if len({str(answer) for answer in answers.values()}) != 1:
        raise LabError(f"{case}: the plans have different answers", "This is a fault of pg_lean; please report it.")
    compare(bench, case, plans, {variant: way(variant) for variant in answers})
    for name in KINDS[cell.kind][0]:
        conn.execute(f"RESET {name}")
    return plans


def compare(bench: Bench, case: str, plans: Mapping[str, str], ways: Mapping[str, Callable[[], dict[str, float]]]) -> None:
    """Time "chosen" and the others in turns, until it is clear whether the first is within the margin of the faster one of the others."""
    repetitions, enough = bench.iterations(full=7, quick=3), bench.all_orders(full=7, quick=3, variants=len(ways))

    def settled() -> bool:
        # between a plan and itself there is only the planner's time, so a few will do unless they lose
        if plans["chosen"] == plans[faster(bench, case)]:
            return judged(bench, case) != "lost" or len(bench.raw.select("chosen", case)) >= enough
        return judged(bench, case) != "undecided" and len(bench.raw.select("chosen", case)) >= enough

    bench.interleave(ways, repetitions, case=case, warmup=0, text=case, most=0 if bench.quick else enough * LONGER, settled=settled)


def stock_cells(bench: Bench, conn: psycopg.Connection, cells: list[Cell]) -> dict[Cell, dict[str, str]]:
    """The same cells by the server alone, over unlogged tables; their plans."""
    if not cells:
        return {}
    with bench.connect(jit=False, work_mem="64MB") as other:
        other.prepare_threshold = None
        other.execute(f"SET search_path = {bench.server.schema}")
        with bench.activity(f"making unlogged tables, {cells[0].rows:,} rows"):
            fill(other, cells[0].rows, "UNLOGGED")
        try:
            return {cell: measure_cell(bench, other, cell, UNLOGGED, f"unlogged: {cell}") for cell in cells}
        finally:
            other.execute("DROP TABLE a, b")


def faster(bench: Bench, case: str) -> str:
    """Which of the plans that are not the chosen one is the faster, by medians."""
    others = dict.fromkeys(row["variant"] for row in bench.raw.select(case=case) if row["variant"] != "chosen")
    return min(others, key=lambda variant: bench.estimate("ms", variant, case).median)


def default_variant(plans: Mapping[str, str]) -> str:
    """The variant under which the plan with default costs was timed."""
    return next((variant for variant in ("chosen", "serial", "workers") if plans[variant] == plans[DEFAULTS]), DEFAULTS)


def judged(bench: Bench, case: str) -> str:
    return verdict(bench.ratio("ms", "chosen", faster(bench, case), case), MARGIN)


def loses(bench: Bench, cell: Cell, plans: dict[str, str]) -> bool:
    """Another plan than the faster one that is not certainly within the margin; or certainly not within it, if only the planner's time is between them."""
    same = plans["chosen"] == plans[faster(bench, str(cell))]
    return judged(bench, str(cell)) == "lost" or (not same and judged(bench, str(cell)) == "undecided")


def present(bench: Bench, plans: dict[Cell, dict[str, str]], unlogged: dict[Cell, dict[str, str]]) -> Result:
    ratios = {cell: bench.ratio("ms", "chosen", faster(bench, str(cell)), str(cell)) for cell in plans}
    ordered = sorted(plans, key=lambda cell: -ratios[cell].median)

    def chosen(cell: Cell, of: dict[Cell, dict[str, str]]) -> str:
        return next((variant for variant in of[cell] if variant not in ("chosen", DEFAULTS) and of[cell][variant] == of[cell]["chosen"]),
                    "workers, another plan" if "Gather" in of[cell]["chosen"] else "serial, another plan")

    def figures(case: str, variants: Mapping[str, Any] = VARIANTS) -> list[Any]:
        return [faster(bench, case), *(bench.estimate("ms", variant, case).median for variant in variants),
                bench.ratio("ms", "chosen", faster(bench, case), case), judged(bench, case)]

    def lines(cells: list[Cell]) -> list[list[Any]]:
        return [[cell.kind, cell.rows, f"{cell.part:.1%}", "yes" if cell.resident else "no", chosen(cell, plans), *figures(str(cell))] for cell in cells]

    def columns(variants: Mapping[str, Any] = VARIANTS) -> list[str]:
        return [
            "kind",
            "rows",
            "part",
            "in buffers",
            "chosen",
            "faster",
            *(f"ms | {variant}" for variant in variants),
            "chosen / faster",
            f"at most {MARGIN:.2f}",
        ]

    lost = [cell for cell in ordered if judged(bench, str(cell)) == "lost"]
    open_ = [cell for cell in ordered if cell not in lost and loses(bench, cell, plans[cell])]
    ours = [cell for cell in lost if cell not in unlogged or judged(bench, f"unlogged: {cell}") != "lost"]
    by_default = {cell: default_variant(plans[cell]) for cell in plans if DEFAULTS in plans[cell]}
    regress = [
        cell for cell, variant in by_default.items() if variant != "serial" and verdict(bench.ratio("ms", variant, "serial", str(cell)), MARGIN) == "lost"
    ]
    worst = max(lost or plans, key=lambda cell: ratios[cell].median)
    gain = {cell: bench.ratio("ms", "chosen", "serial", str(cell)).median for cell in plans}
    blocks = [Table("The cells in which the chosen plan loses most", columns(), lines(ordered[:12])),
              Plot("Chosen over faster, cell by cell, the worst first", "cell", "ratio",
                   [Series("chosen / faster", [str(number + 1) for number in range(len(ordered))], [ratios[cell].median for cell in ordered])], kind="bar"),
              Table("All cells", columns(), lines(list(plans)))]
    otherwise = [cell for cell, variant in by_default.items() if plans[cell][variant] != plans[cell]["chosen"]]
    if by_default:
        blocks[1:1] = [
            prices_table(prices.settings(bench.raw)),
            Table(
                "Cells in which the library's default costs choose another plan",
                ["kind", "rows", "part", "in buffers", "chosen", "by default costs", "default / chosen", "default / serial"],
                [
                    [
                        cell.kind,
                        cell.rows,
                        f"{cell.part:.1%}",
                        "yes" if cell.resident else "no",
                        chosen(cell, plans),
                        by_default[cell],
                        *(bench.ratio("ms", by_default[cell], base, str(cell)) for base in ("chosen", "serial")),
                    ]
                    for cell in otherwise
                ],
            ),
        ]
    if unlogged:
        blocks.insert(
            1,
            Table(
                "Cells that lose, or might: stock PostgreSQL over unlogged tables",
                columns(UNLOGGED),
                [[cell.kind, cell.rows, f"{cell.part:.1%}", "-", chosen(cell, unlogged), *figures(f"unlogged: {cell}", UNLOGGED)] for cell in unlogged],
            ),
        )
    return Result(
        title=TITLE,
        summary=f"Of {len(plans)} cells the chosen plan certainly takes more than {MARGIN:.2f} of the faster one's time in {len(lost)}, and in {len(open_)} "
                "with another plan "
        f"the measurements cannot tell; the worst takes "
        f"{ratios[worst].median:.2f} ({ratios[worst].low:.2f} to {ratios[worst].high:.2f}): {worst}. Beside serial plans the chosen ones take "
        f"{Estimate.of(gain.values()).median:.2f} in the middle, {min(gain.values()):.2f} at best.",
        what="One query a cell over a temporary table and one of a tenth of its rows: a scan, a range of an index, groups, and joins by hashing, by merging "
             "and by "
        "lookups in either table's index; with conditions that leave little or all; with both tables in temporary buffers, and with buffers for a tenth.",
        how="`chosen` is the plan with everything on, `serial` the server's plan without workers, `workers` the plan if starting workers and pages in buffers "
            "cost nothing (if a table is "
        "large enough for the server to consider workers at all). "
        f"They take turns in all orders, until the interval of the ratio tells, as far as {LONGER} times as many repetitions allow; time is the client's, "
        "planning included; answers are "
        "compared. The faster one is that of the lowest median; ratios are taken within a repetition. Where both are one plan a cell counts only if the "
        "whole interval is above the margin.",
        blocks=blocks,
        checks=[]
        if bench.quick
        else [
            Check(f"cells in which the chosen plan certainly takes more than {MARGIN:.2f} of the faster one's time", float(len(lost)), "<=", 0),
            Check("of them, cells in which stock PostgreSQL's over unlogged tables does not", float(len(ours)), "<=", 0),
            Check("cells with another plan than the faster one in which that is not decided", float(len(open_)), "<=", 0),
            Check(f"cells in which the plan of default costs certainly takes more than {MARGIN:.2f} of the serial one's time", float(len(regress)), "<=", 0),
        ],
    )
