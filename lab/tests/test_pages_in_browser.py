"""Every document in a browser, on a wide and on a narrow screen: tables are tables, pictures load, and only tables and code are wider than the screen."""

from urllib.parse import quote

import pytest
from markdown_it import MarkdownIt

from pg_lean import docs
from pg_lean.paths import TOP

pytestmark = pytest.mark.slow

#: Wide tables and code scroll by themselves, as on the sites that show such pages.
STYLE = ("body { margin: 16px; font: 16px sans-serif } img, svg { max-width: 100% } table, pre { display: block; overflow-x: auto }"
         " code { overflow-wrap: anywhere }")
FAULTS = r"""(() => {
    const faults = [];
    if (document.documentElement.scrollWidth > innerWidth) faults.push('wider than the screen: ' + document.documentElement.scrollWidth);
    for (const image of document.images) if (!image.complete || image.naturalWidth === 0) faults.push('no picture: ' + image.currentSrc);
    for (const element of document.querySelectorAll('p, li, td, h1, h2, h3')) {
        const text = [...element.childNodes].filter(node => node.nodeName !== 'CODE').map(node => node.textContent).join('');
        if (/\|\s*-{2,}|^\s*\|.*\|\s*$|```|^#{1,4} |\]\([^)]*\.md/m.test(text)) faults.push('markup is shown: ' + text.slice(0, 80));
    }
    return faults;
})()"""


def written(folder, markdown, base):
    """A file with the page as HTML, whose links are relative to `base`."""
    path = folder / "page.html"
    text = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    path.write_text(f'<!doctype html><meta charset="utf-8"><base href="file://{quote(str(base))}/"><style>{STYLE}</style>{text}')
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", docs.pages(), ids=lambda page: str(page.relative_to(TOP)))
def test_a_page_is_shown_as_meant(browser, tmp_path, page, width):
    browser.open(written(tmp_path, page.read_text(), page.parent), width)
    assert browser.ask("document.querySelectorAll('h1').length") == 1
    faults = browser.ask(FAULTS)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("markdown, fault", [
    ("# a\n\n| a | b |\n|---|\n| 1 | 2 |\n", "markup is shown"),
    ("# a\n\n![x](nothing.svg)\n", "no picture"),
    (f"# a\n\n{'x' * 500}\n", "wider than the screen"),
])
def test_a_fault_is_found(browser, tmp_path, markdown, fault):
    browser.open(written(tmp_path, markdown, tmp_path), 390)
    assert [found for found in browser.ask(FAULTS) if found.startswith(fault)]
