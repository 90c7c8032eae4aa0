"""pg-lean export: kept plans for tools that show traces."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Optional

import typer
from rich.console import Console

from pg_lean.errors import LabError
from pg_lean.store import Store


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def export(dsn: str = typer.Option(..., "--dsn", help="The server, with plans that light_explain keeps; a role with pg_monitor sees all."),
               otlp: Optional[str] = typer.Option(None, "--otlp", help="Address of an OTLP receiver for HTTP, such as http://localhost:4318."),
               perfetto: Optional[Path] = typer.Option(None, "--perfetto", dir_okay=False, help="File for the viewer of Perfetto, such as plans.pftrace."),
               least_ms: float = typer.Option(0, "--least-ms", min=0, help="Only executions that took at least this time."),
               minutes: Optional[float] = typer.Option(None, "--minutes", min=0, help="Only executions that ended in the last minutes."),
               service: str = typer.Option("postgresql", "--service", help="The name of the service in the receiver.")) -> None:
        """Send the plans of slowest and last executions as traces, or write them to a file: a span for each plan node. Sending one again changes nothing."""
        from pg_lean import spans

        if (otlp is None) == (perfetto is None):
            raise LabError("nothing to export to" if otlp is None else "two places to export to", "Give either --otlp or --perfetto.")
        arrived = True
        with Store(dsn) as store:
            oldest = None if minutes is None else datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=minutes)
            wanted = ((execution, plan, text) for execution, plan, text in store.kept_plans(least_ms) if oldest is None or execution["ended"] >= oldest)
            try:
                if perfetto is not None:
                    executions, sent = spans.write_perfetto(wanted, perfetto, service)
                else:
                    executions, sent, arrived = spans.export(wanted, otlp, service)
            except ImportError:
                raise LabError("packages for this format are missing",
                               f"Install the lab with [{'otlp' if perfetto is None else 'perfetto'}]; lab/README.md has the command.") from None
        if not arrived:
            raise LabError(f"{otlp} did not take the spans", "It must receive OTLP over HTTP; the messages above have the reason.")
        console.print(f"{executions} executions, {sent} spans", highlight=False)
