"""The figures about recycled_temp in docs/temporary-catalogs.md are those of the counts that results/ keeps."""

from __future__ import annotations

import re

from pg_lean.paths import TOP

PAGE = TOP / "docs" / "temporary-catalogs.md"
#: The cases of ci/recycled.sh, as the page calls them.
CASES = {
    "session": "a session's only table, one of its columns text, with the end of the session (not kept)",
    "integers": "4 int columns",
    "text": "4 columns, one of them text",
    "twenty": "20 int columns",
    "select": "CREATE TABLE AS of one row, one column of them text",
    "key": "4 int columns, primary key",
    "index": "4 columns, one of them text, and an index made later",
    "default": "4 int columns, one with a default",
    "unpooled": "4 columns, one of them text, with a CHECK constraint (not kept)",
    "permanent": "a permanent table of 4 int columns",
    "other": "`SELECT 1` (no table)",
}


def lines(major: str, name: str) -> list[str]:
    """What a command printed, without the line that says which and where."""
    return [line for line in (TOP / "results" / major / "recycled" / name).read_text().splitlines() if line and not line.startswith("#")]


def instructions() -> list[str]:
    """The rows of the table of instructions, in thousands."""
    found = {}
    for major in ("15", "18"):
        for line in lines(major, "instructions.txt")[1:]:
            case, without, with_pool, ratio = line.split()
            found.setdefault(case, []).extend([thousands(int(without)), thousands(int(with_pool)), ratio])
    assert list(found) == list(CASES)
    return [f"| {CASES[case]} | {' | '.join(cells)} |" for case, cells in found.items()]


def thousands(count: int) -> str:
    return f"{count / 1000:,.0f}" if count >= 100_000 else f"{count / 1000:,.1f}"


def counts() -> list[str]:
    """The rows of the table of WAL, messages, growth and locks."""
    rows = []
    for line in lines("15", "counts.txt"):
        name, *cells = re.split(r"  +| (?=[\d.]+(?: |$))", line.strip())
        wal_off, wal_on, messages_off, messages_on, grown_off, grown_on, locks_off, locks_on = (float(cell) for cell in cells if cell)
        rows.append(f"| {name} | {wal_off:,.0f} | {wal_on:,.0f} | {messages_off:.0f} | {messages_on:.0f} | {messages_on / messages_off:.2f} "
                    f"| {grown_off / 1024:,.0f} | {grown_on / 1024:,.0f} | {locks_off:,.0f} | {locks_on:,.0f} |")
    return rows


def test_the_page_has_the_counts_that_are_kept():
    page = PAGE.read_text()
    wanted = [*instructions(), *counts()]
    assert len(wanted) == len(CASES) + 5
    assert [row for row in wanted if row not in page] == []
