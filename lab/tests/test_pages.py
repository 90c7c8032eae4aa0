"""Every document: its sessions run on a fresh database as they are pasted, its figures are those of the results, its links lead somewhere."""

import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from pg_lean import docs, questions
from pg_lean.cluster import LIBRARIES, Cluster
from pg_lean.measure import Estimate
from pg_lean.paths import TOP
from pg_lean.result import Headline, Result, Table

PAGES = docs.pages()


def names(pages):
    return [str(page.relative_to(TOP)) for page in pages]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.S | re.M)


#: A fenced block of a page: its language ("" for none) and its text.
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)


@pytest.fixture
def server():
    """A private server that has the extensions' files and nothing else: no library preloaded, no extension created."""
    with Cluster(name="test") as cluster:
        if not all(map(cluster.has_library, LIBRARIES)):
            pytest.skip("the extensions are not installed for this server (make install)")
        yield cluster


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_no_page_quotes_a_list_of_libraries_in_alter_system(page):
    """Quoted as a whole it is one library's name, and the server does not start."""
    assert not re.search(r"ALTER SYSTEM SET \w+_preload_libraries\s*=\s*'[^']*,", page.read_text())


#: Places that pages name and that a test's server has elsewhere.
PLACES = {"'/mnt/pg_ram'": "'/dev/shm'"}
#: A comment of a page that ends a statement's line, and what it promises.
PROMISE = re.compile(r"-- (?:shows: (?P<shown>.*)|writes (?P<relation>more|less) than (?P<bytes>\d+) bytes of WAL)$")


class Reader:
    """A reader who pastes the blocks of a page, one after the other, into one session of a database that was empty before."""

    def __init__(self, server):
        self.server = server
        with server.connect() as conn:
            conn.execute("CREATE DATABASE fresh")
            conn.execute("CREATE ROLE reporting")
        self.conn = None
        self.log = []

    def __enter__(self):
        self.connect()
        return self

    def __exit__(self, *_):
        self.conn.close()

    def connect(self):
        if self.conn:
            self.conn.close()
        self.conn = psycopg.connect(f"{self.server.conninfo} dbname=fresh", autocommit=True)
        self.conn.prepare_threshold = None

    def written(self):
        return self.conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0]

    def paste(self, block):
        """The statements of a block of SQL, a line or several each, with what their comments promise."""
        for place, here in PLACES.items():
            block = block.replace(place, here)
        statement = ""
        for line in block.splitlines():
            if line.startswith("-- restart the server"):
                self.server.restart()
                self.connect()
                continue
            code = re.sub(r"--.*", "", line).strip()
            statement = f"{statement} {code}".strip()
            if not code.endswith(";"):
                continue
            promise = PROMISE.search(line)
            assert promise or not re.search("-- (shows|writes)", line), line
            before = self.written() if promise and promise["bytes"] else 0
            rows = []
            for one in statements(statement):
                rows = self.execute(one)
            if promise and promise["bytes"]:
                found, bound = self.written() - before, int(promise["bytes"])
                assert found > bound if promise["relation"] == "more" else found < bound, (line, found)
            elif promise:
                text = "\n".join("\t".join(map(str, row)) for row in rows)
                for shown in promise["shown"].split(", "):
                    assert shown in text, (line, text)
            statement = ""
        assert not statement, f"without an end: {statement}"

    def execute(self, statement):
        done = self.conn.execute(statement)
        rows = done.fetchall() if done.description else []
        self.log.append((statement, rows))
        return rows

    def session(self, session):
        """A session of psql prints what it shows; what the page has created before is only noticed."""
        lines = session.splitlines()
        commands = "\n".join(line[3:] for line in lines if line.startswith("=> "))
        assert commands, "a session has statements"
        done = self.server.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "fresh", input=commands + "\n", env={"PGOPTIONS": ""})
        errors = re.sub(r'^NOTICE:  extension "\w+" already exists, skipping\n', "", done.stderr, flags=re.M)
        assert done.returncode == 0 and not errors, done.stderr
        assert [line for line in done.stdout.splitlines() if line.strip()] == [line for line in lines if line.strip() and not line.startswith("=> ")]

    def read(self, page):
        """All blocks, in the order of the page."""
        for language, block in FENCE.findall(page.read_text()):
            if language == "sql":
                self.paste(block)
            elif language == "console":
                self.session(block)


PASTED = [page for page in PAGES if blocks(page, "sql") or blocks(page, "console")]


@pytest.mark.parametrize("page", PASTED, ids=names(PASTED))
def test_the_blocks_of_a_page_can_be_pasted_in_its_order(server, page):
    """Into a server that has only what the page itself has set up so far; comments promise what happens."""
    with Reader(server) as reader:
        try:
            reader.read(page)
            check_last_explain(reader.log)
        finally:
            reader.connect()
            if reader.conn.execute("SELECT FROM pg_tablespace WHERE spcname = 'ram'").fetchone():
                reader.conn.execute("DROP OWNED BY reporting")
                reader.conn.execute("ALTER ROLE reporting RESET ALL")
                reader.conn.execute("CALL ram_tablespace_drop('ram')")


def functions(page):
    """What the page's Python blocks define."""
    found = {}
    for block in blocks(TOP / "docs" / page, "python"):
        exec(block, found)
    return found


def test_the_python_of_the_page_on_growing_logs_works(server):
    page = functions("growing-logs.md")
    with Reader(server) as reader:
        for block in blocks(TOP / "docs" / "growing-logs.md", "sql"):
            reader.paste(block)
        page["append"](reader.conn, 1, "second line\n")
        data, offset = page["read"](reader.conn, 1)
        assert data == "first line\nsecond line\n"
        page["append"](reader.conn, 1, "third")
        assert page["read"](reader.conn, 1, offset) == ("third", offset + 5)


def test_the_python_of_the_page_on_temporary_tables_works(server):
    with functions("temporary-tables.md")["connect"](server.conninfo) as conn:
        assert conn.execute("SHOW temp_buffers").fetchone()[0] == "512MB"


def test_a_promise_that_is_not_kept_is_found(server):
    with Reader(server) as reader:
        reader.paste("SELECT 'abc';  -- shows: abc\nCREATE TABLE t AS SELECT 1;  -- writes more than 100 bytes of WAL\n")
        for broken in ("SELECT 'abc';  -- shows: abd\n", "SELECT 1;  -- writes more than 100 bytes of WAL\n", "SELECT 1;  -- shows abc\n", "SELECT 1\n"):
            with pytest.raises(AssertionError):
                reader.paste(broken)
    assert len(PASTED) >= 7 and sum(len(PROMISE.findall(line)) for page in PASTED for line in page.read_text().splitlines()) >= 6


def test_the_front_page_preloads_every_library(server):
    with server.connect() as conn:
        conn.execute(re.search(r"^ALTER SYSTEM SET shared_preload_libraries = .*;$", (TOP / "README.md").read_text(), re.M).group(0))
    server.restart()
    with server.connect() as conn:
        loaded = {name.strip() for name in conn.execute("SHOW shared_preload_libraries").fetchone()[0].split(",")}
    assert loaded == set(LIBRARIES)


def nodes_of(plan: list[str]) -> list[tuple[str, float]]:
    """Name and rows of a loop of each node that ran, as EXPLAIN ANALYZE prints them."""
    return [(name, float(rows)) for line in plan for name, rows in
            re.findall(r"^\s*(?:->\s+)?(\S.*?)  \(cost=.*\(actual time=\S+ rows=([\d.]+) loops=[1-9]", line)]


def check_last_explain(log):
    """light_explain_last() returns the nodes of the statement that was explained before it, whatever was switched off and on in between."""
    explained = None
    for statement, rows in log:
        if statement.startswith("EXPLAIN"):
            explained = nodes_of([line for line, in rows])
        elif re.match(r"SELECT label, rows, loops,.* FROM light_explain_last\(\)$", statement):
            assert rows
            for label, count, loops, *_ in rows:
                assert any(name == label.strip() and abs(count / loops - shown) <= 0.5 for name, shown in explained), (label, count, loops, explained)


def statements(block: str) -> list[str]:
    """The statements of a block; none of the pages' has a semicolon inside."""
    bare = re.sub(r"--.*", "", block)
    return [statement.strip() for statement in bare.split(";") if statement.strip()]


#: Documents that are no pages, but have links.
TEMPLATES = sorted({*TOP.glob(".github/*.md"), *TOP.glob(".github/*/*.md"), *TOP.glob("results/*/README.md")})
LINKING = [*PAGES, *TEMPLATES]


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


def broken_links(page: Path) -> list[str]:
    """Links to files and sections that do not exist."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", without_code(page.read_text())):
        target = "".join(target)
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        to = page.parent / path if path else page
        if not to.exists():
            found.append(f"{target} does not exist")
        elif anchor and to.suffix == ".md":
            headings = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
                        for heading in re.findall(r"^#+ (.*)$", without_code(to.read_text()), re.M)}
            if anchor not in headings:
                found.append(f"{target}: no such section")
        elif anchor and not re.fullmatch(r"L\d+", anchor):
            found.append(f"{target}: only documents have sections")
    return found


@pytest.mark.parametrize("page", LINKING, ids=names(LINKING))
def test_links_lead_somewhere(page):
    assert not broken_links(page)


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# One section\n\n```\n# no section\n```\n")
    (tmp_path / "code.py").write_text("")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md#one-section) [b](https://example.org/x) [c](code.py) [d](#here)\n\n```\n[e](nothing)\n```\n\n## Here\n")
    assert broken_links(page) == []
    page.write_text('[a](other.md#no-section) [b](missing.md) [c](code.py#part) [d](#here) <img src="no.svg">\n')
    assert len(broken_links(page)) == 5


def test_each_document_is_a_page_or_a_template():
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=TOP, capture_output=True, text=True) if shutil.which("git") else None
    if done is None or done.returncode:
        pytest.skip("no clone")
    assert {TOP / path for path in done.stdout.split()} <= set(LINKING)


def test_each_page_is_linked_from_another():
    def links(page):
        return {(page.parent / target.partition("#")[0]).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in target}
    linked = set().union(*map(links, PAGES))
    assert [page for page in PAGES if page.resolve() not in linked and page.parent != TOP and page.parent.name != "src"] == []


def test_the_architecture_can_be_read_in_one_sitting():
    assert len((TOP / "ARCHITECTURE.md").read_text().splitlines()) <= 150
    for page in TOP.glob("*/src/README.md"):
        assert len(page.read_text().splitlines()) <= 200, page


@pytest.mark.parametrize("page", sorted((TOP / "docs" / "decisions").glob("*.md")), ids=lambda page: page.stem)
def test_a_decision_has_a_date_its_context_and_evidence(page):
    text = page.read_text()
    if page.name == "README.md":
        assert {path.name for path in page.parent.glob("*.md")} - set(re.findall(r"\]\(([\w-]+\.md)\)", text)) == {"README.md"}
    else:
        assert re.search(r"; recorded on \d{4}-\d\d-\d\d\.\*$", text, re.M)
        assert {"Context", "Decision", "Evidence"} <= set(re.findall(r"^## (.*)$", text, re.M))


#: The pages that only the lab's own engineers and make docs write; the others are read by their authors.
READABLE = [TOP / "lab" / "README.md", *TOP.glob("*/docs/measured.md")]


@pytest.mark.parametrize("page", READABLE, ids=names(READABLE))
def test_lines_can_be_read_in_a_terminal(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    long = [line for line in text.splitlines() if len(line) > 110 and not line.startswith(("|", "<"))]
    assert not long, "\n".join(long)


def test_the_front_page_answers_what_a_stranger_asks():
    headings = re.findall(r"^## (.*)$", (TOP / "README.md").read_text(), re.M)
    assert headings == ["Installation", "Examples", "Results", "Two commands", "When not to use it", "Is it safe?"]
    text = (TOP / "README.md").read_text()
    assert "Managed servers" in text and len(text.splitlines()) <= 120


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
        done = subprocess.run(
            [sys.executable, "-c", "from pg_lean import docs; print(docs.different())"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
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
    assert lzma.decompress((house / "results" / "15" / "temp" / "raw.csv.xz").read_bytes()) == (build / "bench" / "temp" / "raw.csv").read_bytes()
    quick.save(build / "bench" / "temp")
    assert docs.keep(build) == [], "quick results are not kept"
    uncommitted = measured("15", 2.0)
    uncommitted.machine["pg_lean"] = "abc-dirty"
    uncommitted.save(build / "bench" / "temp")
    assert docs.keep(build) == [], "nor those of code that was not committed"
    quick.save(build / "bench" / "temp")
    assert set(docs.write()) == {house / "README.md", house / "docs" / "pg_lean-light.svg", house / "docs" / "pg_lean-dark.svg"}
    page = (house / "README.md").read_text()
    assert page.startswith("Before.\n") and page.endswith("After.\n") and "old" not in page
    for text in (
        "**2.0x** (2.0 to 2.0)",
        "| counting | 20.0 ms | 10.0 ms |",
        "| count \\| x | 12.5 |",
        "PostgreSQL 15.1; A <processor>, 2 processors; 2026, pg_lean abc",
    ):
        assert text in page, text
    assert docs.different() == []
    (house / "README.md").write_text(page.replace("2.0x", "3.0x"))
    (house / "docs" / "pg_lean-dark.svg").write_text("<svg/>")
    assert set(docs.different()) == {house / "README.md", house / "docs" / "pg_lean-dark.svg"}


def test_pages_have_all_versions_and_the_newest_first(house):
    """Two benchmarks, two servers, one result missing, one measured with less effort."""
    page = house / "README.md"
    page.write_text("<!-- figures: temp -->\n<!-- /figures -->\n<!-- figures: append -->\n<!-- /figures -->\n")
    for major, name, median, effort in (("15", "append", 7.0, 1.0), ("15", "temp", 2.0, 1.0), ("18", "temp", 3.0, 0.2)):
        result = measured(major, median, effort=effort)
        result.name = name
        result.save(house / "build" / "bench" / name)
        docs.keep(house / "build")
    assert len(docs.write()) == 3 and docs.different() == []
    temp, append, _ = page.read_text().split("<!-- /figures -->")
    assert temp.index("PostgreSQL 18.1") < temp.index("PostgreSQL 15.1") and temp.count("of a full run's repetitions") == 1
    assert "20% of a full run's repetitions" in " ".join(temp.split("PostgreSQL 15.1")[0].split())
    assert "PostgreSQL 15.1" in append and "PostgreSQL 18.1" not in append


def test_the_front_page_has_stock_the_next_best_way_and_one_caption(house, monkeypatch):
    monkeypatch.setattr(docs, "PICTURES", {house / "docs" / "pg_lean": ("front",)})
    page = house / "README.md"
    page.write_text("<!-- figures: front -->\n<!-- /figures -->\n")
    docs.write()
    assert "`make bench-front`" in page.read_text() and not (house / "docs").exists()
    for major, name in (("15", "a"), ("18", "b")):
        bars = [("stock", 40.0), ("`UNLOGGED`", 20.0), ("pg_lean", 10.0)]
        result = measured(major, 4.0)
        result.name, result.headlines = "front", [Headline(f"{name}{number}", Estimate.of([4.0] * 6), bars) for number in range(7)]
        result.machine["stolen"] = 0.02
        result.save(house / "build" / "bench" / "front")
        docs.keep(house / "build")
    docs.write()
    text = page.read_text()
    assert text.count("| b") == 7 and "| a" not in text and text.count("*PostgreSQL") == 1
    assert "| b0 | 40.0 ms | 20.0 ms (`UNLOGGED`) | 10.0 ms | **4.0x** (4.0 to 4.0) | 6 |" in text
    assert "*PostgreSQL 18.1; A <processor>, 2 processors; 2026, pg_lean abc; the host gave others 2% of the processor time wanted.*" in text
    picture = (house / "docs" / "pg_lean-light.svg").read_text()
    assert [name for name in ("b0", "b1", "b2", "b3", "b4", "b5", "b6") if f">{name}<" in picture] == ["b0", "b1", "b2", "b4", "b5"]


def test_the_front_page_is_drawn_from_one_full_run():
    """Seven cases with all repetitions, of a server that the page supports, and next best ways that were measured."""
    _, result = next(docs.kept("front"))
    assert result.effort == 1 and len(result.headlines) == 7 and min(headline.ratio.n for headline in result.headlines) >= 15
    assert all(len(headline.bars) == 3 and headline.bars[1][1] > 0 for headline in result.headlines)


#: Views, and functions and procedures with columns in their result except those of which views consist, of an extension, each with its columns.
COLUMNS_OF = """SELECT o.name, o.columns FROM pg_extension e
    JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e',
    LATERAL (SELECT c.relname::text AS name, array_agg(a.attname::text) AS columns FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'v' GROUP BY c.relname
    UNION ALL SELECT p.proname::text, array_agg(a.name) FROM pg_proc p, unnest(p.proargnames, p.proargmodes) AS a(name, mode)
        WHERE d.classid = 'pg_proc'::regclass AND p.oid = d.objid AND a.mode IN ('o', 't', 'b') AND p.proname !~ '_info$'
        GROUP BY p.oid) o WHERE e.extname = %s"""


def undocumented(text: str, found: list[tuple[str, list[str]]]) -> list[str]:
    """The columns that are in no row of a table of a reference, and the views and functions that it does not name."""
    quoted = [(line, re.findall(r"`([^`]+)`", line)) for line in without_code(text).splitlines()]
    named = {re.sub(r"[(.].*", "", name) for _, names in quoted for name in names}
    words = {word for line, names in quoted if line.startswith("|") for name in names for word in re.split(r"\W+", name)}
    return [f"{name}.{column}" for name, columns in found for column in columns if name not in named or column not in words]


@pytest.mark.parametrize("extension", [name for name in LIBRARIES if (TOP / name / "docs" / "reference.md").exists()])
def test_the_reference_has_every_column_of_every_view_and_function(extension):
    with Cluster(name="test", preload=[extension]) as cluster, cluster.connect() as conn:
        conn.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
        found = conn.execute(COLUMNS_OF, (extension,)).fetchall()
    assert found and undocumented((TOP / extension / "docs" / "reference.md").read_text(), found) == []


def test_a_column_that_is_missing_in_the_reference_is_found():
    text = "`one_view` has `rows`.\n\n| column |\n|---|\n| `pages`, `bytes` |\n"
    assert undocumented(text, [("one_view", ["pages", "bytes"])]) == []
    assert undocumented(text, [("one_view", ["rows"]), ("another", ["pages"])]) == ["one_view.rows", "another.pages"]


def test_the_reference_names_every_column_of_the_functions_of_ram_tablespace():
    text = (TOP / "ram_tablespace" / "docs" / "reference.md").read_text()
    for name in ("ram_tablespaces", "ram_tablespace_check"):
        assert text.partition(f"### Columns of {name}()")[2].partition("\n##")[0].count("\n| `") >= 2


def test_the_page_on_tests_has_each_folder_of_helpers():
    text = (TOP / "test" / "README.md").read_text()
    known = {"expected", "sql", "specs", "t", "results", "tmp_check", "output_iso"}
    folders = [path for path in sorted(TOP.glob("*/test/*/")) if path.is_dir() and path.name not in known and list(path.iterdir())]
    assert len(folders) >= 10
    assert [str(path.relative_to(TOP)) for path in folders if f"`{path.relative_to(TOP)}`" not in text] == []
    assert [name for name in re.findall(r"`(\w+/test/\w+)`", text.partition("## Helper libraries")[2]) if not (TOP / name).is_dir()] == []


def test_results_that_are_shown_together_are_of_one_server_if_one_has_all(monkeypatch):
    results = {"temp": {"19": "t19", "18": "t18"}, "append": {"18": "a18", "15": "a15"}, "fill": {}}
    monkeypatch.setattr(docs, "kept", lambda name: iter(results[name].items()))
    assert docs.kept_together(["temp", "append", "fill"]) == {"temp": "t18", "append": "a18"}
    results["append"] = {"15": "a15"}
    assert docs.kept_together(["temp", "append"]) == {"temp": "t19", "append": "a15"}


@pytest.mark.parametrize("question", questions.QUESTIONS, ids=[question.name for question in questions.QUESTIONS])
def test_a_question_is_answered_first_and_with_few_tables(question):
    text = (TOP / "docs" / "performance" / f"{question.name}.md").read_text()
    title, answer, *rest = text.split("\n\n")
    if not all(list(docs.kept(name)) for name in question.benchmarks()):
        assert answer.startswith("Not measured yet: `make bench-") and "\n|" not in text
        return
    assert title == f"# {question.question}" and question.question.endswith("?") and re.search(r"\d", answer) and len(answer.splitlines()) <= 3
    heads = [part.splitlines()[0] for part in rest if part.startswith("|")]
    assert 1 <= len(heads) <= 5 and len(question.tables) <= 5
    assert all(re.search(r"\| 1[5-9](:| \|)", head) for head in heads), heads
    assert "nan" not in text and "Not measured" not in text and "*PostgreSQL" in text


def test_a_question_without_results_names_the_commands(house):
    (docs.TOP / "docs" / "performance").mkdir(parents=True)
    drawn = docs.drawn()
    page = drawn[docs.TOP / "docs" / "performance" / "loads.md"]
    assert "Not measured yet: `make bench-extend`, `make bench-fill`." in page and "\n|" not in page


def test_pictures_are_well_formed_and_fit(house):
    import xml.etree.ElementTree as xml

    for scheme in docs.COLORS:
        text = docs.picture([Headline("a <name> & " + "long words " * 9, Estimate.of([6600.0] * 6), [("stock", 6600.0), ("pg_lean", 1.0)]),
                             Headline("b", Estimate.of([0.5, 2.0] * 3), [("stock", 1.0), ("pg_lean", 1.0)])], scheme)
        root = xml.fromstring(text)
        width = float(root.get("width"))
        for rectangle in root.iter("{http://www.w3.org/2000/svg}rect"):
            assert float(rectangle.get("x") or 0) + float(rectangle.get("width")) <= width
        assert "too noisy to tell" in text
