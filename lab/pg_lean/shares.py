"""Each node's part of a statement's time, as it is said, next to a profiler's, which does not slow the statement down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Mapping

import psycopg

from pg_lean import profiler
from pg_lean.measure import explain
from pg_lean.names import need_extension_schema

#: Sources of a node's share.
LIGHT, CORE = "light_explain", "core"
#: Figures of the server are thousandths of a millisecond for each loop: where that is more than this part of the time, they are left out.
TOO_COARSE = 0.01


@dataclass
class Shares:
    """Percent of a statement's time by kind of node."""

    true: dict[str, float]
    #: of the profiler, from which "true" is
    samples: int
    #: of each run
    said: dict[str, list[dict[str, float]]]

    def points_off(self, said: Mapping[str, float]) -> float:
        """The largest difference of a node's share from the true one."""
        return max(abs(said.get(node, 0.0) - self.true.get(node, 0.0)) for node in {*said, *self.true})


def by_node(pairs: list[tuple[str, float]]) -> dict[str, float]:
    """Percent of the time of each kind of node."""
    sums: Counter[str] = Counter()
    for node_type, ms in pairs:
        sums[profiler.name_of(node_type)] += ms
    return {node: 100 * ms / sums.total() for node, ms in sums.items()}


def shown_by_core(plan: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Type and own milliseconds of a node and of all below it, and how far rounding may put them off."""
    children = plan.get("Plans", [])
    own = plan["Actual Total Time"] * plan["Actual Loops"] - sum(child["Actual Total Time"] * child["Actual Loops"] for child in children)
    rounding = 0.0005 * (plan["Actual Loops"] + sum(child["Actual Loops"] for child in children))
    return [(plan["Node Type"], own, rounding), *(times for child in children for times in shown_by_core(child))]


def compare(conn: psycopg.Connection, program: profiler.Program, query: str, options: str, seconds: float, runs: int) -> Shares:
    """A statement's shares by light_explain, by the server and by a profiler.

    conn: a session on this machine, of which settings of light_explain are changed; options: of
    EXPLAIN; seconds: how long the plain statement is profiled; runs: of EXPLAIN of either kind.
    Raises Unavailable if the profiler sees nothing.
    """
    schema = need_extension_schema(conn, "light_explain")
    conn.execute("SET light_explain.enabled = off")
    true, samples = profiler.shares(conn, program, query, seconds)
    found = Shares(true, samples, {LIGHT: [], CORE: []})
    for _ in range(runs):
        conn.execute("SET light_explain.enabled = on")
        conn.execute(f"EXPLAIN ({options}) {query}")
        found.said[LIGHT].append(by_node(conn.execute(f"SELECT node_type, self_ms FROM {schema}.light_explain_last()").fetchall()))
        conn.execute("SET light_explain.enabled = off")
        shown = shown_by_core(explain(conn, query, "ANALYZE, BUFFERS")["Plan"])
        if max(rounding for _, _, rounding in shown) < TOO_COARSE * sum(own for _, own, _ in shown):
            found.said[CORE].append(by_node([(node_type, own) for node_type, own, _ in shown]))
    return found
