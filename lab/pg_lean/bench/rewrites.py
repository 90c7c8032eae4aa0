"""Whole values that are sent again with a small change: appendable_text with differences against text in stock TOAST, in one run."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Callable, Iterator

import psycopg

from pg_lean.bench import Bench, Check, Headline, Result, Table, human_bytes
from pg_lean.measure import cpu_seconds, wal_position
from pg_lean.names import extension_schema

TITLE = "Whole values that replace others: stored differences against TOAST"
PRELOAD = ("appendable_bytea",)
SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "16GB", "autovacuum": False}

KB, MB = 1 << 10, 1 << 20
#: Bytes that one change adds.
EXCHANGE, LINE = 5 * 1000, 306


@dataclass(frozen=True)
class Way:
    """A column that keeps the value."""

    name: str
    type: str
    setup: str
    settings: dict[str, str]


WAYS = (
    Way("stock lz4", "text", "ALTER TABLE {t} ALTER data SET COMPRESSION lz4", {}),
    Way("stock pglz", "text", "ALTER TABLE {t} ALTER data SET COMPRESSION pglz", {}),
    Way("without differences", "{ext}.appendable_text", "", {"appendable_bytea.store_differences": "off"}),
    Way("pg_lean", "{ext}.appendable_text", "", {"appendable_bytea.store_differences": "on"}),
)


def words(rng: random.Random, size: int) -> str:
    """Prose: words, of which a few are frequent."""
    text, length = [], 0
    while length < size:
        word = "".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) if rng.random() < 0.5 else rng.choice(["the", "value", "of", "and", "server"])
        text.append(word)
        length += len(word) + 1
    return " ".join(text)[:size]


def added_in_middle(size: int) -> Iterator[str]:
    """A conversation as an application keeps it: messages in an array, and its title and time after them; an exchange is added each time."""
    rng = random.Random(size)
    messages, length = [], 0
    while length < size:
        messages.append({"id": rng.randrange(1 << 60), "role": rng.choice(["user", "assistant"]), "content": words(rng, rng.randint(200, 4000))})
        length += len(messages[-1]["content"]) + 70
    while True:
        yield json.dumps({"messages": messages, "title": "a conversation " + "x" * 500, "updated": 1700000000})
        for role in ("user", "assistant"):
            messages.append({"id": rng.randrange(1 << 60), "role": role, "content": words(rng, EXCHANGE // 2 - 70)})


def added_at_end(size: int) -> Iterator[str]:
    """An array of lines as a JSON text, which ends in ]: a line is added each time."""
    rng = random.Random(size)
    lines = [json.dumps({"n": i, "output": words(rng, LINE - 30)}) for i in range(size // LINE)]
    while True:
        yield "[" + ", ".join(lines) + "]"
        lines.append(json.dumps({"n": len(lines), "output": words(rng, LINE - 30)}))


def document(rng: random.Random, size: int, title: str) -> str:
    """A JSON text of that length and nothing of another one's."""
    return json.dumps({"title": title, "paragraphs": [words(rng, min(1000, size - at)) for at in range(0, size, 1000)]})


def all_new(size: int) -> Iterator[str]:
    """Another document each time."""
    rng = random.Random(size)
    while True:
        yield document(rng, size, words(rng, 30))


def new_title(size: int) -> Iterator[str]:
    """The same document with another title each time."""
    number = 0
    while True:
        yield document(random.Random(size), size, f"document {number}")
        number += 1


def unchanged(size: int) -> Iterator[str]:
    """The same document each time."""
    while True:
        yield document(random.Random(size), size, "document")


#: Changes of short values, and their lengths: an application that replaces these must not pay for what differences gain with long ones.
SHORT_CHANGES = {"all new": all_new, "another title": new_title, "unchanged": unchanged, "an exchange of 5 kB added": added_in_middle}
SHORT = (7 * 1000, 10 * 1000, 30 * 1000, 100 * 1000)
#: How much more than stock with lz4 a change of a short value may take.
MARGIN = 0.05


def measured(conn: psycopg.Connection, table: str, values: Iterator[str]) -> Callable[[], dict[str, float | None]]:
    def change() -> dict[str, float | None]:
        value = next(values)
        wal, cpu = wal_position(conn), cpu_seconds(conn.info.backend_pid)
        conn.execute(f"UPDATE {table} SET data = %s", [value])
        after = cpu_seconds(conn.info.backend_pid)
        sample = {"wal": wal_position(conn) - wal, "cpu_ms": None if cpu is None else (after - cpu) * 1000}
        stored = conn.execute(f"SELECT data::text = %s FROM {table}", [value]).fetchone()[0]
        assert stored, f"{table} has another value"
        return sample
    return change


def run(bench: Bench) -> Result:
    """Each case: one value in a table of each way, changed in turns."""
    bench.server.need_extension("appendable_bytea")
    cases = {f"an exchange of 5 kB added to a chat of {human_bytes(size)}": (added_in_middle, size)
             for size in bench.pick(full=(100 * KB, MB, 10 * MB), quick=(MB, 10 * MB))}
    longest = list(cases)[-1]
    cases |= {f"a line of {LINE} bytes added to an array of {human_bytes(size)} that ends in ]": (added_at_end, size) for size in (MB,)}
    short = {f"{size // 1000} kB, {what}": (values, size) for what, values in SHORT_CHANGES.items() for size in bench.pick(full=SHORT, quick=SHORT[:1])}
    cases |= short
    repetitions = bench.iterations(full=40, quick=5)
    for number, (case, (values, size)) in enumerate(cases.items()):
        variants = {}
        for way in WAYS:
            conn = bench.connect(**way.settings)
            table = f"rewrites_{number}_{way.name.replace(' ', '_')}"
            conn.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, data {way.type.format(ext=extension_schema(conn, 'appendable_bytea'))}) "
                         "WITH (fillfactor = 80)")
            if way.setup:
                conn.execute(way.setup.format(t=table))
            texts = values(size)
            conn.execute(f"INSERT INTO {table} VALUES (1, %s)", [next(texts)])
            conn.execute("CHECKPOINT")
            variants[way.name] = measured(conn, table, texts)
        bench.interleave(variants, repetitions, case=case, warmup=2, text=case)
    return present(bench, list(cases), longest, list(short), repetitions)


def present(bench: Bench, cases: list[str], last: str, short: list[str], repetitions: int) -> Result:
    """Bytes of WAL and milliseconds of CPU time of a change."""
    def table(title: str, metric: str) -> Table:
        return Table(title, ["change", *(way.name for way in WAYS), "stock lz4 / pg_lean"],
                     [[case, *(bench.estimate(metric, way.name, case) for way in WAYS), bench.ratio(metric, "stock lz4", "pg_lean", case)] for case in cases])

    stock, lean = (bench.estimate("wal", name, last).median for name in ("stock lz4", "pg_lean"))
    return Result(
        title=TITLE,
        summary=f"{last[0].upper()}{last[1:]}: {lean:,.0f} bytes of WAL instead of {stock:,.0f}.",
        what="WAL and CPU time of an UPDATE by which an application that keeps a JSON text sends all of it again, with a little more in it.",
        how=f"The client sends the whole text as a parameter. Ways take turns, {repetitions} times after two discarded rounds; each value is compared with "
            "what was sent. There is no checkpoint in between, so that pages are not logged as images. CPU time is the server process's.",
        headlines=[Headline(last, bench.ratio("wal", "stock lz4", "pg_lean", last), [("stock, lz4", stock), ("stored differences", lean)], "bytes of WAL")],
        blocks=[table("Bytes of WAL", "wal"), table("Milliseconds of CPU time", "cpu_ms")],
        checks=[Check.of(f"{what} of {case}, pg_lean / stock lz4", bench.ratio(metric, "pg_lean", "stock lz4", case), "<=", 1 + MARGIN)
                for case in short for metric, what in (("wal", "WAL"), ("cpu_ms", "CPU time"))])
