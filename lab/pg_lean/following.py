"""One value followed as it grows: everything once, in order, across restarts of the server and of connections.

A Follower remembers the offset at which to continue, which the server does not know: with a
connection the server forgets only that a client wants notifications of more.
Each check also reads what is right before that offset, and the first one of a new
connection all that had been read last: where that is not what it was, the follower
stops.  So a value that was replaced, or a server that took over without what had been
read, is not continued as if nothing were.
"""

from __future__ import annotations

import select
import time
from typing import Callable, Iterator

import psycopg
from psycopg import sql

from pg_lean.cluster import Server
from pg_lean.errors import LabError
from pg_lean.names import find_table, is_appendable, read_tables_only

#: Bytes read at a time.
PIECE = 1 << 20
#: Seconds between two checks if appends notify, in case a notification was lost.
SAFETY = 30.0
#: Characters, or bytes, before the offset that each check compares.
KEPT = 64
#: The longest pause between two tries to connect again, in seconds.
PAUSE = 2.0

#: The connection, or the server behind it, went or is not there yet.
GONE = (psycopg.OperationalError, psycopg.InterfaceError)

#: Of the column's table: the extension's schema, the type, and the arguments of each trigger that tells of every append to the column.
COLUMN = """
SELECT n.nspname, t.typname, current_setting('server_encoding'),
       (SELECT coalesce(jsonb_agg((SELECT jsonb_agg(convert_from(decode(part, 'hex'), getdatabaseencoding()) ORDER BY i)
                                   FROM unnest(string_to_array(regexp_replace(encode(g.tgargs, 'hex'), '(..)', '\\1 ', 'g'), '00 ')) WITH ORDINALITY u(part, i)
                                   WHERE i <= g.tgnargs)), '[]')
        FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
        WHERE g.tgrelid = a.attrelid AND p.proname = 'appendable_notify' AND p.pronamespace = n.oid AND g.tgenabled IN ('O', 'A') AND g.tgnargs > 0
          AND g.tgtype & 16::int2 <> 0::int2 AND g.tgqual IS NULL AND (g.tgattr = ''::int2vector OR a.attnum = ANY (g.tgattr)))
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = %s::oid AND a.attname = %s::name AND a.attnum > 0 AND NOT a.attisdropped"""

#: From one snapshot: what there is from an offset on with its own offset and the next, its last characters and their bytes, and what is before the offset.
LOOK = """
SELECT t.data, t.next_offset - octet_length(t.data), t.next_offset, {kept}, octet_length({kept}), b.data
FROM (SELECT {column} AS value FROM {table} WHERE {where}
 LIMIT 2) v, {tail}(v.value, %s::int8, %s::int4, %s::bool) t, {tail}(v.value, %s::int8, %s::int4, false) b"""


class Follower:
    """Follows the value of `column` in the one row of `table` that satisfies `where`, from byte `start` (negative: from the end) on.

    lines: only whole lines.  every: seconds between two checks if appends do not notify.  say: receives progress messages.
    """

    def __init__(self, server: Server, table: str, column: str, where: str, start: int = 0, lines: bool = False, every: float = 1.0,
                 say: Callable[[str], None] = lambda text: None):
        self.server, self.table, self.column, self.where = server, table, column, where
        self.lines, self.every, self.say = lines, every, say
        self.offset = start
        self.last: tuple[int, str | bytes] | None = None        # offset and contents of the last read
        self.before: list[tuple[str | bytes, int]] = []         # what is right before the offset, each with its bytes on the server
        self.conn: psycopg.Connection | None = None

    def pieces(self) -> Iterator[bytes]:
        """What there is, and then what is appended, for as long as the caller takes it."""
        self.connect()
        try:
            while True:
                try:
                    woken, self.woken = self.woken, False
                    while piece := self.read():
                        self.trusted |= woken
                        yield piece
                    self.wait()
                    continue
                except GONE as error:
                    self.say(f"connection lost ({(str(error).strip() or type(error).__name__).splitlines()[0]}), trying again")
                self.connect_again()
        finally:
            self.conn.close()

    # -- connections ----------------------------------------------------------

    def connect(self) -> None:
        """A session that knows how to read the column, and is told of appends if its table's are told of."""
        self.conn = self.server.connect()
        self.conn.execute("SET client_encoding = UTF8")
        read_tables_only(self.conn)
        oid, self.name = find_table(self.conn, self.table)
        found = self.conn.execute(COLUMN, (oid, self.column)).fetchone()
        if found is None or not is_appendable(self.conn, found[1], found[0]):
            raise LabError(f'column "{self.column}" of {self.table} ' + ("does not exist" if found is None else f"is of type {found[1]}"),
                           "Only appendable_bytea and appendable_text can be followed.")
        schema, kind, encoding, told = found
        # what is text there need not be any here: bytes as they are
        self.encoding = "SQL_ASCII" if encoding == "SQL_ASCII" else "UTF8"
        kept = f"right(t.data, {KEPT})" if kind == "appendable_text" else f"substr(t.data, greatest(octet_length(t.data) - {KEPT - 1}, 1))"
        self.query = sql.SQL(LOOK).format(kept=sql.SQL(kept), column=sql.Identifier(self.column), table=self.name,
                                          where=self.condition(), tail=sql.Identifier(schema, "appendable_tail")).as_bytes(self.conn)
        self.conn.pgconn.notify_handler = self.told
        #: For each channel the payload that means this row, None if any does.
        self.channels: dict[bytes, bytes | None] = {}
        self.woken = False
        #: Has a notification told of more?  A trigger may be there and not fire: where rows come by logical replication.
        self.trusted = False
        if told and not self.conn.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
            for channel, *key in told:
                self.conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                self.channels[channel.encode()] = self.key(key[0]) if key and channel.encode() not in self.channels else None
        self.conn.execute(f"SET client_encoding = {self.encoding}")
        self.check()

    def connect_again(self) -> None:
        """The same after the connection has gone, as soon as there is a server."""
        pause = 0.1
        while True:
            self.conn.close()
            try:
                return self.connect()
            except GONE:
                pass
            except LabError as error:
                if not isinstance(error.__context__, GONE):
                    raise
            time.sleep(pause)
            pause = min(2 * pause, PAUSE)

    def condition(self) -> sql.SQL:
        """What picks the row, for a statement with parameters; it may end with a comment."""
        return sql.SQL(self.where.replace("%", "%%") + "\n")

    def key(self, column: str) -> bytes | None:
        """The row's value in the column that notifications carry, as they do."""
        rows = self.conn.execute(sql.SQL("SELECT convert_to(format('%%s', {}), %s::name) FROM {} WHERE {} LIMIT 2").format(
            sql.Identifier(column), self.name, self.condition()), (self.encoding,)).fetchall()
        return rows[0][0] if len(rows) == 1 else None

    # -- reading ----------------------------------------------------------------

    def ask(self, offset: int, most: int, lines: bool) -> tuple | None:
        """(data, its offset, the next one, its last characters, their bytes), or None of a null value."""
        before = self.before if offset == self.offset else []
        size = sum(octets for _, octets in before)
        try:
            rows = self.conn.execute(self.query, (offset, most, lines, max(offset - size, 0), max(size, 1)), binary=True).fetchall()
        except psycopg.errors.InvalidParameterValue as error:
            raise LabError(f"the value is not the one that was followed: {error.diag.message_primary}", error.diag.message_hint or "") from None
        if len(rows) != 1:
            raise LabError(
                f"{'no row' if not rows else 'more than one row'} of {self.table} satisfies: {self.where}",
                "The condition must pick exactly one row, such as: id = 7.",
            )
        if rows[0][2] is None:
            return None
        if before:
            self.compare(rows[0][5], before[0][0][:0].join(data for data, _ in before), offset - size)
        return rows[0][:5]

    def compare(self, found: str | bytes, data: str | bytes, offset: int) -> None:
        """What was read at an offset must still be there; more may be, a call gives whole characters."""
        if not found.startswith(data):
            raise LabError(f"the value is not the one that was followed: its bytes from {offset} on were replaced", "Start to follow it again.")

    def check(self) -> None:
        """All that was read last must still be there."""
        if self.last is None:
            return
        start, data = self.last
        found = self.ask(start, self.offset - start, False)
        self.compare(found[0] if found else data[:0], data, start)

    def read(self) -> bytes | None:
        """The next piece, None if there is nothing new."""
        found = self.ask(self.offset, PIECE, self.lines or self.offset < 0)
        if found and not found[0] and self.offset < 0 and not self.lines:  # all inside of one line
            found = self.ask(self.offset, PIECE, False)
        if found is None:
            if self.last is not None:
                raise LabError("the value is not the one that was followed: it is null now", "Start to follow it again.")
            return None
        data, start, self.offset, *kept = found
        if not data:
            return None
        self.last = (start, data)
        self.before.append(tuple(kept))
        while sum(len(data) for data, _ in self.before[1:]) >= KEPT:
            del self.before[0]
        return data.encode() if isinstance(data, str) else data

    # -- waiting ----------------------------------------------------------------

    def told(self, notification: psycopg.pq.PGnotify) -> None:
        if self.channels.get(notification.relname) in (None, notification.extra):
            self.woken = True

    def wait(self) -> None:
        """Until an append to this row is told of, or it is time to look."""
        end = time.monotonic() + (max(SAFETY, self.every) if self.trusted else self.every)
        while not self.woken and (left := end - time.monotonic()) > 0:
            if select.select([self.conn.fileno()], [], [], left)[0]:
                self.conn.pgconn.consume_input()
                while found := self.conn.pgconn.notifies():
                    self.told(found)
