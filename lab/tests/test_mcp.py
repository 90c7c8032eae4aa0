"""pg-lean mcp, asked by the client of the official SDK over standard input and output."""

import json
import sys

import pytest

from conftest import hostile, profiling_cluster

pytest.importorskip("mcp", reason="the package mcp is not installed (make monitoring installs it)")


@pytest.fixture(scope="module")
def server():
    """A server with a statement that sleeps, and a role without privileges."""
    with hostile(profiling_cluster()) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE work.t AS SELECT g AS id FROM generate_series(1, 500) g")
            conn.execute("CREATE ROLE other LOGIN")
            for _ in range(2):
                conn.execute("SELECT count(*) FROM work.t WHERE id > 7 AND CASE WHEN id = 100 THEN pg_sleep(0.5) IS NOT NULL ELSE true END")
        yield cluster


def talk(dsn, *calls):
    """Call tools in one session; returns the tools, and the answers as (is an error, text)."""
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    async def run():
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "pg_lean", "mcp", "--dsn", dsn])
        async with Client(stdio_client(parameters)) as client:
            tools = (await client.list_tools()).tools
            results = [await client.call_tool(name, arguments) for name, arguments in calls]
            return tools, [(bool(result.is_error), result.content[0].text) for result in results]
    return anyio.run(run)


def test_tools_are_described_and_only_read(server):
    tools, _ = talk(server.conninfo)
    assert {tool.name for tool in tools} == {"slowest_statements", "waits", "regressions", "plan", "doctor"}
    assert all(tool.annotations.read_only_hint and len(tool.description) > 40 for tool in tools)


def test_from_the_slowest_statement_to_its_plan(server):
    _, ((failed, text), ) = talk(server.conninfo, ("slowest_statements", {"limit": 3}))
    found = json.loads(text)
    assert not failed and 1 <= len(found) <= 3
    slow = next(row for row in found if "pg_sleep" in row["query"])
    assert slow["executions"] == 2 and slow["mean_ms"] > 490 and slow["slowest_node"] == "Seq Scan on t" and isinstance(slow["queryid"], str)
    _, answers = talk(server.conninfo, ("plan", {"queryid": slow["queryid"]}), ("plan", {"queryid": slow["queryid"], "which": "last"}),
                      ("waits", {"queryid": slow["queryid"]}),
                      ("waits", {"queryid": slow["queryid"], "minutes": 60}), ("waits", {"queryid": slow["queryid"], "since": "yesterday"}),
                      ("waits", {"until": "yesterday"}), ("waits", {"queryid": "1"}), ("plan", {"queryid": "1"}), ("regressions", {}),
                      ("regressions", {"hours": 1}), ("doctor", {}))
    assert not any(failed for failed, _ in answers)
    plan, last, all_waits, recent, of_day, before, none, missing, regressions, since, findings = [text for _, text in answers]
    assert plan.startswith("Aggregate") and "Samples: " in plan and "PgSleep" in plan and last.startswith("Aggregate")
    assert json.loads(before) == []
    for text in (all_waits, recent, of_day):
        waits = json.loads(text)
        assert waits[0]["wait_event"] == "PgSleep" and waits[0]["label"] == "Seq Scan on t" and waits[0]["samples"] > 3
    assert json.loads(none) == [] and "No plan" in missing and json.loads(regressions) == [] and isinstance(json.loads(since), list)
    assert any(finding["level"] == "ok" for finding in json.loads(findings))


def test_nothing_is_changed_and_errors_are_answers(server):
    _, answers = talk(server.conninfo, ("plan", {"queryid": "1; DROP TABLE work.t"}), ("plan", {"queryid": "1", "which": "first"}),
                      ("waits", {"queryid": "'; DROP TABLE work.t; --"}),
                      ("slowest_statements", {"limit": -5}), ("waits", {"since": "'; DROP TABLE work.t; --"}), ("waits", {"minutes": 5, "since": "yesterday"}))
    assert [failed for failed, _ in answers] == [True, True, False, False, True, True]
    assert "not an identifier" in answers[0][1] and "unknown execution" in answers[1][1] and len(json.loads(answers[3][1])) == 1
    assert "invalid input syntax" in answers[4][1] and "either minutes or times" in answers[5][1]
    with server.connect() as conn:
        assert conn.execute("SELECT count(*) FROM work.t").fetchone()[0] == 500


def test_a_role_sees_its_own_statements(server):
    _, answers = talk(f"{server.conninfo} user=other", ("slowest_statements", {}), ("waits", {}), ("regressions", {}))
    assert all(row["role"] == "other" for row in json.loads(answers[0][1]))
    assert "pg_sleep" not in "".join(text for _, text in answers)


def test_a_server_that_cannot_be_asked(stock, pg_lean):
    done = pg_lean("mcp", "--dsn", stock.conninfo)
    assert done.returncode == 1 and 'extension "light_explain" is not installed' in done.stderr
