#!/usr/bin/env python3
"""Stress of appendable_bytea against a model that is kept outside the server.

Writers change rows in every way that the type allows, by UPDATE, INSERT ... ON
CONFLICT and MERGE, and by way of a second table, in transactions that commit,
roll back, use savepoints or are prepared; each knows what its rows must hold.  At
the same time other sessions vacuum the chunk store and the table, compact its values,
rewrite it, rebuild the indexes that chunks and stores are found by, make and drop
tables, and read with old snapshots.  One row is shared: every writer appends its own tagged records,
and none may be lost.  At the end every value is compared byte by byte and
appendable_bytea_check() must find nothing.

    stress.py --host DIR --port N [--seconds S] [--writers N] [--rows N] [--seed N]
              [--chunk-size N] [--quiet-rewrites] [--crash] [--standby DIR:PORT] [--text] [--differences]

--crash kills a server process with SIGKILL every few seconds (run it as the server's
user): a transaction whose COMMIT was under way must be there wholly or not at all.
--standby also reads a streaming replica and compares it at the end.  --text does
all of it with appendable_text, in characters of one to four bytes (the database must
be in UTF8).  --differences replaces whole values, of which the difference is stored.

Needs only Python; speaks the protocol's simple query itself (so it is longer than
other files: tests of a bare server have no driver).  Ends with
status 0 only if everything matched.
"""

import argparse
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
import traceback


# the server goes, is gone, or is not there yet
GONE = {"57P01", "57P02", "57P03"}


class ServerError(Exception):
    """An ErrorResponse; .sqlstate is its code."""

    def __init__(self, fields):
        self.sqlstate = fields.get("C", "?????")
        super().__init__(f"{self.sqlstate} {fields.get('M', '')} {fields.get('D', '')}")


class Session:
    """One connection: query(sql) returns rows of str or None.  Raises ConnectionError
    when the server has gone."""

    def __init__(self, host, port, dbname, user):
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(f"{host}/.s.PGSQL.{port}")
        except OSError as e:
            raise ConnectionError(str(e)) from e
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
                if fields.get("C") in GONE:
                    raise ConnectionError(str(error))
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


def when_back(connect):
    """What connect() returns, once a server that recovers from a crash takes connections; ConnectionError after a minute."""
    deadline = time.time() + 60
    while True:
        try:
            return connect()
        except ConnectionError:
            if time.time() > deadline:
                raise
            time.sleep(0.1)


class Bytes:
    """Values of appendable_bytea, as bytes here."""
    ours, plain, hash = "appendable_bytea", "bytea", "sha256"

    @staticmethod
    def random(rng, n):
        return rng.randbytes(n)

    @staticmethod
    def literal(data):
        return f"'\\x{data.hex()}'"

    @staticmethod
    def answered(text):
        """The value that a simple query's answer stands for."""
        return None if text is None else bytes.fromhex(text[2:])

    @staticmethod
    def of_record(record):
        return record.encode()

    @staticmethod
    def records(value):
        return value.decode().split(";")

    @staticmethod
    def overwrite(column, data, offset, length):
        return f"appendable_write({column}, {Bytes.literal(data)}::bytea, {offset}, {length})"

    @staticmethod
    def truncate(column, length):
        return f"appendable_truncate({column}, {length})"


class Text:
    """Values of appendable_text, as str here."""
    ours, plain, hash = "appendable_text", "text", "md5"
    CHARACTERS = "ab \n\\'%_äßж中€𝄞"

    @staticmethod
    def random(rng, n):
        return "".join(rng.choices(Text.CHARACTERS, k=n))

    @staticmethod
    def literal(data):
        return "'" + data.replace("'", "''") + "'"

    @staticmethod
    def answered(text):
        return text

    @staticmethod
    def of_record(record):
        return record

    @staticmethod
    def records(value):
        return value.split(";")

    @staticmethod
    def overwrite(column, data, offset, length):
        return f"overlay({column} PLACING {Text.literal(data)} FROM {offset + 1} FOR {length})"

    @staticmethod
    def truncate(column, length):
        return f"left({column}, {length})"


KINDS = {"bytea": Bytes, "text": Text}


# what concurrency may rightly answer: serialization failure, deadlock, lock timeout,
# an index or table that is being replaced
EXPECTED = {"40001", "40P01", "55P03", "57014"}


class Work:
    """What a transaction does: its rows, its records in the shared row, its outcome."""

    def __init__(self, model):
        self.draft = dict(model)
        self.shared = 0
        self.outcome = "open"


class Stress:
    def __init__(self, args):
        self.args = args
        self.kind = KINDS["text" if args.text else "bytea"]
        self.stop = time.time() + args.seconds
        self.failures = []
        self.counts = {}
        self.lock = threading.Lock()
        self.crashes_over = threading.Event()

    def session(self):
        """A new connection; waits for a server that recovers from a crash."""
        return when_back(self.connect)

    def connect(self):
        session = Session(self.args.host, self.args.port, self.args.dbname, self.args.user)
        session.query("SET client_min_messages = error")
        if self.args.chunk_size:
            session.query(f"SET appendable_bytea.chunk_size = {self.args.chunk_size}")
        if self.args.differences:
            session.query("SET appendable_bytea.store_differences = on; SET appendable_bytea.inline_max = 200")
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
        unit, kind_of = self.args.chunk_size or 8104, self.kind
        literal, plain = kind_of.literal, kind_of.plain
        size = rng.choice([1, 10, 60, 150, 250, unit // 2, unit, unit + 7, 3 * unit + 11, 9 * unit + 5])
        data = kind_of.random(rng, rng.randint(0, size))
        kind = rng.random()
        if value is None or kind < 0.05:
            return f"{literal(data)}::{kind_of.ours}", data
        if kind < 0.60:
            return f"data || {literal(data)}::{plain}", value + data
        if kind < 0.63:
            return f"{literal(data)}::{plain} || data", data + value
        n = len(value)
        if self.args.differences and kind < 0.90:
            # a whole new value, most of which is the old one
            for _ in range(rng.randint(1, 3)):
                offset = rng.choice([0, n, rng.randint(0, n)])
                length = rng.choice([0, 1, rng.randint(0, 40), rng.randint(0, n)])
                value = value[:offset] + data + value[offset + length:]
                data, n = kind_of.random(rng, rng.randint(0, 30)), len(value)
            return f"{literal(value)}::{kind_of.ours}", value
        if kind < 0.80:
            offset = rng.randint(0, n)
            length = rng.choice([len(data), len(data), rng.randint(0, n - offset)])
            length = min(length, n - offset)
            return kind_of.overwrite("data", data, offset, length), value[:offset] + data + value[offset + length:]
        if kind < 0.90:
            length = rng.choice([0, n, max(n - rng.randint(0, 40), 0), rng.randint(0, n)])
            return kind_of.truncate("data", length), value[:length]
        if kind < 0.95:
            a, b = kind_of.random(rng, rng.randint(0, 30)), kind_of.random(rng, rng.randint(0, 30))
            return f"(data || {literal(a)}::{plain}) || {literal(b)}::{plain}", value + a + b
        return f"(data::{plain} || {literal(data)})::{kind_of.ours}", value + data

    def writer(self, number):
        rng = random.Random(self.args.seed * 1000 + number)
        session = self.session()
        ids = [number * 1000 + i for i in range(self.args.rows)]
        model = {}
        appended = 0
        while time.time() < self.stop:
            work = Work(model)
            mode = rng.choice(["commit", "commit", "commit", "rollback", "autocommit", "prepare"])
            isolation = rng.choice(["read committed", "read committed", "repeatable read", "serializable"])
            try:
                self.transaction(rng, session, ids, work, number, appended, mode, isolation)
                self.count(mode)
                if work.outcome == "committed":
                    model = work.draft
                    appended += work.shared
            except ServerError as e:
                if e.sqlstate not in EXPECTED:
                    raise
                self.count("error " + e.sqlstate)
                session = self.rolled_back(session) or self.session()
            except ConnectionError:
                self.expect_crash()
                session, model, appended = self.after_crash(ids, work, model, appended, number)
            try:
                if rng.random() < 0.1 and model:
                    self.compare(session, rng.choice(list(model)), model)
            except ServerError as e:
                # a reader may be the one of a deadlock with two kinds of maintenance
                if e.sqlstate != "40P01":
                    raise
                self.count("error " + e.sqlstate)
            except ConnectionError:
                self.expect_crash()
                session = self.session()
        self.crashes_over.wait()
        session = self.session()
        for i in ids:
            self.compare(session, i, model)
        if self.records(session, number) != list(range(appended)):
            self.fail(f"writer {number} appended {appended} records to the shared row and finds {self.records(session, number)[-5:]}")
        session.close()

    def records(self, session, number):
        """The numbers of the records that a writer finds in the shared row."""
        shared = self.kind.answered(session.query("SELECT data FROM stress WHERE id = 0")[0][0])
        return [int(record.split(":")[1]) for record in self.kind.records(shared) if record.startswith(f"w{number}:")]

    def transaction(self, rng, session, ids, work, number, appended, mode, isolation):
        """One transaction; work tells what it did, and how far it came."""
        gid = f"w{number}"
        if mode == "autocommit":
            work.outcome = "in doubt"
            self.step(rng, session, ids, work, number, appended, False)
            work.outcome = "committed"
            return
        session.query(f"BEGIN ISOLATION LEVEL {isolation}")
        # before the snapshot: a table rewrite hides rows from older ones
        session.query("LOCK TABLE stress, side IN ROW EXCLUSIVE MODE")
        for _ in range(rng.randint(1, 4)):
            self.step(rng, session, ids, work, number, appended, isolation == "read committed")
            if rng.random() < 0.2:
                kept = dict(work.draft)
                session.query("SAVEPOINT s")
                self.step(rng, session, ids, work, number, appended, False)
                if rng.random() < 0.6:
                    session.query("ROLLBACK TO s")
                    work.draft = kept
                else:
                    session.query("RELEASE s")
        if mode == "rollback":
            session.query("ROLLBACK")
        elif mode == "commit":
            work.outcome = "in doubt"
            session.query("COMMIT")
            work.outcome = "committed"
        else:
            commit = rng.random() < 0.5
            work.outcome = "prepared to commit" if commit else "prepared to roll back"
            session.query(f"PREPARE TRANSACTION '{gid}'")
            if commit:
                work.outcome = "committing prepared"
            session.query(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{gid}'")
            work.outcome = "committed" if commit else "rolled back"

    def after_crash(self, ids, work, model, appended, number):
        """A new session and its view of the data: (session, model, appended).  The server
        may crash again during the call."""
        while True:
            try:
                session = self.session()
                return session, *self.find_outcome(session, ids, work, model, appended, number)
            except ConnectionError:
                pass

    def find_outcome(self, session, ids, work, model, appended, number):
        before, after = (model, appended), (work.draft, appended + work.shared)
        if session.query(f"SELECT gid FROM pg_prepared_xacts WHERE gid = 'w{number}'"):
            commit = work.outcome in ("prepared to commit", "committing prepared")
            work.outcome = "committing prepared" if commit else "rolled back"
            session.query(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED 'w{number}'")
        if work.outcome == "in doubt":
            choices = [before, after]
        elif work.outcome in ("committing prepared", "committed"):
            choices = [after]
        else:
            choices = [before]
        rows = session.query(f"SELECT id, data FROM stress WHERE id = ANY ('{{{','.join(map(str, ids))}}}')")
        found = ({int(i): self.kind.answered(data) for i, data in rows}, len(self.records(session, number)))
        self.count("crashes survived")
        if found not in choices:
            self.fail(f"after a crash, with a transaction that was {work.outcome}, writer {number} finds "
                      f"{[(i, len(d or b'')) for i, d in sorted(found[0].items())]} and {found[1]} records, expected one of "
                      f"{[([(i, len(d or b'')) for i, d in sorted(m.items())], n) for m, n in choices]}")
        return found

    def rolled_back(self, session):
        """The session after ROLLBACK, None if the server is gone."""
        try:
            session.query("ROLLBACK")
            return session
        except ConnectionError:
            self.expect_crash()
            return None

    def expect_crash(self):
        if not self.args.crash:
            raise RuntimeError("the server closed the connection")

    def step(self, rng, session, ids, work, number, appended, may_share):
        """One change; what it makes of the rows is in work before it is sent."""
        draft, ours, plain = work.draft, self.kind.ours, self.kind.plain
        if may_share and rng.random() < 0.3:
            record = self.kind.of_record(f"w{number}:{appended + work.shared}:" + "x" * rng.choice([0, 5, 300]) + ";")
            work.shared += 1
            if rng.random() < 0.3:
                session.query(f"SELECT length FROM appendable_append('stress', ARRAY[0], ARRAY[{self.kind.literal(record)}]::{plain}[])")
            else:
                session.query(f"UPDATE stress SET data = data || {self.kind.literal(record)}::{plain} WHERE id = 0")
            return
        i = rng.choice(ids)
        value = draft.get(i, ...)
        kind = rng.random()
        expression, new = self.change(rng, None if value is ... else value)
        of_t = expression.replace("data", "t.data")
        if value is ...:
            draft[i] = new
            if kind < 0.3:
                session.query(f"MERGE INTO stress t USING (VALUES ({i})) v(id) ON t.id = v.id "
                              f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (v.id, 0, {expression})")
            else:
                session.query(f"INSERT INTO stress VALUES ({i}, 0, {expression})")
        elif kind < 0.08:
            del draft[i]
            session.query(f"DELETE FROM stress WHERE id = {i}")
        elif kind < 0.14:
            session.query(f"UPDATE stress SET other = other + 1 WHERE id = {i}")
        elif kind < 0.20:
            other = rng.choice(list(draft))
            draft[i] = draft[other]
            session.query(f"UPDATE stress SET data = (SELECT data FROM stress WHERE id = {other}) WHERE id = {i}")
        elif kind < 0.24:
            draft[i] = None
            session.query(f"UPDATE stress SET data = NULL WHERE id = {i}")
        elif kind < 0.30:
            draft[i] = new
            session.query(f"INSERT INTO stress AS t VALUES ({i}, 0, '\\x00') ON CONFLICT (id) DO UPDATE SET data = {of_t}")
        elif kind < 0.36:
            draft[i] = new
            session.query(f"MERGE INTO stress t USING (VALUES ({i})) v(id) ON t.id = v.id "
                          f"WHEN MATCHED THEN UPDATE SET data = {of_t} WHEN NOT MATCHED THEN INSERT VALUES (v.id, 0, '\\x00')")
        elif kind < 0.42:
            # out to another table, where it is changed, and back
            draft[i] = new
            session.query(f"INSERT INTO side SELECT id, data FROM stress WHERE id = {i} ON CONFLICT (id) DO UPDATE SET data = excluded.data; "
                          f"UPDATE side SET data = {expression} WHERE id = {i}; "
                          f"UPDATE stress SET data = side.data FROM side WHERE side.id = stress.id AND stress.id = {i}")
        elif kind < 0.48:
            # a value held outside the row must not change with it
            session.query(f"DO $$ DECLARE v {ours}; m text; BEGIN SELECT data INTO v FROM stress WHERE id = {i}; "
                          f"m := md5(v::{plain}); UPDATE stress SET data = data || '\\x0102'::{plain} WHERE id = {i}; "
                          f"UPDATE stress SET data = {self.kind.truncate('data', 'length(data) / 2')} WHERE id = {i}; "
                          f"IF md5(v) IS DISTINCT FROM m THEN RAISE 'a value held in a variable changed'; END IF; "
                          f"UPDATE stress SET data = v WHERE id = {i}; END $$")
        elif kind < 0.56:
            # several pieces for several rows, in any order
            keys = [rng.choice(list(draft)) for _ in range(rng.randint(1, 6))]
            pieces = [self.kind.random(rng, rng.choice([0, 10, 200, 3000])) for _ in keys]
            for key, piece in zip(keys, pieces):
                draft[key] = piece if draft[key] is None else draft[key] + piece
            session.query(f"SELECT count(length) FROM appendable_append('stress', ARRAY{keys}, ARRAY[{', '.join(map(self.kind.literal, pieces))}]::{plain}[])")
        else:
            draft[i] = new
            session.query(f"UPDATE stress SET data = {expression} WHERE id = {i}")

    def compare(self, session, i, model):
        rows = session.query(f"SELECT data FROM stress WHERE id = {i}")
        self.count("compared")
        want = [[model[i]]] if i in model else []
        got = [[self.kind.answered(r[0])] for r in rows]
        if got != want:
            a, b = (got[0][0] if got else None), (want[0][0] if want else None)
            where = next((k for k, (x, y) in enumerate(zip(a or (), b or ())) if x != y), "end")
            self.fail(f"row {i} differs: found {None if a is None else len(a)}, "
                      f"expected {None if b is None else len(b)} bytes or characters, first difference at {where}")

    # ---- everything else -------------------------------------------------

    def repeat(self, statements, pause):
        rng = random.Random(self.args.seed)
        session = None
        while time.time() < self.stop:
            try:
                if session is None:
                    session = self.session()
                    session.query("SET lock_timeout = '3s'")
                session.query(rng.choice(statements))
                self.count("maintenance")
            except ServerError as e:
                if e.sqlstate not in EXPECTED:
                    raise
                self.count("error " + e.sqlstate)
                session = self.rolled_back(session)
            except ConnectionError:
                self.expect_crash()
                session = None
            time.sleep(pause * rng.random())

    def old_reader(self, connect, what):
        """A REPEATABLE READ reader must see the same bytes each time."""
        session = None
        while time.time() < self.stop:
            try:
                if session is None:
                    session = connect()
                session.query("BEGIN ISOLATION LEVEL REPEATABLE READ")
                session.query("LOCK TABLE stress IN ACCESS SHARE MODE")
                first = session.query("SELECT id, md5(data) FROM stress ORDER BY id")
                time.sleep(0.3)
                if session.query(f"SELECT id, md5(data::{self.kind.plain}) FROM stress ORDER BY id") != first:
                    self.fail(f"an {what} saw other bytes")
                self.count(what)
                session.query("ROLLBACK")
            except ServerError as e:
                if e.sqlstate not in EXPECTED:
                    raise
                session = self.rolled_back(session)
            except ConnectionError:
                if what == "old snapshot":
                    self.expect_crash()
                session = None
                time.sleep(0.2)

    def killer(self):
        """Kill a server process every few seconds; the server restarts."""
        rng = random.Random(self.args.seed)
        while time.time() < self.stop - 3:
            time.sleep(2 + 4 * rng.random())
            try:
                session = self.session()
                rows = session.query("SELECT pid FROM pg_stat_activity WHERE backend_type IN ('client backend', 'autovacuum worker') "
                                     "AND pid <> pg_backend_pid()")
                if rows:
                    os.kill(int(rng.choice(rows)[0]), signal.SIGKILL)
                    self.count("crashes")
                    # The postmaster notices a moment later; until then new sessions still come in.
                    noticed = time.time() + 10
                    while time.time() < noticed:
                        session.query("SELECT 1")
                        time.sleep(0.01)
            except (ConnectionError, ProcessLookupError):
                pass
        self.session().close()
        self.crashes_over.set()

    def connect_standby(self):
        host, port = self.args.standby.rsplit(":", 1)
        return Session(host, int(port), self.args.dbname, self.args.user)

    def when_replayed(self, session):
        """Wait until the replica has replayed what the server has now; returns a way to ask it."""
        lsn = session.query("SELECT pg_current_wal_insert_lsn()")[0][0]
        standby = self.connect_standby()
        deadline = time.time() + 60

        def ask(query):
            """What is still being replayed may cancel a query; that is the replica's right."""
            while True:
                try:
                    return standby.query(query)
                except ServerError as error:
                    if error.sqlstate != "40001" or time.time() > deadline:
                        raise

        while ask(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'")[0][0] != "t":
            if time.time() > deadline:
                raise TimeoutError("the replica does not catch up")
            time.sleep(0.1)
        return ask

    def compare_standby(self, session):
        """Once it has replayed everything, the replica holds the same bytes."""
        digest = f"SELECT id, md5(data::{self.kind.plain}) FROM stress ORDER BY id"
        ask = self.when_replayed(session)
        if ask(digest) != session.query(digest):
            self.fail("the replica holds other values")
        for problem in ask("SELECT row_id, problem FROM appendable_bytea_check('stress')"):
            self.fail(f"check on the replica: {problem}")

    def run(self):
        session = self.session()
        session.query("CREATE EXTENSION IF NOT EXISTS appendable_bytea")
        session.query("DROP TABLE IF EXISTS stress, side")
        session.query(f"CREATE TABLE stress (id int PRIMARY KEY, other int, data {self.kind.ours}) WITH (fillfactor = 80)")
        session.query(f"CREATE TABLE side (id int PRIMARY KEY, data {self.kind.ours})")
        session.query("INSERT INTO stress VALUES (0, 0, '')")
        store = session.query("SELECT store FROM appendable_bytea_stats('stress')")[0][0]
        side_store = session.query("SELECT store FROM appendable_bytea_stats('side')")[0][0]
        if self.args.standby:
            self.when_replayed(session)  # its readers look for the tables at once
        session.close()
        threads = [self.run_thread(self.writer, n + 1) for n in range(self.args.writers)]
        threads.append(self.run_thread(self.repeat, [f"VACUUM {store}", f"VACUUM {side_store}"], 0.1))
        threads.append(self.run_thread(self.repeat, ["VACUUM stress", "VACUUM", "ANALYZE stress"], 1))
        threads.append(self.run_thread(self.repeat, ["CALL appendable_compact('stress')", "CALL appendable_compact('side')", "CALL appendable_shrink('stress')",
                                                     "BEGIN; CALL appendable_compact('stress', 'id % 2 = 0'); ROLLBACK",
                                                     "BEGIN; CALL appendable_shrink('stress'); ROLLBACK"], 0.3))
        rewrites = ["VACUUM FULL stress", "CLUSTER stress USING stress_pkey", "REINDEX TABLE stress",
                    "ALTER TABLE stress ALTER other TYPE int8", "ALTER TABLE stress ALTER other TYPE int4",
                    f"BEGIN; TRUNCATE stress, side; INSERT INTO stress VALUES (0, 0, repeat('lost', 16)::{self.kind.ours}); ROLLBACK"]
        # the indexes that chunks and their stores are found by, while both come and go
        reindexes = [f"REINDEX {kind} {name}" for kind in ("TABLE", "TABLE CONCURRENTLY") for name in (store, side_store)]
        tables = ["DROP TABLE IF EXISTS made; CREATE TABLE made AS SELECT * FROM stress", "INSERT INTO made SELECT * FROM stress",
                  "TRUNCATE made", "BEGIN; DROP TABLE made; ROLLBACK", "DELETE FROM made", "SELECT sum(length(data)) FROM made"]
        session = self.session()
        session.query(f"DROP TABLE IF EXISTS made; CREATE TABLE made (id int, other int8, data {self.kind.ours})")
        session.close()
        if not self.args.quiet_rewrites:
            threads.append(self.run_thread(self.repeat, rewrites, 4))
            threads.append(self.run_thread(self.repeat, reindexes, 0.5))
            threads.append(self.run_thread(self.repeat, tables, 0.2))
        threads.append(self.run_thread(self.old_reader, self.session, "old snapshot"))
        if self.args.standby:
            threads.append(self.run_thread(self.old_reader, self.connect_standby, "old snapshot of the replica"))
        if self.args.crash:
            threads.append(self.run_thread(self.killer))
        else:
            self.crashes_over.set()
        for thread in threads:
            thread.join()
        session = self.session()
        for problem in session.query("SELECT table_name, row_id, column_name, problem FROM appendable_bytea_check()"):
            self.failures.append(f"check: {problem}")
        if self.args.standby:
            self.compare_standby(session)
        # every chunk that is there belongs to a value: nothing leaks
        session.query("VACUUM")
        for problem in session.query("SELECT table_name, row_id, column_name, problem FROM appendable_bytea_check()"):
            self.failures.append(f"check after vacuum: {problem}")
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
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--standby")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--differences", action="store_true", help="replace whole values, and store the differences")
    args = parser.parse_args()
    print(f"seed={args.seed}")
    sys.exit(Stress(args).run())


if __name__ == "__main__":
    main()
