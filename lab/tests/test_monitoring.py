"""The exporter and Prometheus of Debian's packages: metrics are what SQL shows, and the dashboard asks for metrics that exist.

`make monitoring` installs the packages; without them, the tests that need them are left out.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from conftest import free_port, profiling_cluster

FOLDER = Path(__file__).resolve().parents[2] / "light_explain" / "monitoring"
BOARD = json.loads((FOLDER / "dashboard.json").read_text())
#: Metrics end with one of these; the rest of the name is a query of the file.
NAME = re.compile(r"light_explain_\w+")
PATIENCE = 120


def expressions():
    """Each expression of the dashboard, with Grafana's variables replaced."""
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$database", ".*")


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def wait_for(what, condition):
    """Wait until a condition holds; returns its value."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if found := condition():
                return found
        time.sleep(0.5)
    raise AssertionError(f"{what} did not happen within {PATIENCE} s")


@contextlib.contextmanager
def running(command, log, **environment):
    with open(log, "w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def monitored(tmp_path_factory):
    """A server with a history, the exporter and Prometheus: yields a connection and the address of Prometheus."""
    exporter, prometheus = shutil.which("prometheus-postgres-exporter"), shutil.which("prometheus")
    if not exporter or not prometheus:
        pytest.skip("there is no Prometheus here (make monitoring installs Debian's packages)")
    folder = tmp_path_factory.mktemp("monitoring")
    cluster = profiling_cluster()
    with cluster, cluster.connect() as conn:
        # only the workload is in the profile
        conn.execute("SET light_explain.profile = off")
        conn.execute("SELECT work.light_explain_profile_reset(), work.light_explain_history_reset(), work.light_explain_samples_reset()")
        conn.execute("CREATE ROLE exporter LOGIN IN ROLE pg_monitor")
        conn.execute("ALTER ROLE exporter SET search_path = pg_catalog, work")
        conn.execute("ALTER ROLE exporter SET light_explain.profile = off")
        conn.execute("CREATE TABLE work.t AS SELECT g AS id, md5(g::text) AS v FROM generate_series(1, 20000) g")
        for _ in range(6):
            workload(conn)
        conn.execute("UPDATE work.t SET v = repeat(v, 50)")
        conn.execute("CREATE INDEX t_id ON work.t (id)")
        workload(conn)
        # from now on nothing changes what is compared
        conn.execute("ALTER SYSTEM SET light_explain.profile = off")
        conn.execute("ALTER SYSTEM SET light_explain.sample_interval = 0")
        conn.execute("SELECT pg_reload_conf()")
        ports = free_port(), free_port()
        # a scrape that takes longer than the interval is none, and all series are stale until the next one
        (folder / "prometheus.yml").write_text("global: {scrape_interval: 10s}\nscrape_configs:\n"
                                               f"  - {{job_name: postgresql, static_configs: [{{targets: ['127.0.0.1:{ports[0]}']}}]}}\n")
        with running([exporter, f"--web.listen-address=127.0.0.1:{ports[0]}", f"--extend.query-path={FOLDER / 'queries.yaml'}", "--disable-default-metrics",
                      "--disable-settings-metrics"], folder / "exporter.log", DATA_SOURCE_NAME=f"{cluster.conninfo} user=exporter sslmode=disable"), \
                running([prometheus, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                         f"--web.listen-address=127.0.0.1:{ports[1]}"],
                        folder / "prometheus.log"):
            address = f"http://127.0.0.1:{ports[1]}"
            # two scrapes, so that rates exist
            wait_for("a scrape", lambda: ask(address, "count_over_time(light_explain_status_up[5m]) >= 3"))
            yield conn, address


def workload(conn):
    """Fill a bucket of the history, and end it."""
    conn.execute("SET light_explain.profile = on")
    for _ in range(4):
        conn.execute("SELECT count(*) FROM work.t WHERE v > '5'")
        conn.execute("SELECT pg_sleep(0.05) FROM work.t WHERE id = 7")
    conn.execute("SET light_explain.profile = off")
    last = conn.execute("SELECT max(bucket) FROM work.light_explain_latency()").fetchone()[0]
    for seconds in (1, 86400):
        conn.execute(f"ALTER SYSTEM SET light_explain.history_interval = {seconds}")
        conn.execute("SELECT pg_reload_conf()")
        while conn.execute("SELECT count(*) FROM work.light_explain_latency() WHERE bucket = %s AND bucket_end IS NULL", (last,)).fetchone()[0]:
            time.sleep(0.1)
    time.sleep(0.5)


def ask(address, expression):
    """The result of an expression, as (labels, value)."""
    answer = json.loads(get(f"{address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    assert answer["status"] == "success", answer
    return [(entry["metric"], float(entry["value"][1])) for entry in answer["data"]["result"]]


def series(address, name, *labels):
    """Values of a metric by some of its labels."""
    return {tuple(metric[label] for label in labels): value for metric, value in ask(address, name)}


def same(found, expected):
    assert expected and found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(float(value), rel=1e-9, abs=1e-12), key


@pytest.mark.slow
@pytest.mark.parametrize("metric, column", [("executions_total", "executions"), ("seconds_total", "total_ms / 1000")])
def test_statements(monitored, metric, column):
    conn, address = monitored
    rows = conn.execute(f"SELECT rolname, queryid::text, sum({column}) FROM work.light_explain_profile WHERE node = 0 GROUP BY 1, 2").fetchall()
    same(series(address, f"light_explain_statement_{metric}", "rolname", "queryid"), {row[:2]: row[2] for row in rows})


@pytest.mark.slow
@pytest.mark.parametrize("metric, column", [("seconds_total", "self_ms / 1000"), ("rows_total", "rows"), ("plan_rows_total", "plan_rows"),
                                            ("hit_total", "shared_hit"), ("read_total", "shared_read"), ("temp_written_total", "temp_written")])
def test_nodes(monitored, metric, column):
    conn, address = monitored
    rows = conn.execute(f"SELECT queryid::text, planid::text, node::text, sum({column}) FROM work.light_explain_profile GROUP BY 1, 2, 3").fetchall()
    same(series(address, f"light_explain_node_{metric}", "queryid", "planid", "node"), {row[:3]: row[3] for row in rows})


@pytest.mark.slow
def test_waits_and_latency(monitored):
    conn, address = monitored
    rows = conn.execute("SELECT queryid::text, wait_event, sum(samples) FROM work.light_explain_waits WHERE label ~ 'Seq Scan' GROUP BY 1, 2").fetchall()
    found = {}
    for labels, value in ask(address, 'light_explain_wait_samples_total{label=~".*Seq Scan.*"}'):
        key = labels["queryid"], labels["wait_event"]
        found[key] = found.get(key, 0) + value
    same(found, {row[:2]: row[2] for row in rows})
    assert any(event == "PgSleep" and value > 3 for (_, event), value in found.items())
    rows = conn.execute("SELECT queryid::text, p95_ms / 1000 FROM work.light_explain_latency"
                        " WHERE bucket = (SELECT max(bucket) FROM work.light_explain_latency WHERE bucket_end IS NOT NULL)").fetchall()
    same(series(address, "light_explain_latency_p95_seconds", "queryid"), {row[:1]: row[1] for row in rows})


@pytest.mark.slow
def test_waits_of_the_last_day(monitored):
    """The sums of the history by hour, the ten greatest of each; the test's statements ran in the last one, unless an hour has ended since."""
    conn, address = monitored
    rows = conn.execute("SELECT queryid::text, label, wait_event, sum(seconds) FROM work.light_explain_waits_history"
                        " WHERE label ~ 'Seq Scan' GROUP BY 1, 2, 3").fetchall()
    found, shown = {}, {"0": [], "1": []}
    for labels, value in ask(address, "light_explain_wait_hour_seconds"):
        shown[labels["hours_ago"]].append(value)
        if "Seq Scan" in labels["label"]:
            key = labels["queryid"], labels["label"], labels["wait_event"]
            found[key] = found.get(key, 0) + value
    assert all(len(values) <= 10 for values in shown.values())
    # a part that is not shown is less than each of the ten of its hour: on a busy machine, other processes' can be greater
    less = sum(min(values) for values in shown.values() if len(values) == 10)
    same(found, {key: row[3] for row in rows if (key := (row[0], row[1].strip(), row[2])) in found or row[3] > less})
    assert any(event == "PgSleep" and value > 0.3 for (_, _, event), value in found.items())


@pytest.mark.slow
def test_regressions_and_state(monitored):
    conn, address = monitored
    rows = conn.execute("SELECT queryid::text, label, slower::text, factor FROM work.light_explain_regressions").fetchall()
    same(series(address, "light_explain_regression_factor", "queryid", "label", "slower"), {row[:3]: row[3] for row in rows})
    taken = conn.execute("SELECT samples_taken FROM work.light_explain_status()").fetchone()[0]
    assert series(address, "light_explain_status_samples_total", "job") == {("postgresql",): taken}
    assert {value for _, value in ask(address, '{__name__=~"light_explain_status_(up|sampler_up|history_up)"}')} == {1}
    texts = {labels["query"] for labels, value in ask(address, "light_explain_statement_info_present")}
    assert "SELECT count(*) FROM work.t WHERE v > '5'" in texts


@pytest.mark.slow
def test_the_dashboard(monitored):
    _, address = monitored
    known = set(json.loads(get(f"{address}/api/v1/label/__name__/values"))["data"])
    for title, expression in expressions():
        assert set(NAME.findall(expression)) <= known, title
        assert ask(address, expression), f"{title} shows nothing"


def test_the_dashboard_asks_for_metrics_of_the_file():
    queries, metrics, query = (FOLDER / "queries.yaml").read_text().splitlines(), set(), ""
    for line in queries:
        if found := re.match(r"(light_explain_\w+):$", line):
            query = found[1]
        elif found := re.match(r'    - (\w+): \{usage: "(GAUGE|COUNTER)", description: ".+"\}$', line):
            metrics.add(f"{query}_{found[1]}")
    asked = {name for _, expression in expressions() for name in NAME.findall(expression)}
    assert len(metrics) > 25 and len(asked) > 8 and asked <= metrics
    assert all(name.endswith("_total") == ('"COUNTER"' in line)
               for line in queries if (name := (re.match(r"    - (\w+): .*(GAUGE|COUNTER)", line) or [""] * 2)[1]))
    variables = {entry["name"] for entry in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD))) - {"__rate_interval", "__all"} <= variables
