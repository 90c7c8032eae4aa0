"""The command pg-lean."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time
from typing import Optional

import psycopg
import typer
from rich.console import Console
from rich.markup import escape

from pg_lean import bench as benches
from pg_lean import commands, report, terminal
from pg_lean.bench import Options
from pg_lean.cluster import exit_on_signals
from pg_lean.errors import LabError
from pg_lean.paths import BUILD

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
                  help="Measure pg_lean against stock PostgreSQL, on a private throwaway server or on your own.")
# Without a terminal (a log of CI) tables get the room that they need.
console = Console() if Console().is_terminal else Console(width=150)

QUICK = typer.Option(False, "--quick", help="Fewer sizes and repetitions: a minute or two.")
SCALE = typer.Option(None, "--scale", min=1, max=10000, help="Scale of the pgbench data (100,000 accounts each).")
ITERATIONS = typer.Option(None, "--iterations", min=1, max=10000, help="Repetitions of each measurement.")
DSN = typer.Option(None, "--dsn", help="Use this server instead of a private one; only an own schema and temp tables are touched.")
PG_CONFIG = typer.Option(None, "--pg-config", envvar="PG_CONFIG", help="Server of the private cluster: path of its pg_config, or a label of make matrix (17, 18-assert).")


@app.command()
def demo(quick: bool = QUICK, scale: Optional[int] = SCALE, iterations: Optional[int] = ITERATIONS,
         dsn: Optional[str] = DSN, pg_config: Optional[str] = PG_CONFIG,
         file: Optional[str] = typer.Option(None, "--file", help="A growing file to stream into a row, instead of the server's log."),
         parts: Optional[str] = typer.Option(None, "--parts", help="Only these parts, comma separated.")) -> None:
    """Run every part of the demo and write build/report/index.html."""
    from pg_lean.demo import runner

    options = Options(quick, scale, iterations, dsn, pg_config, file)
    runner.run(options, console, parts.split(",") if parts else None)


@app.command()
def bench(name: Optional[str] = typer.Argument(None, help="The benchmark; none lists them."),
          quick: bool = QUICK, scale: Optional[int] = SCALE, iterations: Optional[int] = ITERATIONS,
          dsn: Optional[str] = DSN, pg_config: Optional[str] = PG_CONFIG,
          strict: bool = typer.Option(False, "--strict", help="Fail if a target is not met.")) -> None:
    """Run one benchmark; its result is kept in build/bench/NAME and shown in the report."""
    if name is None:
        for known, title in benches.modules().items():
            console.print(f"{known:16} {title}", highlight=False, soft_wrap=True)
        return
    result = benches.run_bench(name, Options(quick, scale, iterations, dsn, pg_config), console)
    terminal.show(result, console)
    folder = BUILD / "bench" / result.name
    console.print(f"\nraw data: {folder}   report: {report.write()}", highlight=False, soft_wrap=True)
    if result.unavailable or (strict and not all(check.met for check in result.checks)):
        raise SystemExit(1)


@app.command(name="report")
def report_command() -> None:
    """Write build/report/index.html again from the results that are kept."""
    console.print(str(report.write()), highlight=False, soft_wrap=True)


for _, name, _ in pkgutil.iter_modules(commands.__path__):
    importlib.import_module(f"pg_lean.commands.{name}").register(app, console)


def main() -> None:
    """Entry point: errors that are the user's to read come without a traceback."""
    exit_on_signals()
    started = time.monotonic()
    try:
        app(prog_name="pg-lean", standalone_mode=False)
    except LabError as error:
        _fail(str(error), error.hint)
    except psycopg.Error as error:
        hint = getattr(error.diag, "message_hint", None) or ""
        _fail(f"the server said: {str(error).strip()}", hint)
    except PermissionError as error:
        _fail(f"cannot write {error.filename}", "It belongs to another user: run make clean as that user, or set PG_LEAN_BUILD to a folder of yours.")
    except (KeyboardInterrupt, typer.Abort):
        _fail(f"interrupted after {time.monotonic() - started:.0f} s; the server is stopped", "")
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")) and hasattr(error, "format_message"):
            _fail(error.format_message(), "See pg-lean --help.", 2)
        raise


def _fail(text: str, hint: str, status: int = 1) -> None:
    errors = Console(stderr=True, soft_wrap=True)
    errors.print(f"[bold red]error:[/] {escape(text)}", highlight=False)
    if hint:
        errors.print(f"[bold]hint:[/] {escape(hint)}", highlight=False)
    sys.exit(status)
