"""The seven results of the front page, each case with all repetitions, next to stock and to the next best way on a stock server.

The cases are those of other benchmarks: each of BENCHMARKS has a function `front()`, which
measures its case on a server with the libraries and settings of that benchmark.
"""

from __future__ import annotations

from dataclasses import replace

from pg_lean.bench import Bench, Headline, Result, Table, load

TITLE = "The front page: seven cases of other benchmarks, with all repetitions"

#: In the order of the page.
BENCHMARKS = ("analytics", "temp", "append", "runlog", "explain", "extend", "fill")
#: Repetitions of a full run.
ROUNDS = 15


def run(bench: Bench) -> Result:
    """Each case on a separate private server."""
    bench.need_private()
    rounds = bench.iterations(full=ROUNDS, quick=2)
    headlines = []
    for name in BENCHMARKS:
        module = load(name)
        with bench.cluster(preload=module.PRELOAD, settings=module.SETTINGS, name=f"front-{name}") as server:
            part = Bench(name, server, replace(bench.options, iterations=rounds), bench.console, bench.raw)
            headline, next_best = module.front(part)
        headlines.append(replace(headline, bars=(headline.bars[0], next_best, headline.bars[-1])))
    return present(rounds, headlines)


def present(rounds: int, headlines: list[Headline]) -> Result:
    """Bars of a headline: stock, the next best way, pg_lean."""
    ratios = [headline.ratio.median for headline in headlines]
    return Result(
        title=TITLE,
        summary=f"{len(headlines)} cases are {min(ratios):.2g} to {max(ratios):,.0f} times as fast as with stock PostgreSQL.",
        what="One case of each of the benchmarks " + ", ".join(BENCHMARKS) + ", and the fastest other way that a stock server has.",
        how=f"{rounds} interleaved repetitions of each case, on a private server with the settings of its benchmark. The ratio is the median of the ratios "
        "within each repetition. Logs in bytea have a third of the lines of the others, because each line rewrites the value: that is in favor of bytea.",
        headlines=headlines,
        blocks=[
            Table(
                "Next to the next best way on a stock server",
                ["benchmark", "stock", "next best", "", "pg_lean", "unit", "next best / pg_lean"],
                [
                    [name, headline.bars[0][1], headline.bars[1][1], headline.bars[1][0], headline.bars[2][1], headline.unit,
                     headline.bars[1][1] / headline.bars[2][1]]
                    for name, headline in zip(BENCHMARKS, headlines)
                ],
                note="Medians.",
            )
        ],
    )
