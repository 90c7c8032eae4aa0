"""pg-lean flame: where statements spend their time, as a flame graph of plan nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Optional

import psycopg
import typer
from psycopg import sql
from psycopg.rows import dict_row
from rich.console import Console

from pg_lean import flame as flames
from pg_lean import progress
from pg_lean.activity import by_statement
from pg_lean.cluster import UserServer
from pg_lean.errors import LabError
from pg_lean.flame import Frame
from pg_lean.paths import BUILD


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def flame(
        dsn: Optional[str] = typer.Option(None, "--dsn", help="The server; its profile is drawn if nothing else is asked for."),
        statement: Optional[str] = typer.Option(None, "--statement", help="Run this under EXPLAIN ANALYZE, in a transaction that is rolled back, and draw it."),
        pid: Optional[int] = typer.Option(None, "--pid", help="Draw the statement that this process runs now."),
        queryid: Optional[int] = typer.Option(None, "--queryid", help="Of the profile, this statement only."),
        file: Optional[Path] = typer.Option(None, "--file", exists=True, dir_okay=False, help="Draw a plan of EXPLAIN (ANALYZE, FORMAT JSON); no server is asked."),
        output: Optional[Path] = typer.Option(None, "--output", "-o", help="File to write: .html, .svg, or .folded for other tools; build/report/flame.html otherwise."),
        folded: bool = typer.Option(False, "--folded", help="Print folded stacks (microseconds) on standard output, and write no file."),
    ) -> None:
        """Draw the server's profile, one statement, or a plan as a flame graph: width is time, a box stands on the node that called it."""
        if sum(given is not None for given in (statement, pid, queryid, file)) > 1:
            raise LabError("--statement, --pid, --queryid and --file exclude each other")
        if file is None and dsn is None:
            raise LabError("nothing to draw", "Name a server with --dsn, or a plan with --file.")
        if file is not None:
            root, title = flames.of_explain(file.read_text()), f"Plan of {file.name}"
            about = "One execution."
        else:
            server = UserServer(dsn)
            if statement is None:
                server.need_extension("light_explain")
            with server.connect() as conn:
                root, title, about = draw(conn, statement, pid, queryid)
        if folded:
            sys.stdout.write(flames.folded(root))
            return
        path = output or BUILD / "report" / "flame.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(flames.svg(root) if path.suffix == ".svg" else flames.folded(root) if path.suffix == ".folded"
                        else flames.page(root, title, f"{about} Times of parallel workers are added up."))
        console.print(path.resolve().as_uri(), highlight=False, soft_wrap=True)


def draw(conn: psycopg.Connection, statement: str | None, pid: int | None, queryid: int | None) -> tuple[Frame, str, str]:
    """The tree that was asked for, its title, and a sentence about it."""
    conn.row_factory = dict_row
    if statement is not None:
        return of_statement(conn, statement), " ".join(statement.split())[:200], "One execution under EXPLAIN ANALYZE, rolled back."
    if pid is not None:
        # the function, not the view: rows of a statement come together, those of functions' statements apart
        rows = conn.execute("SELECT p.*, a.query, 1000 * extract(epoch FROM clock_timestamp() - p.started)::float8 AS elapsed_ms FROM light_explain_progress() WITH ORDINALITY p LEFT JOIN pg_stat_activity a USING (pid)"
                            " WHERE coalesce(leader_pid, pid) = %s ORDER BY p.ordinality", (pid,)).fetchall()
        if not rows:
            raise LabError(f"process {pid} shows no statement",
                           "Statements are visible while they run with EXPLAIN ANALYZE, auto_explain.log_analyze or light_explain.profile, and to their role or pg_read_all_stats.")
        return of_running(rows), f"Process {pid}", f"What it had done when it was looked at: {' '.join((rows[0]['query'] or '').split())[:200]}"
    condition = sql.SQL(" WHERE queryid = {}").format(sql.Literal(queryid)) if queryid is not None else sql.SQL("")
    rows = conn.execute(sql.SQL("SELECT * FROM light_explain_profile") + condition).fetchall()
    if not rows:
        raise LabError("the profile is empty" if queryid is None else f"the profile has no statement {queryid}",
                       "It is filled while light_explain.profile and compute_query_id are on; you see your own statements, and all with pg_read_all_stats.")
    return flames.of_profile(rows), "Profile" if queryid is None else f"Statement {queryid}", "All executions since the profile was last reset."


def of_statement(conn: psycopg.Connection, statement: str) -> Frame:
    """Run it under EXPLAIN ANALYZE; own times are light_explain's where it is there, else they are reckoned."""
    with conn.transaction(force_rollback=True):
        plan = conn.execute(sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ") + sql.SQL(statement.strip().rstrip(";"))).fetchone()
        rows: list[dict[str, Any]] = []
        if conn.execute("SELECT FROM pg_extension WHERE extname = 'light_explain'").fetchone() is not None:
            rows = conn.execute("SELECT * FROM light_explain_last()").fetchall()
    if rows:
        return Frame("statement", children=flames.of_nodes(rows))
    return flames.of_explain(json.dumps(next(iter(plan.values()))))


def of_running(rows: list[dict[str, Any]]) -> Frame:
    """A running statement: own time is a node's total less its children's, also of a call that goes on where that can be told (progress.clock())."""
    root = Frame("statements")
    groups = by_statement(rows)
    for nodes in groups:
        below: dict[int, float] = {}
        for row in nodes:
            if row["parent"] is not None:
                below[row["parent"]] = below.get(row["parent"], 0.0) + (row["total_ms"] or 0.0)
        own = {row["node"]: max(0.0, (row["total_ms"] or 0.0) - below.get(row["node"], 0.0)) for row in nodes}
        # when a statement of a function began, or what a worker has to do, is not known
        if sum(group[0]["pid"] == nodes[0]["pid"] for group in groups) == 1 and nodes[0]["leader_pid"] is None:
            top = progress.tree(nodes)
            progress.clock(top, nodes[0]["elapsed_ms"])
            own = {node.id: node.own_ms for node in top.walk()}
        shown = [{**row, "self_ms": own[row["node"]]} for row in nodes]
        root.children.append(Frame(f"process {nodes[0]['pid']}" + (" (parallel worker)" if nodes[0]["leader_pid"] else ""), children=flames.of_nodes(shown)))
    return root
