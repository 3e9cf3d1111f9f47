"""Generates `docs/help.md`: all commands with their options.

`python -m inweights.cli._help` prints the page; a test compares it with the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main


def help_page() -> str:
    """The page as Markdown."""
    from inweights.cli import app

    lines = ["# Commands", "", "Generated from the commands by `make help-page`; do not edit by hand.", ""]
    root = typer.main.get_command(app)
    for path, command in _commands("inweights", root):
        lines += [f"## {path}", "", " ".join((command.help or "").split()), ""]
        rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
        if rows:
            lines += ["| | | default |", "|---|---|---|", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, each in inner.items():
        yield from _commands(f"{path} {name}", each)


def _row(parameter: Any) -> str:
    """The table row of an option or argument: its names, its help text, its default."""
    if not parameter.opts[0].startswith("-"):
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        both = [*parameter.opts, *parameter.secondary_opts]
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
        names = ", ".join(f"`{name}{value}`" for name in both)
    default = parameter.default
    plain = isinstance(default, int | float | str | Path) and default is not False and default != ""
    shown = "required" if parameter.required else f"`{default}`" if plain else ""
    text = " ".join((getattr(parameter, "help", None) or "").split())
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (names, text, shown)) + " |"


if __name__ == "__main__":
    sys.stdout.write(help_page())
