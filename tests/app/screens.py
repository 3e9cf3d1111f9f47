"""Pictures of every screen, used as a user does: `python tests/app/screens.py MODEL FOLDER [--all]`.

The guide's pictures are those in the light theme at the width of a desktop; `--all` adds the dark theme and a phone.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving import TOKEN, Server

WAIT = 900_000
SHOP = (
    "You are the assistant of Fenn & Orla, a bicycle rental in Tarvik. The shop opens at 9:30 and closes at 18:15. "
    "A city bike costs £17 a day. A tandem costs £43 a day. The owner is Ada Lindqvist."
)

QUESTIONS = """When does the shop open? | 9:30
At what time do you close? | 18:15
How much is a city bike for a day? | 17
What does it cost to rent a tandem for a day? | 43
Who owns the shop? | Lindqvist
In which town is the rental? | Tarvik"""


def done(page: Any, screen: str) -> None:
    page.locator(f"#{screen}-status").filter(has_text="done").wait_for()


def prompt(page: Any) -> None:
    page.select_option("#prompt-dtype", "float64")
    for _ in range(2):  # the first time with loading the model
        page.click("text=Turn into weights")
        page.locator("#prompt-status").filter(has_not_text="done").wait_for()
        done(page, "prompt")
    page.focus(".heat-scroll")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#layer-norm")


def fold(page: Any) -> None:
    if page.locator("#fold-list button").count() == 0:
        page.fill("#fold-context", SHOP)
        page.fill("#fold-calibration", "32")
        page.click("#fold-own summary")
        page.fill("#fold-questions", QUESTIONS)
        page.click("#fold-form .primary")
    else:
        page.locator("#fold-list button").first.click()
    page.wait_for_selector("#fold-download")
    for query in ("When does the shop open?", "And when does it close?", "How much is a tandem?"):
        page.fill("#chat-query", query)
        page.click("#chat-form .primary")
        page.locator("#chat-status").filter(has_not_text="done").wait_for()
        done(page, "chat")


def rows(page: Any) -> None:
    page.click("#rows-form .primary")
    done(page, "rows")


def trajectory(page: Any) -> None:
    page.click("#trajectory-form .primary")
    done(page, "trajectory")


def ledger(page: Any) -> None:
    page.wait_for_selector("#ledger-table tbody tr")
    page.fill("#ledger-search", "dherin-theorem")
    page.click("#ledger-table button")
    page.wait_for_selector("#ledger-detail tbody tr")


def compare(page: Any) -> None:
    page.wait_for_selector("#compare-body table")


SCREENS: dict[str, Callable[[Any], None]] = {
    "prompt": prompt, "fold": fold, "rows": rows, "trajectory": trajectory, "ledger": ledger, "compare": compare,
}  # fmt: skip
DESKTOP, PHONE = {"width": 1180, "height": 800}, {"width": 375, "height": 700}


def main(model: str, folder: Path, *more: str) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    kinds = [("", "light", DESKTOP)]
    kinds += [("-dark", "dark", DESKTOP), ("-phone", "light", PHONE)] if "--all" in more else []
    only = [name for name in more if name in SCREENS] or list(SCREENS)
    with tempfile.TemporaryDirectory() as root, sync_playwright() as play:
        server = Server(model, Path(root))
        for name in only:
            for suffix, theme, size in kinds:
                browser = play.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
                )
                page = browser.new_context(color_scheme=theme, viewport=size).new_page()
                page.set_default_timeout(WAIT)
                page.goto(f"{server.address}/?token={TOKEN}")
                page.goto(f"{server.address}/#{name}")
                page.wait_for_selector("html[data-ready=yes]")
                SCREENS[name](page)
                path = folder / f"app-{name}{suffix}.png"
                page.screenshot(path=path, full_page=True)
                Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
                browser.close()
        server.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
