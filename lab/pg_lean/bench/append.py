"""Appends to one value: appendable_bytea against bytea, large objects and a hand-written chunk table, in one run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Callable

import psycopg

from pg_lean.appending import BATCHES, CHUNK_ROWS, LARGE_OBJECT, METHODS, NO_APPEND, PG_LEAN, STOCK, Store, make_source
from pg_lean.bench import Bench, Check, Estimate, Headline, Note, Plot, Result, Series, Table, human_bytes, not_slower
from pg_lean.measure import cpu_seconds, memory_peak, reset_memory_peak

TITLE = "Appending to a value: appendable_bytea against bytea, large objects and chunk rows"
PRELOAD = ("appendable_bytea",)
SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "16GB", "appendable_bytea.max_size": "2GB"}

#: What "not slower" allows.
MARGIN = 0.05

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def run(bench: Bench) -> Result:
    """Every part on the same server; each part's rows have its name as case."""
    bench.need_private()  # large objects are in no schema: on a server of the user's an interrupted run would leave some
    bench.server.need_extension("appendable_bytea")
    big = big_value(bench)
    parts = [
        one_byte(bench, big),
        latencies(bench),
        streams(bench),
        reading(bench, big),
        ending(bench),
        run_log(bench),
        decoding(bench),
        memory(bench),
        untouched(bench),
    ]
    blocks = [block for part in parts for block in part[0]]
    checks = [check for part in parts for check in part[1]]
    stock, lean = (bench.estimate("us", name, "one byte").median for name in ("stock", "pg_lean"))
    return Result(
        title=TITLE,
        summary=f"One byte appended to {human_bytes(big)}: {lean:.0f} µs instead of {stock / 1000:,.0f} ms, "
        f"{stock / lean:,.0f} times faster, with {bench.estimate('wal', 'pg_lean', 'one byte').median:.0f} bytes of WAL.",
        what="Time and WAL of appends, reads and inserts of one value kept as `appendable_bytea`, as `bytea` with STORAGE EXTERNAL, as a large object, "
        "and as rows of a hand-written chunk table (chunk rows: the INSERT looks up where the value ends; blind rows: the application knows it, as it "
        "does for large objects here).",
        how="Random bytes. Every append commits; `synchronous_commit` is off, so that the disk's flush is not what is compared. Methods take turns in "
        "each repetition. Time is taken in the server: by a procedure around its appends, by EXPLAIN for reads.",
        headlines=[headline(bench, big), *streamed(bench)],
        blocks=blocks,
        checks=checks,
    )


def front(bench: Bench) -> tuple[Headline, tuple[str, float]]:
    """One byte to the big value."""
    bench.server.need_extension("appendable_bytea")
    bench.server.make_schema()
    big = big_value(bench)
    one_byte(bench, big)
    return headline(bench, big), min(
        ((title, bench.estimate("us", name, "one byte").median) for name, title in (("LO", "large object"), ("chunk rows", "chunk rows"))),
        key=lambda way: way[1],
    )


def big_value(bench: Bench) -> int:
    return bench.pick(full=100 * MB, quick=10 * MB)


def headline(bench: Bench, size: int) -> Headline:
    return Headline(
        f"one byte added to {human_bytes(size)}",
        bench.ratio("us", "stock", "pg_lean", "one byte"),
        [(title, bench.estimate("us", name, "one byte").median) for name, title in (("stock", "bytea"), ("pg_lean", "appendable_bytea"))],
        "µs",
    )


def streamed(bench: Bench) -> list[Headline]:
    """Compare with large objects, the only other way for values of any length, in the longest stream that included them."""
    case = next(case for case in bench.raw.cases if str(case).endswith("by 100,000 bytes"))
    return [Headline(f"{case}, compared with a large object", bench.ratio("ms", "LO", "pg_lean", case),
                     [("large object", bench.estimate("ms", "LO", case).median), ("appendable_bytea", bench.estimate("ms", "pg_lean", case).median)])]


def stores(bench: Bench, label: str, *methods: object) -> dict[str, Store]:
    return {method.name: Store(bench, method, label) for method in methods}


def close(some: dict[str, Store]) -> None:
    for store in some.values():
        store.drop_values()
        store.close()


def with_processor_time(conn: psycopg.Connection, measure: Callable[[], dict[str, float]]) -> Callable[[], dict[str, float]]:
    """The same measurements, and as "cpu_ms" the CPU time of the session's process in that time, if it is visible."""
    def measured() -> dict[str, float]:
        before = cpu_seconds(conn.info.backend_pid)
        sample = measure()
        return sample if before is None else sample | {"cpu_ms": (cpu_seconds(conn.info.backend_pid) - before) * 1000}
    return measured


def clean_buffers(conn: psycopg.Connection) -> None:
    """Leave no buffer dirty.  A process that creates pages evicts buffers and has to write the dirty ones, however many there are, which can take longer
    than the measured work.  Pages created from here on are logged without page images, because they are new."""
    conn.execute("CHECKPOINT")


def compared(bench: Bench, variant: str, base: str, case: str) -> tuple[str, Estimate]:
    """The unit in which statements of some milliseconds are compared, and their ratio.  It is CPU time if that is visible, because the disk and other programs
    are the same for both, and their effect is as large as the difference."""
    name, metric = ("processor time", "cpu_ms") if all("cpu_ms" in row for row in bench.raw.select(case=case)) else ("time", "ms")
    return name, bench.ratio(metric, variant, base, case)


def one_byte(bench: Bench, size: int) -> tuple[list, list]:
    """The seed's case: one byte to a big value."""
    some = stores(bench, "one_", PG_LEAN, STOCK, LARGE_OBJECT, CHUNK_ROWS)
    make_source(some["stock"].conn, size)
    keys = {name: store.insert()[0] for name, store in some.items()}

    def variant(store: Store):
        def measure():
            us, wal = store.each(keys[store.name], 1, 1)[0]
            return {"us": us, "wal": wal}
        return measure

    bench.interleave({name: variant(store) for name, store in some.items()}, bench.iterations(full=9, quick=5), case="one byte",
                     text=f"one byte to {human_bytes(size)}")
    # WAL of the cheap ones depends on how the append falls into its size class: take many
    for store in some.values():
        if store is not some["stock"]:
            for n, (us, wal) in enumerate(store.each(keys[store.name], 1, 400)):
                bench.raw.add(store.name, n, "one byte, 400 in a row", us=us, wal=wal)
    ratio = bench.ratio("us", "stock", "pg_lean", "one byte")
    wal = bench.estimate("wal", "pg_lean", "one byte, 400 in a row")
    for store in some.values():
        assert store.length(keys[store.name]) == store.lengths[keys[store.name]], store.name
    table = Table(f"One byte appended to {human_bytes(size)}", ["method", "µs", "WAL bytes", "µs, 400 in a row", "WAL bytes, 400 in a row"],
                  [[name, bench.estimate("us", name, "one byte"), bench.estimate("wal", name, "one byte"),
                    bench.estimate("us", name, "one byte, 400 in a row"), bench.estimate("wal", name, "one byte, 400 in a row")] for name in some])
    close(some)
    return [table], [Check.of(f"times faster than stock, one byte to {human_bytes(size)}", ratio, ">=", 2750 if size >= 100 * MB else 275),
                     Check.of("WAL of a one-byte append, median", wal, "<=", 143, "bytes")]


def latencies(bench: Bench) -> tuple[list, list]:
    """Single appends of every size to values of every size."""
    sizes = bench.pick(full=(KB, MB, 10 * MB, 100 * MB, GB), quick=(KB, MB, 8 * MB))
    chunks = bench.pick(full=(1, 100, KB, 10_000, 100_000, MB), quick=(1, KB, 100_000))
    repetitions = bench.iterations(full=5, quick=1)
    some = stores(bench, "grid_", PG_LEAN, STOCK, LARGE_OBJECT, CHUNK_ROWS)
    for size in sizes:
        keys: dict[str, int] = {}
        with bench.progress(len(chunks) * repetitions, f"appends to {human_bytes(size)}") as step:
            for chunk in chunks:
                for repetition in range(repetitions):
                    for name, store in some.items():
                        # stock rewrites the value at every step: it takes few, and stays below what it can hold
                        slow = name == "stock" and size >= 10 * MB
                        if name == "stock" and size > 100 * MB or slow and repetition > 0:
                            continue
                        if name not in keys or size <= 10 * MB:
                            keys[name] = store.new()
                            if name == "stock":
                                store.many(keys[name], size, 1)
                            else:
                                store.grow(keys[name], size)
                        for us, wal in store.each(keys[name], chunk, 1 if slow else 4 if chunk >= MB else 20):
                            bench.raw.add(name, repetition, f"{chunk} to {size}", us=us, wal=wal, size=size, chunk=chunk)
                    step()
    # Above, sizes come one after the other, and the last finds all buffers in use, so that each new page first has to evict another one.
    # The effect of the size itself shows in interleaved runs.
    lean, longest = some["pg_lean"], keys["pg_lean"]
    for chunk in chunks:
        turns = 4 if chunk >= MB else 20
        lean.new()
        lean.grow(lean.keys, MB)

        def measure(key: int, chunk: int = chunk, turns: int = turns):
            return lambda: {"us": Estimate.of(us for us, _ in lean.each(key, chunk, turns)).median}

        bench.interleave(
            {human_bytes(MB): measure(lean.keys), human_bytes(sizes[-1]): measure(longest)},
            bench.iterations(full=11, quick=3),
            case=f"{chunk} in turns",
            text=f"appends of {human_bytes(chunk)} to values of either size, in turns",
        )
    close(some)

    def cell(metric: str, name: str, chunk: int, size: int) -> Estimate:
        return bench.estimate(metric, name, f"{chunk} to {size}")

    blocks: list = [Table(f"{title} of an append", ["appended", "method", *(f"to {human_bytes(size)}" for size in sizes)],
                          [[human_bytes(chunk), name, *(cell(metric, name, chunk, size) for size in sizes)] for chunk in chunks for name in some])
                    for metric, title in (("us", "Microseconds"), ("wal", "WAL bytes"))]
    blocks.append(Plot(f"Time of an append of {human_bytes(KB)}", "length of the value, MB", "µs",
                       [Series(name, [size / MB for size in sizes], [cell("us", name, KB, size).median for size in sizes]) for name in some],
                       log_x=True, log_y=True))
    flat = {chunk: bench.ratio("us", human_bytes(sizes[-1]), human_bytes(MB), f"{chunk} in turns") for chunk in chunks}
    blocks.append(
        Table(
            "Microseconds of an append of pg_lean to a short and a long value, in turns",
            ["appended", *(f"to {human_bytes(size)}" for size in (MB, sizes[-1])), "ratio"],
            [
                [human_bytes(chunk), *(bench.estimate("us", human_bytes(size), f"{chunk} in turns") for size in (MB, sizes[-1])), flat[chunk]]
                for chunk in chunks
            ],
            note="Of as many appends in a row as above, the median; both in the same table, in the same state of the buffers.",
        )
    )
    return blocks, [
        Check.of(
            f"time of an append to {human_bytes(sizes[-1])} over one to 1 MB, in turns, worst size",
            max(flat.values(), key=lambda ratio: ratio.median),
            "<=",
            1.5,
        )
    ]


def streams(bench: Bench) -> tuple[list, list]:
    """A value grown from nothing by one commit per chunk."""
    ways = METHODS | {method.name: method for method in (NO_APPEND, BATCHES)}
    cases = bench.pick(
        full=(
            (MB, 10, ("pg_lean", "LO", "chunk rows", "blind rows", "no append", BATCHES.name)),
            (100 * MB, 1000, ("pg_lean", "LO", "chunk rows", "blind rows")),
            (100 * MB, 100_000, ("pg_lean", "LO", "chunk rows", "blind rows")),
            (10 * MB, 100_000, tuple(METHODS)),
        ),
        quick=(
            (MB // 16, 10, ("pg_lean", "LO", "chunk rows", "blind rows", "no append", BATCHES.name)),
            (5 * MB, 1000, ("pg_lean", "LO", "chunk rows", "blind rows")),
            (10 * MB, 100_000, ("pg_lean", "LO", "chunk rows", "blind rows")),
            (2 * MB, 100_000, tuple(METHODS)),
        ),
    )
    repetitions = bench.iterations(full=3, quick=2)
    rows, pages = [], []
    for total, chunk, names in cases:
        some = stores(bench, f"stream_{total}_{chunk}_", *(ways[name] for name in names))
        case = f"{human_bytes(total)} by {chunk:,} bytes"

        def variant(store: Store):
            def measure():
                key = store.new()
                pieces = store.method.pieces
                times = total // chunk // pieces * pieces
                ms = store.many(key, chunk, times // pieces)
                assert store.length(key) == times * chunk
                return {"ms": ms, "mb_per_s": times * chunk / ms * 1000 / MB}
            return measure

        bench.interleave({name: variant(store) for name, store in some.items()}, repetitions, case=case, warmup=0, text=case)
        lean = some["pg_lean"]
        updates, hot = lean.updates()
        pages.append((case, lean.main_size(), updates, hot))
        rows.append([case, *(bench.estimate("mb_per_s", name, case) if name in some else None for name in ways)])
        close(some)
    labels = [row[0] for row in rows]
    checks = [
        Check.of(f"time of large objects over pg_lean's, {labels[0]}", bench.ratio("ms", "LO", "pg_lean", labels[0]), ">=", 1.5),
        Check.of(f"pg_lean, {labels[1]}", bench.estimate("mb_per_s", "pg_lean", labels[1]), ">=", 20, "MB/s"),
        Check.of(f"time of chunk rows over pg_lean's, {labels[1]}", bench.ratio("ms", "chunk rows", "pg_lean", labels[1]), ">=", 1.3),
        Check.of(f"time of chunk rows over pg_lean's, {labels[2]}", bench.ratio("ms", "chunk rows", "pg_lean", labels[2]), ">=", 1.3),
        Check("share of HOT updates in the streams", min(hot / max(updates, 1) for _, _, updates, hot in pages), ">=", 1.0),
        Check("pages of the main table after the streams, most", max(size for _, size, _, _ in pages) / 8192, "<=", 1),
    ]
    floor = bench.ratio("ms", "LO", "no append", labels[0]).median
    return [Table("A value grown from nothing, MB/s", ["stream", *ways], rows,
                  note=f"no append: an UPDATE of a number in a separate row, counted as if it had appended. Large objects take {floor:.2f} times as long "
                       f"in the stream of {labels[0]}: nothing that updates a row by a statement can do much better. "
                       f"{BATCHES.name}: `appendable_append()`, which is given 100 chunks in a statement and a transaction."),
            Table("The main table of pg_lean after the streams", ["stream", "bytes", "updates", "HOT"], pages)], checks


def reading(bench: Bench, size: int) -> tuple[list, list]:
    """INSERT of a whole value, reading it, and slices of it."""
    some = stores(bench, "read_", PG_LEAN, STOCK, LARGE_OBJECT, CHUNK_ROWS)
    make_source(some["stock"].conn, size)
    repetitions = bench.iterations(full=7, quick=3)
    keys: dict[str, int] = {}

    def insert(store: Store):
        def timed():
            keys[store.name], ms = store.insert()
            return {"ms": ms}
        timed = with_processor_time(store.conn, timed)

        def measure():
            clean_buffers(store.conn)
            return timed()
        return measure

    # most of its time is the kernel's, in which any of them takes twice as long now and then: in a virtual machine memory that was free may have to come from
    # the host again, and the disk writes out what earlier ones made.  So many are needed for a median.
    bench.interleave({name: insert(store) for name, store in some.items()}, bench.iterations(full=75, quick=3), case="insert",
                     text=f"INSERT of {human_bytes(size)}")
    for store in some.values():
        store.conn.execute(f"VACUUM {store.table}")
    bench.interleave(
        {name: with_processor_time(store.conn, lambda store=store: {"ms": store.read_ms(keys[store.name])}) for name, store in some.items()},
        repetitions,
        case="read",
        text=f"reading {human_bytes(size)}",
    )
    bench.interleave(
        {name: with_processor_time(store.conn, lambda store=store: {"ms": store.slices_ms(keys[store.name], 2000)}) for name, store in some.items()},
        repetitions,
        case="slices",
        text="slices of 4 kB",
    )
    cases = {"insert": f"INSERT of {human_bytes(size)}", "read": f"reading {human_bytes(size)}", "slices": "2,000 slices of 4 kB"}
    found = {case: compared(bench, "pg_lean", "stock", case) for case in cases}
    table = Table("Milliseconds", ["", *some, "pg_lean / stock", "processor time"],
                  [[title, *(bench.estimate("ms", name, case) for name in some), bench.ratio("ms", "pg_lean", "stock", case), found[case][1]]
                   for case, title in cases.items()], note="processor time: of the session's process, pg_lean over stock.")
    close(some)
    return [table], [not_slower(f"{found[case][0]} of {title}, pg_lean over stock", found[case][1], MARGIN) for case, title in cases.items()]


def ended(store: Store, statement: str) -> dict[str, float]:
    """Milliseconds and bytes of WAL of a statement on the store's table ({t})."""
    plan = store.conn.execute("EXPLAIN (ANALYZE, WAL, TIMING OFF, FORMAT JSON) " + statement.format(t=store.table)).fetchone()[0][0]
    return {"ms": plan["Execution Time"], "wal": plan["Plan"]["WAL Bytes"]}


def ending(bench: Bench) -> tuple[list, list]:
    """DELETE of values, and UPDATEs that put others in their place: the chunks end with their row, as TOAST's do."""
    total = bench.pick(full=50 * MB, quick=10 * MB)
    sizes = (10 * KB, MB)
    statements = {"DELETE": "DELETE FROM {t}", "replacement": "UPDATE {t} SET data = (SELECT data FROM other)"}
    some = stores(bench, "end_", PG_LEAN, STOCK)
    rows = []
    found: dict[str, tuple[str, Estimate]] = {}
    for size in sizes:
        conn = some["stock"].conn
        make_source(conn, size)
        conn.execute("DROP TABLE IF EXISTS other")
        conn.execute("CREATE TABLE other AS SELECT decode(md5(random()::text), 'hex') || data AS data FROM src")
        for what, statement in statements.items():
            case = f"{what}, values of {human_bytes(size)}"

            def variant(store: Store, statement: str = statement):
                def measure():
                    clean_buffers(store.conn)
                    store.conn.execute(f"TRUNCATE {store.table}")
                    store.conn.execute(f"INSERT INTO {store.table} SELECT i, data FROM src, generate_series(1, {total // size}) i")
                    return with_processor_time(store.conn, lambda: ended(store, statement))()
                return measure

            bench.interleave(
                {name: variant(store) for name, store in some.items()}, bench.iterations(full=17 if size < MB else 9, quick=5), case=case, text=case
            )
            found[case] = compared(bench, "pg_lean", "stock", case)
            rows.append([case, *(bench.estimate(metric, name, case) for metric in ("ms", "wal") for name in some),
                         bench.ratio("ms", "pg_lean", "stock", case), found[case][1], bench.ratio("wal", "pg_lean", "stock", case)])
    close(some)
    table = Table(f"The end of values, {human_bytes(total)} of them",
                  ["", *(f"{name}, {unit}" for unit in ("ms", "WAL bytes") for name in some), "pg_lean / stock, time", "processor time", "WAL"], rows)
    return [table], [not_slower(f"{what} of {row[0]}, pg_lean over stock", ratio, MARGIN)
                     for row in rows for what, ratio in (found[row[0]], ("WAL", row[-1]))]


def run_log(bench: Bench) -> tuple[list, list]:
    """Many values that grow line by line, each line a transaction, and no vacuum at all: disk by bytes that live."""
    values, lines = bench.pick(full=200, quick=40), 150
    store = Store(bench, PG_LEAN, "log_")
    for _ in range(values):
        store.new()
    store.conn.execute(f"""
        CREATE PROCEDURE {store.table}_lines() LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM setseed(0.5);
            FOR line IN 1 .. {lines} LOOP
                FOR key IN 1 .. {values} LOOP
                    UPDATE {store.table} SET data = data || decode(repeat('5a', (200 + random() * 1800)::int), 'hex') WHERE id = key;
                    COMMIT;
                END LOOP;
            END LOOP;
        END $$""")
    with bench.activity(f"{values * lines} lines of 200 to 2,000 bytes"):
        store.conn.execute(f"CALL {store.table}_lines()")
    live, disk = store.conn.execute(f"SELECT sum(length(data)), appendable_bytea_total_size('{store.table}') FROM {store.table}").fetchone()
    ratio = float(disk) / float(live)
    bench.raw.add(store.name, 0, "run log", disk=disk, live=int(live))
    store.close()
    return [Table("A run log without vacuum", ["values", "lines", "bytes", "bytes on disk", "ratio"], [[values, values * lines, int(live), disk, ratio]],
                  note="Table, index, chunk store and its index, by one session.")], \
           [Check("disk by live bytes of a run log", ratio, "<=", 1.20)]


def decoding(bench: Bench) -> tuple[list, list]:
    """The time of logical decoding of appended and inserted values, on a private server: pgoutput sends the same bytes for both."""
    times = bench.pick(full=500, quick=100)
    try:
        cluster = bench.cluster(preload=PRELOAD, settings=SETTINGS | {"wal_level": "logical", "logical_decoding_work_mem": "1GB", "work_mem": "1GB"})
    except Exception as reason:  # a server of the user's
        return [Note(f"Logical decoding was not measured: {reason}.")], []
    rows = []
    with cluster, ExitStack() as stack:
        inner = Bench(bench.name, cluster, bench.options, bench.console, bench.raw)
        some = stores(inner, "decode_", PG_LEAN, STOCK)
        stack.callback(close, some)
        for store in some.values():
            store.conn.execute(f"CREATE PUBLICATION {store.table} FOR TABLE {store.table}")
        make_source(some["stock"].conn, 10 * KB)
        for case in (f"{times:,} appends of 1,000 bytes to 10 kB", f"{times:,} values of 10 kB"):
            # a slot goes over all WAL, so each is read up to where its own method ends
            until: dict[str, str] = {}
            for store in some.values():
                store.conn.execute(f"TRUNCATE {store.table}")
                store.conn.execute(f"SELECT pg_create_logical_replication_slot('{store.table}', 'pgoutput')")
                if "appends" in case:
                    store.many(store.insert()[0], 1000, times)
                else:
                    for _ in range(times):
                        store.insert()
                until[store.name] = store.conn.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]

            def variant(store: Store, end: str):
                def measure():
                    plan = store.conn.execute(
                        f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT count(*) FROM pg_logical_slot_peek_binary_changes('{store.table}', "
                        f"'{end}', NULL, 'proto_version', '1', 'publication_names', '{store.table}')"
                    ).fetchone()[0][0]
                    return plan["Execution Time"]
                return measure

            inner.interleave(
                {name: variant(store, until[name]) for name, store in some.items()},
                bench.iterations(full=11, quick=5),
                case=f"decode {case}",
                text=f"decoding {case}",
            )
            rows.append([case, *(inner.estimate("ms", name, f"decode {case}") for name in some), inner.ratio("ms", "pg_lean", "stock", f"decode {case}")])
            for store in some.values():
                store.conn.execute(f"SELECT pg_drop_replication_slot('{store.table}')")
    return [Table("Logical decoding, ms", ["", *some, "pg_lean / stock"], rows,
                  note="pgoutput by the server's SQL function; a transaction each. Chunks are read from the store, where stock reads them from the WAL.")], []


def memory(bench: Bench) -> tuple[list, list]:
    """Most memory of a session that has just begun, for one operation on a big value."""
    size = bench.pick(full=GB, quick=64 * MB)
    stock_size = min(size, 400 * MB)
    try:
        cluster = bench.cluster(preload=PRELOAD, settings=SETTINGS | {"shared_buffers": "4MB"})
    except Exception as reason:  # a server of the user's: its shared buffers would be counted
        return [Note(f"Memory was not measured: {reason}.")], []
    with cluster:
        inner = Bench(bench.name, cluster, bench.options, bench.console, bench.raw)
        lean, stock = Store(inner, PG_LEAN, "memory_"), Store(inner, STOCK, "memory_")
        with bench.activity(f"values of {human_bytes(size)} and {human_bytes(stock_size)}"):
            lean_key = lean.new()
            lean.grow(lean_key, size)
            make_source(stock.conn, stock_size)
            stock_key, _ = stock.insert()
        operations = {
            "append of 1 byte": "UPDATE {t} SET data = data || '\\x00'::bytea WHERE id = {key}",
            "slice of 4 kB": "SELECT substr(data, 50000001, 4096) FROM {t} WHERE id = {key}",
            "sha256": "SELECT sha256(data) FROM {t} WHERE id = {key}",
            "comparison": "SELECT data < data || '\\x00'::bytea FROM {t} WHERE id = {key}",
            "check": "SELECT * FROM appendable_bytea_check('{t}')",
        }
        rows = []
        for what, query in operations.items():
            row = [what]
            for store, key, length in ((lean, lean_key, size), (stock, stock_key, stock_size)):
                if what == "check" and store is stock:
                    row.append(None)
                    continue
                with cluster.connect() as conn:
                    conn.execute("SELECT 1")
                    pid = conn.info.backend_pid
                    reset_memory_peak(pid)
                    before = memory_peak(pid)
                    conn.execute(query.format(t=store.table, key=key)).close()
                    used = (memory_peak(pid) or 0) - (before or 0)
                bench.raw.add(store.name, 0, f"memory: {what}", memory_bytes=used, size=length)
                row.append(used / MB)
            rows.append(row)
        for store in (lean, stock):
            store.close()
    most = max(row[1] for row in rows)
    return [Table("Most memory of a new session, MB", ["operation", f"pg_lean, {human_bytes(size)}", f"stock, {human_bytes(stock_size)}"], rows,
                  note="Growth of the process's peak resident memory (VmHWM), with 4 MB of shared buffers, which are counted where they are touched.")], \
           [Check("most memory of an operation on the big value, shared buffers included", most, "<=", 8, "MB")]


def untouched(bench: Bench) -> tuple[list, list]:
    """A table without the type, on two new servers: one with the library and the extension, one without."""
    rounds = bench.pick(full=40_000, quick=3_000)
    try:
        servers = {"with the library": bench.cluster(preload=PRELOAD, settings=SETTINGS, name="lab-with"),
                   "without": bench.cluster(settings=SETTINGS, name="lab-without")}
    except Exception as reason:
        return [Note(f"Tables without the type were not measured: {reason}.")], []
    setup = """
        CREATE TABLE plain_rows (id int PRIMARY KEY, n int, filler text) WITH (fillfactor = 80, autovacuum_enabled = off);
        INSERT INTO plain_rows SELECT i, 0, repeat('x', 80) FROM generate_series(1, 1000) i;
        CREATE PROCEDURE plain_updates(times int, INOUT ms float8) LANGUAGE plpgsql AS $$
        DECLARE started timestamptz := clock_timestamp();
        BEGIN
            FOR i IN 1 .. times LOOP UPDATE plain_rows SET n = n + 1 WHERE id = i % 1000 + 1; COMMIT; END LOOP;
            ms := extract(epoch FROM clock_timestamp() - started) * 1000;
        END $$"""
    with ExitStack() as stack:
        conns = {}
        for name, server in servers.items():
            stack.enter_context(server)
            conns[name] = stack.enter_context(server.connect(synchronous_commit=False))
            for statement in setup.split(";\n        C"):
                conns[name].execute(statement if statement.strip().startswith("C") else "C" + statement)
        bench.interleave(
            {
                name: with_processor_time(conn, lambda conn=conn: {"ms": conn.execute(f"CALL plain_updates({rounds}, 0)").fetchone()[0]})
                for name, conn in conns.items()
            },
            bench.iterations(full=15, quick=5),
            case="plain table",
            text="a table without the type",
        )
    what, ratio = compared(bench, "with the library", "without", "plain table")
    return [Table(f"{rounds:,} updates of a table without the type, ms", ["", "time", "processor time"],
                  [[name, *(bench.estimate(metric, name, "plain table") for metric in ("ms", "cpu_ms"))] for name in conns]
                  + [["ratio", bench.ratio("ms", "with the library", "without", "plain table"), ratio]])], \
           [not_slower(f"{what} of updates of a table without the type, with the library over without", ratio, MARGIN)]
