"""The benchmark of the query store: every kind of server has what it is named for, and the sampler is measured with statements that it sees."""

import pytest
from pg_lean.bench import Bench, LabError, Options, store
from pg_lean.cluster import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(monkeypatch):
    """A bench on a separate server, with small data and two kinds of store."""
    if not Cluster().has_library("light_explain"):
        pytest.skip("light_explain is not installed for this server (make install)")
    kept = {"light_explain.plans_min_duration": 0, "light_explain.sample_interval": 20}
    monkeypatch.setattr(store, "KINDS", {"profile": store.PROFILE, "store, plans of all": kept})
    monkeypatch.setattr(store, "SESSIONS", (3, 5))
    monkeypatch.setattr(store, "THOUSANDTHS", 2)
    with Cluster(settings=store.SETTINGS, preload=store.PRELOAD) as server:
        yield Bench("store", server, Options(quick=True))


def test_kinds_differ_by_their_store_and_the_sampler_sees_who_waits(bench, monkeypatch):
    monkeypatch.setattr(store, "present", lambda bench, sessions: sessions)
    assert store.run(bench) == 2
    for case in (*store.LOOKUPS, store.QUERIES):
        for kind in store.KINDS:
            rows = bench.raw.select(kind, case)
            assert len(rows) == 2 and all(0 < row["cpu_us"] <= row["us"] * 1.5 for row in rows), (case, kind, rows)
    for sessions in store.SESSIONS:
        for row in bench.raw.select("sampler", store.sampler_name(sessions)):
            assert row["seen"] == pytest.approx(sessions, abs=0.5) and 0 < row["percent"] < 50 and row["us"] > 0, row


def test_a_store_that_does_not_work_has_no_figures(bench):
    with store.servers(bench) as clusters:
        with pytest.raises(LabError, match="what was measured is not this store"):
            store.check_stores({"store": clusters["profile"]})
