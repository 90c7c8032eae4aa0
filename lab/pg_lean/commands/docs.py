"""pg-lean docs: draw the figures and pictures of the documents from the kept results."""

from __future__ import annotations

import typer
from rich.console import Console

from pg_lean import docs as drawing
from pg_lean.errors import LabError
from pg_lean.paths import TOP


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def docs(
        keep: bool = typer.Option(False, "--keep", help="First take the full results of build/bench into results/."),
        check: bool = typer.Option(False, "--check", help="Write nothing; fail if a page or picture is not what the results give."),
    ) -> None:
        """Draw every figure and picture of the documents from results/."""
        if check and drawing.different():
            raise LabError("not as the results give it: " + ", ".join(str(path.relative_to(TOP)) for path in drawing.different()), "Run make docs.")
        if keep:
            for folder in drawing.keep():
                console.print(f"kept: {folder.relative_to(TOP)}", highlight=False, soft_wrap=True)
        if not check:
            for path in drawing.write():
                console.print(f"drawn: {path.relative_to(TOP)}", highlight=False, soft_wrap=True)
