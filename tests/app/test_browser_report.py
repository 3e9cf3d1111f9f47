"""A report in a real browser without network: it opens, draws its figures, loads nothing and is readable on a phone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from inweights.app._records import RECORDED
from inweights.report import write_report


@pytest.fixture(scope="module")
def report(folder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a proof and of a recorded comparison."""
    run = tmp_path_factory.mktemp("run")
    command = [sys.executable, "-m", "inweights", "verify", "--model", folder, "--json"]
    command += ["--context", "My name is Bob. ", "--query", "I am"]
    (run / "verify.json").write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    shutil.copy(RECORDED / "compare-sst2.json", run)
    return write_report(run)[0]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1180])
def test_a_report_opens_by_itself(browser: Any, report: Path, theme: str, width: int) -> None:
    found = find_spec("axe_playwright_python")
    if found is None:
        pytest.skip("no browser: axe-playwright-python is not installed")
    size = {"width": width, "height": 700}
    context = browser.new_context(color_scheme=theme, viewport=size, offline=True, bypass_csp=True)
    page, asked = context.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url.partition(":")[0]))
    page.goto(report.as_uri())
    assert set(asked) <= {"file", "data"}
    assert asked.count("file") == 1  # the page itself
    drawn = page.evaluate("[...document.querySelectorAll('img, svg')].map((i) => i.getBoundingClientRect().width)")
    assert len(drawn) > 3
    assert min(drawn) > 100
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "PASS" in page.inner_text("body")
    lightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    assert (sum(lightness) < 3 * 128) == (theme == "dark")
    page.evaluate(Path(found.origin or "").with_name("axe.min.js").read_text())
    violations = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []
    context.close()
