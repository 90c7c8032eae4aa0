"""What writers do to rows of appended values, and to a model of them outside: for chaos.py and power.py.

A table has the columns id, n, sum and data: n counts changes, sum is the SHA-256 of data,
which is an appendable_text where the table's name ends in _text, else an appendable_bytea.
"""

from __future__ import annotations

import hashlib
import random
from typing import Sequence, Union

import psycopg

Value = Union[bytes, str]

#: Characters of one to four bytes.
CHARACTERS = "ab \n'äж€𝄞"


def encoded(value: Value) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def digest(value: Value) -> bytes:
    """What a row with this value has in its column sum."""
    return hashlib.sha256(encoded(value)).digest()


def some(rng: random.Random, n: int, text: bool) -> Value:
    """So many bytes, or characters, of whatever they may be."""
    return "".join(rng.choices(CHARACTERS, k=n)) if text else rng.randbytes(n)


def change(conn: psycopg.Connection, rng: random.Random, table: str, ids: Sequence[int], now: dict[int, Value], long: int) -> None:
    """One statement on one of the rows ids, in the model `now` too.  Values are appended to up to `long` bytes, most of them to a tenth."""
    text = table.endswith("_text")
    kind_of = "text" if text else "bytea"
    key = rng.choice(ids)
    old = now.get(key)
    kind = rng.random()
    if old is None:
        new = some(rng, rng.choice((0, 10, 900, 5000, 60000)), text)
        conn.execute(f"INSERT INTO {table} VALUES (%s, 0, %s, %s::{kind_of})", (key, digest(new), new))
    elif kind < 0.08:
        conn.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
        del now[key]
        return
    elif kind < 0.65 and len(old) < (long if key % 4 == 0 else long // 10):
        chunk = some(rng, rng.choice((1, 10, 300, 1000, 9000, 40000)), text)
        new = old + chunk
        if rng.random() < 0.3:
            at = rng.randrange(len(chunk) + 1)
            conn.execute(f"SELECT appendable_append('{table}', ARRAY[{key}, {key}], ARRAY[%s, %s]::{kind_of}[])", (chunk[:at], chunk[at:]))
            conn.execute(f"UPDATE {table} SET sum = %s, n = n + 1 WHERE id = %s", (digest(new), key))
        else:
            conn.execute(f"UPDATE {table} SET data = data || %s::{kind_of}, sum = %s, n = n + 1 WHERE id = %s", (chunk, digest(new), key))
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
        new = some(rng, rng.choice((0, 100, 3000, 30000)), text)
        conn.execute(f"UPDATE {table} SET data = %s::{kind_of}, sum = %s WHERE id = %s", (new, digest(new), key))
    else:
        new = old
        conn.execute(f"UPDATE {table} SET n = n + 1 WHERE id = %s", (key,))
    now[key] = new
