"""Programs that display plans take the JSON of kept plans as it is: PEV2 in Chromium, and the lab's flame graph.

`make monitoring` installs PEV2; without it, its tests are left out.
"""

import json
import os
import re
from pathlib import Path

import pytest

from conftest import profiling_cluster
from pg_lean import flame
from pg_lean.paths import BUILD

#: Where ci/monitoring.sh installs the npm packages.
MODULES = Path(os.environ.get("PEV2_MODULES", BUILD / "monitoring" / "node" / "node_modules"))

PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="file://{modules}/bootstrap/dist/css/bootstrap.min.css">
<link rel="stylesheet" href="file://{modules}/pev2/dist/pev2.css"><div id="app" style="height: 880px"><pev2 :plan-source="plan" plan-query=""></pev2></div>
<script>window.errors = []; window.onerror = message => errors.push(message);</script>
<script src="file://{modules}/vue/dist/vue.global.prod.js"></script><script src="file://{modules}/pev2/dist/pev2.umd.js"></script>
<script>
const app = Vue.createApp({{data: () => ({{plan: {plan}}})}});
app.config.errorHandler = error => errors.push(String(error));
app.component('pev2', pev2.Plan); app.mount('#app');
</script>"""

STATEMENTS = {
    "a join": ("SELECT count(*) FROM work.t a JOIN work.t b USING (id) WHERE a.id <> 5 OR pg_sleep(0.3) IS NOT NULL", "Seq Scan"),
    "a sort that spills": ("SELECT id FROM work.t ORDER BY md5(id::text)", "Sort"),
    "an initplan and a CTE": ("WITH c AS MATERIALIZED (SELECT id FROM work.t WHERE k = 3) SELECT count(*), (SELECT max(k) FROM work.t) FROM c", "CTE Scan"),
    "workers": ("SELECT count(*) FROM work.t WHERE md5(id::text) > '5'", "Gather"),
    "an update": ("UPDATE work.t SET k = k WHERE id < 100", "ModifyTable"),
}


@pytest.fixture(scope="module")
def plans():
    """Kept plans as JSON, by the kind of statement."""
    cluster = profiling_cluster()
    cluster.settings.update({"light_explain.plans_min_duration": "0", "light_explain.plans_interval": "0",
                             "max_parallel_workers_per_gather": "2", "parallel_setup_cost": "0",
                             "min_parallel_table_scan_size": "0"})
    found = {}
    with cluster, cluster.connect() as conn:
        conn.execute("CREATE TABLE work.t AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 20000) g")
        conn.execute("ANALYZE work.t")
        conn.execute("SET work_mem = '64kB'")
        for kind, (statement, _) in STATEMENTS.items():
            conn.execute("SET max_parallel_workers_per_gather = " + ("2" if kind == "workers" else "0"))
            conn.execute(statement)
            found[kind] = conn.execute("SELECT light_explain_plan(queryid, planid, 'last', 'json') FROM work.light_explain_plans"
                                       " WHERE query = %s AND which = 'last'", (statement,)).fetchone()[0]
    return found


def nodes(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


@pytest.mark.parametrize("kind", STATEMENTS)
def test_pev2_displays_it(plans, browser, tmp_path, kind):
    if not (MODULES / "pev2" / "dist" / "pev2.umd.js").exists():
        pytest.skip("pev2 is not installed (make monitoring installs it)")
    top = json.loads(plans[kind])[0]["Plan"]
    (tmp_path / "page.html").write_text(PAGE.format(modules=MODULES, plan=json.dumps(plans[kind]).replace("</", "<\\/")))
    browser.open((tmp_path / "page.html").as_uri(), 1280)
    for _ in range(100):
        shown = browser.ask("document.querySelectorAll('.plan-node').length")
        if shown:
            break
        browser.ask("new Promise(done => setTimeout(done, 100))")
    assert browser.ask("errors") == []
    expected = list(nodes(top))
    assert shown == len(expected)
    text = browser.ask("document.body.innerText")
    for node in expected:
        # a ModifyTable is shown by its operation, and a join with its type
        words = node["Node Type"].split()
        assert re.search(r"\s(\w+\s)?".join(words), text) or node.get("Operation", "?") in text, node["Node Type"]
    assert "unable to parse" not in text.lower() and "Couldn't parse" not in text


@pytest.mark.parametrize("kind", STATEMENTS)
def test_the_flame_graph_draws_it(plans, kind):
    root = flame.of_explain(plans[kind])

    def names(frame):
        yield frame.name
        for below in frame.children:
            yield from names(below)

    drawn, (_, node) = list(names(root)), STATEMENTS[kind]
    assert any(node in name or (node == "ModifyTable" and "Update" in name) for name in drawn), drawn
    assert len(drawn) >= len(list(nodes(json.loads(plans[kind])[0]["Plan"])))


def test_self_times_and_samples_are_properties_of_nodes(plans):
    top = json.loads(plans["a join"])[0]
    assert all("Self Time" in node for node in nodes(top["Plan"])) and "Execution Time" in top
    assert any("PgSleep" in node.get("Samples", "") for node in nodes(top["Plan"]))
