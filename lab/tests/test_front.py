"""The benchmark of the front page: a case of each of seven benchmarks, all with the same repetitions, next to the next best way on a stock server."""

import contextlib
import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from pg_lean.bench import Bench, Headline, Options, front, load
from pg_lean.measure import Estimate


def test_each_benchmark_of_the_page_measures_its_case_alone():
    for name in front.BENCHMARKS:
        assert callable(load(name).front) and load(name).PRELOAD and load(name).SETTINGS


@pytest.mark.parametrize("options, rounds", [({}, 15), ({"quick": True}, 2), ({"iterations": 4}, 4)])
def test_all_cases_have_the_same_repetitions_and_three_bars(monkeypatch, options, rounds):
    servers, seen = [], []

    def measure(name):
        def one(bench):
            seen.append((name, bench.iterations(full=99, quick=99)))
            assert bench.all_orders(full=7, quick=2, variants=3) == rounds
            bench.raw.add("stock", 0, name, ms=1.0)
            return Headline(name, Estimate.of([4.0] * 6), [("stock", 4.0), ("plain", 3.0), ("pg_lean", 1.0)]), ("another way", 2.0)
        return one

    def cluster(_bench, **settings):
        servers.append(settings)
        return contextlib.nullcontext(SimpleNamespace())

    monkeypatch.setattr(front, "load", lambda name: SimpleNamespace(PRELOAD=(name,), SETTINGS={"of": name}, front=measure(name)))
    monkeypatch.setattr(Bench, "cluster", cluster)
    monkeypatch.setattr(Bench, "need_private", lambda bench: bench.server)
    bench = Bench("front", None, Options(**options), Console(file=io.StringIO()))
    result = front.run(bench)
    assert seen == [(name, rounds) for name in front.BENCHMARKS]
    assert [headline.what for headline in result.headlines] == bench.raw.cases == list(front.BENCHMARKS)
    assert [server["preload"] for server in servers] == [(name,) for name in front.BENCHMARKS] and servers[0]["settings"] == {"of": "analytics"}
    assert all(list(headline.bars) == [("stock", 4.0), ("another way", 2.0), ("pg_lean", 1.0)] for headline in result.headlines)
    assert result.blocks[0].rows[0] == ["analytics", 4.0, 2.0, "another way", 1.0, "ms", 2.0]
