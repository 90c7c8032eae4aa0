"""What a benchmark or a part of the demo hands back, and how it is kept.

A Result is data: texts, tables, plots as numbers, listings, checks.  The terminal
and the HTML report both render it, so a benchmark never formats for either.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Sequence

from pg_lean.flame import Frame
from pg_lean.measure import Estimate, Measurements, to_json
from pg_lean.waits import kind_of, ordered


@dataclass
class Note:
    """A paragraph of text.  Text between `backticks` is set as code."""

    text: str
    title: str = ""


@dataclass
class Table:
    """Rows of numbers and short texts.  Numbers are formatted where they are shown.

    Neighbouring columns named "group | name" get the group as a common heading.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


@dataclass
class Series:
    """One line (or one color of bars) of a plot; low and high, if given, are its band."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False


@dataclass
class Plot:
    """kind "line": x are numbers.  kind "bar": x are names, one group of bars each."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: str = "line"
    log_x: bool = False
    log_y: bool = False
    note: str = ""


@dataclass
class Listing:
    """Preformatted text such as a plan, folded away in the report if `folded`."""

    title: str
    text: str
    folded: bool = False


@dataclass
class SideBySide:
    """Listings shown side by side, such as two plans of one query."""

    title: str
    listings: Sequence[Listing]


@dataclass
class Flame:
    """A flame graph: a tree of frames with their own milliseconds."""

    title: str
    root: Frame
    note: str = ""


@dataclass
class Waits:
    """What statements waited for: rows of statement, plan node, wait ("Type:Event", or CPU) and number of samples."""

    title: str
    rows: Sequence[Sequence[Any]]
    note: str = ""

    def statements(self) -> list[dict[str, Any]]:
        """Statements with their nodes, and nodes with their waits, the most samples first; `share` is of all samples, `part` of the node's."""
        every = sum(row[3] for row in self.rows)
        found: dict[str, dict[str, dict[str, float]]] = {}
        for query, node, wait, samples in self.rows:
            waits = found.setdefault(query, {}).setdefault(node, {})
            waits[wait] = waits.get(wait, 0) + samples
        statements = []
        for query, nodes in found.items():
            shown = []
            for node, waits in nodes.items():
                total = sum(waits.values())
                shown.append({"node": node, "samples": total, "share": total / every,
                              "waits": [{"wait": wait, "kind": kind_of(wait), "part": samples / total} for wait, samples in ordered(waits)]})
            shown.sort(key=lambda one: (-one["samples"], one["node"]))
            samples = sum(one["samples"] for one in shown)
            statements.append({"query": query, "samples": samples, "share": samples / every, "nodes": shown})
        return sorted(statements, key=lambda one: (-one["samples"], one["query"]))

    def table(self) -> Table:
        """The same as a table, for a terminal."""
        return Table(self.title, ["statement", "node", "samples", "% of all", "waits"],
                     [[one["query"], node["node"], node["samples"], 100 * node["share"],
                       ", ".join(f"{wait['wait']} {wait['part']:.0%}" for wait in node["waits"])] for one in self.statements() for node in one["nodes"]],
                     self.note)


@dataclass
class Check:
    """A figure held against a target: met if `value` <relation> `target` (relation "<=" or ">="); and its interval, if it has one."""

    what: str
    value: float
    relation: str
    target: float
    unit: str = ""
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, what: str, found: Estimate, relation: str, target: float, unit: str = "") -> "Check":
        """The median of an estimate against a target, shown with its interval."""
        return cls(what, found.median, relation, target, unit, (found.low, found.high))

    @property
    def met(self) -> bool:
        if math.isnan(self.value):
            return False
        return self.value <= self.target if self.relation == "<=" else self.value >= self.target

    @property
    def shown(self) -> str:
        """The value with its unit and interval; a count without digits after the point."""
        value = int(self.value) if float(self.value).is_integer() else float(self.value)
        interval = f" ({format_value(self.interval[0])} to {format_value(self.interval[1])})" if self.interval else ""
        return f"{format_value(value)} {self.unit}".strip() + interval


def not_slower(what: str, ratio: Estimate, margin: float) -> Check:
    """That a cost is not more than so much above what it is compared with, decided by the upper end of the ratio's interval:
    a run too noisy to tell does not pass."""
    return Check(f"{what}: upper end of the ratio's interval, margin {margin:.0%}", ratio.high, "<=", 1 + margin)


@dataclass
class Headline:
    """The one figure of a comparison: how many times stock's cost is pg_lean's, with its interval, and the costs as bars."""

    what: str
    ratio: Estimate
    #: Name and cost of each way, stock first.
    bars: Sequence[tuple[str, float]]
    unit: str = "ms"
    #: The meaning of the ratio, such as "times as fast".
    phrase: str = "times as fast"

    #: Upper over lower end of an interval beyond which a figure says more about the machine than about what was measured.
    LOUD = 1.6

    @property
    def known(self) -> bool:
        """Do all that may be true say the same: that it is faster, or slower?"""
        return not math.isnan(self.ratio.median) and not self.ratio.low <= 1 <= self.ratio.high

    @property
    def loud(self) -> bool:
        """Did the repetitions differ so much that the median would mislead?"""
        return not math.isnan(self.ratio.median) and (not self.known or self.ratio.high > self.LOUD * self.ratio.low)

    @property
    def interval(self) -> str:
        """Its ends, in as many digits as tell them apart."""
        ends = [[_figure(end, digits) for end in (self.ratio.low, self.ratio.high)] for digits in (2, 3, 4)]
        return " to ".join(next((pair for pair in ends if pair[0] != pair[1]), ends[0])) if self.ratio.n > 1 else ""

    @property
    def figure(self) -> str:
        """What is shown large: the ratio; of repetitions that differ much the end that is certain; nothing where even that is not known."""
        if math.isnan(self.ratio.median):
            return "not measured"
        if not self.loud:
            return f"{_figure(self.ratio.median, 2 if self.ratio.median < 100 else 3)}x"
        return "too noisy to tell" if not self.known else f"> {_figure(self.ratio.low, 2)}x" if self.ratio.low > 1 else f"< {_figure(self.ratio.high, 2)}x"

    @property
    def explanation(self) -> str:
        """The text next to the figure."""
        if math.isnan(self.ratio.median):
            return ""
        spread = f" ({self.interval})" if self.interval else ""
        return f"{self.phrase}{spread}" + ("; this machine is busy: the repetitions differ much" if self.loud else "")


@dataclass
class Result:
    """title: a headline; summary: what came out, one or two sentences; what and how: what was measured and how."""

    title: str
    summary: str
    what: str
    how: str
    blocks: list[Any] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    headlines: list[Headline] = field(default_factory=list)
    #: Set by the runner.
    name: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    raw: Measurements = field(default_factory=Measurements)
    seconds: float = 0.0
    quick: bool = False
    #: The part of a full run's repetitions that was measured.
    effort: float = 1.0
    #: Why the part could not run; everything else is empty then.
    unavailable: str = ""
    #: The error, if any; figures are missing then, except the raw rows measured before.
    failed: str = ""
    #: The user ended it; as above.
    interrupted: bool = False

    #: The part of the processor time wanted that may go to others before a reader is told.
    STOLEN = 0.05

    @property
    def whole(self) -> bool:
        """Is this a result, and not the reason why there is none?"""
        return not (self.unavailable or self.failed or self.interrupted)

    @property
    def caution(self) -> str:
        """What a reader must know before any figure of a run on a busy machine."""
        stolen = self.machine.get("stolen") or 0
        host = f"The host gave other machines {stolen:.0%} of the processor time that this one wanted. " if stolen >= self.STOLEN else ""
        if not host and not any(headline.loud for headline in self.headlines):
            return ""
        return (f"{host}The machine was busy while this ran: repetitions differ so much that single figures mislead. Look at the intervals, or repeat it when "
                "the machine is quiet.")

    @property
    def kind(self) -> str:
        """The folder in which it is kept: "" for a full result, otherwise the name of a folder next to it, so that it replaces no full result."""
        return "interrupted" if self.interrupted else "failed" if not self.whole else "quick" if self.quick else ""

    def as_dict(self) -> dict[str, Any]:
        """All of it, as result.json has it."""
        data = {name: getattr(self, name) for name in
                ("name", "title", "summary", "what", "how", "machine", "seconds", "quick", "effort", "unavailable", "failed", "interrupted")}
        data["blocks"] = [{"type": type(block).__name__, **asdict(block)} for block in self.blocks]
        data["checks"] = [{**asdict(check), "met": check.met} for check in self.checks]
        data["headlines"] = [asdict(headline) for headline in self.headlines]
        data["raw"] = self.raw.rows
        return data

    def save(self, folder: Path) -> None:
        """Write result.json and raw.csv; what was there before goes when the new files are whole."""
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / "raw.csv.new", folder / "result.json.new"
        self.raw.write_csv(fresh[0])
        fresh[1].write_text(json.dumps(self.as_dict(), default=to_json, indent=1) + "\n")
        for path in fresh:
            os.replace(path, path.with_suffix(""))

    @classmethod
    def load(cls, folder: Path) -> "Result":
        data = json.loads((folder / "result.json").read_text())
        kinds = {kind.__name__: kind for kind in (Note, Table, Plot, Listing, SideBySide, Flame, Waits)}
        blocks = []
        for block in data.pop("blocks"):
            kind = kinds[block.pop("type")]
            if kind is Plot:
                block["series"] = [Series(**series) for series in block["series"]]
            if kind is SideBySide:
                block["listings"] = [Listing(**listing) for listing in block["listings"]]
            if kind is Flame:
                block["root"] = Frame.of_dict(block["root"])
            blocks.append(kind(**block))
        checks = [Check(**{k: v for k, v in check.items() if k != "met"}) for check in data.pop("checks")]
        headlines = [Headline(**{**one, "ratio": Estimate(**one["ratio"]), "bars": [tuple(bar) for bar in one["bars"]]})
                     for one in data.pop("headlines", [])]
        return cls(blocks=blocks, checks=checks, headlines=headlines, raw=Measurements(data.pop("raw")), **data)


# -- how figures are written, everywhere -------------------------------------


def format_value(value: Any) -> str:
    """A cell: three significant digits, thousands separated, an Estimate as "median (low-high)"."""
    median, interval = format_parts(value)
    return f"{median} ({interval})" if interval else median


def format_parts(value: Any) -> tuple[str, str]:
    """A cell's figure, and the interval of an Estimate (empty for anything else): in two digits, or where
    it is narrower than 2 % in as many places as show its width."""
    if isinstance(value, Estimate):
        value = asdict(value)
    if isinstance(value, dict) and "median" in value:
        width = value["high"] - value["low"]
        if value["n"] > 1 and abs(value["median"]) < 100 and 0 < width < 0.02 * abs(value["median"]):
            places = min(-math.floor(math.log10(width)), 6)
            return f"{value['median']:.{places}f}", f"{value['low']:.{places}f}-{value['high']:.{places}f}"
        interval = "" if value["n"] < 2 else f"{_figure(value['low'], 2)}-{_figure(value['high'], 2)}"
        return _figure(value["median"]), interval
    return _figure(value), ""


def _figure(value: Any, digits: int = 3) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        if value == 0:
            return "0"
        if abs(value) >= 100:
            return f"{value:,.0f}"
        places = digits - 1 - math.floor(math.log10(abs(value)))
        return f"{value:.{max(0, min(places, 6))}f}"
    return str(value)


def format_cost(value: float, unit: str) -> str:
    """A cost with its unit, of a size that a person can compare: 546 ms, 81 µs, 2.3 s."""
    for unit_of, least, name in (("ms", 1000, "s"), ("µs", 1e6, "s"), ("µs", 1000, "ms")):
        if unit == unit_of and value >= least:
            return f"{_figure(float(value) / least)} {name}"
    return f"{_figure(float(value))} {unit}"


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Estimate)) and not isinstance(value, bool) or \
        isinstance(value, dict) and "median" in value


def human_bytes(size: float) -> str:
    """Bytes as a person writes them, in units of 1024: 16 MB."""
    for unit in ("B", "kB", "MB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GB"
