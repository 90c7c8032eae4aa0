"""pg-lean top: running statements with their remaining time, and their plans while they run."""

from __future__ import annotations

import json
import time
from typing import Optional

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pg_lean import activity, screen, waits
from pg_lean.activity import Statement
from pg_lean.cluster import UserServer
from pg_lean.errors import LabError
from pg_lean.measure import to_json


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def top(dsn: str = typer.Option(..., "--dsn", help="The server."),
            every: float = typer.Option(1.0, "--every", min=0.2, max=60, help="Seconds between two samples."),
            since: Optional[str] = typer.Option(None, "--since", help="Show the history of statements since this time, such as 'yesterday 22:00'."),
            until: Optional[str] = typer.Option(None, "--until", help="... until this time."),
            once: bool = typer.Option(False, "--once", help="Take two samples half a second apart, print them, and exit."),
            as_json: bool = typer.Option(False, "--json", help="With --once: print JSON.")) -> None:
        """Show running statements: percent done, time left, the node that works, waits and locks; Enter opens a plan."""
        if as_json and not once:
            raise LabError("--json requires --once", "Add --once.")
        server = UserServer(dsn)
        period = None if since is None and until is None else (since or waits.ALWAYS[0], until or waits.ALWAYS[1])
        if not once:
            screen.Top(server, every, period).run()
            return
        with server.connect() as conn:
            watch = activity.Activity(conn, period)
            watch.look()
            time.sleep(0.5)
            statements = watch.look()
            watch.details(statements)
            reasons = [reason for reason in (watch.reason, watch.unseen()) if reason]
        if as_json:
            print(json.dumps([statement.as_dict() for statement in statements], default=to_json_or_text, indent=1))
            return
        console.print(table(statements))
        for reason in reasons:
            console.print(reason, highlight=False)


def to_json_or_text(value: object) -> object:
    """What JSON has no form for: as results write it, or as text."""
    try:
        return to_json(value)
    except TypeError:
        return str(value)


def table(statements: list[Statement]) -> Table:
    """All statements as a table for a terminal of any width."""
    shown = Table(pad_edge=False, header_style="bold")
    for title, justify in (("pid", "right"), ("user", "left"), ("done", "right"), ("left", "right"), ("for", "right"), ("now", "left"), ("statement", "left")):
        shown.add_column(title, justify=justify, no_wrap=title != "statement", overflow="ellipsis", max_width=None if title == "statement" else 28)
    for statement in statements:
        shown.add_row(*(Text(cell) for cell in screen.cells(statement)))
    return shown

