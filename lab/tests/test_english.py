"""Documents, comments and messages avoid words and constructions that readers have to decode (see CONTRIBUTING.md, English)."""

import re
import shutil
import subprocess

import pytest

from pg_lean import docs
from pg_lean.paths import TOP

#: What is searched for, and what to write instead.
PATTERNS = {
    r"\b([Hh]e|[Hh]im(self)?|[Hh]is)\b": "a process, library or plan is it",
    r"(^|[.;:(*#\"] +)Who(ever)? [a-z][^?]*$": "a noun: the process that, a caller that",
    r"\b(by|for|to|of|from|than|but|with|told) who(ever)? [a-z]": "a noun: the process that, a caller that",
    r"(^|[.;:(*#] +)What [a-z]+ [^?]*$": "a noun: the rows, the counters",
    r"\b(of|by|with|from|than|for|to|but|as|into|in|on|over) what (is|was|are|were|has|it|they|the|an?|comes?)\b": "a noun",
    r"\b(of|than|and|but|is|are|to|from|with|by|one|before|as|not|into) (ours|theirs)\b|\b[Oo]urs (is|are|was|were|of|that)\b": "name the owner",
    r"\b([Ss]ome|[Nn]o|[Ee]very)body\b": "another session, no process, all roles",
    r"server's own|\bof (its|their|our) own\b": "the server's; separate, private",
    r"\banew\b|\b(as|so|very) dear\b|\bdear(er|est)\b|\bbe had\b|\b[Rr]eckon(s|ed|ing)?\b[^(]": "again; expensive; available; compute",
    r"\b(put|threw|throw|thrown|take|taken|took)s? ([a-z]+ ){0,2}away\b|\b(giv(e|es|en|ing)|gave) ([a-z]+ "
    r"){0,2}back\b": "store, remove, discard; release, return",
    r"\b(the|a|no|its|page|our|default|server.s|same) prices?\b|\b[Pp]ricing\b|\b(is|are|was|be) priced\b": "cost, costed",
    r"\b[Ll]ook-ups?\b|[ (]plannings\b|\b(a|one|each|second|own|same|first) planning\b": "lookup; planner run",
    r"\b(a|one|another|each|every|no|first|last|second) look( |[.,;:)]|$)|\btwo looks\b": "a check, sample, read",
    r"\brights\b": "privileges",
    r"\bonce more\b|\bagain and again\b|\bgo(es|ing)? on\b|\bwent on\b": "again; continue",
    r"\bbeside\b|[a-z] meanwhile[.,;:)]": "next to, compared with; concurrently",
    r"\bbut for\b|\bnothing but\b|\ball but\b": "except, only",
    r"\b(plan|page|file|name|word|header|view|entry|column|EXPLAIN|queue|screen|clock) "
    r"(says?|tells?|asks?|wants?|learns?)\b|\b(feels?|felt)\b": "shows, contains, records",
    r"\b(behaviour|colour|analysed|neighbour(s|ing)?)\b": "American spelling",
}

#: The hits that a part of the repository may still have; everything else may have none. A number is only ever lowered.
ALLOWED = {
    "appendable_bytea": 7,  # data of tests
    "certificate": 12,  # the command "make neighbours", by which kept results are named
    "ci": 16,  # "make neighbours", and the user "nobody" of an environment
    "lab": 3,  # "make neighbours", and a folder that does not exist
    "Makefile": 3,  # "make neighbours"
    "parallel_temp": 5,  # names of tests
    "recycled_temp": 1,  # ci/neighbours.sh
    "streams": 1,
}

#: Files that contain text or code.
TEXT = re.compile(r"\.(md|c|h|py|pl|pm|sql|sh|spec|go|js|mjs|java|rs|html|conf|control|toml|yml|in|mk)$|(^|/)(Makefile|Dockerfile|run)$")

#: Written by programs, or not text; this file and the list of words.
GENERATED = re.compile(
    r"^results/|docs/measured\.md$|^docs/certificate\.md$|^docs/performance/|/expected/|^certificate/corpus/"
    r"|\.svg$|^lab/tests/test_english\.py$"
)


def hits(path: str) -> list[str]:
    """The lines of a file that match a pattern, with what to write instead."""
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block.group(0).count("\n"), (TOP / path).read_text(errors="replace"), flags=re.S | re.M) \
        if path.endswith(".md") else (TOP / path).read_text(errors="replace")
    text = docs.BLOCK.sub(lambda block: "\n" * block.group(0).count("\n"), text)
    text = re.sub(r"`[^`\n]*`", "", text)
    lines = paragraphs(text) if path.endswith(".md") else enumerate(text.splitlines(), 1)
    return [f"{path}:{number}: {line.strip()[:120]}  ({instead})" for number, line in lines
            for pattern, instead in PATTERNS.items() if re.search(pattern, line)]


def paragraphs(text: str) -> list[tuple[int, str]]:
    """Paragraphs, items of lists and rows of tables with their first lines' numbers: a document's lines are wrapped."""
    found: list[tuple[int, str]] = []
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        if before.strip() and re.match(r" *[^\s|*#<>\d-]", line) and not before.startswith(("#", "|")):
            found[-1] = found[-1][0], f"{found[-1][1]} {line.strip()}"
        else:
            found.append((number, line))
        before = line
    return found


def tracked() -> list[str]:
    """Files of the repository that people read; none where there is no history, or no git."""
    if shutil.which("git") is None:
        return []
    done = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True)
    return [path for path in done.stdout.split() if TEXT.search(path) and not GENERATED.search(path)]


#: The last commit whose subject is longer.
SUBJECTS_SINCE = "2db7cd06e0"


def long_subjects(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line.partition(" ")[2]) > 72]


def test_subjects_of_new_commits_fit_into_72_characters():
    if shutil.which("git") is None:
        pytest.skip("no git")
    done = subprocess.run(["git", "log", "--no-merges", "--format=%h %s", f"{SUBJECTS_SINCE}..HEAD"], cwd=TOP, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no history with that commit, as in an archive")
    assert not long_subjects(done.stdout)


def test_a_long_subject_is_found():
    assert long_subjects(f"abc {'x' * 72}\ndef {'x' * 73}\n") == [f"def {'x' * 73}"]


@pytest.mark.parametrize("part", sorted({path.partition("/")[0] for path in tracked()}))
def test_words_that_readers_have_to_decode_do_not_come_back(part):
    """Documents, and comments, messages and names in C, Go, Perl, SQL, Python, JavaScript, Java and shell."""
    found = [line for path in tracked() if path.partition("/")[0] == part for line in hits(path)]
    assert len(found) <= ALLOWED.get(part, 0), "\n".join(found[:60])


def test_the_short_description_of_a_setting_begins_with_a_verb_of_the_servers():
    settings = {}
    for path in (path for path in tracked() if re.search(r"/src/[^/]+\.c$", path)):
        settings.update(re.findall(r'"(\w+\.\w+)",\s*(?:&\w+, [\w.]+, [\w |]+,\s*)?"((?:[^"\\]|\\.)*)"', (TOP / path).read_text()))
    assert len(settings) > 50 or not tracked()
    assert [(name, text) for name, text in settings.items() if not re.match(r"(Sets|Enables|Selects) ", text) or not text.endswith(".")] == []


def test_a_wrapped_line_is_searched_with_the_next_one():
    found = [(1, "# A"), (2, "no body"), (3, ""), (4, "* can be had"), (6, "* b"), (7, "| c |"), (8, "x")]
    assert paragraphs("# A\nno body\n\n* can be\n  had\n* b\n| c |\nx") == found


def test_the_patterns_find_what_they_are_for():
    for text in (
        "Who has the lock writes.",
        "the library and what is kept by what the planner made",
        "he has written his pages",
        "nobody reads it",
        "the server's own scan",
        "as dear as that",
        "a page is put away",
        "the price of a row",
        "two look-ups",
        "it goes on",
        "beside the table",
        "nothing but rows",
        "the view tells",
        "all rights",
        "another look.",
    ):
        assert any(re.search(pattern, text) for pattern in PATTERNS), text
    assert not any(re.search(pattern, "The lock holder writes the page, and the cost of a lookup is added.") for pattern in PATTERNS)
