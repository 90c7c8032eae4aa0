"""The program of the documents that maintains a copy: the same rows after crashes of either server and of the program."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from pg_lean.cluster import Cluster
from pg_lean.paths import TOP

TABLE = "CREATE TABLE told (id int PRIMARY KEY, log appendable_text, data appendable_bytea, note text) WITH (fillfactor = 80)"
DIGEST = "SELECT id, octet_length(log), md5(log), octet_length(data), md5(data) FROM told ORDER BY id"


@pytest.fixture(scope="module")
def servers():
    source = Cluster(name="source", preload=["appendable_bytea"], settings={"wal_level": "logical"})
    copy = Cluster(name="copy", preload=["appendable_bytea"])
    if not source.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with source, copy:
        yield source, copy


def connect(server):
    return psycopg.connect(server.conninfo, autocommit=True)


def change(conn, rng):
    """One transaction: appends mostly, and everything else that can happen to a row."""
    key, other = rng.randrange(5), rng.randrange(5)
    text = "".join(rng.choices("abc äß€𝄞\n", k=rng.choice((1, 30, 3000, 200000))))
    statements = [
        ("UPDATE told SET log = log || %s::text, data = data || %s::bytea WHERE id = %s", (text, text.encode(), key)),
        ("UPDATE told SET log = log || %s::text WHERE id IN (%s, %s)", (text, key, other)),
        ("INSERT INTO told VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET log = told.log || excluded.log, data = NULL", (key, text)),
        ("INSERT INTO told VALUES (%s, %s, '') ON CONFLICT (id) DO UPDATE SET log = excluded.log, data = ''", (key, text)),
        ("UPDATE told SET log = appendable_drop_front(log, coalesce(appendable_line_offset(log, 0, %s), 0)) || %s::text WHERE id = %s",
         (rng.choice((1, 5, 5000)), text[:rng.choice((0, 50))], key)),
        ("UPDATE told SET data = appendable_drop_front(data, octet_length(data) / %s) WHERE id = %s", (rng.randint(1, 20), key)),
        ("UPDATE told SET note = %s WHERE id = %s", (text[:20], key)),
        ("DELETE FROM told WHERE id = %s", (key,)),
        ("UPDATE told SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM told WHERE id = %s)", (key, other, key)),
        ("TRUNCATE told", ()),
    ]
    with conn.transaction(force_rollback=rng.random() < 0.1):
        for _ in range(rng.randint(1, 4)):
            conn.execute(*rng.choices(statements, (30, 30, 10, 5, 10, 10, 5, 2, 3, 0.2))[0])


@pytest.mark.slow
def test_the_copy_of_the_documents_is_correct_after_crashes(servers, tmp_path):
    source, copy = servers
    page = (TOP / "appendable_bytea" / "docs" / "following.md").read_text()
    program = tmp_path / "copy_tables.py"
    code = re.findall(r"```python\n(.*?)```", page, re.S)[1]
    program.write_text(code + f"\n\ncopy({source.conninfo!r}, {copy.conninfo!r}, 'copy')\n")
    functions: dict = {}
    exec(code, functions)
    rng = random.Random(11)
    with connect(source) as conn:
        conn.execute(TABLE)
        conn.execute("INSERT INTO told VALUES (0, 'from before the trigger', ''), (100, repeat('0123456789', 30000), NULL)")
        for statement in "".join(re.findall(r"```(?:sql|postgresql)\n(.*?)```", page, re.S)[1:]).split(";\n"):
            conn.execute(statement)
        conn.execute("UPDATE told SET log = log || ', and between the slot and the copy' WHERE id = 0")
        conn.execute("SELECT pg_create_logical_replication_slot('seen', 'pgoutput')")
        # the value has the same length after each change: only the position shows which of them the copy has
        for i in range(3):
            conn.execute("UPDATE told SET log = appendable_drop_front(log, 1000) || repeat(%s, 1000) WHERE id = 100", (str(i),))
    with connect(copy) as conn:
        conn.execute(TABLE)
    # the copy begins while a transaction writes, and waits for its end
    with connect(source) as writer, writer.transaction():
        writer.execute("UPDATE told SET log = log || ', and while the copy begins' WHERE id = 0")
        beginning = threading.Thread(target=functions["begin"], args=(source.conninfo, copy.conninfo, "copy", "told"))
        beginning.start()
        with connect(source) as conn:
            while not conn.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareLock')").fetchone()[0]:
                assert beginning.is_alive()
                time.sleep(0.02)
    beginning.join()
    with connect(copy) as conn:
        assert conn.execute("SELECT log FROM told WHERE id = 0").fetchone()[0] == \
            "from before the trigger, and between the slot and the copy, and while the copy begins"

    process = None

    def consumer():
        nonlocal process
        if process is None or process.poll() is not None:
            process = subprocess.Popen([sys.executable, str(program)], stderr=subprocess.DEVNULL)

    try:
        for step in range(9):
            with connect(source) as conn:
                for _ in range(25):
                    change(conn, rng)
                    consumer()
            if step % 3 == 0:
                source.restart("immediate")
            elif step % 3 == 1:
                copy.restart("immediate")
            else:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
        with connect(source) as conn:
            wanted = conn.execute(DIGEST).fetchall()
        deadline = time.monotonic() + 120
        while True:
            consumer()
            with connect(copy) as conn:
                got = conn.execute(DIGEST).fetchall()
            if got == wanted:
                break
            assert time.monotonic() < deadline, (wanted, got)
            time.sleep(0.2)
        with connect(source) as conn:
            dropped = conn.execute("SELECT count(*) FROM pg_logical_slot_get_binary_changes('seen', NULL, NULL, 'proto_version', '1', "
                                   "'publication_names', 'deltas', 'messages', 'true') "
                                   "WHERE get_byte(data, 0) = ascii('M') AND position('\"op\": \"drop\"'::bytea IN data) > 0").fetchone()[0]
            assert dropped > 10
            conn.execute("SELECT pg_drop_replication_slot('seen')")
        # when nothing is left to send, the slot does not keep WAL
        deadline = time.monotonic() + 60
        with connect(source) as conn:
            now = conn.execute("SELECT pg_current_wal_flush_lsn()").fetchone()[0]
            while not conn.execute("SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots", (now,)).fetchone()[0]:
                assert time.monotonic() < deadline, "the slot stays behind"
                consumer()
                time.sleep(0.1)
        assert connect(copy).execute("SELECT count(*) FROM appendable_bytea_check()").fetchone()[0] == 0
    finally:
        if process is not None:
            process.kill()
            process.wait()


def test_a_message_that_does_not_fit_is_an_error(servers):
    """A copy that differs, or a message of an operation that the program does not know, is not stored silently."""
    _, copy = servers
    page = (TOP / "appendable_bytea" / "docs" / "following.md").read_text()
    functions: dict = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.S)[1], functions)
    head = '{"op": "%s", "schema": "public", "table": "short", "key": {"id": "1"}, "column": "log", %s}\n'
    with connect(copy) as conn:
        conn.execute("CREATE TABLE short (id int PRIMARY KEY, log appendable_text)")
        conn.execute("INSERT INTO short VALUES (1, '0123456789')")
        for op, more, error in (("drop", '"offset": 11, "dropped": 5', RuntimeError), ("append", '"type": "text", "offset": 9, "length": 0', RuntimeError),
                                ("other", '"offset": 10', KeyError)):
            with pytest.raises(error):
                functions["apply"](conn, (head % (op, more)).encode())
        functions["apply"](conn, (head % ("drop", '"offset": 10, "dropped": 5')).encode())
        assert conn.execute("SELECT log FROM short").fetchone()[0] == "56789"
