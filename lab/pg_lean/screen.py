"""The screen of pg-lean top."""

from __future__ import annotations

import time

import psycopg
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static

from pg_lean import progress
from pg_lean.activity import Activity, Statement
from pg_lean.cluster import Server
from pg_lean.errors import LabError
from pg_lean.waits import KINDS, Period, kind_of

#: Seconds without an answer that are worth a word.
SILENCE_SECONDS = 3.0

#: Columns by which the list can be sorted, in the order in which the key selects them.
ORDERS = ("for", "left", "done", "pid")


def duration(seconds: float | None) -> str:
    """Seconds for people, never longer than seven characters."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
    return f"{seconds / 3600:.1f} h" if seconds < 360000 else f"{seconds / 86400:.0f} d"


def short(number: float) -> str:
    """A count in at most five characters."""
    for unit in ("", "k", "M", "G", "T"):
        if abs(number) < 999.5 or unit == "T":
            return f"{number:.0f}{unit}" if unit == "" or number >= 99.5 else f"{number:.1f}{unit}"
        number /= 1000
    raise AssertionError


def bar(share: float | None, width: int = 10) -> str:
    """A bar of eighths of characters."""
    if share is None:
        return " " * width
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")).ljust(width)


def doing(statement: Statement) -> str:
    """What it does now: who blocks it, what it waits for, or the node that works."""
    if statement.blockers:
        return "blocked by " + ", ".join(map(str, statement.blockers)) + (f" ({statement.lock})" if statement.lock else "")
    node = statement.node
    if statement.rows_per_second:
        node += f" {statement.rows_per_second:,.0f}/s"
    kind, _, event = statement.wait.partition(":")
    if not event or kind == "IPC":
        return node
    # the names of most events say it alone, and there is little room
    return f"{statement.wait if kind in ('Lock', 'LWLock') else event} {node}"


def cells(statement: Statement) -> list[str]:
    """A statement's row."""
    return [str(statement.pid) + (f"+{statement.workers}" if statement.workers else ""), statement.user,
            "?" if statement.share is None else f"{statement.share:.0%}", "?" if statement.left is None else duration(statement.left),
            duration(statement.seconds), doing(statement), " ".join(statement.query.split())]


#: Backgrounds of waits, dark enough for light letters.
WAIT_COLORS = {kind: dark for kind, _, dark in KINDS}


class Question(ModalScreen[bool]):
    """Asks before something is done to another's session."""

    BINDINGS = [Binding("y", "answer(True)", "yes"), Binding("n,escape,q", "answer(False)", "no")]
    CSS = "Question { align: center middle; } Question Static { width: auto; max-width: 90%; border: round $warning; padding: 1 2; background: $surface; }"

    def __init__(self, text: str):
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        yield Static(Text(self.text + "  (y/n)"))

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Plan(Screen):
    """The plan of one statement, with what its nodes have done."""

    BINDINGS = [Binding("escape,enter,q", "app.pop_screen", "back"), Binding("c", "app.cancel", "cancel it")]

    def __init__(self, pid: int):
        super().__init__()
        self.pid = pid

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Vertical():
            yield Static(id="plan")
        yield Footer()

    def on_mount(self) -> None:
        self.show()

    def show(self) -> None:
        statement = next((statement for statement in self.app.statements if statement.pid == self.pid), None)
        if statement is None:
            self.query_one("#head", Static).update(Text(f"process {self.pid} runs no statement now"))
            return
        left = "time left unknown" if statement.left is None else f"{duration(statement.left)} left"
        share = "" if statement.share is None else f"{statement.share:.0%}, "
        seen = f"; {short(statement.blocks)} blocks" if statement.blocks else ""
        self.query_one("#head", Static).update(
            Text(f"{' '.join(statement.query.split())[:400]}\n{share}{left}: {statement.how}\n{doing(statement)}{seen}", style="bold")
        )
        # of a period that was asked for, all buckets
        buckets = 6 if self.app.period is None else len(statement.history)
        self.query_one("#plan", Static).update(Text.assemble(plan_text(statement), waits_text(statement), history_text(statement, buckets)))


def plan_text(statement: Statement) -> Text:
    """The tree, a line each node: bar, rows of those expected, self and total time, including calls in progress; below it the statements of its functions."""
    text = Text(no_wrap=True, overflow="ellipsis")
    if statement.top is None:
        text.append(statement.how + "\n")
    else:
        text.append("       rows  of those expected, ms self/total\n", style="dim")
        _append_tree(text, statement.top, statement.node)
    for rows in statement.inner:
        inner = progress.tree(rows)
        if inner is not None:
            text.append("in one of its functions:\n", style="dim")
            progress.reckon(inner)
            _append_tree(text, inner, statement.node.rpartition(" > ")[2])
    return text


def waits_text(statement: Statement, most: int = 6) -> Text:
    """What samples of this execution show: node, wait, and share of the samples, the most frequent first."""
    text = Text(no_wrap=True, overflow="ellipsis")
    total = sum(row["samples"] for row in statement.waited)
    if total:
        text.append(f"waited for, of {total:,} samples of this execution\n", style="dim")
    for row in statement.waited[:most]:
        share = row["samples"] / total
        text.append(f"{bar(share, 6)} {share:>4.0%} ")
        text.append(row["wait"], style=f"on {WAIT_COLORS[kind_of(row['wait'])]}")
        text.append(f" {row['node']}\n")
    if len(statement.waited) > most:
        text.append(f"and {len(statement.waited) - most} more\n", style="dim")
    return text


def history_text(statement: Statement, most: int = 6) -> Text:
    """The last buckets of the history in which the statement ran: executions, mean time with a bar, 95 percent, longest, and most frequent wait."""
    text = Text(no_wrap=True, overflow="ellipsis")
    if not statement.history:
        return text
    text.append("history: from, executions, mean, 95 % at most, longest, most frequent wait\n", style="dim")
    longest = max(row["mean_ms"] for row in statement.history) or 1.0
    for row in statement.history[:most]:
        begin = row["bucket_start"].astimezone()
        now = " now" if row["bucket_end"] is None else ""
        text.append(f"{bar(row['mean_ms'] / longest, 6)} {begin:%d %H:%M}{now} {short(row['executions']):>5}"
                    + "".join(f" {duration(row[name] / 1000):>7}" for name in ("mean_ms", "p95_ms", "max_ms")))
        wait = max(row["waits"], key=row["waits"].get, default=None)
        if wait is not None:
            text.append(" ")
            text.append(wait, style=f"on {WAIT_COLORS[kind_of(wait)]}")
            text.append(f" {row['waits'][wait] / sum(row['waits'].values()):.0%}")
        text.append("\n")
    return text


def _append_tree(text: Text, top: progress.Node, now: str) -> None:
    """The lines of one plan; `now` is the label of the node that works."""
    def line(node: progress.Node, depth: int) -> None:
        share = min(node.rows / node.expected, 1.0) if node.expected else 0.0
        style = "dim" if not node.called else "green" if node.done else "bold" if node.label == now else ""
        known = not node.timed or node.elapsed_ms is not None or node.returned
        times = f"{short(node.own_ms):>5}/{short(node.total_ms if node.elapsed_ms is None else node.elapsed_ms):<5}" if known else f"{'?':>5}/{'?':<5}"
        text.append(
            f"{bar(share if node.called else 0.0, 6)} {short(node.rows):>5} of {short(node.expected):>5} {times} {'  ' * depth}{node.label}\n", style=style
        )
        for child in node.children:
            line(child, depth + 1)

    line(top, 0)


class Top(App[None]):
    """The list of statements."""

    TITLE = "pg-lean top"
    CSS = "#status { height: 1; } #filter { display: none; height: 3; } #filter.shown { display: block; } DataTable { height: 1fr; }"
    BINDINGS = [
        Binding("enter", "plan", "plan"),
        Binding("s", "sort", "sort"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("p", "pause", "pause"),
        Binding("c", "cancel", "cancel"),
        Binding("q", "quit", "quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, server: Server, every: float, period: Period | None = None):
        super().__init__()
        self.server, self.every, self.period = server, every, period
        self.watch: Activity | None = None
        self.statements: list[Statement] = []
        #: When the question was put that is not answered yet.
        self.asked_at: float | None = None
        self.order, self.word, self.paused, self.trouble, self.unseen = ORDERS[0], "", False, "", ""

    def compose(self) -> ComposeResult:
        yield Static(id="status")
        yield Input(placeholder="only statements, users and nodes with this text", id="filter")
        yield DataTable(cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        # 80 columns hold all of it; what a wider terminal has more goes to the last two
        more = max(self.size.width - 80, 0)
        for name, width in (("pid", 7), ("user", 8), ("done", 9), ("left", 6), ("for", 6), ("now", 14 + more // 3), ("statement", 15 + more - more // 3)):
            table.add_column(name, key=name, width=width)
        table.focus()
        self.look()
        self.set_interval(self.every, self.look)

    # -- what the server says --------------------------------------------------

    def look(self) -> None:
        """Ask again, unless the last question is still without an answer: then say so."""
        if not self.is_running:  # as in take()
            return
        if self.asked_at is not None:
            waited = time.monotonic() - self.asked_at
            if waited > max(SILENCE_SECONDS, 2 * self.every):
                self.trouble = f"no answer for {duration(waited)}"
                self.refill()
        elif not self.paused:
            self.asked_at = time.monotonic()
            self.ask(self.screen.pid if isinstance(self.screen, Plan) else None)

    @work(thread=True)
    def ask(self, opened: int | None) -> None:
        """Query the server, in a separate thread; after a restart open a new session.  `opened` is the process whose plan is shown."""
        try:
            if self.watch is None:
                self.watch = Activity(self.server.connect(), self.period)
            found = self.watch.look()
            self.watch.details([statement for statement in found if statement.pid == opened])
            trouble, unseen = self.watch.reason, self.watch.unseen()
        except (psycopg.Error, LabError) as error:
            if self.watch is not None:
                self.watch.conn.close()
            self.watch, found, trouble, unseen = None, [], f"no answer: {' '.join(str(error).split())}", ""
        self.call_from_thread(self.take, found, trouble, unseen)

    def take(self, found: list[Statement], trouble: str, unseen: str) -> None:
        self.asked_at = None
        if not self.is_running:  # it ends: parts of its screens may be gone
            return
        self.statements, self.trouble, self.unseen = found, trouble, unseen
        self.refill()
        # an answer may come before the parts of the plan's screen are there, or when they were removed to close it
        if isinstance(self.screen, Plan) and len(self.screen.query("#head, #plan")) == 2:
            self.screen.show()

    # -- what is shown -----------------------------------------------------------

    def shown(self) -> list[Statement]:
        word = self.word.lower()
        keys = {
            "for": lambda s: -s.seconds,
            "left": lambda s: -(s.left if s.left is not None else -1),
            "done": lambda s: -(s.share or 0),
            "pid": lambda s: s.pid,
        }
        return sorted((s for s in self.statements if word in f"{s.query} {s.user} {s.node} {s.database}".lower()), key=keys[self.order])

    def refill(self) -> None:
        table = self.screen_stack[0].query_one(DataTable)
        chosen = self.chosen()
        statements = self.shown()
        rows = []
        for statement in statements:
            pid, user, done, left, lasted, now, query = cells(statement)
            rows.append((str(statement.pid), [pid, user, f"{bar(statement.share, 4)} {done:>4}", left, lasted, now, query]))
        if [key for key, _ in rows] == [row.key.value for row in table.ordered_rows]:
            for key, values in rows:
                for column, value in zip(table.ordered_columns, values):
                    table.update_cell(key, column.key, Text(value))
        else:
            table.clear()
            for key, values in rows:
                table.add_row(*map(Text, values), key=key)
            keys = [key for key, _ in rows]
            if chosen is not None and str(chosen) in keys:
                table.move_cursor(row=keys.index(str(chosen)))
        state = (
            f"{len(statements)} of {len(self.statements)} statements, by {self.order}"
            + (", paused" if self.paused else "")
            + (f', with "{self.word}"' if self.word else "")
        )
        self.screen_stack[0].query_one("#status", Static).update(Text(f"{state}  {self.trouble or self.unseen}"))

    def chosen(self) -> int | None:
        """Process of the row under the cursor, or of the plan that is open."""
        if isinstance(self.screen, Plan):
            return self.screen.pid
        table = self.screen_stack[0].query_one(DataTable)
        if table.row_count == 0 or table.cursor_row is None or table.cursor_row >= table.row_count:
            return None
        return int(table.ordered_rows[table.cursor_row].key.value)

    # -- keys ----------------------------------------------------------------------

    def action_sort(self) -> None:
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.refill()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.refill()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.word = event.value
        self.refill()

    def on_input_submitted(self) -> None:
        self.query_one("#filter", Input).set_class(bool(self.word), "shown")
        self.query_one(DataTable).focus()

    def on_data_table_row_selected(self) -> None:
        self.action_plan()

    def action_plan(self) -> None:
        pid = self.chosen()
        if pid is not None and not isinstance(self.screen, Plan):
            self.push_screen(Plan(pid))

    def action_cancel(self) -> None:
        pid = self.chosen()
        statement = next((statement for statement in self.statements if statement.pid == pid), None)
        if statement is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.cancel(statement)

        self.push_screen(Question(f"Cancel the statement of process {pid}?\n{' '.join(statement.query.split())[:200]}\n"), answered)

    @work(thread=True)
    def cancel(self, statement: Statement) -> None:
        """Cancel it, if the process still runs what was asked about."""
        try:
            with self.server.connect() as conn:
                done = conn.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = %s::int AND query = %s::text AND state = 'active'",
                                    (statement.pid, statement.query)).fetchone()
            text, level = ("cancelled" if done and done[0] else "that statement had ended already"), "information"
        except (psycopg.Error, LabError) as error:
            text, level = " ".join(str(error).split()), "error"
        self.call_from_thread(self.notify, f"process {statement.pid}: {text}", severity=level)

