"""Where a statement's time goes, told by a profiler: nothing is measured in the server, so nothing is changed.

A session runs the plain statement while perf(1) looks at its stack some thousand times.
Each sample belongs to the innermost plan node whose code is on the stack.  Packages'
programs have no names of static functions, so a function without one is recognized by
the exported ones next to it: a node's file has ExecInitSeqScan(), ExecReScanSeqScan() and
so on.  The code that all scans share (execScan.c) does not tell which one, so scans count as one.
"""

from __future__ import annotations

import bisect
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg

from pg_lean.errors import Unavailable

#: Plan nodes by the name that their functions have in the executor, and what they are called here.
NODES = {name: name for name in ("Agg", "HashJoin", "Hash", "Sort", "NestLoop", "Material", "Memoize", "MergeJoin", "Limit", "Result")}
NODES |= {name: "Scan" for name in ("SeqScan", "IndexScan", "IndexOnlyScan", "BitmapHeapScan", "BitmapIndexScan", "FunctionScan", "SubqueryScan", "Scan")}
#: Exported functions of nodes' files whose names are of another kind.
OTHERS = {"hash_agg_set_limits": "Agg", "hash_agg_entry_size": "Agg", "ExecHashTableInsert": "Hash", "ExecIndexEvalRuntimeKeys": "Scan",
          "ExecIndexEvalArrayKeys": "Scan", "ExecIndexBuildScanKeys": "Scan"}
#: What light_explain and EXPLAIN call them.
SHOWN = {"Aggregate": "Agg", "HashAggregate": "Agg", "GroupAggregate": "Agg", "Hash Join": "HashJoin", "Nested Loop": "NestLoop", "Merge Join": "MergeJoin"}
#: Samples a second, and bytes of the stack in each: a search of an index has large variables.
FREQUENCY, STACK = 997, 8192
#: Addresses in the program itself; those of libraries and the kernel are larger.
PROGRAM = 0x1000000


def name_of(node_type: str) -> str:
    """A node type as it is called here."""
    return "Scan" if node_type.endswith("Scan") else SHOWN.get(node_type, node_type)


class Program:
    """The server's program: whose code is at an address."""

    def __init__(self, path: Path, root: Path | None = None):
        """path: as the server sees it; root: directory that is the server's root."""
        path = path if root is None else root / path.relative_to("/")

        def read(*command: str) -> str:
            if shutil.which(command[0]) is None:
                raise Unavailable(f"{command[0]} is not installed", "Install your system's package binutils.")
            return subprocess.run([*command, str(path)], capture_output=True, text=True, check=True).stdout

        #: where functions begin, and the exported ones
        self.functions = sorted({int(start, 16) for start in re.findall(r"pc=([0-9a-f]+)\.\.", read("readelf", "--debug-dump=frames"))})
        symbols = (line.split() for line in read("nm", "-D", "--defined-only").splitlines())
        self.names = {int(fields[0], 16): fields[2].split("@")[0] for fields in symbols if len(fields) == 3 and fields[1] in "TtWi"}
        self.exported = sorted(self.names)

    def node(self, address: int) -> str | None:
        """The node whose function is there; None for all other functions."""
        start = self.functions[max(bisect.bisect(self.functions, address) - 1, 0)]
        if start in self.names:
            return self.by_name(self.names[start])
        after = bisect.bisect(self.exported, start)
        adjacent = [self.names[self.exported[place]] for place in (after, after - 1) if 0 <= place < len(self.exported)]
        return next(filter(None, map(self.by_name, adjacent)), None)

    @staticmethod
    def by_name(name: str) -> str | None:
        found = re.fullmatch(r"(?:Multi)?Exec(?:Init|ReScan|End)?(\w+)", name)
        return OTHERS.get(name) or (NODES.get(found[1]) if found else None)


def need() -> None:
    """Raises Unavailable where there is no profiler."""
    if shutil.which("perf") is None:
        raise Unavailable("perf is not installed", "Install your system's package linux-perf.")


def shares(conn: psycopg.Connection, program: Program, statement: str, seconds: float) -> tuple[dict[str, float], int]:
    """Each node's part of the executor's time in percent, and the number of samples.

    conn: a session on this machine, at whose process the user may look; seconds: how long
    the statement is repeated.  Raises Unavailable if the profiler sees nothing.
    """
    conn.execute(statement).fetchall()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        profiler = subprocess.Popen(["perf", "record", "-q", "-F", str(FREQUENCY), "-e", "cpu-clock", "--call-graph", f"dwarf,{STACK}", "-p",
                                     str(conn.info.backend_pid), "-o", str(data)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while not data.exists() and profiler.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                conn.execute(statement).fetchall()
        finally:
            profiler.send_signal(signal.SIGINT)
            profiler.wait()
        stacks = subprocess.run(["perf", "script", "-i", str(data), "-F", "ip,sym", "--no-inline"], capture_output=True, text=True).stdout
    found: Counter[str] = Counter()
    for stack in stacks.split("\n\n"):
        if "standard_ExecutorRun" in stack:
            nodes = (program.node(address) for address in (int(text, 16) for text in re.findall(r"^\s+([0-9a-f]+) ", stack, re.M)) if address < PROGRAM)
            found[next((node for node in nodes if node), "unknown")] += 1
    if not found:
        raise Unavailable("the profiler saw no statement", "It needs permission to trace the server's processes (root), and a quiet machine.")
    return {node: 100 * n / found.total() for node, n in found.items()}, found.total()
