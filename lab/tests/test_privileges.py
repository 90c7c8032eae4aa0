"""A role without privileges calls every function and reads every view of the project.

Each argument is null, a plain value, or names a table of another role, which that role
may not read and which its owner has locked.  No call may wait for the lock, show a value of
the table, change it, fail with an internal error or end the server.
"""

import itertools
import re

import psycopg
import pytest

from pg_lean.cluster import LIBRARIES, Cluster

SECRET = "the owner's secret value"
OTHERS = """
CREATE ROLE owner LOGIN; CREATE ROLE stranger LOGIN;
CREATE SCHEMA theirs AUTHORIZATION owner;
SET ROLE owner;
CREATE TABLE theirs.kept (id int PRIMARY KEY, data appendable_bytea, note appendable_text, plain bytea, v text);
INSERT INTO theirs.kept SELECT g, convert_to(repeat(s, 500), 'UTF8'), repeat(s, 500), convert_to(s, 'UTF8'), s FROM generate_series(1, 50) g,
    (VALUES (%s)) s(s);
CREATE INDEX kept_index ON theirs.kept (v);
GRANT USAGE ON SCHEMA theirs TO stranger;
RESET ROLE;
"""
FUNCTIONS = """
SELECT p.oid::regprocedure::text, p.prokind, p.proargtypes::regtype[]::text[], n.nspname || '.' || quote_ident(p.proname), p.proretset,
    'internal'::regtype = ANY (p.proargtypes::regtype[]) OR p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    JOIN pg_extension e ON e.oid = d.refobjid
WHERE e.extname = ANY (%s) ORDER BY 1
"""
VIEWS = """
SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    JOIN pg_extension e ON e.oid = d.refobjid
WHERE e.extname = ANY (%s) AND c.relkind IN ('r', 'v', 'm') ORDER BY 1
"""
#: SQLSTATE of what must not happen: a lock or a time that ran out, the server's end, internal errors, out of memory.
WRONG = re.compile("55P03|57014|57P0.|08...|XX...|53...")
#: Sizes are public and take a lock, as those of the server's pg_total_relation_size() are and do.
LIKE_THE_SERVERS = "appendable_bytea_total_size(regclass)"


@pytest.fixture(scope="module")
def server():
    cluster = Cluster(name="test", preload=list(LIBRARIES), settings={"max_worker_processes": "16"})
    for name in LIBRARIES:
        assert cluster.has_library(name), f"{name} is not installed for this server (make install)"
    with cluster:
        with cluster.connect() as conn:
            conn.execute("SET search_path = public")
            conn.execute(OTHERS.replace("%s", "'" + SECRET.replace("'", "''") + "'"))
        yield cluster


def stranger(server):
    conn = psycopg.connect(server.conninfo.replace("user=postgres", "user=stranger"), autocommit=True)
    conn.execute("SET search_path = public; SET lock_timeout = '1s'; SET statement_timeout = '10s'; SET client_min_messages = error")
    return conn


def values(kind: str, oid: int) -> list[str]:
    """What an argument of this type is: null, plain values, and what names the owner's objects."""
    array = kind.endswith("[]") or kind == "anyarray"
    base = kind.removesuffix("[]") if kind.endswith("[]") else "int" if kind == "anyarray" else kind
    found = {"regclass": [f"{oid}"], "oid": [f"{oid}"], "name": ["data", "id"], "text": ["theirs.kept", "data", "seq"], "cstring": ["x"], "boolean": ["true"],
             "bytea": ["\\x01"], "appendable_bytea": ["\\x01"], "appendable_text": ["x"], "jsonb": ["{}"], "json": ["{}"]}.get(base, ["1", "0"])
    return [f"NULL::{base}{'[]' if array else ''}", *(f"ARRAY['{value}']::{base}[]" if array else f"'{value}'::{base}" for value in found)]


def calls(rows: list[tuple], oid: int) -> list[tuple[str, str]]:
    found = []
    for signature, kind, types, name, _, internal in rows:
        if internal or signature.endswith(LIKE_THE_SERVERS) or any(one in ("anyelement", "record", "anyenum") for one in types):
            continue
        choices = [values(one, oid) for one in types]
        picked = list(itertools.islice(itertools.product(*(choice[1:] for choice in choices)), 12))
        for arguments in [[choice[0] for choice in choices], *picked]:
            call = f"{name}({', '.join(arguments)})"
            found.append((signature, f"CALL {call}" if kind == "p" else f"SELECT ({call})::text"))
    return found


def test_no_function_waits_for_shows_or_changes_what_is_somebody_elses(server):
    with server.connect() as conn:
        rows = conn.execute(FUNCTIONS, (list(LIBRARIES),)).fetchall()
        (oid,) = conn.execute("SELECT 'theirs.kept'::regclass::oid").fetchone()
        before = conn.execute("SELECT md5(string_agg(k::text, '' ORDER BY id)) FROM theirs.kept k").fetchone()
    wrong, called = [], set()
    with server.connect() as owner, stranger(server) as conn:
        owner.execute("BEGIN; LOCK TABLE theirs.kept IN ACCESS EXCLUSIVE MODE")
        pid = conn.info.backend_pid
        for signature, statement in calls(rows, oid):
            called.add(signature)
            try:
                shown = repr(conn.execute(statement).fetchall() if statement.startswith("SELECT") else "")
                if SECRET in shown or SECRET.encode().hex() in shown:
                    wrong.append(f"shows a value: {statement}")
            except psycopg.Error as error:
                if error.sqlstate is None or WRONG.fullmatch(error.sqlstate):
                    wrong.append(f"{error.sqlstate}: {statement}: {str(error).splitlines()[0]}")
                if conn.closed:
                    pytest.fail(f"the session ended: {statement}")
        assert conn.info.backend_pid == pid
        owner.execute("ROLLBACK")
    assert not wrong, "\n".join(wrong)
    assert len(called) > 100
    with server.connect() as conn:
        assert conn.execute("SELECT md5(string_agg(k::text, '' ORDER BY id)) FROM theirs.kept k").fetchone() == before
        assert conn.execute("SELECT count(*) FROM appendable_bytea_check()").fetchone() == (0,)


def test_no_view_shows_rows_of_another_role(server):
    with psycopg.connect(server.conninfo.replace("user=postgres", "user=owner"), autocommit=True) as owner, stranger(server) as conn:
        owner.execute("SET light_explain.enabled = on")
        owner.execute("CREATE TEMP TABLE mine AS SELECT * FROM theirs.kept")
        for _ in range(3):
            owner.execute(f"SELECT count(*) FROM theirs.kept WHERE v = '{SECRET.replace(chr(39), chr(39) * 2)}'")
            owner.execute(f"EXPLAIN (ANALYZE) SELECT count(*) FROM mine WHERE v = '{SECRET.replace(chr(39), chr(39) * 2)}'")
        with server.connect() as superuser:
            views = [name for name, in superuser.execute(VIEWS, (list(LIBRARIES),)).fetchall()]
        assert len(views) > 5
        for view in views:
            try:
                shown = repr(conn.execute(f"SELECT v::text FROM {view} v").fetchall())
            except psycopg.errors.InsufficientPrivilege:
                continue
            assert "secret value" not in shown, view
            assert "theirs.kept" not in shown, view
