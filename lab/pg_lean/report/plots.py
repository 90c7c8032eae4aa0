"""Plots of results as SVG that follows the page: colours are CSS variables, so one picture serves light and dark.

matplotlib draws with stand-in colours, which are replaced in its output.
"""

from __future__ import annotations

import io
import math
import re

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot, ticker  # noqa: E402

from pg_lean.result import Plot, Series, format_value  # noqa: E402

# Stand-ins and the variables of template.html that take their place.
INK, RULE = "#010101", "#020202"
STOCK, LEAN = "#030100", "#030101"
OTHERS = [f"#0302{index:02x}" for index in range(6)]
VARIABLES = {INK: "var(--ink-2)", RULE: "var(--rule)", STOCK: "var(--stock)", LEAN: "var(--lean)",
             **{color: f"var(--c{index + 1})" for index, color in enumerate(OTHERS)}}

STYLE = {
    "svg.fonttype": "none", "font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": RULE,
    "xtick.color": INK, "ytick.color": INK, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.grid.axis": "y", "grid.color": RULE, "grid.linewidth": 0.8,
    "axes.axisbelow": True, "legend.frameon": False, "xtick.major.size": 3, "ytick.major.size": 0, "ytick.minor.size": 0,
    "xtick.minor.size": 0, "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
}


def svg(plot: Plot, identity: str) -> str:
    """The plot as an <svg> element; `identity` keeps ids of several plots on a page apart."""
    with pyplot.rc_context({**STYLE, "svg.hashsalt": identity}):
        figure, axes = pyplot.subplots(figsize=(7.6, 3.5), layout="constrained")
        try:
            colors = _colors(plot.series)
            (_bars if plot.kind == "bar" else _lines)(axes, plot, colors)
            axes.set_xlabel(plot.x_label)
            axes.set_ylabel(plot.y_label)
            if plot.log_y:
                axes.set_yscale("log")
                axes.yaxis.set_minor_formatter(ticker.NullFormatter())
            elif plot.kind == "bar" or _near_zero(plot):
                axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _pos: _tick(value)))
            if len(plot.series) > 1:
                figure.legend(loc="outside upper left", ncols=min(5, len(plot.series)), handlelength=1.4, columnspacing=1.6)
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            pyplot.close(figure)
    return _adapt(out.getvalue(), plot.title)


def _colors(series: list[Series]) -> list[str]:
    """Grey for stock, the accent for pg_lean, a palette for the rest; a dashed "x, published" has the color of "x"."""
    rest = iter(OTHERS * (len(series) // len(OTHERS) + 1))
    colors: dict[str, str] = {}
    for one in series:
        name = one.name.lower()
        wanted = STOCK if name.startswith(("stock", "formula")) else LEAN if name.startswith(("pg_lean", "this machine")) else None
        if one.dashed and name.split(",")[0] in colors:
            colors[name] = colors[name.split(",")[0]]
        else:
            colors[name] = wanted if wanted and wanted not in colors.values() else next(rest)
    return list(colors.values())


def _lines(axes: pyplot.Axes, plot: Plot, colors: list[str]) -> None:
    for series, color in zip(plot.series, colors):
        many = len(series.x) > 40
        axes.plot(series.x, series.y, color=color, label=series.name, linewidth=1.8, marker=None if many else "o", markersize=4,
                  linestyle="--" if series.dashed else "-", solid_capstyle="round")
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=color, alpha=0.15, linewidth=0)
    if plot.log_x:
        axes.set_xscale("log", base=2)
        values = sorted({x for series in plot.series for x in series.x})
        if len(values) <= 16:
            axes.set_xticks(values[(len(values) - 1) % 2::2] if len(values) > 8 else values)
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _pos: _tick(value)))


def _bars(axes: pyplot.Axes, plot: Plot, colors: list[str]) -> None:
    groups = list(dict.fromkeys(str(x) for series in plot.series for x in series.x))
    width = 0.8 / len(plot.series)
    for index, (series, color) in enumerate(zip(plot.series, colors)):
        at = [groups.index(str(x)) + (index - (len(plot.series) - 1) / 2) * width for x in series.x]
        bars = axes.bar(at, series.y, width * 0.92, color=color, label=series.name)
        if series.low is not None and series.high is not None:
            below = [max(0.0, y - low) for y, low in zip(series.y, series.low)]
            above = [max(0.0, high - y) for y, high in zip(series.y, series.high)]
            axes.errorbar(at, series.y, [below, above], fmt="none", ecolor=INK, elinewidth=0.9)
        axes.margins(y=0.1)
        if len(groups) * len(plot.series) <= 24:
            axes.bar_label(bars, [format_value(float(y)) for y in series.y], padding=3, fontsize=8, color=INK)
    axes.set_xticks(range(len(groups)), groups, rotation=20 if max(map(len, groups)) > 14 and len(groups) > 4 else 0)


def _near_zero(plot: Plot) -> bool:
    values = [y for series in plot.series for y in series.y if not math.isnan(y)]
    return bool(values) and min(values) >= 0 and min(values) < 0.5 * max(values)


def _tick(value: float) -> str:
    if value != 0 and (abs(value) < 0.01 or abs(value) >= 1e7):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def _adapt(text: str, title: str) -> str:
    """Strip the XML prologue and fixed size, put the page's font and colours in."""
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = text.replace("<svg", f'<svg role="img" aria-label="{_attribute(title)}"', 1)
    text = re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1var(--font)", text)
    for color, variable in VARIABLES.items():
        text = text.replace(color, variable)
    return text


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
