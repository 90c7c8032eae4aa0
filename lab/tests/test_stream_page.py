"""docs/streams.md: the page of the document in Chromium shows appends of SQL as they are committed, whatever fails in between."""

import http.server
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from conftest import free_port
from pg_lean.cluster import Cluster
from pg_lean.paths import TOP

pytestmark = pytest.mark.slow

PAGE = (TOP / "docs" / "streams.md").read_text()
PATIENCE = 60


def block(language, number=0):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)[number]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The server of streams, built."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go here (Debian's package golang)")
    path = tmp_path_factory.mktemp("streams") / "streams"
    subprocess.run(["go", "build", "-o", path, "."], cwd=TOP / "streams" / "src", check=True)
    return path


@pytest.fixture
def server():
    cluster = Cluster(name="test", preload=["appendable_bytea"])
    if not cluster.has_library("appendable_bytea"):
        pytest.skip("appendable_bytea is not installed for this server (make install)")
    with cluster:
        yield cluster


class Program:
    """The server of streams with the configuration of the document, at a free port."""

    def __init__(self, program, cluster, folder, **settings):
        self.program = program
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = folder / "streams.json"
        self.config.write_text(json.dumps(json.loads(block("json")) | {"listen": f"127.0.0.1:{self.port}", "database": cluster.conninfo} | settings))
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.process = subprocess.Popen([self.program, "-config", self.config], stderr=subprocess.DEVNULL)
        wait_until(self.answers, "the server does not start")

    def answers(self):
        assert self.process.poll() is None, "the server ended"
        try:
            return urllib.request.urlopen(f"{self.url}/runs/1/log", timeout=5).status == 200
        except OSError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def statements(text):
    return [statement for line in text.splitlines() if (statement := re.sub("--.*", "", line).strip())]


def test_the_page_shows_what_sql_commits(browser, program, server, tmp_path):
    (tmp_path / "run.html").write_text(block("html"))
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        for statement in statements(block("sql")):
            conn.execute(statement)

    class Files(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path))

        def log_message(self, *_):
            pass

    files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=files.serve_forever, daemon=True).start()
    try:
        with Program(program, server, tmp_path) as streams:
            stream = f"{streams.url}/runs/1/log"
            browser.open(f"http://127.0.0.1:{files.server_port}/run.html?stream={quote(stream, safe='')}", 800)

            def shown():
                return browser.ask("document.getElementById('log').textContent")

            def state():
                return browser.ask("document.getElementById('state').textContent")

            def shows(text, what):
                wait_until(lambda: shown() == text, f"{what}: {shown()!r} instead of {text!r}")

            shows("started\n", "the beginning")
            assert state() == "following"
            expected = "started\n"
            first, *rest = statements(block("sql", 1))
            with psycopg.connect(server.conninfo, autocommit=True) as conn:
                conn.execute(first)
                expected += "line 2\n"
                shows(expected, "an append")
                # spaces and line ends come as they were written
                for text in ("  two spaces before\n", "no end, ", " and a space, ", "é€😀", "\n\n", "<b>&amp;</b>\n"):
                    conn.execute("UPDATE runs SET log = log || %s::text WHERE id = 1", (text,))
                    expected += text
                    shows(expected, f"an append of {text!r}")
                # a transaction that is open, and then ends with an append of another table's
                with psycopg.connect(server.conninfo) as other:
                    other.execute("UPDATE runs SET log = log || 'open'::text WHERE id = 1")
                    time.sleep(0.5)
                    assert shown() == expected
                    other.rollback()
            # the server of streams is killed, and an append is committed in the meantime
            streams.stop()
            with psycopg.connect(server.conninfo, autocommit=True) as conn:
                conn.execute("UPDATE runs SET log = log || 'while it was down\n'::text WHERE id = 1")
            expected += "while it was down\n"
            wait_until(lambda: state() == "connecting", "the page does not notice")
            streams.start()
            shows(expected, "the server came back")
            # and PostgreSQL
            server.restart("immediate")
            with psycopg.connect(server.conninfo, autocommit=True) as conn:
                conn.execute("UPDATE runs SET log = log || 'after a crash\n'::text WHERE id = 1")
                expected += "after a crash\n"
                shows(expected, "PostgreSQL came back")
                for statement in rest:
                    conn.execute(statement)
                shows(expected + "line 3\ndone\n", "the end")
                wait_until(lambda: state() == "finished", "the page does not notice the end")
                assert conn.execute("SELECT log FROM runs").fetchone()[0] == shown()
    finally:
        files.shutdown()
        files.server_close()


def test_the_session_with_streams_that_clients_write(program, server, tmp_path):
    """The commands of the document, with its paths and port replaced."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        for statement in statements(block("sql")):
            conn.execute(statement)
    streams = Program(program, server, tmp_path, prefix="/streams/")
    psql = Path(server.bindir) / "psql"
    setup, grant, *requests = block("sh", 1).splitlines()

    def shell(command):
        for shown, here in (("streams/src/streams", program), ("streams.json", streams.config), ("http://127.0.0.1:4437", streams.url)):
            command = command.replace(shown, str(here))
        command = re.sub("^psql", f"{psql} -q '{server.conninfo}'", command)
        return subprocess.run(["sh", "-c", command.replace("curl ", "curl -sf ")], check=True, capture_output=True, text=True).stdout

    shell(setup)
    shell(grant)
    with streams:
        for request in requests[:-1]:
            shell(request)
        shell(requests[-2])  # a retry
        assert shell(requests[-1]) == "hello"
        with psycopg.connect(server.conninfo, autocommit=True) as conn:
            conn.execute(re.findall(r"`(UPDATE streams\.stream .*?)`", PAGE)[0])
        assert shell(requests[-1]) == "hellohello"
