"""Run the demo's parts one after another on one server, then show them together."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Sequence

from rich.console import Console

from pg_lean import bench as benches
from pg_lean import report, terminal
from pg_lean.bench import Options
from pg_lean.cluster import Cluster, Server, UserServer
from pg_lean.demo import ORDER
from pg_lean.errors import LabError
from pg_lean.paths import BUILD
from pg_lean.result import Result


def run(options: Options, console: Console, only: Sequence[str] | None = None) -> list[Result]:
    """Measure, print and write the report, even if a part fails: the others continue, and the report lists the missing ones."""
    names = [name for name in ORDER if importlib.util.find_spec(f"pg_lean.demo.{name}")]
    for name in only or ():
        if name not in names:
            raise LabError(f'the demo has no part "{name}"', "There are: " + ", ".join(names))
    if only:
        names = [name for name in names if name in only]

    console.print(f"[bold]pg_lean demo[/] on {'your server' if options.dsn else 'a private throwaway server'}"
                  f"{', quick' if options.quick else ''}", highlight=False)
    results: list[Result] = []
    try:
        with _open(options, console) as server:
            for number, name in enumerate(names, 1):
                module = importlib.import_module(f"pg_lean.demo.{name}")
                console.print(f"[bold cyan]{number}/{len(names)}[/] {module.TITLE}", highlight=False)
                results.append(benches.run_module(module, name, server, options, console, BUILD / "demo" / name))
    finally:
        if results:
            terminal.glance(results, console)
            page = report.write(fresh=results)
            console.print(f"\nreport: {page.as_uri()}", highlight=False, soft_wrap=True)
    return results


def _open(options: Options, console: Console) -> Server:
    """The server of all parts; a private one begins bare, and each part brings the libraries that it needs."""
    if options.dsn:
        server = UserServer(options.dsn)
        server.make_schema()
        return server
    cluster = Cluster(options.pg_config)
    with benches.Bench("demo", cluster, options, console).activity("starting the server"):
        cluster.start()
    return cluster
