"""What a server does now: its statements with their progress, waits and who blocks whom."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Mapping

import psycopg
from psycopg.rows import dict_row

from pg_lean import progress, waits
from pg_lean.names import extension_schema
from pg_lean.progress import Progress

STATEMENTS = r"""
SELECT a.pid, a.leader_pid, a.datname, a.usename, a.state, a.wait_event_type, a.wait_event, a.backend_type, a.query,
       extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS seconds,
       CASE WHEN a.query !~* '^\s*(explain|execute|fetch|do|call)\M' THEN a.query_id END AS queryid,
       CASE WHEN a.wait_event_type = 'Lock' THEN pg_blocking_pids(a.pid) ELSE '{}' END AS blockers
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid()
      AND (a.state IN ('active', 'fastpath function call')
           AND (a.backend_type IN ('client backend', 'autovacuum worker', 'background worker', 'parallel worker') OR
               a.pid IN (SELECT pid FROM pg_stat_progress_basebackup))
           OR a.query = '<insufficient privilege>' AND a.datname IS NOT NULL)
ORDER BY a.query_start"""

#: Locks that are waited for; queried only if a session waits, because the query briefly blocks all sessions that take locks.
LOCKS = """
SELECT pid, mode || ' on ' || locktype ||
       coalesce(' ' || CASE WHEN database = (SELECT oid FROM pg_database WHERE datname = current_database()) THEN relation::regclass::text
           ELSE relation::text END,
                ' ' || transactionid::text, ' ' || virtualxid, '') AS lock
FROM pg_locks WHERE NOT granted"""

#: Counters of light_explain_status() of statements that ran and could not be seen, and why.
REFUSED = {"progress_refused_full": "no slot was free (light_explain.progress_statements)", "progress_refused_role": "their role had its share of the slots",
           "progress_refused_nodes": "too many plan nodes (light_explain.progress_nodes)"}

#: Names of samples without a plan node.
PHASES = {"execute": "execution", "plan": "planning", "utility": "utility command", "commit": "commit", "other": "parsing and locks"}

#: Seconds after which the history of a statement is read again: its buckets are longer, and reading it is not cheap.
HISTORY_SECONDS = 30.0

#: Seconds in which a statement may not have called any node often enough to be seen.
YOUNG = 1.0

#: Text that stands for a statement that a role may not see; nor does it see whether the session runs any.
HIDDEN = "<insufficient privilege>"


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
    #: The lock that it waits for, or nothing.
    lock: str = ""
    blockers: list[int] = field(default_factory=list)
    workers: int = 0
    #: Blocks that its nodes have looked at so far.
    blocks: float = 0.0
    #: Why its plan is not seen, in few words; nothing where it is, or where there is none.
    unseen: str = ""
    #: Rows of light_explain_progress(), or none; the leader's with expected, elapsed_ms and own_ms.
    nodes: list[dict[str, Any]] = field(default_factory=list)
    #: The same of each statement that one of its functions runs now.
    inner: list[list[dict[str, Any]]] = field(default_factory=list)
    #: Identifier of the statement, if the server computes one; not of EXPLAIN, EXECUTE and the like, which run others.
    queryid: int | None = None
    #: Samples since it began: rows of node (its label, or the phase), wait and samples, the most frequent first; filled by details().
    waited: list[dict[str, Any]] = field(default_factory=list)
    #: Buckets of the history in which it ran, the last one first, with samples by wait in `waits`; filled by details().
    history: list[dict[str, Any]] = field(default_factory=list)
    #: The plan as it was estimated.
    top: progress.Node | None = None

    def as_dict(self) -> dict[str, Any]:
        found = asdict(replace(self, top=None))
        del found["top"]
        return found


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


def of_functions(rows: list[dict[str, Any]], own: Mapping[int, list[dict[str, Any]]]) -> dict[int, list[list[dict[str, Any]]]]:
    """Statements of light_explain_progress() that functions run, by session: all except `own`, that by_leader() identified as the client's statement."""
    found: dict[int, list[list[dict[str, Any]]]] = {}
    for group in by_statement(rows):
        if group[0]["leader_pid"] is None and not any(row is group[0] for row in own.get(group[0]["pid"], [])):
            found.setdefault(group[0]["pid"], []).append(group)
    return found


def waited(statement: Statement, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples of a statement by node and wait; those of its functions' statements are one node."""
    labels = {row["node"]: row["label"].strip() for row in statement.nodes}
    found: dict[tuple[str, str], int] = {}
    for row in samples:
        own = statement.queryid is None or row["queryid"] in (None, statement.queryid)
        node = (labels.get(row["node"], f"node {row['node']}") if row["node"] is not None else PHASES[row["activity"]]) if own else "in a function"
        found[node, row["wait"]] = found.get((node, row["wait"]), 0) + int(row["samples"])
    return [{"node": node, "wait": wait, "samples": count} for (node, wait), count in sorted(found.items(), key=lambda item: (-item[1], item[0]))]


class Activity:
    """Polls a server; the previous sample is kept to compute rates and to detect corrected estimates.

    `period` is that of which statements show the history; without one, the last buckets.
    """

    def __init__(self, conn: psycopg.Connection, period: waits.Period | None = None):
        conn.row_factory = dict_row
        self.conn = conn
        self.period = period
        #: Statements of the last sample.
        self.found: list[Statement] = []
        self._before: dict[tuple[int, str], tuple[float, float, str, Progress]] = {}
        self._histories: dict[tuple[str, int], tuple[float, list[dict[str, Any]]]] = {}
        conn.execute("SET statement_timeout = '10s'")
        #: Schema of light_explain, quoted; None if it is not in this database.
        self.schema = extension_schema(conn, "light_explain")
        #: Sessions of others whose statements this role may not see.
        self.hidden = 0
        #: Statements that got no slot to be seen in, by reason, since the first sample.
        self.refused: dict[str, int] = {}
        self._refused_at_first: dict[str, int] | None = None
        #: Why plans are not seen, or nothing.
        self.reason = "" if self.schema else "plans are not seen: CREATE EXTENSION light_explain in this database"

    def look(self) -> list[Statement]:
        """Statements that run now, the longest first."""
        now = time.monotonic()
        sessions = self.conn.execute(STATEMENTS).fetchall()
        self.hidden = sum(row["query"] == HIDDEN for row in sessions)
        sessions = [row for row in sessions if row["query"] != HIDDEN]
        nodes: dict[int, list[dict[str, Any]]] = {}
        inner: dict[int, list[list[dict[str, Any]]]] = {}
        if self.schema:
            try:
                rows = self.conn.execute(f"SELECT * FROM {self.schema}.light_explain_progress()").fetchall()
                nodes = by_leader(rows, {row["pid"]: row["queryid"] for row in sessions})
                inner = of_functions(rows, nodes)
                self._count_refused()
                self.reason = ""
            except psycopg.errors.ObjectNotInPrerequisiteState as error:
                self.reason = f"plans are not seen: {error.diag.message_primary}"
        commands = {row["pid"]: row for row in self.conn.execute(progress.commands_query())}
        found: dict[int, Statement] = {}
        helpers: dict[int, list[dict[str, Any]]] = {}
        locks: dict[int, str] = {}
        if any(row["blockers"] for row in sessions):
            locks = {row["pid"]: row["lock"] for row in self.conn.execute(LOCKS)}
        for row in sessions:
            if row["leader_pid"] is not None:
                helpers.setdefault(row["leader_pid"], []).append(row)
                continue
            statement = found[row["pid"]] = Statement(
                row["pid"],
                row["datname"] or "",
                row["usename"] or row["backend_type"],
                max(row["seconds"] or 0.0, 0.0),
                row["query"] or "",
                wait=f"{row['wait_event_type']}:{row['wait_event']}" if row["wait_event"] else "",
                lock=locks.get(row["pid"], ""),
                blockers=list(dict.fromkeys(row["blockers"])),
                inner=inner.get(row["pid"], []),
                queryid=row["queryid"],
            )
            self._reckon(statement, nodes.get(row["pid"], []), commands.get(row["pid"]), now)
        for pid, rows in helpers.items():
            if pid in found:
                found[pid].workers = len(rows)
                found[pid].blockers = list(dict.fromkeys([*found[pid].blockers, *(blocker for row in rows for blocker in row["blockers"])]))
                found[pid].lock = found[pid].lock or next((locks[row["pid"]] for row in rows if row["pid"] in locks), "")
        self._before = {key: value for key, value in self._before.items() if key[0] in found}
        self.found = list(found.values())
        return self.found

    def details(self, statements: list[Statement]) -> None:
        """Fill in what these statements of the last sample have waited for, and how long their executions took before."""
        if not self.schema or self.reason:
            return
        now = time.monotonic()
        samples = waits.present(self.conn, self.schema, [statement.pid for statement in statements])
        for statement in statements:
            statement.waited = waited(statement, [row for row in samples if statement.pid in (row["pid"], row["leader_pid"])])
            if statement.queryid is None:
                continue
            key = (statement.database, statement.queryid)
            if key not in self._histories or now - self._histories[key][0] > HISTORY_SECONDS:
                within = (waits.ALWAYS, 12) if self.period is None else (self.period, 96)
                self._histories[key] = (now, waits.history(self.conn, self.schema, statement.queryid, statement.database, *within))
            statement.history = self._histories[key][1]

    def unseen(self) -> str:
        """The number of statements in the last sample without a visible plan, and of those without a slot since the first sample, with reasons; or nothing."""
        counts: dict[str, int] = {}
        for statement in self.found:
            if statement.unseen:
                counts[statement.unseen] = counts.get(statement.unseen, 0) + 1
        parts = [f"{sum(counts.values())} without a plan: " + ", ".join(f"{count} {why}" for why, count in counts.items())] if counts else []
        if self.hidden:
            parts.append(f"{self.hidden} sessions of roles that you may not see (pg_read_all_stats)")
        parts += [f"{count:,} not seen since: {why}" for why, count in self.refused.items() if count]
        return "; ".join(parts)

    def _count_refused(self) -> None:
        row = self.conn.execute(f"SELECT {', '.join(REFUSED)} FROM {self.schema}.light_explain_status()").fetchone()
        if self._refused_at_first is None:
            self._refused_at_first = dict(row)
        self.refused = {why: row[name] - self._refused_at_first[name] for name, why in REFUSED.items()}

    def _unseen(self, statement: Statement) -> str:
        """Why a statement without a plan has none."""
        if self.reason:
            return "on a server that does not tell"
        if statement.wait.startswith("Lock:"):
            return "waiting for a lock"
        return "only begun" if statement.seconds < YOUNG else "without instrumentation or slot"

    def _reckon(self, statement: Statement, nodes: list[dict[str, Any]], command: dict[str, Any] | None, now: float) -> None:
        key = (statement.pid, statement.query)
        last = self._before.get(key)
        if nodes:
            statement.nodes = nodes
            result = progress.estimate(nodes, statement.seconds, last[3] if last else None)
            statement.top = result.top
            if result.top is not None:
                progress.annotate(nodes, result.top)
                statement.blocks = sum(node.blocks for node in result.top.walk())
        elif command is not None:
            share = command["share"]
            result = Progress(share, statement.seconds * (1 - share) / share if share else None,
                              "by the server's progress view", command["phase"])
        elif statement.inner:
            result = Progress(None, None, "its own plan is not seen, only what its functions run")
        else:
            statement.unseen = self._unseen(statement)
            result = Progress(None, None, self.reason or f"its plan is not seen: {statement.unseen}")
        if statement.inner:
            top = progress.tree(statement.inner[-1])
            if top is not None:
                progress.reckon(top)
                inside = progress.current(top)
                result.current = f"{result.current} > {inside.label}" if result.current else f"in a function: {inside.label}"
                result.rows = result.rows or inside.rows
        statement.share, statement.left, statement.how, statement.node, statement.rows = result.share, result.left, result.how, result.current, result.rows
        if last is not None and last[2] == result.current and now > last[0] and result.rows >= last[1]:
            statement.rows_per_second = (result.rows - last[1]) / (now - last[0])
        self._before[key] = (now, result.rows, result.current, result)
