"""Measuring: interleaved repetitions, medians with intervals, raw rows, and what the machine is.

The unit of everything is a raw row: case (such as a table size), variant (such
as "stock"), repetition, and named metrics.  Summaries are always computed from
the rows, and the rows are always kept, so that anybody can check a summary.

Variants of one case take turns within each repetition, in a rotating order: a
slow minute of the machine then falls on all of them, and the ratio of two
variants is taken within a repetition before the median is.
"""

from __future__ import annotations

import contextlib
import csv
import math
import os
import platform
import random
import re
import subprocess
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import psutil
import psycopg

from pg_lean.errors import LabError
from pg_lean.paths import TOP

Sample = Mapping[str, float]


@dataclass(frozen=True)
class Estimate:
    """A median with its interval.

    low and high are order statistics, so nothing is assumed about the
    distribution; `confidence` is the probability that they enclose the true
    median (95 % or the next above it; less only where n < 6, when they are the
    smallest and the largest value).
    """

    median: float
    low: float
    high: float
    n: int
    confidence: float
    minimum: float
    maximum: float

    @classmethod
    def of(cls, values: Iterable[float], confidence: float = 0.95) -> "Estimate":
        """The estimate of these values; NaN throughout if there are none."""
        ordered = sorted(float(v) for v in values if v is not None and not math.isnan(v))
        n = len(ordered)
        if n == 0:
            nan = float("nan")
            return cls(nan, nan, nan, 0, 0.0, nan, nan)
        rank, reached = interval_ranks(n, confidence)
        return cls(float(np.median(ordered)), ordered[rank], ordered[n - 1 - rank], n, reached, ordered[0], ordered[-1])


def verdict(ratio: Estimate, margin: float) -> str:
    """Is a ratio within a margin?  "kept" or "lost" where the whole interval says so, else "undecided"."""
    return "kept" if ratio.high <= margin else "lost" if ratio.low > margin else "undecided"


def interval_ranks(n: int, confidence: float = 0.95) -> tuple[int, float]:
    """Which order statistics enclose the median of n values.

    Returns (k, reached): the k-th smallest and k-th largest value, counted from
    0, enclose the true median with probability `reached` >= confidence.  That
    probability is 1 - 2 P(B <= k) with B binomial (n, 1/2).  If no k reaches the
    confidence, k is 0 and `reached` says what it amounts to.
    """
    below = 0.5 ** n
    tail, best = below, (0, 1 - 2 * below)
    for k in range(1, n // 2):
        below *= (n - k + 1) / k
        tail += below
        if 1 - 2 * tail < confidence:
            break
        best = (k, 1 - 2 * tail)
    return (best[0], max(best[1], 0.0))


class Measurements:
    """The raw rows of one benchmark, in the order in which they were measured."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()):
        self.rows: list[dict[str, Any]] = [dict(row) for row in rows]

    def add(self, variant: str, repetition: int, case: Any = "", **metrics: Any) -> None:
        """Keep one row."""
        self.rows.append({"case": case, "variant": variant, "repetition": repetition, **metrics})

    def select(self, variant: str | None = None, case: Any = None) -> list[dict[str, Any]]:
        return [row for row in self.rows
                if (variant is None or row["variant"] == variant) and (case is None or row["case"] == case)]

    @property
    def cases(self) -> list[Any]:
        return list(dict.fromkeys(row["case"] for row in self.rows))

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(row["variant"] for row in self.rows))

    def estimate(self, metric: str, variant: str, case: Any = None) -> Estimate:
        """Median and interval of one metric."""
        return Estimate.of(row[metric] for row in self.select(variant, case) if row.get(metric) is not None)

    def ratio(self, metric: str, variant: str, base: str, case: Any = None, base_metric: str | None = None) -> Estimate:
        """variant / base, paired within each repetition (and case), then the median of those ratios.

        Below 1 means that `variant` needs less of the metric than `base`.
        """
        bases = {(row["case"], row["repetition"]): row.get(base_metric or metric) for row in self.select(base, case)}
        ratios = []
        for row in self.select(variant, case):
            denominator = bases.get((row["case"], row["repetition"]))
            if denominator and row.get(metric) is not None:
                ratios.append(row[metric] / denominator)
        return Estimate.of(ratios)

    def ratio_of_sums(self, metric: str, variant: str, base: str, cases: Sequence[Any]) -> Estimate:
        """The same over several cases that belong together: sums within each repetition, then their ratio, then the median."""
        def sums(name: str) -> dict[int, float]:
            found: dict[int, list[float]] = {}
            for row in self.rows:
                if row["variant"] == name and row["case"] in cases and row.get(metric) is not None:
                    found.setdefault(row["repetition"], []).append(row[metric])
            return {repetition: sum(values) for repetition, values in found.items() if len(values) == len(cases)}

        bases = sums(base)
        return Estimate.of(total / bases[repetition] for repetition, total in sums(variant).items() if bases.get(repetition))

    def quartile_ratio(self, metric: str, variant: str, base: str, case: Any = None) -> Estimate:
        """Lower quartile of a variant's rows over that of the base's: what both take when nothing else is in the way.

        The interval is what 95 % of samples give that are drawn again, by repetition, from the ones there are.
        """
        bases = {row["repetition"]: row.get(metric) for row in self.select(base, case)}
        pairs = [(row[metric], bases[row["repetition"]]) for row in self.select(variant, case)
                 if row.get(metric) is not None and bases.get(row["repetition"])]
        if not pairs:
            return Estimate.of([])
        values = np.array(pairs)
        drawn = values[np.random.default_rng(1).integers(0, len(pairs), (4000, len(pairs)))]
        ratios = np.divide(*np.moveaxis(np.quantile(drawn, 0.25, axis=1), -1, 0))
        found = float(np.divide(*np.quantile(values, 0.25, axis=0)))
        low, high = np.quantile(ratios, (0.025, 0.975))
        return Estimate(found, min(float(low), found), max(float(high), found), len(pairs), 0.95, float(ratios.min()), float(ratios.max()))

    def write_csv(self, path: Path) -> None:
        """All rows; the union of their columns."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(self.rows)


def interleave(variants: Mapping[str, Callable[[], Sample | float]], repetitions: int, *, into: Measurements,
               case: Any = "", warmup: int = 1, metric: str = "ms", before: Callable[[], Any] = lambda: None,
               after_each: Callable[[str], None] = lambda variant: None,
               most: int = 0, settled: Callable[[], bool] = lambda: True) -> None:
    """Run each variant once a repetition, the first one rotating, and keep what they return.

    Every other time around they run backwards: the contents that the previous one left in the
    processor's caches is no advantage of a variant.  A variant returns a mapping of
    metrics, or one number, kept as `metric`; a variant that returns None is timed
    here.  `warmup` rounds are run and discarded; `before` is called before each
    round.  After `repetitions` rounds there are further ones, up to `most`, until
    it is `settled()`.
    """
    names = list(variants)
    for repetition in range(-warmup, max(repetitions, most)):
        if repetition >= repetitions and settled():
            break
        before()
        turn = repetition % len(names)
        order = names[turn:] + names[:turn]
        for name in reversed(order) if repetition >= 0 and repetition // len(names) % 2 else order:
            start = time.perf_counter()
            sample = variants[name]()
            elapsed = (time.perf_counter() - start) * 1000
            if sample is None:
                sample = {"ms": elapsed}
            elif not isinstance(sample, Mapping):
                sample = {metric: sample}
            if repetition >= 0:
                into.add(name, repetition, case, **sample)
                after_each(name)


#: Transactions of a new session, and before each burst, that are not measured, at most; and bursts of a session.
FIRST_TRANSACTIONS, TRANSACTIONS_BEFORE, BURSTS = 200, 20, 6
#: Of short bursts fewer are left out: so many times a burst's of a new session, and a burst's divided by this.
FIRST_BURSTS, PART_BEFORE = 4, 10


def bursts(kinds: Mapping[str, Callable[[], psycopg.Connection]], transaction: Callable[[psycopg.pq.abc.PGconn], None], size: int, sessions: int, *,
           into: Measurements, case: Any = "", before: Callable[[], Any] = lambda: None,
           after_each: Callable[[], None] = lambda: None, local: bool = False, turns: int = BURSTS, together: bool = False) -> None:
    """Microseconds of a short transaction in several kinds of sessions, for differences of a percent.

    A session of each kind is opened, and they take turns, in any order, in bursts of
    `size` transactions; a size of 25 ms or less is right, so that those that are
    compared ran side by side.  Then new sessions take their place, `sessions` times,
    because two equal ones differ, too, by where their memory happens to lie.  So a
    session, not a burst, is one row: "us", the median of its bursts, and each burst's;
    of a local server also "cpu_us", processor time of the server's process: the lower
    quartile of its bursts, what a transaction takes when nothing else is in the way.
    More and shorter bursts tell more in the same time: what disturbs the machine meets
    some of them only.

    kinds: how a session of each kind is opened
    transaction: runs one transaction
    before: called before new sessions are opened
    local: the server's processes are this machine's
    turns: bursts of a session
    together: client and server share a processor while they are measured; for transactions of
        some ten microseconds, which take twice as long where the kernel has put the two apart
    """
    for repetition in range(sessions):
        before()
        opened: dict[str, psycopg.Connection] = {}
        stack = contextlib.ExitStack()
        try:
            for kind in random.sample(list(kinds), len(kinds)):
                opened[kind] = kinds[kind]()
            stack.enter_context(on_one_processor([conn.info.backend_pid for conn in opened.values()] if local and together else []))
            for kind in opened:
                _run(transaction, opened[kind], min(FIRST_TRANSACTIONS, FIRST_BURSTS * size))
            took: dict[str, list[float]] = {kind: [] for kind in kinds}
            used: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(turns):
                for kind in random.sample(list(kinds), len(kinds)):
                    pid = opened[kind].info.backend_pid if local else None
                    _run(transaction, opened[kind], min(TRANSACTIONS_BEFORE, max(size // PART_BEFORE, 1)))
                    cpu, start = pid and cpu_seconds(pid), time.perf_counter()
                    _run(transaction, opened[kind], size)
                    took[kind].append((time.perf_counter() - start) * 1e6 / size)
                    if cpu is not None:
                        used[kind].append((cpu_seconds(pid) - cpu) * 1e6 / size)
        finally:
            stack.close()
            for conn in opened.values():
                conn.close()
        for kind, each in took.items():
            cpu_us = {"cpu_us": float(np.quantile(used[kind], 0.25))} if used[kind] else {}
            into.add(kind, repetition, case, us=float(np.median(each)), **cpu_us, **{f"burst_{i}_us": us for i, us in enumerate(each, 1)})
        after_each()


@contextlib.contextmanager
def on_one_processor(pids: Sequence[int]) -> Iterator[None]:
    """This thread and these processes on one processor, the last that this thread may use; where that is not allowed, or there are none, on any."""
    ours = os.sched_getaffinity(0)
    try:
        for pid in pids:
            os.sched_setaffinity(pid, {max(ours)})
        if pids:
            os.sched_setaffinity(0, {max(ours)})
    except OSError:
        pass
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


def _run(transaction: Callable[[psycopg.pq.abc.PGconn], None], conn: psycopg.Connection, count: int) -> None:
    pgconn = conn.pgconn
    for _ in range(count):
        transaction(pgconn)


def prepare_select(conn: psycopg.Connection) -> psycopg.Connection:
    """Make the session ready for the transactions of select_one()."""
    check_result(conn.pgconn.prepare(b"one", b"SELECT abalance FROM pgbench_accounts WHERE aid = $1"))
    return conn


def select_one(accounts: int, *, prepared: bool = True) -> Callable[[psycopg.pq.abc.PGconn], None]:
    """The transaction of pgbench -S, for bursts(): one of that many accounts, with -M prepared or as a statement's text."""
    def execute(pgconn: psycopg.pq.abc.PGconn) -> None:
        check_result(pgconn.exec_prepared(b"one", [b"%d" % random.randint(1, accounts)]))

    def send_text(pgconn: psycopg.pq.abc.PGconn) -> None:
        check_result(pgconn.exec_(b"SELECT abalance FROM pgbench_accounts WHERE aid = %d" % random.randint(1, accounts)))
    return execute if prepared else send_text


def check_result(result: psycopg.pq.abc.PGresult) -> None:
    """An error that the server sent for a statement run by libpq itself is raised."""
    if result.status not in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK):
        raise LabError(f"a statement failed: {result.error_message.decode(errors='replace').strip()}")


# -- one statement -----------------------------------------------------------


def timed(conn: psycopg.Connection, query: str, params: Sequence[Any] | None = None, *, wal: bool = False, cpu: bool = False) -> dict[str, float]:
    """Run a statement and return {"ms"} as the client sees it, with {"wal_bytes"} if asked for, and with "cpu" {"cpu_ms"}, processor
    time of the session's process, if the server is on this machine."""
    before = wal_position(conn) if wal else 0
    used = cpu_seconds(conn.info.backend_pid) if cpu else None
    start = time.perf_counter()
    cursor = conn.execute(query, params)
    if cursor.description is not None:
        cursor.fetchall()
    sample = {"ms": (time.perf_counter() - start) * 1000}
    if used is not None:
        sample["cpu_ms"] = (cpu_seconds(conn.info.backend_pid) - used) * 1000
    if wal:
        sample["wal_bytes"] = wal_position(conn) - before
    return sample


def wal_position(conn: psycopg.Connection) -> int:
    """Bytes of WAL inserted since the beginning of time (the whole cluster's, so keep others quiet)."""
    return int(conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()[0])


def explain(conn: psycopg.Connection, query: str, options: str = "ANALYZE, TIMING OFF, BUFFERS") -> dict[str, Any]:
    """EXPLAIN in JSON: the object with "Plan", "Execution Time" and so on."""
    return conn.execute(f"EXPLAIN ({options}, FORMAT JSON) {query}").fetchone()[0][0]


def explain_text(conn: psycopg.Connection, query: str, options: str = "ANALYZE, BUFFERS") -> str:
    """EXPLAIN as psql shows it."""
    return "\n".join(row[0] for row in conn.execute(f"EXPLAIN ({options}) {query}"))


def execution_ms(conn: psycopg.Connection, query: str) -> float:
    """EXPLAIN ANALYZE's own "Execution Time", without the client and without per-node clocks."""
    return float(explain(conn, query, "ANALYZE, TIMING OFF, BUFFERS OFF")["Execution Time"])


def memory_peak(pid: int) -> int | None:
    """The most memory, in bytes, that a local process has had (VmHWM, which psutil does not have); None if that cannot be seen."""
    try:
        return int(re.search(r"^VmHWM:\s*(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)) * 1024
    except (OSError, AttributeError):
        return None


def private_memory(pid: int) -> int | None:
    """Memory in bytes of a local process now, without shared mappings; None if that cannot be seen."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None
    return memory.rss - memory.shared


def reset_memory_peak(pid: int) -> bool:
    """Start the peak again from now; False if the kernel does not let us."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        return True
    except OSError:
        return False


def cpu_seconds(pid: int) -> float | None:
    """Time that a local process has spent on a processor, its system calls included; None if that cannot be seen.

    Says what work costs where other programs compete for the processors, and wall time says little.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def kernel_seconds(pid: int) -> float:
    """Of that time of a local process what it spent in the kernel, counted in ticks of a hundredth of a second; 0 if that cannot be seen."""
    try:
        return psutil.Process(pid).cpu_times().system
    except psutil.Error:
        return 0.0


# -- the machine -------------------------------------------------------------


def stolen_share(before: Any, after: Any) -> float | None:
    """Return the fraction of the CPU time requested by this machine between two `psutil.cpu_times()` that its host gave to others (steal); None if
    the system does not count it or requested none.

    The system's `steal` is time in which a process was ready to run and the host ran another machine, so the requested time is it plus the busy time.
    """
    if not hasattr(after, "steal"):
        return None
    spent = {name: getattr(after, name) - getattr(before, name) for name in ("user", "nice", "system", "irq", "softirq", "steal")}
    wanted = sum(spent.values())
    return round(spent["steal"] / wanted, 3) if wanted > 0 else None


def describe_machine(conn: psycopg.Connection | None = None, data: Path | None = None) -> dict[str, Any]:
    """What the figures were measured on.  `data` is the server's data folder, if it is on this machine."""
    memory = psutil.virtual_memory()
    facts: dict[str, Any] = {
        "measured": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": memory.total,
        "memory_available_bytes": memory.available,
        "kernel": f"{platform.system()} {platform.release()}",
        "virtual_machine": _virtual_machine(),
        "filesystem": filesystem_of(data) if data else "not known: the server may be elsewhere",
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "pg_lean": _revision(),
    }
    if conn is not None:
        facts["server"] = conn.execute("SELECT version()").fetchone()[0]
        facts["extensions"] = dict(conn.execute("SELECT extname, extversion FROM pg_extension ORDER BY 1").fetchall())
        facts["assertions"] = conn.execute("SELECT current_setting('debug_assertions')").fetchone()[0] == "on"
        facts["settings"] = dict(conn.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE source NOT IN ('default', 'override', 'client')"
            " AND name NOT IN ('listen_addresses', 'unix_socket_directories', 'config_file', 'data_directory', 'search_path',"
            " 'application_name', 'hba_file', 'ident_file', 'external_pid_file', 'cluster_name', 'log_line_prefix')"
            " AND name !~ '^(lc_|ssl|default_text|TimeZone|DateStyle|log_timezone)' ORDER BY name").fetchall())
        facts["data_checksums"] = conn.execute("SHOW data_checksums").fetchone()[0]
    return facts


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        return found.group(1) if found else platform.machine()
    except OSError:
        return platform.machine()


def _virtual_machine() -> bool:
    try:
        return bool(re.search(r"^flags\s*:.*\bhypervisor\b", Path("/proc/cpuinfo").read_text(), re.M))
    except OSError:
        return False


def filesystem_of(path: Path) -> str:
    """Type of the file system that holds a path, such as "ext4"; as the kernel's family of it ("ext2/ext3") where no
    mount point is in sight, as in a chroot."""
    real = Path(os.path.realpath(path))
    try:
        inside = [mount for mount in psutil.disk_partitions(all=True) if real.is_relative_to(mount.mountpoint)]
    except OSError:
        inside = []
    kind = max(inside, key=lambda mount: len(mount.mountpoint)).fstype if inside else ""
    if not kind:
        seen = subprocess.run(["stat", "--file-system", "--format=%T", str(path)], capture_output=True, text=True, check=False)
        kind = seen.stdout.strip() or "unknown"
    return kind


def _revision() -> str:
    """The commit, "-dirty" where anything but results and what is drawn from them differs from it."""
    git = ("git", "-c", f"safe.directory={TOP}", "-C", str(TOP))
    try:
        found = subprocess.run([*git, "describe", "--always", "--tags"], capture_output=True, text=True, timeout=10).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", ".", ":!results", ":!*.md", ":!*.svg"], capture_output=True, text=True, timeout=10
        ).stdout
        return f"{found}{'-dirty' if changed else ''}" if found else "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def available_memory() -> int:
    """Bytes that could be used now without swapping."""
    return psutil.virtual_memory().available


def to_json(value: Any) -> Any:
    """default= of json.dumps for what results hold."""
    if isinstance(value, Estimate):
        return asdict(value)
    if isinstance(value, (np.integer, np.floating)):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    return str(value)
