"""What being measured always adds to statements of every length, and goals that it is held against.

Used by the benchmarks of auto_explain (bench/explain.py) and of the profile
(bench/profile.py): the same loads, from one row to all, in sessions of several
kinds in turns.  A goal is about the lower quartile of processor time, which is
what a statement takes when nothing else is in the way; it is met if the upper end
of its interval meets it.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping

import psycopg

from pg_lean.measure import Estimate, check_result, timed
from pg_lean.result import Check, Table


@dataclass(frozen=True)
class Load:
    """A statement over accounts from $1 on, how many of it a burst has (some 6 ms), and what being measured may make of it."""

    query: str
    accounts: int
    size: int
    at_most: float
    prepared: bool = False

    @property
    def quick_size(self) -> int:
        """Of a burst of a quick run, which says little about differences."""
        return max(self.size // 8, 5)

    def transaction(self, name: str, accounts: int) -> Callable[[psycopg.pq.abc.PGconn], None]:
        """For measure.bursts(), in a session that prepare() made ready."""
        def first() -> bytes:
            return b"%d" % random.randint(1, accounts - self.accounts + 1)

        def execute(pgconn: psycopg.pq.abc.PGconn) -> None:
            check_result(pgconn.exec_prepared(name.encode(), [first()]))

        def send_text(pgconn: psycopg.pq.abc.PGconn) -> None:
            check_result(pgconn.exec_(self.query.encode().replace(b"$1", first())))
        return execute if self.prepared else send_text


LOOKUP = "SELECT abalance FROM pgbench_accounts WHERE aid = $1"
RANGE = "SELECT aid, abalance FROM pgbench_accounts WHERE aid BETWEEN $1 AND $1 + 40"
AGGREGATE = "SELECT count(*), sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN $1 AND $1 + 4999"
#: Sent as text, except those whose name contains another format.
LOADS = {"pgbench -S": Load(LOOKUP, 1, 130, 1.08), "pgbench -S -M prepared": Load(LOOKUP, 1, 230, 1.08, prepared=True),
         "range of 41 rows": Load(RANGE, 41, 80, 1.08), "range of 41 rows, prepared": Load(RANGE, 41, 130, 1.08, prepared=True),
         "aggregate over 5,000 rows": Load(AGGREGATE, 5000, 8, 1.08)}
#: Bursts of a session, and sessions of each kind in a full run.
TURNS, SESSIONS = 12, 90

ANALYTIC = "SELECT b.bid, count(*), sum(a.abalance) FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) GROUP BY b.bid ORDER BY b.bid"
ANALYTIC_AT_MOST = 1.05


def prepare(conn: psycopg.Connection) -> psycopg.Connection:
    """Make a session ready for the loads that are prepared."""
    for name, load in LOADS.items():
        if load.prepared:
            check_result(conn.pgconn.prepare(name.encode(), load.query.encode()))
    return conn


class Analytic:
    """ANALYTIC in a session of each kind, for Bench.interleave() without warmup: variants() in turns, before() first.

    Sessions are new after every RUNS of them: two equal ones differ by where their memory
    happens to lie, for as long as they exist.  The first runs of a new one are not measured.

    kinds: how a session of each kind is opened
    local: the server's processes are this machine's, so that processor time is told
    """

    RUNS = 2

    def __init__(self, kinds: Mapping[str, Callable[[], psycopg.Connection]], *, local: bool):
        self._kinds, self._local = kinds, local
        self._rounds = 0
        self._opened: dict[str, psycopg.Connection] = {}

    def __enter__(self) -> "Analytic":
        return self

    def __exit__(self, *_exc: Any) -> None:
        while self._opened:
            self._opened.popitem()[1].close()

    def before(self) -> None:
        if self._rounds % self.RUNS == 0:
            self.__exit__()
            for kind, connect in self._kinds.items():
                self._opened[kind] = connect()
                timed(self._opened[kind], ANALYTIC)
        self._rounds += 1

    def variants(self) -> dict[str, Callable[[], dict[str, float]]]:
        return {kind: functools.partial(self._measure, kind) for kind in self._kinds}

    def _measure(self, kind: str) -> dict[str, float]:
        sample = timed(self._opened[kind], ANALYTIC, cpu=self._local)
        return {name.replace("ms", "us"): ms * 1000 for name, ms in sample.items()}


# -- goals -------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """What is to be at most so much, and what was found."""

    what: str
    at_most: float
    found: Estimate

    @property
    def holds(self) -> str:
        """Is it so over the whole interval, or at least for the median?"""
        return "yes" if self.found.high <= self.at_most else "as found" if self.found.median <= self.at_most else "no"


def goals_table(goals: Iterable[Goal], note: str = "") -> Table:
    return Table("Goals", ["goal", "at most", "found", "upper end of its interval", "holds"],
                 [[goal.what, _limit(goal.at_most), f"{goal.found.median:.3f}", f"{goal.found.high:.3f}", goal.holds] for goal in goals], note=note)


def _limit(at_most: float) -> str:
    """Two digits, unless the limit has more."""
    return f"{at_most:.2f}" if round(at_most, 2) == at_most else f"{at_most:g}"


def goal_checks(goals: Iterable[Goal]) -> list[Check]:
    """Decided by the upper end, as not_slower() is."""
    return [Check(f"{goal.what}: upper end of the interval", goal.found.high, "<=", goal.at_most) for goal in goals]
