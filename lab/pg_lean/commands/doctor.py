"""pg-lean doctor: what is wrong with a server that uses pg_lean, and what to type."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.markup import escape

from pg_lean import doctor as checks
from pg_lean.cluster import UserServer

MARKS = {"ok": "[green]ok[/]", "note": "[cyan]note[/]", "warning": "[yellow]warning[/]", "error": "[bold red]error[/]"}


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def doctor(dsn: str = typer.Option(..., "--dsn", help="The server, with a database whose extensions are checked."),
               as_json: bool = typer.Option(False, "--json", help="Print the findings as JSON."),
               all_of_it: bool = typer.Option(False, "--all", help="Also show checks that found no problem.")) -> None:
        """Look at a server and say what is wrong and what to type; status 0: well, 1: warnings, 2: errors. Changes nothing."""
        with UserServer(dsn).connect() as conn:
            findings = checks.examine(conn)
        if as_json:
            print(json.dumps([finding.as_dict() for finding in findings], indent=1))
        else:
            show(findings, all_of_it, console)
        raise SystemExit(checks.status(findings))


def show(findings: list[checks.Finding], all_of_it: bool, console: Console) -> None:
    """Worst first; commands are on separate lines, to be copied."""
    shown = sorted((finding for finding in findings if all_of_it or finding.level != "ok"), key=lambda finding: -checks.LEVELS.index(finding.level))
    for finding in shown:
        console.print(f"{MARKS[finding.level]} {escape(finding.check)}: {escape(finding.what)}", highlight=False, soft_wrap=True)
        if finding.do:
            console.print(f"    {finding.do}", highlight=False, markup=False, soft_wrap=True)
    counts = ", ".join(f"{sum(finding.level == level for finding in findings)} {level}" for level in reversed(checks.LEVELS))
    console.print(f"{len({finding.check for finding in findings})} things looked at: {counts}", highlight=False)
