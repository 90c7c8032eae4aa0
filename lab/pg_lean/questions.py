"""Pages of docs/performance/: one per question, with the answer first, few tables, and versions as columns; drawn from results/ by docs.py."""

from __future__ import annotations

import statistics
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

from pg_lean.measure import Estimate
from pg_lean.result import Headline, Result, Table, format_cost, format_value, is_number


@dataclass
class Columns:
    """Some columns of the kept tables of a benchmark whose title begins so, next to each other for all versions; without a title, its headlines."""

    benchmark: str
    title: str = ""
    heading: str = ""
    key: Sequence[str] = ()
    #: Column of the table, and its name on the page.
    values: Sequence[tuple[str, str]] = ()


@dataclass
class Question:
    name: str
    question: str
    #: Makes the answer, one sentence, of the newest result of each benchmark.
    answer: Callable[[dict[str, Result]], str]
    tables: Sequence[Columns]
    #: The page with all tables, from docs/performance/.
    details: str

    def benchmarks(self) -> list[str]:
        return list(dict.fromkeys(columns.benchmark for columns in self.tables))


def _fact(headline: Headline) -> str:
    (_, stock), (_, lean) = headline.bars[0], headline.bars[-1]
    unit = headline.unit.removesuffix(" a page")
    return f"{format_cost(lean, unit)} instead of {format_cost(stock, unit)}"


def _number(cell: Any) -> float:
    """A figure, or the median of an estimate as it was measured or as it is kept."""
    return float(cell["median"] if isinstance(cell, dict) else cell.median if isinstance(cell, Estimate) else cell)


def _column(result: Result, title: str, column: str, first: str | None = None) -> list[float]:
    """The figures of a column of the tables whose title begins so; of the rows with that first cell, or of all."""
    return [
        _number(cell)
        for block in result.blocks
        if isinstance(block, Table) and block.title.startswith(title) and column in block.columns
        for row in block.rows
        if first in (None, row[0]) and is_number(cell := row[list(block.columns).index(column)])
    ]


def _median(result: Result, title: str, column: str, first: str | None = None) -> float:
    return statistics.median(_column(result, title, column, first) or [float("nan")])


QUESTIONS = (
    Question(
        "parallel-queries", "Are queries over temporary tables faster with workers?",
        lambda of: f"Yes: with one worker, counting 5,000,000 rows takes {_fact(of['temp'].headlines[0])}, and 22 analytic queries together take "
        f"{_fact(of['analytics'].headlines[0])}.",
        (
            Columns("temp"),
            Columns("analytics"),
            Columns("temp", "Milliseconds", "Queries over 5,000,000 rows, milliseconds", ["query"],
                    [("time | stock serial", "stock"), ("time | stock unlogged", "stock, `UNLOGGED`"), ("time | pg_lean share", "pg_lean")]),
            Columns("temp", "Statements with nothing to gain", "Statements that cannot gain: time with the library over time without", ["load"],
                    [("ratio", "ratio")]),
        ),
        "../../parallel_temp/docs/measured.md#queries",
    ),
    Question(
        "chosen-plans", "Does the planner choose workers only where they are faster?",
        lambda of: f"Mostly: the chosen plan takes more than 1.1 times as long as the fastest one in "
        f"{sum(ratio > 1.1 for ratio in _column(of['sweep'], 'All cells', 'chosen / faster'))} of "
        f"{len(_column(of['sweep'], 'All cells', 'chosen / faster'))} cells (sizes, selectivities, joins), by medians.",
        (
            Columns("temp", "Which plan is chosen", "The chosen plan by size of the table", ["rows"],
                    [("chosen", "chosen"), ("serial over parallel", "serial / parallel"), ("lost by the choice", "lost")]),
            Columns("sweep", "The cells in which the chosen plan loses most", "Cells in which the chosen plan loses most: its time over the faster one's",
                    ["kind", "rows", "part", "in buffers"], [("chosen / faster", "chosen / faster")]),
        ),
        "../../parallel_temp/docs/measured.md#whether-the-chosen-plan-is-the-faster-one",
    ),
    Question(
        "loads", "Are temporary tables filled faster?",
        lambda of: f"Yes: INSERT ... SELECT of a table of 496 MB takes {_fact(of['extend'].headlines[1])}, and of a hash join "
        f"{_fact(of['fill'].headlines[0])}.",
        (
            Columns("extend"),
            Columns("fill"),
            Columns("fill", "Time over that of others", "Tables filled from queries: pg_lean's time over stock's", ["statement", "from"],
                    [("pg_lean | over stock", "pg_lean / stock")]),
            Columns("extend", "Time in ms", "Statements that fill a table: pg_lean's time over stock's", ["statement", "table", "place"],
                    [("pg_lean / stock", "pg_lean / stock")]),
        ),
        "../../parallel_temp/docs/measured.md#loads",
    ),
    Question(
        "statistics", "How good are plans for temporary tables that were not analyzed?",
        lambda of: "With `parallel_temp.statistics` estimates are wrong by a factor of "
        f"{_median(of['gather'], 'How wrong estimates are', 'gathered'):.3g} in the median, instead of "
        f"{_median(of['gather'], 'How wrong estimates are', 'guessed by the server'):.3g} without statistics.",
        (
            Columns("gather", "How wrong estimates are", "Errors of the estimated number of rows, as a factor", ["condition"],
                    [("guessed by the server", "stock"), ("gathered", "pg_lean"), ("ANALYZE", "ANALYZE")]),
            Columns("gather", "What looking costs", "CPU time of the first plan over that of filling the table", ["rows"],
                    [("of what filling cost | one column", "one column"), ("of what filling cost | ANALYZE", "ANALYZE")]),
        ),
        "../../parallel_temp/docs/measured.md#statistics",
    ),
    Question(
        "flushes", "What does it cost to write dirty temporary buffers?",
        lambda of: f"A page that was dirtied in file order takes {_fact(of['flush'].headlines[0])}, and in random order "
        f"{_fact(of['flush'].headlines[1])}.",
        (
            Columns("flush"),
            Columns("flush", "Microseconds a page", "Microseconds per page", ["size", "pages came in"],
                    [("one by one", "one by one"), ("sorted", "sorted"), ("pg_lean", "pg_lean")]),
        ),
        "../../parallel_temp/docs/measured.md#flushes",
    ),
    Question(
        "appends", "What does it cost to append to a large value?",
        lambda of: f"Appending one byte to 100 MB takes {_fact(of['append'].headlines[0])}; inserting a row into a chunk table takes "
        f"{_median(of['append'], 'One byte appended to 100 MB', 'µs', 'chunk rows'):.0f} µs.",
        (
            Columns("append"),
            Columns("append", "One byte appended to 100 MB", "One byte appended to 100 MB", ["method"], [("µs", "µs"), ("WAL bytes", "WAL bytes")]),
            Columns("append", "Microseconds of an append", "Microseconds of an append to a value of 100 MB", ["appended", "method"], [("to 100 MB", "µs")]),
            Columns("append", "A value grown from nothing", "A value grown from nothing, MB/s", ["stream"],
                    [("pg_lean", "pg_lean"), ("stock", "stock"), ("chunk rows", "chunk rows")]),
            Columns("append", "Milliseconds", "Reading and other statements, milliseconds", [""], [("pg_lean", "pg_lean"), ("stock", "stock")]),
        ),
        "../../appendable_bytea/docs/measured.md",
    ),
    Question(
        "growing-logs", "Can many sessions keep logs in columns?",
        lambda of: f"Yes: with 200 writers a line takes {_fact(of['runlog'].headlines[0])}, and "
        f"{_median(of['runlog'], 'Closed loop: ', 'ms a line', 'chunk rows'):.3g} ms in a chunk table written by hand.",
        (
            Columns("runlog"),
            Columns("runlog", "Closed loop: ", "200 writers, 150 lines each", ["kept as"],
                    [("lines a second", "lines/s"), ("WAL bytes a byte", "WAL per byte"), ("disk / live", "disk / live")]),
            Columns("runlog", "Finished logs", "Finished logs", ["kept as"],
                    [("disk / live", "disk / live"), ("read whole, ms", "read whole, ms"), ("slices, ms", "slices, ms")]),
        ),
        "../../appendable_bytea/docs/measured.md#logs-that-grow-line-by-line",
    ),
    Question(
        "applications", "What do applications gain that send the whole value again?",
        lambda of: f"{of['apps'].headlines[0].what[0].upper()}{of['apps'].headlines[0].what[1:]} writes {of['apps'].headlines[0].bars[-1][1]:,.0f} bytes of "
        f"WAL instead of {of['apps'].headlines[0].bars[0][1]:,.0f}, with the application's statements and one ALTER TABLE.",
        tuple(
            Columns("apps", title, title, ["application"], [("stock lz4", "stock lz4"), ("stock pglz", "stock pglz"), ("pg_lean", "pg_lean")])
            for title in ("Bytes of WAL of an event", "Bytes on disk after VACUUM", "Median time of an event, ms",
                          "99th percentile of the time of an event, ms", "CPU time of the server process")
        ),
        "../../appendable_bytea/docs/measured.md#applications",
    ),
    Question(
        "explain-overhead", "How much does EXPLAIN ANALYZE slow a query?",
        lambda of: f"EXPLAIN (ANALYZE, BUFFERS) of count(*) over 1,000,000 rows takes {_fact(of['explain'].headlines[0])}; the query alone takes "
        f"{format_cost(of['explain'].headlines[0].bars[1][1], 'ms')}.",
        (
            Columns("explain"),
            Columns("explain", "Milliseconds, and times the plain query", "Time over that of the plain query", ["query"],
                    [("core / plain", "stock"), ("light_explain / plain", "light_explain")]),
            Columns("explain", "Statements in a PL/pgSQL loop", "Statements in a PL/pgSQL loop, each measured by auto_explain: over plain", ["statement"],
                    [("core / plain", "stock"), ("light_explain / plain", "light_explain")]),
        ),
        "../../light_explain/docs/measured.md#explain-analyze-and-auto_explain",
    ),
    Question(
        "always-on", "What does it cost to keep the profile on and to watch a server?",
        lambda of: f"With the profile on a transaction takes {_median(of['profile'], 'Microseconds of a transaction', 'over off | profile'):.3f} of the time, "
        f"and with a screen that polls twice a second {_median(of['watched'], 'Processor time of a transaction', 'over unwatched | watched'):.3f}, "
        "as medians over the loads.",
        (
            Columns("profile", "Microseconds of a transaction", "A transaction with the profile on; the second column of a version is the noise", ["load"],
                    [("over off | profile", "profile / off"), ("over off | off again", "off / off")]),
            Columns("store", "Processor time of a transaction", "CPU time with samples, history and kept plans; the second column of a version is the noise",
                    ["load"], [("over profile | store", "store / profile"), ("over profile | profile again", "profile / profile")]),
            Columns("watched", "Processor time of a transaction", "CPU time of a transaction while a screen polls the server", ["load"],
                    [("over unwatched | watched", "watched / unwatched")]),
            Columns("progress", "Medians over the statements", "Error of the time left, percent of the true time left", [""],
                    [("at | 25%", "at 25 %"), ("at | 50%", "at 50 %"), ("at | 75%", "at 75 %")]),
        ),
        "../../light_explain/docs/measured.md#the-profile-always-on",
    ),
)


def _text_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _draw(heading: str, head: Sequence[str], rows: Sequence[Sequence[str]], keys: int) -> str:
    rule = "|" + "---|" * keys + "--:|" * (len(head) - keys)
    return "\n".join([*([f"**{heading}**", ""] if heading else []), _text_row(head), rule, *map(_text_row, rows)])


def _headlines(versions: Sequence[tuple[str, Result]]) -> str:
    """Headlines, a version a column; those of the newest version come first."""
    rows: dict[str, dict[str, str]] = {}
    for version, result in versions:
        for headline in result.headlines:
            interval = f" ({headline.interval})" if headline.interval else ""
            rows.setdefault(headline.what, {})[version] = f"{_fact(headline)}: **{headline.figure}**{interval}"
    columns = sorted({version for version, _ in versions}, key=int)
    return _draw("", ["", *columns], [[what, *(cells.get(version, "") for version in columns)] for what, cells in rows.items()], 1)


def _table(columns: Columns, versions: Sequence[tuple[str, Result]]) -> str:
    """The chosen columns of a table, for each version that has it; nothing if none has."""
    rows: dict[tuple[str, ...], dict[tuple[str, str], str]] = {}
    for version, result in versions:
        for block in result.blocks:
            if isinstance(block, Table) and block.title.startswith(columns.title) and set(columns.key) <= set(block.columns):
                place = {name: index for index, name in enumerate(block.columns)}
                for row in block.rows:
                    cells = rows.setdefault(tuple(format_value(row[place[name]]) for name in columns.key), {})
                    cells.update({(version, name): format_value(row[place[column]]) for column, name in columns.values if column in place})
                break
    heads = [(version, name) for version in sorted((version for version, _ in versions), key=int) for _, name in columns.values]
    heads = [head for head in heads if any(head in cells for cells in rows.values())]
    if not heads:
        return ""
    return _draw(columns.heading, [*columns.key, *(f"{version}: {name}" for version, name in heads)],
                 [[*key, *(cells.get(head, "") for head in heads)] for key, cells in rows.items()], len(columns.key))


def answer(question: Question, kept: Callable[[str], Any]) -> str:
    """The answer with the version that it was measured on, or the commands that measure it."""
    newest = {name: found[0] for name in question.benchmarks() if (found := list(kept(name)))}
    if len(newest) < len(question.benchmarks()):
        return "Not measured yet: " + ", ".join(f"`make bench-{name}`" for name in question.benchmarks()) + "."
    versions = sorted({version for version, _ in newest.values()}, key=int)
    return f"{question.answer({name: result for name, (_, result) in newest.items()})} (PostgreSQL {' and '.join(versions)}.)"


def page(question: Question, kept: Callable[[str], Any], caption: Callable[..., str]) -> str:
    """A page: question, answer, tables, the circumstances, and where to find more."""
    parts = [f"# {question.question}", _fill(answer(question, kept))]
    headlines = [found for columns in question.tables if not columns.title for found in kept(columns.benchmark)]
    parts += [_headlines(headlines)] if headlines else []
    parts += filter(None, (_table(columns, list(kept(columns.benchmark))) for columns in question.tables if columns.title))
    parts.append("Columns are major versions of PostgreSQL. Figures are medians, with the range of the repetitions in parentheses, from six of them on a 95 % "
                 "interval.\nThe commands measure the same on your machine: " + ", ".join(f"`make bench-{name}`" for name in question.benchmarks()) + f".\n"
                 f"[All tables]({question.details}).")
    parts += filter(None, ["\n".join(f"* {name}: {caption(result)}" for name in question.benchmarks() for _, result in kept(name))])
    return "\n\n".join(parts) + "\n"


def answers(kept: Callable[[str], Any]) -> str:
    """All questions with their answers."""
    return "\n".join(f"* [{question.question}]({question.name}.md) {answer(question, kept)}" for question in QUESTIONS)


def pages(folder: Path, kept: Callable[[str], Any], caption: Callable[..., str]) -> dict[Path, str]:
    return {folder / f"{question.name}.md": page(question, kept, caption) for question in QUESTIONS}


def _fill(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)
