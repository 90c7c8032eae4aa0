"""What writers do to rows of appended values, and to a model of them outside: for chaos.py and power.py.

A table has the columns id, n, sum and data: n counts changes, sum is the SHA-256 of data,
which is an appendable_text, appendable_json or appendable_jsonb where the table's name ends in
_text, _json or _jsonb, else an appendable_bytea.  JSON is the text that jsonb makes of it.
"""

from __future__ import annotations

import hashlib
import json
import random
from typing import Sequence, Union

import psycopg

Value = Union[bytes, str]

#: Characters of one to four bytes.
CHARACTERS = "ab \n'äж€𝄞"


#: Expressions of a value's text, by the server's type; {column} is of the extension's type.
TEXTS = {"text": "{column}::text", "json": "{column}::json::text", "jsonb": "{column}::jsonb::text"}


def kind_of(table: str) -> str:
    """The server's type that is like the type of a table's column data."""
    kind = table.rpartition("_")[2]
    return kind if kind in TEXTS else "bytea"


def columns(kind: str) -> str:
    """Those of a query for every value of a type: its row, length and digest, and the digest that its row has."""
    text = TEXTS.get(kind, "").format(column="data")
    return f"id, length({text if kind.startswith('json') else 'data'}), sha256({f'convert_to({text}, $$UTF8$$)' if text else 'data::bytea'}), sum"


def encoded(value: Value) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def digest(value: Value) -> bytes:
    """What a row with this value has in its column sum."""
    return hashlib.sha256(encoded(value)).digest()


def some(rng: random.Random, n: int, text: bool) -> Value:
    """So many bytes, or characters, of whatever they may be."""
    return "".join(rng.choices(CHARACTERS, k=n)) if text else rng.randbytes(n)


def document(rng: random.Random, old: str, by_name: bool, long: int) -> str:
    """A changed copy of a JSON text: an array, or an object of members with random names."""
    content = json.loads(old) if old else []
    pairs = list(content.items()) if by_name and old else [(None, one) for one in content]

    def new() -> tuple:
        return (f"{rng.getrandbits(64):016x}" if by_name else None, {"id": rng.randrange(1 << 40), "text": some(rng, rng.choice((5, 100, 900, 5000)), True)})

    kind = rng.random()
    if not pairs or kind < 0.1:
        pairs = [new() for _ in range(rng.choice((0, 1, 10, 40, 3000 if rng.random() < 0.1 else 2)))]
    elif kind < 0.6 and len(old) < long:
        pairs[rng.choice((len(pairs), rng.randrange(len(pairs)))):0] = [new()]
    elif kind < 0.8:
        at = rng.randrange(len(pairs))
        pairs[at] = (pairs[at][0], new()[1])
    else:
        at = rng.randrange(len(pairs))
        del pairs[at:at + rng.choice((1, 1, 3))]
    return json.dumps(dict(sorted(pairs, key=lambda pair: pair[0])) if by_name else [one for _, one in pairs], ensure_ascii=False)


def edited(rng: random.Random, old: Value, text: bool) -> Value:
    """A copy of a value that differs: in front, in the middle, at the end or at up to three places; a part moved; doubled; or with much that repeats itself."""
    def new() -> Value:
        return some(rng, rng.choice((0, 1, 60, 2000)), text)

    first, last = sorted(rng.randrange(len(old) + 1) for _ in range(2))
    kind = rng.random()
    if kind < 0.1:
        return new() + old[rng.choice((0, 0, 1, 60)):]
    if kind < 0.2:
        return old[:len(old) - rng.choice((0, 1, 60))] + new()
    if kind < 0.3:
        return old[last:] + new() + old[first:last] + old[:first]
    if kind < 0.35 and len(old) < 100_000:
        return old + new() + old
    if kind < 0.45:
        # each place is like many others of both values
        again = old[first:first + 70] or new()
        return old[:first] + again * rng.choice((2, 100, 700)) + old[last:]
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(old) + 1)
        old = old[:at] + new() + old[at + rng.choice((0, 1, 60, 2000)):]
    return old


def change(conn: psycopg.Connection, rng: random.Random, table: str, ids: Sequence[int], now: dict[int, Value], long: int) -> None:
    """One statement on one of the rows ids, in the model `now` too.  Values are appended to up to `long` bytes, most of them to a tenth."""
    plain = kind_of(table)
    text = plain == "text"
    key = rng.choice(ids)
    old = now.get(key)
    kind = rng.random()
    conn.execute("SELECT set_config('appendable_bytea.store_differences', %s, true)", (rng.choice(("on", "on", "off")),))
    if old is None:
        new = document(rng, "", key % 2 == 0, long) if plain.startswith("json") else some(rng, rng.choice((0, 10, 900, 5000, 60000)), text)
        conn.execute(f"INSERT INTO {table} VALUES (%s, 0, %s, %s::{plain})", (key, digest(new), new))
    elif kind < 0.08:
        conn.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
        del now[key]
        return
    elif plain.startswith("json"):
        new = document(rng, old, key % 2 == 0, long if key % 4 == 0 else long // 10)
        conn.execute(f"UPDATE {table} SET data = %s::{plain}, sum = %s, n = n + 1 WHERE id = %s", (new, digest(new), key))
    elif kind < 0.65 and len(old) < (long if key % 4 == 0 else long // 10):
        chunk = some(rng, rng.choice((1, 10, 300, 1000, 9000, 40000)), text)
        new = old + chunk
        if rng.random() < 0.3:
            at = rng.randrange(len(chunk) + 1)
            conn.execute(f"SELECT appendable_append('{table}', ARRAY[{key}, {key}], ARRAY[%s, %s]::{plain}[])", (chunk[:at], chunk[at:]))
            conn.execute(f"UPDATE {table} SET sum = %s, n = n + 1 WHERE id = %s", (digest(new), key))
        else:
            conn.execute(f"UPDATE {table} SET data = data || %s::{plain}, sum = %s, n = n + 1 WHERE id = %s", (chunk, digest(new), key))
    elif kind < 0.75 and old:
        at = rng.randrange(len(old))
        piece = some(rng, min(rng.choice((1, 50, 5000)), len(old) - at), text)
        new = old[:at] + piece + old[at + len(piece):]
        edit = "overlay(data PLACING %s::text FROM %s + 1 FOR %s)" if text else "appendable_write(data, %s::bytea, %s::bigint, %s::bigint)"
        conn.execute(f"UPDATE {table} SET data = {edit}, sum = %s WHERE id = %s", (piece, at, len(piece), digest(new), key))
    elif kind < 0.83 and old:
        new = old[:rng.randrange(len(old) + 1)]
        cut = "left(data, %s)" if text else "appendable_truncate(data, %s::bigint)"
        at = len(new)
        if rng.random() < 0.4:  # the same from the front
            cut, new = "appendable_drop_front(data, %s::bigint)", old[at:]
            at = len(old[:at].encode()) if text else at
        conn.execute(f"UPDATE {table} SET data = {cut}, sum = %s WHERE id = %s", (at, digest(new), key))
    elif kind < 0.93:
        new = some(rng, rng.choice((0, 100, 3000, 30000)), text) if rng.random() < 0.3 else edited(rng, old, text)
        conn.execute(f"UPDATE {table} SET data = %s::{plain}, sum = %s WHERE id = %s", (new, digest(new), key))
    else:
        new = old
        conn.execute(f"UPDATE {table} SET n = n + 1 WHERE id = %s", (key,))
    now[key] = new
