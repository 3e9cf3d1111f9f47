"""Every screen as it is at first and once it was used, in both themes at the width of a phone: axe, and no overflow."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from serving import Server


def done(page: Any, screen: str) -> None:
    page.locator(f"#{screen}-status").filter(has_text="done").wait_for()


def prompt(page: Any) -> None:
    page.fill("#prompt-context", "My name is Bob. I live in Rome. ")
    page.click("text=Turn into weights")
    done(page, "prompt")
    page.focus(".heat-scroll")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#layer-norm")


def fold(page: Any) -> None:
    if not page.locator("#fold-list button").count():
        page.fill("#fold-context", "The shop opens at 9:30. Ada owns it.")
        page.select_option("#fold-method", "vector")
        page.fill("#fold-calibration", "8")
        page.click("#fold-own summary")
        page.fill("#fold-questions", "When does the shop open? | 9:30\nWho owns it? | Ada")
        page.click("#fold-form .primary")
    else:
        page.locator("#fold-list button").last.click()
    page.wait_for_selector("#fold-download")
    page.wait_for_selector("#fold-facts tbody tr")
    page.fill("#chat-query", "When?")
    page.click("#chat-form .primary")
    done(page, "chat")


def trajectory(page: Any) -> None:
    page.fill("#trajectory-context", "My name is Bob. ")
    page.fill("#trajectory-examples", "4")
    page.click("#trajectory-form .primary")
    done(page, "trajectory")


def ledger(page: Any) -> None:
    page.wait_for_selector("#ledger-table tbody tr")
    page.click("#ledger-table button")
    page.wait_for_selector("#ledger-detail tbody tr")


def compare(page: Any) -> None:
    page.wait_for_selector("#compare-body tbody tr")
    for summary in page.locator("#compare-body summary").all():
        summary.click()


USED: dict[str, Callable[[Any], None]] = {
    "prompt": prompt, "fold": fold, "rows": lambda page: None, "trajectory": trajectory, "ledger": ledger,
    "compare": compare,
}  # fmt: skip


def serious(page: Any) -> list[Any]:
    """What axe finds serious or critical: its rule, an element, and why."""
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    bad = [v for v in found if v["impact"] in ("serious", "critical")]
    return [(v["id"], v["nodes"][0]["html"], v["nodes"][0].get("failureSummary")) for v in bad]


@pytest.fixture
def checked(open_page: Any) -> Callable[..., Any]:
    """A page of a phone with axe in it."""
    found = find_spec("axe_playwright_python")
    if found is None:
        pytest.skip("no browser: axe-playwright-python is not installed")
    axe = Path(found.origin or "").with_name("axe.min.js").read_text()

    def opened(theme: str) -> Any:
        page = open_page(color_scheme=theme, viewport={"width": 375, "height": 700}, bypass_csp=True)
        page.evaluate(axe)
        return page

    return opened


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_for_accessibility_and_no_overflow_on_a_phone(checked: Any, theme: str) -> None:
    """At a width of 375 nothing but what scrolls by itself is wider than the page."""
    page, problems = checked(theme), {}
    for screen, use in USED.items():
        page.evaluate(f"location.hash = '{screen}'")
        page.wait_for_selector(f"#screen-{screen}:not([hidden])")
        for state in ("at first", "used"):
            if state == "used":
                use(page)
            if bad := serious(page):
                problems[screen, state] = bad
            if (width := page.evaluate("document.documentElement.scrollWidth")) > 375:
                problems[screen, state, "width"] = width
    assert problems == {}, json.dumps([[*map(str, k), v] for k, v in problems.items()], indent=1)
    assert page.evaluate("document.documentElement.dataset.theme") == theme


def test_the_check_can_fail(checked: Any, server: Server) -> None:
    page = checked("light")
    page.evaluate("document.querySelector('h1').style.color = '#eee'")
    page.evaluate("document.querySelector('h1').style.width = '900px'")
    assert [rule for rule, *_ in serious(page)] == ["color-contrast"]
    assert page.evaluate("document.documentElement.scrollWidth") > 375
