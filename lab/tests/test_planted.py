"""Problems that were planted on a server are found by the tools: a bad estimate by misestimates, a lock by top and doctor."""

import json

import pytest

from conftest import profiling_cluster
from test_top import running, until

BAD = "SELECT count(*) FROM cars WHERE maker = 7 AND model = 7"


@pytest.mark.slow
def test_a_bad_estimate_and_a_lock_are_found(pg_lean):
    with profiling_cluster() as server, server.connect() as conn:
        conn.execute("CREATE TABLE work.cars AS SELECT g % 100 AS maker, g % 100 AS model, g AS id FROM generate_series(1, 100000) g")
        conn.execute("ANALYZE cars")
        conn.execute("SELECT light_explain_profile_reset()")
        conn.execute(BAD)
        found = pg_lean("misestimates", "--dsn", server.conninfo, "--json")
        assert found.returncode == 0, found.stderr
        mine = [entry for entry in json.loads(found.stdout) if "cars" in entry["label"]]
        assert len(mine) == 1 and mine[0]["than_expected"] == "more" and mine[0]["query"].startswith(BAD) and "CREATE STATISTICS" in mine[0]["advice"]

        def locks():
            done = pg_lean("doctor", "--dsn", server.conninfo, "--json")
            assert "Traceback" not in done.stderr, done.stderr
            return [entry for entry in json.loads(done.stdout) if entry["check"] == "who waits for whom"]

        assert [entry["level"] for entry in locks()] == ["ok"]
        with server.connect() as owner, owner.transaction():
            owner.execute("LOCK TABLE cars")
            with running(server, BAD) as pid:
                until(lambda: conn.execute("SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted", (pid,)).fetchone())
                blocker = owner.info.backend_pid
                entry, = locks()
                assert (
                    entry["level"] in ("note", "warning")
                    and f"process {pid} has waited" in entry["what"]
                    and f"lock of process {blocker} (idle in transaction)" in entry["what"]
                )
                assert f"pg_terminate_backend({blocker})" in entry["do"]
                shown = pg_lean("top", "--dsn", server.conninfo, "--once", "--json")
                statement = next(entry for entry in json.loads(shown.stdout) if entry["pid"] == pid)
                assert statement["blockers"] == [blocker] and statement["wait"] == "Lock:relation" and statement["query"] == BAD
        assert [entry["level"] for entry in locks()] == ["ok"]
