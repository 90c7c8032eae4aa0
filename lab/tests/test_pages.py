"""Every document: its sessions run on a fresh database as they are pasted, its figures are those of the results, its links lead somewhere."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pg_lean import docs
from pg_lean.cluster import LIBRARIES, Cluster
from pg_lean.measure import Estimate
from pg_lean.paths import TOP
from pg_lean.result import Headline, Result, Table

PAGES = docs.pages()


def names(pages):
    return [str(page.relative_to(TOP)) for page in pages]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.S | re.M)


@pytest.fixture(scope="module")
def preloaded():
    """A private server set up by the front page's own preload advice: ALTER SYSTEM as it is written there, and a restart."""
    advice = re.search(r"^ALTER SYSTEM SET shared_preload_libraries = .*;$", (TOP / "README.md").read_text(), re.M).group(0)
    with Cluster(name="test", settings={"compute_query_id": "on"}) as cluster:
        if not all(map(cluster.has_library, LIBRARIES)):
            pytest.skip("the extensions are not installed for this server (make install)")
        with cluster.connect() as conn:
            conn.execute(advice)
        cluster.restart()
        yield cluster


@pytest.fixture
def database(preloaded):
    """A fresh database, as a connection string."""
    with preloaded.connect() as conn:
        conn.execute("DROP DATABASE IF EXISTS fresh WITH (FORCE)")
        conn.execute("CREATE DATABASE fresh")
        yield "fresh"
        conn.execute("DROP DATABASE fresh WITH (FORCE)")


def test_the_preload_advice_starts_a_server_with_every_library(preloaded):
    with preloaded.connect() as conn:
        loaded = {name.strip() for name in conn.execute("SHOW shared_preload_libraries").fetchone()[0].split(",")}
    assert loaded == set(LIBRARIES)


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_no_page_quotes_a_list_of_libraries_in_alter_system(page):
    """Quoted as a whole it is one library's name, and the server does not start."""
    assert not re.search(r"ALTER SYSTEM SET \w+_preload_libraries\s*=\s*'[^']*,", page.read_text())


#: What pages name that a test's server has elsewhere or not at all.
PLACES = {"'/mnt/pg_ram'": "'/dev/shm'"}
AFTERWARDS = {"ram_tablespace": ["ALTER ROLE reporting IN DATABASE fresh RESET ALL", "CALL ram_tablespace_drop('ram')", "DROP ROLE reporting"]}

WITH_SQL = [page for page in PAGES if blocks(page, "sql")]


@pytest.mark.parametrize("page", WITH_SQL, ids=names(WITH_SQL))
def test_statements_of_a_page_can_be_pasted(preloaded, database, page):
    """All ```sql blocks of a page, one after the other in one session, where the extensions are installed."""
    with psycopg_session(preloaded, database) as conn:
        for library in LIBRARIES:
            conn.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(library)))
        conn.execute("DROP ROLE IF EXISTS reporting")
        conn.execute("CREATE ROLE reporting")
        try:
            for block in blocks(page, "sql"):
                for place, here in PLACES.items():
                    block = block.replace(place, here)
                for statement in statements(block):
                    if not statement.startswith("CREATE EXTENSION"):
                        conn.execute(statement)
        finally:
            if page.parent.name == "ram_tablespace":
                conn.execute("DROP OWNED BY reporting")
                conn.execute("RESET temp_tablespaces")
                conn.execute("ALTER ROLE reporting RESET ALL")
                conn.execute("CALL ram_tablespace_drop('ram')")
            conn.execute("DROP OWNED BY reporting")
            conn.execute("DROP ROLE reporting")


def nodes_of(plan: list[str]) -> list[tuple[str, float]]:
    """Name and rows of a loop of each node that ran, as EXPLAIN ANALYZE prints them."""
    return [(name, float(rows)) for line in plan for name, rows in
            re.findall(r"^\s*(?:->\s+)?(\S.*?)  \(cost=.*\(actual time=\S+ rows=([\d.]+) loops=[1-9]", line)]


ASKS_FOR_LAST = [page for page in WITH_SQL if "FROM light_explain_last()" in "".join(blocks(page, "sql"))]


@pytest.mark.parametrize("page", ASKS_FOR_LAST, ids=names(ASKS_FOR_LAST))
def test_what_a_page_asks_of_the_last_explain_is_what_it_explained(preloaded, database, page):
    """Whatever was switched off and on before."""
    found = 0
    with psycopg_session(preloaded, database) as conn:
        conn.execute("CREATE EXTENSION light_explain")
        for statement in statements("".join(blocks(page, "sql"))):
            if statement.startswith(("CREATE EXTENSION", "ALTER SYSTEM")):
                continue
            done = conn.execute(statement)
            if statement.startswith("EXPLAIN"):
                explained = nodes_of([line for line, in done.fetchall()])
            elif "light_explain_last()" in statement:
                asked = conn.execute(re.sub("^SELECT .* FROM", "SELECT label, rows, loops FROM", statement)).fetchall()
                assert asked
                for label, rows, loops in asked:
                    assert any(name == label.strip() and abs(rows / loops - shown) <= 0.5 for name, shown in explained), (label, rows, loops, explained)
                found += 1
    assert found


def psycopg_session(server, database):
    """A session of that database as psql has it: autocommit, and statements one by one."""
    conn = psycopg.connect(f"{server.conninfo} dbname={database}", autocommit=True)
    conn.prepare_threshold = None
    return conn


def statements(block: str) -> list[str]:
    """The statements of a block; none of the pages' has a semicolon inside."""
    bare = re.sub(r"--.*", "", block)
    return [statement.strip() for statement in bare.split(";") if statement.strip()]


WITH_SESSIONS = [page for page in PAGES if blocks(page, "console")]


@pytest.mark.parametrize("page", WITH_SESSIONS, ids=names(WITH_SESSIONS))
def test_sessions_of_a_page_print_what_it_shows(preloaded, database, page):
    """All ```console sessions of a page in one database that has nothing yet."""
    for session in blocks(page, "console"):
        lines = session.splitlines()
        commands = "\n".join(line[3:] for line in lines if line.startswith("=> "))
        assert commands, "a session has statements"
        done = preloaded.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, input=commands + "\n", env={"PGOPTIONS": ""})
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert [line for line in done.stdout.splitlines() if line.strip()] == [line for line in lines if line.strip() and not line.startswith("=> ")]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text):
        target = "".join(target)
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        to = page.parent / path if path else page
        assert to.exists(), f"{target} does not exist"
        if anchor and to.suffix == ".md":
            headings = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", to.read_text(), re.M)}
            assert anchor in headings, f"{target}: no such section"


#: The pages that only the lab's own engineers and make docs write; the others are read by their authors.
READABLE = [TOP / "lab" / "README.md", *TOP.glob("*/docs/measured.md")]


@pytest.mark.parametrize("page", READABLE, ids=names(READABLE))
def test_lines_can_be_read_in_a_terminal(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    long = [line for line in text.splitlines() if len(line) > 110 and not line.startswith(("|", "<"))]
    assert not long, "\n".join(long)


def test_the_front_page_answers_what_a_stranger_asks():
    headings = re.findall(r"^## (.*)$", (TOP / "README.md").read_text(), re.M)
    asked = ["Two commands", "Before and after", "What it gives", "When not to use it", "Is it safe?", "Versions and upgrades", "Alternatives", "Using it"]
    assert [heading for heading in headings if heading in asked] == asked
    assert "Managed servers" in (TOP / "README.md").read_text()


@pytest.mark.parametrize("extension", LIBRARIES)
def test_an_extensions_page_answers_what_a_stranger_asks(extension):
    text = (TOP / extension / "README.md").read_text()
    for question in ("**Why.**", "**When not to use it.**", "**Is it safe?**", "## Getting started"):
        assert question in text, question
    assert blocks(TOP / extension / "README.md", "sql") and "DROP EXTENSION" in text


# -- figures -------------------------------------------------------------------


def test_every_page_and_picture_is_what_the_results_give():
    assert not docs.different(), "run make docs (lab/run docs)"


def test_pages_are_drawn_alike_by_every_process():
    """What is kept in sets comes in another order in each process."""
    for seed in ("1", "2", "3"):
        done = subprocess.run([sys.executable, "-c", "from pg_lean import docs; print(docs.different())"], capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed})
        assert done.stdout == "[]\n", done.stdout + done.stderr


FIGURE = re.compile(r"\d\s?(?:ms|µs|MB/s|GB/s)\b|\d(?:\.\d+)? times (?:as|faster|slower)|\b\d\.\d+x\b")


#: Times that are not measured but defined: what settings mean, and what a clock's resolution follows from.
DEFINED = re.compile(r"tick|for the first 2 ms|resolution|^\| `[\w.]+` \|")


FOR_NEWCOMERS = [page for page in PAGES if page.name == "README.md"]


@pytest.mark.parametrize("page", FOR_NEWCOMERS, ids=names(FOR_NEWCOMERS))
def test_measured_figures_stand_only_where_they_are_drawn(page):
    text = docs.BLOCK.sub("", page.read_text())
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    found = [line for line in text.splitlines() if FIGURE.search(re.sub(r"`[^`]*`", "", line)) and not DEFINED.search(line)]
    assert not found, "\n".join(found)


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A repository with one page and no results."""
    monkeypatch.setattr(docs, "TOP", tmp_path)
    monkeypatch.setattr(docs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(docs, "PICTURES", {tmp_path / "docs" / "pg_lean": ("temp",)})
    (tmp_path / "README.md").write_text("Before.\n<!-- figures: temp -->\nold\n<!-- /figures -->\n<!-- figures: temp, Other -->\n<!-- /figures -->\nAfter.\n")
    return tmp_path


def measured(major: str, median: float, **kwargs) -> Result:
    ratio = Estimate.of([median] * 6)
    result = Result("t", "", "", "", name="temp", headlines=[Headline("counting", ratio, [("stock", median * 10), ("pg_lean", 10.0)])],
                    blocks=[Table("Times", ["query", "ms | stock"], [["count | x", 12.5]])], **kwargs)
    result.machine = {"server": f"PostgreSQL {major}.1 on x", "processor": "A <processor>", "processors": 2, "measured": "2026", "pg_lean": "abc"}
    return result


def test_without_results_a_page_says_how_to_get_them(house):
    docs.write()
    assert "make bench-temp" in (house / "README.md").read_text() and not (house / "docs").exists()


def test_full_results_are_kept_and_drawn_and_a_changed_page_is_found(house):
    build = house / "build"
    full, quick = measured("15", 2.0), measured("18", 9.0, quick=True)
    full.save(build / "bench" / "temp")
    assert docs.keep(build) == [house / "results" / "15" / "temp"]
    quick.save(build / "bench" / "temp")
    assert docs.keep(build) == [], "quick results are not kept"
    assert set(docs.write()) == {house / "README.md", house / "docs" / "pg_lean-light.svg", house / "docs" / "pg_lean-dark.svg"}
    page = (house / "README.md").read_text()
    assert page.startswith("Before.\n") and page.endswith("After.\n") and "old" not in page
    for text in ("**2.0x** (2.0 to 2.0)", "| counting | 20.0 ms | 10.0 ms |", "| count \\| x | 12.5 |", "PostgreSQL 15.1; A <processor>, 2 processors; 2026, pg_lean abc"):
        assert text in page, text
    assert docs.different() == []
    (house / "README.md").write_text(page.replace("2.0x", "3.0x"))
    (house / "docs" / "pg_lean-dark.svg").write_text("<svg/>")
    assert set(docs.different()) == {house / "README.md", house / "docs" / "pg_lean-dark.svg"}


def test_a_server_that_one_benchmark_is_missing_for_changes_nothing_else(house, monkeypatch):
    """Two benchmarks, two servers, one result missing, one measured with less effort: all that there is gets drawn, the newest first."""
    monkeypatch.setattr(docs, "PICTURES", {house / "docs" / "pg_lean": ("append", "temp")})
    page = house / "README.md"
    page.write_text("<!-- figures: front -->\n<!-- /figures -->\n<!-- figures: temp -->\n<!-- /figures -->\n<!-- figures: append -->\n<!-- /figures -->\n")
    build = house / "build"
    for major, name, median, effort in (("15", "append", 7.0, 1.0), ("15", "temp", 2.0, 1.0), ("18", "temp", 3.0, 0.2)):
        result = measured(major, median, effort=effort)
        result.name = name
        result.save(build / "bench" / name)
        docs.keep(build)
    assert len(docs.write()) == 3 and docs.different() == []
    front, temp, append, _ = page.read_text().split("<!-- /figures -->")
    assert "**7.0x**" in front and "**3.0x**" in front and "**2.0x**" not in front
    assert temp.index("PostgreSQL 18.1") < temp.index("PostgreSQL 15.1") and temp.count("of a full run's repetitions") == 1
    assert "20% of a full run's repetitions" in " ".join(temp.split("PostgreSQL 15.1")[0].split())
    assert "PostgreSQL 15.1" in append and "PostgreSQL 18.1" not in append


def test_one_caption_speaks_for_all_headlines_of_one_machine_and_commit(house, monkeypatch):
    """Two benchmarks of one server on two days: one caption with both days; a third of another server has its own, after theirs."""
    monkeypatch.setattr(docs, "PICTURES", {house / "docs" / "pg_lean": ("append", "temp", "flush")})
    page = house / "README.md"
    page.write_text("<!-- figures: front -->\n<!-- /figures -->\n")
    for major, name, when, stolen in (("18", "append", "2026-11-02 10:00 UTC", 0.02), ("18", "temp", "2026-11-01 23:00 UTC", 0.04), ("15", "flush", "2026-10-01 10:00 UTC", 0.0)):
        result = measured(major, 2.0)
        result.name = name
        result.machine |= {"measured": when, "stolen": stolen}
        result.save(house / "build" / "bench" / name)
        docs.keep(house / "build")
    docs.write()
    captions = re.findall(r"^\*PostgreSQL [^*]*\*$", page.read_text(), re.MULTILINE)
    assert [" ".join(caption.split()) for caption in captions] == [
        "*PostgreSQL 18.1; A <processor>, 2 processors; 2026-11-01 to 2026-11-02, pg_lean abc; the host gave others up to 4% of the processor time wanted.*",
        "*PostgreSQL 15.1; A <processor>, 2 processors; 2026-10-01 10:00 UTC, pg_lean abc.*"]


def test_pictures_are_well_formed_and_fit(house):
    import xml.etree.ElementTree as xml

    for scheme in docs.COLORS:
        text = docs.picture([Headline("a <name> & " + "long words " * 9, Estimate.of([6600.0] * 6), [("stock", 6600.0), ("pg_lean", 1.0)]),
                             Headline("b", Estimate.of([0.5, 2.0] * 3), [("stock", 1.0), ("pg_lean", 1.0)])], scheme)
        root = xml.fromstring(text)
        width = float(root.get("width"))
        for rectangle in root.iter("{http://www.w3.org/2000/svg}rect"):
            assert float(rectangle.get("x") or 0) + float(rectangle.get("width")) <= width
        assert "too loud to tell" in text
