"""Medians, intervals, ratios and interleaving, against values known from elsewhere."""

import csv
import itertools
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pg_lean import battery, docs, measure, prices
from pg_lean.always import Goal, goal_checks
from pg_lean.bench.calibrate import recommended
from pg_lean.measure import (BURSTS, FIRST_BURSTS, FIRST_TRANSACTIONS, TRANSACTIONS_BEFORE, Estimate, Measurements, bursts, cpu_seconds, filesystem_of,
                             interleave, interval_ranks, verdict)
from pg_lean.result import Headline, Result, format_cost, format_value, human_bytes, not_slower


@pytest.mark.parametrize("n, rank, reached", [
    (1, 0, 0.0), (5, 0, 0.9375), (6, 0, 0.9688), (8, 0, 0.9922), (9, 1, 0.9609), (10, 1, 0.9785), (15, 3, 0.9648), (20, 5, 0.9586),
    (30, 9, 0.9572), (100, 39, 0.9648),
])
def test_ranks_are_those_of_the_tables(n, rank, reached):
    """Ranks and coverage of the sign-test interval as printed in statistics tables (counted from 0 here)."""
    found = interval_ranks(n)
    assert found[0] == rank
    assert found[1] == pytest.approx(reached, abs=5e-5)


def test_interval_covers_the_median_as_often_as_it_says():
    rng = random.Random(20260102)
    covered = 0
    for _ in range(4000):
        estimate = Estimate.of([rng.expovariate(1) for _ in range(11)])
        covered += estimate.low <= math.log(2) <= estimate.high
    assert estimate.confidence == pytest.approx(0.98828125)
    assert covered / 4000 == pytest.approx(estimate.confidence, abs=0.008)


def test_estimate_of_known_values():
    estimate = Estimate.of([5, 1, 9, 3, 7, 2, 8, 4, 6, 10])
    assert (estimate.median, estimate.low, estimate.high, estimate.n) == (5.5, 2, 9, 10)
    assert (estimate.minimum, estimate.maximum) == (1, 10)


def test_estimate_of_nothing_is_nan_and_missing_values_do_not_count():
    assert math.isnan(Estimate.of([]).median)
    assert Estimate.of([1.0, None, float("nan"), 3.0]).n == 2


def test_ratio_is_paired_within_a_repetition():
    raw = Measurements()
    for repetition, slow in enumerate((1, 10, 100)):  # the machine slows down tenfold each time
        raw.add("stock", repetition, "a", ms=2.0 * slow)
        raw.add("pg_lean", repetition, "a", ms=1.0 * slow)
    ratio = raw.ratio("ms", "pg_lean", "stock", "a")
    assert (ratio.median, ratio.minimum, ratio.maximum) == (0.5, 0.5, 0.5)


def test_ratio_leaves_out_what_has_no_pair():
    raw = Measurements()
    raw.add("stock", 0, ms=4.0)
    raw.add("pg_lean", 0, ms=1.0)
    raw.add("pg_lean", 1, ms=100.0)
    assert raw.ratio("ms", "pg_lean", "stock").n == 1


def test_a_ratio_of_lower_quartiles_is_not_moved_by_what_was_in_the_way():
    raw = Measurements()
    for n in range(12):
        raw.add("plain", n, "loop", us=10.0 + 0.01 * n + (50 if n % 3 == 0 else 0))
        raw.add("measured", n, "loop", us=10.5 + 0.01 * n + (90 if n % 4 == 0 else 0))
    found = raw.quartile_ratio("us", "measured", "plain", "loop")
    assert found.median == pytest.approx(1.05, abs=0.003) and found.low <= found.median <= found.high and found.n == 12
    assert found == raw.quartile_ratio("us", "measured", "plain", "loop")
    assert math.isnan(raw.quartile_ratio("cpu_us", "measured", "plain", "loop").median)


def test_a_goal_holds_only_by_the_upper_end():
    def goal(*values):
        return Goal("x", 1.05, Estimate.of(values))

    assert [goal(*values).holds for values in ((1.01, 1.02, 1.03), (1.01, 1.04, 1.06), (1.04, 1.06, 1.07), ())] == ["yes", "as found", "no", "no"]
    assert [check.met for check in goal_checks([goal(1.01, 1.02, 1.03), goal(1.01, 1.04, 1.06), goal()])] == [True, False, False]


def test_the_battery_can_be_read():
    tables, statements = battery.read()
    assert "CREATE TABLE t " in tables and len(statements) > 140 and len({statement.number for statement in statements}) == len(statements)
    assert not [statement for statement in statements if "light_test_custom" in statement.settings] and sum(statement.parallel for statement in statements) > 15


@pytest.mark.parametrize("values, expected", [([0.9, 1.0, 1.05], "kept"), ([1.2, 1.3, 1.15], "lost"), ([1.0, 1.0, 1.2], "undecided")])
def test_a_verdict_needs_the_whole_interval(values, expected):
    assert verdict(Estimate.of(values), 1.10) == expected


def test_variants_take_turns_and_the_first_one_rotates():
    calls, raw = [], Measurements()
    variants = {name: (lambda name=name: calls.append(name) or 1.0) for name in "abc"}
    interleave(variants, 3, into=raw, warmup=1)
    assert "".join(calls) == "cab" + "abc" + "bca" + "cab"
    assert len(raw.rows) == 9 and {row["repetition"] for row in raw.rows} == {0, 1, 2}
    calls.clear()
    interleave(variants, 6, into=raw, warmup=0)
    assert "".join(calls) == "abc" + "bca" + "cab" + "cba" + "acb" + "bac", "none has always the same one before it"


def test_what_is_not_settled_is_measured_more_often():
    raw = Measurements()
    interleave({"a": lambda: 1}, 3, into=raw, warmup=0, most=9, settled=lambda: len(raw.rows) == 5)
    assert len(raw.rows) == 5
    interleave({"b": lambda: 1}, 3, into=raw, warmup=0, most=9, settled=lambda: False)
    assert len(raw.select("b")) == 9


def test_bursts_open_new_sessions_and_keep_a_row_of_each():
    class Connection:
        def __init__(self, kind):
            self.pgconn, self.kind, self.closed = [], kind, False

        def close(self):
            self.closed = True

    opened, rounds, raw = [], [], Measurements()
    kinds = {kind: (lambda kind=kind: opened.append(Connection(kind)) or opened[-1]) for kind in "ab"}
    bursts(kinds, lambda pgconn: pgconn.append(time.sleep(0.0001)), 10, 3, into=raw, case="loop", before=lambda: rounds.append(len(opened)))
    assert rounds == [0, 2, 4]
    assert all(conn.closed and len(conn.pgconn) == FIRST_BURSTS * 10 + BURSTS * (1 + 10) for conn in opened)
    assert [(row["variant"], row["repetition"]) for row in raw.rows] == [(kind, i) for i in range(3) for kind in "ab"]
    for row in raw.rows:
        each = [row[f"burst_{i}_us"] for i in range(1, BURSTS + 1)]
        assert row["us"] == pytest.approx(statistics.median(each)) and 100 <= min(each)
    assert raw.ratio("us", "a", "b", "loop").n == 3


def test_bursts_of_a_local_server_are_processor_time_that_nothing_disturbed(monkeypatch):
    """Of eight bursts, each of a thousand transactions, two were disturbed: what is kept is what the others took."""
    class Connection:
        def __init__(self):
            self.pgconn, self.info = [], SimpleNamespace(backend_pid=1)

        def close(self):
            pass

    opened, raw, clock = [], Measurements(), itertools.accumulate(itertools.cycle([0, 0.004, 0, 0.004, 0, 0.004, 0, 0.04]))
    monkeypatch.setattr("pg_lean.measure.cpu_seconds", lambda pid: next(clock))
    bursts({"a": lambda: opened.append(Connection()) or opened[-1]}, lambda pgconn: pgconn.append(1), 1000, 1, into=raw, local=True, turns=8)
    assert raw.rows[0]["cpu_us"] == pytest.approx(4) and "burst_8_us" in raw.rows[0]
    assert len(opened[0].pgconn) == FIRST_TRANSACTIONS + 8 * (TRANSACTIONS_BEFORE + 1000)


def test_client_and_server_share_a_processor_for_a_while():
    ours = os.sched_getaffinity(0)
    with subprocess.Popen(["sleep", "60"]) as server:
        with measure.on_one_processor([server.pid]):
            assert os.sched_getaffinity(0) == os.sched_getaffinity(server.pid) == {max(ours)}
        assert os.sched_getaffinity(0) == ours
        with measure.on_one_processor([]):
            assert os.sched_getaffinity(0) == ours
        server.kill()
    # a process that is gone, or another's
    with measure.on_one_processor([server.pid]):
        assert os.sched_getaffinity(0) == ours


def test_bursts_close_their_sessions_after_an_error():
    class Connection:
        pgconn, closed = None, False

        def close(self):
            self.closed = True

    conn = Connection()
    with pytest.raises(ZeroDivisionError):
        bursts({"a": lambda: conn}, lambda pgconn: 1 / 0, 10, 3, into=Measurements())
    assert conn.closed


def test_a_variant_may_return_metrics_a_number_or_nothing():
    raw = Measurements()
    interleave({"metrics": lambda: {"ms": 1, "wal_bytes": 7}, "number": lambda: 2.0, "nothing": lambda: None}, 1, into=raw, warmup=0)
    rows = {row["variant"]: row for row in raw.rows}
    assert rows["metrics"]["wal_bytes"] == 7 and rows["number"]["ms"] == 2.0 and rows["nothing"]["ms"] >= 0


def test_csv_has_every_row_and_the_union_of_columns(tmp_path):
    raw = Measurements()
    raw.add("a", 0, "x", ms=1.5)
    raw.add("b", 0, "y", wal_bytes=3)
    raw.write_csv(tmp_path / "raw.csv")
    with open(tmp_path / "raw.csv") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["ms"] == "1.5" and rows[0]["wal_bytes"] == "" and rows[1]["wal_bytes"] == "3"


@pytest.mark.parametrize("value, text", [
    (0.5, "0.500"), (12345.6, "12,346"), (12, "12"), (1234567, "1,234,567"), (0.00123, "0.00123"), (None, ""), (True, "yes"),
    (float("nan"), "-"), ("name", "name"), (Estimate(1.0, 0.9, 1.1, 9, 0.96, 0.8, 1.2), "1.00 (0.90-1.1)"),
    (Estimate(1.0014, 0.9981, 1.0049, 600, 0.95, 0.9, 1.1), "1.001 (0.998-1.005)"), (Estimate(238.9, 238.2, 239.6, 600, 0.95, 230, 250), "239 (238-240)"),
])
def test_figures_are_written_with_three_digits(value, text):
    assert format_value(value) == text


def test_bytes_for_people():
    assert [human_bytes(n) for n in (512, 8192, 1 << 20, 3 << 30)] == ["512 B", "8 kB", "1 MB", "3 GB"]


def test_the_file_system_of_proc_is_proc():
    assert filesystem_of("/proc/self") == "proc"


def test_processor_time_counts_work_and_not_sleep():
    def spent(action):
        before = cpu_seconds(os.getpid())
        action()
        return cpu_seconds(os.getpid()) - before

    def work():
        """As much as takes 0.1 s of processor time by its own clock, on a machine of any speed."""
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass

    assert spent(lambda: time.sleep(0.3)) < 0.05
    assert spent(work) > 0.05  # the kernel writes it down with its ticks, up to 0.01 s late
    assert cpu_seconds(2 ** 22 + 1) is None


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_results_and_what_is_drawn_from_them_change_no_revision(tmp_path, monkeypatch):
    """ci/results.sh draws after each benchmark: the next one is still the commit's."""
    def git(*arguments):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=x", "-c", "user.email=x@x", *arguments], check=True, capture_output=True)

    monkeypatch.setattr(measure, "TOP", tmp_path)
    assert measure._revision() == "unknown"
    for name in ("code.c", "README.md", "results/15/temp/result.json", "docs/a.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    commit = measure._revision()
    for name in ("README.md", "results/15/temp/result.json", "results/18/temp/result.json", "docs/a.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("new")
    assert len(commit) >= 7 and measure._revision() == commit
    (tmp_path / "code.c").write_text("new")
    assert measure._revision() == f"{commit}-dirty"


def test_a_ratio_of_sums_is_taken_within_a_repetition_and_needs_every_case():
    raw = Measurements()
    for repetition in range(3):
        for case, ms in (("a", 10.0), ("b", 30.0)):
            raw.add("stock", repetition, case, ms=ms * (repetition + 1))
            if repetition < 2 or case == "a":
                raw.add("pg_lean", repetition, case, ms=ms * (repetition + 1) / 4)
    ratio = raw.ratio_of_sums("ms", "stock", "pg_lean", ["a", "b"])
    assert (ratio.median, ratio.n) == (4.0, 2)


def estimate(*values):
    return Estimate.of(values)


@pytest.mark.parametrize("values, figure, loud", [
    ((2.4, 2.5, 2.5, 2.5, 2.6, 2.6), "2.5x", False), ((6600, 6601, 6599, 6605, 6600, 6602), "6,600x", False),
    ((1.2, 2.0, 2.0, 2.1, 2.2, 3.0), "> 1.2x", True), ((0.8, 1.9, 2.0, 2.1, 2.2, 3.0), "too noisy to tell", True),
    ((0.2, 0.3, 0.3, 0.4, 0.4, 0.5), "< 0.50x", True), ((), "not measured", False),
])
def test_a_headline_never_shows_a_figure_that_misleads(values, figure, loud):
    headline = Headline("x", estimate(*values), [("stock", 2.0), ("pg_lean", 1.0)])
    assert (headline.figure, headline.loud) == (figure, loud)
    assert ("busy" in headline.explanation) == loud


def test_what_the_host_took_is_said():
    """Steal over all time wanted; idle and waiting is not wanted; systems that do not count it say nothing."""
    class Times(SimpleNamespace):
        def __init__(self, **given):
            super().__init__(**{**dict.fromkeys(("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait"), 5.0), **given})

    assert measure.stolen_share(Times(), Times(user=65.0, system=25.0, steal=25.0, idle=500.0, iowait=60.0)) == 0.2
    assert measure.stolen_share(Times(), Times(idle=500.0)) is None
    assert measure.stolen_share(SimpleNamespace(user=1.0), SimpleNamespace(user=2.0)) is None

    def said(stolen):
        result = Result("title", "", "", "", machine={"server": "PostgreSQL 15.18 on x86_64", "stolen": stolen})
        return "20%" in result.caution, "the host gave others 20%" in " ".join(docs.caption(result).split())

    assert said(0.2) == (True, True)
    assert said(0.004) == said(None) == (False, False)


def test_not_slower_is_decided_by_the_upper_end():
    """The noisier a run, the harder it is to pass: with the lower end it would be easier."""
    assert not_slower("x", estimate(0.99, 1.0, 1.0, 1.0, 1.0, 1.01), 0.02).met
    assert not not_slower("x", estimate(0.5, 0.9, 1.0, 1.0, 1.1, 1.5), 0.02).met
    assert not not_slower("x", estimate(), 0.02).met


def test_every_comparison_of_the_benchmarks_is_decided_by_the_upper_end():
    folder = Path(measure.__file__).parent / "bench"
    assert not [path.name for path in folder.glob("*.py") if re.search(r"\blower end\b|\.low,? *[\"<]", path.read_text())]


@pytest.mark.parametrize(
    "value, unit, text",
    [(546.2, "ms", "546 ms"), (2270.0, "ms", "2.27 s"), (81.0, "µs", "81.0 µs"), (5300.0, "µs", "5.30 ms"), (1.0, "µs a page", "1.00 µs a page")],
)
def test_costs_are_written_in_the_unit_of_a_person(value, unit, text):
    assert format_cost(value, unit) == text


def test_prices_are_what_the_times_were_made_of():
    """Rows of 50 ns (a unit of 4 us), pages of 0.4 us, 6 ms to start two workers, 0.1 us to enter a page."""
    raw = Measurements()
    for pages in (1000, 4000):
        for repetition in range(3):
            thin_rows, rows, entered = 20 * pages, 200 * pages, 2 * pages
            raw.add(
                prices.VARIANT,
                repetition,
                pages,
                thin=pages * 0.0004 + thin_rows * 5e-5,
                dense=pages * 0.0004 + rows * 5e-5,
                worth_it=20.0,
                worth_it_workers=16.0,
                processes=2,
                look_up_tiny=7.0,
                look_up_dense=7.0 + entered * 0.0001,
                pages=pages,
                rows=rows,
                thin_rows=thin_rows,
                entered=entered,
                row_price=0.0125,
            )
    # a moment in which few rows took longer than many says nothing
    raw.rows.append({**raw.rows[0], "thin": 1000.0})
    found = prices.recommended(raw)
    assert found["parallel_temp.worker_start_cost"] == pytest.approx(750)
    assert found["parallel_temp.enter_page_cost"] == pytest.approx(0.025)
    assert found["parallel_temp.held_page_cost"] == pytest.approx(0.1)
    assert prices.constants(raw, 1000)["unit"].median == pytest.approx(4) and prices.constants(raw, 1000)["unit"].n == 3
    assert math.isnan(recommended(raw)["parallel_temp.flush_page_cost"]), "rows of another kind are left alone"
    # as on 19, where workers use no index
    for row in raw.rows:
        row.update(look_up_tiny=None, look_up_dense=None)
    assert set(prices.settings(raw)) == {"parallel_temp.worker_start_cost", "parallel_temp.held_page_cost"}
