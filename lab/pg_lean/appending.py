"""Four ways to keep a growing value in a table, behind the same few operations.

  pg_lean     a column of type appendable_bytea: UPDATE .. SET data = data || chunk
  stock       a column of type bytea, STORAGE EXTERNAL, the same UPDATE
  LO          a large object, lo_put() at its end
  chunk rows  a table of chunks written by hand: one INSERT for each append, which
              looks up where the value ends, as `data || chunk` does
  blind rows  the same where the application knows where the value ends
  no append   an UPDATE of a number in a row without any value: what a statement
              that updates a row takes in any case
  100 a call  pg_lean by appendable_append(), which is given 100 chunks at once

Appends run in the server, in a procedure that commits after each one, so that
neither the client's round trip nor a long transaction is part of the figures.
`many` appends the same chunk over and over and tells the time of the whole;
`each` tells time and WAL of every single append.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

import psycopg

from pg_lean.bench import Bench
from pg_lean.names import extension_schema


@dataclass(frozen=True)
class Method:
    """SQL of one way.  key and chunk are the procedure's arguments, done the bytes that are there, n the append's number."""

    name: str
    setup: str
    empty: str          # make an empty value with this key
    append: str
    length: str
    read: str           # length of the whole value, put together in the server
    slices: str         # summed lengths of slices of 4096 bytes at the offsets of o(off)
    insert: str         # a whole value taken from src(data)
    declare: str = ""   # what `append` uses
    pieces: int = 1     # chunks that it appends


PG_LEAN = Method(
    "pg_lean",
    "CREATE TABLE {t} (id int PRIMARY KEY, data {ext}.appendable_bytea) WITH (fillfactor = 80, autovacuum_enabled = off)",
    "INSERT INTO {t} VALUES (key, '')",
    "UPDATE {t} SET data = data || chunk WHERE id = key",
    "SELECT octet_length(data) FROM {t} WHERE id = key",
    "SELECT length(substr(data, 1)) FROM {t} WHERE id = {key}",
    "SELECT sum(length({ext}.appendable_substr(data, off::int8 + 1, 4096::int8))) FROM {t}, o WHERE id = {key}",
    "INSERT INTO {t} SELECT key, data FROM src")

STOCK = Method(
    "stock",
    "CREATE TABLE {t} (id int PRIMARY KEY, data bytea) WITH (fillfactor = 80, autovacuum_enabled = off);"
    " ALTER TABLE {t} ALTER data SET STORAGE EXTERNAL",
    "INSERT INTO {t} VALUES (key, '')",
    "UPDATE {t} SET data = data || chunk WHERE id = key",
    "SELECT octet_length(data) FROM {t} WHERE id = key",
    "SELECT length(substr(data, 1)) FROM {t} WHERE id = {key}",
    "SELECT sum(length(substr(data, off::int + 1, 4096))) FROM {t}, o WHERE id = {key}",
    "INSERT INTO {t} SELECT key, data FROM src")

LARGE_OBJECT = Method(
    "LO",
    "CREATE TABLE {t} (id int PRIMARY KEY, lo oid) WITH (autovacuum_enabled = off)",
    "INSERT INTO {t} VALUES (key, lo_create(0))",
    "PERFORM lo_put(lo, done, chunk) FROM {t} WHERE id = key",
    "SELECT length(lo_get(lo)) FROM {t} WHERE id = key",
    "SELECT length(lo_get(lo)) FROM {t} WHERE id = {key}",
    "SELECT sum(length(lo_get(lo, off, 4096))) FROM {t}, o WHERE id = {key}",
    "INSERT INTO {t} SELECT key, lo_from_bytea(0, data) FROM src")

_CHUNKS = dict(
    setup="CREATE TABLE {t} (id int, start bigint, data bytea, PRIMARY KEY (id, start)) WITH (autovacuum_enabled = off);"
          " ALTER TABLE {t} ALTER data SET STORAGE EXTERNAL",
    empty="NULL",
    length="SELECT coalesce(max(start + length(data)), 0) FROM {t} WHERE id = key",
    read="SELECT length(string_agg(data, '' ORDER BY start)) FROM {t} WHERE id = {key}",
    slices="SELECT sum(length((SELECT substr(string_agg(data, '' ORDER BY start), (off - min(start))::int + 1, 4096) FROM {t}"
           " WHERE id = {key} AND start < off + 4096"
           " AND start >= (SELECT max(start) FROM {t} WHERE id = {key} AND start <= off)))) FROM o",
    insert="INSERT INTO {t} SELECT key, p * 8000::bigint, substr(data, p * 8000 + 1, 8000)"
           " FROM src, generate_series(0, (length(data) - 1) / 8000) p")

CHUNK_ROWS = Method(
    "chunk rows", append="INSERT INTO {t} SELECT key, coalesce((SELECT start + length(data) FROM {t} WHERE id = key"
                         " ORDER BY start DESC LIMIT 1), 0), chunk", **_CHUNKS)

BLIND_ROWS = Method("blind rows", append="INSERT INTO {t} VALUES (key, done, chunk)", **_CHUNKS)

METHODS = {method.name: method for method in (PG_LEAN, STOCK, LARGE_OBJECT, CHUNK_ROWS, BLIND_ROWS)}

# for comparison, so they are not among them: chunks gathered, and no value at all
BATCHES = replace(PG_LEAN, name="pg_lean, 100 a call", append="PERFORM {ext}.appendable_append('{t}', keys, chunks)", pieces=100,
                  declare="keys int[] := array_fill(key, ARRAY[100]); chunks bytea[] := array_fill(chunk, ARRAY[100]);")

NO_APPEND = Method(
    "no append",
    "CREATE TABLE {t} (id int PRIMARY KEY, len bigint) WITH (fillfactor = 80, autovacuum_enabled = off)",
    "INSERT INTO {t} VALUES (key, 0)",
    "UPDATE {t} SET len = len + length(chunk) WHERE id = key",
    "SELECT len FROM {t} WHERE id = key",
    read="NULL", slices="NULL", insert="NULL")

PROCEDURES = """
CREATE PROCEDURE {p}_many(key int, chunk bytea, times int, INOUT done bigint, INOUT ms float8) LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz := clock_timestamp();
    {declare}
BEGIN
    FOR n IN 1 .. times LOOP
        {append};
        COMMIT;
        done := done + {pieces} * length(chunk);
    END LOOP;
    ms := extract(epoch FROM clock_timestamp() - started) * 1000;
END $$;
CREATE PROCEDURE {p}_each(key int, chunk bytea, times int, INOUT done bigint, INOUT us float8[], INOUT wal bigint[]) LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz;
    lsn pg_lsn;
    {declare}
BEGIN
    FOR n IN 1 .. times LOOP
        lsn := pg_current_wal_insert_lsn();
        started := clock_timestamp();
        {append};
        COMMIT;
        us := us || extract(epoch FROM clock_timestamp() - started)::float8 * 1000000;
        wal := wal || (pg_current_wal_insert_lsn() - lsn)::bigint;
        done := done + {pieces} * length(chunk);
    END LOOP;
END $$;
CREATE PROCEDURE {p}_empty(key int) LANGUAGE plpgsql AS $$ BEGIN {empty}; END $$;
CREATE PROCEDURE {p}_insert(key int, INOUT ms float8) LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz := clock_timestamp();
BEGIN
    {insert};
    COMMIT;
    ms := extract(epoch FROM clock_timestamp() - started) * 1000;
END $$;
"""


class Store:
    """The tables and procedures of one method in the lab's own schema, and a session that uses them."""

    def __init__(self, bench: Bench, method: Method, label: str = "", **settings: object):
        self.method = method
        self.name = method.name
        self.table = re.sub(r"\W+", "_", (label + method.name).lower())
        self.bench = bench
        self.settings = {"synchronous_commit": False, **settings}
        self.conn = bench.connect(**self.settings)
        self.keys = 0
        self.lengths: dict[int, int] = {}
        #: Schema of the extension; empty where no way needs it.
        self.ext = extension_schema(self.conn, "appendable_bytea") or ""
        for statement in method.setup.format(t=self.table, ext=self.ext).split(";"):
            self.conn.execute(statement)
        fields = {name: getattr(method, name).format(t=self.table, ext=self.ext) for name in ("append", "empty", "insert")}
        self.conn.execute(PROCEDURES.format(p=self.table, declare=method.declare, pieces=method.pieces, **fields).encode())

    def close(self) -> None:
        self.conn.close()

    def new(self) -> int:
        """An empty value; its key."""
        self.keys += 1
        self.conn.execute(f"CALL {self.table}_empty({self.keys})")
        self.lengths[self.keys] = 0
        return self.keys

    def insert(self) -> tuple[int, float]:
        """A new value from src in one statement: its key and the milliseconds."""
        self.keys += 1
        ms = self.conn.execute(f"CALL {self.table}_insert({self.keys}, 0)").fetchone()[0]
        self.lengths[self.keys] = self.conn.execute("SELECT length(data) FROM src").fetchone()[0]
        return self.keys, ms

    def many(self, key: int, size: int, times: int) -> float:
        """Make the append times times, of chunks of size bytes, each in a separate transaction: milliseconds."""
        done, ms = self._call("many", "0", key, size, times)
        self.lengths[key] = done
        return ms

    def each(self, key: int, size: int, times: int) -> list[tuple[float, int]]:
        """The same: microseconds and bytes of WAL of every append."""
        done, us, wal = self._call("each", "'{}', '{}'", key, size, times)
        self.lengths[key] = done
        return list(zip(us, wal))

    def _call(self, kind: str, out: str, key: int, size: int, times: int) -> tuple:
        query = f"CALL {self.table}_{kind}({key}, %b::bytea, {times}, {self.lengths[key]}, {out})"
        return self.conn.execute(query, (os.urandom(size),), prepare=False).fetchone()

    def grow(self, key: int, length: int) -> None:
        """Bring a value to a length, quickly."""
        missing = length - self.lengths[key]
        step = 1 << 20
        if missing >= step:
            self.many(key, step, missing // step)
        if length > self.lengths[key]:
            self.many(key, length - self.lengths[key], 1)

    def length(self, key: int) -> int:
        """The value's length according to the database, to be compared with the bytes written."""
        query = self.method.length.format(t=self.table).replace("id = key", f"id = {key}")
        return self.conn.execute(query).fetchone()[0]

    def read_ms(self, key: int) -> float:
        """Milliseconds that the server needs to put the whole value together."""
        return self._execution(self.method.read.format(t=self.table, key=key))

    def slices_ms(self, key: int, count: int) -> float:
        """Milliseconds for count slices of 4 kB at places that are the same for every method."""
        last = self.lengths[key] - 4096
        return self._execution(f"WITH o AS MATERIALIZED (SELECT (n * 7919::bigint * 4099) % {last} AS off FROM generate_series(1, {count}) n) "
                               + self.method.slices.format(t=self.table, key=key, ext=self.ext))

    def _execution(self, query: str) -> float:
        plan = self.conn.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query}").fetchone()[0][0]
        return float(plan["Execution Time"])

    def main_size(self) -> int:
        """Bytes of the table itself, without indexes, TOAST and chunks."""
        return self.conn.execute("SELECT pg_relation_size(%s::regclass)", (self.table,)).fetchone()[0]

    def updates(self) -> tuple[int, int]:
        """Updates of the table so far, and how many of them were HOT."""
        self.conn.execute("SELECT pg_stat_force_next_flush()")
        return self.conn.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = %s::regclass",
                                 (self.table,)).fetchone()

    def drop_values(self) -> None:
        """Give the space back between cases."""
        if self.method is LARGE_OBJECT:
            self.conn.execute(f"SELECT count(lo_unlink(lo)) FROM {self.table}")
            self.conn.execute("VACUUM pg_largeobject")
        self.conn.execute(f"TRUNCATE {self.table}")
        self.lengths.clear()


def make_source(conn: psycopg.Connection, length: int) -> None:
    """Table src with one random value that INSERTs take; what reads it costs the same for every method."""
    schema = conn.execute("SELECT current_schema()").fetchone()[0]  # the lab's own: never a table of the user's
    conn.execute(f"DROP TABLE IF EXISTS {schema}.src")
    conn.execute("CREATE TABLE src (data bytea)")
    conn.execute("ALTER TABLE src ALTER data SET STORAGE EXTERNAL")
    conn.execute("INSERT INTO src VALUES (%b)", (os.urandom(length),))
