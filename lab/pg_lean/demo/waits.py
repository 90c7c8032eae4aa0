"""A few sessions that wait for each other, for files and for a slow client: what each plan node waited for, from light_explain's samples."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable

import psycopg
from psycopg.rows import dict_row

from pg_lean.bench import Bench, Result, Unavailable, Waits
from pg_lean.waits import CPU, name_of, settle

TITLE = "What the server waited for, by query and node"
PRELOAD = ("light_explain",)
SETTINGS = {"shared_buffers": "256MB", "compute_query_id": "on", "light_explain.profile": "on", "light_explain.sample_interval": "10",
            "max_parallel_workers_per_gather": "0"}

#: Sessions that update one row, and for how long each keeps its lock in a transaction.
WRITERS, HELD = 3, "0.01"
UPDATE = "UPDATE waits_counter SET n = n + 1 WHERE id = 1"
SORT = "SELECT count(*) FROM (SELECT aid, filler FROM pgbench_accounts ORDER BY filler, aid DESC OFFSET 0) s"
GROUP = "SELECT b.bid, count(*), sum(a.abalance) FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) GROUP BY b.bid"
SENT = "SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
#: Seconds for which the slow client reads nothing.
PAUSE = 0.3

#: Samples of some processes since a time, by statement, node and wait.
SAMPLES = """
SELECT coalesce(s.query, n.query) AS query, s.activity, CASE WHEN s.label IS NULL THEN s.node END AS node, btrim(s.label) AS label,
       s.wait_event_type, s.wait_event, count(*)::int AS samples
FROM {s}.light_explain_samples s
     LEFT JOIN (SELECT dbid, queryid, min(query) AS query FROM {s}.light_explain_profile() GROUP BY dbid, queryid) n USING (dbid, queryid)
WHERE coalesce(s.leader_pid, s.pid) = ANY(%s::int[]) AND s.sampled >= %s::timestamptz AND s.queryid IS NOT NULL
GROUP BY coalesce(s.query, n.query), s.activity, CASE WHEN s.label IS NULL THEN s.node END, s.label, s.wait_event_type, s.wait_event"""


def run(bench: Bench) -> Result:
    """Each session a number of statements, all sessions at once; then the samples of these sessions."""
    schema = bench.server.need_extension("light_explain")
    bench.pgbench_tables(bench.scale(full=10, quick=2))
    repetitions = bench.iterations(full=40, quick=10)
    with bench.connect() as conn:
        check(conn, schema)
        conn.execute("CREATE TABLE waits_counter AS SELECT 1 AS id, 0 AS n")
        started = conn.execute("SELECT clock_timestamp()").fetchone()[0]
        with bench.activity("sessions that wait"):
            few = max(repetitions // 10, 1)
            pids = together([(write, repetitions)] * WRITERS + [(sort, few), (group, repetitions), (slow_client, few)], bench)
        settle(conn, schema)
        with conn.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(SAMPLES.replace("{s}", schema), (pids, started)).fetchall()
        conn.execute("DROP TABLE waits_counter")
    return present(bench, rows)


def check(conn: psycopg.Connection, schema: str) -> None:
    """Are there samples, and names of nodes?"""
    if conn.execute(f"SELECT sampler_pid FROM {schema}.light_explain_status()").fetchone()[0] is None:
        raise Unavailable("light_explain's sampler does not run", "Preload light_explain, and set light_explain.sample_interval, then restart the server.")
    if conn.execute("SELECT current_setting('light_explain.profile')").fetchone()[0] != "on":
        raise Unavailable("light_explain.profile is off", "ALTER SYSTEM SET light_explain.profile = on; SELECT pg_reload_conf();")


def together(jobs: list[tuple[Callable[[psycopg.Connection, int], None], int]], bench: Bench) -> list[int]:
    """Do all jobs at once, each in a session with little memory; returns their processes."""
    sessions = [bench.connect(work_mem="1MB", jit=False) for _ in jobs]
    pids = [session.info.backend_pid for session in sessions]
    failed: list[BaseException] = []

    def work(session: psycopg.Connection, job: Callable[[psycopg.Connection, int], None], repetitions: int) -> None:
        try:
            with session:
                job(session, repetitions)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(session, *job)) for session, job in zip(sessions, jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return pids


def write(conn: psycopg.Connection, repetitions: int) -> None:
    """A row that others want as well, kept for a moment."""
    for _ in range(repetitions):
        with conn.transaction():
            conn.execute(UPDATE)
            conn.execute(f"SELECT pg_sleep({HELD})")


def sort(conn: psycopg.Connection, repetitions: int) -> None:
    """More than fits into memory."""
    for _ in range(repetitions):
        conn.execute(SORT).fetchall()


def group(conn: psycopg.Connection, repetitions: int) -> None:
    """Nothing to wait for."""
    for _ in range(repetitions):
        conn.execute(GROUP).fetchall()


def slow_client(conn: psycopg.Connection, repetitions: int) -> None:
    """A client that asks and does not read at once; the driver would read as rows come."""
    for _ in range(repetitions):
        conn.pgconn.send_query(SENT.encode())
        time.sleep(PAUSE)
        while conn.pgconn.get_result() is not None:
            pass


def node_of(row: dict[str, Any]) -> str:
    """The plan node of a sample, or the phase of the statement."""
    if row["node"] is not None and not row["label"]:
        return f"(node {row['node']} of an unknown plan)"
    phases = {"execute": "(sending rows)", "plan": "(planning)", "commit": "(commit)", "utility": "(utility command)"}
    return row["label"] or phases.get(row["activity"], f"({row['activity']})")


def present(bench: Bench, rows: list[dict[str, Any]]) -> Result:
    """The samples, and what most of them are."""
    rows = [{**row, "query": " ".join((row["query"] or "statements that are not in the profile").split()), "node": node_of(row), "wait": name_of(row)}
            for row in rows]
    for row in rows:
        bench.raw.add(row["wait"], 0, f"{row['query']}: {row['node']}", samples=row["samples"])
    total = sum(row["samples"] for row in rows)
    waiting = sum(row["samples"] for row in rows if row["wait"] != CPU)
    block = Waits("Samples by query, plan node and wait", [(row["query"], row["node"], row["wait"], row["samples"]) for row in rows],
                  "A bar is as long as the samples of its node, and its colors are what the node waited for; CPU means that there was no wait event.")
    if not rows:
        raise Unavailable("the sampler saw none of the statements", "Take more --iterations.")
    most = max((row for row in rows if row["wait"] != CPU), key=lambda row: row["samples"], default=rows[0])
    return Result(
        title=TITLE,
        summary=f"Of {total:,} samples of {WRITERS + 3} sessions, {waiting / total:.0%} were of processes that waited: most of them for {most['wait']}, "
                f"in `{most['node']}` of `{most['query']}`.",
        what=f"Wait events of plan nodes while sessions ran at once: {WRITERS} update one row and keep it for {HELD} s, one sorts more than its memory, "
             f"one groups, and one client asks for rows and reads nothing for {PAUSE} s.",
        how="light_explain's sampler reads node and wait event of each process; `light_explain_samples` has the samples. Nothing was added to the "
            "statements. On a user's server its settings apply, by default ten samples a second.",
        blocks=[block])
