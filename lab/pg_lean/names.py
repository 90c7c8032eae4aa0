"""Names in a server that belongs to others: nothing is found by a search_path in which another role may create objects.

Sessions look names up in pg_catalog (cluster.py).  Objects of an extension are named with the schema that pg_extension
records.  A schema such as public may contain functions of any role, so arguments have exactly the declared types:
PostgreSQL prefers such a function to all others, and there can be only one.
"""

from __future__ import annotations

import re

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from pg_lean.errors import LabError, Unavailable

#: Kinds of relations whose rows are read: a view runs functions of its owner with the privileges of its reader.
TABLES = {"r": "table", "p": "partitioned table", "m": "materialized view"}
OTHERS = {
    "v": "a view",
    "f": "a foreign table",
    "i": "an index",
    "I": "an index",
    "S": "a sequence",
    "c": "a composite type",
    "t": "a TOAST table",
}


def extension_schema(conn: psycopg.Connection, name: str) -> str | None:
    """The schema of an extension in this database, quoted, or None if the extension is not there."""
    found = (
        conn.cursor(row_factory=tuple_row)
        .execute(
            "SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
            " WHERE e.extname = %s::name",
            (name,),
        )
        .fetchone()
    )
    return sql.Identifier(found[0]).as_string(conn) if found else None


def need_extension_schema(conn: psycopg.Connection, name: str) -> str:
    """The same, or Unavailable, which says how to get the extension."""
    found = extension_schema(conn, name)
    if found is None:
        raise Unavailable(
            f'extension "{name}" is not installed in this database',
            f"Install it with make install, then: CREATE EXTENSION {name};",
        )
    return found


def is_appendable(conn: psycopg.Connection, type_name: str, schema: str) -> bool:
    """Is that type appendable_bytea's?  Another role's type of that name has casts and functions of that role."""
    mine = extension_schema(conn, "appendable_bytea")
    return type_name in ("appendable_bytea", "appendable_text") and sql.Identifier(schema).as_string(conn) == mine


def quoted(name: str) -> str:
    """A name as SQL writes it, to be shown to people: quotes only if it needs them."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) else '"' + name.replace('"', '""') + '"'


def name_parts(table: str) -> list[str]:
    """Split schema.table or table; quotes as in SQL."""
    part = r'"((?:[^"]|"")+)"|([^\s".]+)'
    if not re.fullmatch(rf"\s*(?:{part})(?:\.(?:{part}))?\s*", table):
        raise LabError(f"not a table's name: {table}", 'Write table, schema.table, or "Odd schema"."Odd table".')
    return [quoted.replace('""', '"') or plain.lower() for quoted, plain in re.findall(part, table)]


def find_table(conn: psycopg.Connection, table: str) -> tuple[int, sql.Composable]:
    """OID and qualified name of a table that the user named.

    A name without a schema is looked up in the search_path that the server gives to this role, as psql does.  This is the only
    statement that runs with that path, and it contains no name without a schema.
    """
    name = sql.SQL(".").join(map(sql.Identifier, name_parts(table)))
    cursor = conn.cursor(row_factory=tuple_row)
    with conn.transaction(force_rollback=True):
        cursor.execute("SET LOCAL search_path TO DEFAULT")
        oid = cursor.execute(
            "SELECT pg_catalog.to_regclass(%s::pg_catalog.text)::pg_catalog.oid", (name.as_string(conn),)
        ).fetchone()[0]
    found = (
        oid
        and cursor.execute(
            "SELECT n.nspname, c.relname, c.relkind::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
            " ON n.oid = c.relnamespace WHERE c.oid = %s::oid",
            (oid,),
        ).fetchone()
    )
    if not found:
        raise LabError(
            f"relation {table} does not exist", "Name it with its schema, if that is not on the role's search_path."
        )
    if found[2] not in TABLES:
        raise LabError(
            f"{table} is {OTHERS.get(found[2], 'no table')}",
            "Name a table: it is read with your privileges, and must run no code of others.",
        )
    return oid, sql.Identifier(*found[:2])


def read_tables_only(conn: psycopg.Connection) -> None:
    """Let the session read no view, also if a table is replaced by one; servers before August 2024 cannot."""
    conn.execute(
        "SELECT set_config(name, 'view, foreign-table', false) FROM pg_catalog.pg_settings"
        " WHERE name = 'restrict_nonsystem_relation_kind'"
    )
