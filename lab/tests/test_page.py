"""The report in a browser: nothing is cut, runs over an edge, touches, or is too small to read, on wide and narrow screens, light and dark."""

from datetime import datetime, timedelta, timezone

import pytest

from conftest import SIZES, make_result
from pg_lean import report
from pg_lean.commands.waits import of_period
from pg_lean.flame import Frame
from pg_lean.result import Flame, Headline, Listing, Plot, Result, Series, SideBySide, Table

PLAN = "\n".join([" Finalize GroupAggregate (actual time=101.161..105.361 rows=100 loops=1)", "   Group Key: pgbench_branches.bid"]
                 + [f"{' ' * 4 * depth}->  Parallel Custom Scan (Temp Scan) on a_rather_long_table_name alias (actual time=0.021..83.613 rows=5000000 loops=2)"
                    for depth in range(1, 7)])

#: Run in a browser to find faults of a page: boxes over the right edge, text in pictures that touches or is too small, plans and tables cut without a cue.
FAULTS = """(() => {
  const faults = [], shown = e => e.getClientRects().length > 0, name = e => e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 40);
  if (document.documentElement.scrollWidth > innerWidth) faults.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  for (const e of document.querySelectorAll('body *')) {
    if (!shown(e) || e.closest('pre, .wide') && !e.matches('pre, .wide') || e.closest('svg') && !e.matches('svg')) continue;
    const box = e.getBoundingClientRect();
    if (box.right > innerWidth + 0.5 || box.left < -0.5) faults.push('over the edge: ' + name(e));
    if (!e.closest('svg') && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0) {
      const style = getComputedStyle(e);
      // a name in a box of a flame graph ends in three points, and a pointer shows the whole of it
      if (style.display !== 'inline' && !(style.textOverflow === 'ellipsis' && e.title) &&
          !(style.overflowX === 'auto' && style.backgroundImage.includes('gradient'))) faults.push('cut without a cue: ' + name(e));
    }
  }
  for (const svg of document.querySelectorAll('svg')) {
    if (!shown(svg)) continue;
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    const edge = svg.getBoundingClientRect();
    for (const [text, box] of texts) {
      if (box.height < 8.5 && box.width < 8.5) faults.push('too small: ' + text + ' ' + box.height);
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 || box.bottom > edge.bottom + 1)
          faults.push('outside its picture: ' + text);
    }
    texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
      // lines of text are higher than their letters
      if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 0 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4)
          faults.push('touch: ' + a + ' / ' + b);
    }));
  }
  return faults;
})()"""


def deep(levels):
    """Boxes on boxes, each next to narrow ones."""
    return Frame(
        "Index Only Scan using an_index_with_a_name on a_table", 1.0, [] if not levels else [deep(levels - 1)] + [Frame(f"Sort {n}", 0.1) for n in range(3)]
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report of everything that is hard to lay out."""
    result = make_result()
    long = "a query with a name that is a good deal longer than others"
    many = [f"{load}, {place}" for load in ("CREATE TABLE AS", "INSERT ... SELECT", "COPY") for place in ("fits", "does not fit")]
    result.blocks += [
        Flame("A deep flame graph", deep(40), "forty boxes high"),
        SideBySide("Wide plans", [Listing("stock", PLAN), Listing("pg_lean", PLAN)]),
        Table("A wide table", [f"group {n // 2} | column {n}" for n in range(14)], [[123456.0 + n for n in range(14)]] * 3),
        Plot(
            "Many bars",
            "statement",
            "ms",
            [Series(name, many, [1000.0 * (n + 1) for n in range(6)], [900.0] * 6, [7000.0] * 6) for name in ("stock", "pg_lean", "flush first")],
            kind="bar",
        ),
        Plot("Logarithmic bars", "", "µs", [Series("stock", [long, "b"], [1e6, 3.0]), Series("pg_lean", [long, "b"], [1.0, 2.0])], kind="bar", log_y=True),
        Plot(
            "Many sizes",
            "table size in blocks",
            "µs a page",
            [
                Series(f"{name}, published", [128 << n for n in range(12)], [1.0 + n for n in range(12)], dashed=True)
                for name in ("write", "read", "random-order write")
            ],
            log_x=True,
        ),
        Plot("Seconds", "seconds", "MB", [Series("stock", [0.1 * n for n in range(300)], [n / 7 for n in range(300)])]),
    ]
    result.headlines += [
        Headline(long, result.raw.ratio("ms", "stock", "pg_lean", SIZES[-1]), [("stock", 123456.7), ("pg_lean with a name", 0.3)], "µs a page")
    ]
    failed = Result("A part that failed", "", "", "", name="failed", failed="relation \"" + "x" * 200 + "\" does not exist")
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(report.render([result, failed], []))
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_or_touches(browser, page, width, scheme):
    browser.open(page, width, scheme=scheme)
    assert browser.ask("document.querySelectorAll('svg').length") == 12 and browser.ask("innerWidth") == width
    faults = browser.ask(FAULTS)
    assert not faults, "\n".join(faults)


def test_dark_is_dark_and_every_text_can_be_told_from_what_it_is_on(browser, page):
    light = {}
    for scheme in ("light", "dark"):
        browser.open(page, 1280, scheme=scheme)
        light[scheme] = browser.ask("""['body', 'section'].flatMap(where => ['backgroundColor', 'color'].map(
            what => getComputedStyle(document.querySelector(where))[what].match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3))""")
    for background, text in (0, 1), (2, 3):
        assert light["light"][background] > 240 and light["light"][text] < 60
        assert light["dark"][background] < 50 and light["dark"][text] > 200


def test_a_flame_graph_fits_and_is_light_and_dark(browser, page):
    shown = (
        "[...document.querySelectorAll('.flame .box')].map(box => { const b = box.getBoundingClientRect(), s = getComputedStyle(box); "
        "return [b.left, b.right, b.height, s.backgroundColor, s.color]; })"
    )
    seen = {}
    for scheme in ("light", "dark"):
        browser.open(page, 390, scheme=scheme)
        seen[scheme] = browser.ask(shown)
        assert len(seen[scheme]) > 80 and all(0 <= left <= right <= 390.5 and height > 12 for left, right, height, _, _ in seen[scheme])
    assert all(one[3:] != other[3:] for one, other in zip(seen["light"], seen["dark"]))


@pytest.mark.parametrize("width", [1280, 390])
def test_bars_of_waits_can_be_read(browser, page, width):
    """The longest node has a bar of the whole width, its parts are as long as its waits; on a narrow screen name, bar and parts stand below each other."""
    browser.open(page, width)
    rows = browser.ask("""[...document.querySelectorAll('.waits li')].map(row => [row.querySelector('.name').textContent,
        ...['.name', '.track', '.bar', '.parts'].map(part => { const b = row.querySelector(part).getBoundingClientRect(); return [b.top, b.bottom, b.width]; }),
        [...row.querySelectorAll('.bar i')].map(part => [part.title, part.getBoundingClientRect().width, getComputedStyle(part).backgroundColor])])""")
    scan, sort, update, commit = rows
    assert [row[0] for row in (scan, sort, commit)] == ["Seq Scan on <t>", "Sort", "(commit)"] and update[0].startswith("Update on ttt")
    track = update[2][2]
    assert track > (400 if width > 1000 else 250) and update[3][2] == pytest.approx(track, abs=1)
    assert scan[3][2] == pytest.approx(track * 40 / 60, abs=1) and [part[0] for part in scan[5]] == ["CPU", "IO:DataFileRead"]
    assert scan[5][1][1] == pytest.approx(track * 30 / 60, abs=1) and scan[5][0][2] != scan[5][1][2]
    name, bar, parts = scan[1], scan[2], scan[4]
    assert (name[1] <= bar[0] + 1 and bar[1] <= parts[0] + 1) if width < 1000 else name[0] < bar[1] and bar[0] < parts[1]
    shown = browser.ask("document.querySelector('.waits').textContent")
    for text in ("SELECT <1>", "IO:DataFileRead 75 %", "CPU 25 %", "49 % of the samples"):
        assert text in shown.replace("\n", " "), text


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_period_can_be_read(browser, tmp_path, width):
    """pg-lean waits -o: queries and nodes with bars, then the course of time; long names are not cut."""
    def row(query, label, wait, samples):
        kind, _, event = wait.partition(":")
        return {"query": query, "node": label and 0, "label": label, "activity": "execute", "wait_event_type": kind,
                "wait_event": event or kind, "samples": samples}

    rows = [row("UPDATE " + "t" * 80 + " SET <n>", "Update on " + "t" * 80, "Lock:transactionid", 500), row("SELECT 1", None, "CPU", 40),
            row(None, None, "unknown", 3)]
    begin = datetime(2026, 11, 28, 22, tzinfo=timezone.utc)
    course = [{"bucket_start": begin + timedelta(minutes=minute), "wait_event_type": kind, "wait_event": kind, "samples": 10, "seconds": 1.0}
              for minute in range(480) for kind in ("CPU", "unknown")]
    result = of_period(rows, course, ("2026-11-28 22:00:00+00", "infinity"))
    assert len(result.blocks[1].rows) == 32 and "15 minutes a row" in result.blocks[1].title and result.blocks[1].rows[0][1:] == [30.0, "CPU 50%, unknown 50%"]
    path = tmp_path / "waits.html"
    path.write_text(report.render([], [], result))
    browser.open(path.as_uri(), width)
    faults = browser.ask(FAULTS)
    assert not faults, "\n".join(faults)
    text = browser.ask("document.body.textContent")
    for wanted in ("What the server waited for", "to now there are 9,600 samples", "Lock:transactionid 100 %", "(sending rows)",
                   "statements that are not in the profile"):
        assert wanted in text, wanted
    assert "measured on this machine" not in text


def test_big_numbers_come_first_and_plans_stand_below_each_other_where_they_would_be_cut(browser, page):
    browser.open(page, 1280)
    assert browser.ask("document.querySelector('.card').getBoundingClientRect().top") < 300
    assert browser.ask("parseFloat(getComputedStyle(document.querySelector('.big')).fontSize)") > 40
    tops = "[...document.querySelectorAll('.pair')].map(pair => [...pair.children].map(child => Math.round(child.getBoundingClientRect().top)))"
    short, wide = browser.ask(tops)[:2]
    assert short[0] == short[1] and wide[0] < wide[1]
    browser.open(page, 1000)
    assert all(first < second for first, second in browser.ask(tops))
