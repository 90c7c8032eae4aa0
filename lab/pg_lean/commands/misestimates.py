"""pg-lean misestimates: plan nodes whose estimates are wrong in production, and what may be tried."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Optional

import typer
from psycopg.rows import dict_row
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pg_lean.cluster import UserServer
from pg_lean.names import need_extension_schema, quoted
from pg_lean.screen import duration, short

#: A node explains its error itself if the nodes below leave at least so much of it.
OWN = 3.0


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def misestimates(
        dsn: str = typer.Option(..., "--dsn", help="The server, with light_explain's profile."),
        limit: int = typer.Option(20, "--limit", min=1, max=1000, help="Nodes to show, those first that take the most time."),
        as_json: bool = typer.Option(False, "--json", help="Print JSON."),
        output: Optional[Path] = typer.Option(None, "--output", "-o", help="Write a page (HTML) instead."),
    ) -> None:
        """Show where the planner expected ten times too much or too little, over all executions in the profile, and what may be tried."""
        with UserServer(dsn).connect() as conn:
            schema = need_extension_schema(conn, "light_explain")
            conn.row_factory = dict_row
            found = conn.execute(f"SELECT * FROM {schema}.light_explain_misestimates LIMIT %s::bigint", (limit,)).fetchall()
        for row in found:
            row["advice"] = advice(row)
        if as_json:
            print(json.dumps(found, indent=1, default=str))
        elif output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(page(found))
            console.print(output.resolve().as_uri(), highlight=False, soft_wrap=True)
        else:
            show(found, console)


def advice(row: dict[str, Any]) -> str:
    """What may be tried for one node; never a promise, since only a trial tells."""
    kind = row["node_type"]
    table = quoted(row["relation"]) if row["relation"] else "its_table"
    if row["own_factor"] < OWN:
        return "Most of it comes from the nodes below: begin there."
    tried = {
        "Function Scan": "Tell the planner how many rows the function returns: ALTER FUNCTION ... ROWS n.",
        "Values Scan": "The list is as long as it was written; nothing is to be set.",
        "CTE Scan": "The planner knows little of a CTE's result: try NOT MATERIALIZED, or a temporary table with ANALYZE.",
    }.get(kind, "")
    if not tried and kind.endswith("Scan"):
        tried = (
            f"Is ANALYZE {table} recent? If its condition names columns that go together: CREATE STATISTICS ON a, b FROM {table}; "
            f"if single values stand out: ALTER TABLE {table} ALTER COLUMN c SET STATISTICS 1000; for an expression: CREATE STATISTICS ON (expression) FROM "
            f"{table}. Then ANALYZE {table}."
        )
    if not tried and ("Join" in kind or kind == "Nested Loop"):
        tried = (
            "Look at n_distinct of the joined columns in pg_stats, and set it where it is wrong: ALTER TABLE t ALTER COLUMN c SET "
            "(n_distinct = n); then ANALYZE. Joins on several columns are taken for independent."
        )
    if not tried and ("Aggregate" in kind or kind in ("Group", "Unique", "HashSetOp", "SetOp")):
        tried = "If it groups by several columns or by an expression: CREATE STATISTICS (ndistinct) ON a, b FROM t; or ON (expression) FROM t; then ANALYZE t."
    if not tried:
        tried = "Look at the conditions of this node with EXPLAIN."
    if row["than_expected"] == "less":
        tried = "Under LIMIT, EXISTS or a merge join, the node above may have needed no more rows; then nothing is wrong. Otherwise: " + tried
    return tried


def show(found: list[dict[str, Any]], console: Console) -> None:
    if not found:
        console.print("No node of the profile returned ten times more or less than was expected.")
        return
    table = Table(pad_edge=False, header_style="bold", show_lines=True)
    for title, justify in (
        ("node", "left"),
        ("rows", "right"),
        ("expected", "right"),
        ("factor", "right"),
        ("runs", "right"),
        ("own time", "right"),
        ("statement, and what may be tried", "left"),
    ):
        table.add_column(title, justify=justify, overflow="fold")
    for row in found:
        table.add_row(
            *(
                Text(str(cell))
                for cell in (
                    row["label"],
                    short(row["rows"]),
                    short(row["plan_rows"]),
                    f"{short(row['factor'])} {row['than_expected']}",
                    short(row["executions"]),
                    duration(row["self_ms"] / 1000),
                    f"{' '.join((row['query'] or str(row['queryid'])).split())[:200]}\n{row['advice']}",
                )
            )
        )
    console.print(table)


def page(found: list[dict[str, Any]]) -> str:
    """The same as a complete page."""
    title = "Where estimates are wrong"
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta '
        'name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>body{{font:15px/1.45 system-ui,sans-serif;margin:1em auto;max-width:60em;padding:0 1em}}"
        f"h2{{font-size:1em;margin:1.5em 0 .2em}}"
        f"code{{overflow-wrap:anywhere}}p{{margin:.2em 0}}</style></head><body><h1>{title}</h1>"
        "<p>Nodes that returned ten times more or less rows than the planner expected, over all executions in the profile; the most expensive first.</p>"
    ]
    if not found:
        parts.append("<p>None.</p>")
    for row in found:
        parts.append(
            f"<h2>{html.escape(row['label'])}: {short(row['factor'])} times {row['than_expected']} than expected</h2>"
            f"<p>{short(row['rows'])} rows a loop, {short(row['plan_rows'])} expected; {short(row['executions'])} executions, "
            f"{duration(row['self_ms'] / 1000)} of self time in them.</p>"
            f"<p><code>{html.escape(' '.join((row['query'] or str(row['queryid'])).split()))}</code></p><p>{html.escape(row['advice'])}</p>"
        )
    return "\n".join([*parts, "</body></html>\n"])
