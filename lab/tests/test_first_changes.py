"""docs/first-changes.md: its paths lead from the front page to the code, and what it names exists."""

import re

import pytest

from pg_lean.paths import TOP

PAGE = TOP / "docs" / "first-changes.md"
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.S | re.M))
STEP = re.compile(r"^\d\. \[[^\]]+\]\(([^)]+)\): search for `([^`]+)`\.$", re.M)
ENTRY = re.compile(r"^\* \[[^\]]+\]\(([^)]+)\): (.*(?:\n  .*)*)", re.M)


def file_of(link):
    return (PAGE.parent / link).resolve()


def steps_of(section):
    return [(file_of(link), text) for link, text in STEP.findall(SECTIONS[section])]


def test_the_changes_that_newcomers_ask_for_are_there():
    assert list(SECTIONS) == ["Show frozen pages in EXPLAIN of a Temp Load", "Raise the chunk size", "Add a column to the profile view", "Add a benchmark"]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_step_names_the_next_one(section):
    """Within a minute: three files, each found by searching the one before."""
    steps = steps_of(section)
    assert len(steps) == 3 and steps[0][0] == TOP / "README.md"
    for (path, text), following in zip(steps, [*steps[1:], None]):
        lines = [line for line in path.read_text().splitlines() if text in line]
        assert lines, f"{path} does not contain {text}"
        if following:
            assert any(following[0].name in line for line in lines), f"{path}: the line of {text} does not name {following[0].name}"


@pytest.mark.parametrize("section", SECTIONS)
def test_each_name_is_in_its_file(section):
    entries = ENTRY.findall(SECTIONS[section])
    assert entries
    for link, text in entries:
        content = file_of(link).read_text()
        names = [name for name in re.findall(r"`([^`]+)`", text) if name != "figures: NAME"]
        assert names and [name for name in names if name not in content] == [], link


def test_the_sql_names_are_in_the_script():
    scripts = "".join(path.read_text() for path in (TOP / "light_explain/sql").glob("light_explain--*.sql"))
    assert "CREATE FUNCTION light_explain_profile(" in scripts and re.search(r"CREATE VIEW \S*light_explain_profile ", scripts)


@pytest.mark.parametrize("section", SECTIONS)
def test_each_command_exists(section):
    block = re.search(r"^```sh\n(.*?)^```", SECTIONS[section], re.S | re.M)
    targets = (TOP / "Makefile").read_text()
    for line in block[1].splitlines():
        variables, *words = re.match(r"((?:[A-Z_]+=\S+ )*)(.*)", line).groups()
        program, *arguments = words[0].split()
        if program == "make":
            assert re.search(rf"^{arguments[0]}:", targets, re.M), line
        elif program == "lab/run":
            assert arguments[0] == "test" or re.search(rf"^def {arguments[0]}\(", (TOP / "lab/pg_lean/cli.py").read_text(), re.M), line
        else:
            assert (TOP / program).stat().st_mode & 0o111, line
            assert all((TOP / name).is_dir() for name in arguments if name != "host"), line
            for name, value in re.findall(r"([A-Z_]+)=(\S+)", variables):
                assert name in (TOP / program).read_text(), line
                assert name != "PROVE_TESTS" or (TOP / arguments[-1] / value).is_file(), line


def test_the_page_is_found():
    assert "(first-changes.md)" in (TOP / "docs/README.md").read_text() and "(docs/first-changes.md)" in (TOP / "ARCHITECTURE.md").read_text()
