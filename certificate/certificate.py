"""Draw docs/certificate.md from the runs kept in results/certificate/.

Each run is a file that a command wrote (chaos, soak, power, mutants and fuzz with --json, others
through keep.py).  The page has one line for each run: what was tried, how much, what was
wrong, when, and how many commits to the C code have been made since.  The details of each
run are in results/certificate/README.md.  A kind that was not run is listed as missing.

    certificate.py
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

from pg_lean.paths import TOP
import record
import soak as soak_run

PAGE = TOP / "docs" / "certificate.md"
RUNS = TOP / "results" / "certificate"
DETAILS = RUNS / "README.md"

#: A run counts as a run of today's code up to this many commits to the C code later.
DISTANCE = 40
#: ... and may have been written since, percent of the C code.
WRITTEN = 25
#: The tree that git compares with to count all lines.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

HEAD = f"""# Certificate: what was tested, and when

`make certificate` draws this page from the runs that are kept in
[results/certificate](../results/certificate/README.md), where the details of each run are. The last
columns are the number of commits to `src/` and `common/` between a run and the drawing of this page,
and how much of that code was written by them ("?" for a commit that the history does not have). A
document may refer to a run only if these are at most {DISTANCE} and {WRITTEN} %; a test checks it. A run that
failed stays in the table until a later one replaces it. A server may refuse a library that was built for a newer
minor release; PostgreSQL does not promise that it runs.
"""

#: Sentences of documents that say that something was run: document, words, and the runs (names of files in RUNS) that they rest on.
CLAIMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("README.md", "[none was lost or wrong in an hour](docs/certificate.md) on 15 and on 18 with assertions", ("chaos-15", "chaos-18-assert")),
)

DETAILS_HEAD = """# Details of the kept runs

`make certificate` draws this page from the files next to it, which the commands wrote; [the
certificate](../../docs/certificate.md) has one line for each run. The commit is the last one that
changed the code that was tested. Each command can be repeated
(`ARGS='--json results/certificate/NAME.json'` keeps its result).
"""

#: Kind of run (how its files' names begin), heading, what it is, and how to have one.
KINDS = (
    (
        "chaos",
        "Faults survived",
        "Writers of appended values, readers, temporary tables, maintenance, a standby and a logical subscriber run at the same time, while "
        "processes are killed, connections break, disks fill and clocks jump. A model outside the servers has the expected contents of each "
        "row; after each crash every acknowledged value is compared, and after every 30 kills all three servers.",
        "make chaos KILLS=300",
    ),
    (
        "soak",
        "Hours of work",
        "A server does the same work for hours, most of it in sessions that stay open: changes of appended values, temporary tables, EXPLAIN "
        "ANALYZE and the views of the query store, tables that come and go, short sessions, a logical slot, maintenance. Each minute memory, "
        "descriptors, files, catalogs, tables, the slot and latencies are measured. A resource grows if a line through its samples "
        "(the median of all slopes, without the first minutes after each start) gains more than a tenth of its level in the run.",
        "make soak HOURS=8",
    ),
    (
        "power",
        "Power cuts",
        "A recorder below the server logs every call that changes a file: writers of appended values, tables that are created and dropped, "
        "loads of temporary tables, VACUUM FULL, checkpoints, a stop and a start. For each cut through that log a disk is built that "
        "contains all synced writes and any part of the others: sectors of an earlier write, pages torn at 512 or 4096 bytes, files of "
        "another length, names lost whose folder was not synced. The server must start on it, have every acknowledged value, find no error "
        "with appendable_bytea_check(), have no file of the extensions left over, accept more, and start again. With fsync, "
        "full_page_writes or synchronous_commit off, the same method must detect a loss.",
        "make power",
    ),
    (
        "mutants",
        "Planted bugs",
        "One line of the C code is changed at a time, so that it is wrong; the tests must fail, or the server crash. A set of tests counts "
        "only if it passes without the bug.",
        "make mutants",
    ),
    (
        "times",
        "Times of plan nodes",
        "Statements of which the true part of each node is known run alone and while two processes keep the CPUs busy; the parts that EXPLAIN, "
        "auto_explain's log, the profile, progress and the flame graph show must be within three points of it. Then the sampler: LOOKS samples of "
        "statements in which only one node waits, none of which may show another node waiting.",
        "certificate/run all times-15",
    ),
    (
        "fuzz",
        "Random inputs",
        "libFuzzer with the address and undefined behavior sanitizers on code compiled outside of a server, Go's fuzzing of the protocol of "
        "streams, and random SQL with a feature on and off.",
        "make fuzz",
    ),
    (
        "valgrind",
        "Memory",
        "Regression tests of the extensions on a server below Valgrind's memcheck: PostgreSQL 18 with assertions, built so that Valgrind "
        "knows its memory contexts. An error is a read of memory that was never written or is freed, beyond an allocation's end, and the "
        "like, in the server or in a library.",
        "make valgrind",
    ),
    (
        "sqlsmith",
        "SQLsmith's statements",
        "SQLsmith reads a server with all libraries and extensions. Half of the time it queries that server, including the catalogs, with "
        "the features forced on; half of the time its statements on the extensions' tables are run over temporary tables of the same names, "
        "with the features off and on, and the rows are compared.",
        "make sqlsmith",
    ),
    (
        "neighbours",
        "Other extensions",
        "With other libraries, loaded before and after them: the output of a battery of statements is the same as without them, and no "
        "process dies. The last column is the number of the server's hooks that the other library uses, according to its symbols. (Where "
        "plpgsql_check differs on 15, its profiler was on, with which EXECUTE in a trigger finds no transition table without our libraries "
        "either; since then it is tried without the profiler. Where pgtt differs, it had refused to be loaded with the server; since then "
        "sessions load it, after pg_lean.)",
        "make neighbours",
    ),
    (
        "suites",
        "Other extensions' tests",
        "Regression suites of other extensions, from Debian's source packages, on a server with their libraries alone and on one with "
        "pg_lean's as well, its features forced on: the outputs are the same.",
        "make suites",
    ),
    (
        "tools",
        "Tools",
        "A table has each value in a plain column and in one of the extension's types, and the same statements change both. After a tool "
        "has copied, restored, rewound, checked or pooled the database, and through applications (dbt, Django, Alembic), both columns are "
        "equal and appendable_bytea_check() finds nothing.",
        "make tools",
    ),
    (
        "citus",
        "Several machines",
        "With Citus, a coordinator and two workers: values that are appended through the coordinator are compared with a distributed "
        "table of bytea that the same statements changed. [When one machine is not enough](../../docs/more-machines.md) has the rest.",
        "make citus SRC=...",
    ),
    (
        "versions",
        "Versions",
        "Tests of the extensions (pg_regress, isolation tester, TAP; SKIP_TAP=1 leaves TAP out), PostgreSQL's regression suite with and "
        "without the libraries, pg_upgrade, ALTER EXTENSION UPDATE, and libraries that were built with the headers of one minor release on "
        "the server of another. (A library built with the headers of 15.20 does not load on 15.18 if it uses heap_getattr(): those headers "
        "call heap_datum_check() there, which 15.18 does not have.)",
        "make check, make matrix, make minors",
    ),
    (
        "fresh",
        "The first two commands",
        "`make demo` and `make check` as a newcomer gives them, in copies of pristine roots of Debian and Ubuntu (ci/fresh.sh describes them). In "
        "those that end in -bare nothing else is installed. Afterwards only the packages that the commands name may be left.",
        "make fresh",
    ),
    (
        "packages",
        "Packages",
        "Debian packages, RPM packages, the archive for PGXN, the files of extension images, and the steps of Dockerfile: each is built, and installed and "
        "used in a pristine root where nothing of pg_lean was.",
        "make packages container",
    ),
    (
        "scripts",
        "Scripts",
        "pgspot over the scripts of CREATE EXTENSION: names that are found through the caller's search path, and objects of another role that are adopted."
        " [Security](../../docs/security.md) has what each function may do.",
        "make pgspot",
    ),
)


def wrapped(text: str, width: int = 100) -> str:
    """A paragraph in lines of at most so many characters."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".lstrip()
    return "\n".join([*lines, line])


def number(n: float) -> str:
    return f"{n:,}"


def origin(run: dict) -> str:
    """When, where, of what, by which command."""
    return wrapped(f"*`{run['command']}`, {run['date']}, PostgreSQL {run['server']}, commit {run['commit'][:10]}{run['commit'][40:]}; {run['machine']}.*")


def table(head: tuple[str, ...], rows: list[tuple]) -> str:
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def chaos(run: dict) -> str:
    counts = run["counts"]
    killed = sorted(((n, name[len("killed: "):]) for name, n in counts.items() if name.startswith("killed: ") and not name.endswith("cancel")), reverse=True)
    rows = [
        ("processes killed or terminated", number(run["killed"])),
        *((f"- {name}", number(n)) for n, name in killed),
        ("sessions cancelled", number(counts.get("killed: cancel", 0))),
        ("connections broken", number(counts.get("connections broken", 0))),
        ("clock jumps", number(counts.get("clock jumps ahead", 0) + counts.get("clock jumps back", 0))),
        *(
            ("times for which the disk of " + name[len("full disks: ") :] + " was full", number(counts[name]))
            for name in ("full disks: data", "full disks: WAL", "full disks: temporary files")
            if name in counts
        ),
        *(
            ("- " + what, number(counts[name]))
            for name, what in (
                ("full disks: processes killed meanwhile", "processes killed meanwhile"),
                ("full disks the server did not survive", "times the server went down of it"),
                (
                    "full disks: postmasters that waited for a startup process that was gone",
                    "times its recovery failed of it and the postmaster did not notice (a fault of the server's)",
                ),
            )
            if name in counts
        ),
        ("loads that met a full disk", number(counts.get("temporary tables on a full disk", 0))),
        ("commits acknowledged", number(counts.get("commits acknowledged", 0))),
        ("values compared", number(counts.get("values compared", 0) + counts.get("values read", 0))),
        ("comparisons of all three servers", number(counts.get("comparisons of all three servers", 0))),
        ("answers of temporary tables compared", number(counts.get("temporary answers compared", 0))),
        ("minutes", run["minutes"]),
        ("**wrong**", f"**{len(run['wrong'])}**"),
    ]
    wrong = "".join(f"\n* {text.splitlines()[0]}" for text in run["wrong"][:20])
    return table(("", "seed " + str(run["seed"])), rows) + (f"\n\nWrong were:\n{wrong}" if wrong else "")


def soak(run: dict) -> str:
    grown = {name: soak_run.growth(run["parts"], name) for name in soak_run.ENOUGH}
    rows = [(name, f"{one.level:,.1f}", f"{one.gained:+.1f}", f"{one.least:+.1f} to {one.most:+.1f}") for name, one in grown.items()]
    wrong = "".join(f"\n* {text.splitlines()[0]}" for text in [*soak_run.grown(run["parts"]), *run["wrong"][:20]])
    counts = ", ".join(f"{number(n)} {name}" for name, n in run["counts"].items())
    return (
        f"{run['hours']} hours, {len(run['parts'])} starts of the server: {counts}.\n\n"
        + table((f"seed {run['seed']}", "about", "gained in the run", "interval, 99 % if samples were independent"), rows)
        + (f"\n\nWrong were:\n{wrong}" if wrong else "")
        + f"\n\n![Each resource and the latencies over the hours]({soak_file(run)})"
    )


def soak_file(run: dict) -> str:
    """The file of a soak test's picture, one for each major version."""
    return f"soak-{run['server'].split('.')[0]}.svg"


def soak_picture(run: dict) -> str:
    """Every resource, and the median and the 99th percentile of each kind of work, over the hours."""
    from matplotlib import pyplot, use

    use("Agg")
    samples = [one for part in run["parts"] for one in part["samples"]]
    kinds = sorted({name for one in samples for name in one["latencies, ms"]})
    with pyplot.rc_context({"svg.hashsalt": "soak", "svg.fonttype": "none", "font.size": 8, "axes.grid": True, "grid.color": "#dddddd"}):
        figure, axes = pyplot.subplots(-(-(len(soak_run.ENOUGH) + len(kinds)) // 3), 3, figsize=(10, 11), layout="constrained", sharex=True)
        for axis, name in zip(axes.flat, [*soak_run.ENOUGH, *kinds]):
            for part in (one["samples"] for one in run["parts"]):
                hours = [one["hours"] for one in part]
                if name in soak_run.ENOUGH:
                    axis.plot(hours, [one[name] for one in part], color="#2a5ea0", linewidth=1)
                    axis.set_title(name)
                else:
                    for which, color in enumerate(("#2a5ea0", "#c0673a")):
                        axis.plot(hours, [one["latencies, ms"].get(name, (float("nan"),) * 2)[which] for one in part], color=color, linewidth=1)
                    axis.set_title(f"{name}: median and 99 %, ms")
                    axis.set_yscale("log")
            if name in soak_run.ENOUGH:
                axis.set_ylim(bottom=0)
        for axis in axes.flat[len(soak_run.ENOUGH) + len(kinds):]:
            axis.axis("off")
        for axis in axes[-1]:
            axis.set_xlabel("hours")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return out.getvalue()


def power(run: dict) -> str:
    rows = []
    for result in run["rounds"]:
        counts, lost = result["counts"], number(len(result["wrong"]))
        rows.append((f"`{result['name']}`" if "=" in result["name"] and "," not in result["name"] else result["name"], number(counts.get("calls", 0)),
                     number(counts.get("commits", 0)), number(result["cuts"]), number(counts.get("values compared", 0)),
                     f"{lost}, as it must be" if result["loses"] and result["wrong"] else f"**{lost}**"))
    wrong = "".join(f"\n* {text.splitlines()[0]}" for text in run["wrong"][:20])
    blind = "".join(f"\n\n**No loss was seen with {name}.**" for name in run["blind"])
    return (
        table((f"seed {run['seed']}", "calls", "commits", "cuts", "values compared", "cuts with a loss"), rows)
        + (f"\n\nWrong were:\n{wrong}" if wrong else "")
        + blind
    )


def mutants(run: dict) -> str:
    rows = [(f"`{bug['file']}`", bug["what"], ", ".join(bug["by"][:3]) if bug["outcome"] == "caught" else f"**{bug['outcome']}**") for bug in run["bugs"]]
    earlier = sorted(
        {
            (bug["commit"][:10] + bug["commit"][40:], sum(other.get("commit") == bug["commit"] for other in run["bugs"]))
            for bug in run["bugs"]
            if bug.get("commit", run["commit"]) != run["commit"]
        }
    )
    said = "".join(f" {n} of them were tried at commit {commit}." for commit, n in earlier)
    more = run.get("listed", run["planted"]) - run["planted"]
    said += f" {more} more on the list were not tried." if more else ""
    return f"{run['caught']} of {run['planted']} were caught.{said}\n\n" + table(("file", "the bug", "caught by"), rows)


def fuzz(run: dict) -> str:
    rows = [(t["what"], f"{number(t['inputs'])} inputs", t["seconds"], "**failed**" if t["failed"] else "nothing found") for t in run["targets"]]
    rows += [(g["what"], f"{number(g['rounds'])} rounds", g["seconds"], "**failed**" if g["failed"] else "nothing found") for g in run["random_sql"]]
    return table(("input", f"seed {run['seed']}", "seconds", "result"), rows)


def sqlsmith(run: dict) -> str:
    wrong = "".join(f"\n* {text.splitlines()[0]}" for text in run["wrong"][:20])
    return table(("", f"seed {run['seed']}"), [*((name, number(n)) for name, n in run["counts"].items()), ("**wrong**", f"**{len(run['wrong'])}**")]) + (
        f"\n\nWrong were:\n{wrong}" if wrong else "")


def tools(run: dict) -> str:
    return table(("tool", f"seed {run['seed']}", "what"), [(name, one["outcome"], one["what"]) for name, one in run["tools"].items()])


def kept(run: dict) -> str:
    return "```\n" + "\n".join(run["lines"]) + "\n```" + ("" if run["status"] == 0 else f"\n\n**The command failed with status {run['status']}.**")



# -- one line for a run ----------------------------------------------------------


def since(commit: str) -> str:
    """How many commits have changed the C code since that one; "?" if the history does not have it."""
    done = record.git("rev-list", "--count", f"{commit.split()[0]}..HEAD", "--", *record.SOURCE)
    return done.stdout.strip() if done.returncode == 0 else "?"


def changed(commit: str) -> str:
    """How much of the C code has been written since that commit, percent of today's lines; "?" if the history does not have it.

    Commits do not say it: one may change a line or an extension.  A file that moved counts with what changed in it.
    """
    def of(*command: str) -> int | None:
        done = record.git(*command, "--", *record.SOURCE)
        return sum(int(line.split()[0]) for line in done.stdout.splitlines() if line[0].isdigit()) if done.returncode == 0 else None

    written = of("diff", "-M", "--numstat", commit.split()[0], "HEAD")
    everything = of("diff", "--numstat", EMPTY_TREE, "HEAD")
    return "?" if written is None or not everything else f"{100 * written / everything:.0f} %"


def counted(run: dict, name: str) -> int:
    """The sum of "N NAME" over the closing lines of a run."""
    return sum(int(n) for line in run["lines"] for n in re.findall(rf"\b(\d+) {name}\b", line))


def sum_chaos(run: dict) -> tuple[str, int]:
    counts = run["counts"]
    return (f"{number(run['killed'])} processes killed in {run['minutes']:.0f} minutes, "
            f"{number(counts.get('values compared', 0) + counts.get('values read', 0))} values compared", len(run["wrong"]))


def sum_soak(run: dict) -> tuple[str, int]:
    return (f"{run['hours']:.1f} hours, of which growth was judged in {run['judged']:.1f}, "
            f"{number(run['counts'].get('values compared', 0))} values compared", len(run["wrong"]) + len(soak_run.grown(run["parts"])))


def sum_power(run: dict) -> tuple[str, int]:
    rounds = [one for one in run["rounds"] if not one["loses"]]
    return (
        f"{number(sum(one['cuts'] for one in rounds))} power cuts, {number(sum(one['counts'].get('values compared', 0) for one in rounds))} values compared",
        len(run["wrong"]) + len(run["blind"]),
    )


def sum_mutants(run: dict) -> tuple[str, int]:
    return f"{run['planted']} planted bugs of {run.get('listed', run['planted'])} listed then, {run['caught']} caught", run["planted"] - run["caught"]


def sum_fuzz(run: dict) -> tuple[str, int]:
    return (f"{number(sum(t['inputs'] for t in run['targets']))} inputs, {number(sum(g['rounds'] for g in run['random_sql']))} rounds of random SQL",
            sum(bool(t["failed"]) for t in [*run["targets"], *run["random_sql"]]))


def sum_sqlsmith(run: dict) -> tuple[str, int]:
    return f"{number(run['counts'].get('statements asked', 0))} statements", len(run["wrong"])


def sum_tools(run: dict) -> tuple[str, int]:
    outcomes = [one["outcome"] for one in run["tools"].values()]
    return f"{outcomes.count('equal')} of {len(outcomes)} tools with equal results, {outcomes.count('not tried')} not tried", outcomes.count("DIFFERENT")


def sum_packages(run: dict) -> tuple[str, int]:
    return ", ".join(line.split(":")[0] for line in run["lines"]), int(run["status"] != 0)


def sum_kept(run: dict) -> tuple[str, int]:
    """Counts of passed and failed, equal and different, from the closing lines; a command that failed without a count is one."""
    lines = run["lines"]
    closing = [line for line in lines if re.search(r"\d+ (equal|passed)", line)] or lines
    run = {**run, "lines": closing}
    passed, equal, failed = counted(run, "passed"), counted(run, "equal"), counted(run, "failed") + counted(run, "different") + counted(run, "errors of memory")
    much = ", ".join([f"{number(passed)} passed"] * bool(passed) + [f"{number(equal)} equal"] * bool(equal)) or "; ".join(lines[:1])
    return much, failed or int(run["status"] != 0)


def sum_times(run: dict) -> tuple[str, int]:
    """The counts of tests, and of samples in which a node was looked for that cannot wait."""
    much, wrong = sum_kept(run)
    looks = counted(run, "looks of the sampler")
    return much + (f", {number(looks)} looks of the sampler" if looks else ""), wrong or counted(run, "impossible pairs")


def draw_line(kind: str, run: dict) -> tuple[str, ...]:
    """A row of the page's table."""
    much, wrong = globals().get(f"sum_{kind}", sum_kept)(run)
    changes = " with changes" if run["commit"].endswith(" with changes") else ""
    return (
        f"`{run['command']}`",
        much,
        f"**{number(wrong)}**" if wrong else "0",
        run["server"],
        run["date"],
        f"{run['commit'][:10]}{changes}",
        since(run["commit"]),
        changed(run["commit"]),
    )


def runs_of(kind: str, folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.stem.split("-")[0] == kind]


def draw(folder: Path = RUNS) -> str:
    """The page: one table."""
    rows = []
    for kind, heading, _, command in KINDS:
        lines = [draw_line(kind, run) for run in runs_of(kind, folder)] or [(f"`{command}`", "not run", "", "", "", "", "", "")]
        rows += [(heading if number == 0 else "", *line) for number, line in enumerate(lines)]
    return HEAD + "\n" + table(("", "command", "how much", "wrong", "PostgreSQL", "date", "commit", "commits since", "written since"), rows) + "\n"


def draw_details(folder: Path = RUNS) -> str:
    """What each run did, all of it."""
    parts = [DETAILS_HEAD]
    for kind, heading, what, command in KINDS:
        parts.append(f"## {heading}\n\n{wrapped(what)}\n")
        found = runs_of(kind, folder)
        parts += [f"{origin(run)}\n\n{globals().get(kind, kept)(run)}\n" for run in found] or [f"No run is kept (`{command}`).\n"]
    return "\n".join(parts)


def main() -> int:
    for page, text in ((PAGE, draw()), (DETAILS, draw_details())):
        page.write_text(text)
        print(page)
    for run in runs_of("soak", RUNS):
        (RUNS / soak_file(run)).write_text(soak_picture(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
