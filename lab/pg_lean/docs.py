"""Figures and pictures of the documents, drawn from the results that the repository keeps, so that none is written by hand.

results/<major>/<benchmark>/ holds result.json (without raw rows) and the raw rows,
compressed (raw.csv.xz), of the last full run on that version.  A page has blocks

    <!-- figures: temp -->                       headlines and all tables of a benchmark, every version
    <!-- figures: append, One byte -->           only the tables whose title begins so
    <!-- figures: front -->                      the rows of FRONT, newest version
    <!-- figures: answers -->                    the questions of docs/performance/ with their answers
    <!-- figures: streams, compare -->           the tables of results/streams/compare-<major>.txt, which streams/test/run.sh writes
    <!-- /figures -->

whose lines between are replaced.  The pages of docs/performance/, one per question,
are written as a whole (questions.py).  `pg-lean docs` writes, `--check` only compares.
"""

from __future__ import annotations

import json
import lzma
import re
import textwrap
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from pg_lean import questions
from pg_lean.measure import to_json
from pg_lean.paths import BUILD, TOP
from pg_lean.result import Headline, Note, Result, Table, format_cost, format_value, is_number

RESULTS = TOP / "results"
BLOCK = re.compile(r"(<!-- figures: (?P<name>[\w-]+)(?:, (?P<title>[^>]*?))? -->\n).*?(<!-- /figures -->)", re.S)
#: Benchmarks of the pictures: the page's, in the order of its story.
PICTURES = {
    TOP / "docs" / "pg_lean": ("analytics", "temp", "append", "explain", "extend"),
    TOP / "parallel_temp" / "docs" / "parallel_temp": ("analytics", "temp", "extend", "flush"),
    TOP / "appendable_bytea" / "docs" / "appendable_bytea": ("append",),
    TOP / "light_explain" / "docs" / "light_explain": ("explain", "profile"),
}
COLORS = {"light": {"ink": "#16181d", "ink2": "#565c66", "stock": "#9aa1ab", "lean": "#1f6feb", "page": "#ffffff"},
          "dark": {"ink": "#e7e9ec", "ink2": "#a4abb6", "stock": "#7d8590", "lean": "#6ca8ff", "page": "#14161a"}}


def pages() -> list[Path]:
    """Every document of the repository that is not a template or a result."""
    return sorted({
        path
        for pattern in ("*.md", "docs/*.md", "docs/decisions/*.md", "docs/performance/*.md", "*/README.md", "*/*/README.md", "*/docs/*.md")
        for path in TOP.glob(pattern)
        if path.relative_to(TOP).parts[0] not in ("build", "results") and not any(part.startswith(".") for part in path.relative_to(TOP).parts)
    })


def kept(name: str) -> Iterator[tuple[str, Result]]:
    """The kept results of a benchmark, newest server first."""
    for folder in sorted((path.parent for path in RESULTS.glob(f"*/{name}/result.json")), key=lambda folder: -int(folder.parent.name)):
        yield folder.parent.name, Result.load(folder)


def kept_together(names: Iterable[str]) -> dict[str, Result]:
    """A kept result of each benchmark: of the newest server on which all were measured; if there is none, of the newest of each."""
    found = {name: dict(kept(name)) for name in names}
    found = {name: results for name, results in found.items() if results}
    common = set.intersection(*map(set, found.values())) if found else set()
    return {name: results[max(common or results, key=int)] for name, results in found.items()}


def keep(build: Path = BUILD) -> list[Path]:
    """Take the full results of build/bench into results/; not those of quick, failed and interrupted runs, or of code that was not committed."""
    taken = []
    for path in sorted(build.glob("bench/*/result.json")):
        result = Result.load(path.parent)
        major = re.match(r"PostgreSQL (\d+)", result.machine.get("server", ""))
        if result.kind or not major or str(result.machine.get("pg_lean", "")).endswith("-dirty"):
            continue
        folder = RESULTS / major.group(1) / result.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(json.dumps({**result.as_dict(), "raw": []}, default=to_json, indent=1) + "\n")
        (folder / "raw.csv.xz").write_bytes(lzma.compress((path.parent / "raw.csv").read_bytes(), preset=9))
        taken.append(folder)
    return taken


def drawn() -> dict[Path, str]:
    """Every page and picture as the kept results give it."""
    found = {page: BLOCK.sub(lambda block: block.group(1) + figures(block["name"], block["title"]) + block.group(4), page.read_text()) for page in pages()}
    found = {page: text for page, text in found.items() if BLOCK.search(text)}
    performance = TOP / "docs" / "performance"
    if performance.is_dir():
        found |= questions.pages(performance, kept, caption_text)
    for path, names in PICTURES.items():
        most = 1 if path.name == "pg_lean" else 3
        headlines = [headline for result in kept_together(names).values() for headline in result.headlines[:most]]
        for scheme in COLORS:
            if headlines:
                found[path.with_name(f"{path.name}-{scheme}.svg")] = picture(headlines, scheme)
    return found


def different() -> list[Path]:
    """Pages and pictures that are not what the results give."""
    return [path for path, text in drawn().items() if not path.exists() or path.read_text() != text]


def write() -> list[Path]:
    changed = different()
    for path in changed:
        text = drawn()[path]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return changed


# -- blocks --------------------------------------------------------------------


def figures(name: str, title: str | None = None) -> str:
    """The lines of one block."""
    if name == "front":
        return front()
    if name == "answers":
        return "\n" + questions.answers(kept) + "\n\n"
    if name == "streams":
        return "\n" + "\n\n".join(printed(path) for path in sorted(RESULTS.glob(f"streams/{title}-*.txt"), reverse=True)) + "\n\n"
    parts = []
    for _, result in kept(name):
        blocks = [block for block in result.blocks if isinstance(block, (Table, Note)) and (title is None or block.title.startswith(title))]
        if blocks or title is None:
            parts += [caption(result), *([headline_table([("", result)])] if title is None and result.headlines else []), *map(markdown, blocks)]
    return "\n" + "\n\n".join(parts or [f"*Not measured yet: `make bench-{name}` measures it on your machine.*"]) + "\n\n"


def printed(path: Path) -> str:
    """The tables of a text result, after the lines of its head: date, commit, server and machine."""
    text = path.read_text()
    about = dict(re.findall(r"^(date|commit|server|machine) +(.*)$", text, re.M))
    server = re.sub(r".*\(PostgreSQL\) (\S+).*", r"PostgreSQL \1", about["server"])
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    return f"{server}, {about['machine']}, {about['date']}, commit {about['commit']}:\n\n" + "\n".join(tables).rstrip()


#: Rows of the front page: benchmark and number of its headline, one for each question that a visitor asks first.
FRONT = (("analytics", 0), ("temp", 0), ("append", 0), ("runlog", 0), ("explain", 0), ("extend", 1), ("fill", 0))
MARKS = "¹²³⁴⁵⁶⁷"

#: The next best way on stock PostgreSQL, if a benchmark measures one: its name, the beginning of the table's title, the row's first cells and the column.
NEXT_BEST = {
    "analytics": ("`UNLOGGED`", "All 22 together, scale 0.3", "stock unlogged", "ratio", "of stock"),
    "temp": ("`UNLOGGED`", "Milliseconds", "count", "time | stock unlogged", "ms"),
    "append": ("chunk rows", "One byte appended to 100 MB", "chunk rows", "µs", "µs"),
    "runlog": ("chunk rows", "Closed loop: ", "chunk rows", "ms a line", "ms"),
    "explain": ("`TIMING OFF`", "Milliseconds, and times the plain query", "count(*) of 1,000,000 rows", "core, TIMING OFF ms", "ms"),
    "extend": ("`UNLOGGED`", "Time in ms", "INSERT ... SELECT, does not fit, default", "stock, UNLOGGED", "ms"),
    "fill": ("`UNLOGGED`", "Time in ms", "INSERT ... SELECT, hash join", "stock, UNLOGGED", "ms"),
}


def next_best(name: str, result: Result) -> str:
    """The time of the next best way on stock PostgreSQL with its name; empty if none was measured."""
    way, title, first, column, unit = NEXT_BEST.get(name, ("", "", "", "", ""))
    for block in result.blocks:
        if isinstance(block, Table) and way and block.title.startswith(title) and column in block.columns:
            for row in block.rows:
                if ", ".join(map(str, row[:first.count(", ") + 1])) == first:
                    cell = row[list(block.columns).index(column)]
                    return f"{format_cost(cell['median'] if isinstance(cell, dict) else float(getattr(cell, 'median', cell)), unit)} ({way})"
    return ""


def front() -> str:
    """One headline of each benchmark of FRONT, from the newest server that has all of them; a mark leads from a row to its caption, if there are several."""
    together = kept_together(name for name, _ in FRONT)
    found = [(name, together[name], together[name].headlines[number]) for name, number in FRONT
             if name in together and number < len(together[name].headlines)]
    runs = sorted({circumstances(result) for _, result, _ in found}, reverse=True)
    lines = ["| | stock | next best on stock | pg_lean | times as fast as stock | runs | measured by |", "|---|--:|--:|--:|--:|--:|---|"]
    for name, result, headline in found:
        mark = MARKS[runs.index(circumstances(result))] if len(runs) > 1 else ""
        lines.append(headline_row(headline, f"{headline.ratio.n}{mark}", name, after_stock=[next_best(name, result) or "not measured"]))
    captions = []
    for mark, run in zip(MARKS, runs):
        results = [result for _, result, _ in found if circumstances(result) == run]
        captions.append(textwrap.fill((f"{mark} " if len(runs) > 1 else "") + caption_text(*results), 200, break_on_hyphens=False))
    return "\n" + "\n".join(lines) + "\n\n" + "  \n".join(captions) + "\n\n"


def circumstances(result: Result) -> tuple[Any, ...]:
    """What results have in common that one caption speaks of: server, machine, commit and effort."""
    machine = result.machine
    return tuple(str(machine.get(name)) for name in ("server", "processor", "processors", "virtual_machine", "filesystem", "pg_lean")) + (
        result.quick,
        result.effort,
    )


def headline_row(headline: Headline, *further: str, after_stock: Sequence[str] = ()) -> str:
    """A row of a table: what, stock's cost, further cells, pg_lean's cost, times as fast with the interval of the repetitions, and the remaining cells."""
    (_, stock), (_, lean) = headline.bars[0], headline.bars[-1]
    ratio = f"**{headline.figure}**" + (f" ({headline.interval})" if headline.interval else "")
    *runs, name = further
    return (
        "| "
        + " | ".join([headline.what, format_cost(stock, headline.unit), *after_stock, format_cost(lean, headline.unit), ratio, *runs, f"`make bench-{name}`"])
        + " |"
    )


def headline_table(results: list[tuple[str, Result]]) -> str:
    lines = ["| | stock | pg_lean | | runs | measured by |", "|---|--:|--:|--:|--:|---|"]
    lines += [headline_row(headline, str(headline.ratio.n), name or result.name) for name, result in results for headline in result.headlines]
    return "\n".join(lines)


def caption(*results: Result) -> str:
    """caption_text() in lines."""
    return textwrap.fill(caption_text(*results), 100, break_on_hyphens=False)


def caption_text(*results: Result) -> str:
    """Where and when results of the same circumstances were measured, and what kind of runs they were: of several, their days and the most that was stolen."""
    result, machine = results[0], results[0].machine
    server = " ".join(str(machine.get("server", "PostgreSQL")).split()[:2])
    where = ", ".join(
        filter(
            None,
            [
                machine.get("processor"),
                f"{machine.get('processors', '?')} processors",
                "virtual machine" if machine.get("virtual_machine") else "",
                machine.get("filesystem"),
            ],
        )
    )
    times = sorted({str(each.machine.get("measured", "")) for each in results})
    when = times[0] if len(times) == 1 else " to ".join(dict.fromkeys((times[0].split()[0], times[-1].split()[0])))
    stolen = max(each.machine.get("stolen") or 0 for each in results)
    return (f"*{server}; {where}; {when}, pg_lean {machine.get('pg_lean', '')}"
            + ((f"; the host gave others {'up to ' if len(results) > 1 else ''}{stolen:.0%} of the processor time wanted") if stolen >= 0.005 else "")
            + ("; a quick run: few repetitions" if result.quick else f"; {result.effort:.0%} of a full run's repetitions" if result.effort < 1 else "")
            + ".*")


def markdown(block: Table | Note) -> str:
    if isinstance(block, Note):
        return textwrap.fill((f"**{block.title}.** " if block.title else "") + block.text, 100, break_on_hyphens=False, break_long_words=False)
    numeric = [any(is_number(row[index]) for row in block.rows) for index in range(len(block.columns))]

    def row(cells: Any) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    lines = [row(str(column).replace(" | ", ": ") for column in block.columns), "|" + "|".join("--:" if number else "---" for number in numeric) + "|"]
    lines += [row(format_value(cell) for cell in cells) for cells in block.rows]
    note = "\n\n" + textwrap.fill(block.note, 100, break_on_hyphens=False, break_long_words=False) if block.note else ""
    return textwrap.fill(f"**{block.title}**", 100, break_on_hyphens=False) + "\n\n" + "\n".join(lines) + note


# -- pictures ------------------------------------------------------------------

WIDTH, ROW, LEFT, BARS = 860, 84, 24, 330


def picture(headlines: list[Headline], scheme: str) -> str:
    """One row for each headline: what, the ratio in large letters, and bars of what each way takes."""
    color = COLORS[scheme]
    height = 24 + ROW * len(headlines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
           f'font-family="system-ui, -apple-system, \'Segoe UI\', Roboto, \'DejaVu Sans\', sans-serif">',
           f"<title>{escape('; '.join(f'{headline.what}: {headline.figure}' for headline in headlines))}</title>",
           f'<rect width="{WIDTH}" height="{height}" rx="10" fill="{color["page"]}"/>']

    def text(x: float, y: float, words: str, size: int, fill: str, weight: int = 400, anchor: str = "start") -> str:
        return f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{color[fill]}">{escape(words)}</text>'

    for number, headline in enumerate(headlines):
        top = 18 + ROW * number
        for line, words in enumerate(textwrap.wrap(headline.what, 38)[:3]):
            out.append(text(LEFT, top + 20 + 17 * line, words, 14, "ink"))
        out.append(text(BARS + 105, top + 42, headline.figure, 30 if len(headline.figure) < 8 else 17, "lean", 700, "end"))
        bars = [headline.bars[0], headline.bars[-1]]
        most = max(value for _, value in bars)
        for line, ((name, value), fill) in enumerate(zip(bars, ("stock", "lean"))):
            y, length = top + 14 + 27 * line, max(2.0, 235 * value / most)
            out.append(f'<rect x="{BARS + 125}" y="{y:g}" width="{length:.1f}" height="18" rx="2" fill="{color[fill]}"/>')
            out.append(text(BARS + 133 + length, y + 14, f"{format_cost(value, headline.unit)}  {name}", 13, "ink2"))
    return "\n".join([*out, "</svg>"]) + "\n"
