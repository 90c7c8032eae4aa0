"""pg-lean export --perfetto: the file, read with Perfetto's Python package, has the nodes of the kept plans."""

import json

import pytest

from conftest import plans_kept_of

messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="Perfetto's package is not installed (make monitoring installs it)")


@pytest.fixture(scope="module")
def server():
    """A server with a kept plan of a join, and two executions of a scan that overlap."""
    with plans_kept_of("SELECT count(*) FROM work.t a JOIN work.t b USING (id) WHERE a.id <> 5 OR pg_sleep(0.1) IS NOT NULL",
                       "SELECT id FROM work.t WHERE id <> 5 OR pg_sleep(0.1) IS NOT NULL") as cluster:
        yield cluster


def slices(path):
    """Trees of a file's slices, by the name of the track: (name, begin, end, annotations, children)."""
    trace = messages.Trace.FromString(path.read_bytes())
    names = {packet.track_descriptor.uuid: packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")}
    found, open_slices = {}, {}
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            notes = {note.name: getattr(note, note.WhichOneof("value")) for note in event.debug_annotations}
            stack.append((event.name, packet.timestamp, [], notes, []))
        else:
            done = stack.pop()
            done[2].append(packet.timestamp)
            if stack:
                stack[-1][4].append(done)
            else:
                assert names[names[event.track_uuid].parent_uuid].process.process_name == "shop-db"
                found.setdefault(names[event.track_uuid].name, []).append(done)
    assert not any(open_slices.values())
    return found


def compare(node, found, above):
    name, begin, (end,), notes, children = found
    assert name.startswith(node["Node Type"]) and above[1] <= begin <= end <= above[2][0]
    assert notes["postgresql.plan.rows"] == node["Actual Rows"] and notes["postgresql.plan.self_ms"] == node["Self Time"]
    assert abs(end - begin - min(node["Actual Total Time"] * node["Actual Loops"] * 1e6, above[2][0] - above[1])) < 1000
    assert len(children) == len(node.get("Plans", ()))
    for child, found_child in zip(node.get("Plans", ()), children):
        compare(child, found_child, found)


def test_the_nodes_of_each_plan(server, pg_lean, tmp_path):
    path = tmp_path / "plans.pftrace"
    done = pg_lean("export", "--dsn", server.conninfo, "--perfetto", str(path), "--service", "shop-db")
    assert done.returncode == 0, done.stderr
    found = slices(path)
    with server.connect() as conn:
        kept = conn.execute("SELECT queryid, light_explain_plan(queryid, planid, 'last', 'json') FROM light_explain_plans WHERE which = 'last'").fetchall()
    assert len(kept) == 2 and set(found) == {f"postgres@postgres {queryid}" for queryid, _ in kept}
    for queryid, text in kept:
        (top,) = found[f"postgres@postgres {queryid}"]
        assert top[0] == "SELECT" and "work.t" in top[3]["db.query.text"] and top[2][0] - top[1] > 90e6
        (first,) = top[4]
        compare(json.loads(text)[0]["Plan"], first, top)


def test_one_place(server, pg_lean, tmp_path):
    for arguments, expected in (([], "nothing to export to"), (["--otlp", "http://localhost:1", "--perfetto", str(tmp_path / "x")], "two places"),
                                (["--perfetto", "/nowhere/plans.pftrace"], "cannot be written")):
        done = pg_lean("export", "--dsn", server.conninfo, *arguments)
        assert done.returncode == 1 and expected in done.stderr
    done = pg_lean("export", "--dsn", f"{server.conninfo} user=other", "--perfetto", str(tmp_path / "none"))
    assert done.returncode == 0 and "0 executions" in done.stdout and slices(tmp_path / "none") == {}
