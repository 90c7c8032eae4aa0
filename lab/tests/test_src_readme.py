"""The README of an extension's sources: its table of files, and the order of its folders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SOURCES = sorted(readme.parent for readme in TOP.glob("*/src/README.md"))


def files_of(src: Path) -> list[str]:
    """All C files and headers, relative to src/."""
    return sorted(str(path.relative_to(src)) for path in src.rglob("*.[ch]"))


def includes_of(src: Path, name: str) -> list[str]:
    """The headers of src/ that a file includes."""
    found = re.findall(r'^#include "([^"]+)"', (src / name).read_text(), re.M)
    return [header for header in found if (src / header).is_file()]


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def below(src: Path, name: str) -> set[str]:
    """The headers that a file includes, directly or not."""
    found: set[str] = set()
    todo = includes_of(src, name)
    while todo:
        header = todo.pop()
        if header not in found:
            found.add(header)
            todo += includes_of(src, header)
    return found


def table_problems(src: Path) -> list[str]:
    text = (src / "README.md").read_text()
    listed = re.findall(r"^\| `([^`]+\.[ch])` \|", text, re.M)
    there = files_of(src)
    return ([f"{name} is listed twice" for name in sorted(set(listed)) if listed.count(name) > 1]
            + [f"{name} is not in the table" for name in there if name not in listed]
            + [f"{name} does not exist" for name in listed if name not in there])


def order_problems(src: Path, module: str) -> list[str]:
    """Headers of src/ itself that folders include are below all folders; other files of src/ are above."""
    names = files_of(src)
    folders = sorted({folder_of(name) for name in names} - {""})
    if not folders:
        return []
    line = re.search(r"^Layers from the top: (.*)$", (src / "README.md").read_text(), re.M)
    if line is None:
        return ["the README has no line 'Layers from the top: `a/`, `b/`.'"]
    layers = re.findall(r"`([^`]+)/`", line[1])
    if sorted(layers) != folders:
        return [f"the layers are {layers}, the folders {folders}"]
    base = {header for name in names if folder_of(name) for header in below(src, name) if not folder_of(header)}
    base |= {header[:-1] + "c" for header in base if header != module + ".h"}

    def depth(name: str) -> int:
        return layers.index(folder_of(name)) if folder_of(name) else len(layers) if name in base else -1

    return ([f"{name} includes {header}, which is above it" for name in names for header in includes_of(src, name)
             if depth(header) < depth(name)]
            + [f"{name} includes itself" for name in names if name in below(src, name)])


def size_problems(src: Path) -> list[str]:
    """Where the README limits the number of lines, or the part of them that a folder has."""
    text = (src / "README.md").read_text()
    lines: dict[str, int] = {}
    for name in files_of(src):
        lines[folder_of(name)] = lines.get(folder_of(name), 0) + len((src / name).read_text().splitlines())
    total = sum(lines.values())
    problems = []
    most = re.search(r"The C code has at most ([\d,]+) lines", text)
    if most is not None and total > int(most[1].replace(",", "")):
        problems.append(f"there are {total} lines")
    share = re.search(r"[Nn]o folder contains more than (\d+) % of the lines", text)
    if share is not None:
        problems += [f"{folder or 'src'}/ contains {n * 100 / total:.0f} % of the lines" for folder, n in sorted(lines.items())
                     if n * 100 > total * int(share[1])]
    return problems


def function_problems(src: Path) -> list[str]:
    """Where the README wants them: static functions whose names say what they do in a backtrace, and visible parameters."""
    if "Static functions have names of at least two words, and no macro hides a parameter list" not in (src / "README.md").read_text():
        return []
    problems = []
    for name in files_of(src):
        text = (src / name).read_text()
        problems += [f"{function}() in {name}" for function in re.findall(r"^static [^\n;=(]*\n([a-z0-9]+)\(", text, re.M)]
        problems += [f"{macro} in {name}" for macro in re.findall(r"\w+_(?:PARAMS|ARGS)_compat", text)]
    return problems


def name_problems(src: Path) -> list[str]:
    """Where the README has a prefix for functions that several files use."""
    prefix = re.search(r"Functions that other files call begin with `(\w+)`", (src / "README.md").read_text())
    if prefix is None:
        return []
    declared = [(name, function) for name in files_of(src) if name.endswith(".h")
                for function in re.findall(r"^(?:extern [^;(]*?\b|static inline[^\n]*\n)(\w+)\(", (src / name).read_text(), re.M)]
    return [f"{function} in {name}" for name, function in declared if not function.startswith(prefix[1])]


def hook_problems(src: Path) -> list[str]:
    """Where the README lists the functions that set hooks."""
    listed = re.search(r"Hooks are set when the library is loaded, by `_PG_init\(\)` and the functions `\.\.\._install\(\)`([^.]*)\.",
                       (src / "README.md").read_text())
    if listed is None:
        return []
    names = ["_PG_init", *re.findall(r"`(\w+)\(\)`", listed[1])]
    problems = []
    for name in files_of(src):
        function = ""
        for line in (src / name).read_text().splitlines():
            defined = re.match(r"(\w+)\(", line)
            function = defined[1] if defined else function
            if re.match(r"\s+\w+_hook(_compat)? = ", line) and function not in names and not function.endswith("_install"):
                problems.append(f"{function} in {name} sets {line.split()[0]}")
    return problems


@pytest.mark.parametrize("src", SOURCES, ids=lambda src: src.parent.name)
def test_the_readme_of_sources_is_right(src: Path):
    assert table_problems(src) == []
    assert order_problems(src, src.parent.name) == []
    assert size_problems(src) == []
    assert name_problems(src) == []
    assert hook_problems(src) == []
    assert function_problems(src) == []
    assert len((src / "README.md").read_text().splitlines()) <= 200


def test_problems_are_found(tmp_path: Path):
    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    for name, text in {
            "README.md": "Layers from the top: `high/`, `low/`.\n\n| `m.c` | main |\n| `high/a.h` | a |\n| `low/b.h` | b |\n"
                         "| `low/b.c` | b |\n| `m.h` | all |\n",
            "m.c": '#include "high/a.h"\n', "m.h": "", "high/a.h": '#include "low/b.h"\n', "low/b.h": '#include "m.h"\n',
            "low/b.c": '#include "low/b.h"\n'}.items():
        write(name, text)
    assert table_problems(tmp_path) == [] and order_problems(tmp_path, "m") == []

    write("low/b.c", '#include "high/a.h"\n')
    assert order_problems(tmp_path, "m") == ["low/b.c includes high/a.h, which is above it"]
    write("low/b.c", "")
    write("m.h", '#include "low/b.h"\n')
    assert order_problems(tmp_path, "m") == ["m.h includes low/b.h, which is above it", "low/b.h includes itself", "m.h includes itself"]
    write("m.h", "")
    write("README.md", "Layers from the top: `low/`, `high/`.\n")
    assert order_problems(tmp_path, "m") == ["high/a.h includes low/b.h, which is above it"]
    assert "m.c is not in the table" in table_problems(tmp_path)

    write("README.md", "No folder contains more than 50 % of the lines. Functions that other files call begin with `m_`.\n")
    write("low/b.h", "extern int b(void);\nextern int m_c(void);\n\n\n")
    assert size_problems(tmp_path) == ["low/ contains 67 % of the lines"] and name_problems(tmp_path) == ["b in low/b.h"]
    write("README.md", "Hooks are set when the library is loaded, by `_PG_init()` and the functions `..._install()`; later only by `m_later()`.\n")
    write("m.c", "void\n_PG_init(void)\n{\n\ta_hook = b;\n}\nvoid\nm_install(void)\n{\n\ta_hook = b;\n}\nvoid\nm_later(void)\n{\n\ta_hook = b;\n}\n")
    assert hook_problems(tmp_path) == []
    write("m.c", "static void\nm_watch(void)\n{\n\ta_hook = b;\n}\n")
    assert hook_problems(tmp_path) == ["m_watch in m.c sets a_hook"]
    write("m.c", '#include "high/a.h"\n')
    write("README.md", "Static functions have names of at least two words, and no macro hides a parameter list.\n")
    write("low/b.c", "static int\ntail(int n)\n{\n}\n\nstatic void\nread_tail(SOME_PARAMS_compat)\n{\n}\n")
    assert function_problems(tmp_path) == ["tail() in low/b.c", "SOME_PARAMS_compat in low/b.c"]
    write("low/b.c", "")
    write("README.md", "The C code has at most 5 lines.\n")
    assert size_problems(tmp_path) == ["there are 6 lines"]
    write("README.md", "The C code has at most 1,000 lines.\n")
    assert size_problems(tmp_path) == []
