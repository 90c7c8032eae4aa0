"""Results keep everything, and the report shows everything without needing anything from elsewhere."""

import base64
import csv
import io
import re

from pg_lean import report
from pg_lean.bench import modules
from pg_lean.measure import Estimate
from pg_lean.result import Check, Headline, Result

def test_a_result_survives_being_kept(result, tmp_path):
    result.save(tmp_path)
    again = Result.load(tmp_path)
    again.save(tmp_path / "again")
    assert (tmp_path / "result.json").read_text() == (tmp_path / "again" / "result.json").read_text()
    assert (tmp_path / "raw.csv").read_text().count("\n") == 1 + len(result.raw.rows)
    assert [check.met for check in again.checks] == [True, False, False]
    assert again.headlines == result.headlines


def test_a_goal_shows_its_interval(result, tmp_path):
    result.checks = [Check.of("sum", Estimate.of([0.5, 0.625, 0.75]), "<=", 0.62), Check("count", 3.0, "<=", 0)]
    result.save(tmp_path)
    goals = Result.load(tmp_path).checks
    assert [goal.shown for goal in goals] == ["0.625 (0.500 to 0.750)", "3"]
    assert [goal.met for goal in goals] == [False, False]
    assert "0.625 (0.500 to 0.750)" in report.render([result], [])


def test_the_page_needs_nothing_from_elsewhere(result):
    page = report.render([result], [])
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page)
    assert "<script" not in page and "@import" not in page and "url(http" not in page


def test_the_page_shows_everything_escaped(result):
    page = report.render([result], [])
    for text in ("Counting &lt;rows&gt;", "SELECT &lt;1&gt;",
                 "IO:DataFileRead 75 %", "Update on ttt", "<code>SET x = on</code>", "Seven times &amp; more.", "&lt;b&gt;", "Seq Scan on &lt;t&gt;",
                 "What was left out.", "Gather", "a note", "What was measured", "not met", "1 of 3 targets met", 'colspan="2"'):
        assert text in page, text
    assert 'title="Seq Scan on &lt;t&gt;\n5.0 ms (55.6%), 5.0 ms self\n7 rows"' in page and "wide is long" in page
    assert page.count("<svg") == 4 and page.count("var(--lean)") > 2
    assert not re.search(r"#0[123]0[12]0", page), "a stand-in color was left"
    assert result.machine["kernel"] in page


def test_the_page_carries_the_raw_rows(result):
    link = re.search(r'href="data:text/csv;base64,([^"]*)"', report.render([result], []))
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(link.group(1)).decode())))
    assert len(rows) == 42 and rows[0] == {"case": "128", "variant": "stock", "repetition": "0", "ms": "0.256"}


def test_a_part_that_could_not_run_says_so(result):
    page = report.render([result], [Result("Missing", "", "", "", name="missing", unavailable="extension x is not installed")])
    assert page.count("Not measured: extension x is not installed") == 2


def test_writing_from_kept_results(result, tmp_path):
    result.save(tmp_path / "demo" / "temp_buffers")
    result.save(tmp_path / "bench" / "counting")
    page = report.write(tmp_path).read_text()
    assert 'id="demo-counting"' in page and 'id="bench-counting"' in page


def test_nothing_measured_yet(tmp_path):
    assert "Nothing has been measured yet" in report.write(tmp_path).read_text()


def test_every_module_has_a_title():
    for package in ("pg_lean.bench", "pg_lean.demo"):
        for name, title in modules(package).items():
            assert title or name == "runner", f"{package}.{name} has no TITLE"


def test_a_loud_run_says_so_instead_of_its_summary(result):
    result.headlines = [Headline("x", Estimate.of((0.8, 1.9, 2.0, 2.1, 2.2, 3.0)), [("stock", 2.0), ("pg_lean", 1.0)])]
    page = report.render([result], [])
    assert "too noisy to tell" in page and "The machine was busy" in page and page.count("Half the time with") == 1
    result.headlines = [Headline("x", Estimate.of((2.0, 2.0, 2.0, 2.1, 2.1, 2.1)), [("stock", 2.0), ("pg_lean", 1.0)])]
    page = report.render([result], [])
    assert "The machine was busy" not in page and page.count("Half the time with") == 2
