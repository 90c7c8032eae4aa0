"""Whole values that are sent again with a small change: appendable_text and appendable_jsonb with differences against stock TOAST, in one run."""

from __future__ import annotations

import bisect
import json
import random
from dataclasses import dataclass
from typing import Callable, Iterator

import psycopg

from pg_lean.bench import Bench, Check, Headline, Result, Table, human_bytes
from pg_lean.measure import cpu_seconds, timed, wal_position
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
    #: Text before the name of the type, text or jsonb.
    prefix: str
    setup: str
    settings: dict[str, str]


@dataclass(frozen=True)
class Case:
    """A value that is changed."""

    values: Callable[[int], Iterator[str]]
    size: int
    plain: str = "text"
    #: Changes, if not as many as of the others.
    repetitions: int = 0


WAYS = (
    Way("stock lz4", "", "ALTER TABLE {t} ALTER data SET COMPRESSION lz4", {}),
    Way("stock pglz", "", "ALTER TABLE {t} ALTER data SET COMPRESSION pglz", {}),
    Way("without differences", "{ext}.appendable_", "", {"appendable_bytea.store_differences": "off"}),
    Way("pg_lean", "{ext}.appendable_", "", {"appendable_bytea.store_differences": "on"}),
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


def mixed(size: int) -> Iterator[str]:
    """A conversation that each request changes at one place: an exchange is added, a message is edited, answered again or removed, or the title changes."""
    rng = random.Random(size)
    messages, length, title = [], 0, words(rng, 500)

    def message(content: int) -> dict:
        return {"id": rng.randrange(1 << 60), "role": rng.choice(["user", "assistant"]), "content": words(rng, content)}

    while length < size:
        messages.append(message(rng.randint(200, 4000)))
        length += len(messages[-1]["content"]) + 70
    while True:
        yield json.dumps({"messages": messages, "title": title, "updated": 1700000000})
        kind = rng.randrange(8)
        if kind < 4:
            messages += [message(EXCHANGE // 2 - 70), message(EXCHANGE // 2 - 70)]
        elif kind == 4:
            messages[rng.randrange(len(messages))]["content"] = words(rng, rng.randint(200, 4000))
        elif kind == 5:
            messages[-1] = message(rng.randint(200, 4000))
        elif kind == 6:
            del messages[rng.randrange(len(messages))]
        else:
            title = words(rng, 500)


def by_name(size: int) -> Iterator[str]:
    """A conversation whose messages are members of an object, with names at random; an exchange is added each time."""
    rng = random.Random(size)
    messages, length = {}, 0

    def add(content: int) -> int:
        name = f"{rng.getrandbits(128):032x}"
        messages[name] = {"id": name, "role": rng.choice(["user", "assistant"]), "content": words(rng, content)}
        return content + 120

    while length < size:
        length += add(rng.randint(200, 4000))
    while True:
        yield json.dumps({"messages": messages, "title": "a conversation " + "x" * 500, "updated": 1700000000})
        for _ in range(2):
            add(EXCHANGE // 2 - 70)


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


def prose(size: int) -> Iterator[str]:
    """Another text each time, for long ones: of 50,000 words, so that it is made quickly and repeats nothing longer than a few words."""
    rng = random.Random(size)
    vocabulary = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(50_000)]
    while True:
        yield " ".join(rng.choices(vocabulary, k=size // 6))[:size]


def reordered(size: int) -> Iterator[str]:
    """Paragraphs of some 300 bytes in another order each time: everything is still there, and nothing where it was."""
    rng = random.Random(size)
    text = next(prose(size))
    paragraphs = [text[at:at + 300] for at in range(0, size, 300)]
    while True:
        yield "".join(paragraphs)
        rng.shuffle(paragraphs)


#: Changes of long values, and what the CPU time of one may be of stock's with lz4: with most of it shared, nothing shared, and the worst case found.
LONG_CHANGES = {"an exchange of 5 kB added": (added_in_middle, 1.0), "all new": (prose, 1.1), "in another order": (reordered, 1.5)}
#: Bytes of WAL that a line added to an array may take.
LINE_WAL = 660
#: Reading a value in as many pieces as there may be, over reading it in one; milliseconds that a slice of it may take.
READ_PIECES, SLICE, SLICE_MS = 1.3, 4096, 0.2
#: Changes of short values, and their lengths: an application that replaces these must not pay for what differences gain with long ones.
SHORT_CHANGES = {"all new": all_new, "another title": new_title, "unchanged": unchanged, "an exchange of 5 kB added": added_in_middle}
SHORT = (7 * 1000, 10 * 1000, 30 * 1000, 100 * 1000)
#: How much more than stock with lz4 a change of a short value may take.
MARGIN = 0.05
#: Bytes of WAL that an exchange may take in the longest value, and what all changes of a mixed case may take: times the bytes changed, and the part of stock's.
EXCHANGE_WAL, CHANGED_WAL, STOCK_WAL = 11 * 1000, {"text": 4, "jsonb": 8}, 1 / 40


def changes_of(size: int) -> dict[str, Callable[[int], Iterator[str]]]:
    """The changes of a value of that length, short or long."""
    return SHORT_CHANGES if size <= SHORT[-1] else {what: values for what, (values, _) in LONG_CHANGES.items()}


def changed_bytes(old: str, new: str) -> int:
    """Bytes between what two texts have in common at their start and at their end, of the longer one."""
    least = min(len(old), len(new))
    start = bisect.bisect(range(1, least + 1), 0, key=lambda n: old[:n] != new[:n])
    end = bisect.bisect(range(1, least - start + 1), 0, key=lambda n: old[-n:] != new[-n:])
    return max(len(old), len(new)) - start - end


def measured(conn: psycopg.Connection, table: str, plain: str, first: str, values: Iterator[str]) -> Callable[[], dict[str, float | None]]:
    before = first

    def change() -> dict[str, float | None]:
        nonlocal before
        value = next(values)
        wal, cpu = wal_position(conn), cpu_seconds(conn.info.backend_pid)
        conn.execute(f"UPDATE {table} SET data = %s", [value])
        after = cpu_seconds(conn.info.backend_pid)
        sample = {"wal": wal_position(conn) - wal, "cpu_ms": None if cpu is None else (after - cpu) * 1000, "changed": changed_bytes(before, value)}
        stored = conn.execute(f"SELECT data::{plain} = %s::{plain} FROM {table}", [value]).fetchone()[0]
        assert stored, f"{table} has another value"
        before = value
        return sample
    return change


def replace_values(bench: Bench, number: int, name: str, case: Case, ways: tuple[Way, ...], repetitions: int) -> None:
    """One value in a table of each way, changed in turns."""
    variants = {}
    for way in ways:
        conn = bench.connect(**way.settings)
        table = f"rewrites_{number}_{way.name.replace(' ', '_')}"
        column = way.prefix.format(ext=extension_schema(conn, "appendable_bytea")) + case.plain
        conn.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, data {column}) WITH (fillfactor = 80)")
        if way.setup:
            conn.execute(way.setup.format(t=table))
        texts = case.values(case.size)
        first = next(texts)
        conn.execute(f"INSERT INTO {table} VALUES (1, %s)", [first])
        conn.execute("CHECKPOINT")
        variants[way.name] = measured(conn, table, case.plain, first, texts)
    bench.interleave(variants, case.repetitions or repetitions, case=name, warmup=2, text=name)


def read_pieces(bench: Bench, repetitions: int) -> tuple[str, str]:
    """A value in as many pieces as there may be, the same in one piece, and in stock: read whole, and 4 kB of it.  Returns the names of the cases."""
    rng = random.Random(1)
    size = 10 * MB
    conn = bench.connect(**WAYS[-1].settings)
    ext = extension_schema(conn, "appendable_bytea")
    pieces = int(conn.execute("SHOW appendable_bytea.max_pieces").fetchone()[0])
    conn.execute(f"CREATE TABLE read_in_pieces (data {ext}.appendable_bytea); CREATE TABLE read_in_one_piece (data {ext}.appendable_bytea); "
                 "CREATE TABLE read_stock_lz4 (data bytea COMPRESSION lz4)")
    conn.execute("INSERT INTO read_in_pieces VALUES (%s)", [next(prose(size)).encode()])
    for place in rng.sample(range(1, size // KB), pieces // 2 - 1):
        conn.execute("UPDATE read_in_pieces SET data = overlay(data PLACING %s FROM %s)", [words(rng, 100).encode(), place * KB])
    conn.execute("INSERT INTO read_in_one_piece SELECT data::bytea FROM read_in_pieces; INSERT INTO read_stock_lz4 SELECT data::bytea FROM read_in_pieces")
    tables = {"in pieces": "read_in_pieces", "in one piece": "read_in_one_piece", "stock lz4": "read_stock_lz4"}
    digests = {conn.execute(f"SELECT md5(data::bytea) FROM {table}").fetchone()[0] for table in tables.values()}
    assert len(digests) == 1, "the values differ"
    whole, part = f"reading {human_bytes(size)}, in {pieces - 1} pieces", f"{SLICE // KB} kB of {human_bytes(size)}, in {pieces - 1} pieces"

    def read(table: str, query: str) -> Callable[[], dict[str, float]]:
        return lambda: timed(conn, query.format(table), [rng.randrange(1, size - SLICE)] if "%s" in query else None)

    for case, query, times in ((whole, "SELECT data FROM {}", repetitions), (part, f"SELECT substr(data, %s, {SLICE}) FROM {{}}", 10 * repetitions)):
        bench.interleave({name: read(table, query) for name, table in tables.items()}, times, case=case, warmup=6, text=case)
    return whole, part


def run(bench: Bench) -> Result:
    """Each case: one value in a table of each way, changed in turns."""
    bench.server.need_extension("appendable_bytea")
    exchanges = {f"an exchange of 5 kB added to a chat of {human_bytes(size)}": Case(added_in_middle, size)
                 for size in bench.pick(full=(100 * KB, MB, 10 * MB), quick=(MB, 10 * MB))}
    # a tenth of a millisecond each: single ones say little
    often = bench.iterations(full=400, quick=5)
    short = {f"{size // 1000} kB, {what}": Case(values, size, repetitions=often)
             for what, values in SHORT_CHANGES.items() for size in bench.pick(full=SHORT, quick=SHORT[:1])}
    mixed_cases = {f"a chat of {human_bytes(MB)} changed at one place{note}": Case(mixed, MB, plain, bench.iterations(full=1000, quick=10))
                   for plain, note in (("text", ""), ("jsonb", ", jsonb"))}
    cases = exchanges | mixed_cases | {
        f"a line of {LINE} bytes added to an array of {human_bytes(MB)} that ends in ]": Case(added_at_end, MB),
        f"an exchange of 5 kB added to a chat of {human_bytes(10 * MB)}, jsonb": Case(added_in_middle, 10 * MB, "jsonb"),
        f"an exchange of 5 kB added to {human_bytes(10 * MB)} of messages by name, jsonb": Case(by_name, 10 * MB, "jsonb"),
        **short}
    repetitions = bench.iterations(full=40, quick=5)
    for number, (name, case) in enumerate(cases.items()):
        replace_values(bench, number, name, case, WAYS, repetitions)
    long = {f"{human_bytes(size)}, {what}": (Case(values, size), most) for what, (values, most) in LONG_CHANGES.items()
            for size in bench.pick(full=(MB, 10 * MB, 36 * MB), quick=(MB,))}
    for number, (name, (case, _)) in enumerate(long.items(), start=len(cases)):
        replace_values(bench, number, name, case, (WAYS[0], WAYS[-1]), repetitions)
    reads = read_pieces(bench, repetitions)
    return present(bench, cases, list(exchanges)[-1], list(short), {name: most for name, (_, most) in long.items()}, reads, repetitions)


def present(bench: Bench, cases: dict[str, Case], last: str, short: list[str], long: dict[str, float], reads: tuple[str, str], repetitions: int) -> Result:
    """Bytes of WAL and milliseconds of CPU time of a change; of long values and reads what their limits are about."""
    def table(title: str, metric: str) -> Table:
        return Table(title, ["change", *(way.name for way in WAYS), "stock lz4 / pg_lean"],
                     [[case, *(bench.estimate(metric, way.name, case) for way in WAYS), bench.ratio(metric, "stock lz4", "pg_lean", case)] for case in cases])

    stock, lean = (bench.estimate("wal", name, last).median for name in ("stock lz4", "pg_lean"))
    def total(metric: str, way: str, case: str) -> float:
        return sum(row[metric] for row in bench.raw.select(way, case))

    both = ("stock lz4", "pg_lean")
    long_table = Table("Long values", ["change", *(f"CPU ms: {way}" for way in both), "CPU time, pg_lean / stock lz4", "at most", "WAL, stock lz4 / pg_lean"],
                       [[case, *(bench.estimate("cpu_ms", way, case) for way in both), bench.ratio("cpu_ms", "pg_lean", "stock lz4", case), most,
                         bench.ratio("wal", "stock lz4", "pg_lean", case)] for case, most in long.items()])
    ways = ("in pieces", "in one piece", "stock lz4")
    read_table = Table("Reading, milliseconds that the client waits", ["what", *ways, "in pieces / in one piece"],
                       [[case, *(bench.estimate("ms", way, case) for way in ways), bench.ratio("ms", "in pieces", "in one piece", case)] for case in reads])
    mixed_cases = [name for name, case in cases.items() if case.values is mixed]
    lines = [name for name, case in cases.items() if case.values is added_at_end]
    added = [name for name, case in cases.items() if case.values in (added_in_middle, by_name) and case.size == cases[last].size]
    return Result(
        title=TITLE,
        summary=f"{last[0].upper()}{last[1:]}: {lean:,.0f} bytes of WAL instead of {stock:,.0f}.",
        what="WAL and CPU time of an UPDATE by which an application that keeps a JSON text sends all of it again, with a little more in it.",
        how=f"The client sends the whole text as a parameter. Ways take turns, {repetitions} times after two discarded rounds; each value is compared with "
            "what was sent. Values of up to 100 kB are changed ten times as often. "
            "A chat that changes at one place changes more often, and the bytes between the common start and end of two texts count as changed. "
            "There is no checkpoint in between, so that pages are not logged as images. CPU time is the server process's.",
        headlines=[Headline(last, bench.ratio("wal", "stock lz4", "pg_lean", last), [("stock, lz4", stock), ("stored differences", lean)], "bytes of WAL")],
        blocks=[table("Bytes of WAL", "wal"), table("Milliseconds of CPU time", "cpu_ms"), long_table, read_table],
        checks=[Check.of(f"WAL of {name}", bench.estimate("wal", "pg_lean", name), "<=", EXCHANGE_WAL, "bytes") for name in added]
        + [Check(f"WAL of {name}, times the bytes changed", total("wal", "pg_lean", name) / total("changed", "pg_lean", name), "<=",
                 CHANGED_WAL[cases[name].plain]) for name in mixed_cases]
        + [Check(f"WAL of {name}, pg_lean / stock lz4", total("wal", "pg_lean", name) / total("wal", "stock lz4", name), "<=", STOCK_WAL)
           for name in mixed_cases]
        + [Check.of(f"{what} of {case}, pg_lean / stock lz4", bench.ratio(metric, "pg_lean", "stock lz4", case), "<=", 1 + MARGIN)
                for case in short for metric, what in (("wal", "WAL"), ("cpu_ms", "CPU time"))]
        + [Check.of(f"WAL of {name}", bench.estimate("wal", "pg_lean", name), "<=", LINE_WAL, "bytes") for name in lines]
        + [Check.of(f"CPU time of {case}, pg_lean / stock lz4", bench.ratio("cpu_ms", "pg_lean", "stock lz4", case), "<=", most) for case, most in long.items()]
        + [Check.of(f"{reads[0]}, over one piece", bench.ratio("ms", "in pieces", "in one piece", reads[0]), "<=", READ_PIECES),
           Check.of(reads[1], bench.estimate("ms", "in pieces", reads[1]), "<=", SLICE_MS, "ms")])
