"""Results on the terminal."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table as RichTable

from pg_lean.result import Flame, Listing, Note, Result, SideBySide, Table, Waits, format_cost, format_parts, format_value, is_number


def end_quietly() -> None:
    """The reader of standard output has enough: no words, and the status that a shell gives for SIGPIPE, as cat has."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(141)


def show(result: Result, console: Console) -> None:
    """Print tables, notes and checks; plots, plans and folded listings are for the report."""
    console.print()
    console.rule(f"[bold]{escape(result.title)}", align="left")
    if not result.whole:
        console.print(missing(result), highlight=False)
        return
    if result.caution:
        console.print(f"[yellow]{result.caution}[/]", highlight=False)
    console.print(escape(result.summary), highlight=False)
    for block in result.blocks:
        if isinstance(block, Table):
            show_table(block, console)
        elif isinstance(block, Note):
            console.print((f"[bold]{escape(block.title)}:[/] " if block.title else "") + escape(block.text), highlight=False)
        elif isinstance(block, Listing) and not block.folded:
            console.print(Panel(escape(block.text), title=escape(block.title), title_align="left"), highlight=False)
        elif isinstance(block, Waits):
            show_table(block.table(), console)
        elif isinstance(block, (SideBySide, Flame)):
            console.print(f"[dim]{escape(block.title)}: see the report[/]", highlight=False)
    for check in result.checks:
        mark = "[green]met    [/]" if check.met else "[red]not met[/]"
        unit = f" {check.unit}" if check.unit else ""
        console.print(f"{mark} {escape(check.what)}: {check.shown}"
                      f" (target {check.relation} {check.target:,g}{unit})", highlight=False)


def missing(result: Result) -> str:
    """Why there are no figures."""
    if result.interrupted:
        return "[yellow]interrupted[/]"
    return f"[red]failed:[/] {escape(result.failed)}" if result.failed else f"[yellow]not measured:[/] {escape(result.unavailable)}"


def glance(results: list[Result], console: Console) -> None:
    """One table of several results: what each way takes, and how many times stock's cost is pg_lean's."""
    shown = RichTable(title="At a glance", title_justify="left", title_style="bold", pad_edge=False, header_style="bold")
    for title, justify in (("", "left"), ("stock", "right"), ("pg_lean", "right"), ("", "right"), ("", "left")):
        shown.add_column(title, justify=justify)
    for result in results:
        if not result.whole:
            shown.add_row(escape(result.title), "", "", "", missing(result))
        for headline in result.headlines:
            stock, lean = headline.bars[0][1], headline.bars[-1][1]
            shown.add_row(escape(headline.what), format_cost(stock, headline.unit), format_cost(lean, headline.unit),
                          f"[{'yellow' if headline.loud else 'bold'}]{headline.figure}[/]", escape(headline.explanation))
        if result.whole and not result.headlines:
            shown.add_row(escape(result.title), "", "", "", escape(result.summary))
    console.print()
    console.print(shown)


def show_table(table: Table, console: Console) -> None:
    """A table; its intervals are left to the report where the terminal is too narrow for them."""
    shown = _columns(table, format_value, table.note)
    if Measurement.get(console, console.options.update(max_width=1000), shown).maximum > console.width:
        shown = _columns(table, lambda cell: format_parts(cell)[0], table.note)
    console.print()
    console.print(shown)


def _columns(table: Table, cell_text: Callable[[Any], str], note: str) -> RichTable:
    shown = RichTable(title=escape(table.title), title_justify="left", title_style="bold", caption=escape(note) or None,
                      caption_justify="left", header_style="bold", pad_edge=False)
    for index, column in enumerate(table.columns):
        numeric = any(is_number(row[index]) for row in table.rows)
        shown.add_column(escape(str(column).replace(" | ", "\n")), justify="right" if numeric else "left")
    for row in table.rows:
        shown.add_row(*(escape(cell_text(cell)) for cell in row))
    return shown
