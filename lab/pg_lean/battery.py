"""The statements of light_explain's tests, which together use every plan node type, as something to be timed.

light_explain/test/t/Battery.pm has them: [settings, what to run before each time, statement].
They are run on a private server, in a separate schema: under EXPLAIN ANALYZE,
and as they are while auto_explain measures but logs nothing.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any, Callable

import psycopg

from pg_lean.cluster import Cluster
from pg_lean.errors import LabError
from pg_lean.measure import Estimate, Measurements, interleave, timed
from pg_lean.paths import TOP
from pg_lean.result import Table

FOLDER = TOP / "light_explain" / "test" / "t"
SCHEMA = "battery"
#: Custom scans need a library of the tests; one statement's trigger runs the EXPLAIN.
NEEDS_LIBRARY, EXPLAINED_INSIDE = "light_test_custom", "TRIGGER:"
#: Statements that only EXPLAIN can run outside of a transaction.
EXPLAIN_ONLY = "DECLARE"
#: How a statement is run: what is before it, and auto_explain's least duration.
WAYS = {"EXPLAIN ANALYZE": ("EXPLAIN (ANALYZE, BUFFERS, WAL) ", "-1"), "auto_explain": ("", "1h")}
#: Number of the most expensive statements that are shown.
SHOWN = 6


@dataclass(frozen=True)
class Statement:
    number: int
    settings: str
    before: str
    text: str

    @property
    def parallel(self) -> bool:
        """Do workers take part, whose processor time is not the session's?"""
        return "max_parallel_workers_per_gather" in self.settings

    def case(self, way: str) -> str:
        return f"battery {self.number}, {way}"


def read() -> tuple[str, list[Statement]]:
    """SQL that makes their tables, and the statements that can be timed."""
    program = "use JSON::PP; use Battery; print JSON::PP->new->ascii->encode([battery_sql(), [battery_statements()]])"
    done = subprocess.run(["perl", f"-I{FOLDER}", "-e", program], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"the battery cannot be read: {done.stderr.strip()}")
    tables, rows = json.loads(done.stdout)
    return tables, [Statement(number, *row) for number, row in enumerate(rows)
                    if NEEDS_LIBRARY not in row[0] and not row[2].startswith(EXPLAINED_INSIDE)]


def make_tables(server: Cluster) -> list[Statement]:
    """Make the statements' tables in their schema; returns the statements."""
    tables, statements = read()
    script = f"CREATE SCHEMA {SCHEMA}; SET search_path = {SCHEMA}, public;\n{tables.replace('CREATE TEMP TABLE', 'CREATE TABLE')}"
    done = server.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", input=script)
    if done.returncode != 0:
        raise LabError(f"the battery's tables cannot be made: {done.stderr.strip()}")
    return statements


def run(server: Cluster, repetitions: int, into: Measurements, step: Callable[[str], Any] = lambda note: None) -> list[Statement]:
    """Measure each statement in each way, with the server's instrumentation and light_explain's in turns; returns the statements."""
    statements = make_tables(server)
    with server.connect() as conn:
        conn.prepare_threshold = None
        for statement in statements:
            make_ready(conn, statement)
            for way, (before, least) in WAYS.items():
                if before or not statement.text.startswith(EXPLAIN_ONLY):
                    server.set(conn, {"auto_explain.log_min_duration": least})
                    interleave({name: _variant(conn, statement, before, enabled) for name, enabled in (("core", "off"), ("light_explain", "on"))},
                               repetitions, into=into, case=statement.case(way))
            step(statement.text)
    return statements


def make_ready(conn: psycopg.Connection, statement: Statement) -> None:
    """Settings of the session for a statement, all others as they were at its beginning."""
    conn.execute("RESET ALL")
    conn.execute(f"SET search_path = {SCHEMA}, public; SET client_min_messages = error; SET jit = off; SET max_parallel_workers_per_gather = 0;"
                 "SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on; SET auto_explain.log_timing = on; SET auto_explain.log_wal = on;"
                 f"{statement.settings}")


def _variant(conn: psycopg.Connection, statement: Statement, before: str, enabled: str) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        if statement.before:
            conn.execute(statement.before)
        conn.execute(f"SET light_explain.enabled = {enabled}")
        return timed(conn, before + statement.text, cpu=not statement.parallel)
    return measure


def ratios(raw: Measurements, statements: list[Statement], way: str) -> dict[Statement, Estimate]:
    """light_explain's time of each statement over the server's: of processor time where no worker takes part."""
    found = {statement: raw.ratio("ms" if statement.parallel else "cpu_ms", "light_explain", "core", statement.case(way)) for statement in statements}
    return {statement: ratio for statement, ratio in found.items() if ratio.n > 0}


def slower(found: dict[Statement, Estimate], margin: float) -> list[Statement]:
    """Statements of which all the interval says that they are slower by more than the margin."""
    return [statement for statement, ratio in found.items() if ratio.low > 1 + margin]


def table(ways: dict[str, dict[Statement, Estimate]], margin: float) -> Table:
    """The most expensive statements of each variant."""
    rows: list[list[Any]] = []
    notes = []
    for way, found in ways.items():
        worst = sorted(found, key=lambda statement: -found[statement].median)[:SHOWN]
        rows += [[way, " ".join(statement.text.split())[:80] + (" (parallel)" if statement.parallel else ""), found[statement]] for statement in worst]
        notes.append(f"{way}: of {len(found)} statements {sum(ratio.high < 1 for ratio in found.values())} are certainly faster, "
                     f"{len(slower(found, margin))} certainly slower by more than {margin:.0%}.")
    return Table("Statements of the battery, from a tenth of a millisecond to some: light_explain over the server's instrumentation, the most expensive",
                 ["", "statement", "light_explain / core"], rows,
                 note=" ".join(notes) + " Processor time of the session; time where workers take part. raw.csv has all of them.")
