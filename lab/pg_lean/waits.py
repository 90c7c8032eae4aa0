"""What plan nodes waited for, from light_explain's samples, and how long executions of a statement took before.

Samples show a wait event or CPU, which is the absence of one.  In `Waits`, a wait's name is "Type:Event".
"""

from __future__ import annotations

import time
from typing import Any, Iterable, Mapping

import psycopg
from psycopg.rows import dict_row, tuple_row

from pg_lean.errors import Unavailable

#: Samples or milliseconds by wait.
Waits = dict[str, float]

CPU = "CPU"

#: The beginning and the end of a period, in any form that the server reads.
Period = tuple[str, str]
ALWAYS: Period = ("-infinity", "infinity")

#: Types of wait events with their colors, light and dark scheme; the last one is all others.
KINDS = ((CPU, "#8fc7a6", "#2f6b4a"), ("Lock", "#eda0a0", "#8f3434"), ("LWLock", "#f2b880", "#8a5a1f"), ("IO", "#a9b9ec", "#3c4f94"),
         ("Client", "#d8cde8", "#5c4a78"), ("IPC", "#f0dc82", "#77671a"), ("Timeout", "#a5d8dd", "#24646b"), ("other", "#d9d9d4", "#4a4a48"))
TYPES = [kind for kind, _, _ in KINDS]

#: Sums of the sampler by plan node; a function's statement may have several callers.
SUMS = "SELECT dbid, userid, queryid, planid, node, wait_event_type, wait_event, seconds FROM {s}.light_explain_waits() WHERE node IS NOT NULL"

#: Samples of what processes run now, since it began; those of workers by their own process.
PRESENT = """
SELECT s.pid, s.leader_pid, s.queryid, s.node, s.activity, s.wait_event_type, s.wait_event, count(*)::float8 AS samples, sum(s.seconds) AS seconds
FROM {s}.light_explain_samples() s JOIN pg_stat_activity a ON a.pid = coalesce(s.leader_pid, s.pid) AND s.sampled >= a.query_start
WHERE a.pid = ANY(%s::int[])
GROUP BY s.pid, s.leader_pid, s.queryid, s.node, s.activity, s.wait_event_type, s.wait_event"""

#: Buckets of the history in which a statement ran and that have a part in a period, in all roles, the last one first.
HISTORY = """
SELECT bucket_start, bucket_end, sum(executions)::bigint AS executions, sum(total_ms) / sum(executions)::float8 AS mean_ms,
       max(p95_ms) AS p95_ms, max(max_ms) AS max_ms
FROM {s}.light_explain_latency WHERE queryid = %s::bigint AND datname = %s::name
      AND bucket_start < %s::timestamptz AND coalesce(bucket_end, 'infinity') > %s::timestamptz
GROUP BY bucket, bucket_start, bucket_end ORDER BY bucket DESC LIMIT %s::bigint"""


#: Samples of a period by statement, node and wait, from the history of waits, which also has those of before a restart.  Its arguments: the
#: period's beginning and end, in any form that the server reads, a statement's identifier or NULL twice, and a number of rows.  The row
#: without a statement is the samples for which a bucket had no space.
PERIOD = """
WITH summed AS MATERIALIZED (
    SELECT dbid, userid, queryid, planid, node, activity, wait_event_type, wait_event, sum(samples) AS samples, sum(seconds) AS seconds
    FROM {s}.light_explain_waits_history(%s::timestamptz, %s::timestamptz) WHERE %s::text IS NULL OR queryid::text = %s::text
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8),
named AS (SELECT dbid, userid, queryid, planid, node, min(btrim(label)) AS label FROM {s}.light_explain_profile() GROUP BY 1, 2, 3, 4, 5),
text AS (SELECT dbid, queryid, min(query) AS query FROM {s}.light_explain_profile() GROUP BY 1, 2)
SELECT datname AS database, queryid::text, planid::text, node, label, coalesce(activity, 'without space') AS activity,
       coalesce(wait_event_type, 'unknown') AS wait_event_type, coalesce(wait_event, 'unknown') AS wait_event,
       sum(samples)::bigint AS samples, sum(seconds) AS seconds, min(query) AS query
FROM summed LEFT JOIN named USING (dbid, userid, queryid, planid, node) LEFT JOIN text USING (dbid, queryid)
     LEFT JOIN pg_catalog.pg_database d ON d.oid = dbid
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY samples DESC, seconds DESC, label LIMIT %s::bigint"""

#: The same by the buckets' beginnings and waits.
COURSE = """
SELECT bucket_start, coalesce(wait_event_type, 'unknown') AS wait_event_type, coalesce(wait_event, 'unknown') AS wait_event,
       sum(samples)::bigint AS samples, sum(seconds) AS seconds
FROM {s}.light_explain_waits_history(%s::timestamptz, %s::timestamptz) WHERE %s::text IS NULL OR queryid::text = %s::text
GROUP BY 1, 2, 3 ORDER BY 1, 4 DESC"""


def kind_of(wait: str) -> str:
    """Which of KINDS a wait belongs to."""
    kind = wait.partition(":")[0]
    return kind if kind in TYPES else "other"


def name_of(row: Mapping[str, Any]) -> str:
    """The name of a sample's wait; both columns of it are CPU if there is none, and may be unknown in the history."""
    return row["wait_event"] if row["wait_event"] == row["wait_event_type"] else f"{row['wait_event_type']}:{row['wait_event']}"


def ordered(waits: Mapping[str, float]) -> list[tuple[str, float]]:
    """Waits in the order of KINDS, so that a color is at the same place everywhere, the longest of a kind first."""
    return sorted(waits.items(), key=lambda item: (TYPES.index(kind_of(item[0])), -item[1], item[0]))


def _query(conn: psycopg.Connection, schema: str, query: str, *parameters: Any) -> list[dict[str, Any]]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.replace("{s}", schema), parameters).fetchall()


def present(conn: psycopg.Connection, schema: str, pids: Iterable[int]) -> list[dict[str, Any]]:
    """Samples of what these processes run now, and their workers, with the wait's name in `wait`."""
    return [{**row, "wait": name_of(row)} for row in _query(conn, schema, PRESENT, list(pids))]


def of_period(conn: psycopg.Connection, schema: str, period: Period, queryid: int | str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """What plan nodes waited for in a period, the most samples first, of all buckets of the history of waits that have a part in it."""
    wanted = None if queryid is None else str(queryid)
    return _query(conn, schema, PERIOD, *period, wanted, wanted, limit)


def course(conn: psycopg.Connection, schema: str, period: Period, queryid: int | str | None = None) -> list[dict[str, Any]]:
    """The samples of a period by the beginning of a bucket and wait, in the order of time."""
    wanted = None if queryid is None else str(queryid)
    return _query(conn, schema, COURSE, *period, wanted, wanted)


def history(conn: psycopg.Connection, schema: str, queryid: int, database: str, period: Period = ALWAYS, buckets: int = 12) -> list[dict[str, Any]]:
    """The last buckets of a period in which a statement ran, the last one first, each with its waits and their samples in `waits`.

    Without a history of waits, these are empty.
    """
    found = _query(conn, schema, HISTORY, queryid, database, period[1], period[0], buckets)
    if not found:
        return found
    try:
        sampled = course(conn, schema, (str(min(row["bucket_start"] for row in found)), period[1]), queryid)
    except psycopg.errors.ObjectNotInPrerequisiteState:
        sampled = []
    for row in found:
        waits = row["waits"] = {}
        for sample in sampled:
            if row["bucket_start"] <= sample["bucket_start"] and (row["bucket_end"] is None or sample["bucket_start"] < row["bucket_end"]):
                waits[name_of(sample)] = waits.get(name_of(sample), 0) + sample["samples"]
    return found


def of_profile(conn: psycopg.Connection, schema: str, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of light_explain_profile, each with the milliseconds that its node waited, in `waits`.

    Samples do not know the caller of a statement: its waits are divided among callers in proportion to the node's time.
    """
    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("dbid", "userid", "queryid", "planid", "node"))

    found: dict[tuple[Any, ...], Waits] = {}
    for row in _query(conn, schema, SUMS):
        waits = found.setdefault(key(row), {})
        waits[name_of(row)] = waits.get(name_of(row), 0.0) + 1000 * row["seconds"]
    rows = list(rows)
    own: dict[tuple[Any, ...], float] = {}
    for row in rows:
        own[key(row)] = own.get(key(row), 0.0) + (row["self_ms"] or 0.0)
    return [{**row, "waits": {wait: ms * (row["self_ms"] or 0.0) / own[key(row)] for wait, ms in found.get(key(row), {}).items()} if own[key(row)] > 0 else {}}
            for row in rows]


def of_running(conn: psycopg.Connection, schema: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of light_explain_progress() in the same way, from samples of the statements that are running."""
    found: dict[tuple[Any, ...], Waits] = {}
    for sample in present(conn, schema, {row["leader_pid"] or row["pid"] for row in rows}):
        waits = found.setdefault((sample["pid"], sample["queryid"], sample["node"]), {})
        waits[sample["wait"]] = waits.get(sample["wait"], 0.0) + 1000 * sample["seconds"]
    return [{**row, "waits": found.get((row["pid"], row["queryid"], row["node"]), {})} for row in rows]


def of_text(samples: str, own_ms: float) -> Waits:
    """Those of a kept plan: its property Samples, such as "IO:DataFileRead 3, CPU 2", as parts of the node's own time."""
    counts = {}
    for part in samples.split(", "):
        wait, _, count = part.rpartition(" ")
        counts[wait] = int(count)
    total = sum(counts.values())
    return {wait: own_ms * count / total for wait, count in counts.items()} if total > 0 else {}


def parts(waits: Mapping[str, float], own_ms: float) -> Waits:
    """How a node's own time divides: its waits, which samples show, and the rest, which the clock shows, as CPU.  Sampled waits may exceed the time."""
    only = {wait: ms for wait, ms in waits.items() if wait != CPU and ms > 0}
    scale = min(1.0, own_ms / sum(only.values())) if only else 0.0
    found = {wait: ms * scale for wait, ms in only.items()}
    rest = own_ms - sum(found.values())
    return {CPU: rest, **found} if rest > 1e-9 * own_ms else found


def settle(conn: psycopg.Connection, schema: str, seconds: float = 10) -> None:
    """Wait until the sampler has seen that statements ended: only then does it know their plans, and so the names of their nodes."""
    cursor = conn.cursor(row_factory=tuple_row)

    def rounds() -> int:
        return cursor.execute(f"SELECT sampler_rounds FROM {schema}.light_explain_status()").fetchone()[0]

    before, deadline = rounds(), time.monotonic() + seconds
    while rounds() <= before + 1:
        if time.monotonic() > deadline:
            raise Unavailable(f"light_explain's sampler did nothing in {seconds:g} s", "Is light_explain.sample_interval more than 0?")
        time.sleep(0.01)
