"""Where statements spent their time, as a tree of frames, and as a page that people can look at.

A frame is a plan node (or, above these, a statement or a database) with the time
that it took itself; its width in a picture is that and all of the frames on it.
Trees come from light_explain's profile, from its figures of a session's last
EXPLAIN ANALYZE or of a running statement, or from EXPLAIN (ANALYZE, FORMAT JSON)
of any server.  Times of parallel workers are added up: a picture shows what
processors did, not what a clock on the wall said.
"""

from __future__ import annotations

import html
import json
import math
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping

from pg_lean import waits as sampled
from pg_lean.errors import LabError


@dataclass
class Frame:
    """One box: its name, its own milliseconds, what is on top of it, and lines that a pointer shows."""

    name: str
    own: float = 0.0
    children: list["Frame"] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Is it a statement, and not a node of a plan?
    statement: bool = False
    #: Milliseconds that samples found it waiting, by wait; part of `own`.
    waits: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """Milliseconds of this frame and all on it."""
        return self.own + sum(child.total for child in self.children)

    @classmethod
    def of_dict(cls, data: Mapping[str, Any]) -> "Frame":
        """A frame and all on it, as dataclasses.asdict() wrote them."""
        return cls(data["name"], data["own"], [cls.of_dict(child) for child in data["children"]], list(data["notes"]),
                   waits=dict(data.get("waits", {})))

    def depth(self) -> int:
        """How many frames stand one on the other."""
        return 1 + max((child.depth() for child in self.children), default=0)


# -- where frames come from --------------------------------------------------

def of_nodes(rows: Iterable[Mapping[str, Any]], own: str = "self_ms") -> list[Frame]:
    """Frames of plan nodes given as rows with node, parent, label and a column of own milliseconds.

    Nodes whose parent is not among the rows stand side by side at the bottom.
    """
    rows = list(rows)
    frames = {row["node"]: Frame(str(row["label"]).strip(), max(0.0, float(row[own] or 0)), notes=_notes(row), waits=row.get("waits") or {}) for row in rows}
    bottom = []
    for row in rows:
        parent = frames.get(row["parent"]) if row["parent"] != row["node"] else None
        (parent.children if parent is not None else bottom).append(frames[row["node"]])
    return bottom


def _notes(row: Mapping[str, Any]) -> list[str]:
    notes = []
    if row.get("rows") is not None:
        text = f"{float(row['rows']):,.0f} rows"
        if row.get("loops"):
            text += f" in {float(row['loops']):,.0f} loops"
        if row.get("plan_rows") is not None:
            text += f", {float(row['plan_rows']):,.0f} expected"
        notes.append(text)
    blocks = [f"{int(row[name]):,} {what}" for name, what in
              (("shared_hit", "hit"), ("shared_read", "read"), ("local_blocks", "local"), ("temp_read", "temp read"), ("temp_written", "temp written"))
              if row.get(name)]
    if blocks:
        notes.append("blocks: " + ", ".join(blocks))
    return notes


def of_explain(text: str) -> Frame:
    """The tree of EXPLAIN (ANALYZE, FORMAT JSON), of any server.

    Own time is "Self Time" where EXPLAIN (LIGHT) wrote it.  Otherwise it is computed: a
    node's actual total time is a mean over its loops and contains the nodes below
    it; a CTE runs within the nodes that read it, so it takes its time from them in
    proportion to their own times.
    """
    wrong = LabError("this is not a plan of EXPLAIN (ANALYZE, FORMAT JSON)", "Write it with psql -XAtc \"EXPLAIN (ANALYZE, FORMAT JSON) ...\".")
    try:
        plans = json.loads(text, parse_constant=_no_number)
        plan = (plans[0] if isinstance(plans, list) else plans)["Plan"]
        if "Actual Total Time" not in plan:
            raise LabError("the plan has no times", "Use EXPLAIN (ANALYZE, FORMAT JSON), with TIMING on.")
        readers: dict[str, float] = {}
        made: dict[str, float] = {}
        for node in _walk(plan):
            if node.get("CTE Name") and node["Node Type"] == "CTE Scan":
                readers[node["CTE Name"]] = readers.get(node["CTE Name"], 0.0) + _inclusive(node)
            if str(node.get("Subplan Name", "")).startswith("CTE "):
                made[node["Subplan Name"][4:]] = _inclusive(node)
        found = _explained(plan, readers, made)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise wrong from None
    if not math.isfinite(found.total):
        raise wrong
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


def _inclusive(node: Mapping[str, Any]) -> float:
    return float(node.get("Actual Total Time", 0)) * float(node.get("Actual Loops", 0))


def _explained(node: Mapping[str, Any], readers: Mapping[str, float], made: Mapping[str, float]) -> Frame:
    children = node.get("Plans", ())
    own = node.get("Self Time")
    if own is None:
        total = _inclusive(node)
        own = total - sum(_inclusive(child) for child in children if not str(child.get("Subplan Name", "")).startswith("CTE "))
        name = node.get("CTE Name")
        if node["Node Type"] == "CTE Scan" and readers.get(name):
            own -= made.get(name, 0.0) * total / readers[name]
    row = {"rows": float(node.get("Actual Rows", 0)) * float(node.get("Actual Loops", 0)), "loops": node.get("Actual Loops"),
           "plan_rows": float(node.get("Plan Rows", 0)) * float(node.get("Actual Loops", 0)),
           "shared_hit": node.get("Shared Hit Blocks", 0) - sum(child.get("Shared Hit Blocks", 0) for child in children),
           "shared_read": node.get("Shared Read Blocks", 0) - sum(child.get("Shared Read Blocks", 0) for child in children)}
    own = max(0.0, float(own))
    waits = sampled.of_text(node["Samples"], own) if "Samples" in node else {}
    return Frame(_label(node), own, [_explained(child, readers, made) for child in children], _notes(row), waits=waits)


def _label(node: Mapping[str, Any]) -> str:
    """A node's name as EXPLAIN writes it in its text form, near enough to know it again."""
    kind = node["Node Type"]
    if kind == "Aggregate":
        kind = {"Hashed": "HashAggregate", "Sorted": "GroupAggregate", "Mixed": "MixedAggregate"}.get(node.get("Strategy", ""), kind)
    if node.get("Partial Mode") in ("Partial", "Finalize"):
        kind = f"{node['Partial Mode']} {kind}"
    if node.get("Join Type", "Inner") != "Inner":
        kind = kind.replace(" Join", "") + f" {node['Join Type']} Join"
    if kind == "ModifyTable":
        kind = node.get("Operation", kind)
    if node.get("Parallel Aware"):
        kind = f"Parallel {kind}"
    if node.get("Index Name"):
        kind += f" using {node['Index Name']}"
    on = node.get("Relation Name") or node.get("CTE Name") or node.get("Function Name")
    if on:
        kind += f" on {on}"
        if node.get("Alias", on) != on:
            kind += f" {node['Alias']}"
    return f"{node['Subplan Name']}: {kind}" if node.get("Subplan Name") else kind


# -- what becomes of them ----------------------------------------------------

def folded(root: Frame) -> str:
    """One line for each frame with own time: names from the bottom up, and microseconds; other tools read this."""
    lines: list[str] = []

    def visit(frame: Frame, below: str) -> None:
        stack = (f"{below};" if below else "") + frame.name.replace(";", ",").replace("\n", " ")
        if round(frame.own * 1000) > 0:
            lines.append(f"{stack} {round(frame.own * 1000)}")
        for child in frame.children:
            visit(child, stack)

    visit(root, "")
    return "".join(f"{line}\n" for line in lines)


#: Colors by kind of node, light and dark scheme: reading, joining, sorting and grouping, writing, moving rows, the rest.
KINDS = (("read", (" Scan", "Scan ", "Function"), "#8fc7a6", "#2f6b4a"), ("join", ("Join", "Nested Loop"), "#f2b880", "#8a5a1f"),
         ("group", ("Sort", "Aggregate", "Hash", "Unique", "WindowAgg", "Group", "SetOp"), "#a9b9ec", "#3c4f94"),
         ("write", ("Insert", "Update", "Delete", "Merge", "ModifyTable", "LockRows"), "#eda0a0", "#8f3434"),
         ("move", ("Gather", "Append", "Materialize", "Memoize", "Limit", "Result", "Subquery"), "#d8cde8", "#5c4a78"),
         ("rest", ("",), "#d9d9d4", "#4a4a48"))


def kind_of(name: str) -> str:
    """Which of KINDS a plan node's name belongs to."""
    return next(kind for kind, words, _, _ in KINDS if any(word in name for word in words))


#: The color of the part of a box on which others are, if colors show waits.
BELOW = ("on", "#f1f1ee", "#2a2a29")


@dataclass
class Box:
    """A frame's place: left and width as shares of the bottom's, level from 0."""

    frame: Frame
    left: float
    width: float
    level: int


def boxes(root: Frame, smallest: float = 0.0002) -> list[Box]:
    """Places of all frames that are at least `smallest` of the whole wide, from the bottom up."""
    whole = root.total
    found: list[Box] = []

    def place(frame: Frame, left: float, level: int) -> None:
        width = frame.total / whole
        if width < smallest:
            return
        found.append(Box(frame, left, width, level))
        for child in frame.children:
            place(child, left, level + 1)
            left += child.total / whole

    if whole > 0:
        place(root, 0.0, 0)
    return found


ROW = 19


def shares(frame: Frame) -> list[tuple[str, float, float]]:
    """How a box is divided from left to right, if colors show waits: (kind, from, to), the boxes on it first, then its own time."""
    total = frame.total
    if total <= 0:
        return []
    at = 1.0 - frame.own / total
    found = [("on", 0.0, at)] if at > 1e-9 else []
    for wait, ms in sampled.ordered(sampled.parts(frame.waits, frame.own)):
        kind, to = sampled.kind_of(wait), min(at + ms / total, 1.0)
        found.append((kind, at, to))
        at = to
    return found


def waited(root: Frame) -> set[str]:
    """Kinds of waits that a picture shows."""
    return {kind for box in boxes(root) for kind, _, _ in shares(box.frame)} - {"on"}


def _gradient(frame: Frame) -> str:
    return "background:linear-gradient(90deg," + ",".join(f"var(--w-{kind}) {left:.2%} {to:.2%}" for kind, left, to in shares(frame)) + ")"


def _legend(root: Frame) -> str:
    shown = [kind for kind in sampled.TYPES if kind in waited(root)]
    return '<p class="legend">' + " ".join(f'<span style="background:var(--w-{kind})">{kind}</span>' for kind in shown) + "</p>"


def fragment(root: Frame, name: str = "flame", waits: bool = False) -> str:
    """The flame graph as a piece of a page: a click or Enter on a box makes it as wide as the page, the field finds names.

    `name` is the id of the piece, different for each on a page; `waits`: colors show what nodes waited for instead of
    their kinds.  Without scripts it is the whole picture, with its tooltips.
    """
    return (f'<div class="flame" id="{name}"><style>{_style()}</style><p class="find"><input type="search" placeholder="find a name" aria-label="find a name">'
            f' <button type="button">whole picture</button> <output></output></p>'
            f'{_legend(root) if waits else ""}{_boxes(root, True, waits)}<script>({_SCRIPT})(document.getElementById({json.dumps(name)}))</script></div>')


def still(root: Frame) -> str:
    """The flame graph as a piece of a page that has no scripts: as wide as its place, light and dark, with tooltips."""
    return f'<div class="flame"><style>{_style()}</style>{_boxes(root, False, False)}</div>'


def _boxes(root: Frame, keys: bool, waits: bool) -> str:
    """The boxes at their places; `keys`: they can be clicked and reached by keys; `waits`: their colors show waits."""
    placed = boxes(root)
    whole = root.total
    lines = []
    for box in placed:
        frame = box.frame
        shown = "\n".join([frame.name, f"{format_ms(frame.total)} ({frame.total / whole:.1%}), {format_ms(frame.own)} self", *frame.notes, *_waits_note(frame)])
        reached = f' tabindex="0" role="button" data-l="{box.left:.6f}" data-w="{box.width:.6f}"' if keys else ""
        kind = "w" if waits else kind_of(frame.name) if box.level else "rest"
        lines.append(f'<div class="box {kind}"{reached}'
                     f' style="left:{box.left * 100:.4f}%;width:{box.width * 100:.4f}%;bottom:{box.level * ROW}px{";" + _gradient(frame) if waits else ""}"'
                     f' title="{html.escape(shown)}">{html.escape(frame.name)}</div>')
    height = (max((box.level for box in placed), default=0) + 1) * ROW
    body = "\n".join(lines) if placed else '<p>Nothing took any time.</p>'
    return f'<div class="boxes" style="height:{height}px">{body}</div>'


def _waits_note(frame: Frame) -> list[str]:
    found = [f"{wait} {format_ms(ms)}" for wait, ms in sampled.ordered(sampled.parts(frame.waits, frame.own))] if frame.waits else []
    return ["waits: " + ", ".join(found)] if found else []


def wait_colors(dark: bool) -> str:
    """CSS variables of the colors of waits in one scheme."""
    return "".join(f"--w-{kind}:{night if dark else day};" for kind, day, night in (*sampled.KINDS, BELOW))


def _style() -> str:
    light = "".join(f".flame .{kind}{{background:{color}}}" for kind, _, color, _ in KINDS)
    dark = "".join(f".flame .{kind}{{background:{color}}}" for kind, _, _, color in KINDS)
    return (
        ".flame .boxes{position:relative;overflow:hidden}.flame .box{position:absolute;height:%dpx;box-sizing:border-box;border:1px solid #fff;"
        "font:12px/17px system-ui,sans-serif;padding:0 3px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;cursor:pointer;color:#111}"
        ".flame .box:focus{outline:2px solid #06c;outline-offset:-2px}.flame .faint{opacity:.45}.flame .found{background:#c9f!important;color:#111!important}"
        ".flame .find{margin:.5em 0}.flame .legend span{padding:1px 8px;margin-right:4px;color:#111}.flame{%s}" % (ROW, wait_colors(False)) + light
        + "@media(prefers-color-scheme:dark){.flame .box,.flame .legend span{color:#eee}"
        ".flame .box{border-color:#1b1b1b}%s.flame{%s}}" % (dark, wait_colors(True))
    )


_SCRIPT = """function (flame) {
  const all = [...flame.querySelectorAll(".box")], out = flame.querySelector("output"), find = flame.querySelector("input");
  function zoom(left, width) {
    for (const box of all) {
      const l = +box.dataset.l, w = +box.dataset.w, around = l <= left + 1e-7 && l + w >= left + width - 1e-7;
      const from = Math.max(0, (l - left) / width), to = Math.min(1, (l + w - left) / width);
      box.style.left = 100 * from + "%";
      box.style.width = 100 * Math.max(0, to - from) + "%";
      box.style.display = to - from > 1e-5 ? "" : "none";
      box.classList.toggle("faint", around && w > width + 1e-7);
    }
  }
  for (const box of all) {
    box.onclick = () => zoom(+box.dataset.l, +box.dataset.w);
    box.onkeydown = event => { if (event.key === "Enter") box.onclick(); };
  }
  flame.querySelector("button").onclick = () => { find.value = ""; find.oninput(); zoom(0, 1); };
  find.oninput = () => {
    const word = find.value.toLowerCase();
    let share = 0, end = 0;
    for (const box of all) {
      const hit = word !== "" && box.textContent.toLowerCase().includes(word);
      box.classList.toggle("found", hit);
    }
    for (const box of all.filter(box => box.classList.contains("found")).sort((a, b) => a.dataset.l - b.dataset.l || b.dataset.w - a.dataset.w)) {
      const l = Math.max(end, +box.dataset.l), to = +box.dataset.l + +box.dataset.w;
      if (to > l) { share += to - l; end = to; }
    }
    out.textContent = word === "" ? "" : (100 * share).toFixed(1) + " % of the time";
  };
}"""


def page(root: Frame, title: str, about: str, waits: bool = False) -> str:
    """A complete page with the flame graph; `waits`: its colors show waits."""
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta name="color-scheme" content="light dark"><title>{html.escape(title)}</title>'
            f'<style>body{{font:15px/1.4 system-ui,sans-serif;margin:1em;background:Canvas;color:CanvasText}}</style></head>'
            f'<body><h1>{html.escape(title)}</h1><p>{html.escape(about)}</p>\n{fragment(root, waits=waits)}\n</body></html>\n')


def svg(root: Frame, width: int = 1000, dark: bool = False, waits: bool = False) -> str:
    """The flame graph as a picture for documents, in one color scheme, with titles that a pointer shows; `waits`: its colors show waits."""
    placed = boxes(root, smallest=1.0 / width)
    height = (max((box.level for box in placed), default=0) + 1) * ROW
    colors = {kind: (night if dark else day) for kind, _, day, night in KINDS}
    wait_of = {kind: (night if dark else day) for kind, day, night in (*sampled.KINDS, BELOW)}
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui,sans-serif" font-size="12">']
    for number, box in enumerate(placed):
        x, w, y = box.left * width, box.width * width, height - (box.level + 1) * ROW
        drawn, wide = max(w - 1, 0.5), "" if waits else colors[kind_of(box.frame.name) if box.level else "rest"]
        pieces = [(wait_of[kind], left, to) for kind, left, to in shares(box.frame)] if waits else [(wide, 0.0, 1.0)]
        title = "\n".join([f"{box.frame.name}: {format_ms(box.frame.total)}", *_waits_note(box.frame)])
        lines.append(f'<g><title>{html.escape(title)}</title>' + "".join(
            f'<rect x="{x + left * drawn:.2f}" y="{y}" width="{(to - left) * drawn:.2f}" height="{ROW - 1}" fill="{color}"/>' for color, left, to in pieces))
        if w > 24:
            lines.append(
                f'<clipPath id="c{number}"><rect x="{x:.2f}" y="{y}" width="{w - 4:.2f}" height="{ROW}"/></clipPath>'
                f'<text x="{x + 3:.2f}" y="{y + 13}" clip-path="url(#c{number})" fill="{"#eee" if dark else "#111"}">{html.escape(box.frame.name)}</text>'
            )
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def format_ms(ms: float) -> str:
    """Milliseconds for people."""
    return f"{ms / 1000:,.2f} s" if ms >= 10000 else f"{ms:,.1f} ms" if ms >= 1 else f"{ms * 1000:,.0f} us"


