"""Parsing of settings on the command line: `key=value`, with values as in TOML, or bare words."""

from __future__ import annotations

import re
from typing import Any

from inweights._errors import InputError
from inweights._read import parse_toml

# Between values, but not inside a list: betas=[0.9,0.99],[0.9,0.999] are two.
COMMA = re.compile(r",(?![^\[]*\])")


def value(text: str) -> Any:
    """A number, a list, true, false, or else the text itself."""
    try:
        return parse_toml(f"v = {text}", "A setting", finite=False)["v"]
    except InputError:
        return text.strip()
