#!/usr/bin/env python3
"""What a client sees of the type on the wire: the same statements run on a table with a
column of bytea and on one with a column of appendable_bytea, by the simple and the
extended protocol, and described parameters, described columns and rows are compared.

Speaks the protocol itself, so that it needs no driver (test/clients has those).
Prints one line "ok - what" or "not ok - what" for each check.

    protocol.py HOST PORT statements     all statements, as bytea
    protocol.py HOST PORT texts          those that text has, in database "wire", as text
    protocol.py HOST PORT jsons          json's, in database "wire", as json
    protocol.py HOST PORT first          types that first statements of sessions have
"""

import re
import socket
import struct
import sys

BYTEA, TEXT = 17, 25


class Failed(Exception):
    """An error of the server."""


class Wire:
    dbname = "postgres"

    def __init__(self, host, port, user="postgres"):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(300)
        self.sock.connect(f"{host}/.s.PGSQL.{port}")
        body = struct.pack("!i", 196608) + f"user\0{user}\0database\0{self.dbname}\0\0".encode()
        self.sock.sendall(struct.pack("!i", len(body) + 4) + body)
        self.answers()

    def send(self, *messages):
        self.sock.sendall(b"".join(kind + struct.pack("!i", len(body) + 4) + body for kind, body in messages))

    def read(self, n):
        data = b""
        while len(data) < n:
            part = self.sock.recv(n - len(data))
            if not part:
                raise Failed("the server closed the connection")
            data += part
        return data

    def answers(self):
        """Until ReadyForQuery: ("params", types), ("columns", [(name, table, type)]), ("row", values), ("done", tag)."""
        found, error = [], None
        while True:
            kind, length = struct.unpack("!ci", self.read(5))
            body = self.read(length - 4)
            if kind == b"t":
                found.append(("params", list(struct.unpack_from(f"!{(length - 6) // 4}i", body, 2))))
            elif kind == b"T":
                columns, at = [], 2
                for _ in range(struct.unpack_from("!h", body)[0]):
                    end = body.index(b"\0", at)
                    table, _attribute, oid = struct.unpack_from("!ihi", body, end + 1)
                    columns.append((body[at:end].decode(), table != 0, oid))
                    at = end + 19
                found.append(("columns", columns))
            elif kind == b"D":
                row, at = [], 2
                for _ in range(struct.unpack_from("!h", body)[0]):
                    (n,) = struct.unpack_from("!i", body, at)
                    row.append(None if n < 0 else body[at + 4:at + 4 + n])
                    at += 4 + max(n, 0)
                found.append(("row", row))
            elif kind == b"C":
                found.append(("done", body.rstrip(b"\0").decode()))
            elif kind == b"E":
                error = body.replace(b"\0", b" ").decode(errors="replace")
            elif kind == b"Z":
                if error:
                    raise Failed(error)
                return found

    def simple(self, sql):
        self.send((b"Q", sql.encode() + b"\0"))
        return self.answers()

    def prepare(self, name, sql):
        """Parse and Describe: types of parameters and columns."""
        self.send((b"P", name.encode() + b"\0" + sql.encode() + b"\0" + struct.pack("!h", 0)),
                  (b"D", b"S" + name.encode() + b"\0"), (b"S", b""))
        return self.answers()

    def execute(self, name, values, types=None, binary=False):
        """Bind, Describe, Execute.  Bytes go as they are, in binary format; str in text format."""
        body = b"\0" + name.encode() + b"\0" + struct.pack("!h", len(values))
        body += b"".join(struct.pack("!h", isinstance(v, bytes)) for v in values) + struct.pack("!h", len(values))
        for v in values:
            v = v.encode() if isinstance(v, str) else v
            body += struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v
        body += struct.pack("!hh", 1, binary)
        self.send((b"B", body), (b"D", b"P\0"), (b"E", b"\0" + struct.pack("!i", 0)), (b"S", b""))
        return self.answers()


CHUNK = bytes(range(256))
HEX = "\\x4142"

# Statements without parameters, by the simple and the extended protocol.
PLAIN = """
SELECT data FROM {t} ORDER BY id
SELECT id, data, data AS again, length(data), substr(data, 2, 3) FROM {t} ORDER BY id DESC LIMIT 3
SELECT data FROM {t} ORDER BY data, id
SELECT data, id FROM {t} ORDER BY data DESC NULLS FIRST, id LIMIT 2 OFFSET 1
SELECT DISTINCT data FROM {t} ORDER BY data
SELECT DISTINCT ON (length(data)) data, id FROM {t} ORDER BY length(data), id
SELECT DISTINCT data, id % 2 FROM {t} ORDER BY 2, 1
SELECT data, count(*) FROM {t} GROUP BY data ORDER BY data
SELECT data, count(*) FROM {t} GROUP BY ROLLUP (data) ORDER BY 1, 2
SELECT data FROM {t} UNION SELECT data FROM {t} ORDER BY data
SELECT data FROM {t} UNION ALL SELECT data FROM {t} ORDER BY 1
SELECT data FROM {t} INTERSECT SELECT data FROM {t} ORDER BY 1
(SELECT data FROM {t} ORDER BY id LIMIT 1) EXCEPT SELECT '\\x00' UNION ALL VALUES ('\\x01') ORDER BY 1
VALUES ((SELECT data FROM {t} WHERE id = 1)), ((SELECT data FROM {t} WHERE id = 2))
SELECT * FROM {t} ORDER BY id
TABLE {t} ORDER BY id
SELECT t.*, u.data FROM {t} t JOIN {t} u USING (data) ORDER BY t.id
SELECT t.data FROM {t} t LEFT JOIN {t} u ON t.id = u.id + 1 ORDER BY u.data NULLS FIRST, t.id
SELECT (SELECT data FROM {t} u WHERE u.id = t.id) FROM {t} t ORDER BY id
WITH w AS (SELECT data, id FROM {t}) SELECT data FROM w ORDER BY id
WITH w AS MATERIALIZED (SELECT data, id FROM {t}), v AS (SELECT * FROM w) SELECT data FROM v UNION SELECT data FROM w ORDER BY 1
WITH RECURSIVE w AS (SELECT data, 1 AS n FROM {t} WHERE id = 1 UNION ALL SELECT data, n + 1 FROM w WHERE n < 3) SELECT data, n FROM w ORDER BY n, data
WITH w AS (SELECT 1 AS n) SELECT data FROM {t} WHERE id IN (SELECT n FROM w UNION SELECT (WITH v AS (SELECT n + 1 AS m FROM w) SELECT m FROM v)) ORDER BY data
SELECT max(id), data FROM {t} GROUP BY data HAVING data < '\\xff' ORDER BY data
SELECT data, row_number() OVER (ORDER BY data, id) FROM {t} ORDER BY 2
SELECT lag(data) OVER (ORDER BY id) FROM {t} ORDER BY id
SELECT coalesce(data, 'none'), CASE WHEN id = 1 THEN data END, greatest(data, '\\x05'), nullif(data, '') FROM {t} ORDER BY id
SELECT data || 'x', 'x'::bytea || data, data || data FROM {t} ORDER BY id
SELECT array_agg(data ORDER BY id) FROM {t}
SELECT ARRAY[data] FROM {t} ORDER BY data
SELECT data FROM {t} WHERE id = 2 FOR UPDATE
SELECT data FROM {t} ORDER BY data FOR UPDATE
SELECT data FROM {t} WHERE data = '\\x000102' AND data IN ('\\x000102', 'b') OR data LIKE '%e%' ORDER BY id
SELECT data FROM {t}_view ORDER BY id
SELECT data, length(data) FROM {t}_view ORDER BY data LIMIT 1
SELECT data FROM {t}_parent ORDER BY id
SELECT {t}_function(1) AS data
SELECT * FROM {t}_function(1) v(data)
SELECT data FROM {t}_functions() ORDER BY 1
SELECT min(id), string_agg(data, ',' ORDER BY id), encode(data, 'hex') FROM {t} GROUP BY data ORDER BY 1
INSERT INTO {t} VALUES (100, '\\x64') RETURNING *
INSERT INTO {t} SELECT id + 200, data FROM {t} WHERE id < 100 RETURNING data, id
UPDATE {t} SET data = data || '\\x0a' WHERE id > 100 RETURNING data
UPDATE {t} SET data = overlay(data PLACING 'z' FROM 1) WHERE id = 100 RETURNING id, data, {t}.data AS again
WITH gone AS (DELETE FROM {t} WHERE id > 100 RETURNING data) SELECT data FROM gone ORDER BY data
WITH new AS (INSERT INTO {t} VALUES (101, 'w') RETURNING *), more AS (TABLE new) SELECT data FROM more UNION ALL SELECT data FROM {t} WHERE id < 3 ORDER BY data
DELETE FROM {t} WHERE id >= 100 RETURNING data, id
INSERT INTO {t} VALUES (1, 'c') ON CONFLICT (id) DO UPDATE SET data = excluded.data || {t}.data RETURNING data
UPDATE {t}_view SET data = data || '!' WHERE id = 1 RETURNING data
INSERT INTO {t}_parent VALUES (9, 'p') RETURNING data
EXPLAIN (COSTS OFF) SELECT 1
""".strip().split("\n")

# Statements with parameters: the extended protocol, run three times each.
WITH_PARAMETERS = [
    ("SELECT data FROM {t} WHERE id = $1", ["2"]),
    ("INSERT INTO {t} VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET data = excluded.data RETURNING data", ["50", CHUNK]),
    ("UPDATE {t} SET data = data || $1 WHERE id = 50 RETURNING data", [CHUNK]),
    ("UPDATE {t} SET data = data || $1 WHERE id = 50 RETURNING data", [HEX]),
    ("UPDATE {t} SET data = $1 || data WHERE id = 50 RETURNING data", [b""]),
    ("UPDATE {t} SET data = data || $1 || $2 WHERE id = 50", [CHUNK, None]),
    ("UPDATE {t} SET data = $1 WHERE id = 50 RETURNING length(data)", [CHUNK]),
    ("UPDATE {t} SET data = overlay(data PLACING $1 FROM $2 FOR $3) WHERE id = 50 RETURNING data", [CHUNK, "3", "5"]),
    ("UPDATE {t} SET data = set_byte(data, $1, $2) WHERE id = 50 RETURNING data", ["3", "7"]),
    ("UPDATE {t} SET data = CASE WHEN id = $1 THEN $2 ELSE data END WHERE id = 50 RETURNING data", ["50", CHUNK]),
    ("UPDATE {t} SET data = coalesce($1, data) WHERE id = 50 RETURNING data", [None]),
    ("INSERT INTO {t} VALUES (60, $1), (61, $2), (62, DEFAULT) RETURNING data", [b"\0\1", HEX]),
    ("INSERT INTO {t} (id, data) SELECT 63, $1 RETURNING data", [CHUNK]),
    ("INSERT INTO {t} (id, data) SELECT 64, data || $1 FROM {t} WHERE id = $2 RETURNING data", [CHUNK, "1"]),
    ("DELETE FROM {t} WHERE id >= $1 AND id <= $2 RETURNING data", ["60", "64"]),
    ("SELECT data FROM {t} WHERE data = $1 OR data > $2 OR $1 = data ORDER BY data", [b"\0\1\2", HEX]),
    ("SELECT id FROM {t} WHERE data BETWEEN $1 AND $2 AND data <> $3 AND data IN ($1, $2, data) ORDER BY id", [b"", CHUNK, HEX]),
    ("SELECT id FROM {t} WHERE data = ANY ($1) ORDER BY id", ['{"\\\\x000102"}']),
    ("SELECT data, $1 FROM {t} WHERE data IS DISTINCT FROM $2 ORDER BY data, id", ["text", CHUNK]),
    (
        "SELECT substr(data, $1, $2), substring(data FROM $1 FOR $2), get_byte(data, $3), position($4 IN data) FROM {t} WHERE length(data) > $3 ORDER BY id",
        ["1", "2", "0", b"\1"],
    ),
    ("SELECT length(data), encode(data, $1), sha256(data || $2), md5($2) FROM {t} ORDER BY id", ["hex", CHUNK]),
    ("SELECT coalesce(data, $1), nullif(data, $2), greatest(data, $1) FROM {t} ORDER BY id", [CHUNK, b""]),
    ("SELECT data FROM {t} UNION SELECT $1 ORDER BY 1", [CHUNK]),
    ("SELECT v.data, v.n FROM (VALUES ($1, 1), ((SELECT data FROM {t} WHERE id = 1), 2)) v(data, n) ORDER BY v.data", [CHUNK]),
    ("WITH new AS (UPDATE {t} SET data = data || $1 WHERE id = $2 RETURNING data) SELECT data FROM new ORDER BY data", [CHUNK, "50"]),
    ("SELECT data FROM {t} WHERE EXISTS (SELECT 1 FROM {t} u WHERE u.data = $1 AND u.id = {t}.id) ORDER BY 1", [b"\0\1\2"]),
    ("INSERT INTO {t}_parent VALUES (10, $1) RETURNING data", [CHUNK]),
    ("UPDATE {t}_view SET data = $1 WHERE id = 1 RETURNING data", [b"\0\1\2"]),
    ("SELECT {t}_with($1) AS data", [CHUNK]),
    ("SELECT id FROM {t} WHERE (data, id) > ($1, $2) ORDER BY id", [b"", "1"]),
    ("SELECT id FROM {t} WHERE (id, data) <= ($2, $1::bytea) AND (data, id) <> ($1, $2) OR (data, id) = ($1, 2) ORDER BY id", [HEX, "4"]),
    ("SELECT id, data FROM {t} WHERE ARRAY[data] = $1 OR $1 && ARRAY[data, data] ORDER BY data, id", ['{"\\x000102"}']),
    (
        "SELECT ARRAY[data] || $1 AS more, array_position(ARRAY[data, ''], $2), CASE WHEN ARRAY[data, $2] @> $1 THEN $1 END FROM {t} ORDER BY id",
        ['{"\\x000102"}', b""],
    ),
    ("SELECT {t}_same(data, $1) AS same, lag(data, 1, $1) OVER (ORDER BY id) FROM {t} ORDER BY id", [CHUNK]),
    ("MERGE INTO {t} USING (VALUES (50, $1)) v(id, chunk) ON {t}.id = v.id WHEN MATCHED THEN UPDATE SET data = data || chunk::bytea", [HEX]),
]

SETUP = """
CREATE TABLE {t} (id int PRIMARY KEY, data {type});
INSERT INTO {t} VALUES (1, '\\x000102'), (2, {long}), (3, ''), (4, '\\x000102'), (5, NULL);
CREATE VIEW {t}_view AS SELECT id, data FROM {t};
CREATE TABLE {t}_parent (id int, data {type}) PARTITION BY RANGE (id);
CREATE TABLE {t}_part PARTITION OF {t}_parent DEFAULT;
INSERT INTO {t}_parent VALUES (1, 'one'), (2, 'two');
CREATE FUNCTION {t}_function(int) RETURNS {type} LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT data FROM {t} WHERE id = $1); END $$;
CREATE FUNCTION {t}_functions() RETURNS TABLE (data {type}) LANGUAGE sql AS 'SELECT data FROM {t}';
CREATE FUNCTION {t}_same(anyelement, anyelement) RETURNS anyelement LANGUAGE sql AS 'SELECT CASE WHEN $1 = $2 THEN $1 ELSE $2 END';
CREATE FUNCTION {t}_with({type}) RETURNS {type} LANGUAGE sql AS 'SELECT $1 || ''y''';
"""
KINDS = (("plain", "bytea"), ("own", "appendable_bytea"))
LONG = {"bytea": "convert_to(repeat('long', 3000), 'UTF8')", "text": "repeat('l\u00f6ng', 3000)"}


def as_text(value):
    """A parameter of the statements for bytea as one for text."""
    return value.replace(b"\0", b"0").decode("latin1").encode() if isinstance(value, bytes) else value


def check(good, what, detail=""):
    print(("ok" if good else "not ok") + f" - {what}" + ("" if good else f" # {str(detail)[:1500]}"), flush=True)


def outcome(function, *args):
    try:
        return function(*args)
    except Failed as error:
        return f"{error}".replace("own", "plain").replace("appendable_", "").split(" F")[0].split(" P")[0]


def same(what, results):
    plain, own = results
    check(plain == own, what, f"bytea: {plain}  appendable_bytea: {own}")


def kept(change, sql, got):
    """The result of a prepared statement after a change.  If a parameter's type selects the operator or function, it is the same or an error."""
    decides = "_same(" in sql or re.search(r"ARRAY\[", sql)
    check(got[0] == got[1] or (decides and re.search("VERROR C(42883|42804)", str(got[1]))), f"after {change}: {sql}", got)


def texts(host, port):
    """The statements on bytea that text has, too."""
    global KINDS, WITH_PARAMETERS
    Wire.dbname = "wire"
    KINDS = (("plain", "text"), ("own", "appendable_text"))
    WITH_PARAMETERS = [
        (sql.replace("::bytea", "::text"), [as_text(v) for v in values])
        for sql, values in WITH_PARAMETERS
        if not re.search("get_byte|set_byte|sha256|MERGE", sql)
    ] + [
        (
            "SELECT left(data, $1), right(data, $2), strpos(data, $3), length(data) FROM {t} WHERE data LIKE $4 OR data ~ $3 ORDER BY id",
            ["3", "-2", b"n", "%ng%"],
        ),
        ('UPDATE {t} SET data = data || $1 WHERE data COLLATE "C" < $2 RETURNING data || $1, data', ["\u20ac".encode(), "m"]),
        ("UPDATE {t} SET data = $1 || data || $2 || data, id = length($1 || $2) + id RETURNING data, $1", ["<", ">"]),
        ("SELECT format($1, data), upper(data || $2), data || $3::int FROM {t} ORDER BY data, id", ["%s!", "x", "5"]),
    ]
    statements(host, port)


# json has no operator that makes or compares a value.
JSON = '[1, {"key": "v\u00e4lue"}, "' + "long " * 2000 + '"]'
JSONS = [
    ("SELECT data, id, data AS again FROM {t} ORDER BY id", []),
    ("SELECT data, data -> 'key', data ->> 'key', data #> '{{key}}', json_typeof(data), to_json(data), json_build_array(data) FROM {t} ORDER BY id", []),
    ("INSERT INTO {t} VALUES (50, $1), (51, $2), (52, DEFAULT) RETURNING data", [JSON, None]),
    ("UPDATE {t} SET data = $1 WHERE id = 2 RETURNING data, data -> $2 AS part", [JSON.encode(), "1"]),
    ("UPDATE {t} SET data = coalesce($1, data) WHERE id = $2 RETURNING id, data", [None, "1"]),
    ("UPDATE {t} SET data = CASE WHEN id = $1 THEN $2 ELSE data END RETURNING data", ["1", '{"a": 1}']),
    ("UPDATE {t} SET data = $1 WHERE id = 1", ["[1,"]),
    ("UPDATE {t} SET data = $1 WHERE id = 1", [b"[1,"]),
    ("UPDATE {t} SET data = $1 WHERE id = 1", [b""]),
    ("INSERT INTO {t} VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET data = excluded.data RETURNING data", ["1", JSON]),
    ("WITH new AS (UPDATE {t} SET data = $1 WHERE id = $2 RETURNING data, id) SELECT data FROM new ORDER BY id", [JSON, "3"]),
    ("SELECT data FROM {t} UNION ALL SELECT $1", [JSON]),
    ("SELECT json_agg(data ORDER BY id), json_object_agg(id, data ORDER BY id) FROM {t}", []),
    ("SELECT row_to_json({t}), row_to_json({t}) -> 'data' -> 'key' FROM {t} ORDER BY id", []),
    ("SELECT array_agg(data ORDER BY id) FROM {t}", []),
    ("SELECT data FROM {t}_view ORDER BY id", []),
    ("UPDATE {t}_view SET data = $1 WHERE id = 1 RETURNING data", ["{}"]),
    ("SELECT {t}_last() AS data", []),
    ("SELECT * FROM json_each((SELECT data FROM {t} WHERE id = $1))", ["2"]),
]
JSONBS = [
    ("SELECT data FROM {t} WHERE data = $1 OR data @> $2 ORDER BY data", ["null", '{{"key": "again"}}']),
    ("UPDATE {t} SET data = data || $1 WHERE id = 1 RETURNING data, data ? $2, data[$2], data -> $2", ['{{"x": 1}}', "key"]),
    ("UPDATE {t} SET data['new'] = $1 WHERE id = $2 RETURNING data", [JSON, "1"]),
    ("UPDATE {t} SET data = data - $1 WHERE id < 3 RETURNING data #> $2, data #>> $2", ["key", "{{key,0}}"]),
    ("SELECT DISTINCT data FROM {t} UNION SELECT $1 ORDER BY 1", [JSON]),
    ("SELECT data FROM {t} GROUP BY data HAVING data < $1 ORDER BY data", ["[]"]),
]
JSON_SETUP = """
CREATE TABLE {t} (id int PRIMARY KEY, data {type});
INSERT INTO {t} VALUES (1, '{{"key": [1,  2], "key": "again"}}'), (2, json_build_object('key', repeat('l\u00f6ng', 3000))), (3, 'null'), (4, NULL);
CREATE VIEW {t}_view AS SELECT id, data FROM {t};
CREATE FUNCTION {t}_last() RETURNS {type} LANGUAGE plpgsql AS $$ DECLARE v {type}; BEGIN SELECT data FROM {t} INTO v WHERE id = 2; RETURN v; END $$;
"""


def jsons(host, port):
    """Statements on a column of json and on one of appendable_json; the same for jsonb."""
    Wire.dbname = "wire"
    json_type(host, port, "json", 114, 199)
    json_type(host, port, "jsonb", 3802, 3807)


def json_type(host, port, kind, oid, array_oid):
    wires = {}
    for t, type in (("plain", kind), ("own", f"appendable_{kind}")):
        wires[t] = Wire(host, port)
        wires[t].simple(f"DROP TABLE IF EXISTS {t} CASCADE; DROP FUNCTION IF EXISTS {t}_last")
        wires[t].simple(JSON_SETUP.format(t=t, type=type))

    def run(wire, sql, values, binary):
        wire.simple("BEGIN")
        try:
            return [wire.simple(sql) if not values else None, wire.prepare("", sql)] + [wire.execute("", values, binary=binary) for _ in range(2)]
        finally:
            wire.simple("ROLLBACK")

    for sql, values in JSONS + (JSONBS if kind == "jsonb" else []):
        sql = sql.replace("json_typeof", f"{kind}_typeof").replace("json_each", f"{kind}_each")
        for binary in (False, True):
            found = [outcome(run, wires[t], sql.format(t=t), values, binary) for t in ("plain", "own")]
            same(f"{kind}, {'binary' if binary else 'text'}: {sql}", [repr(f).replace("own", "plain") for f in found])
    shown = [a for a in wires["own"].prepare("", f"SELECT data, $1::appendable_{kind}, ARRAY[data] FROM own") if a[0] in ("params", "columns")]
    check(shown[0][1] == [oid] and [c[2] for c in shown[1][1]] == [oid, oid, array_oid], f"{kind}'s own OIDs", shown)
    check("VERROR C22P02" in str(outcome(wires["own"].simple, "UPDATE own SET data = '['")), f"{kind}'s own error")


def statements(host, port):
    plain_kind, own_kind = KINDS[0][1], KINDS[1][1]
    plain_oid = BYTEA if plain_kind == "bytea" else TEXT
    wire = Wire(host, port)
    for t, type in KINDS:
        wire.simple(SETUP.format(t=t, type=type, long=LONG[plain_kind]))
    wires = {t: Wire(host, port) for t, _ in KINDS}

    def each(function):
        return [outcome(function, wires[t], t) for t, _ in KINDS]

    def undone(wire, function, *args):
        wire.simple("BEGIN")
        try:
            return outcome(function, *args)
        finally:
            wire.simple("ROLLBACK")

    for sql in PLAIN:
        same(f"simple: {sql}", each(lambda w, t: undone(w, w.simple, sql.format(t=t))))
        for binary in (False, True):
            same(
                f"extended, {'binary' if binary else 'text'}: {sql}",
                each(
                    lambda w, t: [
                        undone(w, w.prepare, "", sql.format(t=t)),
                        undone(w, lambda: [w.prepare("", sql.format(t=t)), w.execute("", [], binary=binary)]),
                    ]
                ),
            )
    for sql, values in WITH_PARAMETERS:
        for binary in (False, True):
            same(
                f"parameters, {'binary' if binary else 'text'}: {sql}",
                each(
                    lambda w, t: undone(
                        w,
                        lambda: (
                            [w.prepare("", sql.format(t=t))] + [w.execute("", values, binary=binary) for _ in range(3 if not sql.startswith("INSERT") else 1)]
                        ),
                    )
                ),
            )

    # prepared statements, after the table changed under them
    names = {}
    for n, (sql, _) in enumerate(WITH_PARAMETERS):
        names[n] = each(lambda w, t: w.prepare(f"s{n}", sql.format(t=t)))
    for change in ("ALTER TABLE {t} SET (fillfactor = 81)", "ANALYZE {t}", "ALTER TABLE {t} ADD COLUMN more int", "ALTER TABLE {t} DROP COLUMN more",
                   "CREATE INDEX {t}_index ON {t} (length(data))", "CREATE OR REPLACE VIEW {t}_view AS SELECT id, data FROM {t} WHERE id > 0"):
        for t, _ in KINDS:
            wire.simple(change.format(t=t))
        for n, (sql, values) in enumerate(WITH_PARAMETERS):
            kept(change, sql, each(lambda w, t: undone(w, w.execute, f"s{n}", values)))
    for t, _ in KINDS:
        wires[t].simple("SET search_path = public, pg_catalog, pg_temp")
        wire.simple(f"ALTER TABLE {t} SET (fillfactor = 83)")
    for n, (sql, values) in enumerate(WITH_PARAMETERS):
        kept("SET search_path", sql, each(lambda w, t: undone(w, w.execute, f"s{n}", values)))
    for t, _ in KINDS:
        wires[t].simple("RESET search_path")
    # one that was prepared while the setting was another fails, and is right again with that
    wires["own"].simple("SET appendable_bytea.client_type = own")
    wire.simple("ALTER TABLE own SET (fillfactor = 84)")
    check(
        "C0A000 Mcached plan must not change result type" in str(outcome(wires["own"].execute, "s0", WITH_PARAMETERS[0][1])),
        "another client_type is an error of core",
    )
    wires["own"].simple("RESET appendable_bytea.client_type")
    kept("RESET client_type", WITH_PARAMETERS[0][0], each(lambda w, t: undone(w, w.execute, "s0", WITH_PARAMETERS[0][1])))
    # a statement that fails leaves nothing to the one before it
    for t, _ in KINDS:
        wires[t].prepare("before", f"SELECT $1::{plain_kind} = 'A'")
    same(
        "a failed PREPARE",
        each(
            lambda w, t: [
                outcome(w.simple, f"PREPARE before AS SELECT data FROM {t} WHERE data = $1"),
                outcome(w.simple, f"CREATE TEMP TABLE {t}_x(); DROP TABLE {t}_x"),
                w.execute("before", [b"A"]),
            ]
        ),
    )
    for t, _ in KINDS:
        wires[t].simple("DEALLOCATE ALL")
    same(
        "PREPARE, a change and EXECUTE in one message",
        each(
            lambda w, t: undone(
                w,
                w.simple,
                f"PREPARE a AS SELECT id, data FROM {t} WHERE data = ANY ($1) OR data = $2; PREPARE b AS SELECT data FROM {t} WHERE data <> ALL ($1);"
                f" ALTER TABLE {t} ADD COLUMN more int; EXECUTE b('{{x}}'); EXECUTE a('{{\\x000102}}', ''); DEALLOCATE ALL",
            )
        ),
    )

    # PREPARE and EXECUTE, also inside functions, EXPLAIN and CREATE TABLE AS
    for t, kind in KINDS:
        wire.simple(
            f"CREATE FUNCTION {t}_run() RETURNS text LANGUAGE plpgsql AS $$ DECLARE v {kind}; BEGIN EXECUTE 'EXECUTE q(1)' INTO v; RETURN md5(v); END $$"
        )
        wires[t].simple(
            f"PREPARE q AS SELECT data FROM {t} WHERE id = $1; PREPARE i AS INSERT INTO {t} VALUES ($1, $2) RETURNING data; PREPARE a AS UPDATE {t} SET data "
            "= data || $1 RETURNING data"
        )
    for change in (None, "ALTER TABLE {t} SET (fillfactor = 82)"):
        for sql in (
            "EXECUTE q(1)",
            "EXECUTE i(70, '\\x0001')",
            "EXECUTE a('\\x02')",
            "SELECT {t}_run() AS run",
            "SELECT parameter_types, from_sql FROM pg_prepared_statements ORDER BY name",
            "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) EXECUTE q(3)",
        ):
            for t, _ in KINDS:
                if change:
                    wire.simple(change.format(t=t))
            results = each(lambda w, t: undone(w, w.simple, sql.format(t=t)))
            if sql.startswith("EXPLAIN"):
                check(all("cached plan" not in str(r) and len(r) > 2 for r in results), f"{sql}{', changed' if change else ''}", results)
            else:
                same(f"{sql}{', changed' if change else ''}", results)

    # cursors
    for sql in (
        "SELECT data FROM {t} ORDER BY id",
        "SELECT data, id FROM {t} ORDER BY data",
        "SELECT data FROM {t} UNION SELECT data FROM {t} ORDER BY 1",
        "SELECT data FROM {t} WHERE id < 4 FOR UPDATE",
    ):
        for hold in ("", "SCROLL ", "NO SCROLL "):
            same(
                f"cursor {hold}{sql}",
                each(
                    lambda w, t: undone(
                        w,
                        lambda: [
                            w.simple(f"DECLARE c {hold}CURSOR FOR " + sql.format(t=t)),
                            w.simple("FETCH 2 FROM c"),
                            w.simple("FETCH ALL FROM c"),
                            outcome(w.simple, "FETCH BACKWARD 1 FROM c"),
                        ],
                    )
                ),
            )
    same(
        "binary cursor",
        each(lambda w, t: undone(w, lambda: [w.simple(f"DECLARE c BINARY CURSOR FOR SELECT data FROM {t} ORDER BY id"), w.simple("FETCH ALL FROM c")])),
    )
    same(
        "WHERE CURRENT OF",
        each(
            lambda w, t: undone(
                w,
                lambda: [
                    w.simple(f"DECLARE c CURSOR FOR SELECT id, data FROM {t} WHERE id < 4 FOR UPDATE"),
                    w.simple("FETCH 2 FROM c"),
                    w.simple(f"UPDATE {t} SET data = data || 'cursor' WHERE CURRENT OF c RETURNING data"),
                ],
            )
        ),
    )
    same(
        "cursor with parameters",
        each(
            lambda w, t: undone(
                w,
                lambda: [w.prepare("", f"DECLARE c CURSOR FOR SELECT data FROM {t} WHERE data = $1"), w.execute("", [b"\0\1\2"]), w.simple("FETCH ALL FROM c")],
            )
        ),
    )
    for t, kind in KINDS:
        wire.simple(f"CREATE PROCEDURE {t}_put(i int, d {kind}) LANGUAGE sql AS 'INSERT INTO {t} VALUES (i, d)'")
    same(
        "CALL with parameters",
        each(
            lambda w, t: undone(
                w, lambda: [w.prepare("", f"CALL {t}_put($1, $2)"), w.execute("", ["80", b"\0\1called"]), w.simple(f"SELECT data FROM {t} WHERE id = 80")]
            )
        ),
    )
    same(
        "cursor kept",
        each(
            lambda w, t: [
                w.simple(f"DECLARE kept CURSOR WITH HOLD FOR SELECT data FROM {t} ORDER BY data"),
                w.simple("FETCH ALL FROM kept"),
                w.simple("CLOSE kept"),
            ]
        ),
    )
    same("COPY out", each(lambda w, t: w.simple(f"COPY (SELECT id, data FROM {t} ORDER BY id) TO STDOUT")))

    # inside the server the type is what it is
    own = wires["own"]

    def value(sql):
        return [a[1][0].decode() for a in own.simple(sql) if a[0] == "row"]

    def inside(what, found, expected):
        check(found == expected, f"inside the server: {what}", found)

    inside("pg_typeof", value("SELECT pg_typeof(data) FROM own WHERE id = 1"), [own_kind])
    inside("pg_typeof above a subquery", value("SELECT pg_typeof(data) FROM (SELECT data FROM own ORDER BY data LIMIT 1) q"), [own_kind])
    own.simple("CREATE VIEW inside_view AS SELECT data FROM own ORDER BY data; CREATE TABLE inside_table AS SELECT data FROM own ORDER BY data;"
               " SELECT data INTO inside_into FROM own; CREATE RULE inside_rule AS ON DELETE TO inside_into DO INSTEAD SELECT data FROM own;"
               " CREATE TEMP TABLE inside_execute AS SELECT data || 'x' AS data FROM own")
    inside(
        "views and tables made of queries",
        value(
            "SELECT atttypid::regtype::text FROM pg_attribute WHERE attrelid IN ('inside_view'::regclass, 'inside_table'::regclass, 'inside_into'::regclass,"
            " 'inside_execute'::regclass) AND attnum > 0"
        ),
        [own_kind] * 4,
    )
    inside("the view's text has no cast", value("SELECT pg_get_viewdef('inside_view') LIKE '%::%'"), ["f"])
    wire.simple(
        "CREATE FUNCTION found() RETURNS text LANGUAGE plpgsql AS $$ DECLARE t text; u text; r record; c refcursor; BEGIN EXECUTE 'SELECT "
        "pg_typeof(q.data)::text FROM (SELECT data FROM own ORDER BY data) q LIMIT 1' INTO t;"
        " FOR r IN EXECUTE 'SELECT data FROM own LIMIT 1' LOOP t := t || pg_typeof(r.data); END LOOP; EXECUTE 'SELECT data FROM own LIMIT 1' INTO r; t := t "
        "|| pg_typeof(r.data);"
        " OPEN c FOR EXECUTE 'SELECT data FROM own'; FETCH c INTO r; RETURN t || pg_typeof(r.data); END $$"
    )
    wire.simple("CREATE FUNCTION planned() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN found(); END $$;"
                "CREATE FUNCTION sql_found() RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT pg_typeof(data)::text FROM own ORDER BY id LIMIT 1'")
    wire.simple(
        "CREATE TABLE noted (found text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE noted SET found = found(); RETURN NULL; "
        "END $$;"
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON noted DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()"
    )
    inside("dynamic statements of functions", value("SELECT found()"), [own_kind * 4])
    inside("those that run while planning", value("SELECT planned()"), [own_kind * 4])
    inside("those of SQL functions", value("SELECT sql_found()"), [own_kind])
    own.prepare("", "SELECT planned(), $1")
    inside("those that run while Bind plans", [a[1][0].decode() for a in own.execute("", ["x"]) if a[0] == "row"], [own_kind * 4])
    own.simple("PREPARE inner_one AS SELECT planned()")
    inside("those that run while EXECUTE plans", value("EXECUTE inner_one"), [own_kind * 4])
    own.simple("BEGIN; INSERT INTO noted VALUES ('nothing'); COMMIT")
    inside("deferred triggers at COMMIT", value("SELECT found FROM noted"), [own_kind * 4])

    # the setting
    own.simple("SET appendable_bytea.client_type = own")
    oid = int(value(f"SELECT '{own_kind}'::regtype::oid")[0])
    check(own.simple("SELECT data FROM own LIMIT 1")[0][1][0][2] == oid, "client_type = own shows the type in results")
    check(
        own.prepare("", "UPDATE own SET data = data || $1 WHERE data = $2")[0] == ("params", [oid if plain_kind == "bytea" else TEXT, oid]), "and in parameters"
    )
    own.simple("RESET appendable_bytea.client_type")
    check(own.simple("SELECT data FROM own LIMIT 1")[0][1][0][2] == plain_oid, f"and {plain_kind} again")


def first(host, port):
    """For first statements of new sessions: how they reach the column and what type its client sees."""
    Wire(host, port).simple("CREATE EXTENSION IF NOT EXISTS appendable_bytea")
    Wire(host, port).simple(
        "DROP TABLE IF EXISTS own, own_parent CASCADE; DROP FUNCTION IF EXISTS own_function, own_functions, own_same, own_with;"
        + SETUP.format(t="own", type="appendable_bytea", long=LONG["bytea"])
    )
    for what, sql in (
        ("table", "SELECT data FROM own"),
        ("join", "SELECT o.data FROM own_view v JOIN own o USING (id)"),
        ("RETURNING", "UPDATE own SET id = id RETURNING data"),
        ("literal", "SELECT 'a'::appendable_bytea"),
        ("view", "SELECT data FROM own_view"),
        ("partitioned table", "SELECT data FROM own_parent"),
        ("function", "SELECT own_function(1)"),
    ):
        simple = [a for a in Wire(host, port).simple(sql) if a[0] == "columns"][0][1][0][2]
        extended = [a for a in Wire(host, port).prepare("", sql) if a[0] == "columns"][0][1][0][2]
        wire = Wire(host, port)
        wire.simple(sql)
        second = [a for a in wire.simple(sql) if a[0] == "columns"][0][1][0][2]
        wire = Wire(host, port)
        shown = [a for a in wire.prepare("kept", sql) if a[0] == "columns"][0][1][0][2]
        for change in ("SELECT data FROM own", "SET search_path = public, pg_temp"):
            wire.simple(change)
            Wire(host, port).simple("ALTER TABLE own SET (fillfactor = 84); ALTER TABLE own_part SET (fillfactor = 84)")
            if shown == BYTEA:
                check([a for a in wire.execute("kept", []) if a[0] == "columns"][0][1][0][2] == shown, f"{what}, kept, after {change}", shown)
            else:
                got = outcome(wire.execute, "kept", [])
                check(
                    "C0A000 Mcached plan must not change result type" in str(got) or [a for a in got if a[0] == "columns"][0][1][0][2] == shown,
                    f"{what}, kept, after {change}",
                    got,
                )
        print(what, *("bytea" if oid == BYTEA else "own" for oid in (simple, extended, second)), sep="|", flush=True)


if __name__ == "__main__":
    {"statements": statements, "texts": texts, "jsons": jsons, "first": first}[sys.argv[3]](sys.argv[1], int(sys.argv[2]))
