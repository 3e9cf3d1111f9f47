"""docs/help.md is generated from the commands."""

from __future__ import annotations

from pathlib import Path

from inweights.cli import app
from inweights.cli._help import help_page

PAGE = Path(__file__).parents[2] / "docs" / "help.md"


def test_the_page_of_commands_is_up_to_date() -> None:
    assert PAGE.read_text() == help_page(), "run `make help-page`"


def test_the_page_has_every_command() -> None:
    text = help_page()
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        assert f"## inweights {name}\n" in text
    for name in ("lab train", "claims run", "data list"):
        assert f"## inweights {name}\n" in text
    assert "`--json`" in text
    assert "required" in text
