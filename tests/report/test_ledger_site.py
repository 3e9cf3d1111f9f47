"""The site of the ledger: complete, current, well-formed, and readable without scripts."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from inweights.ledger import Bound, Criterion, Interval
from inweights.papers import recorded
from inweights.report._ledger_site import site
from inweights.report._ledger_svg import Axis, Row, judged_figure

DOCS = Path(__file__).parents[2] / "docs"
VOID = {"meta", "img", "br", "rect", "line", "circle", "path"}


class Checked(HTMLParser):
    """Collects text outside of scripts, the links, and unbalanced tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [] if tag in VOID else [tag]
        self.links += [value for name, value in attrs if name == "href" and value]
        self.sources += [value for name, value in attrs if name == "src" and value]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return site(DOCS)


def test_the_site_is_that_of_the_record(pages: dict[str, str]) -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "ledger").glob("*.html")}
    assert set(there) == set(pages)
    assert [name for name in pages if pages[name] != there[name]] == [], "run `make page`"


def test_every_page_is_whole_and_needs_no_script(pages: dict[str, str]) -> None:
    """All that is on a page is in its HTML; nothing is loaded from elsewhere, and links lead to files that exist."""
    for name, text in pages.items():
        result = Checked()
        result.feed(text)
        assert result.open == [], name
        local = [link for link in (*result.links, *result.sources) if not link.startswith("https://arxiv.org/abs/")]
        assert [link for link in local if not (DOCS / "ledger" / link).is_file()] == [], name
        assert not any(source.startswith("http") for source in result.sources)
    whole = Checked()
    whole.feed(pages["index.html"])
    output = " ".join(whole.text)
    for id, entry in recorded().items():
        assert id in output
        assert str(entry.verdict) in output
        own = Checked()
        own.feed(pages[f"{id}.html"])
        text = " ".join(" ".join(own.text).split())
        stated = (entry.claim.control, str(entry.verdict), f"inweights claims run {id}", "Rival explanation")
        for part in stated:
            assert " ".join(part.split()) in text, id
        assert pages[f"{id}.html"].count("<svg") == len(entry.quantities)


def test_the_page_of_changes_states_what_the_history_has(pages: dict[str, str]) -> None:
    """Every claim of the record with the commit of its criterion; a change after a result is named as one."""
    commits = json.loads((DOCS / "registration" / "commits.json").read_text(encoding="utf-8"))
    page = Checked()
    page.feed(pages["changes.html"])
    text = " ".join(" ".join(page.text).split())
    assert set(recorded()) <= set(commits)
    for id in recorded():
        commit, date = commits[id]["criterion"]
        assert f"{id} {date} {commit}" in text
    after = next(c for c in commits["akyurek-ridge"]["changed"] if c["after_a_result"])
    row = text[text.index("akyurek-ridge 2026-11-15 3039914bc89f") :]
    before, later = row.index("a4e0c1f65d6b"), row.index(after["commit"])
    assert before < later < row.index("garg-linear ")


def test_a_figure_shows_what_is_judged() -> None:
    """Trials as circles, the interval, control and rival as rows of their own, the bound as a range; infinite numbers
    are drawn at the end of the axis or not at all."""
    judged = Interval(0.5, 0.4, 0.6)
    rows = [
        Row("value", [0.4, 0.5, 0.6], judged),
        Row("negative control", [2.0, float("inf")], Interval(2.0, 1.5, float("inf"))),
        Row("rival explanation", [0.7], None),
    ]
    drawn = judged_figure("a_name", Criterion(Bound.of("<1"), each=False, rival=True), rows, "unit & more")
    assert drawn.count("<circle") == 5
    assert drawn.count("<path") == 2
    assert 'class="b"' in drawn
    assert "a name: mean &lt; 1, rival" in drawn
    assert "unit &amp; more" in drawn
    assert "nan" not in drawn
    wide = Axis.over([1e-12, 0.5])
    assert wide.log
    assert wide.at(0.0) == wide.at(1e-300) < wide.at(1e-12) < wide.at(0.5)
    assert not Axis.over([-1.0, 500.0]).log
    assert len(Axis.over([3.0, 3.0]).ticks()) > 1
