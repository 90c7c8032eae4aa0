"""pg-lean waits: what plan nodes waited for in a period, from light_explain's history of waits, also before a restart."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Optional, Sequence

import typer
from rich.console import Console

from pg_lean import report, terminal, waits as sampled
from pg_lean.demo.waits import node_of
from pg_lean.errors import LabError
from pg_lean.measure import Measurements, to_json
from pg_lean.result import Result, Table, Waits
from pg_lean.store import Store

#: Lengths of the rows of the course, in minutes, and how many rows it has at most.
LENGTHS, MOST = (1, 5, 15, 60, 360, 1440), 48


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def waits(dsn: str = typer.Option(..., "--dsn", help="The server, with light_explain's sampler; a role with pg_monitor sees all statements."),
              minutes: Optional[float] = typer.Option(None, "--minutes", min=0, help="The last minutes; one hour if no period is given."),
              since: Optional[str] = typer.Option(None, "--since", help="A period that begins at this time, such as 'yesterday 22:00'."),
              until: Optional[str] = typer.Option(None, "--until", help="... and ends at this time."),
              queryid: Optional[str] = typer.Option(None, "--queryid", help="Only this statement."),
              limit: int = typer.Option(100, "--limit", min=1, help="Combinations of statement, node and wait to show, the most frequent ones."),
              output: Optional[Path] = typer.Option(None, "--output", "-o", dir_okay=False, help="Write a page (HTML) instead."),
              as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
        """Show what the server waited for in a period of the last day, by query, node and time."""
        with Store(dsn) as store:
            period = store.period(60.0 if minutes is None and since is None and until is None else minutes, since, until)
            rows = store.waits(queryid, limit, period)
            course = sampled.course(store.conn, store.schema, period, queryid)
        if as_json:
            print(json.dumps({"since": period[0], "until": period[1], "waits": rows, "course": course}, default=to_json_or_text, indent=1))
            return
        if not rows:
            raise LabError("there are no samples of this period",
                           "The history has those of the last light_explain.waits_buckets intervals; a role without pg_monitor sees its own.")
        result = of_period(rows, course, period)
        if output is None:
            terminal.show(result, console)
            return
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(report.render([], [], result))
        console.print(output.resolve().as_uri(), highlight=False, soft_wrap=True)


def to_json_or_text(value: object) -> object:
    """A time, or what results contain."""
    return value.isoformat() if isinstance(value, datetime) else to_json(value)


def of_period(rows: Sequence[dict[str, Any]], course: Sequence[dict[str, Any]], period: sampled.Period) -> Result:
    """The page "What the server waited for": by query and node, and in the course of the period."""
    named = [(" ".join((row["query"] or "statements that are not in the profile").split()), node_of(row), sampled.name_of(row), row["samples"]) for row in rows]
    total, shown = sum(sample["samples"] for sample in course), sum(row["samples"] for row in rows)
    frequent = "" if shown >= total else f" The most frequent combinations are shown, which have {shown / total:.0%} of the samples."
    seconds = sum(sample["seconds"] for sample in course)
    most = max(named, key=lambda row: (row[2] != sampled.CPU, row[3]))
    raw = Measurements()
    for sample in course:
        raw.add(sampled.name_of(sample), 0, sample["bucket_start"].isoformat(), samples=sample["samples"], seconds=sample["seconds"])
    ends = ["the oldest bucket" if period[0] == "-infinity" else period[0], "now" if period[1] == "infinity" else period[1]]
    return Result(
        title="What the server waited for, by query and node",
        summary=f"From {ends[0]} to {ends[1]} there are {total:,} samples, which represent {seconds:,.0f} seconds of sessions and workers. "
                f"The most frequent wait is {most[2]}, in `{most[1]}` of `{most[0]}`.",
        what="Samples of sessions and parallel workers that ran statements.",
        how="light_explain's sampler reads plan node and wait event of each process ten times a second by default, and adds them up by minute. "
            "A minute of which only a part is in the period is shown with all of its samples.",
        blocks=[Waits("Samples by query, plan node and wait", named,
                      "A bar is as long as the samples of its node, and its colors are what the node waited for; CPU means that there was no wait event."
                      + frequent),
                table_of(course)],
        name="waits", raw=raw)


def table_of(course: Sequence[dict[str, Any]]) -> Table:
    """The samples in the course of time: seconds, and the most frequent waits."""
    first, last = course[0]["bucket_start"], course[-1]["bucket_start"]
    length = next((minutes for minutes in LENGTHS if (last - first) / timedelta(minutes=minutes) < MOST), LENGTHS[-1])
    found: dict[datetime, dict[str, float]] = {}
    for sample in course:
        begin = sample["bucket_start"].astimezone()
        midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
        parts = found.setdefault(midnight + (begin - midnight) // timedelta(minutes=length) * timedelta(minutes=length), {})
        parts[sampled.name_of(sample)] = parts.get(sampled.name_of(sample), 0.0) + sample["seconds"]
    rows = []
    for begin, parts in sorted(found.items()):
        every = sum(parts.values())
        frequent = sorted(parts.items(), key=lambda item: -item[1])[:4]
        rows.append([f"{begin:%Y-%m-%d %H:%M}", float(every), ", ".join(f"{wait} {seconds / every:.0%}" for wait, seconds in frequent) if every else ""])
    return Table(f"In the course of time, {length} minute{'s' if length > 1 else ''} a row", ["from", "seconds of all sessions", "most of it"], rows,
                 "More seconds than a row is long means that several sessions ran statements at the same time.")
