"""Names that come from outside, resolved under one folder or not at all."""

from __future__ import annotations

import re
from pathlib import Path

from inweights.app._limits import NAME


def under(root: Path, name: str) -> Path | None:
    """The file `name` directly in `root`, if the name is a plain one and the file is there; links do not lead out."""
    if not re.fullmatch(NAME, name) or name.startswith("."):
        return None
    path = (root / name).resolve()
    return path if path.is_relative_to(root.resolve()) and path.is_file() else None
