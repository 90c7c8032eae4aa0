"""What file extension costs temporary tables: counts, pages and time for each way of filling one, stock and with pg_lean."""

from __future__ import annotations

import contextlib
import io
import time
from typing import Any, Callable, Iterator

import psycopg

from pg_lean import trace
from pg_lean.bench import Bench, Check, Estimate, Headline, Note, Plot, Result, Series, Table, Unavailable, human_bytes, not_slower
from pg_lean.cluster import Cluster
from pg_lean.measure import cpu_seconds, timed

TITLE = "File extension and writes of temporary tables, by way of loading and place"
PRELOAD = ("parallel_temp", "ram_tablespace")
SETTINGS = {"shared_buffers": "1GB", "track_io_timing": True}

#: Rows on a page: an integer, a float and 32 characters each.
ROWS_PER_PAGE = 97

LOADS = ("CREATE TABLE AS", "INSERT ... SELECT", "COPY", "row by row", "index build")
HEADLINES = LOADS[:2]
STOCK, LEAN = "stock", "pg_lean"
#: The next best way on a stock server, for the tables of the headlines: one that is not temporary, and not logged.
UNLOGGED = "stock, UNLOGGED"

#: The table of the targets, about 500 MB, and the one of the other cases that do not fit.
LARGE, MEDIUM, SMALL = 6_160_000, 1_500_000, 100_000

#: The sweep: every size with every setting, so that no load is found to be slower.
SWEEP_LOADS = ("CREATE TABLE AS", "INSERT ... SELECT", "INSERT ... SELECT again", "INSERT ... RETURNING", "COPY")
SWEEP_ROWS = (1, 10, 50, 100, 1000, 10_000, 100_000, 1_000_000)
SWEEP_BUFFERS = ("800kB", "8MB", "256MB")

#: What "not slower" allows: one case of few repetitions, and all sizes of a way of loading together.
MARGIN_OF_ONE, MARGIN = 0.10, 0.05


def run(bench: Bench) -> Result:
    """Each way of loading, into tables that fit temp_buffers and that do not, on each tablespace, with fast load off and on."""
    bench.server.need_function("pg_flush_local_buffers()")
    large, medium = sizes(bench)
    repetitions = bench.iterations(full=5, quick=3)
    make_source(bench, large)
    places = {"default": ""}
    with contextlib.ExitStack() as stack:
        ram, why_no_ram = stack.enter_context(ram_tablespace(bench))
        if ram:
            places["in memory"] = ram
        method = counting(bench)
        for place, tablespace in places.items():
            for fits in (True, False):
                for load in LOADS:
                    rows = SMALL if fits else large if not tablespace and load in HEADLINES else medium
                    if load == "row by row":
                        rows = min(rows, 30_000 if fits else 100_000)
                    measure(bench, load, fits, rows, place, tablespace, repetitions, method)
        empty = look_into_file(bench, SMALL)
    sweep(bench)
    return present(bench, places, repetitions, method, why_no_ram, empty, large)


def front(bench: Bench) -> tuple[Headline, tuple[str, float]]:
    """INSERT ... SELECT of the large table, without counting."""
    bench.server.need_function("pg_flush_local_buffers()")
    bench.server.make_schema()
    (large, _), load, place = sizes(bench), HEADLINES[1], "default"
    make_source(bench, large)
    measure(bench, load, False, large, place, "", bench.iterations(full=5, quick=3), "")
    return headline(bench, load, large), ("`UNLOGGED`", bench.estimate("ms", UNLOGGED, case_of(load, False, place)).median)


def headline(bench: Bench, load: str, rows: int) -> Headline:
    case = case_of(load, False, "default")
    return Headline(
        f"{load} of a temporary table of {human_bytes(rows // ROWS_PER_PAGE * 8192)}",
        bench.ratio("ms", STOCK, LEAN, case),
        [(name, bench.estimate("ms", name, case).median) for name in (STOCK, LEAN)],
    )


def sizes(bench: Bench) -> tuple[int, int]:
    """Rows of the large tables and of the others."""
    return bench.pick(full=(LARGE, MEDIUM), quick=(600_000, 300_000))


def make_source(bench: Bench, rows: int) -> None:
    with bench.connect() as conn:
        conn.execute(f"CREATE TABLE source AS SELECT i AS id, i::float8 / 3 AS f, md5(i::text) AS t FROM generate_series(1, {rows}) i")
        conn.execute("VACUUM ANALYZE source")


def case_of(load: str, fits: bool, place: str) -> str:
    return f"{load}, {'fits' if fits else 'does not fit'}, {place}"


def steps(load: str, rows: int, kind: str = "TEMP") -> tuple[list[str], str]:
    """Statements before the measured one, and the measured one."""
    part = f"SELECT * FROM source LIMIT {rows}"
    empty = f"CREATE {kind} TABLE t (LIKE source)"
    if load == "CREATE TABLE AS":
        return [], f"CREATE {kind} TABLE t AS {part}"
    if load == "INSERT ... SELECT":
        return [empty], f"INSERT INTO t {part}"
    if load == "row by row":
        return [empty], f"DO $$ BEGIN FOR i IN 1..{rows} LOOP INSERT INTO t VALUES (i, i, 'a row of about the same length as others'); END LOOP; END $$"
    if load == "index build":
        return [f"CREATE TEMP TABLE t AS {part}"], "CREATE INDEX ON t (id, t)"
    return [empty], "COPY t FROM STDIN"


def copy_data(conn: psycopg.Connection, rows: int) -> bytes:
    """What COPY is fed with, made before the clock starts."""
    with conn.cursor() as cursor, cursor.copy(f"COPY (SELECT * FROM source LIMIT {rows}) TO STDOUT") as copy:
        return b"".join(bytes(block) for block in copy)


def measure(bench: Bench, load: str, fits: bool, rows: int, place: str, tablespace: str, repetitions: int, method: str) -> None:
    """Time both variants in turns, then count in another run with probes or counters (which slow what they watch)."""
    pages = rows // ROWS_PER_PAGE
    buffers = f"{max(16, pages * 8192 * 3 // 1_000_000)}MB" if fits else "8MB"
    before, statement = steps(load, rows)
    case = case_of(load, fits, place)
    with bench.connect(temp_buffers=buffers, jit=False, max_parallel_workers_per_gather=0, maintenance_work_mem="256MB") as conn:
        data = copy_data(conn, rows) if load == "COPY" else b""
        if tablespace:
            conn.execute("SELECT ram_tablespace_use(%s)", (tablespace,))

        def execute() -> Any:
            if load != "COPY":
                return conn.execute(statement)
            with conn.cursor() as cursor, cursor.copy(statement) as copy:
                copy.write(data)

        def variant(fast: bool, around: Callable[[Callable[[], Any]], dict[str, float]]) -> Callable[[], dict[str, float]]:
            def once() -> dict[str, float]:
                bench.server.set(conn, {"parallel_temp.fast_load": fast})
                for step in before:
                    conn.execute(step)
                try:
                    return around(execute)
                finally:
                    conn.execute("DROP TABLE IF EXISTS pg_temp.t")
            return once

        def unlogged() -> dict[str, float]:
            before, statement = steps(load, rows, "UNLOGGED")
            bench.server.set(conn, {"parallel_temp.fast_load": False})
            for step in before:
                conn.execute(step)
            try:
                return timing(lambda: conn.execute(statement))
            finally:
                conn.execute("DROP TABLE IF EXISTS t")

        def timing(action: Callable[[], Any]) -> dict[str, float]:
            sample = timed_action(action)
            return {**sample, **(scan(conn) if load != "index build" else {})}

        variants = {STOCK: variant(False, timing), LEAN: variant(True, timing)}
        if not fits and not tablespace and load in HEADLINES:
            variants[UNLOGGED] = unlogged
        bench.interleave(variants, repetitions, case=case, text=case)

        for name, fast in ((STOCK, False), (LEAN, True)) if method else ():
            with counter(method, conn) as count:
                found = {}

                def counted(action: Callable[[], Any]) -> dict[str, float]:
                    found["statement"] = count(action, statement)
                    return {}

                variant(fast, counted)()
            s = found["statement"]
            if s is not None:
                bench.raw.add(name, 0, f"counts: {case}", extends=s.extends, extended_pages=s.extended_pages, extend_us=s.extend_us,
                              writes=s.writes, written_pages=s.written_pages, write_us=s.write_us, share=s.share())


def timed_action(action: Callable[[], Any]) -> dict[str, float]:
    start = time.perf_counter()
    action()
    return {"ms": (time.perf_counter() - start) * 1000}


def scan(conn: psycopg.Connection) -> dict[str, float]:
    """The query after the load: what was saved must not come back there."""
    return {"next_ms": timed(conn, "SELECT count(*) FROM t")["ms"]}


# -- every size ----------------------------------------------------------------


def sweep_sizes(bench: Bench, load: str) -> tuple[int, ...]:
    """Rows of the sweep; RETURNING sends them to the client, so it stays small."""
    sizes = bench.pick(full=SWEEP_ROWS, quick=(1, 100, 10_000))
    return tuple(rows for rows in sizes if rows <= 10_000 or load != "INSERT ... RETURNING")


def sweep_case(load: str, rows: int, buffers: str) -> str:
    return f"{load}, {rows:,} rows, temp_buffers {buffers}"


def sweep(bench: Bench) -> None:
    """Time loads of every size with every temp_buffers: many statements of one kind together, so that small ones can be told apart."""
    for buffers in bench.pick(full=SWEEP_BUFFERS, quick=("8MB",)):
        with bench.connect(temp_buffers=buffers, jit=False, max_parallel_workers_per_gather=0) as conn:
            for load in SWEEP_LOADS:
                for rows in sweep_sizes(bench, load):
                    together = max(1, min(20, 20_000 // rows))
                    repetitions = bench.iterations(full=21 if rows <= 1000 else 9 if rows <= 10_000 else 5 if rows <= 100_000 else 3, quick=5)
                    data = copy_data(conn, rows) if load == "COPY" else b""
                    case = sweep_case(load, rows, buffers)
                    bench.interleave({name: lambda fast=fast: many(bench, conn, fast, load, rows, together, data)
                                      for name, fast in ((STOCK, False), (LEAN, True))}, repetitions, case=case, text=case)


def many(bench: Bench, conn: psycopg.Connection, fast: bool, load: str, rows: int, together: int, data: bytes) -> dict[str, float]:
    """Client's time and the server's processor time of one statement, the mean of several."""
    pid = conn.info.backend_pid
    tables = ["t0" if load == "INSERT ... SELECT again" else f"t{i}" for i in range(together)]
    bench.server.set(conn, {"parallel_temp.fast_load": fast})
    if load != "CREATE TABLE AS":
        for table in dict.fromkeys(tables):
            conn.execute(f"CREATE TEMP TABLE {table} (LIKE source)", prepare=False)
    cpu, start = cpu_seconds(pid), time.perf_counter()
    for table in tables:
        if load == "COPY":
            with conn.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
                copy.write(data)
        elif load == "CREATE TABLE AS":
            conn.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM source LIMIT {rows}", prepare=False)
        else:
            returning = "RETURNING id" if load.endswith("RETURNING") else ""
            conn.execute(f"INSERT INTO {table} SELECT * FROM source LIMIT {rows} {returning}", prepare=False)
    ms, used = (time.perf_counter() - start) * 1000, cpu_seconds(pid)
    conn.execute("DROP TABLE " + ", ".join(f"pg_temp.{table}" for table in dict.fromkeys(tables)), prepare=False)
    found = {"ms": ms / together}
    if cpu is not None and used is not None:
        found["cpu_ms"] = (used - cpu) * 1000 / together
    return found


def sweep_ratio(bench: Bench, load: str, rows: int, buffers: str) -> Estimate:
    """pg_lean over stock, by the server's processor time where that can be seen."""
    case = sweep_case(load, rows, buffers)
    found = bench.ratio("cpu_ms", LEAN, STOCK, case)
    return found if found.n else bench.ratio("ms", LEAN, STOCK, case)


def sweep_ratio_of_all(bench: Bench, load: str) -> Estimate:
    """The same over every size and temp_buffers of one way of loading: one size alone has too few repetitions for a percent."""
    pairs = []
    for buffers in bench.pick(full=SWEEP_BUFFERS, quick=("8MB",)):
        for rows in sweep_sizes(bench, load):
            case = sweep_case(load, rows, buffers)
            stock = {row["repetition"]: row for row in bench.raw.select(STOCK, case)}
            for row in bench.raw.select(LEAN, case):
                base = stock.get(row["repetition"], {})
                metric = "cpu_ms" if base.get("cpu_ms") and row.get("cpu_ms") is not None else "ms"
                if base.get(metric):
                    pairs.append(row[metric] / base[metric])
    return Estimate.of(pairs)


# -- counting ------------------------------------------------------------------


def counting(bench: Bench) -> str:
    """How extensions are counted here: "bpftrace", "counters" or "" (not at all)."""
    with bench.connect() as conn:
        try:
            trace.KernelTrace(conn.info.backend_pid).close()
            return "bpftrace"
        except Unavailable as reason:
            bench.say(f"  {reason}")
        try:
            trace.read_counters(conn, conn.info.backend_pid)
            return "counters"
        except (Unavailable, psycopg.Error) as reason:
            bench.say(f"  {reason}")
    return ""


@contextlib.contextmanager
def counter(method: str, conn: psycopg.Connection) -> Iterator[Callable[..., trace.Statement | None]]:
    """A function that runs an action and returns the server's activity during it."""
    pid = conn.info.backend_pid
    if method == "bpftrace":
        with trace.KernelTrace(pid) as kernel:
            def count(action: Callable[[], Any], text: str) -> trace.Statement:
                action()
                return kernel.wait_for(text[:60])
            yield count
    elif method == "counters":
        def count(action: Callable[[], Any], text: str) -> trace.Statement:
            conn.execute("SELECT pg_stat_force_next_flush()")
            before = trace.read_counters(conn, pid)
            ms = timed_action(action)["ms"]
            conn.execute("SELECT pg_stat_force_next_flush()")
            statement = trace.between(text, before, trace.read_counters(conn, pid), True)
            statement.total_us = ms * 1000
            return statement
        yield count


# -- places --------------------------------------------------------------------


@contextlib.contextmanager
def ram_tablespace(bench: Bench) -> Iterator[tuple[str, str]]:
    """A RAM tablespace on /dev/shm for the time of the run, or why there is none."""
    name = "lean_lab_ram"
    if not isinstance(bench.server, Cluster):
        yield "", "A tablespace belongs to the whole server, so none is made on a server that is not the lab's own."
        return
    with bench.connect() as conn:
        try:
            conn.execute("CALL ram_tablespace_create(%s, '/dev/shm')", (name,))
        except psycopg.Error as error:
            yield "", f"No tablespace in memory: {error.diag.message_primary}."
            return
    try:
        yield name, ""
    finally:
        with bench.connect() as conn:
            conn.execute("CALL ram_tablespace_drop(%s)", (name,))


def look_into_file(bench: Bench, rows: int) -> list[list[Any]]:
    """The file of a table that never left its buffers: length, bytes that are not zero, room on disk."""
    if not isinstance(bench.server, Cluster):
        return []
    found = []
    with bench.connect(temp_buffers="256MB") as conn:
        for name, fast in ((STOCK, False), (LEAN, True)):
            bench.server.set(conn, {"parallel_temp.fast_load": fast})
            conn.execute(f"CREATE TEMP TABLE t AS SELECT * FROM source LIMIT {rows}")
            path = bench.server.data / conn.execute("SELECT pg_relation_filepath('t')").fetchone()[0]
            with io.FileIO(path) as file:
                content = file.readall()
            found.append([name, len(content) // 8192, len(content) - content.count(0), human_bytes(path.stat().st_blocks * 512)])
            conn.execute("DROP TABLE pg_temp.t")
    return found


# -- what came out -------------------------------------------------------------


def present(bench: Bench, places: dict[str, str], repetitions: int, method: str, why_no_ram: str, empty: list[list[Any]], large: int) -> Result:
    cases = [(load, fits, place) for place in places for fits in (True, False) for load in LOADS]
    ratio = {case: bench.ratio("ms", LEAN, STOCK, case_of(*case)) for case in cases}
    times = Table("Time in ms", ["statement", "table", "place", STOCK, UNLOGGED, LEAN, "pg_lean / stock", "load and next scan | pg_lean / stock"],
                  [[load, "fits temp_buffers" if fits else "does not fit", place, bench.estimate("ms", STOCK, case_of(load, fits, place)),
                    bench.estimate("ms", UNLOGGED, case_of(load, fits, place)) if bench.raw.select(UNLOGGED, case_of(load, fits, place)) else None,
                    bench.estimate("ms", LEAN, case_of(load, fits, place)), ratio[load, fits, place],
                    with_scan(bench, case_of(load, fits, place)) if load != "index build" else None]
                   for load, fits, place in cases])
    counted = []
    for load, fits, place in cases:
        for variant in (STOCK, LEAN):
            for row in bench.raw.select(variant, f"counts: {case_of(load, fits, place)}"):
                counted.append([load, "fits" if fits else "does not fit", place, variant, row["extends"], row["extended_pages"], row["extend_us"],
                                row["writes"], row["written_pages"], row["write_us"], f"{row['share']:.1%}" if row["share"] is not None else ""])
    counts = Table("Extensions and writes of one statement",
                   ["statement", "table", "place", "variant", "extend | calls", "extend | pages", "extend | µs", "write | calls", "write | pages",
                    "write | µs", "share of the time"], counted,
                   note="Counted in a separate run, because probes slow the code that they watch." if method == "bpftrace" else
                        "From pg_stat_io, which counts calls and pages as the server's version does.")
    blocks: list[Any] = [times, counts] if counted else [times, Note("Extensions could not be counted here: neither bpftrace nor pg_stat_io is at hand.")]
    if empty:
        blocks.append(Table("The file of a table that never left its buffers", ["variant", "length in pages", "bytes that are not zero", "room on disk"], empty,
                            note="Extension makes the file longer; rows reach it only when buffers are written."))
    if why_no_ram:
        blocks.append(Note(why_no_ram, "Tablespace in memory"))
    swept = {(load, rows, buffers): sweep_ratio(bench, load, rows, buffers)
             for load in SWEEP_LOADS for rows in sweep_sizes(bench, load) for buffers in bench.pick(full=SWEEP_BUFFERS, quick=("8MB",))}
    blocks.append(Table("Every size: pg_lean over stock", ["statement", "rows", *bench.pick(full=SWEEP_BUFFERS, quick=("8MB",))],
                        [[load, rows, *(swept[load, rows, buffers] for buffers in bench.pick(full=SWEEP_BUFFERS, quick=("8MB",)))]
                         for load in SWEEP_LOADS for rows in sweep_sizes(bench, load)],
                        note="Processor time of the server's process (the client's time where that cannot be seen), by temp_buffers. "
                             '"again" fills one table on and on, all others a new table.'))
    blocks.append(Plot("Time with pg_lean over stock", "statement", "ratio",
                       [Series(f"{place}, {'fits' if fits else 'does not fit'}", list(LOADS), [ratio[load, fits, place].median for load in LOADS])
                        for place in places for fits in (True, False)], kind="bar"))
    create, insert = ratio["CREATE TABLE AS", False, "default"].median, ratio["INSERT ... SELECT", False, "default"].median
    old = version_of(bench) < 160000
    slowest = max((case for case in cases if case[0] != "index build"), key=lambda case: ratio[case].high)
    return Result(
        title=TITLE,
        summary=f"A table of {human_bytes(large // ROWS_PER_PAGE * 8192)} that does not fit temp_buffers is made in {create:.2f} and filled in {insert:.2f} "
                "of stock's time.",
        what="The time of statements that fill temporary tables, the extensions and writes of their files, and the scan that follows; and loads of every size.",
        how=f"{repetitions} interleaved repetitions in one session for each case, after one round that is discarded; `parallel_temp.fast_load` off is stock. "
        "Time is the client's. Row by row is one PL/pgSQL loop of INSERT. That and index builds use the server's code in both variants. "
        "Tables that do not fit are loaded with the default temp_buffers of 8 MB.",
        headlines=[headline(bench, load, large) for load in HEADLINES],
        blocks=blocks,
        checks=[
            Check("time of CREATE TABLE AS over stock, does not fit", create, "<=", 1 / 1.5 if old else 1 / 1.3),
            Check("time of INSERT ... SELECT over stock, does not fit", insert, "<=", 1 / 1.25),
            not_slower(f"worst of all ways of loading ({case_of(*slowest)})", ratio[slowest], MARGIN_OF_ONE),
            *(not_slower(f"{load}, every size", sweep_ratio_of_all(bench, load), MARGIN) for load in SWEEP_LOADS),
        ],
    )


def with_scan(bench: Bench, case: str) -> Estimate:
    """Load and next scan together, pg_lean over stock."""
    both = {variant: {row["repetition"]: row["ms"] + row["next_ms"] for row in bench.raw.select(variant, case)} for variant in (STOCK, LEAN)}
    return Estimate.of(both[LEAN][r] / both[STOCK][r] for r in both[LEAN] if r in both[STOCK])


def version_of(bench: Bench) -> int:
    with bench.connect() as conn:
        return conn.info.server_version
