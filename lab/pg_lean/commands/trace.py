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
        method: str = typer.Option("auto", "--method", help="bpftrace, counters (pg_stat_io, needs --dsn), or auto: the first that works."),
        count: Optional[int] = typer.Option(None, "--count", min=1, help="End after so many statements; otherwise Ctrl-C ends it."),
    ) -> None:
        """Print file extensions and writes of each statement of one session, as it ends."""
        if method not in ("auto", "bpftrace", "counters"):
            raise LabError(f'--method is "auto", "bpftrace" or "counters", not "{method}"')
        if method == "counters" and not dsn:
            raise LabError("the counters are asked of the server", "Name it with --dsn.")
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
            console.print(f"counters of {whose}, up to a second late; Ctrl-C ends it", highlight=False)
            show(tracing.watch_counters(conn, pid), count, console)


def show(statements: Iterable[tracing.Statement], count: int | None, console: Console) -> None:
    """A few lines for each statement."""
    for number, statement in enumerate(statements, 1):
        first = " ".join(statement.query.split())
        console.print(f"\n{first[:140]}{'...' if len(first) > 140 else ''}", highlight=False, markup=False)
        console.print(line("extend", statement.extends, statement.extended_pages, statement.extend_us), highlight=False)
        console.print(line("write", statement.writes, statement.written_pages, statement.write_us), highlight=False)
        share = statement.share()
        if share is not None:
            console.print(f"  of the statement's {statement.total_us:,.0f} us: {share:.1%}", highlight=False)
        if count is not None and number >= count:
            return


def line(name: str, calls: int, pages: int, us: float | None) -> str:
    return f"  {name:7} count: {calls:8,}  pages: {pages:9,}" + (f"  time: {us:12,.0f} us" if us is not None else "")
