"""The replay of applications: what it sends is what they send, and every column gives the same answers."""

import dataclasses
import itertools
import json

import pytest

from pg_lean import applications, docs, questions
from pg_lean.applications import APPLICATIONS
from pg_lean.bench import Bench, LabError, Options, apps
from pg_lean.cluster import Cluster

WRITTEN = {app.name: app for app in APPLICATIONS}


def values(name, count):
    """The values that an application's statements store, in their order."""
    column = {"Coolify": (applications._COOLIFY_WRITE, 0), "Open WebUI": (applications._CHAT_WRITE, 0), "LangGraph": (applications._STEP_BLOB, 4),
              "Mastra": (applications._SNAPSHOT_WRITE, 3)}[name]
    return [parameters[column[1]] for event in WRITTEN[name].events(1, count) for statement, parameters in event.statements if statement == column[0]]


@pytest.fixture(scope="module")
def appendable():
    cluster = Cluster(name="test", preload=["appendable_bytea"], settings=apps.SETTINGS)
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with cluster:
        yield Bench("apps", cluster, Options(quick=True, iterations=1))


@pytest.mark.parametrize("app", APPLICATIONS, ids=lambda app: app.name)
def test_a_replay_is_the_same_each_time_and_different_for_each_value(app):
    first, again, other = ([event.statements for event in app.events(number, 20)] for number in (1, 1, 2))
    assert first == again != other
    assert app.alter.count("ALTER TABLE") == 1 and ";" not in app.alter and "/" in app.source


def test_json_values_are_json_and_grow_by_one_element():
    logs = [json.loads(value) for value in values("Coolify", 30)]
    assert [len(log) for log in logs] == list(range(1, 31)) and logs[-1][:-1] == logs[-2] and logs[-1][-1]["order"] == 30
    chats = [json.loads(value)["history"] for value in values("Open WebUI", 30)]
    messages = chats[-1]["messages"]
    assert len(messages) == 20 and chats[-1]["currentId"] == list(messages)[-1]
    for message in messages.values():
        assert all(messages[child]["parentId"] == message["id"] for child in message["childrenIds"])
    empty = [sum(not message["content"] for message in chat["messages"].values()) for chat in chats]
    assert empty == [0, 1, 0] * 10


def test_blocks_and_states_have_what_was_written():
    sizes = {}
    for event in WRITTEN["Gitea"].events(1, 60):
        for statement, parameters in event.statements:
            if statement == applications._GITEA_WRITE:
                block, _, offset = parameters
                assert offset % applications.BLOCK == 0 and len(block) > sizes.get(offset, 0)
                sizes[offset] = len(block)
    assert len(sizes) >= 2 and sum(sizes.values()) == sum(event.changed for event in WRITTEN["Gitea"].events(1, 60))
    states = values("LangGraph", 9)
    assert [int.from_bytes(state[1:3], "big") for state in states] == list(range(1, 10))
    assert all(after[3:].startswith(before[3:]) for before, after in itertools.pairwise(states))
    runs = [json.loads(value)["context"] for value in values("Mastra", 9)]
    assert [len(run) for run in runs] == list(range(2, 11)) and all(before.items() <= after.items() for before, after in itertools.pairwise(
        {name: json.dumps(step) for name, step in run.items()} for run in runs))


def test_every_application_is_replayed_with_the_same_answers(appendable, monkeypatch):
    monkeypatch.setattr(apps, "SIZES", {name: (1, 60) for name in apps.SIZES})
    result = apps.run(appendable)
    for app in APPLICATIONS:
        rows = {row["variant"]: row for row in appendable.raw.select(case=app.name)}
        assert list(rows) == list(apps.WAYS) and len({row["events"] for row in rows.values()}) == 1
        assert rows[apps.LEAN]["wal"] < rows[apps.LZ4]["wal"] / 2, app.name
        assert all(row["median_ms"] <= row["p99_ms"] and row["cpu_ms"] > 0 for row in rows.values())
        schema = f"apps_{app.name}_{apps.LEAN}".lower().replace(" ", "_")
        with appendable.connect() as conn:
            found = conn.execute("SELECT count(*) FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = %s::regnamespace)"
                                 " AND atttypid::regtype::text ~ 'appendable'", (schema,)).fetchone()[0]
        assert found == 1
    tables = [block for block in result.blocks if hasattr(block, "rows")]
    assert len(tables) == 6 and all([row[0] for row in table.rows] == list(WRITTEN) for table in tables)
    assert len(result.headlines) == 1 and result.headlines[0].ratio.median > 2
    page = questions.page(next(one for one in questions.QUESTIONS if one.name == "applications"), lambda name: [("18", result)], docs.caption_text)
    assert page.count("|---|") == 5 and "instead of" in page and "nan" not in page and "Not measured" not in page


def test_an_answer_that_differs_ends_the_run(appendable):
    app = dataclasses.replace(WRITTEN["Coolify"], name="changed")
    stores = {way: apps.make_store(appendable, app, way) for way in apps.WAYS}
    with appendable.connect() as watcher:
        for store in stores.values():
            store.send(list(app.events(1, 15)), watcher)
        apps.compare(app, stores, 1)
        stores[apps.LEAN].conn.execute("UPDATE application_deployment_queues SET logs = logs || ' '")
        with pytest.raises(LabError, match="the answers of pg_lean differ from those of stock lz4"):
            apps.compare(app, stores, 1)
    for store in stores.values():
        store.conn.close()
