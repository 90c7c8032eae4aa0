"""appendable_bytea through a driver, and the methods that the append benchmark compares."""

import os

import pytest

from pg_lean.appending import BATCHES, METHODS, Store, make_source
from pg_lean.bench import Bench
from pg_lean.bench.append import clean_buffers, compared, with_processor_time
from pg_lean.cluster import Cluster


@pytest.fixture(scope="module")
def appendable():
    """A private server with appendable_bytea."""
    cluster = Cluster(name="test", preload=["appendable_bytea"])
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with cluster:
        yield cluster


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_driver_sends_and_receives_bytes(appendable, binary):
    parameter = "%b" if binary else "%t"
    model = b""
    with appendable.connect() as conn:
        conn.execute("CREATE TABLE driver (id int PRIMARY KEY, data appendable_bytea)")
        try:
            conn.execute(f"INSERT INTO driver VALUES (1, {parameter})", (b"",))
            for size in (0, 1, 3, 99, 100, 250, 8112, 8113, 50000, 1):
                chunk = os.urandom(size)
                model += chunk
                # an untyped parameter, one of type bytea, and one of the type itself
                for cast in ("", "::bytea", "::appendable_bytea"):
                    conn.execute(f"UPDATE driver SET data = data || {parameter}{cast} WHERE id = 1", (chunk if cast == "" else b"",), prepare=True)
                cursor = conn.execute("SELECT data, data::bytea, substr(data, 1), length(data) FROM driver", binary=binary)
                value, as_bytea, part, length = cursor.fetchone()
                assert as_bytea == model and part == model and length == len(model)
                assert isinstance(value, bytes) and value == model
        finally:
            conn.execute("DROP TABLE driver")


def test_copy_through_the_driver(appendable):
    values = [os.urandom(size) for size in (0, 1, 500, 8112, 100000)]
    with appendable.connect() as conn:
        conn.execute("CREATE TABLE copied (id int, data appendable_bytea)")
        try:
            for fmt in ("text", "binary"):
                conn.execute("TRUNCATE copied")
                with conn.cursor().copy(f"COPY copied FROM STDIN (FORMAT {fmt})") as copy:
                    copy.set_types(["int4", "bytea"])
                    for number, value in enumerate(values):
                        copy.write_row((number, value))
                with conn.cursor().copy(f"COPY copied TO STDOUT (FORMAT {fmt})") as copy:
                    copy.set_types(["int4", "bytea"])
                    assert sorted(copy.rows()) == list(enumerate(values))
        finally:
            conn.execute("DROP TABLE copied")


def test_chunks_that_are_gathered_are_all_there(appendable):
    store = Store(Bench("test", appendable), BATCHES, "gathered_")
    try:
        key = store.new()
        store.many(key, 10, 3)
        assert store.length(key) == store.lengths[key] == 3000
    finally:
        store.close()


def test_methods_of_the_benchmark_hold_what_they_were_given(appendable):
    bench = Bench("test", appendable)
    with appendable.connect() as conn:
        make_source(conn, 30000)
    for method in METHODS.values():
        store = Store(bench, method, "test_")
        try:
            key = store.new()
            store.many(key, 10, 30)
            assert len(store.each(key, 1000, 5)) == 5
            store.grow(key, 9000)
            inserted, _ms = store.insert()
            assert store.length(key) == 9000 and store.length(inserted) == 30000
            assert store.read_ms(key) > 0 and store.slices_ms(key, 10) > 0
            total = store.conn.execute(method.read.format(t=store.table, key=inserted)).fetchone()[0]
            part = store.conn.execute("WITH o AS (SELECT 12345 AS off) " + method.slices.format(t=store.table, key=inserted, ext=store.ext)).fetchone()[0]
            assert (total, part) == (30000, 4096)
            store.drop_values()
        finally:
            store.close()


def test_processor_time_is_what_tells_methods_apart(appendable):
    with appendable.connect() as conn:
        sample = with_processor_time(conn, lambda: {"ms": float(conn.execute("SELECT count(*) FROM generate_series(1, 300000)").fetchone()[0])})()
        assert sample["ms"] == 300000 and sample["cpu_ms"] > 0
    bench = Bench("test", appendable)
    bench.raw.add("pg_lean", 0, "seen", ms=1.0, cpu_ms=3.0)
    bench.raw.add("stock", 0, "seen", ms=2.0, cpu_ms=2.0)
    bench.raw.add("pg_lean", 0, "not seen", ms=1.0)
    bench.raw.add("stock", 0, "not seen", ms=2.0)
    assert [(name, ratio.median) for name, ratio in (compared(bench, "pg_lean", "stock", case) for case in ("seen", "not seen"))] == [
        ("processor time", 1.5),
        ("time", 0.5),
    ]


def test_no_buffer_is_dirty_when_pages_are_to_be_made(appendable):
    with appendable.connect() as conn:
        if not conn.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_buffercache'").fetchone():
            pytest.skip("pg_buffercache is not installed for this server")
        conn.execute("CREATE EXTENSION pg_buffercache")
        conn.execute("CREATE TABLE dirtied AS SELECT i FROM generate_series(1, 10000) i")
        dirty = "SELECT count(*) FROM pg_buffercache WHERE isdirty AND relfilenode = pg_relation_filenode('dirtied')"
        try:
            assert conn.execute(dirty).fetchone()[0] > 0
            clean_buffers(conn)
            assert conn.execute(dirty).fetchone()[0] == 0
        finally:
            conn.execute("DROP TABLE dirtied")
            conn.execute("DROP EXTENSION pg_buffercache")
