"""Temporary tables filled from queries: stock, fast load, fast load of rows and of pages from workers; a model of more workers;
the overhead for a short statement; and a session without ANALYZE."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

import psycopg

from pg_lean import measure
from pg_lean.bench import Bench, Check, Estimate, Headline, LabError, Plot, Result, Series, Table, human_bytes, not_slower
from pg_lean.bench import sweep
from pg_lean.bench.extend import MARGIN, MARGIN_OF_ONE
from pg_lean.measure import cpu_seconds, explain_text, kernel_seconds, timed
from pg_lean.prices import SETTINGS_OF

TITLE = "Temporary tables filled from a scan, a join and a group by: stock, fast load, fast load with workers that hand over rows or pages"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "1GB", "work_mem": "64MB", "max_worker_processes": "16", "max_parallel_workers": "16",
            "max_wal_size": "4GB", "checkpoint_timeout": "1h", "autovacuum": "off"}

#: Permanent rows (fewer are not worth a worker to any server); items they belong to; groups for each ten rows.
FULL, QUICK, ITEMS, GROUPS = 5_000_000, 150_000, 100_000, 5

STOCK, FAST, ROWS, LEAN, ASKED = "stock", "fast load", "pg_lean, rows one by one", "pg_lean", "rows one by one at no cost"
#: The next best way on a stock server: a table that is not temporary, and not logged.
UNLOGGED = "stock, UNLOGGED"
_PRICES = {"parallel_tuple_cost": 0.1, "parallel_setup_cost": 1000}
VARIANTS: dict[str, dict[str, Any]] = {
    STOCK: {"parallel_temp.enabled": False, "parallel_temp.fast_load": False, "parallel_temp.parallel_insert": False, **_PRICES},
    UNLOGGED: {"parallel_temp.enabled": False, "parallel_temp.fast_load": False, "parallel_temp.parallel_insert": False, **_PRICES},
    FAST: {"parallel_temp.enabled": True, "parallel_temp.fast_load": True, "parallel_temp.parallel_insert": False, **_PRICES},
    ROWS: {"parallel_temp.enabled": True, "parallel_temp.fast_load": True, "parallel_temp.parallel_insert": True, **_PRICES},
    LEAN: {"parallel_temp.enabled": True, "parallel_temp.fast_load": True, "parallel_temp.parallel_insert": True, **_PRICES},
    ASKED: {
        "parallel_temp.enabled": True,
        "parallel_temp.fast_load": True,
        "parallel_temp.parallel_insert": True,
        "parallel_tuple_cost": 0,
        "parallel_setup_cost": 0,
    },
}
for _variant, _settings in VARIANTS.items():
    _settings["parallel_temp.fill_pages"] = _variant == LEAN

#: Sources of rows for a table; each has an "id" and an "amount", of which the answers are made.
QUERIES = {
    "filtered scan": "SELECT id, item, amount, remark FROM fill_source WHERE part < 60",
    "hash join": "SELECT s.id, s.amount, i.name FROM fill_source s JOIN fill_items i USING (item) WHERE i.kind <> 0",
    "group by": 'SELECT "group" AS id, count(*) AS lines, sum(amount) AS amount FROM fill_source GROUP BY "group"',
}
INTO = ("CREATE TABLE AS", "INSERT ... SELECT")

#: The loads whose parts are measured; and for how many workers they are put together.
MODELLED, MODELLED_WORKERS = ("filtered scan", "hash join"), (1, 4, 8, 16)

#: One worker makes all rows. It is planned for two, or it would not be worth one.
_LEADER_TAKES = {"parallel_leader_participation": False, "max_parallel_workers_per_gather": 2, "max_parallel_workers": 1, "parallel_setup_cost": 0,
                 "parallel_tuple_cost": 0, "min_parallel_table_scan_size": 0}

#: Times as fast as fast load without workers (scan and join), and as stock, by statement.
OVER_FAST, OVER_STOCK = 1.5, {"CREATE TABLE AS": 2.5, "INSERT ... SELECT": 4.0}

#: Cases that show the cost of rows in pages: columns and fractions of the rows of a table, with the chosen plan, without workers, and with forced workers.
WIDTHS = {"two numbers": "id, item", "all columns": "id, item, amount, remark", "wide rows": "id, repeat(remark, 8) AS remark"}
#: Of these rows both kinds of statements are tried.
INSERTED = "all columns"
PARTS = (0.004, 0.01, 0.02, 0.04, 0.1, 0.4)
#: And where they come from; {last} is their number.
SOURCES = {"index range": "fill_source WHERE id <= {last}", "table": "fill_part", "temporary table": "pg_temp.fill_near"}
PRICED: dict[str, dict[str, Any]] = {
    "chosen": {**VARIANTS[LEAN], "max_parallel_workers_per_gather": 1},
    "serial": {**VARIANTS[LEAN], "max_parallel_workers_per_gather": 0},
    "workers": {
        **VARIANTS[LEAN],
        "max_parallel_workers_per_gather": 1,
        "parallel_setup_cost": 0,
        "parallel_tuple_cost": 0,
        "parallel_temp.worker_start_cost": 0,
    },
}

OFF, ON = "parallel_insert off", "parallel_insert on"
SHORT = {"prepared": True, "as text": False}

#: The session of many tables: rounds of three tables, of so many fifths of the rows each; and what it may take of fast load's time.
ROUNDS, FIFTHS, SESSION, OF_FAST_LOAD = 8, (1, 2, 5, 10), "session of 24 tables", 0.75
GATHERED = "pg_lean, statistics on"
#: The part of the session that no way of loading can save: its queries with the best plans, whose rows are discarded.
#: On another server, with the library recycled_temp before the other, if it is installed.
NOT_RECYCLED, RECYCLED = "the same, recycled_temp off", "the same, recycled_temp on"
ALONE = "its queries alone, statistics on, without workers"
SESSIONS = {STOCK: (STOCK, False), FAST: (FAST, False), LEAN: (LEAN, False), GATHERED: (LEAN, True), ALONE: (FAST, True)}


def run(bench: Bench) -> Result:
    """Each query into each kind of statement, in turns; then short statements; then the session."""
    bench.server.need_function("parallel_temp_stats()")
    bench.server.make_schema()
    rows = bench.pick(full=FULL, quick=QUICK)
    repetitions = bench.iterations(full=5, quick=2)
    plans: dict[tuple[str, str, str], str] = {}
    sizes: dict[str, tuple[int, int]] = {}
    costs: dict[str, RowCosts] = {}
    with bench.connect() as data:
        try:
            with bench.activity(f"making {rows:,} permanent rows"):
                make(data, rows)
            for query in QUERIES:
                for into in INTO:
                    fill(bench, into, query, repetitions, plans, sizes)
            for query in MODELLED:
                measured = row_costs(bench, query, bench.iterations(full=5, quick=1))
                if measured:
                    costs[query] = measured
            prices = priced(bench, rows, sweep.machine_prices(bench))
            short(bench)
            session(bench, min(rows // 50, 100_000), bench.iterations(full=7, quick=2))
            with_recycled = bench.server.private and bench.need_private().has_library("recycled_temp")
            if with_recycled:
                recycled_session(bench, min(rows // 50, 100_000), bench.iterations(full=7, quick=2))
        finally:
            drop(data)
    return present(bench, rows, repetitions, plans, sizes, costs, prices, with_recycled)


def front(bench: Bench) -> tuple[Headline, tuple[str, float]]:
    """INSERT ... SELECT of the hash join, without the variants that lack a part of pg_lean."""
    bench.server.need_function("parallel_temp_stats()")
    bench.server.make_schema()
    query = "hash join"
    with bench.connect() as data:
        try:
            with bench.activity("making permanent rows"):
                make(data, bench.pick(full=FULL, quick=QUICK))
            fill(bench, INTO[1], query, bench.iterations(full=5, quick=2), {}, {}, (STOCK, UNLOGGED, LEAN))
        finally:
            drop(data)
    return headline(bench, query), ("`UNLOGGED`", bench.estimate("ms", UNLOGGED, case_of(INTO[1], query)).median)


def headline(bench: Bench, query: str) -> Headline:
    case = case_of(INTO[1], query)
    return Headline(
        f"{INTO[1]} of a {query} into a temporary table",
        bench.ratio("ms", STOCK, LEAN, case),
        [(name, bench.estimate("ms", name, case).median) for name in (STOCK, LEAN)],
    )


def make(conn: psycopg.Connection, rows: int) -> None:
    drop(conn)
    items = min(ITEMS, rows // 10)
    conn.execute(f"CREATE TABLE fill_items AS SELECT g AS item, g % 5 AS kind, md5(g::text) AS name FROM generate_series(0, {items - 1}) g")
    conn.execute(f'CREATE TABLE fill_source AS SELECT g AS id, hashint4(g + 3) & 65535 AS amount, ((hashint4(g)::bigint & 1073741823) % {items})::int AS item,'
                 f' (hashint4(g + 1) & 1073741823) % 100 AS part, (hashint4(g + 2) & 1073741823) % {rows * GROUPS // 10} AS "group", md5(g::text) AS remark'
                 f" FROM generate_series(1, {rows}) g")
    conn.execute("CREATE INDEX ON fill_source (id)")
    conn.execute("CREATE TABLE fill_small (id int PRIMARY KEY, amount int)")
    conn.execute("INSERT INTO fill_small SELECT g, g FROM generate_series(1, 1000) g")
    for table in ("fill_items", "fill_source", "fill_small"):
        conn.execute(f"VACUUM ANALYZE {table}")


def drop(conn: psycopg.Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS fill_items, fill_source, fill_small, fill_part, fill_unlogged")


# -- loads ---------------------------------------------------------------------


def case_of(into: str, query: str) -> str:
    return f"{into}, {query}"


def answer(conn: psycopg.Connection, source: str) -> tuple[Any, ...]:
    return conn.execute(f"SELECT count(*), sum(id), sum(amount) FROM {source}").fetchone()


def plan_of(text: str) -> str:
    """What EXPLAIN ANALYZE says of a statement's workers: how many there were, or "serial" with the reason if one is given."""
    launched = [int(number) for number in re.findall(r"Workers Launched: (\d+)", text)]
    reason = re.search(r"Parallel Select: not used \((.*)\)", text)
    if "Gather" in text:
        return f"Gather, workers: {sum(launched)}" + (", pages" if "Temp Load" in text else "")
    return f"serial ({reason[1]})" if reason else "serial"


def fill(bench: Bench, into: str, query: str, repetitions: int, plans: dict[tuple[str, str, str], str], sizes: dict[str, tuple[int, int]],
         variants: Sequence[str] = tuple(VARIANTS)) -> None:
    """Time the variants in turns; before that each is explained, and run once if it has workers; every answer is compared."""
    text, case = QUERIES[query], case_of(into, query)

    def table_of(variant: str) -> tuple[str, str]:
        """What is created, and its name."""
        return ("UNLOGGED TABLE", "fill_unlogged") if variant == UNLOGGED else ("TEMP TABLE", "pg_temp.t")

    def statement_of(variant: str) -> str:
        kind, name = table_of(variant)
        return f"CREATE {kind} {name} AS {text}" if into == "CREATE TABLE AS" else f"INSERT INTO {name} {text}"

    with bench.connect(temp_buffers="8MB", jit=False, max_parallel_workers_per_gather=1) as conn:
        conn.prepare_threshold = None  # a prepared statement would keep the plan of the variant that came first
        bench.server.set(conn, VARIANTS[STOCK])
        expected = answer(conn, f"({text}) q")

        @contextlib.contextmanager
        def ready(variant: str) -> Iterator[None]:
            """The settings of a variant, and a table to insert into; none is left."""
            bench.server.set(conn, VARIANTS[variant])
            if into != "CREATE TABLE AS":
                conn.execute(f"CREATE {' '.join(table_of(variant))} AS {text} LIMIT 0")
            try:
                yield
            finally:
                conn.execute(f"DROP TABLE IF EXISTS {table_of(variant)[1]}")

        def load(variant: str) -> Any:
            with ready(variant):
                found = timed(conn, statement_of(variant))
                if answer(conn, table_of(variant)[1]) != expected:
                    raise LabError(f"{case}: {variant} has a different answer", "This is a fault of pg_lean; please report it.")
                sizes[query] = conn.execute("SELECT %s::bigint, pg_relation_size(%s)", (expected[0], table_of(variant)[1])).fetchone()
                return found

        def explained(statement: str) -> str:
            # how many workers a plan gets shows only when it runs; one without them need not
            text = explain_text(conn, statement, "COSTS OFF")
            return explain_text(conn, statement, "ANALYZE, TIMING OFF, COSTS OFF") if "Gather" in text else text

        for variant in variants:
            with ready(variant):
                plans[into, query, variant] = plan_of(explained(statement_of(variant)))
        bench.interleave({variant: lambda variant=variant: load(variant) for variant in variants}, repetitions,
                         case=case, warmup=0, text=case)


# -- what a row costs, and more workers ------------------------------------------


@dataclass(frozen=True)
class RowCosts:
    """CPU time for each row, in ns: of the query; of forming and writing it in the leader alone; of the same in a worker;
    of the leader's work for such a row; and the kernel's part of each, which is writing."""

    rows: int
    query: float
    load: float
    hand_over: float
    take: float
    write: float

    def seconds(self, workers: int) -> tuple[float, str]:
        """Time with so many workers, and what limits it.

        Workers make x of the n rows, the leader the others while it takes those of workers.  Both end together where
        x (query + hand_over) / workers = x take + (1 - x) (query + load); if that x is more than 1, the leader only receives.
        Only one process at a time writes to a file.
        """
        alone, worker = self.query + self.load, self.query + self.hand_over
        share = min(1.0, alone / (worker / workers + alone - self.take)) if worker / workers + alone > self.take else 1.0
        by_leader, by_workers = share * self.take + (1 - share) * alone, share * worker / workers
        if self.write > max(by_leader, by_workers):
            return self.write * self.rows / 1e9, "one process after the other writes"
        return max(by_leader, by_workers) * self.rows / 1e9, "the leader takes pages" if by_leader > by_workers * 1.001 else "all processes make rows"

    @property
    def most(self) -> float:
        """Times as fast as without workers, with however many."""
        return (self.query + self.load) / max(self.take, self.write, 1e-9)


def row_costs(bench: Bench, query: str, repetitions: int) -> RowCosts | None:
    """Time the parts of a parallel load one by one: the query, the load without workers, and one in which one worker makes all rows."""
    text, case = QUERIES[query], f"row costs, {query}"
    with bench.connect(temp_buffers="8MB", jit=False, max_parallel_workers_per_gather=1) as conn:
        conn.prepare_threshold = None
        pid = conn.info.backend_pid
        if cpu_seconds(pid) is None:
            return None

        def once(variant: str, statement: str, **settings: Any) -> dict[str, float]:
            bench.server.set(
                conn, {**VARIANTS[variant], "max_parallel_workers_per_gather": 1, "max_parallel_workers": 8, "parallel_leader_participation": True, **settings}
            )
            before, in_kernel = cpu_seconds(pid) or 0.0, kernel_seconds(pid)
            try:
                ms = timed(conn, statement)["ms"]
                return {"ms": ms, "cpu_ms": ((cpu_seconds(pid) or 0.0) - before) * 1000, "kernel_ms": (kernel_seconds(pid) - in_kernel) * 1000}
            finally:
                conn.execute("DROP TABLE IF EXISTS pg_temp.t")

        load = f"CREATE TEMP TABLE t AS {text}"
        bench.server.set(conn, {**VARIANTS[LEAN], **_LEADER_TAKES})
        if "Temp Load" not in explain_text(conn, load, "COSTS OFF"):
            return None
        bench.interleave({
            "query": lambda: once(FAST, f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) {text}", max_parallel_workers_per_gather=0),
            "load": lambda: once(FAST, load, max_parallel_workers_per_gather=0),
            "pages": lambda: once(LEAN, load, **_LEADER_TAKES)}, repetitions, case=case, text=case)
        rows = conn.execute(f"SELECT count(*) FROM ({text}) q").fetchone()[0]

    def ns(variant: str, column: str) -> float:
        return bench.estimate(column, variant, case).median * 1e6 / rows

    return RowCosts(
        rows,
        ns("query", "cpu_ms"),
        max(ns("load", "cpu_ms") - ns("query", "cpu_ms"), 0),
        max(ns("pages", "ms") - ns("query", "cpu_ms"), 0),
        ns("pages", "cpu_ms"),
        max(ns("load", "kernel_ms") - ns("query", "kernel_ms"), 0),
    )


# -- the cost of rows in pages ---------------------------------------------------


def priced(bench: Bench, rows: int, prices: dict[str, float]) -> dict[str, dict[str, str]]:
    """Fill tables with rows of several widths and numbers by the plan chosen with this machine's costs and by the others; return the plans of each case."""
    found: dict[str, dict[str, str]] = {}
    variants = {**PRICED, "chosen": {**PRICED["chosen"], **prices}}
    with bench.connect(temp_buffers="8MB", jit=False, max_parallel_workers_per_gather=1) as conn:
        conn.prepare_threshold = None
        for part in bench.pick(full=PARTS, quick=PARTS[-1:]):
            last = round(part * rows)
            bench.server.set(conn, PRICED["serial"])
            for kind, table in (("TABLE", "fill_part"), ("TEMP TABLE", "fill_near")):
                conn.execute(f"DROP TABLE IF EXISTS {table}")
                conn.execute(f"CREATE {kind} {table} AS SELECT * FROM fill_source WHERE id <= {last}")
                conn.execute(f"VACUUM ANALYZE {table}")
            for width, columns in WIDTHS.items():
                for source, text in SOURCES.items():
                    query, case = f"SELECT {columns} FROM {text.format(last=last)}", f"{width}, {last:,} rows, {source}"
                    found[case] = priced_case(bench, conn, case, variants, f"CREATE TEMP TABLE t AS {query}")
                    if width == INSERTED:
                        case = f"INSERT of {case}"
                        found[case] = priced_case(bench, conn, case, variants, f"INSERT INTO t {query}", f"CREATE TEMP TABLE t AS {query} LIMIT 0")
    return found


def priced_case(bench: Bench, conn: psycopg.Connection, case: str, variants: dict[str, dict[str, Any]], statement: str, before: str = "") -> dict[str, str]:
    """One statement in all ways of PRICED, in turns, each time after what makes its table, if it does not; their plans."""
    plans: dict[str, str] = {}

    @contextlib.contextmanager
    def ready(variant: str) -> Iterator[None]:
        for name in SETTINGS_OF:
            conn.execute(f"RESET {name}")
        bench.server.set(conn, variants[variant])
        if before:
            conn.execute(before)
        try:
            yield
        finally:
            conn.execute("DROP TABLE IF EXISTS pg_temp.t")

    def way(variant: str) -> Any:
        def one() -> dict[str, float]:
            with ready(variant):
                return timed(conn, statement)
        return one

    for variant in PRICED:
        with ready(variant):
            plans[variant] = explain_text(conn, statement, "COSTS OFF")
    sweep.compare(bench, case, plans, {variant: way(variant) for variant in PRICED})
    return plans


# -- short statements ----------------------------------------------------------


def short(bench: Bench) -> None:
    """INSERT ... SELECT of one row out of a small table, in bursts of two kinds of sessions."""
    sessions, size = bench.iterations(full=60, quick=2), bench.pick(full=250, quick=30)
    for name, prepared in SHORT.items():
        def opened(on: bool, prepared: bool = prepared) -> psycopg.Connection:
            conn = bench.connect(jit=False, max_parallel_workers_per_gather=1)
            try:
                bench.server.set(conn, {**VARIANTS[LEAN], "parallel_temp.parallel_insert": on})
                conn.execute("CREATE TEMP TABLE t (id int, amount int)")
                if prepared:
                    measure.check_result(conn.pgconn.prepare(b"short", b"INSERT INTO t SELECT id, amount FROM fill_small WHERE id = $1"))
            except BaseException:
                conn.close()
                raise
            return conn

        def once(pgconn: psycopg.pq.abc.PGconn, prepared: bool = prepared) -> None:
            measure.check_result(pgconn.exec_prepared(b"short", [b"500"]) if prepared else
                                 pgconn.exec_(b"INSERT INTO t SELECT id, amount FROM fill_small WHERE id = 500"))

        with bench.progress(sessions, f"short statements, {name}") as step:
            measure.bursts({OFF: lambda: opened(False), ON: lambda: opened(True)}, once, size, sessions, into=bench.raw, case=f"short, {name}", after_each=step,
                           local=bench.server.private, together=True)


# -- a session without ANALYZE -------------------------------------------------


def session(bench: Bench, rows: int, repetitions: int) -> None:
    """Rounds of three temporary tables, each filled from the one before it, and joined; none is analyzed."""
    with bench.connect(temp_buffers="64MB", jit=False, max_parallel_workers_per_gather=1) as conn:
        conn.prepare_threshold = None
        answers: dict[str, list[Any]] = {}

        def once(name: str) -> dict[str, float]:
            variant, statistics = SESSIONS[name]
            bench.server.set(conn, {**VARIANTS[variant], "parallel_temp.statistics": statistics, "max_parallel_workers_per_gather": 0 if name == ALONE else 1})
            took, found = many_tables(conn, rows, alone=name == ALONE)
            if answers.setdefault(SESSION, found) != found:
                raise LabError(f"{SESSION}: {name} has a different answer", "This is a fault of pg_lean; please report it.")
            return {"ms": sum(took.values()), **{f"{part}_ms": ms for part, ms in took.items()}}

        try:
            bench.interleave({name: lambda name=name: once(name) for name in SESSIONS}, repetitions, case=SESSION, text=SESSION)
        finally:
            bench.server.set(conn, {"parallel_temp.statistics": False})


def recycled_session(bench: Bench, rows: int, repetitions: int) -> None:
    """The session with statistics, without and with recycled_temp, on a server for this."""
    with bench.cluster(preload=("recycled_temp", *PRELOAD), settings=SETTINGS) as server:
        server.make_schema()
        with server.connect() as data:
            # the session reads so many rows of the permanent table
            make(data, rows * (ROUNDS // 2 + max(FIFTHS) // 5))
        with server.connect(temp_buffers="64MB", jit=False, max_parallel_workers_per_gather=1) as conn:
            conn.prepare_threshold = None
            server.set(conn, {**VARIANTS[LEAN], "parallel_temp.statistics": True})
            answers: list[Any] = []

            def once(enabled: str) -> dict[str, float]:
                conn.execute(f"SET recycled_temp.enabled = {enabled}")
                took, found = many_tables(conn, rows)
                answers.append(found)
                if found != answers[0]:
                    raise LabError(f"{SESSION}: recycled_temp {enabled} has a different answer", "This is a fault of pg_lean; please report it.")
                return {"ms": sum(took.values()), **{f"{part}_ms": ms for part, ms in took.items()}}

            bench.interleave({NOT_RECYCLED: lambda: once("off"), RECYCLED: lambda: once("on")}, repetitions, case=f"{SESSION}, recycled",
                             text=f"{SESSION}, recycled_temp")


def statements(rows: int) -> Iterator[tuple[str, str]]:
    """The session: what each statement does (create, insert, ask, drop), and its text."""
    made = []
    for n in range(ROUNDS):
        first, part = n * rows // 2, rows * FIFTHS[n % len(FIFTHS)] // 5
        made += [f"pg_temp.{table}{n}" for table in ("positions", "priced", "totals")]
        yield "create", f"CREATE TEMP TABLE positions{n} (id int, item int, amount int, state text)"
        # few rows have the requested state, which the planner cannot know without statistics
        yield "insert", (f"INSERT INTO positions{n} SELECT id, item, amount, CASE WHEN part = 0 THEN 'open' ELSE 'done' END FROM fill_source"
                         f" WHERE id BETWEEN {first} AND {first + part}")
        yield "create", f"CREATE TEMP TABLE priced{n} (id int, item int, amount int, value numeric, name text)"
        yield (
            "insert",
            f"INSERT INTO priced{n} SELECT p.id, p.item, p.amount, p.amount * 1.19, i.name FROM positions{n} p JOIN fill_items i USING (item) WHERE i.kind "
            "<> 0",
        )
        yield "create", f"CREATE TEMP TABLE totals{n} (item int, lines bigint, value numeric)"
        yield "insert", f"INSERT INTO totals{n} SELECT item, count(*), sum(value) FROM priced{n} GROUP BY item"
        yield "ask", (f"SELECT count(*), sum(q.value) FROM positions{n} p JOIN priced{n} q USING (id) JOIN totals{n} t ON t.item = p.item"
                      " WHERE p.state = 'open' AND t.lines < 5")
        yield "ask", f"SELECT item, value FROM totals{n} ORDER BY value DESC, item LIMIT 10"
    yield "drop", f"DROP TABLE {', '.join(made)}"


def many_tables(conn: psycopg.Connection, rows: int, alone: bool = False) -> tuple[dict[str, float], list[Any]]:
    """Milliseconds of each kind of statement, and the answers; "alone": of the queries of INSERTs and of questions, and nothing else."""
    took: dict[str, float] = dict.fromkeys(("create", "insert", "ask", "drop"), 0.0)
    found = []
    try:
        for kind, text in statements(rows):
            if alone and kind == "insert":
                took[kind] += timed(conn, f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) {text[text.index('SELECT'):]}")["ms"]
            start = time.perf_counter()
            cursor = conn.execute(text)
            if not alone or kind == "ask":
                took[kind] += (time.perf_counter() - start) * 1000
            if kind == "ask":
                found.append(cursor.fetchall())
    except BaseException:
        if not conn.closed:
            conn.execute("DISCARD TEMP")
        raise
    return took, found


# -- what came out -------------------------------------------------------------


def present(bench: Bench, rows: int, repetitions: int, plans: dict[tuple[str, str, str], str], sizes: dict[str, tuple[int, int]],
            costs: dict[str, RowCosts], prices: dict[str, dict[str, str]], with_recycled: bool) -> Result:
    cases = [(into, query) for into in INTO for query in QUERIES]

    def ratio(into: str, query: str, base: str, variant: str = LEAN) -> Estimate:
        return bench.ratio("ms", variant, base, case_of(into, query))

    times = Table("Time in ms", ["statement", "from", "rows", "size", *VARIANTS],
                  [[into, query, sizes[query][0], human_bytes(sizes[query][1]), *(bench.estimate("ms", variant, case_of(into, query)) for variant in VARIANTS)]
                   for into, query in cases])
    ratios = Table(
        "Time over that of others",
        [
            "statement",
            "from",
            "pg_lean | over stock",
            "pg_lean | over fast load",
            "pg_lean | over rows one by one",
            "fast load | over stock",
            "rows one by one at no cost | over fast load",
        ],
        [
            [
                into,
                query,
                ratio(into, query, STOCK),
                ratio(into, query, FAST),
                ratio(into, query, ROWS),
                ratio(into, query, STOCK, FAST),
                ratio(into, query, FAST, ASKED),
            ]
            for into, query in cases
        ],
    )
    parts = Table(
        "A row's parts: ns of processor time",
        [
            "from",
            "rows",
            "query",
            "formed and written by the leader",
            "formed and written by a worker",
            "what the leader does with it",
            "writing, in the kernel",
            *(f"half of query and forming, of stock's time | {into}" for into in INTO),
        ],
        [
            [
                query,
                cost.rows,
                cost.query,
                cost.load,
                cost.hand_over,
                cost.take,
                cost.write,
                *((cost.query + cost.load) * cost.rows / 2e6 / bench.estimate("ms", STOCK, case_of(into, query)).median for into in INTO),
            ]
            for query, cost in costs.items()
        ],
        note="The query: EXPLAIN ANALYZE of it without workers. By the leader: the load without workers, less that. By a worker: the time of a load in which "
             "one worker "
        "makes and writes all rows, less the query. Leader's work: its CPU time in that load. Writing: the kernel's part of the load "
        "without workers. "
        "Half of query and forming: what two processes take that divide all of it.",
    )
    model = Table(
        "A model of more workers, from these parts: times as fast as without",
        ["from", *(f"{n} workers" for n in MODELLED_WORKERS), "at most", "limit"],
        [
            [
                query,
                *((cost.query + cost.load) * cost.rows / 1e9 / cost.seconds(n)[0] for n in MODELLED_WORKERS),
                cost.most,
                next(
                    (f"from {n} workers on {cost.seconds(n)[1]}" for n in MODELLED_WORKERS if not cost.seconds(n)[1].startswith("all")),
                    f"{cost.seconds(MODELLED_WORKERS[-1])[1]}",
                ),
            ]
            for query, cost in costs.items()
        ],
        note="It counts processor time alone, with a processor for each process: no start of workers, no limit of memory or disks. Not measured.",
    )
    plan = Table(
        "Plans",
        ["statement", "from", *VARIANTS],
        [[into, query, *(plans[into, query, variant] for variant in VARIANTS)] for into, query in cases],
        note="As EXPLAIN shows each, and EXPLAIN ANALYZE the workers that one got. CREATE TABLE AS has workers on any server, if its cost of rows that "
             "workers hand over "
        "(parallel_tuple_cost) lets it; the last variant sets that cost to zero.",
    )
    lost = [case for case in prices if sweep.judged(bench, case) == "lost"]
    price = Table(
        "The price of rows in pages: CREATE TABLE AS, and INSERT ... SELECT, as chosen and as not chosen",
        ["rows", "chosen", *(f"ms | {variant}" for variant in PRICED), "faster", "chosen / faster"],
        [
            [
                case,
                plan_of(prices[case]["chosen"])
                if "Gather" not in prices[case]["chosen"]
                else "workers, pages"
                if "Temp Load" in prices[case]["chosen"]
                else "workers",
                *(bench.estimate("ms", variant, case).median for variant in PRICED),
                sweep.faster(bench, case),
                bench.ratio("ms", "chosen", sweep.faster(bench, case), case),
            ]
            for case in prices
        ],
        note="With workers their start and rows that they hand over cost nothing.",
    )
    # by the clock on the wall it counts whether client and server share a processor
    taken = "cpu_us" if bench.server.private else "us"
    brief = Table(
        "INSERT ... SELECT of one row: µs" + (" of the server's processor time" if taken == "cpu_us" else ""),
        ["sent", OFF, ON, "on / off"],
        [
            [name, bench.estimate(taken, OFF, f"short, {name}"), bench.estimate(taken, ON, f"short, {name}"), bench.ratio(taken, ON, OFF, f"short, {name}")]
            for name in SHORT
        ],
        note="Each value is a session's, of its bursts; both kinds of sessions took turns, on the client's processor.",
    )
    gathered = bench.ratio("ms", GATHERED, FAST, SESSION)
    parts_of = ("create", "insert", "ask", "drop")
    erp = Table(
        "A session of 24 temporary tables, each filled from the one before it and never analyzed: ms",
        ["variant", "all", *parts_of, "inserting, of all", "over fast load", "over stock"],
        [
            [
                name,
                bench.estimate("ms", name, SESSION),
                *(bench.estimate(f"{part}_ms", name, SESSION).median for part in parts_of),
                f"{bench.estimate('insert_ms', name, SESSION).median / bench.estimate('ms', name, SESSION).median:.0%}",
                bench.ratio("ms", name, FAST, SESSION),
                bench.ratio("ms", name, STOCK, SESSION),
            ]
            for name in SESSIONS
        ],
        note="Eight rounds: lines of orders out of an index, their prices from a join, totals of items; then who asks for few of them, and for the largest. "
        f"{ALONE[0].upper()}{ALONE[1:]}: EXPLAIN ANALYZE of the SELECT of each INSERT, and what is asked; no rows are put anywhere, and no table made or "
        "dropped. No way of loading can save this part.",
    )
    recycled = Table(
        "The session with recycled_temp: ms",
        ["variant", "all", *parts_of, "over recycled_temp off"],
        [
            [
                name,
                bench.estimate("ms", name, f"{SESSION}, recycled"),
                *(bench.estimate(f"{part}_ms", name, f"{SESSION}, recycled").median for part in parts_of),
                bench.ratio("ms", name, NOT_RECYCLED, f"{SESSION}, recycled"),
            ]
            for name in ((NOT_RECYCLED, RECYCLED) if with_recycled else ())
        ],
        note=f"On another server, with both libraries: `{GATHERED}` without and with recycled_temp.",
    )
    plot = Plot(
        "Time over stock's",
        "",
        "ratio",
        [Series(variant, [case_of(*case) for case in cases], [ratio(*case, STOCK, variant).median for case in cases]) for variant in (FAST, ROWS, LEAN)],
        kind="bar",
    )
    checks = [
        *(
            Check.of(f"time over fast load without workers, {case_of(into, query)}", ratio(into, query, FAST), "<=", 1 / OVER_FAST)
            for into, query in cases
            if query != "group by"
        ),
        *(
            Check.of(f"time over stock, {case_of(into, query)}", ratio(into, query, STOCK), "<=", 1 / OVER_STOCK[into])
            for into, query in cases
            if query != "group by"
        ),
        *(not_slower(f"{case_of(*case)}, over fast load without workers", ratio(*case, FAST), MARGIN_OF_ONE) for case in cases),
        *(not_slower(f"{case_of(*case)}, over rows one by one", ratio(*case, ROWS), MARGIN_OF_ONE) for case in cases),
        *(not_slower(f"short INSERT ... SELECT, {name}", bench.ratio(taken, ON, OFF, f"short, {name}"), MARGIN) for name in SHORT),
        Check("tables filled by a plan that certainly takes more than " + f"{sweep.MARGIN:.2f} of the faster one's time", float(len(lost)), "<=", 0),
        Check.of(f"{SESSION}, statistics on: time over fast load without workers and statistics", gathered, "<=", OF_FAST_LOAD),
    ]
    join = ratio("INSERT ... SELECT", "hash join", FAST)
    return Result(
        title=TITLE,
        summary=f"INSERT ... SELECT of a hash join into a temporary table takes {ratio('INSERT ... SELECT', 'hash join', STOCK).median:.2f} of stock's time "
                "and "
        f"{join.median:.2f} of fast load's without workers ({join.low:.2f} to {join.high:.2f}). All answers are equal.",
        what=f"{rows:,} permanent rows, and temporary tables filled from a scan that keeps three fifths of them, a hash join that keeps four, and a group by; "
        "short statements; and a session of two dozen tables that are not analyzed.",
        how=f"{repetitions} interleaved repetitions in one session for each case, after plans with workers ran once; the leader and at most one worker. Time "
            "is the client's. "
        f"`{STOCK}`: `parallel_temp.enabled` and `fast_load` off; `{UNLOGGED}`: the same, the table is not temporary; "
        f"`{FAST}`: on, `parallel_insert` and `fill_pages` off; `{ROWS}`: `fill_pages` off; "
        f"`{LEAN}`: all on. temp_buffers is 8 MB. "
        "The count and two sums of every table are compared with those of the query.",
        headlines=[headline(bench, query) for query in ("hash join", "filtered scan")],
        blocks=[times, ratios, plan, plot, *([parts, model] if costs else []), price, brief, erp, *([recycled] if with_recycled else [])],
        checks=[] if bench.quick else checks,
    )
