"""pg-lean export --otlp: what a receiver of OpenTelemetry's protocol gets, read with the official definitions."""

import contextlib
import http.server
import re
import threading

import pytest

from conftest import hostile, profiling_cluster

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="OpenTelemetry's packages are not installed (make monitoring installs them)")

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@contextlib.contextmanager
def receiver(status=200):
    """Yields the address, and the list to which received spans are added, as (service, span)."""
    import gzip

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

    received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            for resource in request.resource_spans:
                service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
                received.extend((service, span) for scope in resource.scope_spans for span in scope.spans)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def server():
    """A server with two slow statements: one of several executions, one with the trace of a request."""
    cluster = profiling_cluster()
    cluster.settings["light_explain.plans_min_duration"] = "50ms"
    with hostile(cluster):
        with cluster.connect() as conn:
            conn.execute("CREATE TABLE work.t AS SELECT g AS id FROM generate_series(1, 500) g")
            conn.execute("CREATE ROLE other LOGIN")
            conn.execute("SELECT light_explain_plans_reset(), light_explain_profile_reset()")
            for _ in range(2):
                conn.execute(f"/*traceparent='00-{TRACE}-{SPAN}-01'*/ SELECT count(*)"
                             " FROM work.t a JOIN work.t b USING (id) WHERE a.id <> 5 OR pg_sleep(0.2) IS NOT NULL")
            conn.execute(f"SELECT id FROM work.t WHERE id <> 5 OR pg_sleep(0.1) IS NOT NULL /*app='shop',traceparent='00-{TRACE}-{SPAN}-01'*/")
        yield cluster


def attributes(span):
    return {a.key: a.value.string_value or a.value.double_value or a.value.int_value for a in span.attributes}


def test_a_span_for_each_node(server, pg_lean):
    with receiver() as (address, received):
        done = pg_lean("export", "--dsn", server.conninfo, "--otlp", address, "--service", "shop-db")
        first = list(received)
        again = pg_lean("export", "--dsn", server.conninfo, "--otlp", address + "/v1/traces", "--service", "shop-db")
    assert done.returncode == 0 and again.returncode == 0, done.stderr + again.stderr
    assert {service for service, _ in first} == {"shop-db"}
    joined = [span for _, span in first if attributes(span).get("db.query.text", "").find("JOIN") > 0]
    # of two executions at least the last and the slowest, which may be the same
    assert 1 <= len(joined) <= 2
    for top in joined:
        found = attributes(top)
        assert top.name == "SELECT" and found["db.system.name"] == "postgresql" and found["db.namespace"] == "postgres"
        assert re.fullmatch(r"-?\d+", found["postgresql.queryid"])
        assert 190e6 < top.end_time_unix_nano - top.start_time_unix_nano < 20e9 and not top.parent_span_id
        below = [span for _, span in first if span.trace_id == top.trace_id]
        assert {"Aggregate", "Seq Scan on t"} <= {span.name for span in below} and any("Join" in span.name for span in below) and len(below) >= 5
        spans = {span.span_id: span for span in below}
        for span in below:
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            if span is not top:
                above = spans[span.parent_span_id]
                assert above.start_time_unix_nano <= span.start_time_unix_nano and span.end_time_unix_nano <= above.end_time_unix_nano
        scan = max((span for span in below if span.name.startswith("Seq Scan")), key=lambda span: span.end_time_unix_nano - span.start_time_unix_nano)
        assert scan.end_time_unix_nano - scan.start_time_unix_nano > 180e6 and attributes(scan)["postgresql.plan.rows"] == 500
        assert "PgSleep" in attributes(scan)["postgresql.plan.samples"]
        (event,) = top.events
        assert event.name == "db.server.query_plan" and '"Node Type": "Aggregate"' in attributes(event)["postgresql.query_plan"]
    # the same spans again have the same identifiers
    assert {span.span_id for _, span in received[len(first):]} >= {span.span_id for _, span in first}


def test_the_trace_of_a_request(server, pg_lean):
    with receiver() as (address, received):
        assert pg_lean("export", "--dsn", server.conninfo, "--otlp", address).returncode == 0
    linked = [span for _, span in received if span.trace_id.hex() == TRACE and span.parent_span_id.hex() == SPAN]
    # the text of a statement with several executions is that of the first one
    assert len(linked) == 1 and "shop" in attributes(linked[0])["db.query.text"]


def test_what_is_left_out(server, pg_lean):
    with receiver() as (address, received):
        for arguments, expected in ((["--least-ms", "1e9"], "0 executions, 0 spans"), (["--minutes", "0"], "0 executions, 0 spans")):
            done = pg_lean("export", "--dsn", server.conninfo, "--otlp", address, *arguments)
            assert done.returncode == 0 and expected in done.stdout
        done = pg_lean("export", "--dsn", f"{server.conninfo} user=other", "--otlp", address)
        assert done.returncode == 0 and not received


def test_a_receiver_that_refuses(server, pg_lean):
    with receiver(status=400) as (address, _):
        done = pg_lean("export", "--dsn", server.conninfo, "--otlp", address)
    assert done.returncode == 1 and "did not take the spans" in done.stderr
