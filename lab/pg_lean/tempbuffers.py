"""The ten-step experiment on temporary buffers, which the demo runs and calibration uses.

The steps are those of the published experiment: create a temporary table that
fills its buffers, flush it, flush again with nothing to write (dry), evict it,
read it, read again with everything resident (dry), evict, read in random order,
mark dirty, flush.  Each run has a new session, because temp_buffers is
fixed at its first use in a session; it is set to 110 % of the table.

Five more steps that the publication does not have cost little: the same pages are
marked dirty and flushed again, in order and at random, with the writes sorted and
coalesced.  That separates the first write of a page of a new file from later
ones, and shows what ordering the writes is worth.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from typing import Any, Mapping

import psycopg

from pg_lean.cluster import Cluster, Server
from pg_lean.errors import LabError, Unavailable
from pg_lean.measure import Measurements, available_memory, explain
from pg_lean.names import need_extension_schema

BLOCK = 8192

#: Sizes of the published experiment, in blocks: 1 MB to 2 GB.
SIZES = tuple(128 << power for power in range(12))

#: A pgbench row at fillfactor 10 fills a page with six rows: pages are what is measured, and so they are made quickly.
FILLFACTOR = 10

#: Buffers and files as stock PostgreSQL fills them: no parallel scans, no bulk loading past them, no files that grow late.
PLAIN = {"parallel_temp__enabled": False, "parallel_temp__fast_load": False, "parallel_temp__lazy_files": False}

FUNCTIONS = ("pg_flush_local_buffers()", "pg_read_temp_relation(regclass,boolean)", "pg_temp_buffers_dirty(regclass)",
             "pg_evict_temp_relation(regclass)", "pg_allocated_local_buffers()")


def need_toolkit(server: Server) -> None:
    """Raise Unavailable unless the server has the functions of parallel_temp's toolkit."""
    server.need_extension("parallel_temp")
    for function in FUNCTIONS:
        server.need_function(function)


def largest_size(server: Server) -> tuple[int, str]:
    """The largest table, in blocks, that this machine takes without swapping, and why not more."""
    if isinstance(server, Cluster):
        memory, disk = available_memory(), shutil.disk_usage(server.data).free
        # Buffers, their file in the kernel's cache, and as much left for others.
        blocks = min(int(memory / (BLOCK * 1.1 * 4)), int(disk / (BLOCK * 4)))
        reason = "memory" if memory / 1.1 <= disk else "disk space"
    else:
        blocks, reason = 65536, "the memory of a server that is not the lab's own"
    allowed = [size for size in SIZES if size <= blocks]
    if not allowed:
        raise Unavailable(f"too little {reason} for a table of {SIZES[0]} blocks")
    return allowed[-1], reason


def temp_buffers_for(blocks: int) -> int:
    """temp_buffers in blocks: 110 % of the table, and never below the server's minimum of 100."""
    return max(100, math.ceil(blocks * 1.1))


@dataclass
class Filler:
    """Makes temporary tables of an exact number of pages out of pgbench_accounts."""

    rows: int
    rows_per_page: int

    @classmethod
    def measure(cls, server: Server) -> "Filler":
        with server.connect() as conn:
            rows = conn.execute("SELECT count(*) FROM pgbench_accounts").fetchone()[0]
            conn.execute(f"CREATE TEMP TABLE probe WITH (fillfactor = {FILLFACTOR}) AS SELECT * FROM pgbench_accounts LIMIT 200")
            return cls(rows, conn.execute("SELECT count(*) FROM probe WHERE ctid < '(1,0)'::tid").fetchone()[0])

    def statement(self, table: str, blocks: int) -> str:
        """CREATE TEMP TABLE AS that gives the table `blocks` pages."""
        rows = blocks * self.rows_per_page
        return (f"CREATE TEMP TABLE {table} WITH (fillfactor = {FILLFACTOR}) AS SELECT a.*"
                f" FROM generate_series(1, {math.ceil(rows / self.rows)}) g, pgbench_accounts a LIMIT {rows}")


def ten_steps(server: Server, filler: Filler, blocks: int, *, method: str = "buffer_order",
              settings: Mapping[str, Any] = PLAIN) -> dict[str, float]:
    """Run the experiment once in a new session and return milliseconds by step.

    `method` is parallel_temp.debug_flush_method of the documents' steps; "buffer_order"
    writes page by page in the order of the buffers, as the publication does.
    `settings` are the session's: as stock by default, {} for pg_lean's defaults.
    Every step's block counts are checked, so that a time never stands for work
    that was not done.
    """
    with server.connect(temp_buffers=temp_buffers_for(blocks), jit=False, max_parallel_workers_per_gather=0,
                        **settings) as conn:
        steps: dict[str, float] = {}
        ext = need_extension_schema(conn, "parallel_temp")
        table = "'pg_temp.t'::regclass"

        def step(name: str, call: str, **expected: int) -> None:
            plan = explain(conn, f"SELECT {call}")
            for counter, wanted in expected.items():
                found = plan["Plan"][f"Local {counter.capitalize()} Blocks"]
                if found < wanted:
                    raise LabError(f'step "{name}" of {blocks:,} blocks: {found:,} local blocks {counter}, expected {wanted:,}')
            steps[name] = plan["Execution Time"]

        def flush(name: str, how: str) -> None:
            conn.execute(f"SELECT {ext}.pg_temp_buffers_dirty({table})")
            server.set(conn, {"parallel_temp.debug_flush_method": how})
            step(name, f"{ext}.pg_flush_local_buffers()", written=blocks)
            server.set(conn, {"parallel_temp.debug_flush_method": method})

        server.set(conn, {"parallel_temp.debug_flush_method": method})
        steps["create"] = explain(conn, filler.statement("t", blocks))["Execution Time"]
        pages = conn.execute("SELECT pg_relation_size('pg_temp.t'::regclass) / current_setting('block_size')::int").fetchone()[0]
        if pages != blocks:
            raise LabError(f"the test table has {pages:,} pages instead of {blocks:,}")
        steps["allocated"] = conn.execute(f"SELECT {ext}.pg_allocated_local_buffers()").fetchone()[0]

        step("flush", f"{ext}.pg_flush_local_buffers()", written=blocks)
        step("dry_flush", f"{ext}.pg_flush_local_buffers()")
        steps["dry_flush_mean"] = repeated(conn, f"{ext}.pg_flush_local_buffers()", blocks)
        conn.execute(f"SELECT {ext}.pg_evict_temp_relation({table})")
        step("read", f"{ext}.pg_read_temp_relation({table}, false)", read=blocks)
        step("dry_read", f"{ext}.pg_read_temp_relation({table}, false)", hit=blocks)
        flush("flush_again", method)
        flush("flush_again_coalesced", "coalesced")
        conn.execute(f"SELECT {ext}.pg_evict_temp_relation({table})")
        step("random_read", f"{ext}.pg_read_temp_relation({table}, true)", read=blocks)
        flush("random_flush", method)
        flush("random_flush_coalesced", "coalesced")
        return steps


def repeated(conn: psycopg.Connection, call: str, blocks: int) -> float:
    """Milliseconds of one call, from many in one statement: EXPLAIN alone shows no less than a microsecond."""
    times = max(1, min(256, (1 << 18) // blocks))
    empty = explain(conn, f"SELECT sum(g) FROM generate_series(1, {times}) g")["Execution Time"]
    full = explain(conn, f"SELECT sum({call} + g) FROM generate_series(1, {times}) g")["Execution Time"]
    return max(0.0, full - empty) / times


def constants(raw: Measurements, blocks: int, variant: str, flush: str = "flush") -> dict[str, Any]:
    """Write/read ratio and scan term of one size, paired in each repetition.

    Both are in units of one sequential page read, as the planner's constants are:
    the scan term is the dry flush over the buffers looked at, over the read per page.
    """
    scaled = Measurements({**row, "scan": row["dry_flush_mean"] / row["allocated"] * blocks}
                          for row in raw.select(variant, blocks))
    return {"write": scaled.ratio(flush, variant, variant, blocks, base_metric="read"),
            "scan": scaled.ratio("scan", variant, variant, blocks, base_metric="read"),
            "random_write": scaled.ratio("random_flush", variant, variant, blocks, base_metric="read")}
