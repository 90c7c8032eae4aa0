#!/usr/bin/env python3
"""Stress of appendable_bytea against a model that is kept outside the server.

Writers change rows in every way that the type allows, in transactions that commit,
roll back, use savepoints or are prepared; each knows what its rows must hold.  At
the same time other sessions vacuum the chunk store, the table, rewrite it, and read
with old snapshots.  One row is shared: every writer appends its own tagged records,
and none may be lost.  At the end every value is compared byte by byte and
appendable_bytea_check() must find nothing.

    stress.py --host DIR --port N [--seconds S] [--writers N] [--rows N] [--seed N]
              [--chunk-size N] [--quiet-rewrites]

Needs nothing but Python; speaks the protocol's simple query itself.  Ends with
status 0 only if everything matched.
"""

import argparse
import os
import random
import socket
import struct
import sys
import threading
import time
import traceback


class ServerError(Exception):
    """An ErrorResponse; .sqlstate is its code."""

    def __init__(self, fields):
        self.sqlstate = fields.get("C", "?????")
        super().__init__(f"{self.sqlstate} {fields.get('M', '')} {fields.get('D', '')}")


class Session:
    """One connection: query(sql) returns rows of str or None."""

    def __init__(self, host, port, dbname, user):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(f"{host}/.s.PGSQL.{port}")
        self.buf = b""
        body = struct.pack("!i", 196608)
        for key, value in (("user", user), ("database", dbname)):
            body += key.encode() + b"\0" + value.encode() + b"\0"
        body += b"\0"
        self.sock.sendall(struct.pack("!i", len(body) + 4) + body)
        self._collect()

    def _read(self, n):
        parts = []
        while n > 0:
            data = self.sock.recv(min(n, 1 << 20))
            if not data:
                raise ConnectionError("server closed the connection")
            parts.append(data)
            n -= len(data)
        return b"".join(parts)

    def _collect(self):
        rows, error = [], None
        while True:
            kind, length = struct.unpack("!ci", self._read(5))
            body = self._read(length - 4)
            if kind == b"D":
                (count,) = struct.unpack_from("!h", body)
                at, row = 2, []
                for _ in range(count):
                    (n,) = struct.unpack_from("!i", body, at)
                    at += 4
                    if n < 0:
                        row.append(None)
                    else:
                        row.append(body[at:at + n].decode())
                        at += n
                rows.append(row)
            elif kind == b"E":
                fields = {}
                for part in body.split(b"\0"):
                    if part:
                        fields[chr(part[0])] = part[1:].decode(errors="replace")
                error = ServerError(fields)
            elif kind == b"Z":
                if error:
                    raise error
                return rows

    def query(self, sql):
        data = sql.encode() + b"\0"
        self.sock.sendall(b"Q" + struct.pack("!i", len(data) + 4) + data)
        return self._collect()

    def close(self):
        self.sock.close()


def literal(data):
    return f"'\\x{data.hex()}'"


def to_bytes(text):
    return None if text is None else bytes.fromhex(text[2:])


# what concurrency may rightly answer: serialization failure, deadlock, lock timeout,
# an index or table that is being replaced
EXPECTED = {"40001", "40P01", "55P03", "57014"}


class Stress:
    def __init__(self, args):
        self.args = args
        self.stop = time.time() + args.seconds
        self.failures = []
        self.counts = {}
        self.lock = threading.Lock()

    def session(self):
        session = Session(self.args.host, self.args.port, self.args.dbname, self.args.user)
        session.query("SET client_min_messages = error")
        if self.args.chunk_size:
            session.query(f"SET appendable_bytea.chunk_size = {self.args.chunk_size}")
        return session

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def fail(self, text):
        with self.lock:
            self.failures.append(text)
        self.stop = 0

    def run_thread(self, function, *args):
        def body():
            try:
                function(*args)
            except Exception:
                self.fail(traceback.format_exc())
        thread = threading.Thread(target=body)
        thread.start()
        return thread

    # ---- writers ---------------------------------------------------------

    def change(self, rng, value):
        """(SQL expression over data, new model value)"""
        unit = self.args.chunk_size or 8104
        size = rng.choice([1, 10, 60, 150, 250, unit // 2, unit, unit + 7, 3 * unit + 11])
        data = rng.randbytes(rng.randint(0, size))
        kind = rng.random()
        if value is None or kind < 0.05:
            return f"{literal(data)}::appendable_bytea", data
        if kind < 0.60:
            return f"data || {literal(data)}::bytea", value + data
        if kind < 0.63:
            return f"{literal(data)}::bytea || data", data + value
        n = len(value)
        if kind < 0.80:
            offset = rng.randint(0, n)
            length = rng.choice([len(data), len(data), rng.randint(0, n - offset)])
            length = min(length, n - offset)
            return (f"appendable_write(data, {literal(data)}::bytea, {offset}, {length})",
                    value[:offset] + data + value[offset + length:])
        if kind < 0.90:
            length = rng.choice([0, n, max(n - rng.randint(0, 40), 0), rng.randint(0, n)])
            return f"appendable_truncate(data, {length})", value[:length]
        if kind < 0.95:
            a, b = rng.randbytes(rng.randint(0, 30)), rng.randbytes(rng.randint(0, 30))
            return (f"(data || {literal(a)}::bytea) || {literal(b)}::bytea", value + a + b)
        return f"(data::bytea || {literal(data)})::appendable_bytea", value + data

    def writer(self, number):
        rng = random.Random(self.args.seed * 1000 + number)
        session = self.session()
        ids = [number * 1000 + i for i in range(self.args.rows)]
        model = {}
        appended = 0
        while time.time() < self.stop:
            draft = dict(model)
            shared = 0
            mode = rng.choice(["commit", "commit", "commit", "rollback", "autocommit", "prepare"])
            isolation = rng.choice(["read committed", "read committed", "repeatable read", "serializable"])
            try:
                if mode != "autocommit":
                    session.query(f"BEGIN ISOLATION LEVEL {isolation}")
                    # before the snapshot: a table rewrite hides rows from older ones
                    session.query("LOCK TABLE stress IN ROW EXCLUSIVE MODE")
                for _ in range(1 if mode == "autocommit" else rng.randint(1, 4)):
                    shared += self.step(rng, session, ids, draft, number, appended + shared,
                                        mode != "autocommit" and isolation == "read committed")
                    if mode != "autocommit" and rng.random() < 0.2:
                        kept = dict(draft)
                        session.query("SAVEPOINT s")
                        self.step(rng, session, ids, draft, number, 0, False)
                        if rng.random() < 0.6:
                            session.query("ROLLBACK TO s")
                            draft = kept
                        else:
                            session.query("RELEASE s")
                if mode == "prepare":
                    name = f"w{number}"
                    session.query(f"PREPARE TRANSACTION '{name}'")
                    if rng.random() < 0.5:
                        session.query(f"ROLLBACK PREPARED '{name}'")
                        mode = "rollback"
                    else:
                        session.query(f"COMMIT PREPARED '{name}'")
                elif mode == "rollback":
                    session.query("ROLLBACK")
                elif mode == "commit":
                    session.query("COMMIT")
                self.count(mode)
                if mode != "rollback":
                    model = draft
                    appended += shared
            except ServerError as e:
                if e.sqlstate not in EXPECTED:
                    raise
                self.count("error " + e.sqlstate)
                session.query("ROLLBACK")
            if rng.random() < 0.1 and model:
                self.compare(session, rng.choice(list(model)), model)
        for i in ids:
            self.compare(session, i, model)
        shared = to_bytes(session.query("SELECT data FROM stress WHERE id = 0")[0][0])
        mine = [int(r.split(b":")[1]) for r in shared.split(b";") if r.startswith(b"w%d:" % number)]
        if mine != list(range(appended)):
            self.fail(f"writer {number} appended {appended} records to the shared row and finds {mine[-5:]}")
        session.close()

    def step(self, rng, session, ids, draft, number, sequence, may_share):
        """One change; returns 1 if it appended to the shared row."""
        if may_share and rng.random() < 0.3:
            record = b"w%d:%d:" % (number, sequence) + b"x" * rng.choice([0, 5, 300]) + b";"
            session.query(f"UPDATE stress SET data = data || {literal(record)}::bytea WHERE id = 0")
            return 1
        i = rng.choice(ids)
        value = draft.get(i, ...)
        kind = rng.random()
        if value is ...:
            expression, new = self.change(rng, None)
            session.query(f"INSERT INTO stress VALUES ({i}, 0, {expression})")
            draft[i] = new
        elif kind < 0.08:
            session.query(f"DELETE FROM stress WHERE id = {i}")
            del draft[i]
        elif kind < 0.14:
            session.query(f"UPDATE stress SET other = other + 1 WHERE id = {i}")
        elif kind < 0.20:
            other = rng.choice(list(draft))
            session.query(f"UPDATE stress SET data = (SELECT data FROM stress WHERE id = {other}) WHERE id = {i}")
            draft[i] = draft[other]
        elif kind < 0.24:
            session.query(f"UPDATE stress SET data = NULL WHERE id = {i}")
            draft[i] = None
        elif kind < 0.30:
            expression, new = self.change(rng, value)
            session.query(f"INSERT INTO stress AS t VALUES ({i}, 0, '\\x00') ON CONFLICT (id) DO UPDATE SET data = "
                          + expression.replace("data", "t.data").replace("t.data::", "t.data::"))
            draft[i] = new
        elif kind < 0.34:
            # a value held outside the row must not change with it
            session.query(f"DO $$ DECLARE v appendable_bytea; n int8; BEGIN SELECT data INTO v FROM stress WHERE id = {i}; "
                          f"n := octet_length(v); UPDATE stress SET data = data || '\\x0102'::bytea WHERE id = {i}; "
                          f"IF octet_length(v) <> n OR md5(v) IS NULL THEN NULL; END IF; "
                          f"UPDATE stress SET data = v WHERE id = {i}; END $$")
        else:
            expression, new = self.change(rng, value)
            session.query(f"UPDATE stress SET data = {expression} WHERE id = {i}")
            draft[i] = new
        return 0

    def compare(self, session, i, model):
        rows = session.query(f"SELECT data FROM stress WHERE id = {i}")
        self.count("compared")
        want = [[model[i]]] if i in model else []
        got = [[to_bytes(r[0])] for r in rows]
        if got != want:
            a, b = (got[0][0] if got else None), (want[0][0] if want else None)
            where = next((k for k, (x, y) in enumerate(zip(a or b"", b or b"")) if x != y), "end")
            self.fail(f"row {i} differs: found {None if a is None else len(a)} bytes, "
                      f"expected {None if b is None else len(b)}, first difference at {where}")

    # ---- everything else -------------------------------------------------

    def repeat(self, statements, pause):
        session = self.session()
        session.query("SET lock_timeout = '3s'")
        rng = random.Random(self.args.seed)
        while time.time() < self.stop:
            try:
                session.query(rng.choice(statements))
            except ServerError as e:
                if e.sqlstate not in EXPECTED:
                    raise
                self.count("error " + e.sqlstate)
            self.count("maintenance")
            time.sleep(pause * rng.random())
        session.close()

    def old_reader(self):
        """A REPEATABLE READ reader must see the same bytes again and again."""
        session = self.session()
        while time.time() < self.stop:
            session.query("BEGIN ISOLATION LEVEL REPEATABLE READ")
            try:
                session.query("LOCK TABLE stress IN ACCESS SHARE MODE")
                first = session.query("SELECT id, md5(data) FROM stress ORDER BY id")
                time.sleep(0.3)
                if session.query("SELECT id, md5(data::bytea) FROM stress ORDER BY id") != first:
                    self.fail("an old snapshot saw other bytes")
                self.count("old snapshots")
            except ServerError as e:
                if e.sqlstate not in EXPECTED:
                    raise
            session.query("ROLLBACK")
        session.close()

    def run(self):
        session = self.session()
        session.query("CREATE EXTENSION IF NOT EXISTS appendable_bytea")
        session.query("DROP TABLE IF EXISTS stress")
        session.query("CREATE TABLE stress (id int PRIMARY KEY, other int, data appendable_bytea) WITH (fillfactor = 80)")
        session.query("INSERT INTO stress VALUES (0, 0, '')")
        threads = [self.run_thread(self.writer, n + 1) for n in range(self.args.writers)]
        threads.append(self.run_thread(self.repeat, ["SELECT * FROM appendable_bytea_vacuum('stress')"], 0.1))
        threads.append(self.run_thread(self.repeat, ["VACUUM stress", "VACUUM", "ANALYZE stress"], 1))
        rewrites = ["VACUUM FULL stress", "CLUSTER stress USING stress_pkey", "REINDEX TABLE stress",
                    "ALTER TABLE stress ALTER other TYPE int8", "ALTER TABLE stress ALTER other TYPE int4",
                    "BEGIN; TRUNCATE stress; ROLLBACK"]
        if not self.args.quiet_rewrites:
            threads.append(self.run_thread(self.repeat, rewrites, 4))
        threads.append(self.run_thread(self.old_reader))
        for thread in threads:
            thread.join()
        for problem in session.query("SELECT table_name, row_id, column_name, problem FROM appendable_bytea_check('stress')"):
            self.failures.append(f"check: {problem}")
        session.query("SELECT * FROM appendable_bytea_vacuum('stress')")
        stats = session.query("SELECT chunk_bytes, store_bytes FROM appendable_bytea_stats('stress')")
        print(" ".join(f"{k}={v}" for k, v in sorted(self.counts.items())), f"chunk_bytes={stats[0][0]} store_bytes={stats[0][1]}")
        for failure in self.failures:
            print("FAILED:", failure)
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default=os.environ.get("PGHOST", "/tmp"))
    parser.add_argument("--port", type=int, default=int(os.environ.get("PGPORT", "5432")))
    parser.add_argument("--dbname", default=os.environ.get("PGDATABASE", "postgres"))
    parser.add_argument("--user", default=os.environ.get("PGUSER", "postgres"))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("STRESS_SECONDS", "20")))
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--chunk-size", type=int, default=0)
    parser.add_argument("--quiet-rewrites", action="store_true")
    args = parser.parse_args()
    print(f"seed={args.seed}")
    sys.exit(Stress(args).run())


if __name__ == "__main__":
    main()
