"""A planted bad estimate is found, with its node, its factor and what to try; good ones are not."""

import json

import pytest

from conftest import hostile, profiling_cluster
from pg_lean.commands import misestimates


@pytest.fixture(scope="module")
def server():
    """Two columns that go together, which the planner takes for independent, in a profile."""
    with hostile(profiling_cluster()) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE work.cars AS SELECT g % 100 AS maker, g % 100 AS model, g AS id FROM generate_series(1, 100000) g")
            conn.execute("ANALYZE cars")
            conn.execute("SELECT light_explain_profile_reset()")
            for _ in range(3):
                conn.execute("SELECT count(*) FROM cars WHERE maker = 7 AND model = 7")
                conn.execute("SELECT count(*) FROM cars WHERE maker = 7")
        yield cluster


def test_a_planted_error_is_found_and_nothing_else(server, pg_lean):
    done = pg_lean("misestimates", "--dsn", server.conninfo, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    mine = [entry for entry in found if "cars" in entry["label"]]
    assert len(mine) == 1, found
    assert mine[0]["executions"] == 3 and mine[0]["rows"] == 1000 and mine[0]["than_expected"] == "more" and 50 < mine[0]["factor"] < 200
    assert "maker = 7 AND model = 7" in mine[0]["query"] and "CREATE STATISTICS" in mine[0]["advice"] and "FROM cars" in mine[0]["advice"]


def test_what_is_advised_mends_it(server, pg_lean):
    with server.connect() as conn:
        conn.execute("CREATE STATISTICS work.together ON maker, model FROM cars")
        conn.execute("ANALYZE cars")
        conn.execute("SELECT light_explain_profile_reset()")
        conn.execute("SELECT count(*) FROM cars WHERE maker = 7 AND model = 7")
        done = pg_lean("misestimates", "--dsn", server.conninfo, "--json")
        assert not [entry for entry in json.loads(done.stdout) if "cars" in entry["label"]]
        conn.execute("DROP STATISTICS work.together")
        conn.execute("ANALYZE cars")


def test_the_table_and_the_page(server, pg_lean, tmp_path):
    with server.connect() as conn:
        conn.execute("SELECT light_explain_profile_reset()")
        conn.execute("SELECT count(*) FROM cars a JOIN cars b USING (id) WHERE a.maker = 7 AND a.model = 7 AND 'x<y>' <> ''")
    done = pg_lean("misestimates", "--dsn", server.conninfo)
    assert done.returncode == 0 and "more" in done.stdout and "begin there" in done.stdout, done.stdout
    done = pg_lean("misestimates", "--dsn", server.conninfo, "-o", str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text()
    assert done.returncode == 0 and "CREATE STATISTICS" in text and "x&lt;y&gt;" in text and "<y>" not in text


def test_a_role_sees_its_own_statements(server, pg_lean):
    with server.connect() as conn:
        conn.execute("CREATE ROLE other LOGIN")
        try:
            done = pg_lean("misestimates", "--dsn", f"{server.conninfo} user=other", "--json")
            assert done.returncode == 0 and not [entry for entry in json.loads(done.stdout) if "cars" in entry["label"]], done.stderr
        finally:
            conn.execute("DROP ROLE other")


def test_without_the_view_it_says_what_to_do(stock, pg_lean):
    done = pg_lean("misestimates", "--dsn", stock.conninfo)
    assert (
        done.returncode == 1
        and 'extension "light_explain" is not installed in this database' in done.stderr
        and "CREATE EXTENSION light_explain;" in done.stderr
    )


@pytest.mark.parametrize("node_type, relation, than, says", [
    ("Function Scan", None, "more", "ROWS n"), ("Hash Join", None, "more", "n_distinct"),
    ("HashAggregate", None, "more", "(ndistinct)"), ("CTE Scan", None, "more", "MATERIALIZED"),
    ("Index Scan", "t", "less", "may have needed no more rows"), ("Seq Scan", "T on x", "more", 'ANALYZE "T on x"'),
    ("Bitmap Index Scan", None, "more", "ANALYZE its_table"),
    ("Limit", None, "more", "EXPLAIN")])
def test_advice_is_for_the_kind_of_node(node_type, relation, than, says):
    row = dict(node_type=node_type, relation=relation, than_expected=than)
    assert says in misestimates.advice({**row, "own_factor": 100.0})
    assert misestimates.advice({**row, "own_factor": 1.0}).startswith("Most of it")
