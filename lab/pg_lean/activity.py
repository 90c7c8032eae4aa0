"""What a server does now: its statements with their progress, waits and who blocks whom."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping

import psycopg
from psycopg.rows import dict_row

from pg_lean import progress
from pg_lean.progress import Progress

STATEMENTS = r"""
SELECT a.pid, a.leader_pid, a.datname, a.usename, a.state, a.wait_event_type, a.wait_event, a.backend_type, a.query,
       extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS seconds,
       CASE WHEN a.query !~* '^\s*(explain|execute|fetch|do|call)\M' THEN a.query_id END AS queryid,
       pg_blocking_pids(a.pid) AS blockers
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND a.state IN ('active', 'fastpath function call') AND a.backend_type IN ('client backend', 'autovacuum worker', 'background worker')
ORDER BY a.query_start"""


@dataclass
class Statement:
    """One running statement."""

    pid: int
    database: str
    user: str
    seconds: float
    query: str
    share: float | None = None
    left: float | None = None
    how: str = ""
    node: str = ""
    rows: float = 0.0
    rows_per_second: float | None = None
    wait: str = ""
    blockers: list[int] = field(default_factory=list)
    workers: int = 0
    #: Rows of light_explain_progress(), or none.
    nodes: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def by_statement(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows of light_explain_progress(), in its order, by statement of a process: those of one come together, its top node first."""
    statements: list[list[dict[str, Any]]] = []
    for row in rows:
        if not statements or statements[-1][-1]["pid"] != row["pid"] or row["parent"] is None:
            statements.append([])
        statements[-1].append(row)
    return statements


def by_leader(rows: list[dict[str, Any]], queryids: Mapping[int, int | None] | None = None) -> dict[int, list[dict[str, Any]]]:
    """Nodes of light_explain_progress() by session: of the session's own statement, with its workers' figures.

    A session may run statements in functions, which are not what it asked for:
    `queryids` tells what each process runs by pg_stat_activity; where it is not known,
    the first statement is taken.
    """
    queryids = queryids or {}
    groups = by_statement(rows)
    found: dict[int, list[dict[str, Any]]] = {}
    for group in groups:
        wanted = queryids.get(group[0]["pid"])
        if group[0]["leader_pid"] is None and (wanted is None or group[0].get("queryid") in (None, wanted)):
            found.setdefault(group[0]["pid"], group)
    for group in groups:
        leader = found.get(group[0]["leader_pid"]) if group[0]["leader_pid"] is not None else None
        if leader is not None:
            known = {(row["node"], row["label"]) for row in leader if row["leader_pid"] is None}
            if all((row["node"], row["label"]) in known for row in group):
                found[group[0]["leader_pid"]] = leader + group
    return found


class Activity:
    """Looks at a server again and again; what it remembers makes rates and tells corrections."""

    def __init__(self, conn: psycopg.Connection):
        conn.row_factory = dict_row
        self.conn = conn
        self._before: dict[tuple[int, str], tuple[float, float, str, Progress]] = {}
        conn.execute("SELECT set_config('statement_timeout', '10s', false)")
        self.instrumented = conn.execute("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'light_explain') AS there").fetchone()["there"]
        #: Why plans are not seen, or nothing.
        self.reason = "" if self.instrumented else "plans are not seen: CREATE EXTENSION light_explain in this database"

    def look(self) -> list[Statement]:
        """Statements that run now, the longest first."""
        now = time.monotonic()
        sessions = self.conn.execute(STATEMENTS).fetchall()
        nodes: dict[int, list[dict[str, Any]]] = {}
        if self.instrumented:
            try:
                nodes = by_leader(self.conn.execute("SELECT * FROM light_explain_progress()").fetchall(), {row["pid"]: row["queryid"] for row in sessions})
                self.reason = ""
            except psycopg.errors.ObjectNotInPrerequisiteState as error:
                self.reason = f"plans are not seen: {error.diag.message_primary}"
        commands = {row["pid"]: row for row in self.conn.execute(progress.commands_query())}
        found: dict[int, Statement] = {}
        helpers: dict[int, int] = {}
        for row in sessions:
            if row["leader_pid"] is not None:
                helpers[row["leader_pid"]] = helpers.get(row["leader_pid"], 0) + 1
                continue
            statement = found[row["pid"]] = Statement(row["pid"], row["datname"] or "", row["usename"] or row["backend_type"], max(row["seconds"] or 0.0, 0.0), row["query"] or "",
                                                      wait=f"{row['wait_event_type']}:{row['wait_event']}" if row["wait_event"] else "",
                                                      blockers=list(dict.fromkeys(row["blockers"])))
            self._reckon(statement, nodes.get(row["pid"], []), commands.get(row["pid"]), now)
        for pid, count in helpers.items():
            if pid in found:
                found[pid].workers = count
        self._before = {key: value for key, value in self._before.items() if key[0] in found}
        return list(found.values())

    def _reckon(self, statement: Statement, nodes: list[dict[str, Any]], command: dict[str, Any] | None, now: float) -> None:
        key = (statement.pid, statement.query)
        last = self._before.get(key)
        if nodes:
            statement.nodes = nodes
            result = progress.estimate(nodes, statement.seconds, last[3] if last else None)
        elif command is not None:
            share = command["share"]
            result = Progress(share, statement.seconds * (1 - share) / share if share and statement.seconds > progress.TOO_EARLY_SECONDS else None,
                              "by the server's own progress view", command["phase"])
        else:
            result = Progress(None, None, self.reason or "not visible: it runs without instrumentation, or has only begun")
        statement.share, statement.left, statement.how, statement.node, statement.rows = result.share, result.left, result.how, result.current, result.rows
        if last is not None and last[2] == result.current and now > last[0] and result.rows >= last[1]:
            statement.rows_per_second = (result.rows - last[1]) / (now - last[0])
        self._before[key] = (now, result.rows, result.current, result)
