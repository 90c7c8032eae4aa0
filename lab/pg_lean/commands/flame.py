"""pg-lean flame: where statements spend their time, as a flame graph of plan nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Optional

import psycopg
import typer
from psycopg import sql
from psycopg.rows import dict_row, tuple_row
from rich.console import Console

from pg_lean import flame as flames
from pg_lean import nested, progress
from pg_lean import waits as sampled
from pg_lean.activity import by_statement
from pg_lean.cluster import UserServer
from pg_lean.errors import LabError
from pg_lean.flame import Frame
from pg_lean.names import extension_schema, need_extension_schema
from pg_lean.paths import BUILD


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def flame(
        dsn: Optional[str] = typer.Option(
            None, "--dsn", help="The server; its profile is drawn if nothing else is asked for."
        ),
        statement: Optional[str] = typer.Option(
            None,
            "--statement",
            help="Run this one statement under EXPLAIN ANALYZE, in a transaction that is rolled back, and draw it.",
        ),
        pid: Optional[int] = typer.Option(None, "--pid", help="Draw the statement that this process runs now."),
        search_path: str = typer.Option(
            "pg_catalog", "--search-path", help="Where --statement finds names without a schema, such as: app, public."
        ),
        queryid: Optional[int] = typer.Option(None, "--queryid", help="Of the profile, this statement only."),
        file: Optional[Path] = typer.Option(
            None,
            "--file",
            exists=True,
            dir_okay=False,
            help="Draw a plan of EXPLAIN (ANALYZE, FORMAT JSON); no server is asked.",
        ),
        output: Optional[Path] = typer.Option(
            None,
            "--output",
            "-o",
            help="File to write: .html, .svg, or .folded for other tools; build/report/flame.html otherwise.",
        ),
        folded: bool = typer.Option(
            False, "--folded", help="Print folded stacks (microseconds) on standard output, and write no file."
        ),
        waits: bool = typer.Option(
            False, "--waits", help="Colors show what nodes waited for, from light_explain's samples, instead of kinds of nodes."
        ),
    ) -> None:
        """Draw the server's profile, one statement, or a plan as a flame graph: width is time, a box stands on the node that called it."""
        if sum(given is not None for given in (statement, pid, queryid, file)) > 1:
            raise LabError("--statement, --pid, --queryid and --file exclude each other")
        if waits and (statement is not None or folded):
            raise LabError("--waits is for pictures of the profile, of a running process and of kept plans", "Leave out --statement and --folded.")
        if search_path != "pg_catalog" and statement is None:
            raise LabError("--search-path is for --statement")
        if file is None and dsn is None:
            raise LabError("nothing to draw", "Name a server with --dsn, or a plan with --file.")
        if file is not None:
            root, title = flames.of_explain(file.read_bytes().decode(errors="replace")), f"Plan of {file.name}"
            about = "One execution."
        else:
            with UserServer(dsn).connect() as conn:
                root, title, about = draw(conn, statement, search_path, pid, queryid)
        if folded:
            sys.stdout.write(flames.folded(root))
            return
        path = output or BUILD / "report" / "flame.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            flames.svg(root, waits=waits)
            if path.suffix == ".svg"
            else (
                flames.folded(root)
                if path.suffix == ".folded"
                else flames.page(root, title, f"{about} Times of parallel workers are added up.", waits)
            )
        )
        console.print(path.resolve().as_uri(), highlight=False, soft_wrap=True)


def draw(
    conn: psycopg.Connection, statement: str | None, search_path: str, pid: int | None, queryid: int | None
) -> tuple[Frame, str, str]:
    """The tree that was asked for, its title, and a sentence about it."""
    conn.row_factory = dict_row
    if statement is not None:
        return (
            of_statement(conn, statement, search_path),
            " ".join(statement.split())[:200],
            "One execution under EXPLAIN ANALYZE, rolled back.",
        )
    schema = need_extension_schema(conn, "light_explain")
    if pid is not None:
        # the function, not the view: rows of a statement come together, those of functions' statements apart
        rows = conn.execute(
            "SELECT p.*, a.query, 1000 * extract(epoch FROM clock_timestamp() - p.started)::float8 AS elapsed_ms"
            f" FROM {schema}.light_explain_progress() WITH ORDINALITY p LEFT JOIN pg_stat_activity a USING (pid)"
            " WHERE coalesce(p.leader_pid, p.pid) = %s::int ORDER BY p.ordinality",
            (pid,),
        ).fetchall()
        if not rows:
            raise LabError(
                f"process {pid} shows no statement",
                "Statements are visible while they run with EXPLAIN ANALYZE, auto_explain.log_analyze or light_explain.profile, and to their role or "
                "pg_read_all_stats.",
            )
        return (
            of_running(sampled.of_running(conn, schema, rows)),
            f"Process {pid}",
            f"What it had done when it was looked at: {' '.join((rows[0]['query'] or '').split())[:200]}",
        )
    rows = conn.execute(f"SELECT * FROM {schema}.light_explain_profile").fetchall()
    if not any(queryid in (None, row["queryid"]) for row in rows):
        raise LabError(
            "the profile is empty" if queryid is None else f"the profile has no statement {queryid}",
            "It is filled while light_explain.profile and compute_query_id are on; you see your own statements, and all with pg_read_all_stats.",
        )
    return (
        nested.of_profile(sampled.of_profile(conn, schema, rows), queryid),
        "Profile" if queryid is None else f"Statement {queryid}",
        "All executions since the profile was last reset.",
    )


def of_statement(conn: psycopg.Connection, statement: str, search_path: str = "") -> Frame:
    """Run one statement under EXPLAIN ANALYZE and roll it back; own times are light_explain's where it is there, else they are computed.

    `search_path` is the statement's alone; empty: the session's.  The extended protocol takes one statement only, so that none
    after it can end the transaction.
    """
    schema = extension_schema(conn, "light_explain")
    rows: list[dict[str, Any]] = []
    with conn.transaction(force_rollback=True):
        path = conn.cursor(row_factory=tuple_row).execute("SELECT current_setting('search_path')").fetchone()[0]
        if search_path:
            conn.execute("SELECT set_config('search_path', %s::text, true)", (search_path,))
        try:
            plan = conn.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, prepare=True).fetchone()
        except psycopg.errors.SyntaxError as error:
            raise LabError(
                f"this is not one statement that EXPLAIN takes: {error.diag.message_primary}",
                "Give one SELECT, INSERT, UPDATE, DELETE, MERGE, or another statement that has a plan.",
            ) from None
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction) as error:
            raise LabError(
                f"the statement cannot run: {error.diag.message_primary}",
                f"Names without a schema are looked up in {search_path or path}: write the schema, or give --search-path.",
            ) from None
        # a trigger or a function of the statement may have set it
        conn.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.SQL(path)))
        if schema is not None:
            rows = conn.execute(f"SELECT * FROM {schema}.light_explain_last()").fetchall()
    if rows:
        return Frame("statement", children=flames.of_nodes(rows))
    return flames.of_explain(json.dumps(next(iter(plan.values()))))


def of_running(rows: list[dict[str, Any]]) -> Frame:
    """A running statement: own time is a node's total less its children's, including a call in progress if its time is known (progress.clock()).

    A statement of a function is drawn on the node of its caller that works, as it is now.
    """
    root = Frame("statements")
    callers: dict[int, tuple[Frame, Frame]] = {}
    for nodes in by_statement(rows):
        pid, outer = nodes[0]["pid"], nodes[0]["leader_pid"] is None and nodes[0]["pid"] not in callers
        top = progress.tree(nodes)
        if outer:  # when a statement of a function began, or what a worker has to do, is not known
            progress.clock(top, nodes[0]["elapsed_ms"])
        progress.reckon(top)
        own = {node.id: node.own_ms for node in top.walk()}
        frames = flames.of_nodes([{**row, "self_ms": own[row["node"]]} for row in nodes])
        if pid in callers:
            plan, works = callers[pid]
            works.own = max(0.0, works.own - sum(frame.total for frame in frames))
            works.children.append(Frame("in a function", children=frames, statement=True))
        else:
            plan = Frame(f"process {pid}" + (" (parallel worker)" if nodes[0]["leader_pid"] else ""), children=frames)
            root.children.append(plan)
        label = progress.current(top).label
        callers[pid] = plan, next(node for frame in frames for node in nested.nodes_of(frame) if node.name == label)
    return root
