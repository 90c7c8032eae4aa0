"""The benchmark of replaced values: what is changed, and what is checked."""

import json
from itertools import islice, pairwise

import pytest

from pg_lean.bench import Bench, Options, rewrites
from pg_lean.cluster import Cluster


def test_changes_are_what_they_are_called():
    for size in (7000, 30000):
        first, second = islice(rewrites.all_new(size), 2)
        assert len(first) == pytest.approx(size, rel=0.05) and json.loads(first)["paragraphs"][0] != json.loads(second)["paragraphs"][0]
        first, second = map(json.loads, islice(rewrites.new_title(size), 2))
        assert first["title"] != second["title"] and first["paragraphs"] == second["paragraphs"]
        first, second = islice(rewrites.unchanged(size), 2)
        assert first == second
    first, second = map(json.loads, islice(rewrites.added_in_middle(7000), 2))
    assert second["messages"][:-2] == first["messages"]
    first, second = (json.loads(text)["messages"] for text in islice(rewrites.by_name(7000), 2))
    assert len(second) == len(first) + 2 and all(second[name] == message for name, message in first.items())


def test_long_values_are_all_new_or_in_another_order():
    first, second = islice(rewrites.prose(100000), 2)
    assert len(first) == len(second) == 100000 and rewrites.changed_bytes(first, second) > 99000
    first, second = islice(rewrites.reordered(30000), 2)
    assert first != second and sorted(first) == sorted(second) and all(second[at:at + 300] in first for at in range(0, 30000, 300))


def test_a_mixed_change_is_at_one_place_and_counted():
    texts = list(islice(rewrites.mixed(50000), 60))
    counts = [len(json.loads(text)["messages"]) for text in texts]
    assert {after - before for before, after in pairwise(counts)} == {-1, 0, 2}
    for before, after in pairwise(texts):
        changed = rewrites.changed_bytes(before, after)
        assert abs(len(after) - len(before)) <= changed < 7000
    assert rewrites.changed_bytes("abcd", "abxd") == 1 and rewrites.changed_bytes("aaa", "aaaa") == 1 and rewrites.changed_bytes("a", "a") == 0


@pytest.mark.slow
def test_short_values_take_no_more_wal_than_in_stock(monkeypatch):
    # of few changes, those that are the first ones of their page after a checkpoint would be most of the WAL
    cluster = Cluster(name="test", preload=["appendable_bytea"], settings={"autovacuum": False, "full_page_writes": False})
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    monkeypatch.setattr(rewrites, "MB", 50000)
    with cluster:
        bench = Bench("rewrites", cluster, Options(quick=True, iterations=3))
        result = rewrites.run(bench)
    checks = {check.what: check for check in result.checks}
    assert len(checks) == 2 * len(rewrites.SHORT_CHANGES) + 3 + 2 * 2 + 1 + len(rewrites.LONG_CHANGES) + 2
    for kind in ("", ", jsonb"):
        assert checks[f"WAL of a chat of 48.8 kB changed at one place{kind}, times the bytes changed"].met, kind
    for change in rewrites.SHORT_CHANGES:
        assert checks[f"WAL of 7 kB, {change}, pg_lean / stock lz4"].met, change
    assert len(result.blocks) == 4 and result.headlines[0].ratio.median > 1
