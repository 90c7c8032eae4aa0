"""pg-lean coverage: which lines the tests executed, from the files that ci/coverage.sh collects."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import typer
from rich.console import Console

from pg_lean import measure, terminal
from pg_lean.cluster import Cluster
from pg_lean.errors import LabError
from pg_lean.paths import BUILD
from pg_lean.result import Result, Table

#: The part that is Python; all others are extensions.
LAB = "lab"


@dataclass(frozen=True)
class File:
    """A source file: its name below the part's sources, the lines that contain code, and of these the ones that no test executed."""

    name: str
    lines: int
    missed: tuple[int, ...]

    @property
    def executed(self) -> int:
        return self.lines - len(self.missed)

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


@dataclass(frozen=True)
class Part:
    """An extension or the lab, its files, and how many of its tests passed and failed in this run."""

    name: str
    files: tuple[File, ...]
    passed: int
    failed: int


def register(app: typer.Typer, console: Console) -> None:
    @app.command()
    def coverage(
        folder: Path = typer.Argument(..., help="The folder in which ci/coverage.sh collected PART.json and PART.log."),
        pg_config: Optional[str] = typer.Option(None, "--pg-config", envvar="PG_CONFIG", help="The server on which the tests ran: path of its pg_config."),
    ) -> None:
        """Show which lines the tests executed, and keep that in build/bench/coverage like a benchmark's result."""
        found = result(parts(folder))
        program = Cluster(pg_config).bindir / "postgres"
        version = re.search(r"[\d.]+", subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout).group()
        found.machine = {**measure.describe_machine(), "server": f"PostgreSQL {version}", "filesystem": "", "pg_lean": revisions(folder)}
        found.save(BUILD / "bench" / found.name)
        terminal.show(found, console)


def parts(folder: Path) -> list[Part]:
    """What was collected: the extensions by name, the lab last.  A LabError if that is nothing."""
    names = sorted((path.stem for path in folder.glob("*.json")), key=lambda name: (name == LAB, name))
    if not names:
        raise LabError(f"no coverage was collected in {folder}", "Run make coverage.")
    return [Part(name, of_python(_json(folder, name)) if name == LAB else of_c(_json(folder, name)), *counts((folder / f"{name}.log").read_text()))
            for name in names]


def revisions(folder: Path) -> str:
    """The commits whose code was tested, usually one."""
    return ", ".join(sorted({path.read_text().strip() for path in folder.glob("*.revision")}))


def _json(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


def of_c(data: dict[str, Any]) -> tuple[File, ...]:
    """The files of gcovr's JSON; files without code, such as most headers, are left out."""
    found = []
    for file in data["files"]:
        lines = [line for line in file["lines"] if not line.get("gcovr/noncode")]
        if lines:
            found.append(File(file["file"].removeprefix("src/"), len(lines), tuple(line["line_number"] for line in lines if line["count"] == 0)))
    return tuple(sorted(found, key=lambda file: file.name))


def of_python(data: dict[str, Any]) -> tuple[File, ...]:
    """The files of coverage.py's JSON."""
    found = []
    for name, file in data["files"].items():
        if file["summary"]["num_statements"]:
            found.append(File(re.sub(r"^(.*/lab/)?pg_lean/", "", name), file["summary"]["num_statements"], tuple(file["missing_lines"])))
    return tuple(sorted(found, key=lambda file: file.name))


def counts(log: str) -> tuple[int, int]:
    """Tests that passed and failed, by the closing line of ci/check.sh or pytest; (0, 0) if there is none."""
    for line in reversed(log.splitlines()):
        passed, failed = re.search(r"(\d+) passed", line), re.search(r"(\d+) failed", line)
        if passed or failed:
            return int(passed[1]) if passed else 0, int(failed[1]) if failed else 0
    return 0, 0


def ranges(numbers: tuple[int, ...]) -> str:
    """Line numbers as 3-5 9."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(f"{first}-{last}" if last > first else str(first) for first, last in found)


def share(lines: int, executed: int) -> float:
    """Percent, with one digit after the point."""
    return round(100 * executed / lines, 1)


def result(collected: list[Part]) -> Result:
    """Tables per part, folder and file; each file's missed lines are raw rows."""
    found = Result(
        title="Lines of code that the tests execute",
        summary="; ".join(f"{part.name} {share(*sums(part.files))} %" for part in collected) + ".",
        what="Lines of C counted by gcov, and statements of Python counted by coverage.py, that the tests of make check execute.",
        how="C is compiled without optimization. Counters of processes that are killed, or stopped in immediate mode, are lost.",
        name="coverage",
    )
    folders = []
    for part in collected:
        groups = defaultdict(list)
        for file in part.files:
            groups[file.folder].append(file)
            found.raw.add(part.name, 1, file.name, lines=file.lines, executed=file.executed, missed=ranges(file.missed))
        folders.append([f"**{part.name}**", len(part.files), *sums(part.files), share(*sums(part.files))])
        if len(groups) > 1:
            folders += [[f"{part.name}: `{folder or '.'}/`", len(files), *sums(files), share(*sums(files))] for folder, files in sorted(groups.items())]
    found.blocks = [
        Table("Lines executed, by folder", ["folder", "files", "lines", "executed", "%"], folders),
        Table("Tests of this run", ["part", "passed", "failed"], [[part.name, part.passed, part.failed] for part in collected]),
        Table("Lines executed, by file", ["file", "lines", "executed", "%"],
              [[f"{part.name}: {file.name}", file.lines, file.executed, share(file.lines, file.executed)] for part in collected for file in part.files]),
    ]
    return found


def sums(files: Any) -> tuple[int, int]:
    """Lines of these files, and those executed."""
    return sum(file.lines for file in files), sum(file.executed for file in files)
