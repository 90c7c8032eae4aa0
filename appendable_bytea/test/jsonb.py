#!/usr/bin/env python3
"""Random JSON documents in a column of jsonb and in one of appendable_jsonb, side by side.

Documents of all sizes, compressed or not, are changed by random statements, which set both
columns of a row to the same expression; some are rolled back.  After each change random paths
are read of both columns by each operator and function that reads a part of a value, and the bytes of both
are compared.  Sessions with an old snapshot compare as well, after later changes.

With --damage, bytes of documents are changed at random.  Then each answer must be an error or JSON,
and the server must survive.

    jsonb.py --host DIR --port N --user NAME [--seconds S] [--seed N] [--damage]

Ends with status 0 only if nothing differed.
"""

import argparse
import json
import random
import sys
import time

from stress import ServerError, Session

SETUP = """
DROP TABLE IF EXISTS j, damaged;
CREATE EXTENSION IF NOT EXISTS appendable_bytea;
CREATE TABLE j (id int PRIMARY KEY, own appendable_jsonb, plain jsonb) WITH (fillfactor = 50);
CREATE TABLE damaged (id int PRIMARY KEY, bytes bytea, own appendable_jsonb);
CREATE OR REPLACE FUNCTION forge(bytea) RETURNS appendable_jsonb AS 'appendable_bytea', 'appendable_from_bytea' LANGUAGE C IMMUTABLE STRICT;
CREATE OR REPLACE FUNCTION raw(appendable_jsonb) RETURNS bytea AS 'appendable_bytea', 'appendable_to_bytea' LANGUAGE C IMMUTABLE STRICT;
"""

WORDS = ["a", "b", "aa", "key", "messages", "content", "l\u00e4nge", "\u20ac", "", " ", "0", "1", "-1", "quote'\"\\", "title", "nothing"]

#: Expressions that read a part of a column; {c} is the column.
READS = [
    "{c} -> {key}", "{c} ->> {key}", "{c} -> {n}", "{c} ->> {n}", "{c} #> {path}", "{c} #>> {path}", "{c} ? {key}", "{c}{subscripts}",
    "jsonb_extract_path({c}, VARIADIC {path})", "jsonb_extract_path_text({c}, VARIADIC {path})",
    "CASE jsonb_typeof({c}) WHEN 'array' THEN jsonb_array_length({c}) END", "{c} -> {key} -> {n}", "jsonb_typeof({c} #> {path})",
    "{c} -> {key} -> {n} ->> {key}", "{c} #> {path} -> {n}", "{c} -> {n} #> {path}", "{c} -> {key} ? {key}",
    "CASE jsonb_typeof({c} #> {path}) WHEN 'array' THEN jsonb_array_length({c} #> {path}) END",
]

#: The same of all of a column.
WHOLE = ["{c}", "md5({c}::text)", "{c} || '1'", "{c} = '1'", "jsonb_path_query_array({c}, '$.**')", "jsonb_hash({c})", "{c}::json"]

#: Changes of a document; each is an expression over the old value as jsonb.
CHANGES = [
    "jsonb_set({c}, {path}, {value})", "jsonb_set({c}, {path}, {value}, false)", "{c} #- {path}", "{c} - {key}", "{c} || {value}",
    "jsonb_insert({c}, {path}, {value})", "jsonb_insert({c}, {path}, {value}, true)", "{document}",
]

SETTINGS = [
    "store_differences = on", "store_differences = off", "compress_new = on", "compress_new = off", "max_pieces = 8", "max_pieces = 256",
]


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def array(path):
    return "ARRAY[" + ", ".join(quote(str(step)) for step in path) + "]::text[]"


def scalar(rng):
    kind = rng.randrange(7)
    if kind < 3:
        return "".join(rng.choice("abcdefghij klmnop\u00e4\u20ac\"\\") for _ in range(rng.choice((0, 3, 20, 200, 2000))))
    if kind == 3:
        return rng.choice((True, False, None))
    return rng.choice((rng.randrange(10), rng.randrange(10**9), rng.randrange(10**30), rng.random(), -1.5))


def document(rng, bytes_left, depth=0):
    """A random document of some size."""
    if bytes_left < 30 or depth > 6:
        return scalar(rng)
    n = rng.choice((0, 1, 2, 5, 31, 32, 33, 70, 300))
    children = []
    while len(children) < n and bytes_left > 0:
        child = document(rng, bytes_left // rng.choice((1, 2, 20)), depth + 1)
        bytes_left -= len(json.dumps(child)) + 8
        children.append(child)
    if rng.random() < 0.5:
        return children
    return {(rng.choice(WORDS) if rng.random() < 0.5 else rng.choice(WORDS) + str(rng.randrange(1000))): child for child in children}


def path_of(rng, value):
    """A path into a document; at times to nothing."""
    path = []
    while isinstance(value, (dict, list)) and value and rng.random() < 0.85:
        if isinstance(value, dict):
            step = rng.choice(list(value))
            value = value[step]
        else:
            step = rng.randrange(-len(value), len(value))
            value = value[step]
        path.append(step)
    if rng.random() < 0.2:
        path.append(rng.choice((*WORDS, 0, -1, 5000)))
    return path


def parts(rng, value, change=False):
    """The random parts of the templates, for a document."""
    path = path_of(rng, value)
    if change and not path:
        path = [rng.choice(WORDS)]
    steps = path or [rng.choice(WORDS)]
    numbers = [step for step in path if isinstance(step, int)] or [rng.choice((0, 1, -1, 31, 32, 33, 10**6))]
    keys = [step for step in steps if isinstance(step, str)] or [rng.choice(WORDS)]
    return {
        "path": array(path), "key": quote(keys[0]), "n": f"({numbers[0]})",
        "subscripts": "".join(f"[{step}]" if isinstance(step, int) else f"[{quote(step)}]" for step in steps),
        "value": quote(json.dumps(document(rng, rng.choice((1, 100, 5000))))) + "::jsonb",
        "document": quote(json.dumps(document(rng, rng.choice(SIZES)))) + "::jsonb",
    }


#: The least number of changes, also on a busy machine.
LEAST = 40

SIZES = (1, 100, 3000, 20000, 60000, 200000)


class Difference(Exception):
    """Both columns gave different answers."""


def outcome(session, sql):
    try:
        return session.query(sql)
    except ServerError as e:
        return e.sqlstate


def compare(rng, session, i):
    """Read a row's two columns in several ways."""
    row = session.query(f"SELECT plain::text, own::text IS NOT DISTINCT FROM plain::text, own::jsonb IS NOT DISTINCT FROM plain,"
                        f" appendable_jsonb_send(own) IS NOT DISTINCT FROM jsonb_send(plain) FROM j WHERE id = {i}")[0]
    if row[1:4] != ["t"] * 3:
        raise Difference(f"row {i}: {row[1:]}")
    value = json.loads(row[0]) if row[0] is not None else None
    for _ in range(6):
        expression = rng.choice(READS).format(c="{c}", **parts(rng, value))
        found = [outcome(session, f"SELECT ({expression.replace('{c}', c)})::text FROM j WHERE id = {i}") for c in ("own", "plain")]
        if found[0] != found[1]:
            raise Difference(f"row {i}: {expression}: {str(found[0])[:300]} where jsonb has {str(found[1])[:300]}")
    return value


def change(rng, session, i, value):
    """Change both columns of a row; an error must be the same for both."""
    names = parts(rng, value, change=True)
    if rng.random() < 0.3:
        assignments = ", ".join(f"{c}{names['subscripts']} = {names['value']}" for c in ("own", "plain"))
        alone = [f"{c}{names['subscripts']} = {names['value']}" for c in ("own", "plain")]
    else:
        expression = rng.choice(CHANGES).format(c="{c}", **names)
        alone = [f"{c} = " + expression.replace("{c}", c) for c in ("own", "plain")]
        assignments = ", ".join(alone)
    session.query("BEGIN")
    if rng.random() < 0.2:
        session.query(f"SAVEPOINT s; UPDATE j SET own = {names['document']} WHERE id = {i}; ROLLBACK TO s")
    found = outcome(session, f"UPDATE j SET {assignments} WHERE id = {i}")
    if isinstance(found, str):
        session.query("ROLLBACK")
        errors = [outcome(session, f"UPDATE j SET {one} WHERE id = {i}") for one in alone]
        if errors[0] != errors[1] or not isinstance(errors[0], str):
            raise Difference(f"row {i}: {alone[0][:300]}: {errors}")
        return False
    session.query("ROLLBACK" if rng.random() < 0.15 else "COMMIT")
    return True


def sizes_reach_chunks(session):
    return int(session.query("SELECT values_in_chunks FROM appendable_bytea_stats('j')")[0][0])


def run(args, rng, connect):
    session, old = connect(), connect()
    session.query(SETUP)
    rows = 8
    for i in range(rows):
        size = SIZES[i % len(SIZES)]
        value = document(rng, size)
        while len(json.dumps(value)) < size // 2:
            value = [value, document(rng, size)]
        text = quote(json.dumps(value))
        session.query(f"INSERT INTO j VALUES ({i}, {text}, {text})")
    changes = done = snapshot = 0
    in_chunks = sizes_reach_chunks(session)
    end = time.monotonic() + args.seconds
    while changes < LEAST or time.monotonic() < end:
        if rng.random() < 0.1:
            session.query("SET appendable_bytea." + rng.choice(SETTINGS))
        if not snapshot:
            old.query("BEGIN ISOLATION LEVEL REPEATABLE READ")
            before = old.query("SELECT id, md5(plain::text) FROM j ORDER BY id")
            snapshot = 1
        i = rng.randrange(rows)
        value = compare(rng, session, i)
        changes += 1
        done += change(rng, session, i, value)
        compare(rng, session, i)
        if rng.random() < 0.1:
            for k in range(rows):
                compare(rng, old, k)
            if old.query("SELECT id, md5(own::text) FROM j ORDER BY id") != before:
                raise Difference("an old snapshot has other values than before")
            old.query("COMMIT")
            snapshot = 0
        if rng.random() < 0.03:
            session.query("CALL appendable_compact('j')")
        if rng.random() < 0.03:
            session.query("VACUUM j")
        if rng.random() < 0.1:
            in_chunks = max(in_chunks, sizes_reach_chunks(session))
    if old.query("SELECT count(*) FROM j a JOIN j b ON a.own = b.own") != old.query("SELECT count(*) FROM j a JOIN j b ON a.plain = b.plain"):
        raise Difference("a join")
    order = [session.query(f"SELECT string_agg(id::text, ' ' ORDER BY {c}, id) FROM j") for c in ("own", "plain")]
    if order[0] != order[1]:
        raise Difference(f"the order: {order}")
    problems = session.query("SELECT * FROM appendable_bytea_check()")
    if problems:
        raise Difference(f"check: {problems}")
    print(f"{changes} changes, {done} of them done; at most {in_chunks} values in chunks")
    if not done or not in_chunks:
        raise Difference("nothing was done")


#: Errors that a damaged document may give: damage, and those of a document of another shape.
ALLOWED = ("XX001", "22023", "22P02", "22003", "42804")


def damage(args, rng, connect):
    """Change bytes of documents, and read them."""
    session = connect()
    session.query(SETUP)
    session.query("SET appendable_bytea.compress_new = off; SET appendable_bytea.store_differences = off")
    tried = damaged = 0
    end = time.monotonic() + args.seconds
    while tried < LEAST * 12 or time.monotonic() < end:
        value = document(rng, rng.choice((100, 3000, 60000)))
        session.query(f"DELETE FROM damaged; INSERT INTO damaged SELECT 1, raw(d) FROM (SELECT {quote(json.dumps(value))}::appendable_jsonb AS d) q")
        length = int(session.query("SELECT length(bytes) FROM damaged")[0][0])
        for _ in range(12):
            # headers and entries are more often at the start
            at = rng.randrange(1, length + 1) if rng.random() < 0.4 else rng.randrange(1, min(length, 400) + 1)
            new = bytes(rng.choice((0, 1, 127, 128, 255, rng.randrange(256))) for _ in range(rng.choice((1, 1, 2, 4))))[: length - at + 1]
            cut = rng.random() < 0.1
            expression = f"substr(bytes, 1, {rng.randrange(length + 1)})" if cut else f"overlay(bytes PLACING '\\x{new.hex()}' FROM {at})"
            session.query(f"UPDATE damaged SET own = forge({expression})")
            for _ in range(6):
                read = rng.choice([*READS, *WHOLE])
                expression = read.format(c="own", **parts(rng, value))
                # the text of a damaged string is not always one
                found = outcome(session, f"SELECT md5(({expression})::text) FROM damaged")
                tried += 1
                if isinstance(found, str):
                    damaged += found == "XX001"
                    if found not in ALLOWED:
                        raise Difference(f"{expression[:300]} of {json.dumps(value)[:100]} with {new.hex()} at {at} (cut: {cut}): {found}")
    print(f"{tried} reads of damaged documents, {damaged} found the damage")
    if not damaged or damaged == tried:
        raise Difference("the damage was found never, or always")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--user", required=True)
    parser.add_argument("--dbname", default="postgres")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--damage", action="store_true")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    try:
        (damage if args.damage else run)(args, random.Random(args.seed), lambda: Session(args.host, args.port, args.dbname, args.user))
    except (Difference, ConnectionError) as e:
        print(f"{type(e).__name__}: {e}")
        sys.exit(1)


if __name__ == "__main__":
    main()
