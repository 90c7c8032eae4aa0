"""pg-lean follow: tail -f of a value in a row."""

from __future__ import annotations

import contextlib
import sys

import typer
from rich.console import Console
from rich.markup import escape

from pg_lean.cluster import UserServer
from pg_lean.following import Follower
from pg_lean.terminal import end_quietly


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def follow(
        table: str = typer.Argument(..., help="Table, with its schema if that is not on the role's search_path."),
        column: str = typer.Argument(..., help="Column of type appendable_text or appendable_bytea."),
        where: str = typer.Option(
            ..., "--where", help="Condition that picks one row, such as: id = 7. Its names are looked up in pg_catalog."
        ),
        dsn: str = typer.Option(..., "--dsn", help="The server; of several hosts the one that is there."),
        start: int = typer.Option(
            -2000, "--start", help="First byte, counted from 0; negative: so many bytes before the end, in whole lines."
        ),
        lines: bool = typer.Option(False, "--lines", help="Write whole lines only."),
        every: float = typer.Option(
            1.0, "--every", min=0.05, max=3600, help="Seconds between two checks, if appends do not notify."
        ),
    ) -> None:
        """Write the end of one row's value, and then everything appended to it, until interrupted; reconnect if the server or the connection fails."""
        said = Console(stderr=True, soft_wrap=True)
        follower = Follower(
            UserServer(dsn),
            table,
            column,
            where,
            start,
            lines,
            every,
            lambda text: said.print(escape(text), highlight=False),
        )
        try:
            with contextlib.closing(follower.pieces()) as pieces:
                for piece in pieces:
                    sys.stdout.buffer.write(piece)
                    sys.stdout.buffer.flush()
        except BrokenPipeError:
            end_quietly()
        except KeyboardInterrupt:
            raise SystemExit(130) from None
