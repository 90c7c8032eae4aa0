"""The demo's main part without a server: repetitions, cuts, and figures that follow from known times."""

import time

import pytest
from rich.console import Console

from pg_lean import tempbuffers
from pg_lean.bench import Bench, Options, Table
from pg_lean.cluster import Server
from pg_lean.demo import temp_buffers

SIZES = [128, 2048, 4096]


@pytest.fixture
def experiment(monkeypatch):
    """ten_steps that takes no time and answers with known costs: a page is read in 1 us, written in 1.5, in random order in 2."""
    def ten_steps(server, filler, blocks, **_kwargs):
        time.sleep(0.001)
        read = blocks / 1000
        return {"create": 1.0, "allocated": blocks + 10, "flush": 1.5 * read, "dry_flush": 0.001, "dry_flush_mean": 0.002 * read,
                "read": read, "dry_read": 0.1 * read, "flush_again": 1.5 * read, "flush_again_coalesced": 0.75 * read,
                "random_read": read, "random_flush": 2 * read, "random_flush_coalesced": read}

    monkeypatch.setattr(tempbuffers, "ten_steps", ten_steps)

    def bench(**options):
        return Bench("temp_buffers", Server("host=/nowhere"), Options(**options), Console(quiet=True))

    return bench


def test_ratios_follow_from_the_times(experiment):
    bench = experiment()
    temp_buffers.measure(bench, None, SIZES, 7)
    result = temp_buffers.present(bench, SIZES, 7, [])
    assert "costs 1.50 page reads here (2.00 after reading in random order)" in result.summary
    tables = [block for block in result.blocks if isinstance(block, Table)]
    ratios = tables[1].rows[1]
    assert ratios[0] == 2048 and ratios[2].median == pytest.approx(1.5) and ratios[4].median == pytest.approx(2.0)
    assert ratios[6].median == pytest.approx(0.002 * 2048 / 2058)
    assert ratios[1] == pytest.approx(3.01 / 2.35) and ratios[7] == 7
    assert tables[2].rows[1][4].median == pytest.approx(0.5)


def test_a_size_that_takes_long_gets_fewer_repetitions_and_that_is_told(experiment, monkeypatch):
    monkeypatch.setattr(temp_buffers, "SECONDS_PER_SIZE", 0)
    assert temp_buffers.measure(experiment(), None, SIZES, 12) == dict.fromkeys(SIZES, temp_buffers.LEAST)


def test_iterations_that_the_user_asks_for_are_never_cut(experiment, monkeypatch):
    monkeypatch.setattr(temp_buffers, "SECONDS_PER_SIZE", 0)
    assert temp_buffers.measure(experiment(iterations=12), None, SIZES, 12) == dict.fromkeys(SIZES, 12)


def test_the_published_tables_are_whole():
    assert set(temp_buffers.RECOMPUTED) == set(tempbuffers.SIZES)
    assert set(temp_buffers.PUBLISHED) == set(tempbuffers.SIZES) - {128, 256}


def test_temp_buffers_are_110_percent_and_at_least_100():
    assert [tempbuffers.temp_buffers_for(blocks) for blocks in (10, 128, 1024)] == [100, 141, 1127]
