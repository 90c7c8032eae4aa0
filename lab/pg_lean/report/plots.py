"""Plots of results as SVG that follows the page: colors are CSS variables, so one picture serves light and dark.

matplotlib draws with stand-in colors, which are replaced in its output.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot, ticker

from pg_lean.result import Plot, Series, format_value

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


@dataclass(frozen=True)
class Shape:
    """A picture for a kind of screen; inches are CSS inches there, so that letters are as large as the page's."""

    width: float
    height: float
    #: Room for numbers along the x axis, and for names next to bars (in letters).
    ticks: int
    name: int

    def columns(self, plot: Plot) -> int:
        """Entries of the legend that fit into a row."""
        return max(1, min(4, len(plot.series), int(self.width * 72 / (6.5 * max(len(series.name) for series in plot.series) + 46))))


WIDE, NARROW = Shape(7.6, 3.5, 9, 34), Shape(3.9, 3.4, 4, 15)


def svg(plot: Plot, identity: str, shape: Shape = WIDE) -> str:
    """The plot as an <svg> element; `identity` keeps ids of several plots on a page apart."""
    with pyplot.rc_context({**STYLE, "svg.hashsalt": identity, "axes.grid.axis": "x" if plot.kind == "bar" else "y"}):
        figure, axes = pyplot.subplots(figsize=(shape.width, _height(plot, shape)), layout="constrained")
        try:
            colors = _colors(plot.series)
            if plot.kind == "bar":
                _bars(axes, plot, colors, shape)
            else:
                _lines(axes, plot, colors, shape)
            if len(plot.series) > 1:
                figure.legend(loc="outside upper left", ncols=shape.columns(plot), handlelength=2.4, columnspacing=1.4)
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            pyplot.close(figure)
    return _adapt(out.getvalue(), plot.title)


def _groups(plot: Plot) -> list[str]:
    return list(dict.fromkeys(str(x) for series in plot.series for x in series.x))


def _height(plot: Plot, shape: Shape) -> float:
    """Bars are horizontal, one per line, and determine the height of the plot."""
    legend = 0.25 * -(-len(plot.series) // shape.columns(plot)) if len(plot.series) > 1 else 0.0
    if plot.kind != "bar":
        return shape.height + max(0.0, legend - 0.25)
    lines = sum(max(len(plot.series), len(textwrap.wrap(name, shape.name))) for name in _groups(plot))
    return 0.75 + legend + 0.2 * lines + 0.16 * len(_groups(plot))


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


def _lines(axes: pyplot.Axes, plot: Plot, colors: list[str], shape: Shape) -> None:
    for series, color in zip(plot.series, colors):
        many = len(series.x) > 40
        axes.plot(series.x, series.y, color=color, label=series.name, linewidth=1.8, marker=None if many else "o", markersize=5 if series.dashed else 4,
                  linestyle=(0, (5, 2)) if series.dashed else "-", markerfacecolor="none" if series.dashed else color, dash_capstyle="butt")
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=color, alpha=0.15, linewidth=0)
    if plot.log_x:
        axes.set_xscale("log", base=2)
        values = sorted({x for series in plot.series for x in series.x})
        if len(values) <= 16:
            every = -(-len(values) // shape.ticks)
            axes.set_xticks(values[(len(values) - 1) % every::every])
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(shape.ticks - 1))
    if plot.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    elif _near_zero(plot):
        axes.set_ylim(bottom=0)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _pos: _tick(value)))


def _bars(axes: pyplot.Axes, plot: Plot, colors: list[str], shape: Shape) -> None:
    """Horizontal bars: names and figures of any length are on separate lines and never touch."""
    groups, place, at = _groups(plot), {}, 0.0
    for group in groups:
        lines = max(len(plot.series), len(textwrap.wrap(group, shape.name)))
        place[group] = at + (lines - 1) / 2
        at += lines + 0.8
    top = max((value for series in plot.series for value in (*series.y, *(series.high or ())) if not math.isnan(value)), default=1.0)
    for index, (series, color) in enumerate(zip(plot.series, colors)):
        lines = [place[str(x)] + index - (len(plot.series) - 1) / 2 for x in series.x]
        axes.barh(lines, series.y, 0.86, color=color, label=series.name)
        ends = list(series.y)
        if series.low is not None and series.high is not None:
            below = [max(0.0, y - low) for y, low in zip(series.y, series.low)]
            above = [max(0.0, high - y) for y, high in zip(series.y, series.high)]
            axes.errorbar(series.y, lines, xerr=[below, above], fmt="none", ecolor=INK, elinewidth=0.9)
            ends = list(series.high)
        for end, line, value in zip(ends, lines, series.y):
            axes.annotate(format_value(float(value)), (end, line), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    if plot.log_y:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.set_xlim(right=top * 4)
    else:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(shape.ticks - 1))
        axes.set_xlim(0, top * (1.14 if shape is WIDE else 1.3))
    axes.set_yticks([place[group] for group in groups], ["\n".join(textwrap.wrap(group, shape.name)) for group in groups])
    axes.set_ylim(at - 0.8, -0.8)
    axes.set_xlabel(plot.y_label)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _pos: _tick(value)))


def _near_zero(plot: Plot) -> bool:
    values = [y for series in plot.series for y in series.y if not math.isnan(y)]
    return bool(values) and min(values) >= 0 and min(values) < 0.5 * max(values)


def _tick(value: float) -> str:
    if value != 0 and (abs(value) < 0.01 or abs(value) >= 1e7):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def _adapt(text: str, title: str) -> str:
    """Strip the XML prologue and fixed size, put the page's font and colors in."""
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
