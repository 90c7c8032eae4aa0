"""One self-contained HTML page of everything that was measured: build/report/index.html.

It is made from the kept results (build/demo/*/result.json, build/bench/*/result.json)
and from nothing else, so `pg-lean report` can write it again at any time.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Sequence

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from pg_lean import demo, flame
from pg_lean.paths import BUILD
from pg_lean.result import Result, Table, format_cost, format_parts, format_value, human_bytes, is_number


def write(build: Path | None = None, fresh: Sequence[Result] = ()) -> Path:
    """Write the report from the results kept in `build` and return its path.

    `fresh` are results that have just been measured: they are shown even where an
    older full one is kept and they are quick, or say why there is none.
    """
    build = build or BUILD
    parts = collect(build / "demo", demo.ORDER, [result for result in fresh if result.name in demo.ORDER])
    benches = collect(build / "bench", (), [result for result in fresh if result.name not in demo.ORDER])
    page = build / "report" / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(parts, benches))
    return page.resolve()


def collect(folder: Path, order: tuple[str, ...] = (), fresh: Sequence[Result] = ()) -> list[Result]:
    """The results of a folder, each benchmark's best: fresh, else full, quick, or why there is none; named ones first."""
    found = {result.name: result for result in fresh}
    for name in {path.relative_to(folder).parts[0] for path in folder.glob("**/result.json")}:
        for kind in ("", "quick", "interrupted", "failed"):
            if name not in found and (folder / name / kind / "result.json").exists():
                found[name] = Result.load(folder / name / kind)
    return [found[name] for name in sorted(found, key=lambda name: (order.index(name) if name in order else len(order), name))]


def render(parts: list[Result], benches: list[Result], alone: Result | None = None) -> str:
    """The page's text; `alone` is a result of a user's server that was not measured here, whose page has nothing else."""
    environment = Environment(loader=PackageLoader("pg_lean", "report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        value=format_value, parts=format_parts, heading=heading, prose=prose, facts=facts, raw_link=raw_link, server=server_name, cost=format_cost
    )
    environment.globals.update(svg=_picture, still=lambda root: Markup(flame.still(root)), wait_colors=lambda dark: Markup(flame.wait_colors(dark)))
    for kind in ("demo", "bench"):
        for result in parts if kind == "demo" else benches:
            result.anchor = f"{kind}-{result.name}"
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return environment.get_template("template.html").render(parts=parts, benches=benches, alone=alone, now=now)


def heading(table: Table) -> dict[str, Any]:
    """Names of a table's columns, which of them hold numbers, and common headings as (text, columns)."""
    names, groups = [], []
    for column in table.columns:
        group, _, name = str(column).rpartition(" | ")
        names.append(name)
        if groups and group and groups[-1][0] == group:
            groups[-1] = (group, groups[-1][1] + 1)
        else:
            groups.append((group, 1))
    numeric = [any(is_number(row[index]) for row in table.rows) for index in range(len(names))]
    return {"names": names, "numeric": numeric, "groups": groups if any(text for text, _ in groups) else []}


def prose(text: str) -> Markup:
    """Text with `code` in backticks and paragraphs at empty lines."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    coded = [re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(p))) for p in paragraphs]
    return Markup("".join(f"<p>{p}</p>" for p in coded))


def server_name(machine: dict[str, Any]) -> str:
    """ "PostgreSQL 15.20" of version()'s long answer. """
    return " ".join(str(machine.get("server", "PostgreSQL")).split()[:2])


def facts(machine: dict[str, Any]) -> list[tuple[str, str]]:
    """The description of the machine as rows of a table."""
    rows = [("Measured", machine.get("measured", "")), ("Server", machine.get("server", "")),
            ("Extensions", ", ".join(f"{name} {version}" for name, version in machine.get("extensions", {}).items())),
            ("pg_lean revision", machine.get("pg_lean", "")),
            ("Processor", f"{machine.get('processor', '')}, {machine.get('processors', '?')} usable"
                          + (" (virtual machine)" if machine.get("virtual_machine") else "")),
            ("Memory", f"{human_bytes(machine.get('memory_bytes', 0))}, "
                       f"{human_bytes(machine.get('memory_available_bytes', 0))} available"),
            ("Kernel", machine.get("kernel", "")), ("File system", machine.get("filesystem", "")),
            ("Processor time that the host gave to others", f"{machine['stolen']:.1%} of the requested time" if machine.get("stolen") is not None else ""),
            ("Load average afterwards", str(machine.get("load_average", ""))),
            ("Data checksums", machine.get("data_checksums", ""))]
    if machine.get("assertions"):
        rows.append(("Assertions", "ON: this server is for finding faults, its times say nothing"))
    rows.append(("Settings that are not default",
                 ", ".join(f"{name} = {value or repr('')}" for name, value in machine.get("settings", {}).items())))
    return [(name, text) for name, text in rows if text]


def raw_link(result: Result) -> Markup:
    """A link that carries all raw rows as CSV."""
    if not result.raw.rows:
        return Markup("")
    columns = list(dict.fromkeys(name for row in result.raw.rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns)
    writer.writeheader()
    writer.writerows(result.raw.rows)
    data = base64.b64encode(out.getvalue().encode()).decode()
    return Markup(f'<a download="{escape(result.name)}.csv" href="data:text/csv;base64,{data}">'
                  f"raw measurements, {len(result.raw.rows):,} rows (CSV)</a>")


def _picture(plot: Any, identity: str) -> Markup:
    from pg_lean.report import plots  # matplotlib takes half a second to load, and most commands draw nothing

    # one for wide screens and one for narrow ones: letters have to stay as large as the page's
    return Markup(f'<div class="on-wide">{plots.svg(plot, identity)}</div><div class="on-narrow">{plots.svg(plot, identity + "-narrow", plots.NARROW)}</div>')
