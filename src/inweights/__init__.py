"""inweights: context becomes weights.

A prompt changes what a transformer computes exactly as a low-rank update of its weights would. This package
computes that update, proves it and shows it. Names are loaded when first used: importing `inweights` loads
neither torch nor transformers. `__init__.pyi` declares the same names for type checkers.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "theory": (
        "Changes", "GradientPath", "ProductPath", "Shift", "Solution", "Update", "family", "gradient_path",
        "implicit_update", "least_squares", "product_path", "rank_one", "static_update",
    ),
    "blocks": ("ContextualBlock", "ContextualLayer", "absorb", "make_block", "make_layer", "trajectory", "without"),
    "models": (
        "Anatomy", "Generated", "Model", "Patch", "Prompt", "Proof", "Trace", "anatomy", "generate", "load", "patch",
        "trace", "verify",
    ),
    "folding": ("Fold", "evaluate", "fold", "load_fold"),
    "papers": ("claims",),
    "_errors": ("InputError",),
}  # fmt: skip
_SUBPACKAGES = (
    "bench",
    "blocks",
    "compare",
    "data",
    "folding",
    "lab",
    "ledger",
    "models",
    "papers",
    "report",
    "running",
    "theory",
)
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = ["__version__", *sorted(_WHERE), *_SUBPACKAGES]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"inweights.{_WHERE[name]}"), name)
    if name in _SUBPACKAGES:
        return import_module(f"inweights.{name}")
    raise AttributeError(f"module 'inweights' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
