"""Statements that functions run, drawn on the plan nodes that called them, so that a flame graph counts time once.

The profile records for a statement which statement's function ran it (caller_queryid), but not the node.  The time of a
caller's nodes contains that of its nested statements.  So a nested statement is drawn on the node with the most time of
its own, and that time is reduced by it; if no node has as much, it is divided among the nodes in proportion.
Time that no node has is drawn next to the plan: triggers run after the nodes have ended.

A statement may have several callers, or call itself.  It is divided among its callers in proportion to their time.  In a
recursion the time of each level contains the levels below, so it is scaled to the time that its caller has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from pg_lean.flame import Frame, of_nodes

#: Part of all time below which a nested statement is not drawn apart from its caller; bounds the number of frames.
SMALLEST = 1e-4


@dataclass(eq=False)
class Entry:
    """A plan of a statement in the profile, for one caller."""

    rows: list[Mapping[str, Any]]

    def __getattr__(self, name: str) -> Any:
        return self.rows[0][name]

    def total(self) -> float:
        return sum(max(0.0, float(row["self_ms"] or 0)) for row in self.rows)


def callers_of(entries: list[Entry]) -> dict[Entry, list[Entry]]:
    """The plans whose functions may have run each entry: of its database, and of its role if that has any."""
    by_query: dict[tuple[int, int], list[Entry]] = {}
    for entry in entries:
        by_query.setdefault((entry.dbid, entry.queryid), []).append(entry)
    found = {}
    for entry in entries:
        callers = by_query.get((entry.dbid, entry.caller_queryid), []) if entry.caller_queryid else []
        found[entry] = [caller for caller in callers if caller.userid == entry.userid] or callers
    return found


def of_profile(rows: Iterable[Mapping[str, Any]], queryid: int | None = None) -> Frame:
    """The profile as one tree, widest first: databases, statements, their plans, and on them what their functions ran.

    `queryid`: that statement only, and what it ran.
    """
    plans: dict[tuple, list[Mapping[str, Any]]] = {}
    for row in rows:
        plans.setdefault((row["dbid"], row["userid"], row["queryid"], row["caller_queryid"], row["planid"]), []).append(
            row
        )
    entries = [Entry(nodes) for nodes in plans.values()]
    callers = callers_of(entries)
    callees: dict[Entry, list[Entry]] = {entry: [] for entry in entries}
    for entry, found in callers.items():
        for caller in found:
            callees[caller].append(entry)
    smallest = SMALLEST * sum(entry.total() for entry in entries if not callers[entry])

    def recursive(entry: Entry) -> bool:
        """Is it among those that it calls?"""
        seen: list[Entry] = list(callees[entry])
        for one in seen:
            if one is entry:
                return True
            seen += [callee for callee in callees[one] if callee not in seen]
        return False

    loops = {entry: recursive(entry) for entry in entries}

    def frame(entry: Entry, part: float, path: tuple[Entry, ...]) -> Frame:
        """That part of an entry's time, including its nested statements."""
        shown = Frame(
            name_of(entry),
            children=[scaled(node, part) for node in of_nodes(entry.rows)],
            notes=notes_of(entry),
            statement=True,
        )
        for callee in sorted(callees[entry], key=Entry.total, reverse=True):
            among = sum(caller.total() for caller in callers[callee])
            share = part * entry.total() / among if among > 0 else 0.0
            if callee not in path and share * callee.total() > smallest:
                put_on(shown, frame(callee, share, (*path, callee)), loops[callee])
        return shown

    databases: dict[int, Frame] = {}
    for entry in entries:
        if entry.queryid == queryid if queryid is not None else not callers[entry]:
            databases.setdefault(entry.dbid, Frame(entry.datname or f"dropped database {entry.dbid}")).children.append(
                frame(entry, 1.0, (entry,))
            )
    for database in databases.values():
        database.children.sort(key=lambda child: child.total, reverse=True)
    return Frame("all statements", children=sorted(databases.values(), key=lambda child: child.total, reverse=True))


def put_on(caller: Frame, nested: Frame, within: bool) -> None:
    """Draw a nested statement on the nodes of a plan, whose own time contains it; within: it takes no more than the nodes' time."""
    nodes = [node for child in caller.children for node in nodes_of(child)]
    there = sum(node.own for node in nodes)
    if within and nested.total > there:
        nested = scaled(nested, there / nested.total)
    largest = max(nodes, key=lambda node: node.own, default=None)
    if largest is not None and nested.total <= largest.own:
        largest.own -= nested.total
        largest.children.append(nested)
        return
    taken = min(nested.total, there)
    for node in nodes if taken > 0 else []:
        if node.own > 0:
            node.children.append(scaled(nested, taken / nested.total * node.own / there))
            node.own *= 1 - taken / there
    if nested.total > taken:
        caller.children.append(scaled(nested, 1 - taken / nested.total))


def nodes_of(frame: Frame) -> list[Frame]:
    """A plan node and those below it, without statements that are drawn on them."""
    if frame.statement:
        return []
    return [frame, *(node for child in frame.children for node in nodes_of(child))]


def scaled(frame: Frame, part: float) -> Frame:
    """A copy with that part of the time."""
    return Frame(
        frame.name,
        frame.own * part,
        [scaled(child, part) for child in frame.children],
        frame.notes,
        frame.statement,
        {wait: ms * part for wait, ms in frame.waits.items()},
    )


def name_of(entry: Entry) -> str:
    return " ".join((entry.rows[0].get("query") or "").split()) or f"statement {entry.queryid}"


def notes_of(entry: Entry) -> list[str]:
    row = entry.rows[0]
    notes = [f"role {entry.rolname or entry.userid}, queryid {entry.queryid}, {int(entry.executions):,} executions"]
    if entry.caller_queryid:
        notes.append(f"run in a function by statement {entry.caller_queryid}")
    stopped = [f"{int(row[what]):,} {what}" for what in ("cancelled", "failed") if row.get(what)]
    return notes + ([", ".join(stopped)] if stopped else [])
