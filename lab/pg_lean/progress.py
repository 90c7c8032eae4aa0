"""Estimate the progress and remaining time of a running statement from the counters of its plan nodes.

A plan consists of pipelines: nodes that pass rows on as they receive them.  A node that needs all of its input first
(Sort, Hash, HashAggregate ...) ends one pipeline and feeds the next.  The lowest node of a pipeline drives it: its
share is the pipeline's (S. Chaudhuri, V. Narasayya, R. Ramamurthy: Estimating progress of execution for SQL queries,
SIGMOD 2004).  The expected rows of a node are

* in a pipeline that is done: the rows that it returned;
* in one that runs: these and the planner's estimate for the rest of the driver's share;
* in one that has not begun: the planner's estimate times the factor by which the estimates below it were wrong.

The inner side of a nested loop runs once for each outer row, so it drives nothing.  A hash that does not fit into
memory writes rows to temporary files and reads them again: pages read over pages written is the second phase's share.

The time left of the running pipeline follows from its pace, the time that its driver took for the last part of its
share.  That of the others follows from their cost: a node's self time per row so far, or else the planner's cost in
proportion.  (The weighted pipelines of K. Lee, A. C. König, V. Narasayya, B. Ding, S. Chaudhuri, B. Ellwein,
A. Eksarevskiy, M. Kohli, J. Wyant, P. Prakash, R. Nehme, J. Li, J. Naughton: Operator and query progress estimation in
Microsoft SQL Server Live Query Statistics, SIGMOD 2016, are the idea.)

A constant is here only if the median error of the time left grows by more than two percentage points without it, which
`make bench-progress` measures: it replays the looks that it recorded with each of ABLATIONS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

#: Nodes that return no row before they have read all of their (first) input.
BLOCKING = (
    "Sort",
    "Hash",
    "HashAggregate",
    "MixedAggregate",
    "Aggregate",
    "BitmapAnd",
    "BitmapOr",
    "Bitmap Index Scan",
    "HashSetOp",
)


#: Part of the driver's time so far, its last one, over which its pace is taken.
PACE_OF = 0.6

#: For each constant the argument of estimate() that disables its effect.
ABLATIONS: dict[str, dict[str, float]] = {"PACE_OF": {"pace_of": 1.0}}

#: Looks that are remembered, at least half of them; bounds memory, and takes no part in results of shorter statements.
LOOKS = 200


@dataclass
class Node:
    """A plan node with its counters over all processes."""

    id: int
    label: str
    kind: str
    plan_rows: float
    #: The planner's cost of the node and all nodes below it, for one loop.
    plan_cost: float = 0.0
    rows: float = 0.0
    loops: float = 0.0
    called: bool = False
    total_ms: float = 0.0
    blocks: float = 0.0
    plan_blocks: float = 0.0
    temp_read: float = 0.0
    temp_written: float = 0.0
    #: Processes that run its statement.
    processes: int = 0
    #: Does the statement measure times?
    timed: bool = False
    #: Milliseconds in this node and those below it, including a call that has not ended; None if unknown: see clock().
    elapsed_ms: float | None = None
    children: list["Node"] = field(default_factory=list)
    # set by reckon()
    expected: float = 0.0
    done: bool = False
    share: float = 0.0
    #: For nodes that run repeatedly (inner sides, subplans): the share of these runs that is done; 0: it runs once.
    driver: float = 0.0

    def spilled_pages(self) -> tuple[float, float]:
        """Pages of temporary files that a hash (a join with its table) has read, and those that it wrote to be read."""
        if self.kind in ("HashAggregate", "MixedAggregate"):
            return self.temp_read, max(self.temp_written, self.temp_read)
        if self.kind == "Hash Join" and len(self.children) > 1:
            table = self.children[1]
            return self.temp_read + table.temp_read, self.temp_written + table.temp_written
        return 0.0, 0.0

    @property
    def spills(self) -> bool:
        return self.spilled_pages()[1] > 0

    def read_again(self) -> float:
        """Share of the pages written so far that has been read again; 0 before that phase."""
        read, written = self.spilled_pages()
        return min(1.0, read / written) if written > 0 else 0.0

    @property
    def own_ms(self) -> float:
        """Self time, including a call that has not ended if clock() knows it."""
        return max(0.0, _elapsed(self) - sum(_elapsed(child) for child in self.children))

    @property
    def returned(self) -> bool:
        """Has one of its calls ended, so that its time is known?"""
        return self.total_ms > 0

    def walk(self) -> Iterable["Node"]:
        yield self
        for child in self.children:
            yield from child.walk()

    def inputs(self) -> list["Node"]:
        """Children whose rows pass through this node; the others are its subplans."""
        if self.kind.endswith("Scan") and self.kind not in ("Bitmap Heap Scan", "Subquery Scan"):
            return []
        if self.kind in ("Append", "Merge Append", "BitmapAnd", "BitmapOr", "Recursive Union"):
            return self.children
        return self.children[: 2 if self.kind in ("Nested Loop", "Hash Join", "Merge Join") else 1]


def _elapsed(node: Node) -> float:
    return node.total_ms if node.elapsed_ms is None else node.elapsed_ms


@dataclass
class Progress:
    """What is known of a statement."""

    #: 0 to 1; None if unknown.
    share: float | None
    #: Seconds; None if unknown.
    left: float | None
    #: How it was computed, or why not; and why the share fell if it did.
    how: str
    #: The node that works now, and its rows so far.
    current: str = ""
    rows: float = 0.0
    top: Node | None = None
    #: Looks at the running pipeline's driver: seconds since the statement began, its node and phase, and its share.
    looks: list[tuple[float, tuple[int, str], float]] = field(default_factory=list)


# -- nodes ---------------------------------------------------------------------


def tree(rows: Iterable[Mapping[str, Any]]) -> Node | None:
    """The plan of a statement's rows of light_explain_progress(); the workers' counters are added to the leader's."""
    rows = sorted(rows, key=lambda row: (row["leader_pid"] is not None, row["node"]))
    nodes: dict[int, Node] = {}
    top = None
    for row in rows:
        node = nodes.get(row["node"])
        if node is None:
            kind = "Seq Scan" if row["node_type"] == "Custom Scan (Temp Scan)" else row["node_type"]
            node = nodes[row["node"]] = Node(
                row["node"], row["label"].strip(), kind, float(row["plan_rows"]), float(row.get("plan_cost") or 0)
            )
        node.rows += float(row["rows"])
        node.loops += float(row["loops"])
        node.called = node.called or bool(row["called"])
        node.total_ms += float(row["total_ms"] or 0)
        node.blocks += sum(float(row.get(name) or 0) for name in ("shared_hit", "shared_read", "local_blocks"))
        node.temp_read += float(row.get("temp_read") or 0)
        node.temp_written += float(row.get("temp_written") or 0)
        node.processes += 1
        node.timed = node.timed or row["total_ms"] is not None
        node.plan_blocks = max(node.plan_blocks, float(row.get("plan_blocks") or 0))
    parents = {row["node"]: row["parent"] for row in reversed(rows)}
    for number in sorted(nodes):
        if parents[number] in nodes:
            nodes[parents[number]].children.append(nodes[number])
        else:
            top = top or nodes[number]
    # a node that has not returned yet does not know that it was called; those below it do
    for number in sorted(nodes, reverse=True):
        node = nodes[number]
        node.called = node.called or node.rows > 0 or any(child.called for child in node.children)
    return top


def clock(top: Node, elapsed_ms: float) -> None:
    """Set the time of nodes; `elapsed_ms` is the statement's since it began.

    The top node was called when the statement began.  Calls below a node that has not returned run within its time, one
    at a time: a node below it that has not returned either had the time that the others left.  When a call began whose
    caller has returned rows is unknown.  Times of workers are added up.
    """

    def visit(node: Node, allowed: float | None) -> None:
        node.elapsed_ms = node.total_ms if node.returned else allowed if node.called else 0.0
        left = None
        if node.elapsed_ms is not None and not node.returned:
            left = max(0.0, node.elapsed_ms - sum(child.total_ms for child in node.children))
            if node.kind in ("Gather", "Gather Merge") and node.children:
                left = max(0.0, node.elapsed_ms * max(node.children[0].processes, 1) - node.children[0].total_ms)
        for child in node.children:
            visit(child, left)

    if top.timed:
        visit(top, elapsed_ms)


def divisor(gather: Node) -> float:
    """The processes by which the planner divided the rows below a Gather: get_parallel_divisor() of costsize.c."""
    below = gather.children[0].plan_rows if gather.children else 0
    ratio = gather.plan_rows / below if below > 0 else 1.0
    workers = round(ratio)
    if abs(ratio - workers) < 0.01 and workers <= 3:  # rows of partial groups: multiplied by the workers alone
        return workers + max(0.0, 1 - 0.3 * workers)
    return max(ratio, 1.0)


def reckon(top: Node) -> None:
    """Set the rows that each node is expected to return, its share, and whether it is done."""
    _reckon(top, 1.0, 1.0, False)


def _reckon(node: Node, loops: float, divided: float, begun: bool) -> float:
    """Set expected rows of a node and all below it; returns the factor by which the planner was wrong here.

    loops: expected runs of the node; divided: see divisor(); begun: the pipeline that it feeds has all of its rows.
    """
    below = divisor(node) if node.kind in ("Gather", "Gather Merge") else divided
    plan = max(node.plan_rows * divided, 1.0) * max(loops, node.loops if divided == 1 else 1.0, 1.0)
    blocking = node.kind in BLOCKING
    feeding = begun or (blocking and node.rows > 0)
    inputs = node.inputs()
    factor, driven = 1.0, []
    for number, child in enumerate(inputs):
        if node.kind == "Nested Loop" and number == 1:
            outer = inputs[0]
            factor *= _reckon(child, max(outer.expected, outer.rows), below, begun)
            _repeats(child, 1.0 if begun else min(1.0, max(outer.rows, 1.0) / max(outer.expected, 1.0)))
        elif child.kind == "Hash" and number == 1:
            # the hash table is complete once the outer side has returned more than its first row
            factor *= _reckon(child, 1.0, below, begun or inputs[0].rows > 1)
        else:
            factor *= _reckon(child, loops, below, feeding)
            driven.append(child)
    for other in node.children[len(inputs) :]:
        _reckon(other, 1.0, below, begun)
    again = node.read_again()
    if not inputs:
        node.share = (
            min(1.0, node.blocks / node.plan_blocks) if node.plan_blocks else node.rows / max(plan, node.rows + 1)
        )
        node.expected = (
            node.rows / node.share if node.plan_blocks and node.rows and node.share else max(plan, node.rows)
        )
    elif blocking:
        source = inputs[0]
        node.share, node.expected = source.share, max(plan * (1.0 if node.kind == "Aggregate" else factor), node.rows)
        if feeding:
            # all of its input is there: a sort returns as many rows, a hash that reads its files groups in proportion
            ready = (
                source.rows if node.kind == "Sort" else min(node.rows / again, source.rows) if again else node.expected
            )
            node.expected = max(ready, node.rows)
            node.share = again or node.rows / max(node.expected, 1.0)
    else:
        # a node that has not received its first row works in a pipeline below this one
        waits = bool(driven) and all(child.kind in BLOCKING and not child.rows for child in driven) and not begun
        weight = sum(child.expected for child in driven) or 1.0
        node.share = 0.0 if waits else again or sum(child.share * child.expected for child in driven) / weight
        if node.kind == "Limit" and node.rows:
            node.share = max(node.share, min(node.rows / max(node.plan_rows, 1.0), 1.0))
        guess = plan * factor
        if node.share > 0 and node.rows:
            guess = node.rows + (1 - node.share) * guess
        node.expected = max(guess, node.rows)
    if begun:
        node.expected, node.share, node.done = node.rows, 1.0, True
    for other in node.children[len(inputs) :]:
        if other.loops > 1:
            _repeats(other, min(1.0, max(node.share, 1e-6)))
    return node.expected / plan


def _repeats(top: Node, driver: float) -> None:
    """A node and all below it run repeatedly, and that share of their runs is done."""
    for node in top.walk():
        node.driver = driver


def current(top: Node) -> Node:
    """The lowest node of the running pipeline: its counters move."""
    node = top
    while True:
        inputs = node.inputs()
        going = [child for child in inputs if child.called and not child.done]
        # before its inputs, the subplans and WITH queries that run once for it
        going = (
            going
            or [
                child
                for child in node.children[len(inputs) :]
                if child.called and not child.done and not child.driver and not any(one.called for one in inputs)
            ][:1]
        )
        if not going:
            return node
        node = going[-1] if node.kind == "Hash Join" and len(going) > 1 and going[0].rows <= 1 else going[0]


def annotate(rows: Iterable[dict[str, Any]], top: Node) -> None:
    """Add the expected rows and the elapsed and self time of each node to the leader's rows of a statement."""
    nodes = {node.id: node for node in top.walk()}
    for row in rows:
        if row["leader_pid"] is None and row["node"] in nodes:
            node = nodes[row["node"]]
            row.update(
                expected=node.expected,
                elapsed_ms=node.elapsed_ms,
                own_ms=node.own_ms if node.elapsed_ms is not None else None,
            )


# -- time ----------------------------------------------------------------------


@dataclass
class Work:
    """A node's work in one phase ("in", "disk" or "out"), in rows or blocks: done so far, and all of it."""

    node: Node
    phase: str
    done: float
    all: float


def work_of(node: Node) -> list[Work]:
    """The work of a node, after reckon()."""
    inputs = node.inputs()
    if node.plan_blocks > 0 and not inputs:
        return [
            (
                Work(node, "in", node.blocks, node.blocks / node.driver)
                if node.driver
                else Work(node, "in", node.plan_blocks * node.share, node.plan_blocks)
            )
        ]
    taken, expected = sum(child.rows for child in inputs), sum(
        child.rows / child.driver if child.driver else child.expected for child in inputs
    )
    parts = [Work(node, "in", taken, expected)]
    if node.kind != "Hash":  # it is read by the join
        parts.append(Work(node, "out", node.rows, node.expected))
    if node.spills:
        parts.insert(1, Work(node, "disk", taken * (1.0 if node.done else node.read_again()), expected))
    for part in parts:
        part.all = part.done / node.driver if node.driver else max(part.all, part.done)
    return parts


def price(node: Node) -> float:
    """The planner's cost of a unit of a node's work: the node's part of the cost over the expected rows or blocks."""
    inputs = node.inputs()
    loops = [
        max(inputs[0].plan_rows, 1.0) if node.kind == "Nested Loop" and number == 1 else 1.0
        for number in range(len(inputs))
    ]
    below = sum(child.plan_cost * times for child, times in zip(inputs, loops)) + sum(
        child.plan_cost for child in node.children[len(inputs) :]
    )
    units = node.plan_rows + sum(child.plan_rows * times for child, times in zip(inputs, loops))
    return max(node.plan_cost - below, 0.0) / max(node.plan_blocks if node.plan_blocks and not inputs else units, 1.0)


def account(top: Node) -> tuple[float, float, float, tuple[int, str], float]:
    """Work of a plan in ms: done, all, and left in the running pipeline; and that pipeline's driver and its share."""
    parts = {node.id: work_of(node) for node in top.walk()}
    taken = {number: sum(part.done for part in work) for number, work in parts.items()}
    prices = {node.id: price(node) for node in top.walk()}
    measured = {node.id: node.own_ms / taken[node.id] for node in top.walk() if node.rows > 0 and node.own_ms > 0}
    asked = sum(prices[number] * taken[number] for number in measured)
    rate = sum(each * taken[number] for number, each in measured.items()) / asked if asked > 0 else 1.0
    cost = {number: measured.get(number, rate * each) for number, each in prices.items()}
    if not any(cost.values()):
        cost = dict.fromkeys(cost, 1.0)
    running, driver, share = running_pipeline(top, parts)
    return (
        sum(cost[number] * done for number, done in taken.items()),
        sum(cost[part.node.id] * part.all for work in parts.values() for part in work),
        sum(cost[part.node.id] * (part.all - part.done) for part in running),
        driver,
        share,
    )


def running_pipeline(top: Node, parts: Mapping[int, list[Work]]) -> tuple[list[Work], tuple[int, str], float]:
    """The work of the running pipeline, its driver (node and phase), and the driver's share.

    The driver is the lowest node at work; the pipeline is all nodes above it up to one that needs its whole input, with
    their inner sides and repeated subplans.
    """
    lowest = current(top)
    path = [top]
    while path[-1] is not lowest:
        path.append(next(child for child in path[-1].children if any(node is lowest for node in child.walk())))
    driving = {part.phase: part for part in parts[lowest.id]}
    phase = (
        "disk"
        if lowest.read_again()
        else "out" if lowest.kind in BLOCKING and lowest.inputs() and lowest.kind != "Hash" else "in"
    )
    # groups from memory are returned first, and whole batches are read at once: neither has a pace
    share = 0.0 if lowest.spills and phase != "in" else lowest.share
    found = (
        list(driving.values()) if lowest.kind not in BLOCKING or phase == "out" or lowest.spills else [driving[phase]]
    )
    for node, child in zip(reversed(path), [None, *reversed(path)]):
        found += [
            part
            for other in node.children
            if other not in path
            for below in other.walk()
            if below.driver
            for part in parts[below.id]
        ]
        if child is None:
            continue
        if child not in node.inputs():
            break  # a subplan that runs once is a pipeline
        found += [part for part in parts[node.id] if node.kind not in BLOCKING or part.phase == "in"]
        if node.kind in BLOCKING:
            break
    return found, (lowest.id, phase), share


def paced(looks: list[tuple[float, tuple[int, str], float]], pace_of: float = PACE_OF) -> float | None:
    """Seconds that the driver of the last sample will take, by its pace; None if its share has not grown yet."""
    now, driver, share = looks[-1]
    same = []
    for look in reversed(looks):
        if look[1] != driver or look[2] > share:
            break
        same.append(look)
    since = now - pace_of * (now - same[-1][0])
    slower = [look for look in same if look[2] < share]
    if not slower:
        return None
    then, _, before = next((look for look in slower if look[0] <= since), slower[-1])
    return max(1.0 - share, 0.0) * (now - then) / (share - before)


def estimate(
    rows: Iterable[Mapping[str, Any]], elapsed: float, before: Progress | None = None, pace_of: float = PACE_OF
) -> Progress:
    """Progress of one statement that has run for `elapsed` seconds; `before` is its last estimate."""
    top = tree(rows)
    if top is None:
        return Progress(None, None, "not visible: it runs without instrumentation")
    if before is not None and before.looks and before.looks[-1][0] >= elapsed:
        before = None  # the session runs the same statement again
    clock(top, elapsed * 1000)
    reckon(top)
    nodes, now = list(top.walk()), current(top)
    done, total, running, driver, share = account(top)
    looks = [*(before.looks if before is not None else []), (elapsed, driver, share)]
    if len(looks) > LOOKS:
        looks = looks[: LOOKS // 2 : 2] + looks[LOOKS // 2 :]
    pace = paced(looks, pace_of)
    each = elapsed / done if done > 0 else 0.0
    left = (total - done) * each if pace is None else pace + max(total - done - running, 0.0) * each
    if done <= 0 or elapsed <= 0:
        return Progress(None, None, "too early to tell", now.label, now.rows, top, looks)
    share = min(elapsed / (elapsed + left), 0.999)
    how = f"rows of {len(nodes)} nodes, by rows returned so far" + (
        f"; {now.label} by its pace" if pace is not None else ""
    )
    batches = next((node for node in nodes if node.read_again() and not node.done and not node.driver), None)
    if batches is not None:
        how += "; {} has read {:,.0f} of {:,.0f} pages that it wrote to disk".format(
            batches.label, *batches.spilled_pages()
        )
    if before is not None and before.share is not None and round(100 * share) < round(100 * before.share):
        how = f"corrected from {before.share:.0%}: {why_back(nodes, now, before)}; {how}"
    return Progress(share, left, how, now.label, now.rows, top, looks)


def why_back(nodes: list[Node], now: Node, before: Progress) -> str:
    """Why a share fell: unexpected rows, files on disk, or a slower pace."""
    spilled = next((node for node in nodes if node.spills and not node.done), None)
    if spilled is not None:
        return f"{spilled.label} does not fit into memory, and reads from disk what it wrote there"
    then = {node.id: node.expected for node in before.top.walk()} if before.top is not None else {}
    if then and all(node.expected <= 1.01 * then.get(node.id, 0.0) for node in nodes):
        return f"{now.label} is slower than before, or than expected"
    wrong = max(nodes, key=lambda node: node.rows / max(node.plan_rows * max(node.loops, 1), 1))
    return f"more rows than expected in {wrong.label}"


# -- commands without a plan ---------------------------------------------------

#: Core's views of commands without a plan: name, and the share of their work; parts of unknown length count equally.
COMMANDS = {
    "pg_stat_progress_create_index": (
        "CREATE INDEX",
        "(coalesce(blocks_done::float8 / nullif(blocks_total, 0), 1)"
        " + coalesce(tuples_done::float8 / nullif(tuples_total, 0), 0)) / 2",
    ),
    "pg_stat_progress_vacuum": (
        "VACUUM",
        "(heap_blks_scanned + heap_blks_vacuumed)::float8 / nullif(2 * heap_blks_total, 0)",
    ),
    "pg_stat_progress_analyze": ("ANALYZE", "sample_blks_scanned::float8 / nullif(sample_blks_total, 0)"),
    "pg_stat_progress_cluster": (
        "CLUSTER",
        "CASE WHEN phase LIKE 'rebuilding%' OR phase LIKE 'performing%' THEN 0.5"
        " ELSE heap_blks_scanned::float8 / nullif(2 * heap_blks_total, 0) END",
    ),
    "pg_stat_progress_copy": ("COPY", "bytes_processed::float8 / nullif(bytes_total, 0)"),
    "pg_stat_progress_basebackup": ("BASE BACKUP", "backup_streamed::float8 / nullif(backup_total, 0)"),
}
#: How the views name the command and its phase.
PHASES = {
    "pg_stat_progress_create_index": "command || coalesce(' ' || nullif(phase, ''), '')",
    "pg_stat_progress_cluster": "command || coalesce(' ' || nullif(phase, ''), '')",
    "pg_stat_progress_copy": "command || ' ' || type",
}


def commands_query() -> str:
    """One query for the share and phase of all commands that core's progress views show."""
    return " UNION ALL ".join(
        f"SELECT pid, least(greatest({share}, 0), 1) AS share, "
        + PHASES.get(view, f"'{name} ' || phase")
        + f" AS phase FROM {view}"
        for view, (name, share) in COMMANDS.items()
    )
