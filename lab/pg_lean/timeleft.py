"""How long a running statement will take, from how far the nodes of its plan are (progress.py says that).

Each node has work in up to three phases: to take its input, to work on disk (what was spilled is read again, runs are merged),
to return rows; in rows, or blocks where a scan's are known.  Work is priced: by the node's own time so far where that is known,
by the planner's price where not, in the money of those that are measured.  Work done over all work is the share.

But work is not all alike, and the planner's prices are only so good.  So the pipeline that runs is foretold by its own pace:
what its driver has done since a moment not long ago, by the clock on the wall (the weighted pipelines of K. Lee,
A. C. König, V. Narasayya, B. Ding, S. Chaudhuri, B. Ellwein, A. Eksarevskiy, M. Kohli, J. Wyant, P. Prakash, R. Nehme, J. Li, J. Naughton: Operator
and query progress estimation in Microsoft SQL Server Live Query Statistics, SIGMOD 2016, are the idea).  A loop whose
cache fills, a filter that meets its rows late, a disk that turns slow are then told as soon as they are seen.  What follows
that pipeline has prices only.

Where an aggregate has written more rows to disk than the planner expected groups, nobody knows how many groups are in them:
as many as the planner said, or each row its own.  Both are reckoned; if they agree well enough, the middle is told, and if not, nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Mapping

from pg_lean.progress import BLOCKING, HASH_AGGREGATES, Node, clock, current, reckon, tree

#: What a row costs by kind, relative to a row of a sequential scan, where the planner's price is not known.
COSTS = {"Seq Scan": 1.0, "Index Scan": 4.0, "Index Only Scan": 2.0, "Bitmap Heap Scan": 3.0, "Bitmap Index Scan": 0.5, "Sort": 5.0, "Hash": 2.0,
         "HashAggregate": 4.0, "Insert": 8.0, "Update": 12.0, "Delete": 8.0, "WindowAgg": 4.0, "Function Scan": 1.5, "Foreign Scan": 10.0}

#: What a row that goes in, and one that comes out, costs a node whose work is mostly done before its first row.
IN, OUT = {"Sort": 1.3}, {"Sort": 0.7}

#: What a merge pass of an external sort takes for each row, which is read, compared with the first ones of a few runs, and written.
MERGE = 0.6

#: What a row costs an aggregate that reads it again from disk, and what a group costs that it makes of such rows, compared with a row
#: that it took before, which it looked up and, often, wrote.
AGAIN, GROUP = 0.35, 1.4

#: A row from a worker is priced so that the planner thinks twice about them, not by what it takes.
GATHERED = 0.1

#: Rows that must have gone in and out of a node for its own time to be taken as its cost.
ENOUGH_ROWS = 1000

#: Part of a sort's expected input from which it may have all of it.
ALL_IN = 0.97

#: Part of a merge pass that must be over for its price to be known, and bytes of a page.
ENOUGH_MERGED, BLOCK = 0.1, 8192

#: Nodes whose time in a call that goes on tells what their rows take: they do the same for each of them from the first to the last.
STEADY = ("Aggregate", "HashAggregate", "MixedAggregate")

#: Below this share, or before this many seconds, no time is foretold.
TOO_EARLY_SHARE, TOO_EARLY_SECONDS = 0.005, 0.2

#: How many times as long a statement may take with the most groups on disk as with the fewest for anything to be told.
UNSURE_WITHIN = 2.5

#: A driver's pace is taken over the later part of its time, this much of it, if that is long enough (seconds, share of the driver); looks that are remembered.
PACE_OF, PACE_SECONDS, PACE_SHARE, PACE_LOOKS = 0.6, 0.25, 0.01, 64

#: What falls back less than this is not told as falling back: it stays where it is.
STEP_BACK = 0.01


@dataclass(frozen=True)
class Sorting:
    """What was seen of a sort on disk."""

    #: Milliseconds of its own for each row that it took.
    each: float
    #: Rows that it had taken, and bytes that its processes had written by then, if that is known.
    rows: float
    written: float | None
    #: What its merge passes take over what they usually take.
    merge_price: float = 1.0


@dataclass
class Progress:
    """What is known of a statement."""

    #: 0 to 1; None if nothing can be said.
    share: float | None
    #: Seconds; None if nothing can be said.
    left: float | None
    #: How it was reckoned, or why not; and why it went back if it did.
    how: str
    #: The node that works now.
    current: str = ""
    #: Its rows so far.
    rows: float = 0.0
    #: The plan that was reckoned with, or nothing.
    top: Node | None = None
    #: What was learned of sorts that go to disk, by node.
    sorts: dict[int, "Sorting"] = field(default_factory=dict)
    #: Looks at what drives the pipeline that runs: seconds since the statement began, node and phase, share of it that is done.
    looks: list[tuple[float, tuple[int, str], float]] = field(default_factory=list)


@dataclass
class Work:
    """A node's work in one phase ("in", "disk" or "out"): done so far, and all of it, in rows or blocks."""

    node: Node
    phase: str
    done: float
    all: float


def price(node: Node) -> float:
    """What the planner asks for one row that goes in or out of a node: its own part of the price, by the rows that it expected."""
    inputs = node.inputs()
    loops = [max(inputs[0].plan_rows, 1.0) if node.kind.startswith("Nested Loop") and number == 1 else 1.0 for number in range(len(inputs))]
    if node.plan_cost <= 0:
        return COSTS.get(node.kind, 1.0)
    below = sum(child.plan_cost * times for child, times in zip(inputs, loops)) + sum(child.plan_cost for child in node.children[len(inputs):])
    own = max(node.plan_cost - below, 0.001 * node.plan_cost) * (GATHERED if node.kind.startswith("Gather") else 1.0)
    return own / max(node.plan_rows + sum(child.plan_rows * times for child, times in zip(inputs, loops)), 1.0)


def work_of(node: Node) -> list[Work]:
    """What a node has done and has to do; reckon() has been there."""
    if node.plan_blocks > 0 and not node.inputs():
        # a scan whose blocks are known pays for these, whatever it returns
        return [Work(node, "in", node.blocks, node.blocks / node.driver) if node.driver else Work(node, "in", node.plan_blocks * node.share, node.plan_blocks)]
    # a node that takes rows in pays for these, whatever it returns
    aggregate = node.spills and node.kind in HASH_AGGREGATES
    goes_in, again_in = IN.get(node.kind, 1.0), AGAIN if aggregate else 1.0
    comes_out = MERGE * node.merge_price if node.runs() > 1 else GROUP if aggregate else OUT.get(node.kind, 1.0)
    parts = [Work(node, "in", goes_in * sum(child.rows for child in node.inputs()), goes_in * sum(child.rows / child.driver if child.driver else child.expected for child in node.inputs())),
             Work(node, "disk", 0.0, 0.0), Work(node, "out", comes_out * node.rows, comes_out * node.expected)]
    disk = parts[1]
    if node.spills:
        # rows in temporary files go in once more; while the input goes on, as many more are expected as there is more of it
        again = node.spilled_rows()
        so_far = 1.0 if node.read_again() or node.done else max(min(1.0, sum(child.share for child in node.inputs()[:1])), 0.01)
        most = sum(max(child.expected, child.rows) for child in node.inputs())
        disk.done, disk.all = again_in * again * (1.0 if node.done else node.read_again()), again_in * min(again / so_far, most)
    passes, merged = node.merges()
    if passes:
        disk.done += MERGE * node.merge_price * merged * sum(child.rows for child in node.inputs())
        disk.all += MERGE * node.merge_price * passes * sum(child.expected for child in node.inputs())
    for part in parts:
        part.all = part.done / node.driver if node.driver else max(part.all, part.done)
    return parts


@dataclass
class Account:
    """All work of a statement, priced."""

    #: Of the statement; left in the pipeline that runs.
    done: float
    total: float
    running: float
    #: What drives that pipeline, and how much of it is done.
    driver: tuple[int, str]
    share: float


def account(top: Node, sorts: Mapping[int, Sorting]) -> Account:
    """Price all work of a plan that reckon() and merging() have been at; `sorts` is what the latter returned."""
    nodes = list(top.walk())
    parts = {node.id: work_of(node) for node in nodes}
    taken = {number: sum(part.done for part in work) for number, work in parts.items()}
    prices = {}
    for node in nodes:
        prices[node.id] = price(node)
        if node.plan_blocks > 0 and not node.inputs():
            prices[node.id] = node.plan_cost / node.plan_blocks if node.plan_cost > 0 else prices[node.id] * max(node.expected, 1.0) / node.plan_blocks
    # where a node's time is known, it takes the place of the price, in the same money
    measured = {node.id: node.own_ms / taken[node.id] for node in nodes if (node.rows > 0 or node.kind in STEADY) and node.own_ms > 0 and taken[node.id] >= ENOUGH_ROWS}
    measured.update({node.id: sorts[node.id].each / IN["Sort"] for node in nodes if node.id in sorts and not node.rows and taken[node.id] >= ENOUGH_ROWS})
    rate = _money(measured, prices, taken)
    cost = {node.id: measured.get(node.id, rate * prices[node.id]) for node in nodes}
    running, driver, share = running_pipeline(top, parts)
    return Account(sum(cost[number] * done for number, done in taken.items()), sum(cost[number] * part.all for number, work in parts.items() for part in work),
                   sum(cost[part.node.id] * (part.all - part.done) for part in running), driver, share)


def _money(measured: Mapping[int, float], prices: Mapping[int, float], taken: Mapping[int, float]) -> float:
    """Milliseconds for a unit of the planner's prices: what all that was measured took over what was asked for it."""
    asked = sum(prices[number] * taken[number] for number in measured)
    return sum(each * taken[number] for number, each in measured.items()) / asked if asked > 0 else 1.0


def path_to(top: Node, lowest: Node) -> list[Node]:
    """The nodes from one to another that is below it, with both."""
    path = [top]
    while path[-1] is not lowest:
        path.append(next(child for child in path[-1].children if any(node is lowest for node in child.walk())))
    return path


def running_pipeline(top: Node, parts: Mapping[int, list[Work]]) -> tuple[list[Work], tuple[int, str], float]:
    """The work of the pipeline that runs, and what drives it: node, phase and how much of it is done.

    The driver is the lowest node that is at work, and all above it up to one that takes its whole input first,
    with their inner sides and subplans that run again and again.
    """
    lowest = current(top)
    path = path_to(top, lowest)
    driving = {part.phase: part for part in parts[lowest.id]}
    phase, share = "in", lowest.share
    if lowest.kind in BLOCKING and "out" in driving:
        phase = "disk" if lowest.read_again() or (lowest.merged and not lowest.rows) else "out"
        if phase == "out" and lowest.spills:
            share = 0.0  # groups from memory come first, and fast: they tell nothing of those on disk
        if lowest.merged and not lowest.rows:
            share = driving["disk"].done / max(driving["disk"].all, 1.0)
    elif lowest.read_again():
        phase = "disk"
    if lowest.read_again():
        share = 0.0  # it reads whole batches at once, and has no pace
    found = list(driving.values()) if lowest.kind not in BLOCKING or phase == "out" or lowest.spills else [driving[phase]]
    for node, child in zip(reversed(path), [None, *reversed(path)]):
        found += [part for other in node.children if other not in path for below in other.walk() if below.driver for part in parts[below.id]]
        if child is None:
            continue
        if child not in node.inputs():
            break  # a subplan that runs once is for itself
        found += [part for part in parts[node.id] if node.kind not in BLOCKING or part.phase == "in"]
        if node.kind in BLOCKING:
            break
    return found, (lowest.id, phase), share


def paced(looks: list[tuple[float, tuple[int, str], float]]) -> float | None:
    """Seconds that the driver of the last look will take, by its pace; None if it was not seen for long enough."""
    now, driver, share = looks[-1]
    same = []
    for look in reversed(looks):
        if look[1] != driver or look[2] > share:
            break
        same.append(look)
    since = now - PACE_OF * (now - same[-1][0])
    enough = [look for look in same if now - look[0] >= PACE_SECONDS and share - look[2] >= PACE_SHARE]
    if not enough:
        return None
    then, _, before = next((look for look in enough if look[0] <= since), enough[-1])
    return max(1.0 - share, 0.0) * (now - then) / (share - before)


def seconds_left(found: Account, elapsed: float, pace: float | None) -> float:
    """The pipeline that runs by its pace if it has one, the rest by what work has cost so far."""
    each = elapsed / found.done if found.done > 0 else 0.0
    if pace is None:
        return (found.total - found.done) * each
    return pace + max(found.total - found.done - found.running, 0.0) * each


def estimate(rows: Iterable[Mapping[str, Any]], elapsed: float, before: Progress | None = None) -> Progress:
    """Progress of one statement that has run for `elapsed` seconds; `before` is what was said of it last."""
    top = tree(rows)
    if top is None:
        return Progress(None, None, "not visible: it runs without instrumentation")
    if before is not None and before.looks and before.looks[-1][0] >= elapsed:
        before = None  # the session runs the same statement once more
    clock(top, elapsed * 1000)
    reckon(top)
    sorts = merging(top, before)
    if any(node.merged for node in top.walk()):
        reckon(top)
    nodes = list(top.walk())
    now = current(top)
    found = account(top, sorts)
    looks = (before.looks if before is not None else []) + [(elapsed, found.driver, found.share)]
    if len(looks) > PACE_LOOKS:
        looks = looks[:PACE_LOOKS // 2:2] + looks[PACE_LOOKS // 2:]
    pace = paced(looks)
    left = seconds_left(found, elapsed, pace)
    unsure = next((node for node in nodes if node.unsure()), None)
    told = ""
    if unsure is not None:
        for node in nodes:
            node.most_groups = node.unsure()
        reckon(top)
        longest = seconds_left(account(top, sorts), elapsed, pace)
        if elapsed + longest > UNSURE_WITHIN * (elapsed + left):
            return Progress(None, None, f"{unsure.label} has more groups than memory was for: how many is not known before some of them are read from disk again", now.label, now.rows, top, sorts, looks)
        told = f"; {unsure.label} has more groups than memory was for, {elapsed + left:,.1f} to {elapsed + longest:,.1f} seconds in all by how many"
        left = ((elapsed + left) * (elapsed + longest)) ** 0.5 - elapsed
    share = elapsed / (elapsed + left) if found.done > 0 and elapsed > 0 else None
    if share is None or share < TOO_EARLY_SHARE or elapsed < TOO_EARLY_SECONDS:
        return Progress(share, None, "too early to tell", now.label, now.rows, top, sorts, looks)
    share = min(share, 0.999)
    how = f"rows of {len(nodes)} nodes, by what was returned so far" + (f"; {now.label} by its pace" if pace is not None else "") + told + on_disk(nodes)
    if before is not None and before.share is not None and share < before.share:
        if before.share - share <= STEP_BACK:
            share = before.share
        else:
            how = f"corrected from {before.share:.0%}: {why_back(nodes, now, before)}{on_disk(nodes)}"
    return Progress(share, elapsed * (1 - share) / share, how, now.label, now.rows, top, sorts, looks)


def on_disk(nodes: list[Node]) -> str:
    """What is told of the node that reads again what it spilled, and of a sort that merges."""
    told = ""
    batches = next((node for node in nodes if node.read_again() and not node.done and not node.driver), None)
    if batches is not None:
        read, written = batches.spilled_pages()
        told += f"; {batches.label} has read {read:,.0f} of {written:,.0f} pages that it wrote to disk"
    sort = next((node for node in nodes if node.merged > 0 and not node.rows and node.merges()[0]), None)
    if sort is not None:
        passes, merged = sort.merges()
        told += f"; {sort.label} merges what it wrote to disk, pass {int(merged) + 1} of {passes} before the last"
    return told


def why_back(nodes: list[Node], now: Node, before: Progress) -> str:
    """Why a share fell: rows that were not expected, something on disk, or a pace that turned slower."""
    spilled = next((node for node in nodes if node.spills and not node.done), None)
    if spilled is not None:
        return f"{spilled.label} does not fit into memory, and reads from disk what it wrote there"
    then = {node.id: node.expected for node in before.top.walk()} if before.top is not None else {}
    if then and all(node.expected <= 1.01 * then.get(node.id, 0.0) for node in nodes):
        return f"{now.label} is slower than before, or than expected"
    return f"more rows than expected in {_wrong(nodes).label}"


def merging(top: Node, before: Progress | None) -> dict[int, Sorting]:
    """Set how far sorts on disk are that have all of their input, and what their passes take; returns what was learned, for the next look.

    While its input comes, a sort's own time tells what a row takes.  When no more comes and it returns nothing, it merges:
    each pass writes all that the runs have, and nobody else writes in that process.  Where those bytes are not known, a pass
    takes each row in proportion.  Where more is expected to come, it only sorts what fills its memory.
    """
    found = {}
    for node in top.walk():
        last = before.sorts.get(node.id) if before is not None else None
        if node.rows and last is not None:
            found[node.id], node.merge_price = last, last.merge_price
        if node.rows or node.elapsed_ms is None or node.runs() <= 1:
            continue
        taken, own = node.inputs()[0].rows, node.own_ms
        if taken < ENOUGH_ROWS or own <= 0:
            continue
        if last is None or last.rows != taken:
            found[node.id] = Sorting(own / taken, taken, node.process_written)
            continue
        if node.inputs()[0].share >= ALL_IN:
            usual = last.each * MERGE / IN["Sort"] * taken
            passes, price = max(own - last.each * taken, 0.0) / usual, last.merge_price
            if last.written is not None and node.process_written is not None and node.temp_written > 0:
                by_time, passes = passes, max(node.process_written - last.written, 0.0) / (node.temp_written * BLOCK)
                price = by_time / passes if passes >= ENOUGH_MERGED else price
            node.merged, node.merge_price = passes, price
            last = replace(last, merge_price=price)
        found[node.id] = last
    return found


def _wrong(nodes: list[Node]) -> Node:
    """The node that returned the most beyond the planner's estimate."""
    return max(nodes, key=lambda node: node.rows / max(node.plan_rows * max(node.loops, 1), 1))
