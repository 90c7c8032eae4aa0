"""The command pg-lean."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import time
from typing import Optional

import psycopg
import typer
from rich.console import Console
from rich.markup import escape

import pg_lean
from pg_lean import bench as benches
from pg_lean import commands, demo as parts_of_demo, report, terminal
from pg_lean.bench import Options
from pg_lean.cluster import exit_on_signals
from pg_lean.errors import LabError
from pg_lean.measure import to_json
from pg_lean.paths import BUILD
from pg_lean.result import Result

app = typer.Typer(add_completion=True, pretty_exceptions_enable=False,
                  help="Measure pg_lean against stock PostgreSQL, on a private throwaway server or on your own.")


def make_console(stderr: bool = False) -> Console:
    """Without a terminal (a log of CI) tables get the room that they need."""
    made = Console(stderr=stderr)
    return made if made.is_terminal else Console(width=150, stderr=stderr)


console = make_console()

QUICK = typer.Option(False, "--quick", help="Fewer sizes and repetitions: a minute or two.")
SCALE = typer.Option(None, "--scale", min=1, max=10000, help="Scale of the pgbench data (100,000 accounts each).")
ITERATIONS = typer.Option(None, "--iterations", min=1, max=10000, help="Repetitions of each measurement.")
DSN = typer.Option(None, "--dsn", help="Use this server instead of a private one; only a separate schema and temporary tables are changed.")
PG_CONFIG = typer.Option(
    None, "--pg-config", envvar="PG_CONFIG", help="Server of the private cluster: path of its pg_config, or a label of make matrix (17, 18-assert)."
)
EFFORT = typer.Option(
    1.0,
    "--effort",
    min=0.01,
    max=1.0,
    help="The fraction of a full run's repetitions to make, at least three of each; intervals become wider. Sizes stay, except some logs of "
         "bench-runlog, which are shorter.",
)
JSON = typer.Option(False, "--json", help="Print the results as JSON on standard output; everything else goes to standard error.")


@app.callback(invoke_without_command=True)
def top(context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        print(f"pg-lean {pg_lean.__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(quick: bool = QUICK, scale: Optional[int] = SCALE, iterations: Optional[int] = ITERATIONS,
         dsn: Optional[str] = DSN, pg_config: Optional[str] = PG_CONFIG,
         parts: Optional[str] = typer.Option(None, "--parts", help="Only these parts, separated by commas.",
                                             autocompletion=lambda: list(parts_of_demo.ORDER)),
         as_json: bool = JSON) -> None:
    """Run every part of the demo and write build/report/index.html; status 1 if a part failed."""
    from pg_lean.demo import runner

    options = Options(quick, scale, iterations, dsn, pg_config)
    results = runner.run(options, make_console(stderr=True) if as_json else console, parts.split(",") if parts else None)
    if as_json:
        print_json(results)
    if all(result.unavailable for result in results):
        raise LabError("no part of the demo could run here", "Each part says above what it needs.")
    if any(result.failed for result in results):
        raise LabError(
            "a part of the demo failed: " + ", ".join(result.name for result in results if result.failed),
            "The others were measured; the table and the report say why.",
        )


@app.command()
def bench(name: Optional[str] = typer.Argument(None, help="The benchmark; none lists them.",
                                               autocompletion=lambda: [known.replace("_", "-") for known in benches.modules()]),
          quick: bool = QUICK, scale: Optional[int] = SCALE, iterations: Optional[int] = ITERATIONS,
          dsn: Optional[str] = DSN, pg_config: Optional[str] = PG_CONFIG, effort: float = EFFORT, as_json: bool = JSON,
          queries: Optional[str] = typer.Option(None, "--queries", help="Only these queries of analytics: numbers from 1 or names, separated by commas."),
          strict: bool = typer.Option(False, "--strict", help="Fail if a target is not met.")) -> None:
    """Run one benchmark; its result is kept in build/bench/NAME and shown in the report."""
    if name is None:
        for known, title in benches.modules().items():
            console.print(f"{known:16} {title}", highlight=False, soft_wrap=True)
        return
    out = make_console(stderr=True) if as_json else console
    result = benches.run_bench(
        name, Options(quick, scale, iterations, dsn, pg_config, effort=effort, queries=tuple(queries.split(",")) if queries else ()), out
    )
    terminal.show(result, out)
    folder = BUILD / "bench" / result.name / result.kind
    out.print(f"\nraw data: {folder}   report: {report.write(fresh=[result]).as_uri()}", highlight=False, soft_wrap=True)
    if as_json:
        print_json([result])
    if not result.whole or (strict and not all(check.met for check in result.checks)):
        raise SystemExit(1)


@app.command(name="report")
def report_command() -> None:
    """Write build/report/index.html again from the results that are kept."""
    console.print(report.write().as_uri(), highlight=False, soft_wrap=True)


for _, name, _ in pkgutil.iter_modules(commands.__path__):
    importlib.import_module(f"pg_lean.commands.{name}").register(app, console)


def print_json(results: list[Result]) -> None:
    """Results as result.json keeps them, without their raw rows."""
    print(json.dumps([{name: value for name, value in result.as_dict().items() if name != "raw"} for result in results], default=to_json, indent=1))


def main() -> None:
    """Entry point: errors that are the user's to read come without a traceback."""
    exit_on_signals()
    started = time.monotonic()
    try:
        # typer turns an interrupt into a return value or into Abort, by its version
        if (status := app(prog_name="pg-lean", standalone_mode=False)) == 130:
            raise KeyboardInterrupt
        sys.exit(status if isinstance(status, int) else 0)
    except LabError as error:
        _fail(str(error), error.hint)
    except psycopg.Error as error:
        hint = getattr(error.diag, "message_hint", None) or ""
        _fail(f"the server said: {str(error).strip()}", hint)
    except PermissionError as error:
        _fail(f"cannot write {error.filename}", "It belongs to another user: run make clean as that user, or set PG_LEAN_BUILD to a folder of yours.")
    except OSError as error:
        _fail(f"cannot read or write {error.filename or 'a file'}: {error.strerror or error}", "")
    except (KeyboardInterrupt, typer.Abort):
        _fail(f"interrupted after {time.monotonic() - started:.0f} s; nothing is left running, what was measured is kept", "", 130)
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
