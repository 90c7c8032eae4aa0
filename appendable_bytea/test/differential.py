#!/usr/bin/env python3
"""Random statements on bytea columns and on appendable_bytea columns, side by side.

Two schemas hold the same tables, one with columns of type bytea, the other of type
appendable_bytea; with --text it is text and appendable_text, in characters of one to
four bytes (the database must be in UTF8).  Random statements (changes of every kind, many of several rows and
columns at once, through triggers, generated columns, partitions, cursors, PL/pgSQL
with exceptions, and DDL in transactions with savepoints that are rolled back or not)
run in both, and must give the same rows or the same SQLSTATE.  Between transactions and
in them values are compacted; between them the chunks are vacuumed, tables are rewritten,
and with --crash a server process is killed, so that the server recovers; after each all
values are compared and checked.

    differential.py --host DIR --port N [--seconds S] [--seed N] [--chunk-size N] [--crash] [--text] [--differences]

Ends with status 0 only if nothing differed.  The statements of a failed transaction
are printed, with the seed that makes them again.
"""

import argparse
import os
import random
import signal
import sys
import time

from stress import KINDS, ServerError, Session, when_back

# the objects of both schemas; @T is the type, @P the built-in one, @H a hash of it
SETUP = """
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, d @T, e @T) WITH (fillfactor = 80);
CREATE TABLE g (id int PRIMARY KEY, n int, d @T, c @T GENERATED ALWAYS AS (d || '\\x0a'::@P) STORED);
CREATE TABLE p (id int, part int, d @T) PARTITION BY LIST (part);
CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p1 (d @T, part int, id int);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p DEFAULT;
CREATE UNLOGGED TABLE u (id int, n int, d @T);
CREATE TABLE seen (what text, id int, before text, after text);
CREATE TABLE k (id int PRIMARY KEY, d @T);
CREATE INDEX ON k (@H(d));
CREATE INDEX ON k USING hash (d);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen VALUES (TG_WHEN || TG_OP, NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN md5(OLD.d) END, md5(NEW.d));
    IF TG_WHEN = 'BEFORE' AND length(NEW.d) % 7 = 3 THEN
        NEW.d := NEW.d || '\\x77'::@P;
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION after_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen SELECT 'statement', o.id, md5(o.d), md5(n.d) FROM old_rows o JOIN new_rows n USING (id);
    RETURN NULL;
END $$;
CREATE TRIGGER before BEFORE INSERT OR UPDATE ON k FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after AFTER INSERT OR UPDATE ON k FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER statement AFTER UPDATE ON k REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION after_statement();
CREATE VIEW v AS SELECT id, n, d AS value FROM t WHERE id < 6;
"""

# the same as appendable_append(), for the built-in types
MODEL = """
CREATE FUNCTION plain.appendable_append(relation regclass, keys int[], chunks @P[], column_name name, OUT key int,
    OUT length bigint, OUT done boolean) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE added @P;
BEGIN
    FOR key, added IN SELECT k, string_agg(c, ''::@P ORDER BY at) FROM unnest(keys, chunks) WITH ORDINALITY u(k, c, at) GROUP BY k ORDER BY k LOOP
        EXECUTE format($f$UPDATE %1$s SET %2$I = coalesce(%2$I, '') || $2 WHERE id = $1 RETURNING octet_length(%2$I)$f$, relation, column_name)
            INTO length USING key, added;
        done := length IS NOT NULL;
        RETURN NEXT;
    END LOOP;
END $$;
"""

DIGEST = """
SELECT 't', id, n, length(d), md5(d), length(e), md5(e), d = e, d < e, md5(substr(d, 50, 9000)) FROM t
UNION ALL SELECT 'g', id, n, length(d), md5(d), length(c), md5(c), d = c, d < c, md5(d::@P) FROM g
UNION ALL SELECT tableoid::regclass::text, id, part, length(d), md5(d), NULL, NULL, NULL, NULL, md5(d::@P) FROM p
UNION ALL SELECT 'u', id, n, length(d), md5(d), NULL, NULL, NULL, NULL, md5(d::@P) FROM u
UNION ALL SELECT 'k', id, NULL, length(d), md5(d), NULL, NULL, NULL, NULL, md5(d::@P) FROM k
UNION ALL SELECT 'seen', id, NULL, NULL, before, NULL, after, NULL, NULL, what FROM seen
ORDER BY 1, 2, 3, 4, 5, 7, 10
"""


class Differential:
    def __init__(self, args):
        self.args = args
        self.rng = random.Random(args.seed)
        self.counts = {}
        self.log = []
        self.repair_due = False  # also after a crash
        self.unit = args.chunk_size or 8104
        self.kind = KINDS["text" if args.text else "bytea"]
        self.types = {"plain": self.kind.plain, "ours": self.kind.ours}

    def connect(self):
        self.sessions = {}
        for schema in self.types:
            session = Session(self.args.host, self.args.port, self.args.dbname, self.args.user)
            session.query("SET client_min_messages = error")
            session.query(f"SET search_path = {schema}, public")
            if self.args.chunk_size:
                session.query(f"SET appendable_bytea.chunk_size = {self.args.chunk_size}")
            self.sessions[schema] = session
        self.assertions = session.query("SHOW debug_assertions")[0][0] == "on"

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def of_type(self, sql, type_name):
        return sql.replace("@T", type_name).replace("@P", self.kind.plain).replace("@H", self.kind.hash)

    def both(self, sql):
        """Run a statement in both schemas: True if it worked, False if both failed alike."""
        self.log.append(sql)
        answers = {}
        for schema, session in self.sessions.items():
            text = self.of_type(sql, self.types[schema])
            try:
                # the order of rows in the table is not guaranteed
                answers[schema] = sorted(["<none>" if f is None else f for f in row] for row in session.query(text))
            except ServerError as e:
                answers[schema] = e.sqlstate
                self.error = str(e)
        if "MERGE" in sql and sorted(map(str, answers.values())) == ["21000", "23505"]:
            # a source that has two rows for one and two for another: the first met decides
            answers["ours"] = answers["plain"]
        if answers["plain"] != answers["ours"]:
            self.fail(
                f"{self.kind.plain} answers {str(answers['plain'])[:1500]}\n{self.kind.ours} answers "
                f"{str(answers['ours'])[:1500]}\n{getattr(self, 'error', '')}"
            )
        if isinstance(answers["plain"], str):
            self.count("error " + answers["plain"])
            return False
        return True

    def fail(self, text):
        print(f"FAILED with seed {self.args.seed}: {text}")
        for sql in self.log:
            print("    " + (sql if len(sql) < 600 else sql[:300] + " ... " + sql[-300:]))
        sys.exit(1)

    # ---- what is done ----------------------------------------------------

    def data(self):
        rng, unit = self.rng, self.unit
        size = rng.choice([0, 1, 9, 40, 150, 199, 201, 499, 501, 1999, 2001, unit - 1, unit, unit + 1, 2 * unit, 3 * unit + 77])
        if rng.random() < 0.3:
            return self.kind.literal(self.kind.random(rng, 1) * size)
        return self.kind.literal(self.kind.random(rng, size))

    def change(self, d):
        """An expression of column d that is of the type."""
        rng = self.rng
        if self.args.differences and rng.random() < 0.4:
            return self.rewritten(d)
        at = rng.choice([1, 2, 100, 600, self.unit, self.unit + 1, 2 * self.unit, 5 * self.unit])
        kind = rng.randrange(17)
        if kind < 6:
            return f"{d} || {self.data()}::@P"
        if kind == 6:
            return f"({d} || {self.data()}::@P) || {self.data()}::@P"
        if kind == 7:
            return f"{self.data()}::@P || {d}"
        if kind == 8:
            return f"CASE WHEN length({d}) < 100000 THEN {d} || {d} ELSE {d} END"
        if kind < 11:
            return f"overlay({d} PLACING {self.data()}::@P FROM {at})"
        if kind == 11:
            return f"overlay({d} PLACING {self.data()}::@P FROM {at} FOR {rng.choice([0, 1, 50, self.unit, 100000])})"
        if kind == 12 and self.args.text:
            return f"replace({d}, {self.kind.literal(self.kind.random(rng, 1))}, 'ß')::@T"
        if kind == 12:
            return f"CASE WHEN length({d}) > {at} THEN set_byte({d}, {at}, {rng.randrange(256)}) ELSE {d} END"
        if kind == 13:
            return f"substr({d}, 1, {at})::@T"
        if kind == 14:
            return f"overlay({d} PLACING ''::@P FROM {at} FOR 1000000)"
        if kind == 15:
            return f"{self.data()}::@T"
        return rng.choice([f"({d}::@P || {self.data()}::@P)::@T", "NULL", d, f"coalesce({d}, '')",
                           f"left({d}, {rng.choice((-1, 1)) * at})::@T" if self.args.text else f"set_bit(coalesce({d}, '') || '\\x00'::@P, 3, 1)"])

    def rewritten(self, d):
        """A new value that shares much with column d, which is computed by the built-in type."""
        rng, unit = self.rng, self.unit
        whole = f"coalesce({d}::@P, '')"
        at, other = (rng.choice([1, 2, 30, 100, 600, unit, unit + 1, 3 * unit, 9 * unit]) for _ in range(2))
        new = [f"{self.data()}::@P" for _ in range(3)]
        empty = "''::@P"
        shape = rng.choice([
            f"{new[0]} || {whole}",
            f"{whole} || {new[0]}",
            f"{new[0]} || substr({whole}, {at})",
            f"overlay({whole} PLACING {new[0]} FROM {at} FOR {rng.choice([0, 1, 50, unit, 4 * unit])})",
            f"overlay(overlay({whole} PLACING {new[0]} FROM {at} FOR {other}) PLACING {new[1]} FROM {other} FOR 3)",
            f"overlay({whole} PLACING {empty} FROM {at} FOR {other})",
            f"overlay({whole} PLACING {new[0]} FROM greatest(length({whole}) - {at}, 1) FOR 1)",
            f"substr({whole}, {at}) || substr({whole}, 1, {at} - 1)",
            f"CASE WHEN length({whole}) < 50000 THEN {whole} || {new[0]} || {whole} ELSE {whole} END",
            f"substr({whole}, 1, {at}) || {new[0]} || substr({whole}, {at + other}) || {new[1]} || substr({whole}, {at}, {other}) || {new[2]}",
            f"CASE WHEN length({whole}) > {at} THEN substr({whole}, 1, length({whole}) - {at}) || {new[0]} || substr({whole}, length({whole}) - {at} + 1) "
            f"ELSE {whole} END",
            empty,
            new[0],
            whole,
            # every tenth part is another one
            f"(SELECT coalesce(string_agg(CASE WHEN i % 10 = 3 THEN {new[0]} ELSE substr({whole}, i * 97 + 1, 97) END, {empty} ORDER BY i), '') "
            f"FROM generate_series(0, least(length({whole}), 20000) / 97) i)",
        ])
        return f"({shape})::@T"

    def rows(self):
        rng = self.rng
        return rng.choice([f"id = {rng.randrange(8)}", f"id = {rng.randrange(8)}", f"id % 3 = {rng.randrange(3)}", "true"])

    def statement(self):
        rng = self.rng
        i, j = rng.randrange(8), rng.randrange(8)
        d, where = self.change("d"), self.rows()
        table = rng.choice(["t", "t", "t", "g", "p", "u", "k"])
        kind = rng.randrange(38)
        if kind < 8:
            return f"UPDATE {table} SET d = {d} WHERE {where} RETURNING id, md5(d), length(d)"
        if kind == 8:
            return f"UPDATE t SET d = {d}, e = {self.change('e')} WHERE {where} RETURNING id, md5(d), md5(e)"
        if kind == 9:
            return f"UPDATE t SET d = e, e = {d} WHERE {where} RETURNING id, md5(d), md5(e)"
        if kind == 10:
            return (
                f"UPDATE t SET d = {self.change('t.d')} FROM (SELECT d AS o FROM p WHERE id = {i} ORDER BY part, md5(d) LIMIT 1) x WHERE {where} "
                "AND x.o IS DISTINCT FROM t.d"
            )
        if kind == 11:
            return f"UPDATE p SET part = {rng.randrange(4)}, d = {d} WHERE {where}"
        if kind == 12:
            return (
                f"INSERT INTO t VALUES ({i}, 0, {self.data()}, {self.data()}) ON CONFLICT (id) DO UPDATE SET d = t.d || excluded.d, n = t.n + 1 "
                "RETURNING n, md5(d)"
            )
        if kind == 13:
            return f"INSERT INTO k AS k VALUES ({i}, {self.data()}), ({j + 10}, {self.data()}) ON CONFLICT (id) DO UPDATE SET d = {self.change('k.d')}"
        if kind == 14:
            return (
                f"MERGE INTO t USING (SELECT id, d FROM p0) x ON t.id = x.id + 1 WHEN MATCHED AND t.n % 2 = 0 THEN UPDATE SET d = {self.change('t.d')}, n = "
                "n + 1 "
                f"WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (x.id + 1, 0, x.d, NULL)"
            )
        if kind == 15:
            return f"INSERT INTO g (id, n, d) SELECT id, n, d FROM t WHERE {where} ON CONFLICT (id) DO UPDATE SET d = excluded.d"
        if kind == 16:
            return f"INSERT INTO p SELECT id, n % 3, d FROM t WHERE {where} AND (SELECT count(*) FROM p) < 30"
        if kind == 17:
            return f"INSERT INTO u SELECT id, 0, d FROM {rng.choice(['t', 'g', 'p', 'k'])} WHERE {where} AND (SELECT count(*) FROM u) < 30"
        if kind == 18:
            return f"DELETE FROM {table} WHERE id = {i} RETURNING md5(d)"
        if kind == 19:
            return f"UPDATE t SET d = (SELECT e FROM t x WHERE x.id = {j}) WHERE id = {i}"
        if kind == 20:
            return f"UPDATE v SET value = value || {self.data()}::@P WHERE {where} RETURNING md5(value)"
        if kind == 21:
            return (f"WITH gone AS (DELETE FROM p WHERE id = {i} RETURNING *), kept AS (INSERT INTO u SELECT id, 7, d || '\\x01'::@P FROM gone RETURNING *) "
                    f"SELECT gone.id, md5(gone.d), md5(kept.d) FROM gone JOIN kept USING (id) ORDER BY 1, 2, 3")
        if kind == 22:
            return (f"DO $$ DECLARE v @T; m text; BEGIN SELECT d INTO v FROM t WHERE id = {i}; m := md5(v::@P); "
                    f"BEGIN UPDATE t SET d = {d}, n = n + 1 WHERE id = {i}; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; "
                    f"UPDATE t SET d = {self.change('d')} WHERE id = {i}; IF md5(v) IS DISTINCT FROM m THEN RAISE 'changed'; END IF; "
                    f"v := v || {self.data()}::@P; INSERT INTO u VALUES ({i}, 1, v); UPDATE t SET e = v WHERE id = {i}; END $$")
        if kind == 23:
            return (
                f"DO $$ DECLARE r record; BEGIN FOR r IN SELECT id, d, md5(d) AS m FROM t ORDER BY id LOOP UPDATE t SET d = {d}, e = r.d WHERE id = r.id; "
                "UPDATE t SET d = d || r.d WHERE id = r.id AND length(d) < 50000; IF md5(r.d) IS DISTINCT FROM r.m THEN RAISE 'changed'; END IF; END LOOP; "
                "END $$"
            )
        if kind == 24:
            return (
                f"SELECT id, md5(string_agg(c, '')) FROM (SELECT id, substr(d, o * 700 + 1, 700)::@P AS c FROM {table}, generate_series(0, 20) o "
                "ORDER BY id, md5(d), o) q GROUP BY id ORDER BY 1, 2"
            )
        if kind == 25:
            return f"SELECT a.id, b.id FROM t a JOIN {table} b ON a.d = b.d ORDER BY 1, 2"
        if kind == 26:
            return (
                f"SELECT id, md5(d), count(*) OVER (PARTITION BY d), rank() OVER (ORDER BY d), md5(lag(d) OVER (ORDER BY d, id)) FROM {table} ORDER BY d, id, 2"
            )
        if kind == 27:
            return "SELECT count(DISTINCT d), count(d), min(length(d)) FROM (SELECT d FROM t UNION ALL SELECT d FROM p UNION SELECT e FROM t) q"
        if kind == 28:
            looked_for = self.kind.literal(self.kind.random(rng, 1))
            more = (
                f"ascii(d), left(d, {rng.randint(-50, 50)}), right(d, {rng.randint(-50, 50)}), octet_length(d), d LIKE '%' || {looked_for} || '_', d ~ 'a.*b'"
                if self.args.text
                else "get_byte(d, 0)"
            )
            return (
                f"SELECT id, position({looked_for} IN d), {more}, substr(d, {rng.randint(-5, 9000)}, {rng.randint(0, 9000)}) FROM t WHERE length(d) "
                "> 0 ORDER BY id"
            )
        if kind == 29:
            return f"SELECT id FROM k WHERE d = (SELECT d FROM {table} WHERE id = {i} ORDER BY d LIMIT 1) OR @H(d) = @H({self.data()}::@P) ORDER BY 1"
        if kind == 30:
            return f"UPDATE t SET n = n + 1 WHERE {where}"
        if kind == 31:
            # Rows that one (sub)transaction locks, another one updates and rolls back, and that
            # are then updated again fail an assertion of heap_update(), also without the extension.
            lock = " FOR UPDATE" if self.alone or not self.assertions else ""
            return f"SELECT x.id, md5(x.d), x = y FROM t x JOIN t y ON x.id = y.id WHERE x.d IS NOT DISTINCT FROM y.d ORDER BY 1{lock}"
        if kind in (32, 33):
            keys = [rng.randrange(10) for _ in range(rng.randint(1, 12))]
            return (f"SELECT * FROM appendable_append('{rng.choice(['t', 't', 'g', 'k'])}', ARRAY{keys}, "
                    f"ARRAY[{', '.join(self.data() for _ in keys)}]::@P[], 'd')")
        return self.ddl(table, d)

    def ddl(self, table, d):
        rng = self.rng
        rows = f"INSERT INTO t SELECT i, i, {self.data()}, {self.data()} FROM generate_series(0, 5) i ON CONFLICT (id) DO UPDATE SET d = excluded.d"
        choice = rng.randrange(14)
        # what ends values without ending rows leaves their chunks to repair
        self.repair_due = self.repair_due or choice in (6, 8, 12)
        if choice < 2:
            return f"TRUNCATE {table}"
        if choice < 4:
            return f"ALTER TABLE {rng.choice(['t', 'g', 'u'])} ALTER n TYPE {rng.choice(['int4', 'int8'])}"
        if choice == 4:
            return rng.choice(["CLUSTER t USING t_pkey", "CLUSTER k USING k_pkey", "CLUSTER g USING g_pkey"])
        if choice == 5:
            return f"ALTER TABLE u SET {rng.choice(['LOGGED', 'UNLOGGED'])}"
        if choice == 6:
            return (
                f"ALTER TABLE t ADD COLUMN f @T DEFAULT {self.data()}; UPDATE t SET f = f || d WHERE {self.rows()}; UPDATE t SET e = f || e WHERE "
                f"{self.rows()}; ALTER TABLE t DROP COLUMN f"
            )
        if choice == 7:
            return "ALTER TABLE t RENAME COLUMN d TO tmp; ALTER TABLE t RENAME COLUMN e TO d; ALTER TABLE t RENAME COLUMN tmp TO e"
        if choice == 8:
            return f"ALTER TABLE t ALTER e TYPE @T USING {self.change('d')}"
        if choice == 9:
            return "ALTER TABLE p DETACH PARTITION p1; UPDATE p1 SET d = d || '\\x05'::@P; ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1)"
        if choice == 10:
            return (
                "CREATE TEMP TABLE x AS SELECT * FROM t; UPDATE x SET d = d || e; UPDATE t SET d = x.d FROM x WHERE x.id = t.id AND length(x.d) < "
                "100000; DROP TABLE x"
            )
        if choice == 11:
            return "CREATE TABLE x AS SELECT id, d FROM t; UPDATE x SET d = d || '\\x01'::@P; UPDATE t SET e = x.d FROM x WHERE x.id = t.id; DROP TABLE x"
        if choice == 12:
            return "ALTER TABLE g ALTER d TYPE @P, ALTER c TYPE @P; ALTER TABLE g ALTER d TYPE @T, ALTER c TYPE @T"
        return rows

    def set_differences(self):
        """Settings about differences and compression, which change nothing that can be seen."""
        rng = self.rng
        for setting in (f"store_differences = {rng.choice(['on', 'on', 'on', 'off'])}", f"max_pieces = {rng.choice([2, 3, 8, 256])}",
                        f"difference_memory = {rng.choice([0, 1, 65536])}", f"inline_max = {rng.choice([0, 100, 2000])}",
                        f"compress_new = {rng.choice(['on', 'off'])}"):
            self.log.append(f"SET appendable_bytea.{setting}")
            self.sessions["ours"].query(self.log[-1])

    def transaction(self):
        rng = self.rng
        self.log = []
        self.alone = rng.random() < 0.25
        if self.args.differences:
            self.set_differences()
        if self.alone:
            self.both(self.statement())
            return
        self.both(f"BEGIN ISOLATION LEVEL {rng.choice(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])}")
        depth = 0
        for _ in range(rng.randint(1, 7)):
            if rng.random() < 0.4:
                depth += 1
                self.both(f"SAVEPOINT s{depth}")
            if depth == 0 or rng.random() < 0.3:
                depth += 1
                self.both(f"SAVEPOINT s{depth}")
            if rng.random() < 0.1:
                self.both("DECLARE c CURSOR FOR SELECT id, d, md5(d) FROM t ORDER BY id")
                self.both(self.statement())
                self.both("FETCH 3 FROM c")
                self.both("CLOSE c")
            if rng.random() < 0.15:
                self.compact()
            worked = self.both(self.statement())
            if not worked or rng.random() < 0.25:
                back = rng.randint(1, depth)
                self.both(f"ROLLBACK TO s{back}")
                depth = back
                if rng.random() < 0.3:
                    self.both(DIGEST)
            elif depth and rng.random() < 0.2:
                back = rng.randint(1, depth)
                self.both(f"RELEASE s{back}")
                depth = back - 1
        end = rng.random()
        if end < 0.7:
            self.both("COMMIT")
        else:
            self.both("ROLLBACK")

    def between(self):
        """What may happen at any time and must change nothing."""
        rng = self.rng
        kind = rng.random()
        ours = self.sessions["ours"]
        if kind < 0.4:
            self.log.append("vacuum")
            stores = ours.query("SELECT string_agg(store::text, ', ') FROM appendable_bytea_stats() WHERE store IS NOT NULL")[0][0]
            if stores:
                ours.query("VACUUM " + stores)
        elif kind < 0.5:
            ours.query(rng.choice(["VACUUM", "VACUUM FULL t", "VACUUM FREEZE t", "ANALYZE", "REINDEX TABLE k"]))
        elif kind < 0.65:
            self.compact()
        elif kind < 0.68 and self.args.crash:
            self.crash()
            self.count("crashes")

    def compact(self):
        """Compact or shrink a table, in the transaction if there is one, which changes nothing that can be seen."""
        table = self.rng.choice(["t", "g", "p", "u", "k"])
        procedure = self.rng.choice(["compact", "compact", "shrink"])
        self.log.append(f"{procedure} {table}")
        try:
            if self.rng.random() < 0.3:
                self.sessions["ours"].query("SET LOCAL appendable_bytea.compression = pglz")
            rows = self.sessions["ours"].query(f"CALL appendable_{procedure}('{table}')")[0][0]
        except ServerError as e:
            if e.sqlstate == "25P02":  # the transaction has failed already
                return
            self.fail(f"{procedure}: {e}")
        self.counts["compacted"] = self.counts.get("compacted", 0) + int(rows)

    def crash(self):
        self.log.append("crash")
        # A commit flushes what was aborted before it.  Where the abort of a transaction
        # that made an unlogged table is lost, a stock server never starts again: the
        # file left for the next checkpoint to remove is in the way ("File exists").
        self.both("INSERT INTO seen (what) VALUES ('crash')")
        os.kill(int(self.sessions["plain"].query("SELECT pg_backend_pid()")[0][0]), signal.SIGKILL)
        deadline = time.time() + 60
        try:
            # the postmaster notices a moment later
            while time.time() < deadline:
                self.sessions["ours"].query("SELECT 1")
        except ConnectionError:
            pass
        when_back(self.connect)

    def run(self):
        self.connect()
        ours = self.sessions["ours"]
        ours.query("CREATE EXTENSION IF NOT EXISTS appendable_bytea SCHEMA public")
        for schema, type_name in self.types.items():
            self.sessions[schema].query(f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema};" + self.of_type(SETUP, type_name))
        self.sessions["plain"].query(self.of_type(MODEL, ""))
        stop = time.time() + self.args.seconds
        while time.time() < stop:
            self.transaction()
            self.count("transactions")
            self.between()
            self.both(DIGEST)
            if self.rng.random() < 0.1:
                self.both("TRUNCATE seen")
            check = "SELECT table_name, row_id, column_name, problem FROM appendable_bytea_check()"
            ours = self.sessions["ours"]
            problems = ours.query(check)
            if problems and self.repair_due and all("belong to no value" in p[3] for p in problems):
                for table in ("t", "g"):
                    ours.query(f"SELECT appendable_bytea_repair('{table}')")
                self.count("repairs")
                self.repair_due = False
                problems = ours.query(check)
            if problems:
                self.fail(f"check: {problems[:5]}")
        print(" ".join(f"{k}={v}" for k, v in sorted(self.counts.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default=os.environ.get("PGHOST", "/tmp"))
    parser.add_argument("--port", type=int, default=int(os.environ.get("PGPORT", "5432")))
    parser.add_argument("--dbname", default=os.environ.get("PGDATABASE", "postgres"))
    parser.add_argument("--user", default=os.environ.get("PGUSER", "postgres"))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("STRESS_SECONDS", "20")))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--chunk-size", type=int, default=0)
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--differences", action="store_true", help="whole values are replaced, and stored as differences or not")
    args = parser.parse_args()
    print(f"seed={args.seed}")
    Differential(args).run()


if __name__ == "__main__":
    main()
