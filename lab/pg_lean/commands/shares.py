"""pg-lean shares: each node's part of a statement's time, by light_explain, the server's EXPLAIN ANALYZE and a profiler."""

from __future__ import annotations

import json
from collections import Counter
from typing import Optional

import numpy as np
import psycopg
import typer
from rich.console import Console

from pg_lean import profiler, terminal
from pg_lean.bench.explain import OPTIONS, SETTINGS, STATEMENTS, explain, make_tables, shown_by_core
from pg_lean.cluster import Cluster
from pg_lean.errors import LabError, Unavailable
from pg_lean.names import need_extension_schema
from pg_lean.result import Table

#: Sources of a share.
LIGHT, REFERENCE, CORE = "light_explain", "reference clock", "core"
CASES = {"count(*)": "SELECT count(*) FROM t", "sum of a column": "SELECT sum(id) FROM t", **STATEMENTS}


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def shares(
        rows: int = typer.Option(1_000_000, "--rows", min=10_000, help="Rows of the tables."),
        seconds: float = typer.Option(3.0, "--seconds", min=0.5, help="How long each statement is profiled."),
        runs: int = typer.Option(9, "--runs", min=1, help="EXPLAIN ANALYZE of each kind; the median is shown."),
        only: Optional[str] = typer.Option(None, "--case", help="Of the statements those whose name has this."),
        pg_config: Optional[str] = typer.Option(None, "--pg-config", envvar="PG_CONFIG", help="Server of the private cluster: path of its pg_config."),
        as_json: bool = typer.Option(False, "--json", help="Print the shares as JSON on standard output."),
    ) -> None:
        """Compare the nodes' shares of a statement's time with a profiler's (perf, as root), which does not slow the statement down."""
        profiler.need()
        found = []
        with Cluster(pg_config, preload=["light_explain"], settings=SETTINGS, name="shares") as cluster:
            if cluster.root is not None:
                raise Unavailable("a server in a separate root has no profiler")
            if not cluster.has_library("light_explain"):
                raise Unavailable("light_explain is not installed for this server", "Run make install.")
            program = profiler.Program(cluster.bindir / "postgres")
            with cluster.connect() as conn:
                conn.prepare_threshold = None
                make_tables(conn, rows)
                for case, query in CASES.items():
                    if (only or "") in case:
                        found.append(compare(conn, program, case, query, seconds, runs))
        if not found:
            raise LabError(f"no statement's name has {only}", f"Statements: {'; '.join(CASES)}.")
        if as_json:
            print(json.dumps(found, indent=1))
        else:
            terminal.show_table(table(found), console)


def by_node(pairs: list[tuple[str, float]]) -> dict[str, float]:
    """Percent of the time of each kind of node."""
    sums: Counter[str] = Counter()
    for node_type, ms in pairs:
        sums[profiler.name_of(node_type)] += ms
    return {node: 100 * ms / sums.total() for node, ms in sums.items()}


def compare(conn: psycopg.Connection, program: profiler.Program, case: str, query: str, seconds: float, runs: int) -> dict:
    """Shares in percent by source, and how far each is from the profiler's at most."""
    schema = need_extension_schema(conn, "light_explain")

    def light(timing: str) -> dict[str, float]:
        conn.execute(f"SET light_explain.timing = {timing}")
        conn.execute(f"EXPLAIN ({OPTIONS}) {query}")
        return by_node(conn.execute(f"SELECT node_type, self_ms FROM {schema}.light_explain_last()").fetchall())

    def core() -> dict[str, float]:
        plan = explain(conn, query, "ANALYZE, BUFFERS")["Plan"]
        return by_node([(node_type, own) for node_type, (own, _) in zip(types(plan), shown_by_core(plan), strict=True)])

    conn.execute("SET light_explain.enabled = off")
    true, samples = profiler.shares(conn, program, query, seconds)
    said: dict[str, list[dict[str, float]]] = {LIGHT: [], REFERENCE: [], CORE: []}
    for _ in range(runs):
        conn.execute("SET light_explain.enabled = on")
        said[LIGHT].append(light("auto"))
        said[REFERENCE].append(light("reference"))
        conn.execute("SET light_explain.enabled = off")
        said[CORE].append(core())
    nodes = sorted(set(true).union(*(one for each in said.values() for one in each)))
    medians = {source: {node: float(np.median([one.get(node, 0.0) for one in each])) for node in nodes} for source, each in said.items()}
    return {"case": case, "samples": samples, "profiler": {node: true.get(node, 0.0) for node in nodes}, **medians,
            "points off": {source: max(abs(each[node] - true.get(node, 0.0)) for node in nodes) for source, each in medians.items()}}


def types(plan: dict) -> list[str]:
    """Node types of a plan, in the order of shown_by_core()."""
    return [plan["Node Type"], *(name for child in plan.get("Plans", []) for name in types(child))]


def table(found: list[dict]) -> Table:
    def text(shares: dict[str, float]) -> str:
        return ", ".join(f"{node} {part:.0f}" for node, part in shares.items())

    return Table(
        "Percent of a statement's time",
        ["statement", "profiler", *(f"{source}" for source in (LIGHT, REFERENCE, CORE)), *(f"points off: {source}" for source in (LIGHT, REFERENCE, CORE))],
        [[one["case"], text(one["profiler"]), *(text(one[source]) for source in (LIGHT, REFERENCE, CORE)),
          *(f"{one['points off'][source]:.1f}" for source in (LIGHT, REFERENCE, CORE))] for one in found],
        note="Scans of a statement are counted together. The profiler's own error of a share p is about the square root of p (1 - p) / samples; "
        f"there were {min(one['samples'] for one in found):,} or more. The reference clock's and the server's shares are not freed of what their clocks take.",
    )
