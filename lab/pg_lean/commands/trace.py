"""pg-lean trace: what each statement of a running session does to files."""

from __future__ import annotations

import contextlib
from typing import Iterable, Optional

import typer
from rich.console import Console

from pg_lean import trace as tracing
from pg_lean.cluster import UserServer
from pg_lean.errors import LabError, Unavailable


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def trace(
        pid: int = typer.Argument(..., help="Process of the session: SELECT pg_backend_pid() in it."),
        dsn: Optional[str] = typer.Option(None, "--dsn", help="The session's server, for --method counters."),
        method: str = typer.Option("auto", "--method", help="bpftrace, counters (of the server and the process, needs --dsn), or auto: the first that works."),
        count: Optional[int] = typer.Option(None, "--count", min=1, help="End after this many statements; without it, Ctrl-C ends the trace."),
    ) -> None:
        """Print file extensions and writes, appends, shares and loads of each statement of one session, as it ends."""
        if method not in ("auto", "bpftrace", "counters"):
            raise LabError(f'--method is "auto", "bpftrace" or "counters", not "{method}"')
        if method == "counters" and not dsn:
            raise LabError("the counters come from the server", "Name it with --dsn.")
        if method != "counters":
            try:
                with contextlib.suppress(KeyboardInterrupt), tracing.KernelTrace(pid) as kernel:
                    console.print(f"tracing process {pid} with bpftrace; Ctrl-C ends it", highlight=False)
                    show(kernel.statements(), count, console)
                return
            except Unavailable as reason:
                if method == "bpftrace" or not dsn:
                    raise LabError(str(reason), reason.hint) from None
                console.print(f"{reason}: using the server's counters", highlight=False)
        with contextlib.suppress(KeyboardInterrupt), UserServer(dsn).connect() as conn:
            whose = "that session" if conn.info.server_version >= 180000 else "all client sessions together"
            if conn.execute("SELECT FROM pg_stat_activity WHERE pid = %s::int", (pid,)).fetchone() is None:
                raise LabError(f"the server has no process {pid}")
            counters = tracing.Counters(conn, pid)
            console.print(f"counters of {whose}, up to a second late; Ctrl-C ends it", highlight=False)
            console.print("not seen without probes: " + "; ".join(counters.blind), highlight=False)
            shared = counters.buffers_shared()
            if shared:
                console.print(f"its temporary buffers are in memory that workers share: {shared >> 20:,} MB", highlight=False)
            show(tracing.watch_counters(conn, pid, counters=counters), count, console)


def show(statements: Iterable[tracing.Statement], count: int | None, console: Console) -> None:
    """A few lines for each statement: extensions and writes always, other counters of the source if they are not zero."""
    for number, statement in enumerate(statements, 1):
        first = " ".join(statement.query.split())
        console.print(f"\n{first[:140]}{'...' if len(first) > 140 else ''}", highlight=False, markup=False)
        lines = [
            line("extend", statement.extends, statement.extended_pages, statement.extend_us, "pages"),
            line("write", statement.writes, statement.written_pages, statement.write_us, "pages"),
        ]
        if statement.appends:
            lines.append(line("append", statement.appends, statement.appended_bytes, statement.append_us, "bytes"))
        if statement.chunks:
            lines.append(line("append", None, statement.chunks, None, "chunks"))
        if statement.shares:
            lines.append(line("share", statement.shares, None, statement.share_us, ""))
        if statement.loads:
            lines.append(line("load", statement.loads, None, statement.load_us, ""))
        if statement.workers:
            lines.append(f"  workers seen: {statement.workers}")
        for text in lines:
            if text:
                console.print(text, highlight=False)
        share = statement.share()
        if share is not None:
            console.print(f"  of the statement's {statement.total_us:,.0f} us: {share:.1%} to extend and write", highlight=False)
        if count is not None and number >= count:
            return


def line(name: str, calls: int | None, amount: int | None, us: float | None, unit: str) -> str:
    """A line of figures; nothing if none is known."""
    parts = [f"count: {calls:8,}"] if calls is not None else []
    parts += [f"{unit}: {amount:9,}"] if amount is not None else []
    parts += [f"time: {us:12,.0f} us"] if us is not None else []
    return f"  {name:7} " + "  ".join(parts) if parts else ""
