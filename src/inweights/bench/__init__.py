"""What is measured against whom: one file for each benchmark."""

from __future__ import annotations

import difflib
import importlib

from inweights._errors import InputError

BENCHES = {
    "prefix": "all prefixes of a context in one pass, against one forward for each",
    "update": "updates kept as factors, against dense matrices: time and memory",
}


def load(name: str):  # type: ignore[no-untyped-def]  # the module is imported only when its turn comes
    """The `run` function of a benchmark."""
    if name not in BENCHES:
        near = difflib.get_close_matches(name, BENCHES, n=3, cutoff=0.4) or list(BENCHES)
        raise InputError(f"There is no benchmark {name!r}; did you mean {', '.join(near)}?")
    return importlib.import_module(f"inweights.bench.{name}").run
