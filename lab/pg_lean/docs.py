"""Figures and pictures of the documents, drawn from the results that the repository keeps, so that none is written by hand.

results/<major>/<benchmark>/ holds result.json (without raw rows) and the raw rows,
compressed (raw.csv.xz), of the last full run on that version.  A page has blocks

    <!-- figures: temp -->                       headlines and all tables of a benchmark, every version
    <!-- figures: append, One byte -->           only the tables whose title begins so
    <!-- figures: front -->                      the headlines of the benchmark front, newest version
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
#: Benchmarks of the pictures.
PICTURES = {
    TOP / "docs" / "pg_lean": ("front",),
    TOP / "parallel_temp" / "docs" / "parallel_temp": ("analytics", "temp", "extend", "flush"),
    TOP / "appendable_bytea" / "docs" / "appendable_bytea": ("append",),
    TOP / "light_explain" / "docs" / "light_explain": ("explain", "profile"),
}
#: Of the front page's headlines those of its picture.
FRONT_PICTURE = (0, 1, 2, 4, 5)
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
        shown = FRONT_PICTURE if names == ("front",) else range(3)
        headlines = [headline for result in kept_together(names).values() for number, headline in enumerate(result.headlines) if number in shown]
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


def front() -> str:
    """The headlines of the newest server, each with stock, the next best way on a stock server, and pg_lean."""
    _, result = next(kept("front"), ("", None))
    if result is None:
        return "\n*Not measured yet: `make bench-front` measures it on your machine.*\n\n"
    lines = ["| | stock | next best on stock | pg_lean | times as fast as stock | runs |", "|---|--:|--:|--:|--:|--:|"]
    for headline in result.headlines:
        way, cost = headline.bars[1]
        lines.append(headline_row(headline, str(headline.ratio.n), after_stock=[f"{format_cost(cost, headline.unit)} ({way})"]))
    return "\n" + "\n".join(lines) + "\n\n" + textwrap.fill(caption_text(result), 200, break_on_hyphens=False) + "\n\n"


def headline_row(headline: Headline, *further: str, after_stock: Sequence[str] = ()) -> str:
    """A row of a table: what, stock's cost, further cells, pg_lean's cost, times as fast with the interval of the repetitions, and the remaining cells."""
    (_, stock), (_, lean) = headline.bars[0], headline.bars[-1]
    ratio = f"**{headline.figure}**" + (f" ({headline.interval})" if headline.interval else "")
    return "| " + " | ".join([headline.what, format_cost(stock, headline.unit), *after_stock, format_cost(lean, headline.unit), ratio, *further]) + " |"


def headline_table(results: list[tuple[str, Result]]) -> str:
    lines = ["| | stock | pg_lean | | runs | measured by |", "|---|--:|--:|--:|--:|---|"]
    lines += [headline_row(headline, str(headline.ratio.n), f"`make bench-{name or result.name}`") for name, result in results for headline in result.headlines]
    return "\n".join(lines)


def caption(result: Result) -> str:
    """caption_text() in lines."""
    return textwrap.fill(caption_text(result), 100, break_on_hyphens=False)


def caption_text(result: Result) -> str:
    """Where and when a result was measured, and what kind of run it was."""
    machine = result.machine
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
    stolen = machine.get("stolen") or 0
    return (f"*{server}; {where}; {machine.get('measured', '')}, pg_lean {machine.get('pg_lean', '')}"
            + (f"; the host gave others {stolen:.0%} of the processor time wanted" if stolen >= 0.005 else "")
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
