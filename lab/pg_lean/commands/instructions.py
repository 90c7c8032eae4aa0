"""pg-lean instructions: how many instructions measuring adds to a statement, counted and not timed."""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import psycopg
import typer
from rich.console import Console

from pg_lean import always, battery, terminal
from pg_lean.bench import analytics, rewrites, store
from pg_lean.bench.explain import ALWAYS_ON, OPTIONS, SETTINGS
from pg_lean.cluster import Cluster
from pg_lean.errors import LabError, Unavailable
from pg_lean.measure import check_result
from pg_lean.names import extension_schema
from pg_lean.result import Table

#: Of two branches, for with one the join is a nested loop.
SCALE = 2
ACCOUNTS = SCALE * 100_000
LOOP = "index lookup in a loop of PL/pgSQL"
TEMPORARY_LOOP = "loop over a small temporary table"
LOOPED = 1000
#: Executions of a short statement; of 100, filling the caches of a session is still a thousandth.
COUNTED = 1000
#: All queries of the analytic benchmark as one case, the size of their tables, and the milliseconds from which their plans are kept:
#: 50 times the default, because valgrind makes them slower by that.
QUERIES = "22 analytic queries"
QUERIES_THOUSANDTHS, QUERIES_KEPT = 3, 5000
#: Seconds that a server below callgrind may take to start, and a session to write its counts.
PATIENCE = 600.0
#: UPDATEs that replace a value are counted so often.
REPLACED = 50
#: Appends of one kind are counted so often: some begin a page, a chunk or a page of an index.
APPENDED = 200
#: Memory is copied and set by vectors, whatever its size.
VECTORS = ":".join(f"glibc.cpu.x86_rep_{kind}_threshold={10 ** 9}" for kind in ("movsb", "stosb"))
#: Functions of the server whose instructions depend on how busy the machine is, not on the statement: a session reports its
#: statistics each second, by 50,000 instructions, and waits for the next message if that has not arrived. With them one
#: prepared SELECT took 45,173 to 45,269 instructions at loads of 0 to 6, without them 44,831 to 44,837 at loads of 3 to 5.
UNCOUNTED = ("pgstat_report_stat", "secure_read")
#: Triggers of a table that has followers, by their function; "" is none.
FOLLOWED = {
    "": "",
    "appendable_only": "CREATE TRIGGER zz BEFORE UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {ext}.appendable_only('data')",
    "appendable_notify": "CREATE TRIGGER zz AFTER UPDATE OF data ON {t} FOR EACH ROW EXECUTE FUNCTION {ext}.appendable_notify('{t}', 'id')",
    "appendable_deltas": "CREATE TRIGGER zz AFTER UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {ext}.appendable_deltas('id')",
}
#: Settings of a session for each way of measuring, by kind: nothing measured, light_explain's way, the server's.
#: "profile" is with samples, history and kept plans, "profile and samples" without the latter two, "profile alone" without all.
NESTED = f"{ALWAYS_ON} -c auto_explain.log_nested_statements=on"
PROFILED = {"plain": "-c compute_query_id=off", "light_explain": "-c compute_query_id=on -c light_explain.profile=on"}
WAYS = {
    "auto_explain": {"plain": "", "light_explain": f"-c session_preload_libraries=light_explain,auto_explain {NESTED}",
                     "core": f"-c session_preload_libraries=auto_explain {NESTED}"},
    "profile": PROFILED,
    "profile and samples": PROFILED,
    "profile alone": PROFILED,
    "EXPLAIN ANALYZE": {"plain": "", "light_explain": "-c session_preload_libraries=light_explain", "core": ""},
}
#: A session with this library, of which statements have nothing to gain; counted where it is named only.
LIBRARY = "parallel_temp"
#: Kinds of which each way has one: a session with pg_lean.
OURS = ("light_explain", LIBRARY)
WAYS[LIBRARY] = {"plain": "", LIBRARY: f"-c session_preload_libraries={LIBRARY}"}
#: Server settings of a way that leaves out parts of the store.
WITHOUT = {"profile alone": store.PROFILE,
           "profile and samples": {name: value for name, value in store.PROFILE.items() if name != "light_explain.sample_interval"}}

Step = Callable[[psycopg.Connection], Any]


@dataclass(frozen=True)
class Case:
    """A statement: how it is run plainly and under EXPLAIN ANALYZE, and how many rows it goes over."""

    name: str
    rows: int
    run: Step
    explained: Step
    ready: Step = lambda conn: None

    @property
    def executions(self) -> int:
        """So many are counted, of large statements few."""
        return max(1, min(COUNTED, ACCOUNTS // self.rows))


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def instructions(
        statement: Optional[str] = typer.Option(
            None, "--statement", help="Count this one; without it those of the goals: lookups to a join over all accounts."
        ),
        rows: int = typer.Option(1, "--rows", min=1, help="Rows that --statement goes over, to tell instructions of a row."),
        setup: str = typer.Option("", "--setup", help="SQL that makes what --statement needs, before."),
        numbers: Optional[str] = typer.Option(
            None, "--battery", help="Count these statements of light_explain's battery under EXPLAIN ANALYZE: numbers, comma separated, or all."
        ),
        analytic: bool = typer.Option(False, "--analytic", help="Count the queries of make bench-analytics, as one case."),
        replaced: Optional[str] = typer.Option(
            None, "--replaced", help="Count UPDATEs of make bench-rewrites that replace a short value, in a column of text and in one of appendable_text: "
            "bytes of the value, comma separated."
        ),
        appended: Optional[str] = typer.Option(
            None, "--appended", help="Count UPDATEs that append to a value of 100 kB, in a table without triggers and with each that serves followers: "
            "bytes of an append, comma separated."
        ),
        only: Optional[str] = typer.Option(None, "--case", help="Of the goals' statements those whose name has this."),
        ways: Optional[str] = typer.Option(None, "--ways", help=f"Of {', '.join(WAYS)} these, comma separated."),
        pg_config: Optional[str] = typer.Option(
            None, "--pg-config", envvar="PG_CONFIG", help="Server of the private cluster: path of its pg_config, or a label of make matrix (18-assert)."
        ),
        as_json: bool = typer.Option(False, "--json", help="Print the counts as JSON on standard output."),
    ) -> None:
        """Count instructions of statements, plain and measured, by valgrind's callgrind on a private server; what the kernel does is not counted."""
        if (statement is not None) + (numbers is not None) + analytic > 1:
            raise LabError("--statement, --battery and --analytic exclude each other")
        if (replaced or appended) and (statement or numbers or analytic or (replaced and appended)):
            raise LabError("--replaced and --appended exclude each other and the others")
        if shutil.which("valgrind") is None:
            raise Unavailable("valgrind is not installed", "Install your system's package valgrind: its callgrind counts.")
        chosen = ways.split(",") if ways else ["EXPLAIN ANALYZE"] if numbers else [way for way in WAYS if way != LIBRARY]
        if unknown := [way for way in chosen if way not in WAYS]:
            raise LabError(f"there is no way {unknown[0]}", f"Ways: {', '.join(WAYS)}.")
        with Cluster(pg_config, settings=SETTINGS, name="instructions") as cluster:
            if cluster.root is not None:
                raise Unavailable("a server in a separate root has no valgrind")
            if sizes := replaced or appended:
                counter = count_replaced if replaced else count_appended
                counts = counter(cluster, [int(size) for size in sizes.split(",")], console)
                if as_json:
                    print(json.dumps(counts, indent=1))
                else:
                    terminal.show_table(Table("Instructions of an UPDATE", list(counts[0]), [list(row.values()) for row in counts]), console)
                return
            if not all(map(cluster.has_library, (*OURS, "auto_explain"))):
                raise Unavailable("light_explain, parallel_temp or auto_explain is not installed for this server", "Run make install.")
            cases = (
                of_battery(cluster, numbers)
                if numbers
                else [of_statement(statement, rows)]
                if statement
                else [of_queries(cluster)]
                if analytic
                else [case for case in of_goals() if (only or "") in case.name]
            )
            if statement:
                if (done := cluster.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", input=setup)).returncode != 0:
                    raise LabError(f"--setup failed: {done.stderr.strip()}")
            elif not numbers and not analytic:
                fill(cluster)
            found = []
            for way in chosen:
                for case, counted in count(cluster, way, cases, console):
                    found.append({"case": case.name, "way": way, "rows": case.rows, **counted})
        if as_json:
            print(json.dumps(found, indent=1))
        else:
            terminal.show_table(table(found), console)


# -- what is counted ---------------------------------------------------------

def fill(cluster: Cluster) -> None:
    """Accounts, and a function that looks some of them up."""
    done = cluster.run("pgbench", "-i", "-q", "-s", str(SCALE))
    if done.returncode != 0:
        raise LabError(f"pgbench: {done.stderr.strip()}")
    with cluster.connect() as conn:
        conn.execute(f"""CREATE FUNCTION look_up() RETURNS void LANGUAGE plpgsql AS $$
            DECLARE r int; BEGIN FOR i IN 1..{LOOPED} LOOP SELECT abalance INTO r FROM pgbench_accounts WHERE aid = i; END LOOP; END$$""")
        conn.execute(f"""CREATE FUNCTION change_small() RETURNS void LANGUAGE plpgsql AS $$
            DECLARE r int; BEGIN FOR i IN 1..{LOOPED // 20} LOOP
                INSERT INTO small VALUES (i, i); SELECT sum(v) INTO r FROM small; UPDATE small SET v = r WHERE id = i; DELETE FROM small; END LOOP; END$$""")
        conn.execute("VACUUM ANALYZE")


def of_statement(text: str, rows: int = 1, name: str | None = None) -> Case:
    def run(conn: psycopg.Connection, before: str = "") -> None:
        check_result(conn.pgconn.exec_(f"{before}{text}".encode()))
    return Case(name or " ".join(text.split())[:60], rows, run, functools.partial(run, before=f"EXPLAIN ({OPTIONS}) "))


def of_goals() -> list[Case]:
    """The statements of every length that goals are about."""
    cases = []
    for name, load in always.LOADS.items():
        run = load.transaction(name, ACCOUNTS)
        explained = always.Load(f"EXPLAIN ({OPTIONS}) {load.query}", load.accounts, load.size, load.at_most).transaction(name, ACCOUNTS)
        cases.append(Case(name, load.accounts, lambda conn, run=run: run(conn.pgconn), lambda conn, run=explained: run(conn.pgconn), always.prepare))
    small = replace(of_statement("SELECT change_small()", LOOPED // 20, TEMPORARY_LOOP),
                    ready=lambda conn: conn.execute("CREATE TEMP TABLE small (id int, v int)"))
    return [*cases, of_statement("SELECT look_up()", LOOPED, LOOP), small, of_statement(always.ANALYTIC, ACCOUNTS, "join with groups over all accounts")]


def of_queries(cluster: Cluster) -> Case:
    """The analytic queries, one after the other, over tables that it makes."""
    with cluster.connect() as conn:
        analytics.make_tables(conn, QUERIES_THOUSANDTHS, "")
        conn.execute("VACUUM ANALYZE")

    def ready(conn: psycopg.Connection) -> None:
        conn.execute(f"SET light_explain.plans_min_duration = {QUERIES_KEPT}")

    def run(conn: psycopg.Connection) -> None:
        for query in analytics.QUERIES.values():
            check_result(conn.pgconn.exec_(query.encode()))
    return Case(QUERIES, ACCOUNTS, run, run, ready)


def of_battery(cluster: Cluster, numbers: str) -> list[Case]:
    """Statements of the battery; each is rolled back."""
    statements = battery.make_tables(cluster)
    wanted = None if numbers == "all" else {int(number) for number in numbers.split(",")}

    def case(one: battery.Statement) -> Case:
        def run(conn: psycopg.Connection, before: str = "") -> None:
            with conn.transaction(force_rollback=True):
                if one.before:
                    conn.execute(one.before)
                conn.execute(before + one.text)

        # as if it had so many rows that ten executions are counted; of a row nothing is told
        return Case(f"{one.number} {' '.join(one.text.split())[:60]}", ACCOUNTS // 10, run, functools.partial(run, before=battery.WAYS["EXPLAIN ANALYZE"][0]),
                    lambda conn: battery.make_ready(conn, one))
    # workers count for themselves
    return [case(one) for one in statements if not one.parallel and (wanted is None or one.number in wanted)]


def of_replaced(way: rewrites.Way, name: str, values: Callable[[int], Iterator[str]], size: int) -> Case:
    """UPDATEs of a new table with one value; each sends the next one whole."""
    numbers, state = itertools.count(), {}

    def ready(conn: psycopg.Connection) -> None:
        state.update(table=f"replaced_{way.name.replace(' ', '_')}_{next(numbers)}", values=values(size))
        column = way.prefix.format(ext=extension_schema(conn, "appendable_bytea")) + "text"
        conn.execute(f"DROP TABLE IF EXISTS {state['table']}; CREATE TABLE {state['table']} (id int PRIMARY KEY, data {column}) WITH (fillfactor = 80)")
        if way.setup:
            conn.execute(way.setup.format(t=state["table"]))
        conn.execute(f"INSERT INTO {state['table']} VALUES (1, %s)", [next(state["values"])])

    def run(conn: psycopg.Connection) -> None:
        conn.execute(f"UPDATE {state['table']} SET data = %s", [next(state["values"])])
    return Case(name, ACCOUNTS // REPLACED, run, run, ready)


def of_appended(trigger: str, size: int) -> Case:
    """UPDATEs of a new table with one value; each appends so many bytes."""
    numbers, state = itertools.count(), {}

    def ready(conn: psycopg.Connection) -> None:
        state["table"] = table = f"appended_{trigger.split('_')[-1]}_{size}_{next(numbers)}"
        ext = extension_schema(conn, "appendable_bytea")
        conn.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, data {ext}.appendable_bytea) WITH (fillfactor = 80)")
        conn.execute(f"INSERT INTO {table} SELECT 1, string_agg(sha256(g::text::bytea), '') FROM generate_series(1, 3200) g")
        if trigger:
            conn.execute(FOLLOWED[trigger].format(t=table, ext=ext))

    def run(conn: psycopg.Connection) -> None:
        conn.execute(f"UPDATE {state['table']} SET data = data || %s::bytea WHERE id = 1", [random.randbytes(size)])
    return Case(f"{size} bytes, {trigger or 'no trigger'}", ACCOUNTS // APPENDED, run, run, ready)


# -- counting ----------------------------------------------------------------

def count_appended(cluster: Cluster, sizes: list[int], console: Console) -> list[dict[str, Any]]:
    """Instructions of an UPDATE that appends, for each size, without and with what followers need of the table; of a version without a function, without it."""
    cluster.configure(("appendable_bytea",), rewrites.SETTINGS)
    with cluster.connect() as conn:
        names = [name for name in FOLLOWED if not name or conn.execute("SELECT count(*) FROM pg_proc WHERE proname = %s", [name]).fetchone()[0]]
    count_from_now(cluster)
    found = []
    for size in sizes:
        row: dict[str, Any] = {"append": f"{size} bytes"}
        for name in names:
            case = of_appended(name, size)
            with console.status(case.name):
                session(cluster, "", case, case.run, 1)
                less, more = (session(cluster, "", case, case.run, times).instructions for times in (20, 20 + APPENDED))
            row[name or "no trigger"] = round((more - less) / APPENDED)
        found.append(row)
    return found


def count_replaced(cluster: Cluster, sizes: list[int], console: Console) -> list[dict[str, Any]]:
    """Instructions of an UPDATE that replaces a value, for each change and size: in TOAST with lz4, and as a difference."""
    cluster.configure(("appendable_bytea",), rewrites.SETTINGS)
    count_from_now(cluster)
    found = []
    for size, what, values in ((n, *change) for n in sizes for change in rewrites.changes_of(n).items()):
        row: dict[str, Any] = {"change": f"{size // 1000} kB, {what}"}
        for way in (rewrites.WAYS[0], rewrites.WAYS[-1]):
            options = " ".join(f"-c {name}={value}" for name, value in way.settings.items())
            case = of_replaced(way, row["change"], values, size)
            with console.status(f"{case.name}, {way.name}"):
                session(cluster, options, case, case.run, 1)
                less, more = (session(cluster, options, case, case.run, times).instructions for times in (10, 10 + case.executions))
            row[way.name] = round((more - less) / case.executions)
        found.append({**row, "pg_lean / stock lz4": round(row["pg_lean"] / row["stock lz4"], 3)})
    return found


def count_from_now(cluster: Cluster) -> None:
    """Restart below callgrind, which counts except in UNCOUNTED; the C library does not copy by "rep movsb", of which each byte would count."""
    cluster.below = ["env", f"GLIBC_TUNABLES={VECTORS}", "valgrind", "--tool=callgrind", "--trace-children=yes", "--vgdb=no",
                     *(f"--toggle-collect={name}" for name in UNCOUNTED), "--collect-atstart=yes",  # without this, it begins with the first of these
                     f"--callgrind-out-file={cluster.data.parent}/callgrind.%p", f"--log-file={cluster.data.parent}/valgrind.%p"]
    cluster.patience = PATIENCE
    cluster.restart()


def count(cluster: Cluster, way: str, cases: list[Case], console: Console, kinds: tuple[str, ...] = ()) -> Iterator[tuple[Case, dict[str, float]]]:
    """Instructions of one execution of each case, by kind of session: of all kinds, or of these.

    The difference between two sessions of which one executes it more often, so that
    what a session begins and ends with is not counted, nor what first executions fill.
    """
    cluster.preload = ["light_explain"] if WAYS[way] is PROFILED else []
    cluster.settings = {**SETTINGS, **WITHOUT.get(way, {})}
    count_from_now(cluster)
    for case in cases:
        counted = {}
        few = case.executions // 3 + 1
        with console.status(f"{case.name}, {way}"):
            # the server was restarted: the first session reads all blocks
            session(cluster, "", case, case.run, few + case.executions)
            for kind, options in WAYS[way].items():
                if kinds and kind not in kinds:
                    continue
                step = case.explained if way == "EXPLAIN ANALYZE" and kind != "plain" else case.run
                session(cluster, options, case, step, 1)  # the first execution makes the plan's entry of the profile
                less, more = (session(cluster, options, case, step, times) for times in (few, few + case.executions))
                counted[kind] = (more.instructions - less.instructions) / case.executions
                if kind == "light_explain":
                    counted["locks"] = (more.locks - less.locks) / case.executions
        yield case, counted


@dataclass(frozen=True)
class Counts:
    """What a process did: instructions, and how many times light_explain acquired a lightweight lock."""

    instructions: int
    locks: int


def session(cluster: Cluster, options: str, case: Case, step: Step, times: int) -> Counts:
    """Counts of a whole session that executes a statement so often, for the same accounts each time."""
    with cluster.connect(options) as conn:
        conn.prepare_threshold = None
        pid = conn.info.backend_pid
        case.ready(conn)
        random.seed(1)
        for _ in range(times):
            step(conn)
    return total(cluster.data.parent / f"callgrind.{pid}")


def total(file: Path) -> Counts:
    """What a process wrote when it ended, which it is waited for."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        # its last line
        if file.exists() and (found := re.search(r"^totals: (\d+)", text := file.read_text(), re.M)):
            return Counts(int(found[1]), locks(text))
        time.sleep(0.1)
    raise LabError(f"callgrind wrote no counts to {file}")


def locks(text: str) -> int:
    """Calls of LWLockAcquire() and its kin by functions of light_explain, in callgrind's format: a name follows its number only the first time."""
    names: dict[tuple[str, str], str] = {}
    now = {"ob": "", "fn": "", "cob": "", "cfn": ""}
    calls = 0
    for line in text.splitlines():
        if named := re.match(r"(c?)(ob|fn)=(\(\d+\))(?: (.*))?$", line):
            called, what, number, name = named.groups()
            now[called + what] = names.setdefault((what, number), name or "")
        elif (counted := re.match(r"calls=(\d+)", line)) and now["cfn"].startswith("LWLock") and "Acquire" in now["cfn"] and "light_explain" in now["ob"]:
            calls += int(counted[1])
    return calls


def table(found: list[dict[str, Any]]) -> Table:
    """Counts, what they are of the plain statement, and what is more in each of its rows."""
    def ours(row: dict[str, Any]) -> str:
        return next(kind for kind in OURS if kind in row)

    def over(row: dict[str, Any], kind: str, base: str = "plain") -> str | None:
        return f"{row[kind] / row[base]:.4f}" if kind in row else None

    def each(row: dict[str, Any], kind: str) -> str | None:
        return f"{(row[kind] - row['plain']) / row['rows']:,.0f}" if kind in row else None

    return Table(
        "Instructions of one execution",
        [
            "statement",
            "measured by",
            "plain",
            "pg_lean",
            "core",
            "over plain | pg_lean",
            "over plain | core",
            "pg_lean over core",
            "more a row | pg_lean",
            "more a row | core",
            "locks | light_explain",
        ],
        [
            [
                row["case"],
                row["way"],
                *(f"{row[kind]:,.0f}" if kind in row else None for kind in ("plain", ours(row), "core")),
                over(row, ours(row)),
                over(row, "core"),
                over(row, ours(row), "core") if "core" in row else None,
                each(row, ours(row)),
                each(row, "core"),
                f"{row['locks']:.2f}" if "locks" in row else None,
            ]
            for row in found
        ],
        note="Counted by valgrind's callgrind: without the kernel, and a reading of the processor's counter is one instruction. "
        "Locks are the lightweight locks that light_explain acquires.",
    )
