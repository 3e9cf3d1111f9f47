"""Settings as people type them: `key=value`, with values as in TOML, or bare words."""

from __future__ import annotations

import re
import tomllib
from typing import Any

# Between values, but not inside a list: betas=[0.9,0.99],[0.9,0.999] are two.
COMMA = re.compile(r",(?![^\[]*\])")


def value(text: str) -> Any:
    """A number, a list, true, false, or else the words themselves."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text.strip()
