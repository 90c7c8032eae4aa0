"""pg-lean shares: each node's part of a statement's time, by light_explain, the server's EXPLAIN ANALYZE and a profiler."""

from __future__ import annotations

import json
from typing import Optional

import numpy as np
import typer
from rich.console import Console

from pg_lean import profiler, terminal
from pg_lean.bench.explain import OPTIONS, SETTINGS, STATEMENTS, make_tables
from pg_lean.cluster import Cluster
from pg_lean.errors import LabError, Unavailable
from pg_lean.result import Table
from pg_lean.shares import CORE, LIGHT, Shares, compare

CASES = {"count(*)": "SELECT count(*) FROM t", "sum of a column": "SELECT sum(id) FROM t", **STATEMENTS}


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def shares(
        rows: int = typer.Option(1_000_000, "--rows", min=10_000, help="Rows of the tables."),
        seconds: float = typer.Option(3.0, "--seconds", min=0.5, help="How long each statement is profiled."),
        runs: int = typer.Option(9, "--runs", min=1, help="EXPLAIN ANALYZE of each kind; the median is shown."),
        only: Optional[str] = typer.Option(None, "--case", help="Only statements whose name contains this text."),
        pg_config: Optional[str] = typer.Option(None, "--pg-config", envvar="PG_CONFIG", help="Server of the private cluster: path of its pg_config."),
        as_json: bool = typer.Option(False, "--json", help="Print the shares as JSON on standard output."),
    ) -> None:
        """Compare the nodes' shares of a statement's time with a profiler's (perf, as root), which does not slow the statement down."""
        profiler.need()
        found = []
        with Cluster(pg_config, preload=["light_explain"], settings=SETTINGS, name="shares") as cluster:
            if not cluster.has_library("light_explain"):
                raise Unavailable("light_explain is not installed for this server", "Run make install.")
            program = profiler.Program(cluster.bindir / "postgres", cluster.root)
            with cluster.connect() as conn:
                conn.prepare_threshold = None
                make_tables(conn, rows)
                for case, query in CASES.items():
                    if (only or "") in case:
                        found.append(summary(case, compare(conn, program, query, OPTIONS, seconds, runs)))
        if not found:
            raise LabError(f"no statement's name contains {only}", f"Statements: {'; '.join(CASES)}.")
        if as_json:
            print(json.dumps(found, indent=1))
        else:
            terminal.show_table(table(found), console)


def summary(case: str, found: Shares) -> dict:
    """Medians of the runs, and by how many points of the whole each is off."""
    said = {source: each for source, each in found.said.items() if each}
    nodes = sorted(set(found.true).union(*(one for each in said.values() for one in each)))
    medians = {source: {node: float(np.median([one.get(node, 0.0) for one in each])) for node in nodes} for source, each in said.items()}
    return {"case": case, "samples": found.samples, "profiler": {node: found.true.get(node, 0.0) for node in nodes}, **medians,
            "points off": {source: found.points_off(each) for source, each in medians.items()}}


def table(found: list[dict]) -> Table:
    def text(shares: dict[str, float] | None) -> str:
        return ", ".join(f"{node} {part:.0f}" for node, part in shares.items()) if shares else "rounded"

    return Table(
        "Percent of a statement's time",
        ["statement", "profiler", LIGHT, CORE, *(f"points off: {source}" for source in (LIGHT, CORE))],
        [[one["case"], text(one["profiler"]), text(one[LIGHT]), text(one.get(CORE)),
          *(f"{one['points off'][source]:.1f}" if source in one["points off"] else "rounded" for source in (LIGHT, CORE))] for one in found],
        note="Scans of a statement are counted together. The profiler's own error of a share p is about the square root of p (1 - p) / samples; "
        f"there were {min(one['samples'] for one in found):,} or more. The server's shares are not freed of what its clock takes; rounded: its figures are "
        "thousandths of a millisecond for each loop, which is too coarse there.",
    )
