"""What a session's statements do to the files of relations: extensions and writes, with counts and time.

The best source is the kernel: bpftrace puts probes on the server's mdextend, mdzeroextend, mdwrite and mdwritev (and on the
two functions with which parallel_temp extends files), in the binary of the traced session, and on pgstat_report_activity,
which every statement passes when it begins and when the session is idle again.  Stock packages have these symbols; nothing
is built or restarted.  It needs root, uprobes in the kernel, and tracefs, which is mounted in a mount namespace of the
tracer's own where it is missing.

Where that is refused, the server's own counters stand in: pg_stat_get_backend_io() of 18, which knows one session, or
pg_stat_io of 16 and 17, which knows all client sessions together.  They have no times unless track_io_timing is on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import psycopg

from pg_lean.errors import LabError, Unavailable

#: Function, pages in one call (a bpftrace expression), what it counts as.
SERVER_PROBES = (("mdextend", "1", "extend"), ("mdzeroextend", "(uint64)(uint32)arg3", "extend"),
                 ("mdwrite", "1", "write"), ("mdwritev", "(uint64)(uint32)arg4", "write"))
LIBRARY_PROBES = (("relfile_extend", "(uint64)(uint32)(arg2 - arg1)", "extend"), ("relfile_append", "(uint64)(uint32)arg3", "extend"))
LIBRARY = "parallel_temp.so"


@dataclass
class Statement:
    """One statement of the traced session.  Times are microseconds; None where the source does not know them."""

    query: str
    extends: int = 0
    extended_pages: int = 0
    extend_us: float | None = None
    writes: int = 0
    written_pages: int = 0
    write_us: float | None = None
    total_us: float | None = None

    def share(self) -> float | None:
        """The part of the statement's time that extensions and writes took."""
        if not self.total_us or self.extend_us is None or self.write_us is None:
            return None
        return (self.extend_us + self.write_us) / self.total_us


    def plus(self, more: "Statement") -> "Statement":
        """Both together; for two pieces of one statement as the kernel's probes see it."""
        return Statement(self.query, self.extends + more.extends, self.extended_pages + more.extended_pages, self.extend_us + more.extend_us,
                         self.writes + more.writes, self.written_pages + more.written_pages, self.write_us + more.write_us,
                         self.total_us + more.total_us)


# -- the kernel's probes -------------------------------------------------------


def executable_of(pid: int) -> Path:
    """The server binary of a session, as it can be opened from here (the session may live in a chroot)."""
    try:
        inside = os.readlink(f"/proc/{pid}/exe")
    except FileNotFoundError:
        raise LabError(f"there is no process {pid}") from None
    except PermissionError:
        raise Unavailable(f"process {pid} belongs to another user", "Run the tracer as root.") from None
    return _seen_from_here(pid, inside)


def library_of(pid: int) -> Path | None:
    """parallel_temp as that session has it loaded, or None."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return None
    found = re.search(rf"(/\S*/{re.escape(LIBRARY)})$", maps, re.M)
    return _seen_from_here(pid, found.group(1)) if found else None


def _seen_from_here(pid: int, path: str) -> Path:
    """A path of the session's, through its root if that is not ours."""
    try:
        root = os.readlink(f"/proc/{pid}/root")
    except OSError:
        root = "/"
    if root != "/" and path.startswith(root.rstrip("/") + "/"):
        return Path(path)
    return Path(path) if root == "/" else Path(root + path)


def symbols_of(binary: Path) -> set[str]:
    """Names of the functions that a binary exports."""
    program = shutil.which("readelf") or shutil.which("nm")
    if program is None:
        raise Unavailable("neither readelf nor nm is here", "Install binutils.")
    args = ["--dyn-syms", "-W"] if program.endswith("readelf") else ["-D"]
    done = subprocess.run([program, *args, str(binary)], capture_output=True, text=True)
    return set(re.findall(r"\s([A-Za-z_]\w*)(?:@\S+)?$", done.stdout, re.M))


def program(pid: int) -> str:
    """The bpftrace program for one session."""
    binary = executable_of(pid)
    probes = [(binary, *probe) for probe in SERVER_PROBES]
    library = library_of(pid)
    if library is not None:
        probes += [(library, *probe) for probe in LIBRARY_PROBES]
    known = {path: symbols_of(path) for path in {probe[0] for probe in probes}}
    probes = [probe for probe in probes if probe[1] in known[probe[0]]]
    if not any(probe[3] == "extend" for probe in probes) or "pgstat_report_activity" not in known[binary]:
        raise Unavailable(f"{binary} does not export mdextend and pgstat_report_activity", "It is no stock PostgreSQL of a supported version.")
    mine = f"/pid == {pid}/"
    text = [f'BEGIN {{ @running = 0; printf("@@ready\\n"); }}',
            f"""uprobe:{binary}:pgstat_report_activity {mine} {{
  if (@running == 1) {{
    printf("@@end %lld %lld %lld %lld %lld %lld %lld\\n", @n["extend"], @pages["extend"], @ns["extend"],
           @n["write"], @pages["write"], @ns["write"], nsecs - @began);
  }}
  @running = 0;
  if (arg1 == 0) {{ printf("@@idle\\n"); }}
  if (arg1 != 0) {{
    @n["extend"] = 0; @pages["extend"] = 0; @ns["extend"] = 0; @n["write"] = 0; @pages["write"] = 0; @ns["write"] = 0;
    @inside = 0; @began = nsecs; @running = 1;
    printf("@@begin %s\\n@@text\\n", str(arg1));
  }}
}}"""]
    for path, function, pages, kind in probes:
        # parallel_temp's functions call mdextend at the beginning of a segment: count the outer call alone
        text.append(f"""uprobe:{path}:{function} {mine} {{
  if (@inside == 0) {{ @n["{kind}"] += 1; @pages["{kind}"] += {pages}; @start = nsecs; }}
  @inside += 1;
}}
uretprobe:{path}:{function} {mine} {{
  if (@inside == 1) {{ @ns["{kind}"] += nsecs - @start; }}
  if (@inside > 0) {{ @inside -= 1; }}
}}""")
    text.append('END { clear(@n); clear(@pages); clear(@ns); clear(@running); clear(@inside); clear(@began); clear(@start); }')
    return "\n".join(text)


class KernelTrace:
    """bpftrace attached to one session; iterate over its statements, or use `collect` around one."""

    def __init__(self, pid: int, timeout: float = 20.0):
        if os.geteuid() != 0:
            raise Unavailable("probes on user programs need root", "Run it with sudo, or use --method counters.")
        if shutil.which("bpftrace") is None:
            raise Unavailable("bpftrace is not installed", "apt-get install bpftrace, or use --method counters.")
        command = ["bpftrace", "-B", "line", "-e", program(pid)]
        # tracefs in a mount namespace of bpftrace's own: nothing stays mounted
        script = 'd=/sys/kernel/tracing; [ -e $d/uprobe_events ] || mount -t tracefs tracefs $d; exec "$@"'
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "trace", *command],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                        env={**os.environ, "BPFTRACE_STRLEN": "180"}, start_new_session=True)
        self.said: list[str] = []
        timer = threading.Timer(timeout, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                if line.startswith("@@ready"):
                    break
                self.said.append(line.rstrip())
            else:
                self.close()
                raise Unavailable("bpftrace cannot attach: " + (" ".join(self.said[-3:]) or "it said nothing"),
                                  "The kernel must allow uprobes (CONFIG_UPROBE_EVENTS, no lockdown); or use --method counters.")
        finally:
            timer.cancel()

    def __enter__(self) -> "KernelTrace":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def statements(self) -> Iterator[Statement]:
        """Statements as they end, until the tracer is closed.

        In the extended protocol a statement reports itself when it is parsed, bound and executed; these are put together.
        """
        text: list[str] = []
        reading = False
        pending: Statement | None = None
        for line in self.process.stdout:
            if line.startswith("@@begin "):
                text, reading = [line[len("@@begin "):].rstrip("\n")], True
            elif line.startswith("@@text"):
                reading = False
            elif line.startswith("@@end "):
                n = [int(field) for field in line.split()[1:]]
                found = Statement("\n".join(text), n[0], n[1], n[2] / 1000, n[3], n[4], n[5] / 1000, n[6] / 1000)
                if pending is not None and pending.query == found.query:
                    found = pending.plus(found)
                elif pending is not None:
                    yield pending
                pending = found
            elif line.startswith("@@idle"):
                if pending is not None:
                    yield pending
                pending = None
            elif reading:
                text.append(line.rstrip("\n"))

    def wait_for(self, mark: str, timeout: float = 30.0) -> Statement:
        """The next statement whose text contains `mark`."""
        timer = threading.Timer(timeout, self.process.kill)
        timer.start()
        try:
            for statement in self.statements():
                if mark in statement.query:
                    return statement
        finally:
            timer.cancel()
        raise Unavailable("bpftrace ended before the statement did")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


# -- the server's counters -----------------------------------------------------

COLUMNS = ("coalesce(sum({extends}), 0)::bigint, coalesce(sum({extended}), 0)::bigint, sum(extend_time), "
           "coalesce(sum({writes}), 0)::bigint, coalesce(sum({written}), 0)::bigint, sum(write_time)")


def counters_query(version: int) -> str:
    """A query with %(pid)s whose row is extends, pages, ms, writes, pages, ms of temporary relations."""
    if version >= 180000:
        columns = COLUMNS.format(extends="extends", extended="extend_bytes / 8192", writes="writes", written="write_bytes / 8192")
        return f"SELECT {columns} FROM pg_stat_get_backend_io(%(pid)s) WHERE object = 'temp relation'"
    if version >= 160000:
        columns = COLUMNS.format(extends="extends", extended="extends", writes="writes", written="writes")
        return f"SELECT {columns} FROM pg_stat_io WHERE object = 'temp relation' AND backend_type = 'client backend' AND %(pid)s > 0"
    raise Unavailable("PostgreSQL 15 has no pg_stat_io", 'Use bpftrace as root, or EXPLAIN (ANALYZE, BUFFERS): "local written" counts extensions and writes.')


def read_counters(conn: psycopg.Connection, pid: int) -> tuple[int, int, float | None, int, int, float | None]:
    return conn.execute(counters_query(conn.info.server_version), {"pid": pid}).fetchone()


def between(query: str, before: tuple, after: tuple, timed: bool) -> Statement:
    """What happened between two readings of the counters."""
    def us(i: int) -> float | None:
        return ((after[i] or 0) - (before[i] or 0)) * 1000 if timed else None

    return Statement(query, after[0] - before[0], after[1] - before[1], us(2), after[3] - before[3], after[4] - before[4], us(5))


def watch_counters(conn: psycopg.Connection, pid: int, interval: float = 0.05) -> Iterator[Statement]:
    """Statements of a session as its counters show them; the server adds them up when a session is idle, at most once a second."""
    counters_query(conn.info.server_version)
    timed = conn.execute("SELECT current_setting('track_io_timing')::bool").fetchone()[0]
    before, pending = read_counters(conn, pid), []
    seen = None
    while True:
        row = conn.execute("SELECT query_start, state, query FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()
        if row is None:
            return
        start, state, query = row
        if start != seen and state is not None and state.startswith("idle") and start is not None:
            seen = start
            pending.append(query)
        if pending:
            after = read_counters(conn, pid)
            if after != before:
                yield between("; ".join(pending), before, after, timed)
                before, pending = after, []
        time.sleep(interval)
