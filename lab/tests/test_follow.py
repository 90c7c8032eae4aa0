"""pg-lean follow: everything once and in order, however connections end; and the example of the documents."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import psycopg
import pytest

from conftest import hostile
from pg_lean.cluster import PORT, Cluster, UserServer
from pg_lean.errors import LabError
from pg_lean.following import Follower
from pg_lean.paths import TOP

TABLES = """
CREATE TABLE silent (id int PRIMARY KEY, log appendable_text, data appendable_bytea);
CREATE TABLE told (LIKE silent INCLUDING ALL);
CREATE TRIGGER tell AFTER INSERT OR UPDATE OF log ON told FOR EACH ROW EXECUTE FUNCTION appendable_notify('told', 'id');
"""


@pytest.fixture(scope="module")
def server():
    cluster = Cluster(name="test", preload=["appendable_bytea"], settings={"fsync": "off"}, extension_schema="work")
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with hostile(cluster):
        with cluster.connect() as conn:
            conn.execute("SET search_path = work; " + TABLES)
        yield cluster


@pytest.fixture
def rows(server):
    conn = server.connect()
    conn.execute("SET search_path = work")
    for table in ("silent", "told"):
        conn.execute(f"TRUNCATE {table}")
        conn.execute(f"INSERT INTO {table} SELECT i, '', '' FROM generate_series(1, 3) i")
    yield conn
    conn.close()


@contextlib.contextmanager
def following(server, *args):
    """pg-lean follow as a user runs it: (process, what it has written so far)."""
    process = subprocess.Popen([sys.executable, "-m", "pg_lean", "follow", *args, "--dsn", server.conninfo], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a background job's tests have it ignored
    got = bytearray()

    def take():
        while data := os.read(process.stdout.fileno(), 65536):
            got.extend(data)

    reader = threading.Thread(target=take)
    reader.start()
    try:
        yield process, got
    finally:
        process.kill()
        reader.join()
        process.communicate()


def wait_until(condition, what, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.parametrize("table", ["silent", "told"])
def test_nothing_is_repeated_and_nothing_skipped_over_restarts_and_killed_sessions(server, rows, table):
    rng = random.Random(7)
    written = ""
    with following(server, f"work.{table}", "log", "--where", "id = 2", "--every", "0.05", "--start", "0") as (process, got):
        for step in range(60):
            line = f"{step}: " + "".join(rng.choices("abc äß€𝄞\n", k=rng.choice((3, 200, 5000)))) + "\n"
            with server.connect() as conn:
                conn.execute(f"UPDATE work.{table} SET log = log || %s::text WHERE id IN (1, 2)", (line,))
                if step % 3 == 0:
                    conn.execute("BEGIN")
                    conn.execute(f"UPDATE work.{table} SET log = log || 'never' WHERE id = 2")
                    conn.execute("ROLLBACK")
                if step % 15 == 5:
                    conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
            written += line
            if step % 20 == 10:
                server.restart("immediate" if step % 40 == 10 else "fast")
            if step % 5 == 0:
                wait_until(lambda: len(got) >= len(written.encode()) or process.poll() is not None, "the follower falls behind")
        wait_until(lambda: len(got) >= len(written.encode()) or process.poll() is not None, "the follower does not get everything")
        time.sleep(0.3)
        assert process.poll() is None and got.decode() == written


class Standby(Cluster):
    """A standby of another cluster."""

    def __init__(self, primary):
        self.primary = primary
        super().__init__(primary.pg_config, preload=primary.preload, settings=primary.settings, name="standby")

    def _initdb(self):
        super()._initdb()
        shutil.rmtree(self.data)
        done = self.run(
            "pg_basebackup", "-D", str(self.data), "-R", "-c", "fast", "-d", f"host={self.primary.sockets} port={PORT} user=postgres application_name=standby"
        )
        assert done.returncode == 0, done.stderr

    def create_extensions(self):
        pass

    make_schema = create_extensions


@pytest.fixture
def pair(server):
    """A primary with a log, its standby, and a connection string of both."""
    primary = Cluster(
        name="test",
        preload=["appendable_bytea"],
        settings={"fsync": "off", "wal_level": "replica", "max_wal_senders": 4, "hot_standby": "on"},
        extension_schema="work",
    )
    with primary:
        with primary.connect() as conn:
            conn.execute("SET search_path = work; " + TABLES)
            for table in ("silent", "told"):
                conn.execute(f"INSERT INTO {table} SELECT i, '', '' FROM generate_series(1, 3) i")
        with Standby(primary) as standby:
            yield primary, standby, SimpleNamespace(conninfo=f"host={primary.sockets},{standby.sockets} port={PORT},{PORT} user=postgres dbname=postgres")


def append_line(conn, table, line):
    conn.execute(f"UPDATE work.{table} SET log = log || %s::text WHERE id IN (1, 2)", (line,))


@pytest.mark.parametrize("table", ["silent", "told"])
def test_nothing_is_repeated_and_nothing_skipped_when_a_standby_takes_over(pair, table):
    primary, standby, both = pair
    with primary.connect() as conn:
        conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        conn.execute("SELECT pg_reload_conf()")
        wait_until(lambda: conn.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()[0], "the standby does not come")
    rng = random.Random(11)
    conn = primary.connect(synchronous_commit="remote_apply")
    killer = threading.Timer(2, primary.stop, ("immediate",))
    lines, lost = [], 0
    with following(both, f"work.{table}", "log", "--where", "id = 2", "--every", "0.05", "--start", "0") as (process, got):
        killer.start()
        while len(lines) < 60 or not lost:
            lines.append(f"{len(lines)}: " + "".join(rng.choices("abc äß€𝄞\n", k=rng.choice((3, 200, 5000)))) + "\n")
            try:
                append_line(conn, table, lines[-1])
            except (psycopg.OperationalError, psycopg.InterfaceError):
                lost += 1
                with contextlib.suppress(psycopg.Error):
                    conn.close()
                killer.join()
                conn = standby.connect()
                assert conn.execute("SELECT pg_promote()").fetchone()[0]
                # it was not acknowledged, and may be there
                there = conn.execute(f"SELECT log FROM work.{table} WHERE id = 2").fetchone()[0]
                if there == "".join(lines[:-1]):
                    lines.pop()
                assert there == "".join(lines)
            time.sleep(0.02)
        written = "".join(lines).encode()
        wait_until(lambda: len(got) >= len(written) or process.poll() is not None, "the follower does not get everything")
        time.sleep(0.3)
        assert process.poll() is None and got == written and lost == 1
    conn.close()


def test_a_standby_that_takes_over_without_everything_is_not_followed(pair):
    primary, standby, both = pair
    with primary.connect() as conn, following(both, "work.silent", "log", "--where", "id = 2", "--every", "0.05", "--start", "0") as (process, got):
        append_line(conn, "silent", "on both\n")
        with standby.connect() as there:
            wait_until(lambda: there.execute("SELECT log <> '' FROM work.silent WHERE id = 2").fetchone()[0], "the standby does not follow")
            there.execute("ALTER SYSTEM SET primary_conninfo = ''")
            there.execute("SELECT pg_reload_conf()")
            wait_until(lambda: not there.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone()[0], "the standby continues to receive")
        append_line(conn, "silent", "on the primary alone\n")
        wait_until(lambda: got == b"on both\non the primary alone\n", "the follower falls behind")
        primary.stop("immediate")
        with standby.connect() as there:
            assert there.execute("SELECT pg_promote()").fetchone()[0]
            append_line(there, "silent", "and something else, which is longer\n")
        assert process.wait(120) == 1
        assert got == b"on both\non the primary alone\n"
        message = " ".join(process.stderr.read().decode().split())
        assert "the value is not the one that was followed" in message, message


def test_a_follower_that_is_told_looks_at_once_and_only_then(server, rows, monkeypatch):
    monkeypatch.setattr("pg_lean.following.SAFETY", 1e6)  # not without being told
    follower = Follower(server, "work.told", "log", "id = 2", every=1e6)
    pieces = follower.pieces()
    rows.execute("UPDATE told SET log = 'one'")
    assert next(pieces) == b"one"
    found = []
    thread = threading.Thread(target=lambda: found.append(next(pieces)))
    thread.start()
    rows.execute("UPDATE told SET log = log || 'of another' WHERE id = 1")
    rows.execute("UPDATE told SET data = data || '\\x01'::bytea WHERE id = 2")
    rows.execute("UPDATE told SET log = log || ' two' WHERE id = 2")
    thread.join(120)
    assert not thread.is_alive() and found == [b" two"] and follower.channels == {b"told": b"2"}
    pieces.close()


def test_whole_lines_the_end_and_bytes(server, rows):
    rows.execute("UPDATE silent SET log = 'first' || repeat('.', 3000) || E'\\nsecond\\nthird' WHERE id = 1")
    pieces = Follower(server, "work.silent", "log", "id = 1", start=-20, every=0.05).pieces()
    assert (next(pieces), next(pieces)) == (b"second\n", b"third")
    pieces.close()
    pieces = Follower(server, "work.silent", "log", "id = 1 AND log LIKE '%second%'", start=-20, lines=True, every=0.05).pieces()
    assert next(pieces) == b"second\n"
    rows.execute("UPDATE silent SET log = log || E' ends\\nfourth' WHERE id = 1")
    assert next(pieces) == b"third ends\n"
    pieces.close()
    rows.execute("UPDATE silent SET log = E'ended\\n' || repeat('.', 3000) WHERE id = 1")
    assert next(one := Follower(server, "work.silent", "log", "id = 1", start=-20, every=0.05).pieces()) == b"." * 20
    one.close()
    follower = Follower(server, "work.silent", "log", "id = 1", start=-20, lines=True)
    follower.connect()
    assert follower.read() is None
    rows.execute("UPDATE silent SET log = log || E' end\\n' WHERE id = 1")
    assert follower.read() == b"." * 3000 + b" end\n"
    follower.conn.close()
    value = bytes(range(256)) * 9000
    rows.execute("UPDATE silent SET data = %b WHERE id = 1", (value,))
    pieces = Follower(server, "work.silent", "data", "id = 1").pieces()
    assert next(pieces) + next(pieces) + next(pieces) == value
    pieces.close()


def test_what_is_not_a_continuation_is_not_taken_for_one(server, rows):
    rows.execute("UPDATE silent SET log = 'one two' WHERE id = 1")
    for change, words in (("log = 'one'", "beyond the end"), ("log = NULL", "null now")):
        pieces = Follower(server, "work.silent", "log", "id = 1", every=0.05).pieces()
        assert next(pieces) == b"one two"
        rows.execute(f"UPDATE silent SET {change} WHERE id = 1")
        with pytest.raises(LabError, match=words):
            next(pieces)
        rows.execute("UPDATE silent SET log = 'one two' WHERE id = 1")
    follower = Follower(server, "work.silent", "log", "id = 1", every=0.05)
    pieces = follower.pieces()
    assert next(pieces) == b"one two"
    follower.conn.close()
    rows.execute("UPDATE silent SET log = 'two one and more' WHERE id = 1")
    with pytest.raises(LabError, match="were replaced"):
        next(pieces)
    pieces = Follower(server, "work.silent", "log", "id = 1", every=0.05).pieces()
    next(pieces)
    rows.execute("DELETE FROM silent WHERE id = 1")
    with pytest.raises(LabError, match="no row of"):
        next(pieces)


def appended(rows, follower, pieces, text):
    """Append text; what the follower gives until it has as much, and its connection is killed before it looks."""
    rows.execute("SELECT pg_terminate_backend(%s, 60000)", (follower.conn.info.backend_pid,))
    rows.execute("UPDATE silent SET log = log || %s::text WHERE id = 1", (text,))
    got = b""
    while len(got) < len(text.encode()):
        got += next(pieces)
    return got.decode()


def test_short_pieces_are_gone_on_from_after_a_lost_connection(server, rows):
    follower = Follower(server, "work.silent", "log", "id = 1", every=0.05)
    rows.execute("UPDATE silent SET log = 'a' WHERE id = 1")
    pieces = follower.pieces()
    assert next(pieces) == b"a"
    for text in ("b", "cdefgh", "€", "ä1€𝄞", "\n") * 5:
        assert appended(rows, follower, pieces, text) == text
    pieces.close()


@pytest.mark.parametrize("read", [["abcdefghij"], list("aä€𝄞b"), ["x" * 3000], ["ä€" * 50, "1", "2"]])
def test_a_value_replaced_by_a_longer_one_is_not_continued(server, rows, read):
    rows.execute("UPDATE silent SET log = '' WHERE id = 1")
    pieces = Follower(server, "work.silent", "log", "id = 1", every=0.05).pieces()
    for text in read * 40 if len(read[0]) == 1 else read:
        rows.execute("UPDATE silent SET log = log || %s::text WHERE id = 1", (text,))
        assert next(pieces).decode() == text
    length = rows.execute("SELECT octet_length(log) FROM silent WHERE id = 1").fetchone()[0]
    rows.execute("UPDATE silent SET log = %s WHERE id = 1", ("0" * length + "REPLACED",))
    with pytest.raises(LabError, match="were replaced"):
        next(pieces)


def test_bytes_replaced_by_more_are_not_continued(server, rows):
    rows.execute("UPDATE silent SET data = %b WHERE id = 1", (b"\x00\xff" * 300,))
    follower = Follower(server, "work.silent", "data", "id = 1", every=0.05)
    pieces = follower.pieces()
    assert next(pieces) == b"\x00\xff" * 300
    rows.execute("UPDATE silent SET data = data || %b WHERE id = 1", (b"\x01",))
    assert next(pieces) == b"\x01"
    rows.execute("UPDATE silent SET data = %b WHERE id = 1", (b"\x00\xff" * 299 + b"\x00\x00\x01more",))
    with pytest.raises(LabError, match="were replaced"):
        next(pieces)


def next_within(pieces, seconds=120):
    """The next piece, b"" if none comes."""
    found = []
    thread = threading.Thread(target=lambda: found.append(next(pieces)), daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else b""


@pytest.mark.parametrize(
    "trigger", ["AFTER INSERT ON partly FOR EACH ROW", "AFTER UPDATE ON partly FOR EACH ROW WHEN (new.id > 5)", "AFTER UPDATE OF log ON partly FOR EACH ROW"]
)
def test_a_trigger_that_does_not_tell_of_every_append_is_not_waited_for(server, rows, monkeypatch, trigger):
    monkeypatch.setattr("pg_lean.following.SAFETY", 1e6)
    rows.execute("DROP TABLE IF EXISTS partly; CREATE TABLE partly (LIKE silent INCLUDING ALL); INSERT INTO partly VALUES (1, 'one', '')")
    rows.execute(f"CREATE TRIGGER tell {trigger} EXECUTE FUNCTION appendable_notify('partly', 'id')")
    pieces = Follower(server, "work.partly", "log", "id = 1", every=0.05).pieces()
    assert next(pieces) == b"one"
    rows.execute("SET session_replication_role = replica")  # as where rows come by logical replication: an ordinary trigger does not fire
    threading.Timer(0.5, lambda: rows.execute("UPDATE partly SET log = log || 'two'")).start()
    assert next_within(pieces) == b"two"
    pieces.close()


@pytest.mark.parametrize("encoding, text", [("LATIN1", "äöüß" * 700), ("EUC_JP", "日本語 " * 700), ("SQL_ASCII", "ä€𝄞" * 150000)])
def test_other_encodings_are_followed(server, monkeypatch, encoding, text):
    monkeypatch.setattr("pg_lean.following.SAFETY", 1e6)
    with server.connect() as conn:
        conn.execute(f"CREATE DATABASE {encoding} ENCODING {encoding} LOCALE 'C' TEMPLATE template0")
    other = UserServer(f"{server.conninfo} dbname={encoding.lower()}")
    name = text[0] + "\\000"
    with other.connect() as conn:
        conn.execute(
            "SET client_encoding = UTF8; CREATE SCHEMA work; SET search_path = work; CREATE EXTENSION appendable_bytea; CREATE TABLE t (id text PRIMARY KEY, "
            "log appendable_text)"
        )
        conn.execute(f"CREATE TRIGGER tell AFTER UPDATE OF log ON t FOR EACH ROW EXECUTE FUNCTION appendable_notify('{name}', 'id')")
        conn.execute("INSERT INTO t VALUES (%s, '')", (text[0],))
        conn.execute("UPDATE t SET log = log || %s::text", (text[0],))
        follower = Follower(other, "work.t", "log", f"id = '{text[0]}' -- {text[0]}", every=0.05)
        pieces = follower.pieces()
        assert next(pieces).decode() == text[0] and follower.channels == {name.encode(): text[0].encode()}
        got = b""
        for more in (text, "\n", text[::-1]):
            conn.execute("UPDATE t SET log = log || %s::text", (more,))
            while not got.endswith(more.encode()):
                assert (piece := next_within(pieces)), encoding
                got += piece
        assert got.decode() == text + "\n" + text[::-1]
        if encoding == "SQL_ASCII":
            conn.execute("UPDATE t SET log = log || E'\\xff\\xe4'::text")
            assert next_within(pieces) == b"\xff\xe4"
        length = conn.execute("SELECT octet_length(log) FROM t").fetchone()[0]
        conn.execute("UPDATE t SET log = %s", ("0" * length + "1",))
        with pytest.raises(LabError, match="were replaced"):
            next(pieces)


def test_a_condition_may_end_with_a_comment(pg_lean_here, server, rows):
    rows.execute("UPDATE told SET log = 'one', data = 'two' WHERE id = 1")
    pieces = Follower(server, "work.told", "log", "id = 1 -- mine").pieces()
    assert next(pieces) == b"one"
    pieces.close()
    status, out, err = pg_lean_here("cat", "work.told", "data", "--where", "id = 1 -- mine", "--dsn", server.conninfo)
    assert status == 0, err


@pytest.mark.parametrize(
    "args, words", [(("silent", "id"), "is of type int4"), (("silent", "nothing"), "does not exist"), (("silent", "log", "id > 0"), "more than one row")]
)
def test_mistakes_are_told(pg_lean_here, server, rows, args, words):
    status, _, err = pg_lean_here("follow", f"work.{args[0]}", args[1], "--where", args[2] if len(args) > 2 else "id = 1", "--dsn", server.conninfo)
    assert status == 1 and words in " ".join(err.split()), err


def test_an_interrupt_ends_it(server, rows):
    rows.execute("UPDATE silent SET log = 'one' WHERE id = 1")
    with following(server, "work.silent", "log", "--where", "id = 1") as (process, got):
        wait_until(lambda: got == b"one", "nothing comes")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_the_example_of_the_documents_follows(server, rows):
    code = re.search(r"```python\n(.*?)```", (TOP / "appendable_bytea" / "docs" / "following.md").read_text(), re.S)[1]
    found = {}
    exec(compile(code, "following.md", "exec"), found)
    lines = found["follow"](server.conninfo + " options='-c search_path=work'", 2)
    rows.execute("UPDATE told SET log = log || E'one\\ntw' WHERE id = 2")
    assert next(lines) == "one\n"
    writer = threading.Timer(0.5, lambda: rows.execute("UPDATE told SET log = log || E'o\\nthree\\n' WHERE id = 2"))
    writer.start()
    assert next(lines) == "two\nthree\n"
    writer.join()
    lines.close()
