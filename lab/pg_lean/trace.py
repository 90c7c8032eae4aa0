"""What a session's statements do to the files of relations: extensions and writes, appends, shares and loads, with counts and time.

The best source is the kernel: bpftrace puts probes on the server's mdextend, mdzeroextend, mdwrite and mdwritev, on
functions of parallel_temp (with which it extends files, shares temporary buffers with workers, loads tables) and
of appendable_bytea (with which it writes chunks), in the binaries of the traced session, and on pgstat_report_activity,
which every statement passes when it begins and when the session is idle again.  Stock packages have these symbols; nothing
is built or restarted.  It needs root, uprobes in the kernel, and tracefs, which is mounted in a mount namespace of the
tracer's own where it is missing.

Where that is refused, what can be seen from outside stands in: pg_stat_get_backend_io() of 18, which knows one session,
pg_stat_io of 16 and 17, which knows all client sessions together, the kernel's counters of the process (/proc) on 15;
chunks in the statistics of chunk stores; parallel workers of the session, and whether its temporary buffers are in shared memory.
Each source says what it cannot see (Counters.blind).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Iterator

import psycopg

from pg_lean.errors import LabError, Unavailable

#: Function, pages in one call (a bpftrace expression), what it counts as.
SERVER_PROBES = (("mdextend", "1", "extend"), ("mdzeroextend", "(uint64)(uint32)arg3", "extend"),
                 ("mdwrite", "1", "write"), ("mdwritev", "(uint64)(uint32)arg4", "write"))
LIBRARY_PROBES = (("relfile_extend", "(uint64)(uint32)(arg2 - arg1)", "extend"), ("pt_relfile_append", "(uint64)(uint32)arg3", "extend"),
                  ("pt_share_begin", "0", "share"), ("pt_load_begin", "0", "load"), ("pt_load_end", "0", "load"))
APPEND_PROBES = (("ab_writer_open", "0", "append"), ("ab_writer_put", "(uint64)arg2", "append"), ("ab_writer_close", "0", "append"))
TRACEFS = Path("/sys/kernel/tracing")
LIBRARY, APPEND_LIBRARY = "parallel_temp.so", "appendable_bytea.so"

#: A call of it is a call of its kind; calls of others only add their pages (or bytes) and time to it.
COUNTED = {"append": "ab_writer_open"}
#: Counters of a statement, in the order in which the tracer prints them.
KINDS = ("extend", "write", "append", "share", "load")


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
    #: Values of appendable_bytea written in chunks, and their bytes; None where the source cannot see them, as in all below.
    appends: int | None = None
    appended_bytes: int | None = None
    append_us: float | None = None
    #: Times that temporary buffers were shared with workers.
    shares: int | None = None
    share_us: float | None = None
    #: Fast loads of temporary tables, from their beginning to their end.
    loads: int | None = None
    load_us: float | None = None
    #: Chunks, and parallel workers, where only these are seen.
    chunks: int | None = None
    workers: int | None = None

    def share(self) -> float | None:
        """The part of the statement's time that extensions and writes took."""
        if not self.total_us or self.extend_us is None or self.write_us is None:
            return None
        return (self.extend_us + self.write_us) / self.total_us

    def plus(self, more: "Statement") -> "Statement":
        """Both together; for two pieces of one statement as the kernel's probes see it."""
        def sum_of(name: str) -> float | None:
            mine, others = getattr(self, name), getattr(more, name)
            return mine if others is None else others if mine is None else mine + others

        return Statement(self.query, **{field.name: sum_of(field.name) for field in fields(Statement) if field.name != "query"})


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


def library_of(pid: int, name: str = LIBRARY) -> Path | None:
    """The file of pg_lean's library that the session has loaded, or None."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return None
    found = re.search(rf"(/\S*/{re.escape(name)})$", maps, re.M)
    return _seen_from_here(pid, found.group(1)) if found else None


def _seen_from_here(pid: int, path: str) -> Path:
    """A path of the session, through its root if it has another one."""
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
        raise Unavailable("neither readelf nor nm is installed", "Install binutils.")
    args = ["--dyn-syms", "-W"] if program.endswith("readelf") else ["-D"]
    done = subprocess.run([program, *args, str(binary)], capture_output=True, text=True)
    return set(re.findall(r"\s([A-Za-z_]\w*)(?:@\S+)?$", done.stdout, re.M))


def program(pid: int) -> str:
    """The bpftrace program for one session."""
    binary = executable_of(pid)
    probes = [(binary, *probe) for probe in SERVER_PROBES]
    for name, wanted in ((LIBRARY, LIBRARY_PROBES), (APPEND_LIBRARY, APPEND_PROBES)):
        library = library_of(pid, name)
        if library is not None:
            probes += [(library, *probe) for probe in wanted]
    known = {path: symbols_of(path) for path in {probe[0] for probe in probes}}
    probes = [probe for probe in probes if probe[1] in known[probe[0]]]
    if not any(probe[3] == "extend" for probe in probes) or "pgstat_report_activity" not in known[binary]:
        raise Unavailable(f"{binary} does not export mdextend and pgstat_report_activity", "The server must be a stock PostgreSQL of a supported version.")
    mine = f"/pid == {pid}/"
    figures = ", ".join(f'@n["{kind}"], @pages["{kind}"], @ns["{kind}"]' for kind in KINDS)
    zeros = " ".join(f'@n["{kind}"] = 0; @pages["{kind}"] = 0; @ns["{kind}"] = 0; @inside["{_door(kind)}"] = 0;' for kind in KINDS)
    text = ['BEGIN { @running = 0; printf("@@ready\\n"); }',
            f"""uprobe:{binary}:pgstat_report_activity {mine} {{
  if (@running == 1) {{
    printf("@@end{' %lld' * (3 * len(KINDS) + 1)}\\n", {figures}, nsecs - @began);
  }}
  @running = 0;
  if (arg1 == 0) {{ printf("@@idle\\n"); }}
  if (arg1 != 0) {{
    {zeros}
    @began = nsecs; @running = 1;
    printf("@@begin %s\\n@@text\\n", str(arg1));
  }}
}}"""]
    for path, function, pages, kind in probes:
        door = _door(kind)
        if kind == "load":
            # a load is all that happens between two calls, in which statements' rows are made
            text.append(f'uprobe:{path}:{function} {mine} {{ @n["load"] += 1; @loading = nsecs; }}' if function == "pt_load_begin"
                        else f'uretprobe:{path}:{function} {mine} {{ if (@loading > 0) {{ @ns["load"] += nsecs - @loading; }} @loading = 0; }}')
            continue
        # functions of one kind call each other (parallel_temp's mdextend at the beginning of a segment): count the outer call alone
        calls = 1 if COUNTED.get(kind, function) == function else 0
        text.append(f"""uprobe:{path}:{function} {mine} {{
  if (@inside["{door}"] == 0) {{ @n["{kind}"] += {calls}; @pages["{kind}"] += {pages}; @start["{door}"] = nsecs; }}
  @inside["{door}"] += 1;
}}
uretprobe:{path}:{function} {mine} {{
  if (@inside["{door}"] == 1) {{ @ns["{kind}"] += nsecs - @start["{door}"]; }}
  if (@inside["{door}"] > 0) {{ @inside["{door}"] -= 1; }}
}}""")
    text.append('END { clear(@n); clear(@pages); clear(@ns); clear(@running); clear(@inside); clear(@began); clear(@start); clear(@loading); }')
    return "\n".join(text)


def _door(kind: str) -> str:
    """Kinds of which one call may be inside another's: extensions and writes are told apart from what calls them, not from each other."""
    return "file" if kind in ("extend", "write") else kind


def statement_of(query: str, line: str) -> Statement:
    """A statement's figures from the tracer's line that ends it."""
    n = [int(number) for number in line.split()[1:]]
    return Statement(query, n[0], n[1], n[2] / 1000, n[3], n[4], n[5] / 1000, n[15] / 1000,
                     appends=n[6], appended_bytes=n[7], append_us=n[8] / 1000, shares=n[9], share_us=n[11] / 1000, loads=n[12], load_us=n[14] / 1000)


def reason_of(said: list[str]) -> str:
    """The reason why bpftrace ended: its error messages, except that about the limit of locked memory, which it may not be able to raise or need."""
    errors = [line for line in said if re.match(r"(\S+: )?ERROR\b", line) and "RLIMIT_MEMLOCK" not in line]
    return " ".join(errors or said[-3:])


def with_tracefs(command: list[str]) -> list[str]:
    """The command in a private mount namespace with tracefs, so that nothing stays mounted; as it is if tracefs is there.

    In a chroot whose root is no mount point there can be no such namespace: the command then says what it misses.
    """
    private = ["unshare", "--mount", "--propagation", "private"]
    if (TRACEFS / "uprobe_events").exists() or subprocess.run([*private, "true"], capture_output=True).returncode != 0:
        return command
    return [*private, "sh", "-c", f'mount -t tracefs tracefs {TRACEFS}; exec "$@"', "trace", *command]


class KernelTrace:
    """bpftrace attached to one session; iterate over its statements, or use `collect` around one."""

    def __init__(self, pid: int, timeout: float = 20.0):
        if os.geteuid() != 0:
            raise Unavailable("probes on user programs need root", "Run it with sudo, or use --method counters.")
        if shutil.which("bpftrace") is None:
            raise Unavailable(
                "bpftrace is not installed", "apt-get install bpftrace, or name the server with --dsn: then what can be seen without it is shown."
            )
        self.process = subprocess.Popen(with_tracefs(["bpftrace", "-B", "line", "-e", program(pid)]),
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
                raise Unavailable("bpftrace cannot attach: " + (reason_of(self.said) or "it said nothing"),
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
                found = statement_of("\n".join(text), line)
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

#: Seconds after which a statement that moved no counter is taken to have done nothing: sessions report once a second.
QUIET_SECONDS = 2.5

COLUMNS = ("coalesce(sum({extends}), 0)::bigint, coalesce(sum({extended}), 0)::bigint, sum(extend_time), "
           "coalesce(sum({writes}), 0)::bigint, coalesce(sum({written}), 0)::bigint, sum(write_time)")


def counters_query(version: int) -> str:
    """A query with %(pid)s::int whose row is extends, pages, ms, writes, pages, ms of temporary relations."""
    if version >= 180000:
        columns = COLUMNS.format(extends="extends", extended="extend_bytes / 8192", writes="writes", written="write_bytes / 8192")
        return f"SELECT {columns} FROM pg_stat_get_backend_io(%(pid)s::int) WHERE object = 'temp relation'"
    if version >= 160000:
        columns = COLUMNS.format(extends="extends", extended="extends", writes="writes", written="writes")
        return f"SELECT {columns} FROM pg_stat_io WHERE object = 'temp relation' AND backend_type = 'client backend' AND %(pid)s::int > 0"
    raise Unavailable("PostgreSQL 15 has no pg_stat_io", 'Use bpftrace as root, or EXPLAIN (ANALYZE, BUFFERS): "local written" counts extensions and writes.')


def read_counters(conn: psycopg.Connection, pid: int) -> tuple[int, int, float | None, int, int, float | None]:
    return conn.execute(counters_query(conn.info.server_version), {"pid": pid}).fetchone()


def difference(before: float | None, after: float | None) -> float | None:
    """What a counter grew by; None if it is unknown, or was reset in the meantime."""
    return None if before is None or after is None or after < before else after - before


def between(query: str, before: tuple, after: tuple, timed: bool) -> Statement:
    """What happened between two readings of the counters."""
    n = [difference(then or 0, now or 0) for then, now in zip(before, after)]
    us = [1000 * n[i] if timed and n[i] is not None else None for i in (2, 5)]
    return Statement(query, n[0], n[1], us[0], n[3], n[4], us[1])


@dataclass
class Look:
    """What was counted until a moment, of what can be seen; None where it cannot."""

    io: tuple | None = None
    #: Calls that wrote something to any file, and their bytes.
    written: tuple[int, int] | None = None
    chunks: int | None = None


class Counters:
    """What can be seen of a session without probes; `blind` says what cannot."""

    def __init__(self, conn: psycopg.Connection, pid: int):
        self.conn, self.pid = conn, pid
        self.blind: list[str] = []
        version = conn.info.server_version
        try:
            self.query: str | None = counters_query(version)
        except Unavailable:
            self.query = None
        self.process: Path | None = None
        if self.query is None:
            self.process = self._process_io()
            self.blind.append(
                "extensions of files, and which of the writes are to tables"
                if self.process
                else "extensions and writes (PostgreSQL 15 counts none, and the process is not on this machine or is another user's)"
            )
        elif version < 180000:
            self.blind.append("which of all client sessions did it")
        self.timed = self.query is not None and conn.execute("SELECT current_setting('track_io_timing')::boolean").fetchone()[0]
        if not self.timed:
            self.blind.append("times" + (" (track_io_timing is off)" if self.query else ""))
        self.stores = conn.execute("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'appendable_bytea')").fetchone()[0]
        self.blind.append("which session appended, and bytes" if self.stores else "appends (appendable_bytea is not in this database)")
        self.blind.append("shares of temporary buffers but by the workers that are met")
        self.blind.append("fast loads")

    def _process_io(self) -> Path | None:
        """The kernel's counters of the process, if it is a server's on this machine that we may look at."""
        folder = Path(f"/proc/{self.pid}")
        try:
            if not (folder / "comm").read_text().startswith("postgres"):
                return None
            (folder / "io").read_text()
        except OSError:
            return None
        return folder / "io"

    def buffers_shared(self) -> int | None:
        """Bytes of temporary buffers in memory that workers can open, 0 if there are none; None if that cannot be seen."""
        try:
            maps = Path(f"/proc/{self.pid}/maps").read_text()
        except OSError:
            return None
        return sum(int(end, 16) - int(start, 16) for start, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*/memfd:parallel_temp", maps, re.M))

    def look(self) -> Look:
        found = Look()
        if self.query is not None:
            found.io = self.conn.execute(self.query, {"pid": self.pid}).fetchone()
        if self.process is not None:
            try:
                io = dict(line.split(": ") for line in self.process.read_text().splitlines())
                found.written = int(io["syscw"]), int(io["wchar"])
            except OSError:
                pass
        if self.stores:
            found.chunks = int(
                self.conn.execute(
                    "SELECT coalesce(sum(n_tup_ins), 0) FROM pg_stat_all_tables WHERE schemaname = 'appendable_store' AND relname <> 'stores'"
                ).fetchone()[0]
            )
        return found

    def between(self, query: str, before: Look, after: Look, workers: int) -> Statement:
        """The events between two samples."""
        if before.io is not None and after.io is not None:
            found = between(query, before.io, after.io, self.timed)
        else:
            found = Statement(query, extends=None, extended_pages=None, writes=None, written_pages=None)
            if before.written is not None and after.written is not None:
                found.writes, found.written_pages = after.written[0] - before.written[0], (after.written[1] - before.written[1]) // 8192
        found.chunks = difference(before.chunks, after.chunks)
        found.workers = workers
        return found


def watch_counters(conn: psycopg.Connection, pid: int, interval: float = 0.05, counters: Counters | None = None) -> Iterator[Statement]:
    """Statements of a session as its counters show them; the server adds them up when a session is idle, at most once a second.

    Statements that end within one such second come together.
    """
    counters = counters or Counters(conn, pid)
    before, pending, workers = counters.look(), [], 0
    seen = conn.execute("SELECT query_start FROM pg_stat_activity WHERE pid = %s::int AND state LIKE 'idle%%'", (pid,)).fetchone()
    seen = seen[0] if seen else None
    ended = 0.0
    while True:
        row = conn.execute(
            "SELECT query_start, state, query, (SELECT count(*) FROM pg_stat_activity w WHERE w.leader_pid = a.pid) FROM pg_stat_activity a WHERE pid = "
            "%s::int",
            (pid,),
        ).fetchone()
        if row is None:
            return
        start, state, query, now = row
        workers = max(workers, now)
        if start != seen and state is not None and state.startswith("idle") and start is not None:
            seen, ended = start, time.monotonic()
            pending.append(query)
        if pending:
            after = counters.look()
            if after != before or time.monotonic() - ended > QUIET_SECONDS:
                yield counters.between("; ".join(pending), before, after, workers)
                before, pending, workers = after, [], 0
        time.sleep(interval)
