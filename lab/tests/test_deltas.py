"""The program of the documents that maintains a copy: the same rows after crashes of either server and of the program."""

import os
import random
import re
import signal
import subprocess
import sys
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
        ("UPDATE told SET note = %s WHERE id = %s", (text[:20], key)),
        ("DELETE FROM told WHERE id = %s", (key,)),
        ("UPDATE told SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM told WHERE id = %s)", (key, other, key)),
        ("TRUNCATE told", ()),
    ]
    with conn.transaction(force_rollback=rng.random() < 0.1):
        for _ in range(rng.randint(1, 4)):
            conn.execute(*rng.choices(statements, (30, 30, 10, 5, 5, 2, 3, 0.2))[0])


def test_the_copy_of_the_documents_is_correct_after_crashes(servers, tmp_path):
    source, copy = servers
    page = (TOP / "appendable_bytea" / "docs" / "following.md").read_text()
    program = tmp_path / "copy_tables.py"
    program.write_text(re.findall(r"```python\n(.*?)```", page, re.S)[1] + f"\n\ncopy({source.conninfo!r}, {copy.conninfo!r}, 'copy')\n")
    rng = random.Random(11)
    with connect(source) as conn:
        conn.execute(TABLE)
        conn.execute("INSERT INTO told VALUES (0, 'from before the trigger', '')")
        for statement in "".join(re.findall(r"```(?:sql|postgresql)\n(.*?)```", page, re.S)[1:]).split(";\n"):
            conn.execute(statement)
        conn.execute("UPDATE told SET log = log || ', and between the slot and the copy'")
        rows = conn.execute("SELECT id, log, data FROM told").fetchall()
    with connect(copy) as conn:
        conn.execute(TABLE)
        conn.cursor().executemany("INSERT INTO told VALUES (%s, %s, %s)", rows)

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
