"""Kept plans as spans, for OpenTelemetry and Perfetto: one trace for an execution, one span for a plan node.

EXPLAIN's times of a node are sums over its calls, so a span has the node's duration, and its place within the span above is not
measured: siblings follow one another in the order of the plan, from the beginning of the node above.  A node that ran in several
processes is as long as the node above at most.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

from pg_lean.errors import LabError

#: W3C trace context in an SQL comment, as sqlcommenter writes it.
TRACEPARENT = re.compile(r"/\*.*?traceparent=['\"]?00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}\b.*?\*/", re.S)
#: Properties of a plan node that become attributes, and their names.
NUMBERS = {
    "Actual Rows": "rows", "Actual Loops": "loops", "Plan Rows": "plan_rows", "Self Time": "self_ms", "Rows Removed by Filter": "rows_removed",
    "Shared Hit Blocks": "shared_hit", "Shared Read Blocks": "shared_read", "Temp Written Blocks": "temp_written", "Samples": "samples",
    "Relation Name": "relation", "Index Name": "index", "Filter": "filter", "Index Cond": "index_condition", "Hash Cond": "hash_condition",
    "Sort Method": "sort_method",
}
SECOND = 1_000_000_000


class Span(NamedTuple):
    """A span before it is given to the SDK; times are nanoseconds since 1970."""

    name: str
    start: int
    end: int
    attributes: dict[str, Any]
    parent: int | None  # index in the list


def nanoseconds(when: datetime) -> int:
    return int(when.timestamp()) * SECOND + when.microsecond * 1000


def of_plan(execution: dict[str, Any], plan: dict[str, Any]) -> list[Span]:
    """The spans of a kept execution: the statement, then its nodes from the top."""
    end = nanoseconds(execution["ended"])
    start = end - int(execution["total_ms"] * 1_000_000)
    query = execution["query"] or ""
    operation = (re.sub(r"/\*.*?\*/|--[^\n]*", " ", query, flags=re.S).split() or ["query"])[0].upper()
    attributes = {"db.system.name": "postgresql", "db.namespace": execution["database"], "db.operation.name": operation, "db.query.text": query,
                  "db.user": execution["role"], "postgresql.queryid": execution["queryid"], "postgresql.planid": execution["planid"]}
    spans = [Span(operation, start, end, {name: value for name, value in attributes.items() if value}, None)]
    _add(spans, plan["Plan"], 0, start, end)
    return spans


def _add(spans: list[Span], node: dict[str, Any], parent: int, start: int, latest: int) -> int:
    """Add a node and those below; returns the end of its span."""
    end = min(latest, start + int(node.get("Actual Total Time", 0) * max(node.get("Actual Loops", 1), 1) * 1_000_000))
    attributes = {f"postgresql.plan.{short}": node[name] for name, short in NUMBERS.items() if node.get(name) not in (None, "", 0)}
    spans.append(Span(label(node), start, end, attributes, parent))
    mine, at = len(spans) - 1, start
    for below in node.get("Plans", ()):
        at = _add(spans, below, mine, at, end)
    return end


def label(node: dict[str, Any]) -> str:
    """The node's name, nearly as EXPLAIN's text prints it."""
    name = node.get("Node Type", "node")
    for key, word in (("Index Name", "using"), ("Relation Name", "on")):
        if key in node:
            name += f" {word} {node[key]}"
    return name


def parent_of(execution: dict[str, Any]) -> tuple[int, int] | None:
    """Trace and span of the application's request, if the text is that of this execution: the profile keeps the text of the first one."""
    found = TRACEPARENT.search(execution["query"] or "")
    return (int(found[1], 16), int(found[2], 16)) if found and execution["executions"] == 1 else None


def identifiers(execution: dict[str, Any]) -> Iterator[int]:
    """Numbers for the trace (128 bits) and its spans (64 bits), the same whenever the execution is exported."""
    seed = "|".join(str(execution[name]) for name in ("database", "role", "queryid", "planid")) + execution["ended"].isoformat()
    yield int.from_bytes(hashlib.sha256(seed.encode()).digest()[:16], "big") | 1
    number = 0
    while True:
        number += 1
        yield int.from_bytes(hashlib.sha256(f"{seed}|{number}".encode()).digest()[:8], "big") | 1


def export(executions: Iterable[tuple[dict[str, Any], dict[str, Any], str]], endpoint: str, service: str) -> tuple[int, int, bool]:
    """Send executions with their plans, parsed and as text, to an OTLP receiver; returns executions, spans, and whether all arrived."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

    class Given(IdGenerator):
        def generate_trace_id(self) -> int:
            return self.trace

        def generate_span_id(self) -> int:
            return next(self.spans)

    given, finished = Given(), InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": service}), id_generator=given, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(finished))
    tracer = provider.get_tracer("pg-lean")
    sender = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + ("" if endpoint.endswith("/v1/traces") else "/v1/traces"))
    executed = sent = 0
    arrived = True
    for execution, plan, text in executions:
        given.spans = identifiers(execution)
        given.trace = next(given.spans)
        request = parent_of(execution)
        above = trace.set_span_in_context(NonRecordingSpan(SpanContext(*request, is_remote=True, trace_flags=TraceFlags(1)))) if request else Context()
        made: list[Any] = []
        described = of_plan(execution, plan)
        for span in described:
            context = above if span.parent is None else trace.set_span_in_context(made[span.parent])
            made.append(tracer.start_span(span.name, context, start_time=span.start, attributes=span.attributes,
                                          kind=trace.SpanKind.SERVER if span.parent is None else trace.SpanKind.INTERNAL))
        made[0].add_event("db.server.query_plan",
                          {"postgresql.query_plan": text, "postgresql.queryid": execution["queryid"], "db.query.text": execution["query"] or ""},
                          timestamp=described[0].end)
        for span, one in zip(described, made):
            one.end(span.end)
        spans = finished.get_finished_spans()
        finished.clear()
        executed, sent = executed + 1, sent + len(spans)
        arrived = sender.export(spans) is SpanExportResult.SUCCESS
        if not arrived:
            break
    sender.shutdown()
    return executed, sent, arrived


def write_perfetto(executions: Iterable[tuple[dict[str, Any], dict[str, Any], str]], path: Path, service: str) -> tuple[int, int]:
    """Write executions with their plans to a file for Perfetto, a track for each execution; returns executions and spans.

    Timestamps are those of the executions, in nanoseconds since 1970; the viewer shows them from the first one.
    """
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    builder = TraceProtoBuilder()

    def event(kind: int, when: int, track: int) -> Any:
        packet = builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = when, 1
        packet.track_event.type, packet.track_event.track_uuid = kind, track
        return packet.track_event

    server = builder.add_packet().track_descriptor
    server.uuid = server.process.pid = 1
    server.process.process_name = service
    executed = sent = 0
    for execution, plan, _ in executions:
        numbers = identifiers(execution)
        next(numbers)  # the number of the trace, which has more bits than that of a track
        track = builder.add_packet().track_descriptor
        track.uuid, track.parent_uuid = next(numbers), server.uuid
        track.name = f"{execution['role']}@{execution['database']} {execution['queryid']}"
        described = of_plan(execution, plan)
        open_spans: list[int] = []  # from the statement to the node that was written last
        for number, span in enumerate(described):
            while open_spans and open_spans[-1] != span.parent:
                event(TrackEvent.TYPE_SLICE_END, described[open_spans.pop()].end, track.uuid)
            begin = event(TrackEvent.TYPE_SLICE_BEGIN, span.start, track.uuid)
            begin.name = span.name
            for name, value in span.attributes.items():
                note = begin.debug_annotations.add(name=name)
                setattr(note, {int: "int_value", float: "double_value"}.get(type(value), "string_value"), value)
            open_spans.append(number)
        while open_spans:
            event(TrackEvent.TYPE_SLICE_END, described[open_spans.pop()].end, track.uuid)
        executed, sent = executed + 1, sent + len(described)
    try:
        path.write_bytes(builder.serialize())
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}") from None
    return executed, sent
