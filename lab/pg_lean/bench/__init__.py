"""The frame in which benchmarks and parts of the demo run.

A benchmark is one module of this package, found by its name (`make bench-NAME`
runs bench/NAME.py); a part of the demo is one of pg_lean.demo.  Either declares

    TITLE = "one line for lists"              (required)
    PRELOAD = ("parallel_temp",)              libraries of the private cluster; their
                                              extensions are created in the database
    SETTINGS = {"shared_buffers": "256MB"}    server settings of the private cluster

    def run(bench: Bench) -> Result: ...

`run` gets a started server in `bench.server`, measures, puts raw rows into
`bench.raw`, and returns a Result of texts, tables, plots and checks.  It raises
Unavailable if it cannot run here; that is reported and is no failure.  See
lab/README.md for an example.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import shutil
import subprocess
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterator, Mapping, Sequence

import psutil
import psycopg
import psycopg.conninfo
from psycopg import sql
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pg_lean import measure
from pg_lean.cluster import Cluster, Server, UserServer
from pg_lean.errors import LabError, Unavailable
from pg_lean.measure import Estimate, Measurements, Sample
from pg_lean.paths import BUILD
from pg_lean.result import Check, Flame, Headline, Listing, Note, Plot, Result, Series, SideBySide, Table, Waits, human_bytes, not_slower

#: Steps of pgbench -i without its first, which drops tables: those of a user's must never be at risk.
PGBENCH_STEPS = "tgvp"
#: Repetitions that no effort is too small for: fewer have no interval.
FEWEST = 3
#: Seconds after which steps are worth a further line where no bar can be drawn.
SAID_EVERY = 10

__all__ = ["Bench", "Options", "Result", "Note", "Table", "Series", "Plot", "Flame", "Listing", "SideBySide", "Waits", "Check", "Headline",
           "Estimate", "Measurements", "Unavailable", "LabError", "human_bytes", "not_slower"]


@dataclass
class Options:
    """What the user asked for on the command line."""

    quick: bool = False
    scale: int | None = None
    iterations: int | None = None
    dsn: str | None = None
    pg_config: str | None = None
    #: The part of a full run's repetitions that is wanted.
    effort: float = 1.0
    #: Of a benchmark of many queries only these: numbers from 1, or names.
    queries: tuple[str, ...] = ()


@dataclass
class Bench:
    """What a benchmark works with."""

    name: str
    server: Server
    options: Options = field(default_factory=Options)
    console: Console = field(default_factory=Console)
    raw: Measurements = field(default_factory=Measurements)

    # -- what to run ---------------------------------------------------------

    @property
    def quick(self) -> bool:
        """The user asked for a short run: a minute at most for a benchmark, seconds for a demo part."""
        return self.options.quick

    def pick(self, full: Any, quick: Any) -> Any:
        """One of two values, by --quick."""
        return quick if self.quick else full

    def iterations(self, full: int, quick: int) -> int:
        """Repetitions: --iterations if given, else one of these; of a full run's the part that --effort leaves, but FEWEST."""
        return self.options.iterations or self.pick(max(min(full, FEWEST), round(full * self.options.effort)), quick)

    def all_orders(self, full: int, quick: int, variants: int) -> int:
        """Repetitions, and so many at least that these variants have run in all orders in which they take turns (measure.interleave).

        For what lives from pages in the processor's caches: a variant that always follows one
        that reads the same pages has them there.
        """
        repetitions = self.iterations(full, quick)
        return repetitions if self.quick or self.options.iterations else max(repetitions, 2 * variants)

    def scale(self, full: int, quick: int) -> int:
        """Scale of the pgbench data (100,000 accounts each): --scale if given, else one of these."""
        return self.options.scale or self.pick(full, quick)

    # -- sessions ------------------------------------------------------------

    def connect(self, **settings: Any) -> psycopg.Connection:
        """A new autocommit session; settings such as temp_buffers="64MB", parallel_temp__enabled=False."""
        return self.server.connect(**settings)

    def cluster(self, **kwargs: Any) -> Cluster:
        """One more private cluster, such as one without the library (use it in a `with` block)."""
        if not self.server.private:
            raise Unavailable("this needs a private cluster", "Run it without --dsn.")
        return Cluster(self.options.pg_config, **kwargs)

    def need_private(self) -> Cluster:
        """The server as a private cluster (restart, settings, files), or Unavailable with --dsn."""
        if not isinstance(self.server, Cluster):
            raise Unavailable("this needs a private cluster", "Run it without --dsn.")
        return self.server

    def pgbench_tables(self, scale: int) -> str:
        """Fill the pgbench tables in the lab's own schema, unless they are there; returns that schema's name."""
        self.server.make_schema()
        schema = sql.Identifier(self.server.schema)
        with self.server.connect() as conn:
            there = conn.execute("SELECT to_regclass(%s)", (f"{self.server.schema}.pgbench_branches",)).fetchone()[0]
            if there and conn.execute(sql.SQL("SELECT count(*) FROM {}.pgbench_branches").format(schema)).fetchone()[0] == scale:
                return self.server.schema
            for table in ("accounts", "branches", "history", "tellers"):
                conn.execute(sql.SQL("DROP TABLE IF EXISTS {}.{}").format(schema, sql.Identifier(f"pgbench_{table}")))
        with self.activity(f"filling pgbench tables, scale {scale} ({scale * 100_000:,} accounts)"):
            if isinstance(self.server, Cluster):
                done = self.server.run("pgbench", "-i", "-I", PGBENCH_STEPS, "-q", "-s", str(scale))
            else:
                done = _user_pgbench(self.server, self.options.pg_config, scale)
        if done.returncode != 0:
            raise LabError(f"pgbench -i failed: {done.stderr.strip()}")
        return self.server.schema

    # -- measuring -----------------------------------------------------------

    def interleave(self, variants: Mapping[str, Callable[[], Sample | float | None]], repetitions: int, *, case: Any = "",
                   warmup: int = 1, metric: str = "ms", before: Callable[[], Any] = lambda: None, text: str = "",
                   most: int = 0, settled: Callable[[], bool] = lambda: True) -> None:
        """Measure variants in turns into bench.raw, with a progress bar (see measure.interleave)."""
        with self.progress(repetitions * len(variants), text or str(case) or self.name) as step:
            measure.interleave(variants, repetitions, into=self.raw, case=case, warmup=warmup, metric=metric, before=before,
                               after_each=lambda variant: step(variant), most=most, settled=settled)

    def estimate(self, metric: str, variant: str, case: Any = None) -> Estimate:
        return self.raw.estimate(metric, variant, case)

    def ratio(self, metric: str, variant: str, base: str, case: Any = None) -> Estimate:
        return self.raw.ratio(metric, variant, base, case)

    # -- what the user sees meanwhile ----------------------------------------

    def say(self, text: str) -> None:
        """A line on the terminal."""
        self.console.print(text, highlight=False)

    @contextlib.contextmanager
    def progress(self, total: int, text: str) -> Iterator[Callable[..., None]]:
        """A progress bar: `with bench.progress(12, "sizes") as step: ...; step("128 blocks")`."""
        if not self.console.is_terminal:
            self.say(f"  {text} ...")
            yield self._said_now_and_then(total, text)
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("[dim]{task.fields[note]}"))
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(text, total=total, note="")
            yield lambda note="", advance=1: bar.update(task, advance=advance, note=note)

    def _said_now_and_then(self, total: int, text: str) -> Callable[..., None]:
        """Steps where there is no terminal: a line for those that end long after the line before."""
        done, said = 0, time.monotonic()

        def step(note: str = "", advance: int = 1) -> None:
            nonlocal done, said
            done += advance
            if done < total and time.monotonic() - said >= SAID_EVERY:
                self.say(f"  {text}: {done} of {total}")
                said = time.monotonic()
        return step

    @contextlib.contextmanager
    def activity(self, text: str) -> Iterator[None]:
        """Something that takes a while and has no steps."""
        if not self.console.is_terminal:
            self.say(f"  {text} ...")
            yield
            return
        with self.console.status(text):
            yield


def _user_pgbench(server: Server, pg_config: str | None, scale: int) -> subprocess.CompletedProcess:
    """pgbench -i on the user's server, into the lab's schema and nowhere else."""
    program = shutil.which("pgbench")
    with contextlib.suppress(LabError):
        program = str(Cluster(pg_config).bindir / "pgbench")
    if program is None:
        raise LabError("the program pgbench was not found", "Install the server package, which has it.")
    of_environment = {option.keyword: option.val for option in psycopg.pq.Conninfo.get_defaults()}[b"options"]
    given = psycopg.conninfo.conninfo_to_dict(server.conninfo).get("options") or (of_environment or b"").decode()
    conninfo = psycopg.conninfo.make_conninfo(server.conninfo, options=f"{given} -c search_path={server.schema}".strip())
    return subprocess.run([program, "-i", "-I", PGBENCH_STEPS, "-q", "-s", str(scale), conninfo], capture_output=True, text=True)


# -- finding and running -----------------------------------------------------


def modules(package: str = "pg_lean.bench") -> dict[str, str]:
    """Names and titles of the benchmarks (or of another package's modules)."""
    path = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_"))
    return {name: getattr(importlib.import_module(f"{package}.{name}"), "TITLE", "") for name in names}


def load(name: str, package: str = "pg_lean.bench") -> ModuleType:
    """The module of that name, or an error that lists those there are."""
    name = name.replace("-", "_")
    known = modules(package)
    if name not in known:
        raise LabError(f'there is no benchmark "{name}"', "There are: " + ", ".join(known))
    return importlib.import_module(f"{package}.{name}")


def open_server(options: Options, preload: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> Server:
    """The user's server (--dsn) or a private cluster, started; close it with `with`."""
    if options.dsn:
        server: Server = UserServer(options.dsn)
        try:
            server.configure(preload, settings)
            server.make_schema()
        except BaseException:
            server.close()
            raise
        return server
    cluster = Cluster(options.pg_config, settings=settings)
    missing = [name for name in preload if not cluster.has_library(name)]
    if missing:
        raise Unavailable(f"not installed for this server: {', '.join(missing)}", "Run make install.")
    cluster.preload = list(preload)
    cluster.start()
    return cluster


def run_module(module: ModuleType, name: str, server: Server, options: Options, console: Console, folder: Path) -> Result:
    """Run one benchmark or part on a running server and keep its result in `folder`, or next to it if it is not a full one.

    What went wrong is in the result, with the rows that had been measured; a user's interrupt is raised again when they are kept.
    """
    bench = Bench(name, server, options, console)
    start, times = time.monotonic(), psutil.cpu_times()
    result = Result(module.TITLE, "", "", "")
    leaving: BaseException | None = None
    try:
        server.configure(getattr(module, "PRELOAD", ()), getattr(module, "SETTINGS", {}))
        result = module.run(bench)
    except Unavailable as reason:
        result.unavailable = f"{reason}. {reason.hint}".strip()
    except Exception as error:
        result.failed = _reason(error)
        bench.say(f"  [red]failed:[/] {escape(result.failed)}")
    except (KeyboardInterrupt, SystemExit) as signal:
        result.interrupted, leaving = True, signal
    result.name, result.quick, result.effort, result.seconds = name, options.quick or bool(options.queries), options.effort, time.monotonic() - start
    result.raw = bench.raw
    if leaving is None:
        with contextlib.suppress(psycopg.Error, LabError), server.connect() as conn:
            result.machine = measure.describe_machine(conn, server.data if isinstance(server, Cluster) else None)
    result.machine = result.machine or measure.describe_machine()
    result.machine["stolen"] = measure.stolen_share(times, psutil.cpu_times())
    if leaving is None or result.raw.rows:
        result.save(folder / result.kind)
    if leaving is not None:
        raise leaving
    return result


def _reason(error: Exception) -> str:
    """An error in a line or two: what the server or the lab said, and where it was if it is a fault of the lab's."""
    hint = error.hint if isinstance(error, LabError) else getattr(getattr(error, "diag", None), "message_hint", None) or ""
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, (LabError, psycopg.Error, OSError)):
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {text} ({Path(last.filename).name}, line {last.lineno})"
    return f"{text}. {hint}".strip() if hint else text


def run_bench(name: str, options: Options, console: Console) -> Result:
    """Run one benchmark on a private server."""
    module = load(name)
    if options.queries and not hasattr(module, "chosen_queries"):
        raise LabError(f'the benchmark "{name}" has no queries to choose from', "--queries is for analytics.")
    if options.queries:
        module.chosen_queries(options.queries)
    with open_server(options, getattr(module, "PRELOAD", ()), getattr(module, "SETTINGS", {})) as server:
        return run_module(module, name.replace("-", "_"), server, options, console, BUILD / "bench" / name.replace("-", "_"))
