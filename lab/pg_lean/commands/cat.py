"""pg-lean cat: stream one value out of the database by slices, so that neither side holds it whole."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import BinaryIO, Iterator, Optional

import psycopg
import typer
from psycopg import sql
from rich.console import Console

from pg_lean.cluster import UserServer
from pg_lean.errors import LabError
from pg_lean.names import find_table, is_appendable, need_extension_schema, read_tables_only
from pg_lean.terminal import end_quietly

UNITS = {"": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def cat(
        table: str = typer.Argument(..., help="Table, with its schema if that is not on the role's search_path."),
        column: str = typer.Argument(..., help="Column of type appendable_bytea or bytea."),
        where: str = typer.Option(
            ..., "--where", help="Condition that picks one row, such as: id = 7. Its names are looked up in pg_catalog."
        ),
        dsn: str = typer.Option(..., "--dsn", help="The server."),
        output: Optional[str] = typer.Option(None, "--output", "-o", help="File to write; standard output otherwise."),
        slice: str = typer.Option("1MB", "--slice", help="Bytes in one piece, such as 256kB or 4MB (at most 256MB)."),
        start: int = typer.Option(0, "--start", min=0, help="First byte, counted from 0."),
    ) -> None:
        """Write the value of one row to standard output or a file, slice by slice, from one snapshot."""
        size = parse_size(slice)
        with UserServer(dsn).connect() as conn, contextlib.closing(
            slices(conn, table, column, where, size, start)
        ) as pieces:
            try:
                if output:
                    with open(output, "wb") as file:
                        copy(pieces, file)
                else:
                    copy(pieces, sys.stdout.buffer)
            except BrokenPipeError:
                end_quietly()
            except OSError as error:
                raise LabError(f"cannot write: {error}") from None


def parse_size(text: str) -> int:
    """Bytes of "64kB" or "4MB"."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if not found or found.group(2) not in UNITS or not 0 < int(found.group(1)) * UNITS[found.group(2)] <= 256 << 20:
        raise LabError(f'not a size: "{text}"', "Write bytes, or a number with kB or MB, up to 256MB.")
    return int(found.group(1)) * UNITS[found.group(2)]


def slices(conn: psycopg.Connection, table: str, column: str, where: str, size: int, start: int = 0) -> Iterator[bytes]:
    """The pieces of one value, all from one snapshot, however long it takes and even if other sessions append."""
    read_tables_only(conn)
    oid, name = find_table(conn, table)
    field = sql.Identifier(column)
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        kind = conn.execute(
            "SELECT t.typname, n.nspname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace"
            " WHERE a.attrelid = %s::oid AND a.attname = %s::name AND a.attnum > 0 AND NOT a.attisdropped",
            (oid, column),
        ).fetchone()
        if kind is None:
            raise LabError(f'column "{column}" of {table} does not exist')
        if kind == ("bytea", "pg_catalog"):
            measure, part, integer = "pg_catalog.octet_length", "pg_catalog.substr", "int4"
        elif is_appendable(conn, *kind) and kind[0] == "appendable_bytea":  # its functions for values of any length
            schema = need_extension_schema(conn, "appendable_bytea")
            measure, part, integer = f"{schema}.appendable_length", f"{schema}.appendable_substr", "int8"
        else:
            raise LabError(
                f'column "{column}" is of type {kind[0]}', "Only appendable_bytea and bytea can be streamed."
            )
        found = conn.execute(
            sql.SQL("SELECT tableoid, ctid, {}({}) FROM {} WHERE ").format(sql.SQL(measure), field, name)
            + sql.SQL(where + "\n LIMIT 2")
        ).fetchall()
        if len(found) != 1:
            raise LabError(
                f"{'no row' if not found else 'more than one row'} of {table} satisfies: {where}",
                "The condition must pick exactly one row, such as: id = 7.",
            )
        tableoid, ctid, length = found[0]
        if length is None:
            raise LabError(f'column "{column}" of that row is null')
        piece = sql.SQL("SELECT {}({}, (%s)::{}, (%s)::{}) FROM {} WHERE ctid = %s::tid AND tableoid = %s::oid").format(
            sql.SQL(part), field, sql.SQL(integer), sql.SQL(integer), name
        )
        for offset in range(start, length, size):
            row = conn.execute(piece, (offset + 1, size, ctid, tableoid), binary=True).fetchone()
            yield bytes(row[0])


def copy(pieces: Iterator[bytes], file: BinaryIO) -> None:
    for piece in pieces:
        file.write(piece)
    file.flush()
