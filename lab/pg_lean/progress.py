"""How far the nodes of a running statement's plan are, reckoned from their figures so far.

A plan falls into pipelines: nodes that pass rows on as they get them.  A node that
must have all its input first (Sort, Hash, HashAggregate ...) ends one pipeline and
feeds the next.  The nodes at the lower end of a pipeline drive it: how much of
them is done is how much of the pipeline is done, whatever comes out at its upper
end (S. Chaudhuri, V. Narasayya, R. Ramamurthy: Estimating progress of execution for
SQL queries, SIGMOD 2004).  From this follows what each node may be expected to
return:

* a pipeline that is done: what it returned;
* one that runs: the planner's estimate gives way to what it returned over the
  driver's share, the more the further the driver is;
* one that has not begun: the planner's estimate, corrected by the factor by which
  the estimates below it were wrong;
* the inner side of a nested loop runs once for each row of its outer side, so it
  drives nothing.

What that means in time is reckoned in timeleft.py.  All of it is an estimate: a filter that meets its rows at
the end of a table cannot be foreseen.

A hash that does not fit into memory has two phases.  While it takes its input it
writes rows to temporary files; then it reads them again, batch by batch.  All that
was written is read once (what a batch spills again is written again, too), so pages
read over pages written is how far the second phase is, and a hash join that reads
has had all of its outer side.  Before an aggregate reads its files nobody knows how
many groups are in them, where they hold more rows than the planner expected groups.

A sort that does not fit writes sorted runs while it takes its input, and merges them.
It merges as many at a time as its memory has room for buffers, so with little memory
and much to sort all rows are written and read again one or several times before the
merge that returns them.  How often follows from the rows that are expected, their width and
work_mem, as in core's tuplesort.c.  All of these passes are in one call of the sort, during
which no counter of the statement moves.  But its process writes nothing else then, so how far they are is told by
the bytes that the kernel has counted, or, where the server cannot know them, by the time since the sort's
input ended.

A node that has not returned once has no time of its own in light_explain's figures.
But the time since the statement began, less that of the other nodes below the one that
called it, is that of the call which goes on: see clock().
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

#: Nodes that return nothing until they have read all of their (first) input.
BLOCKING = ("Sort", "Hash", "HashAggregate", "MixedAggregate", "Aggregate", "BitmapAnd", "BitmapOr", "Bitmap Index Scan", "HashSetOp")

#: Aggregates whose groups may go to temporary files.
HASH_AGGREGATES = ("HashAggregate", "MixedAggregate")

#: Rows on a page of a spilled hash, of a usual width (about 60 bytes); there are never more than went in.
SPILLED_ROWS_A_PAGE = 128

#: Part of the pages that an aggregate wrote that it reads again: those of each of its partitions are set aside in advance, and a page
#: that is written behind one that was set aside has zeros written there first (logtape.c).  0.55 to 0.67 were seen.
READ_OF_WRITTEN = 0.62

#: Part of its spilled pages that an aggregate must have read for its groups to be foretold by those that came of them.
ENOUGH_READ = 0.05

#: Bytes of memory that a row takes in a sort beyond its width (headers of the tuple and of its memory, its place in the array), and those that
#: a run takes to be merged (tuplesort.c: a tape's page both ways, and 32 pages to read ahead), and of how many runs at least and at most.
SORTED_ROW, MERGED_RUN, MERGED_RUNS = 48, (2 + 32) * 8192, (6, 500)


def kind_of(label: str) -> str:
    """A label's kind of node: "Parallel Index Scan Backward using i on t" is an "Index Scan"."""
    text = re.sub(r"^(?:(?:InitPlan|SubPlan|CTE) \S+: )?(?:(?:Parallel|Partial|Finalize|Async|Custom Scan) ?)*", "", label.strip())
    text = re.sub(r"^\(([^)]*)\).*", r"\1", text)  # "Custom Scan (Temp Scan) on t"
    text = re.split(r" (?:on|using) | Backward", text)[0]
    return "Seq Scan" if text == "Temp Scan" else text


@dataclass
class Node:
    """A plan node with its figures over all processes."""

    id: int
    label: str
    plan_rows: float
    rows: float = 0.0
    loops: float = 0.0
    called: bool = False
    total_ms: float = 0.0
    blocks: float = 0.0
    plan_blocks: float = 0.0
    temp_read: float = 0.0
    temp_written: float = 0.0
    #: Bytes that its processes have written since they began, whatever they did; None if the server cannot tell.
    process_written: float | None = None
    #: Kilobytes that the node may take; 0 if that is not known.
    work_mem: float = 0.0
    #: Bytes of a row, as the planner expects; 0 if that is not known.
    width: float = 0.0
    #: Processes that run its statement, and are seen.
    processes: int = 0
    #: Does the statement measure times?
    timed: bool = False
    #: Passes of an external sort that are done, while it merges, and what such a pass takes over what it usually takes: timeleft.py sets both.
    merged: float = 0.0
    merge_price: float = 1.0
    #: Milliseconds in this node and those below it, also of a call that goes on; None if it is not known: see clock().
    elapsed_ms: float | None = None
    #: The planner's price of the node with all below it, for one loop; 0 if it is not known.
    plan_cost: float = 0.0
    children: list["Node"] = field(default_factory=list)
    # what the estimate works out
    kind: str = ""
    expected: float = 0.0
    done: bool = False
    share: float = 0.0
    #: Has an aggregate as many groups as it can have?
    most_groups: bool = False
    #: What is run again and again (inner sides, subplans): how much of its runs is done; 0: it runs once.
    driver: float = 0.0

    @property
    def spills(self) -> bool:
        """Has this hash written some of its rows to temporary files?  Of a hash join the hash table's part of them counts as well."""
        return self.spilled_pages()[1] > 0

    def spilled_pages(self) -> tuple[float, float]:
        """Pages of temporary files that a hash has read, and those that it wrote to be read."""
        if self.kind in HASH_AGGREGATES:
            return self.temp_read, max(self.temp_written * READ_OF_WRITTEN, self.temp_read)
        if self.kind.startswith("Hash ") and len(self.children) > 1:
            table = self.children[1]
            return self.temp_read + table.temp_read, self.temp_written + table.temp_written
        return 0.0, 0.0

    def read_again(self) -> float:
        """Which part of what was written so far has been read: how far the second phase is; 0 while there is none."""
        read, written = self.spilled_pages()
        return min(1.0, read / written) if written > 0 else 0.0

    def unsure(self) -> bool:
        """Has an aggregate written more rows to disk than the planner expected groups, and not read enough of them to know better?"""
        expected = max(self.plan_rows * max(self.loops, 1.0), 1.0)
        return self.kind in HASH_AGGREGATES and not self.done and not self.driver and self.spilled_rows() > expected and self.read_again() < ENOUGH_READ

    def groups(self, fewest: float) -> float:
        """Groups of an aggregate with rows on disk: `fewest`, or if the most are asked for, or there are more already, as many more as rows are there."""
        if not self.most_groups and (self.rows <= fewest or not self.spills):
            return fewest
        source = self.inputs()[0]
        return min(fewest + self.spilled_rows() / max(min(source.share, 1.0), 0.01), max(source.expected, source.rows))

    def spilled_rows(self) -> float:
        """Rows that are in the temporary files by now, roughly."""
        return min(self.spilled_pages()[1] * SPILLED_ROWS_A_PAGE, sum(child.rows for child in self.inputs()))

    def runs(self) -> float:
        """Sorted runs that a sort writes to disk, as far as can be told; 1 or less: it stays in memory."""
        if self.kind != "Sort" or not self.work_mem or not self.width or not self.inputs():
            return 0.0
        source = self.inputs()[0]
        rows = source.rows if self.rows > 0 or self.merged > 0 else max(source.expected, source.rows)
        return rows / max(self.processes, 1) * (self.width + SORTED_ROW) / (self.work_mem * 1024)

    def merges(self) -> tuple[int, float]:
        """Of a sort on disk: passes over all of it before the one that returns rows, and how many of them are done."""
        runs = self.runs()
        if runs <= 1:
            return 0, 0.0
        at_once = min(max(self.work_mem * 1024 // MERGED_RUN, MERGED_RUNS[0]), MERGED_RUNS[1])
        passes = max(math.ceil(math.log(runs) / math.log(at_once) - 0.01) - 1, 0)
        return passes, float(passes) if self.rows > 0 else min(self.merged, 0.99 * passes)

    @property
    def own_ms(self) -> float:
        """Without the nodes below, also of a call that goes on where clock() could tell."""
        total = self.total_ms if self.elapsed_ms is None else self.elapsed_ms
        return max(0.0, total - sum(child.total_ms if child.elapsed_ms is None else child.elapsed_ms for child in self.children))

    @property
    def returned(self) -> bool:
        """Has a call of it ended, so that its time is known?"""
        return self.total_ms > 0

    def walk(self) -> Iterable["Node"]:
        yield self
        for child in self.children:
            yield from child.walk()

    def inputs(self) -> list["Node"]:
        """Children whose rows pass through this node; the others are its subplans and are not foretold."""
        if self.kind.endswith("Scan") and self.kind not in ("Bitmap Heap Scan", "Subquery Scan"):
            return []
        if self.kind in ("Append", "MergeAppend", "Merge Append", "BitmapAnd", "BitmapOr", "Recursive Union"):
            return self.children
        return self.children[:2 if self.kind.startswith(("Nested Loop", "Hash ", "Merge ")) and self.kind != "Hash" else 1]


def tree(rows: Iterable[Mapping[str, Any]]) -> Node | None:
    """The plan of light_explain_progress() rows of one statement: the leader's nodes with the workers' figures added."""
    rows = sorted(rows, key=lambda row: (row["leader_pid"] is not None, row["node"]))
    nodes: dict[int, Node] = {}
    parents: dict[int, int | None] = {}
    for row in rows:
        node = nodes.get(row["node"])
        if node is None:
            node = nodes[row["node"]] = Node(row["node"], str(row["label"]).strip(), float(row["plan_rows"]), kind=kind_of(str(row["label"])), plan_cost=float(row.get("plan_cost") or 0))
            parents[row["node"]] = row["parent"]
        node.rows += float(row["rows"])
        node.loops += float(row["loops"])
        node.called = node.called or bool(row["called"])
        node.total_ms += float(row["total_ms"] or 0)
        node.blocks += sum(float(row.get(name) or 0) for name in ("shared_hit", "shared_read", "local_blocks"))
        node.temp_read += float(row.get("temp_read") or 0)
        node.temp_written += float(row.get("temp_written") or 0)
        if row.get("process_written") is not None:
            node.process_written = (node.process_written or 0.0) + float(row["process_written"])
        node.work_mem = max(node.work_mem, float(row.get("work_mem") or 0))
        node.width = float(row.get("plan_width") or 0)
        node.processes += 1
        node.timed = node.timed or row["total_ms"] is not None
        node.plan_blocks = max(node.plan_blocks, float(row.get("plan_blocks") or 0))
    top = None
    for number in sorted(nodes):
        parent = parents[number]
        if parent is None or parent not in nodes:
            top = top or nodes[number]
        else:
            nodes[parent].children.append(nodes[number])
    # a node that has not returned yet does not know that it was called; those below it do
    for number in sorted(nodes, reverse=True):
        node = nodes[number]
        node.called = node.called or node.rows > 0 or any(child.called for child in node.children)
    return top


def clock(top: Node, elapsed_ms: float) -> None:
    """Set the time of nodes that have not returned yet, and of those that have: `elapsed_ms` is the statement's since it began.

    The top node was called when the statement began.  Whatever a node that has not
    returned calls runs within its time, and one at a time: so a node below it that has
    not returned either had what the others below it left.  Below a node that has returned rows
    nobody knows when the call that goes on began.  Times of workers are added up, as everywhere.
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
    """Among how many processes the planner has divided the rows below a Gather, the leader counted in part, as in core's get_parallel_divisor()."""
    below = gather.children[0].plan_rows if gather.children else 0
    ratio = gather.plan_rows / below if below > 0 else 1.0
    workers = round(ratio)
    if abs(ratio - workers) < 0.01 and workers <= 3:  # rows of partial groups: multiplied by the workers alone
        return workers + max(0.0, 1 - 0.3 * workers)
    return max(ratio, 1.0)


def _reckon(node: Node, loops: float, divided: float, begun: bool) -> float:
    """Set expected rows of a node and all below it; returns by which factor the planner was wrong here.

    `loops` is how often the node is expected to run, `divided` among how many processes the planner divided its rows, `begun` whether the pipeline that it feeds has had all of its rows.
    """
    below = divisor(node) if node.kind in ("Gather", "Gather Merge") else divided
    plan = max(node.plan_rows * divided, 1.0) * max(loops, node.loops if divided == 1 else 1.0, 1.0)
    blocking = node.kind in BLOCKING
    feeding = begun or (blocking and node.rows > 0) or (node.kind == "Sort" and node.merged > 0)
    inputs = node.inputs()
    factor, driven = 1.0, []
    for number, child in enumerate(inputs):
        if node.kind.startswith("Nested Loop") and number == 1:
            outer = inputs[0]
            factor *= _reckon(child, max(outer.expected, outer.rows), below, begun)
            _repeats(child, 1.0 if begun else min(1.0, max(outer.rows, 1.0) / max(outer.expected, 1.0)))
            continue
        if child.kind == "Hash" and number == 1:
            # the hash table is there once the outer side goes on beyond its first row
            factor *= _reckon(child, 1.0, below, begun or inputs[0].rows > 1)
            continue
        factor *= _reckon(child, loops, below, feeding)
        driven.append(child)
    if node.kind in ("Aggregate",):
        factor = 1.0
    for other in node.children[len(inputs):]:
        _reckon(other, 1.0, below, begun)
    if blocking:
        source = inputs[0] if inputs else None
        node.share = source.share if source is not None else 0.0
        if feeding:
            # all of its input is there: what a sort returns is known
            ready = source.rows if source is not None and node.kind == "Sort" else max(node.groups(plan), node.rows)
            again = node.read_again()
            if again and source is not None and not node.unsure():
                # each batch brings its groups: at most one for each row
                ready = min(node.rows / again, max(source.rows, node.rows))
            node.share = min(again, 0.999) if again else min(1.0, node.rows / ready) if ready else 1.0
            node.expected = max(ready, node.rows)
        else:
            node.expected = max(node.groups(plan * factor), node.rows)
    elif not inputs:
        if node.plan_blocks:
            node.share = min(1.0, node.blocks / node.plan_blocks)
            node.expected = node.rows / node.share if node.share > 0.01 else max(plan, node.rows)
        else:
            node.expected = max(plan, node.rows)
            node.share = min(node.rows / node.expected, 0.99) if node.rows else 0.0
    else:
        # what has not returned its first row is at work in a pipeline below this one
        waits = bool(driven) and all(child.kind in BLOCKING and not child.rows for child in driven) and not begun
        weight = sum(child.expected for child in driven) or 1.0
        node.share = 0.0 if waits else sum(child.share * child.expected for child in driven) / weight
        guess = plan * factor
        again = node.read_again()
        if again:
            # batches: all of the outer side is there, whatever the planner expected of it
            node.share = min(again, 0.999)
        if node.kind == "Limit" and node.rows:
            node.share = max(node.share, min(node.rows / max(node.plan_rows, 1.0), 1.0))
        if node.share > 0 and (node.rows or node.share > 0.5):
            weight = node.share ** 0.5
            seen = weight * node.rows / node.share + (1 - weight) * guess
            if node.kind.startswith("Hash") and node.share > 0.9 and not node.spills:
                # a hash join in batches has read all of its outer side before it returns most of its rows: if
                # it is none, the planner expected too much, and this errs for the last tenth only
                guess = max(seen, guess)
                node.share = min(node.rows / guess, 0.999)
            else:
                guess = seen
        node.expected = max(guess, node.rows)
    if begun:
        node.expected, node.share, node.done = node.rows, 1.0, True
    for other in node.children[len(inputs):]:
        if other.loops > 1:
            _repeats(other, min(1.0, max(node.share, 1e-6)))
    return node.expected / plan


def _repeats(top: Node, driver: float) -> None:
    """A node and all below it run again and again, and so much of their runs is done."""
    for node in top.walk():
        node.driver = driver


def reckon(top: Node) -> None:
    """Set what each node of a plan is expected to return, and which are done."""
    _reckon(top, 1.0, 1.0, False)


def current(top: Node) -> Node:
    """The lowest node of the pipeline that runs: what moves is there."""
    node = top
    while True:
        inputs = node.inputs()
        going = [child for child in inputs if child.called and not child.done]
        # before its inputs, what runs once for it: a subplan, a WITH query
        going = going or [child for child in node.children[len(inputs):] if child.called and not child.done and not child.driver and not any(one.called for one in inputs)][:1]
        if not going:
            return node
        node = going[-1] if node.kind.startswith("Hash ") and len(going) > 1 and going[0].rows <= 1 else going[0]


def annotate(rows: Iterable[dict[str, Any]], top: Node) -> None:
    """Add to the leader's rows of a statement what was reckoned of its nodes: rows expected, time elapsed and own, also in a call that goes on."""
    nodes = {node.id: node for node in top.walk()}
    for row in rows:
        if row["leader_pid"] is None and row["node"] in nodes:
            node = nodes[row["node"]]
            row.update(expected=node.expected, elapsed_ms=node.elapsed_ms, own_ms=node.own_ms if node.elapsed_ms is not None else None)


#: Core's views of commands that have no plan: name, share of the work that its counters tell.
COMMANDS = {
    "pg_stat_progress_create_index": ("CREATE INDEX", "CASE WHEN tuples_total > 0 THEN 0.6 + 0.4 * tuples_done::float8 / tuples_total WHEN blocks_total > 0 THEN 0.6 * blocks_done::float8 / blocks_total END"),
    "pg_stat_progress_vacuum": ("VACUUM", "CASE WHEN heap_blks_total > 0 THEN 0.7 * heap_blks_scanned::float8 / heap_blks_total + 0.3 * heap_blks_vacuumed::float8 / heap_blks_total END"),
    "pg_stat_progress_analyze": ("ANALYZE", "CASE WHEN sample_blks_total > 0 THEN sample_blks_scanned::float8 / sample_blks_total END"),
    "pg_stat_progress_cluster": ("CLUSTER", "CASE WHEN phase LIKE 'rebuilding%' OR phase LIKE 'performing%' THEN 0.7 WHEN heap_blks_total > 0 THEN 0.7 * heap_blks_scanned::float8 / heap_blks_total END"),
    "pg_stat_progress_copy": ("COPY", "CASE WHEN bytes_total > 0 THEN bytes_processed::float8 / bytes_total END"),
    "pg_stat_progress_basebackup": ("BASE BACKUP", "CASE WHEN backup_total > 0 THEN backup_streamed::float8 / backup_total END"),
}


def commands_query() -> str:
    """One query for the share and phase of all commands that core's progress views show."""
    parts = []
    for view, (name, share) in COMMANDS.items():
        phase = "command || coalesce(' ' || nullif(phase, ''), '')" if view in ("pg_stat_progress_create_index", "pg_stat_progress_cluster") else \
            "command || ' ' || type" if view == "pg_stat_progress_copy" else f"'{name} ' || phase"
        parts.append(f"SELECT pid, least(greatest({share}, 0), 1) AS share, {phase} AS phase FROM {view}")
    return " UNION ALL ".join(parts)
