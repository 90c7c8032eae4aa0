"""pg-lean top shows what a statement waited for, by node, and how long its executions took before."""

import json
import re

from pg_lean import screen
from pg_lean.activity import Activity
from test_top import drive, running, server, until  # noqa: F401


def test_waits_and_history_of_a_statement(server, pg_lean):  # noqa: F811
    """Its first executions are in the history; the last one is running, and samples show the node and what it waits for."""
    statement = "SELECT count(*) FROM generate_series(1, {}) g(a) WHERE pg_sleep(0.005) IS NOT NULL"
    with server.connect() as conn:
        for _ in range(3):
            conn.execute(statement.format(80))
    with running(server, statement.format(100_000)) as pid, server.connect() as conn:
        watch = Activity(conn)

        def found():
            statement = next((s for s in watch.look() if s.pid == pid and s.nodes), None)
            if statement is not None:
                watch.details([statement])
            return statement if statement is not None and sum(row["samples"] for row in statement.waited) > 20 else None

        one = until(found)
        assert (one.waited[0]["node"], one.waited[0]["wait"]) == ("Function Scan on generate_series g", "Timeout:PgSleep")
        assert one.history[0]["executions"] >= 3 and 100 <= one.history[0]["mean_ms"] <= one.history[0]["max_ms"]
        assert max(one.history[0]["waits"], key=one.history[0]["waits"].get) == "Timeout:PgSleep"
        text = screen.waits_text(one).plain
        assert re.search(r"\d+% Timeout:PgSleep Function Scan on generate_series g\n", text) and "samples of this execution" in text
        assert re.search(r"history: .*\n.* now +3 .* s +Timeout:PgSleep \d+%\n", screen.history_text(one).plain)
        assert len(screen.waits_text(one, most=0).plain.splitlines()) == 2
        done = pg_lean("top", "--dsn", server.conninfo, "--once", "--json")
        entry = next(entry for entry in json.loads(done.stdout) if entry["pid"] == pid)
        assert entry["waited"][0]["wait"] == "Timeout:PgSleep" and entry["history"][0]["executions"] >= 3
        for period, buckets in (("--until", "yesterday"), 0), (("--since", "yesterday", "--until", "tomorrow"), 1):
            done = pg_lean("top", "--dsn", server.conninfo, "--once", "--json", *period)
            entry = next(entry for entry in json.loads(done.stdout) if entry["pid"] == pid)
            assert len(entry["history"]) == buckets and all(row["waits"] for row in entry["history"]), period
        drawn = pg_lean("flame", "--pid", str(pid), "--waits", "--dsn", server.conninfo, "-o", str(server.home / "waits.html"))
        page = (server.home / "waits.html").read_text()
        assert drawn.returncode == 0 and "var(--w-Timeout)" in page
        # few of the samples of a sleeping statement are on the CPU, in a short time none
        assert re.search(r"waits: (CPU [\d,.]+( \w+)?, )?Timeout:PgSleep \d", page)
        conn.execute("CREATE ROLE stranger")
        conn.execute("SET ROLE stranger")
        strange = Activity(conn)
        strange.look()
        strange.details([one])
        assert one.waited == [] and one.history == [], "another role sees its own samples and history"
        conn.execute("RESET ROLE")
        conn.execute("DROP ROLE stranger")

    async def script(app, pilot, wait):
        await wait(lambda: any(s.pid == pid and s.nodes for s in app.statements))
        await pilot.press("enter")
        await wait(lambda: isinstance(app.screen, screen.Plan))
        await wait(lambda: "Timeout:PgSleep Function Scan" in str(app.screen.query_one("#plan").render()))
        await wait(lambda: "history: from" in str(app.screen.query_one("#plan").render()))

    with running(server, statement.format(100_000)) as pid:
        drive(server, script)
