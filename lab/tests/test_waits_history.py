"""What the server waited for in a period, also before a restart: pg-lean waits, and the queries of top and the MCP server."""

import json
import time

import psycopg
import pytest

from conftest import hostile, profiling_cluster
from pg_lean.errors import LabError
from pg_lean.store import Store

STATEMENT = "SELECT count(*) FROM work.t WHERE id > {} AND CASE WHEN id = 100 THEN pg_sleep(1.2) IS NOT NULL ELSE true END"


@pytest.fixture(scope="module")
def server():
    """A server that waited in the night, was started again, and works for a moment; with the time at which it was stopped."""
    cluster = profiling_cluster()
    cluster.settings.update({"light_explain.sample_interval": 10, "light_explain.waits_interval": 1, "light_explain.history_interval": 1})
    with hostile(cluster):
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE work.t AS SELECT g AS id FROM generate_series(1, 500) g")
            conn.execute("CREATE ROLE other LOGIN")
            conn.execute(STATEMENT.format(7))
            conn.execute("SET light_explain.profile = off")
            time.sleep(2.2)
        cluster.restart()
        with cluster.connect() as conn:
            cluster.restarted = conn.execute("SELECT now()::text").fetchone()[0]
            # a bucket that contains this time is in the period before it, too
            time.sleep(1.1)
            conn.execute("SELECT pg_sleep(1.2) FROM work.t WHERE id = 9")
            time.sleep(2.2)
        yield cluster


def sleeps(rows):
    """Queries that slept, with their nodes."""
    return {(" ".join(row["query"].split()), row["label"]) for row in rows if row["wait_event"] == "PgSleep" and row["samples"] > 20}


def test_a_period_is_read_from_the_history(server):
    night, today = (STATEMENT.format(7), "Seq Scan on t"), ("SELECT pg_sleep(1.2) FROM work.t WHERE id = 9", "Seq Scan on t")
    with Store(server.conninfo) as store:
        assert sleeps(store.waits(None, 50)) == {today}, "the sums are those since the start"
        assert sleeps(store.waits(None, 50, store.period(minutes=60))) == {night, today}
        assert sleeps(store.waits(None, 50, store.period(until=server.restarted))) == {night}
        assert sleeps(store.waits(None, 50, store.period(since=server.restarted, until="tomorrow"))) == {today}
        assert store.waits(None, 50, store.period(until="yesterday")) == []
        row = next(row for row in store.waits(None, 50, store.period(minutes=60)) if row["query"] == night[0] and row["wait_event"] == "PgSleep")
        assert 0.8 < row["seconds"] < 2 and row["planid"] and row["activity"] == "execute" and row["node"] == 1
        assert sleeps(store.waits(row["queryid"], 50, store.period(minutes=60))) == {night}
        assert len(store.waits(None, 1, store.period(minutes=60))) == 1
        with pytest.raises(LabError, match="either minutes or times"):
            store.period(5, "yesterday")
        with pytest.raises(psycopg.errors.InvalidDatetimeFormat):
            store.period(since="whenever")
    with Store(f"{server.conninfo} user=other") as store:
        seen = {row["queryid"] for row in store.waits(None, 50, store.period(minutes=60)) if row["wait_event"] == "PgSleep"}
        assert seen <= {None}, "another role sees no statement of these sessions"


def test_the_command(server, pg_lean, tmp_path):
    done = pg_lean("waits", "--dsn", server.conninfo, "--until", server.restarted, "--json", "--limit", "100000")
    found = json.loads(done.stdout)
    assert sleeps(found["waits"]) == {(STATEMENT.format(7), "Seq Scan on t")} and found["since"] == "-infinity"
    queryid = next(row["queryid"] for row in found["waits"] if row["wait_event"] == "PgSleep")
    assert len({row["bucket_start"] for row in found["course"] if row["wait_event"] == "PgSleep"}) >= 2
    assert sum(row["samples"] for row in found["course"]) == sum(row["samples"] for row in found["waits"])
    done = pg_lean("waits", "--dsn", server.conninfo, "--queryid", queryid)
    assert done.returncode == 0, done.stderr
    for wanted in ("Timeout:PgSleep", "Seq Scan on t", "In the course of time, 1 minute a row"):
        assert wanted in done.stdout
    page = tmp_path / "waits.html"
    done = pg_lean("waits", "--dsn", server.conninfo, "--minutes", "60", "-o", str(page))
    assert done.stdout.strip() == page.as_uri()
    text = page.read_text()
    for wanted in ("<h1>What the server waited for, by query and node</h1>", "Timeout:PgSleep", "pg_sleep(1.2) FROM work.t WHERE id = 9",
                   "In the course of time", "(CSV)"):
        assert wanted in text
    done = pg_lean("waits", "--dsn", server.conninfo, "--until", "yesterday")
    assert done.returncode == 1 and "there are no samples of this period" in done.stderr
    done = pg_lean("waits", "--dsn", server.conninfo, "--since", "whenever")
    assert done.returncode == 1 and "whenever" in done.stderr


def test_a_server_without_a_history_says_so(pg_lean):
    cluster = profiling_cluster()
    cluster.settings["light_explain.waits_size"] = 0
    with cluster:
        done = pg_lean("waits", "--dsn", cluster.conninfo)
        assert done.returncode == 1 and "there is no history of waits" in done.stderr and "light_explain.waits_size" in done.stderr
