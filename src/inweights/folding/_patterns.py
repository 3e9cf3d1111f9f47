"""PEFT's patterns: regular expressions that give some layers another rank or alpha; foreign ones are bounded."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

from inweights._errors import Problems, shown

MAX_LENGTH = 200
"""Characters of a pattern: PEFT writes names of modules."""
MAX_REPEATS, MAX_REPEATING = 2, 16
"""Signs `*` and `+` in a pattern, and patterns with any: matching takes time with the power of the one, times the
other."""
MAX_MATCHES = 10**6
"""Patterns times layers: a second of matching."""


def check_patterns(config: dict[str, Any], key: str, matrices: int, where: str, problems: Problems) -> None:
    """Notes what is wrong with the patterns under `key`, for a model with so many matrices."""
    patterns = config.get(key) or {}
    if not problems.unless(isinstance(patterns, dict), f"{where} has a {key} that is no object."):
        return
    if not problems.unless(
        len(patterns) <= matrices,
        f"{where} has {len(patterns)} patterns in {key}, but the model has only {matrices} matrices.",
    ):
        return
    for pattern in patterns:
        problems.unless(is_plain(pattern), f"{where} has a {key} with {shown(pattern)}, which is not a plain pattern.")
        check_positive(patterns, pattern, where, problems)
    repeating = sum(bool(_repeats(pattern)) for pattern in patterns)
    problems.unless(
        repeating <= MAX_REPEATING,
        f"{where} has {repeating} patterns with * or + in {key}, above {MAX_REPEATING}: name the modules instead.",
    )


def check_positive(values: dict[str, Any], key: str, where: str, problems: Problems) -> None:
    """Notes if a value is not a number above 0."""
    value = values.get(key)
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    problems.unless(fits, f"{where} has {shown(value)} for {shown(key)}, but that must be a number above 0.")


def is_plain(pattern: str) -> bool:
    """Whether a pattern is valid and fast to match: no groups, few repeats."""
    if len(pattern) > MAX_LENGTH or re.search(r"[^\w.^$\\*+|\[\]-]", pattern) or _repeats(pattern) > MAX_REPEATS:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a later Python may read it in another way
            re.compile(pattern)
    except (re.error, Warning):
        return False
    return True


def _repeats(pattern: str) -> int:
    return sum(map(pattern.count, "*+"))


class Values:
    """The value for each module: that of the first pattern that matches as PEFT matches, or the default."""

    def __init__(self, config: dict[str, Any], patterns: str, default: str) -> None:
        given = (config.get(patterns) or {}).items()
        self._patterns = [(re.compile(rf"(.*\.)?({pattern})$"), float(value)) for pattern, value in given]
        self._default = float(config[default])

    def __len__(self) -> int:
        return len(self._patterns)

    def of(self, module: str) -> float:
        return next((value for pattern, value in self._patterns if pattern.match(module)), self._default)
