"""JSON of results. Non-finite numbers, which JSON lacks, are written as the strings "nan", "inf" and "-inf"."""

from __future__ import annotations

import json
import math
from typing import Any

from inweights._read import parse_json

ODD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def dumps(value: Any) -> str:
    """One line of standard JSON."""
    return json.dumps(_written(value), allow_nan=False)


def loads(text: bytes | str) -> dict[str, Any]:
    """Parses what `dumps` wrote. A string value that is one of the three words becomes a number: no claim has such a
    name or reason. Keys are unchanged. Anything but an object is an error."""
    return {k: _read(v) for k, v in parse_json(text, "The result of a claim").items()}


def _written(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, dict):
        return {k: _written(v) for k, v in value.items()}
    return [_written(v) for v in value] if isinstance(value, list | tuple) else value


def _read(value: Any) -> Any:
    if isinstance(value, str):
        return ODD.get(value, value)
    if isinstance(value, dict):
        return {k: _read(v) for k, v in value.items()}
    return [_read(v) for v in value] if isinstance(value, list) else value
