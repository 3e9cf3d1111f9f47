"""The site of the ledger: complete, current, well-formed, and readable without scripts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from inweights.ledger import Bound, Criterion, Entry, Interval, criteria, registered
from inweights.papers import load_all, recorded
from inweights.report._ledger_claim import axes, of_curves
from inweights.report._ledger_pairs import PAIRS, Pairs, pairs_figure
from inweights.report._ledger_site import site
from inweights.report._ledger_svg import WIDTH, Axis, Row, in_words, judged_figure

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


def plain(text: str) -> str:
    """A text as a page shows it: without the marks of code, and with single spaces."""
    return " ".join(text.replace("`", "").split())


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
        text = plain("".join(own.text))
        stated = (entry.claim.control, str(entry.verdict), f"inweights claims run {id}", "Rival explanation")
        for part in stated:
            assert plain(part) in text, id
        assert pages[f"{id}.html"].count("<svg") == len(entry.quantities) + has_pairs(entry)
        data = DOCS / "claims" / f"{id}.csv"
        assert pages[f"{id}.html"].count("<img") == (bool(entry.seen) and of_curves(data)), id


def has_pairs(entry: Entry) -> bool:
    return entry.id in PAIRS and any(name in told for told in entry.told for name in PAIRS[entry.id].value)


def test_every_axis_has_a_label_in_words() -> None:
    """One for each quantity, and for no other; labels and titles fit into the width of the figure."""
    load_all()
    needed = {id: set(each.quantities) for id, each in criteria().items()}
    assert {id: set(labels) for id, labels in axes().items()} == needed
    for id, labels in axes().items():
        for name, label in labels.items():
            assert len(label.split()) > 1, (id, name)
            assert len(label) * 7 < WIDTH, label
            title = f"{name}: {in_words(criteria()[id].quantities[name])}"
            assert len(title) * 7 < WIDTH, title


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


def test_the_page_of_changes_has_every_entry(pages: dict[str, str]) -> None:
    """The proof of a refactoring, what had been seen, the verdict now, and lines of the register that are gone."""
    page = Checked()
    page.feed(pages["changes.html"])
    text = plain("".join(page.text))
    for entry in registered(DOCS / "registration"):
        for part in (entry.old, entry.was, entry.reason, entry.seen, entry.seeds, entry.proof):
            assert plain(part) in text, entry.claim
    last = recorded()["goldwaser-self-correcting"].quantities["ratio"].value
    assert text.count(f"FAIL: ratio {last.value:.3g} [") == 3
    gone = [json.loads(line) for line in (DOCS / "registration" / "rewritten.jsonl").read_text().splitlines()]
    assert {each["claim"] for each in gone} <= set(re.findall(r"[\w-]+", " ".join(page.text)))
    commits = json.loads((DOCS / "registration" / "commits.json").read_text(encoding="utf-8"))
    after = sum(any(c["after_a_result"] for c in commits[id]["changed"]) for id in recorded())
    assert f"{after} were changed after a result" in text


def test_a_figure_shows_what_is_judged() -> None:
    """Trials as circles, the interval, control and rival as rows of their own, the bound as a range; infinite numbers
    are drawn at the end of the axis or not at all."""
    judged = Interval(0.5, 0.4, 0.6)
    rows = [
        Row("value", [0.4, 0.5, 0.6], judged),
        Row("negative control", [2.0, float("inf")], Interval(2.0, 1.5, float("inf"))),
        Row("rival explanation", [0.7], None),
    ]
    drawn = judged_figure(
        "A name: the mean < 1", Criterion(Bound.of("<1"), each=False, rival=True), rows, "unit & more"
    )
    assert drawn.count("<circle") == 5
    assert drawn.count("<path") == 2
    assert 'class="b"' in drawn
    assert "A name: the mean &lt; 1" in drawn
    assert "unit &amp; more" in drawn
    assert "nan" not in drawn
    wide = Axis.over([1e-12, 0.5])
    assert wide.log
    assert wide.at(0.0) == wide.at(1e-300) < wide.at(1e-12) < wide.at(0.5)
    assert not Axis.over([-1.0, 500.0]).log
    assert len(Axis.over([3.0, 3.0]).ticks()) > 1
    assert Axis.over([0.03, 0.2], log=True).ticks() == [0.02, 0.05, 0.1, 0.2]


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        (Criterion(Bound.of("<1"), each=False), "the mean must be below 1"),
        (Criterion(Bound.of("0.5..2"), each=False, scale="log"), "the geometric mean must be between 0.5 and 2"),
        (
            Criterion(Bound.of(">0.5"), each=True, control=Bound.of("<0.1")),
            "every single one must be above 0.5, that of the control below 0.1",
        ),
    ],
)
def test_criteria_in_words(criterion: Criterion, words: str) -> None:
    assert in_words(criterion) == words


def test_pairs_of_numbers_are_drawn_where_they_belong() -> None:
    """A number that is as it should be lies on the line of equality, another one does not; none, no figure."""
    pairs = Pairs("title", "x", "y", {"right": 0.1, "wrong": 10.0}, {"right": 1.0})
    drawn = pairs_figure(pairs, [{"right": 0.1, "wrong": 0.1}, {"right": 0.1}])
    assert drawn.count("<circle") == 5
    number = r'="([\d.]+)"'
    ((left, low, right, high),) = re.findall(f"x1{number} y1{number} x2{number} y2{number}", drawn)
    circles = re.findall(f"cx{number} cy{number} r", drawn)
    assert circles.count((left, low)) == 2
    assert (right, high) not in circles
    assert (right, low) in circles
    assert pairs_figure(pairs, [{"other": 1.0}]) == ""
    for id, own in PAIRS.items():
        assert all(set(own.value) | set(own.control) <= set(told) for told in recorded()[id].told), id
    assert recorded()["akyurek-ridge"].told
