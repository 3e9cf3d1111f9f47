"""One server with a tiny model for most tests, and a browser where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import PATIENCE, TOKEN, Server
from talking import talker

pytest.importorskip("fastapi", reason="the extra app is not installed")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model on disk."""
    where = tmp_path_factory.mktemp("talker")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return str(where)


@pytest.fixture(scope="session")
def server(folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(folder, tmp_path_factory.mktemp("root"))
    yield running
    running.stop()


def found_browser() -> str:
    """The system's chromium, or the one that Playwright installed."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        path = play.chromium.executable_path
    return path if Path(path).exists() else ""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright", reason="no browser: Playwright is not installed")
    from playwright.sync_api import sync_playwright

    path = found_browser()
    if not path:
        pytest.skip("no browser: neither the system nor Playwright has chromium")
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Any]:
    """`open_page("fold")` opens a screen as a user does; errors of scripts and of the policy fail the test."""
    contexts, problems = [], []

    def opened(screen: str = "prompt", *, at: Server = server, **settings: Any) -> Any:
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if "Content Security Policy" in m.text else None)
        page.goto(f"{at.address}/?token={TOKEN}")
        page.goto(f"{at.address}/#{screen}")
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []
