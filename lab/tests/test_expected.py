"""A server of another version prints other plans, not another script: its expected output has every line of the test."""

from pathlib import Path

import pytest

from pg_lean.paths import TOP


def echoed(script: Path, output: Path) -> list[str]:
    """The lines of SCRIPT that OUTPUT shows, in their order; psql shows no line of data for COPY, and none when it is quiet."""
    shown, printed = [], output.read_text().splitlines()
    for line in script.read_text().splitlines():
        if line.strip() and line in printed:
            printed = printed[printed.index(line) + 1:]
            shown.append(line)
    return shown


ALTERNATIVES = [(script, output) for script in sorted(TOP.glob("*/test/sql/*.sql"))
                for output in sorted((script.parents[1] / "expected").glob(f"{script.stem}_[0-9].out"))]


@pytest.mark.parametrize("script, output", ALTERNATIVES, ids=lambda path: path.name)
def test_an_alternative_output_is_of_the_same_script(script, output):
    expected = echoed(script, output.with_name(f"{script.stem}.out"))
    if "\\quit" in output.read_text().splitlines():
        # a server that lacks what is tested: the script ends there
        expected = [*expected[:expected.index("\\if :no_xml") + 1], "\\quit"]
    assert echoed(script, output) == expected


def test_there_are_alternatives():
    assert len(ALTERNATIVES) >= 6
