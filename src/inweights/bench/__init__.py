"""Benchmarks against other implementations, one file each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from inweights._errors import unknown

BENCHES = {
    "prefix": "all prefixes of a context in one pass, against one forward for each",
    "update": "updates kept as factors, against dense matrices: time and memory",
    "trace": "the trajectory on SmolLM2 in packed pieces, against a run for each prefix",
    "fold": "one adapter for all queries, against 400 steps of context distillation: time and what is recovered",
    "knowledge": "questions about a folded document, against the document in the prompt and distillation in equal time",
    "compare": "in-context learning in all orders of demonstrations at once, against one forward for each query",
    "train": "steps of training a decoder at equal arithmetic, against the loop in common use",
    "predictors": "classical predictors on all prefixes at once, against the loops of public code",
    "generate": "patched generation on SmolLM2, against recomputing and against plain generation",
    "app": "the web page with 50 clients at once: errors, unfinished jobs, growth of memory",
}


def load(name: str) -> Callable[..., Any]:
    """The `run` function of a benchmark, which returns a `Result`. Its module is imported only now."""
    if name not in BENCHES:
        raise unknown("benchmark", name, BENCHES)
    return importlib.import_module(f"inweights.bench.{name}").run
