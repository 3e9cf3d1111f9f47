"""The option `--load` of the lab's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Load = Annotated[
    list[Path] | None,
    typer.Option(
        help="Run this Python file first, to register your own tasks, shifts, models or predictors; repeatable.",
        metavar="FILE.py",
    ),
]
