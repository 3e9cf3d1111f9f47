"""Parts of a comparison on disk: each is measured once, written atomically, and read when a run is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from inweights._fetch import cache
from inweights._files import folder_for, write_atomic
from inweights.compare._plan import Plan
from inweights.models import Model

CODE = (
    "_shots", "_predict", "_measures", "_descent", "_epoch", "_ways", "_controls", "_ours", "_stages", "_many",
    "_further", "_similar", "_alignment", "_martingale", "_sparsity",
)  # fmt: skip
"""The files of this subpackage that numbers depend on."""


class Parts:
    """Measurements by name in a folder that belongs to one model, one task with its demonstrations and queries, and one
    version of the code; by default in the user's cache."""

    def __init__(self, model: Model, plan: Plan, home: Path | None = None) -> None:
        shared = {k: v for k, v in asdict(plan).items() if k in ("task", "demonstrations", "queries", "orders", "seed")}
        shared |= {"model": model.fingerprint, "dtype": str(model.dtype), "code": _code()}
        key = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12]
        home = cache() / "compare" if home is None else home
        self.folder = folder_for("The folder of measurements", home / f"{plan.task}-{key}")

    def numbers(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A part of plain numbers and lists."""
        path = self.folder / f"{name}.json"
        with suppress(OSError, ValueError):  # absent, or damaged
            return dict(json.loads(path.read_text()))
        result = measure()
        write_atomic(path, json.dumps(result))
        return result

    def tensors(self, name: str, measure: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """A part of tensors."""
        path = self.folder / f"{name}.safetensors"
        with suppress(OSError, SafetensorError):
            return load(path.read_bytes())
        result = {key: value.contiguous() for key, value in measure().items()}
        write_atomic(path, save(result))
        return result

    def has(self, name: str) -> bool:
        """Whether a part was measured before."""
        return any((self.folder / f"{name}{end}").is_file() for end in (".json", ".safetensors"))


def _code() -> str:
    digest = hashlib.sha256()
    for name in CODE:
        digest.update((Path(str(files("inweights.compare"))) / f"{name}.py").read_bytes())
    return digest.hexdigest()[:12]
