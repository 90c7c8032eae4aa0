"""pg-lean scenes: take the pictures of the documents' page on looking at a server."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from pg_lean import scenes as taking
from pg_lean.paths import TOP


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def scenes(output: Path = typer.Option(TOP / "docs" / "scenes", "--output", "-o", file_okay=False, help="Folder of the pictures.")) -> None:
        """Take the pictures of docs/seeing.md: top, a plan while it runs, a flame graph, on a private server."""
        for path in taking.take(output):
            console.print(path.resolve().as_uri(), highlight=False, soft_wrap=True)
