"""pg-lean export --otlp: what the OpenTelemetry Collector's receiver (lab/tests/receiver) gets is compared with the kept plans."""

import contextlib
import json
import os
import re
import subprocess

import pytest

from conftest import free_port, plans_kept_of

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="OpenTelemetry's packages are not installed (make monitoring installs them)")

#: The built program; make monitoring builds it.
RECEIVER = os.environ.get("OTLP_RECEIVER", "")
if not os.path.exists(RECEIVER):
    pytest.skip("the collector's receiver is not built (make monitoring builds it)", allow_module_level=True)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextlib.contextmanager
def receiver():
    """Run the OpenTelemetry Collector's receiver; yields its address, and a function that stops it and returns received spans, as (service, span)."""
    address = f"127.0.0.1:{free_port()}"
    with subprocess.Popen([RECEIVER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"

        def stop():
            requests = program.communicate(timeout=60)[0].splitlines()
            assert program.returncode == 0
            return [(plain(resource["resource"]["attributes"])["service.name"], span) for request in requests
                    for resource in json.loads(request)["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]

        try:
            yield f"http://{address}", stop
        finally:
            program.kill()


def plain(attributes):
    """Attributes of OTLP's JSON encoding, whose integers of 64 bits are text."""
    convert = {"stringValue": str, "intValue": int, "doubleValue": float}
    return {a["key"]: convert[kind](value) for a in attributes for kind, value in a["value"].items()}


def nanoseconds(span):
    return int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])


@pytest.fixture(scope="module")
def server():
    """A server with two slow statements: one of several executions, one with the trace of a request."""
    join = f"/*traceparent='00-{TRACE}-{SPAN}-01'*/ SELECT count(*) FROM work.t a JOIN work.t b USING (id) WHERE a.id <> 5 OR pg_sleep(0.2) IS NOT NULL"
    scan = f"SELECT id FROM work.t WHERE id <> 5 OR pg_sleep(0.1) IS NOT NULL /*app='shop',traceparent='00-{TRACE}-{SPAN}-01'*/"
    with plans_kept_of(join, join, scan) as cluster:
        yield cluster


def test_a_span_for_each_node(server, pg_lean):
    with receiver() as (address, stop):
        done = pg_lean("export", "--dsn", server.conninfo, "--otlp", address, "--service", "shop-db")
        received = stop()
    assert done.returncode == 0, done.stderr
    assert {service for service, _ in received} == {"shop-db"}
    with server.connect() as conn:
        kept = {text: json.loads(text)[0]["Plan"] for (text,) in conn.execute(
            "SELECT DISTINCT light_explain_plan(queryid, planid, which, 'json') FROM light_explain_plans")}
    tops = [span for _, span in received if "events" in span]
    assert len(tops) == len(kept)  # of each kept execution, which is that of both statements at least once
    assert sum("JOIN" in plain(top["attributes"])["db.query.text"] for top in tops) in (1, 2) and len(tops) >= 2
    for top in tops:
        (event,) = top["events"]
        assert event["name"] == "db.server.query_plan" and event["timeUnixNano"] == top["endTimeUnixNano"]
        described = plain(event["attributes"])
        found = plain(top["attributes"])
        assert found["db.system.name"] == "postgresql" and found["db.namespace"] == "postgres" and found["db.user"] == "postgres"
        assert found["db.query.text"] == described["db.query.text"] and found["postgresql.queryid"] == described["postgresql.queryid"]
        assert re.fullmatch(r"-?\d+", found["postgresql.queryid"]) and re.fullmatch(r"-?\d+", found["postgresql.planid"])
        assert top["name"] == "SELECT" == found["db.operation.name"] and top["kind"] == 2
        compare(kept[described["postgresql.query_plan"]], top, received)
        assert 90e6 < nanoseconds(top) < 20e9


def compare(plan, top, received):
    """The spans below a statement's are the nodes of its plan: names, places, times and attributes."""
    below = {span["spanId"]: [] for _, span in received}
    for _, span in received:
        if span.get("parentSpanId") in below:
            below[span["parentSpanId"]].append(span)

    def check(node, span, above):
        name = node["Node Type"] + "".join(f" {word} {node[key]}" for key, word in (("Index Name", "using"), ("Relation Name", "on")) if key in node)
        assert span["name"] == name and span["kind"] == 1 and span["traceId"] == top["traceId"]
        attributes = plain(span["attributes"])
        for key, attribute in (("Actual Rows", "rows"), ("Actual Loops", "loops"), ("Plan Rows", "plan_rows"), ("Self Time", "self_ms"),
                               ("Rows Removed by Filter", "rows_removed"), ("Filter", "filter"), ("Hash Cond", "hash_condition"), ("Samples", "samples")):
            assert attributes.get(f"postgresql.plan.{attribute}", 0) == (node.get(key) or 0)
        assert above["startTimeUnixNano"] <= span["startTimeUnixNano"] <= span["endTimeUnixNano"] <= above["endTimeUnixNano"]
        # a double has 53 bits for the nanoseconds of the total
        assert abs(nanoseconds(span) - min(node["Actual Total Time"] * node["Actual Loops"] * 1e6, nanoseconds(above))) < 1000
        assert len(below[span["spanId"]]) == len(node.get("Plans", ()))
        for child, span_of_child in zip(node.get("Plans", ()), below[span["spanId"]]):
            check(child, span_of_child, span)

    (first,) = below[top["spanId"]]
    check(plan, first, top)


def test_the_same_spans_again(server, pg_lean):
    """An execution has the same identifiers whenever it is exported, so a receiver that stores spans by these has it once."""
    sent = []
    for path in ("", "/v1/traces"):
        with receiver() as (address, stop):
            assert pg_lean("export", "--dsn", server.conninfo, "--otlp", address + path).returncode == 0
            sent.append([span for _, span in stop()])
    assert sent[0] == sent[1]


def test_waits_of_a_node(server, pg_lean):
    with receiver() as (address, stop):
        assert pg_lean("export", "--dsn", server.conninfo, "--otlp", address).returncode == 0
        scan = max((span for _, span in stop() if span["name"] == "Seq Scan on t"), key=nanoseconds)
    attributes = plain(scan["attributes"])
    assert nanoseconds(scan) > 180e6 and attributes["postgresql.plan.rows"] == 500 and "PgSleep" in attributes["postgresql.plan.samples"]


def test_the_trace_of_a_request(server, pg_lean):
    with receiver() as (address, stop):
        assert pg_lean("export", "--dsn", server.conninfo, "--otlp", address).returncode == 0
        received = stop()
    linked = [span for _, span in received if span["traceId"] == TRACE and span.get("parentSpanId") == SPAN]
    # the text of a statement with several executions is that of the first one
    assert len(linked) == 1 and "shop" in plain(linked[0]["attributes"])["db.query.text"]
    assert all(not span.get("parentSpanId") for _, span in received if "events" in span and span is not linked[0])


def test_what_is_left_out(server, pg_lean):
    with receiver() as (address, stop):
        for arguments, expected in ((["--least-ms", "1e9"], "0 executions, 0 spans"), (["--minutes", "0"], "0 executions, 0 spans")):
            done = pg_lean("export", "--dsn", server.conninfo, "--otlp", address, *arguments)
            assert done.returncode == 0 and expected in done.stdout
        done = pg_lean("export", "--dsn", f"{server.conninfo} user=other", "--otlp", address)
        assert done.returncode == 0 and not stop()


def test_a_receiver_that_refuses(server, pg_lean):
    with receiver() as (address, stop):
        done = pg_lean("export", "--dsn", server.conninfo, "--otlp", address + "/elsewhere/v1/traces")
        assert done.returncode == 1 and "did not take the spans" in done.stderr and not stop()
