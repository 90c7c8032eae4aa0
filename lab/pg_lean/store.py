"""Questions to light_explain's query store: statements, waits, regressions, kept plans.

Identifiers of statements and plans are text, because numbers of JSON lose digits of 64-bit integers in many programs.
"""

from __future__ import annotations

import json
from typing import Any, Iterator

import psycopg
from psycopg.rows import dict_row

from pg_lean import waits
from pg_lean.cluster import UserServer
from pg_lean.errors import LabError
from pg_lean.names import need_extension_schema

#: Milliseconds that a question may take on the server.
PATIENCE = 60_000


class Store:
    """A session that only reads; use it in a `with` block."""

    def __init__(self, dsn: str):
        self.conn: psycopg.Connection = UserServer(dsn).connect(default_transaction_read_only="on", statement_timeout=PATIENCE)
        try:
            self.schema = need_extension_schema(self.conn, "light_explain")
            # questions are not what the profile is asked about; only a superuser may leave them out of it
            if self.conn.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone()[0]:
                UserServer.set(self.conn, {"light_explain.profile": "off"})
        except BaseException:
            self.conn.close()
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.conn.close()

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Rows of a query, in which {s} is the extension's schema."""
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.replace("{s}", self.schema), parameters).fetchall()

    def slowest(self, limit: int) -> list[dict[str, Any]]:
        """The statements that took most time since the profile began, with the node that took most of it."""
        return self.rows("""
            SELECT datname AS database, rolname AS role, queryid::text, sum(executions) FILTER (WHERE node = 0)::bigint AS executions,
                   sum(failed + cancelled) FILTER (WHERE node = 0)::bigint AS failed, sum(total_ms) FILTER (WHERE node = 0) AS total_ms,
                   sum(total_ms) FILTER (WHERE node = 0) / sum(executions) FILTER (WHERE node = 0) AS mean_ms, count(DISTINCT planid) AS plans,
                   (array_agg(btrim(label) ORDER BY self_ms DESC))[1] AS slowest_node, max(self_ms) AS slowest_node_ms, min(query) AS query
            FROM {s}.light_explain_profile GROUP BY datname, rolname, queryid HAVING sum(executions) FILTER (WHERE node = 0) > 0
            ORDER BY total_ms DESC LIMIT %s::bigint""", limit)

    def period(self, minutes: float | None = None, since: str | None = None, until: str | None = None) -> waits.Period | None:
        """A period of the last minutes, or between two times of which one may be left out, by the server's clock; None if none is given."""
        if minutes is None and since is None and until is None:
            return None
        if minutes is not None and (since is not None or until is not None):
            raise LabError("a period has either minutes or times", "Give the minutes before now, or the times at which it began and ended.")
        found = self.rows("SELECT coalesce(%s::timestamptz, now() - make_interval(secs => 60 * %s::float8), '-infinity')::text AS since,"
                          " coalesce(%s::timestamptz, 'infinity')::text AS until", since, minutes, until)[0]
        return found["since"], found["until"]

    def waits(self, queryid: str | None, limit: int, period: waits.Period | None = None) -> list[dict[str, Any]]:
        """What plan nodes waited for: all samples since the server started, or those of a period in the history of waits, which remains after a restart."""
        if period is not None:
            return waits.of_period(self.conn, self.schema, period, queryid, limit)
        return self.rows("""
            SELECT datname AS database, queryid::text, planid::text, node, btrim(label) AS label, activity, wait_event_type, wait_event,
                   sum(samples)::bigint AS samples, sum(seconds) AS seconds, min(query) AS query
            FROM {s}.light_explain_waits WHERE %s::text IS NULL OR queryid::text = %s::text
            GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY samples DESC LIMIT %s::bigint""", queryid, queryid, limit)

    def regressions(self, hours: float | None) -> list[dict[str, Any]]:
        """Statements that became slower, or of which a node did: in the last bucket, or in the last hours, compared with the day before."""
        columns = """d.datname AS database, r.rolname AS role, x.queryid::text, x.change, x.slower, x.planid::text, x.before_planid::text,
                     x.node, btrim(x.label) AS label, x.tested, x.factor, x.e_value, x.executions,
                     x.mean_ms, x.before_mean_ms, x.node_ms, x.before_node_ms, x.rows, x.before_rows, x.blocks, x.before_blocks,
                     x.temp_written, x.before_temp_written, x.query, x.pin"""
        names = "LEFT JOIN pg_catalog.pg_database d ON d.oid = x.dbid LEFT JOIN pg_catalog.pg_roles r ON r.oid = x.userid"
        if hours is None:
            return self.rows(f"SELECT {columns} FROM {{s}}.light_explain_regressions x {names}")
        return self.rows(f"SELECT {columns} FROM {{s}}.light_explain_regressions(now() - make_interval(secs => 3600 * %s::float8), 'infinity',"
                         f" now() - make_interval(secs => 3600 * %s::float8) - interval '1 day', now() - make_interval(secs => 3600 * %s::float8)) x {names}",
                         hours, hours, hours)

    def kept(self, least_ms: float = 0) -> list[dict[str, Any]]:
        """Executions of which the plan is kept, the slowest first; one that is both the slowest and the last is there once."""
        return self.rows("""
            SELECT DISTINCT ON (total_ms, ended, k.queryid, planid, k.dbid, k.userid)
                   datname AS database, rolname AS role, k.queryid::text, planid::text, which,
                   ended, total_ms, query, coalesce(e.executions, 0)::bigint AS executions
            FROM {s}.light_explain_plans k
                 LEFT JOIN (SELECT dbid, userid, queryid, sum(executions) AS executions FROM {s}.light_explain_profile() WHERE node = 0 GROUP BY 1, 2, 3) e
                 USING (dbid, userid, queryid)
            WHERE total_ms >= %s::float8 ORDER BY total_ms DESC, ended, k.queryid, planid, k.dbid, k.userid, which DESC""", least_ms)

    def plan(self, queryid: str, planid: str | None, which: str, as_text: bool) -> str | None:
        """A kept plan, as EXPLAIN ANALYZE prints it, as text or JSON; None if there is none."""
        if which not in ("slowest", "last"):
            raise LabError(f"unknown execution: {which}", "Available: slowest, last.")
        numbers = []
        for value in (queryid, planid):
            try:
                numbers.append(None if value is None else int(value))
            except ValueError:
                raise LabError(f"not an identifier: {value}", "Use slowest_statements or regressions.") from None
        return self.rows("SELECT {s}.light_explain_plan(%s::bigint, %s::bigint, %s::text, %s::text) AS plan",
                         *numbers, which, "text" if as_text else "json")[0]["plan"]

    def kept_plans(self, least_ms: float) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
        """Kept executions and their plans, parsed and as text."""
        for execution in self.kept(least_ms):
            text = self.plan(execution["queryid"], execution["planid"], execution["which"], False)
            if text is not None:  # it may have made space for another one
                yield execution, json.loads(text)[0], text
