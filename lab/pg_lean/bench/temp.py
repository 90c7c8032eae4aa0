"""Parallel queries over a temporary table: against stock serial, and against stock parallel over the same rows unlogged.

Seven parts: the queries themselves; the scan with its improvements taken back one by one; what sharing costs per page;
memory of leader and workers; a table that was filled row by row; which plan is chosen and which is faster over a range
of sizes; what the loaded library costs statements that have nothing to gain.
"""

from __future__ import annotations

import contextlib
import functools
import random
from typing import Any, Callable, Iterator, Sequence

import psycopg

from pg_lean.bench import Bench, Check, Headline, LabError, Listing, Plot, Result, Series, Table, Unavailable, human_bytes, not_slower
from pg_lean.measure import (Estimate, bursts, check_result, explain_text, memory_peak, prepare_select, private_memory, reset_memory_peak,
                             select_one, timed)
from pg_lean.names import need_extension_schema

TITLE = "Parallel queries over temporary tables: stock serial, stock parallel unlogged, shared, flushed"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "1GB", "work_mem": "128MB", "max_worker_processes": "16", "max_parallel_workers": "16",
            "max_wal_size": "4GB", "checkpoint_timeout": "1h", "autovacuum": "off"}

#: name, statement, times as fast as serial to reach, times as fast as unlogged to reach
QUERIES = {
    "count": ("SELECT count(*) FROM {t}", 1.8, 1.1),
    "filter": ("SELECT count(*) FROM {t} WHERE v % 3 = 0 AND k < 500", 1.8, 1.1),
    "hash join": ("SELECT b.w, count(*) FROM {t} t JOIN bench_big b ON t.id = b.id GROUP BY b.w", 2.0, 1.0),
    "small hash join": ("SELECT count(b.w) FROM {t} t JOIN bench_small b ON t.k = b.id", 2.0, 1.0),
    "group by": ("SELECT k, count(*), sum(v) FROM {t} GROUP BY k", None, 1.0),
    "index join": ("SELECT count(t.v) FROM bench_big b JOIN {t} t ON t.id = b.id WHERE b.w = 0", None, None),
}
#: Settings that a query needs in addition to those of its variant to get the plan of its name.
QUERY_SETTINGS = {"index join": {"enable_hashjoin": False, "enable_mergejoin": False}}
#: The scan as it is, and with one thing taken back.
ABLATION = {
    "as it is": {},
    "pages copied, 128 at once": {"parallel_temp.debug_pool_read": "copy", "parallel_temp.debug_batch_pages": 128},
    "pages copied, 32 at once": {"parallel_temp.debug_pool_read": "copy", "parallel_temp.debug_batch_pages": 32},
    "pages copied, 8 at once": {"parallel_temp.debug_pool_read": "copy", "parallel_temp.debug_batch_pages": 8},
    "pages copied one by one": {"parallel_temp.debug_pool_read": "copy", "parallel_temp.debug_batch_pages": 1},
    "no prefetch for hash joins": {"parallel_temp.debug_hash_prefetch": False},
    "no worker, the scan alone": {"parallel_temp.debug_force": True},
    "no worker, stock's scan": {"parallel_temp.enabled": False},
}
ABLATED = ("count", "filter", "hash join")
VARIANTS = {
    "stock serial": ("bench_temp", {"parallel_temp.enabled": False}),
    "stock unlogged": ("bench_unlogged", {"parallel_temp.enabled": False}),
    "pg_lean share": ("bench_temp", {"parallel_temp.enabled": True, "parallel_temp.method": "share"}),
    "pg_lean flush": ("bench_temp", {"parallel_temp.enabled": True, "parallel_temp.method": "flush"}),
}
#: Of these the headlines, and the next best way on a stock server.
BARS, UNLOGGED = ("stock serial", "pg_lean share"), "stock unlogged"
ROWS = "SELECT g AS id, g % 1000 AS k, md5(g::text) AS txt, g * 2 AS v FROM generate_series(1, {rows}) g"
#: Rows of pgbench_accounts where the overhead is measured.
ACCOUNTS = 500_000
#: What "not slower" allows: equal sessions differ by about as much.
MARGIN = 0.02
#: Rows of the sweep over sizes; a row is about 90 bytes.
SWEEP = (20_000, 60_000, 120_000, 250_000, 500_000, 1_000_000)


def run(bench: Bench) -> Result:
    """All seven parts."""
    rows = rows_of(bench)
    with filled(bench, rows) as conn:
        check_answers(bench, conn)
        measure_queries(bench, conn)
        measure_ablation(bench, conn)
        plan = explain_text(conn, QUERIES["hash join"][0].format(t="bench_temp"), "ANALYZE, BUFFERS, TIMING OFF")
        sharing = measure_sharing(bench, conn)
        memory = measure_memory(bench, conn)
    measure_row_by_row(bench)
    sweep = measure_sweep(bench)
    overhead = measure_overhead(bench)
    return present(bench, rows, plan, sharing, memory, sweep, overhead)


def front(bench: Bench) -> tuple[Headline, tuple[str, float]]:
    """The first query, without the variant that flushes."""
    rows, name = rows_of(bench), next(iter(QUERIES))
    with filled(bench, rows) as conn:
        check_answers(bench, conn)
        measure_queries(bench, conn, [name], [*BARS, UNLOGGED])
    return headline(bench, name, rows), ("`UNLOGGED`", bench.estimate("ms", UNLOGGED, name).median)


def rows_of(bench: Bench) -> int:
    return bench.pick(full=5_000_000, quick=500_000)


@contextlib.contextmanager
def filled(bench: Bench, rows: int) -> Iterator[psycopg.Connection]:
    """A session with the temporary table, next to the same rows unlogged and the tables that are joined."""
    bench.server.need_function("parallel_temp_stats()")
    bench.server.make_schema()
    with bench.connect() as conn, bench.activity(f"filling an unlogged table of {rows:,} rows"):
        conn.execute(f"CREATE UNLOGGED TABLE bench_unlogged AS {ROWS.format(rows=rows)}")
        conn.execute(f"CREATE TABLE bench_big AS SELECT g AS id, g % 13 AS w FROM generate_series(1, {max(rows * 2 // 5, 1)}) g")
        conn.execute("CREATE TABLE bench_small AS SELECT g AS id, g % 13 AS w FROM generate_series(0, 999) g")
        conn.execute("CREATE INDEX ON bench_unlogged (id)")
        conn.execute("VACUUM ANALYZE bench_unlogged, bench_big, bench_small")
    with bench.connect(temp_buffers="1GB", max_parallel_workers_per_gather=1, jit=False) as conn:
        conn.prepare_threshold = None  # a prepared statement would keep the plan of the variant that came first
        with bench.activity(f"filling a temporary table of {rows:,} rows"):
            conn.execute(f"CREATE TEMP TABLE bench_temp AS {ROWS.format(rows=rows)}")
            conn.execute("CREATE INDEX ON bench_temp (id)")
            conn.execute("VACUUM ANALYZE bench_temp")
        yield conn


def headline(bench: Bench, name: str, rows: int) -> Headline:
    return Headline(
        f"{name} over a temporary table of {rows:,} rows, one worker",
        bench.ratio("ms", *BARS, name),
        [(variant, bench.estimate("ms", variant, name).median) for variant in BARS],
    )


def variant(bench: Bench, conn: psycopg.Connection, table: str, settings: dict[str, Any], query: str) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        bench.server.set(conn, settings)
        return timed(conn, query.format(t=table))
    return measure


@contextlib.contextmanager
def settings_of(bench: Bench, conn: psycopg.Connection, name: str) -> Iterator[None]:
    """The settings that a query needs for its plan, and stock's again afterwards."""
    bench.server.set(conn, QUERY_SETTINGS.get(name, {}))
    try:
        yield
    finally:
        for setting in QUERY_SETTINGS.get(name, {}):
            conn.execute(f"RESET {setting}")


def check_answers(bench: Bench, conn: psycopg.Connection) -> None:
    for name, (query, _, _) in QUERIES.items():
        answers = set()
        for table, settings in VARIANTS.values():
            bench.server.set(conn, {**settings, **QUERY_SETTINGS.get(name, {})})
            answers.add(str(sorted(conn.execute(query.format(t=table)).fetchall())))
        if len(answers) != 1:
            raise LabError(f"{name}: the variants have different answers", "This is a fault of pg_lean; please report it.")
        for setting in QUERY_SETTINGS.get(name, {}):
            conn.execute(f"RESET {setting}")


def measure_queries(bench: Bench, conn: psycopg.Connection, names: Sequence[str] = tuple(QUERIES), variants: Sequence[str] = tuple(VARIANTS)) -> None:
    for name in names:
        query = QUERIES[name][0]
        with settings_of(bench, conn, name):
            bench.interleave({key: variant(bench, conn, *VARIANTS[key], query) for key in variants},
                             bench.iterations(full=11, quick=3), case=name)


def measure_ablation(bench: Bench, conn: psycopg.Connection) -> None:
    for name in ABLATED:
        table, settings = VARIANTS["pg_lean share"]
        defaults = {
            "parallel_temp.debug_pool_read": "map",
            "parallel_temp.debug_batch_pages": 32,
            "parallel_temp.debug_hash_prefetch": True,
            "parallel_temp.debug_force": False,
        }
        bench.interleave({key: variant(bench, conn, table, {**settings, **defaults, **changed}, QUERIES[name][0])
                          for key, changed in ABLATION.items()},
                         bench.iterations(full=11, quick=3), case=f"{name}, ablation")
        bench.server.set(conn, {**settings, **defaults})


def counters(conn: psycopg.Connection) -> dict[str, float]:
    return dict(conn.execute(f"SELECT counter, value FROM {need_extension_schema(conn, 'parallel_temp')}.parallel_temp_stats").fetchall())


def measure_sharing(bench: Bench, conn: psycopg.Connection) -> tuple[float, Estimate]:
    """Pages shared by one query, and milliseconds that took, pins included."""
    bench.server.set(conn, VARIANTS["pg_lean share"][1])
    for repetition in range(bench.iterations(full=15, quick=5)):
        before = counters(conn)
        conn.execute("SELECT count(*) FROM bench_temp")
        after = counters(conn)
        bench.raw.add("share", repetition, "sharing", ms=after["milliseconds spent sharing"] - before["milliseconds spent sharing"],
                      pages=after["pages shared"] - before["pages shared"])
    return bench.estimate("pages", "share", "sharing").median, bench.estimate("ms", "share", "sharing")


def measure_memory(bench: Bench, conn: psycopg.Connection) -> dict[str, tuple[int | None, int | None, int | None]]:
    """What the leader grew by, its peak, and private memory of a worker, while a filter runs; None on another machine's server."""
    result = {}
    slow = "SELECT count(*) FROM {t} WHERE md5(txt || k) < '0'"
    for name in ("stock unlogged", "pg_lean share"):
        table, settings = VARIANTS[name]
        bench.server.set(conn, settings)
        leader = conn.info.backend_pid
        reset_memory_peak(leader)
        before = private_memory(leader)
        worker = None
        with bench.connect() as watcher:
            import threading

            thread = threading.Thread(target=lambda: conn.execute(slow.format(t=table)))
            thread.start()
            while thread.is_alive():
                for (pid,) in watcher.execute("SELECT pid FROM pg_stat_activity WHERE leader_pid = %s AND pid <> leader_pid", (leader,)):
                    worker = max(filter(None, (worker, private_memory(pid))), default=None)
            thread.join()
        after = private_memory(leader)
        result[name] = (after - before if after is not None and before is not None else None, memory_peak(leader), worker)
        bench.raw.add(name, 0, "memory", leader_peak=result[name][1], leader_grew=result[name][0], worker_private=worker)
    return result


#: Scans one after another of a table in which each row is a separate transaction, and the processes that run them.
SCANS = ("first scan", "second scan", "third scan")
ROW_BY_ROW = {
    key: {**VARIANTS[key][1], "parallel_setup_cost": 0, "min_parallel_table_scan_size": 0} for key in ("stock serial", "pg_lean share", "pg_lean flush")
}


def measure_row_by_row(bench: Bench) -> None:
    """Count rows that a transaction each has put there.  The first scan finds no hint bits; not even ANALYZE has been there before."""
    rows = bench.pick(full=1_000_000, quick=30_000)
    for repetition in range(bench.iterations(full=3, quick=1)):
        for key, settings in ROW_BY_ROW.items():
            with bench.connect(temp_buffers="256MB", max_parallel_workers_per_gather=1, jit=False) as conn:
                bench.server.set(conn, settings)
                conn.execute("CREATE TEMP TABLE t (id int, v int)")
                conn.execute(f"DO $$ BEGIN FOR i IN 1..{rows} LOOP INSERT INTO t VALUES (i, i); COMMIT; END LOOP; END $$")
                for name in SCANS:
                    bench.raw.add(key, repetition, name, **timed(conn, "SELECT count(*), sum(v) FROM t"))


def measure_sweep(bench: Bench) -> list[list[Any]]:
    """For each size the plan that is chosen by default, and the times of both kinds of plan."""
    rows = []
    sizes = bench.pick(full=SWEEP, quick=SWEEP[:4])
    for size in sizes:
        with bench.connect(temp_buffers="512MB", max_parallel_workers_per_gather=1, jit=False) as conn:
            conn.prepare_threshold = None
            conn.execute(f"CREATE TEMP TABLE bench_temp AS {ROWS.format(rows=size)}")
            conn.execute("ANALYZE bench_temp")
            query = "SELECT count(*) FROM bench_temp WHERE v % 3 = 0"
            chosen = "parallel" if "Gather" in explain_text(conn, query, "COSTS OFF") else "serial"
            forced = {"parallel_temp.enabled": True, "parallel_setup_cost": 0, "parallel_tuple_cost": 0, "min_parallel_table_scan_size": 0}
            bench.interleave({"serial": variant(bench, conn, "bench_temp", {"parallel_temp.enabled": False}, query),
                              "parallel": variant(bench, conn, "bench_temp", forced, query)},
                             bench.iterations(full=11, quick=5), case=f"sweep {size}", text=f"{size:,} rows")
            ratio = bench.ratio("ms", "serial", "parallel", f"sweep {size}").median
            lost = max(0.0, (1 / ratio if chosen == "parallel" else ratio) - 1)
            rows.append([size, conn.execute("SELECT pg_relation_size('bench_temp')").fetchone()[0] // 8192,
                         bench.estimate("ms", "serial", f"sweep {size}"), bench.estimate("ms", "parallel", f"sweep {size}"), ratio, chosen, lost])
    return rows


def temporary_loop(pgconn: psycopg.pq.abc.PGconn) -> None:
    """Four short statements over a small temporary table."""
    number = random.randint(1, 1000)
    for statement in ("CREATE TEMP TABLE IF NOT EXISTS loop_temp (id int, v int)", f"INSERT INTO loop_temp VALUES ({number}, 1)",
                      f"SELECT sum(v) FROM loop_temp WHERE id = {number}", "TRUNCATE loop_temp"):
        check_result(pgconn.exec_(statement.encode()))


#: What measure_overhead() runs: a transaction, and how many make a burst.
LOADS = {"pgbench -S": (select_one(ACCOUNTS), 1000), "temporary loop": (temporary_loop, 100)}


def measure_overhead(bench: Bench) -> dict[str, Estimate]:
    """Microseconds of a transaction in sessions that have the library and in sessions that do not, in bursts in turns on one server.
    A third kind of session, stock again, shows how much two equal ones differ."""
    try:
        bench.need_private()
    except Unavailable:
        return {}
    # Waiting for the disk at commit would hide what is looked for.
    with bench.cluster(settings=SETTINGS | {"synchronous_commit": "off"}) as server:
        server.make_schema()
        server.run("pgbench", "-i", "-q", "-s", str(ACCOUNTS // 100_000))

        def connect(preload: tuple[str, ...]) -> psycopg.Connection:
            return prepare_select(server.connect(f"-c session_preload_libraries={','.join(preload)}", client_min_messages="warning"))

        kinds = {kind: functools.partial(connect, preload) for kind, preload in {"stock": (), "pg_lean": PRELOAD, "stock again": ()}.items()}
        sessions = bench.iterations(full=100, quick=2)
        with server.connect() as other, bench.progress(sessions * len(LOADS), "the library's overhead") as step:
            for name, (transaction, size) in LOADS.items():
                # The loop leaves dead rows in the catalog, which make it slower and slower.
                bursts(kinds, transaction, size, sessions, into=bench.raw, case=name, after_each=lambda: step(name), local=True, together=True,
                       before=lambda: other.execute("VACUUM pg_class"))
    return {name: bench.ratio("us", "pg_lean", "stock", name) for name in LOADS}


def present(bench: Bench, rows: int, plan: str, sharing: tuple[float, Estimate], memory: dict[str, tuple[int | None, int | None, int | None]],
            sweep: list[list[Any]], overhead: dict[str, Estimate]) -> Result:
    """Tables, plots and targets."""
    def faster(name: str, over: str, which: str = "pg_lean share") -> Estimate:
        return bench.ratio("ms", over, which, name)

    pages, ms = sharing
    checks = [Check("sharing 50,000 resident pages, ms", ms.median * 50_000 / max(pages, 1), "<=", 3, "ms")]
    for name, (_, serial, unlogged) in QUERIES.items():
        if serial:
            checks.append(Check(f"{name}: times as fast as serial", faster(name, "stock serial").median, ">=", serial, "x"))
        if unlogged:
            checks.append(Check(f"{name}: times as fast as unlogged", faster(name, "stock unlogged").median, ">=", unlogged, "x"))
    checks.append(Check("worst loss by the choice of plan over sizes", max(row[-1] for row in sweep), "<=", 0.10))
    checks += [not_slower(f"{name}: time with the library over stock's", ratio, MARGIN) for name, ratio in overhead.items()]
    stock_worker, lean_worker = memory["stock unlogged"][2], memory["pg_lean share"][2]
    if stock_worker and lean_worker:
        checks.append(Check("a worker's own memory beyond stock's, MB", (lean_worker - stock_worker) / 2**20, "<=", 1.0, "MB"))
    blocks: list[Any] = [
        Table(
            "Milliseconds",
            ["query", *(f"time | {key}" for key in VARIANTS), "share is times as fast | serial", "share is times as fast | unlogged"],
            [[name, *(bench.estimate("ms", key, name) for key in VARIANTS), faster(name, "stock serial"), faster(name, "stock unlogged")] for name in QUERIES],
        ),
        Plot(
            "Milliseconds",
            "query",
            "ms",
            [Series(key, list(QUERIES), [bench.estimate("ms", key, name).median for name in QUERIES]) for key in VARIANTS],
            kind="bar",
        ),
        Table(
            "Sharing",
            ["pages", "ms", "ns a page"],
            [[pages, ms, ms.median * 1e6 / max(pages, 1)]],
            note="Time the leader spends before its workers start: looking at the buffers, pinning, telling.",
        ),
        Table(
            "The scan, with one thing taken back",
            ["workers get at pages", *(f"ms | {name}" for name in ABLATED)],
            [[key, *(bench.estimate("ms", key, f"{name}, ablation") for name in ABLATED)] for key in ABLATION],
            note="As it is, a worker looks at the pages in a mapping of the leader's buffers.",
        ),
        Table(
            "Memory while a filter runs",
            ["plan", "leader grew by", "leader's peak, shared buffers included", "a worker's own"],
            [[name, *(human_bytes(value) if value is not None else "not seen" for value in values)] for name, values in memory.items()],
        ),
        Table(
            "A table filled by one transaction a row: milliseconds",
            ["plan", *SCANS],
            [[key, *(bench.estimate("ms", key, name) for name in SCANS)] for key in ROW_BY_ROW],
            note="The scan that comes first looks up each row's transaction and leaves hint bits for the others.",
        ),
        Table(
            "Which plan is chosen, which is faster",
            ["rows", "pages", "ms | serial", "ms | parallel", "serial over parallel", "chosen", "lost by the choice"],
            sweep,
        ),
        Listing("Plan of the hash join", plan, folded=True),
    ]
    if overhead:
        blocks.insert(-1, Table("Statements with nothing to gain: microseconds of a transaction, with the library over without",
                                ["load", "stock", "pg_lean", "ratio", "stock again over stock"],
                                [[name, bench.estimate("us", "stock", name), bench.estimate("us", "pg_lean", name), ratio,
                                  bench.ratio("us", "stock again", "stock", name)] for name, ratio in overhead.items()]))
    return Result(
        title=TITLE,
        summary=f"{rows:,} rows, leader and one worker: counting is {faster('count', 'stock serial').median:.2f} times as fast as serial and "
        f"{faster('count', 'stock unlogged').median:.2f} times as fast as the same rows in an unlogged table; the hash join "
        f"{faster('hash join', 'stock serial').median:.2f} and {faster('hash join', 'stock unlogged').median:.2f}.",
        what="Queries over one temporary table, resident in temp_buffers: " + "; ".join(f"{n}: `{q[0].format(t='t')}`" for n, q in QUERIES.items()) + ".",
        how="One session, the leader and one worker. `stock serial` is `parallel_temp.enabled = off`; `stock unlogged` is the server's parallel plan "
        "over the same rows in an unlogged table of shared buffers. Variants in turns; time as the client sees it; answers compared first.",
        headlines=[headline(bench, name, rows) for name in ("count", "filter", "hash join")],
        blocks=blocks,
        checks=[] if bench.quick else checks,
    )
