"""Cache of weights that several claims train in common; their trials may run in different processes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress

from safetensors.torch import load, save
from torch import Tensor

from inweights._fetch import cache as cache_folder
from inweights._files import write_atomic
from inweights.ledger._code import made_by

DIGEST = hashlib.sha256().digest_size


def kept(name: str, train: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors that `train` returns, computed once for its code and read from the cache afterwards.

    `name` must contain all settings of the training. A damaged file counts as missing. Two processes that start at the
    same moment both train, with the same result.
    """
    path = cache_folder() / "claims" / "trained" / f"{name}-{made_by(train)}"
    with suppress(OSError):
        content = path.read_bytes()
        if hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]:
            return load(content[DIGEST:])
    results = dict(train())
    content = save(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, hashlib.sha256(content).digest() + content)
    return results


def stored(name: str, train: Callable[[], Mapping[str, Tensor]]) -> bool:
    """Whether `kept` would read these tensors and not train, for trainings that take hours."""
    return (cache_folder() / "claims" / "trained" / f"{name}-{made_by(train)}").is_file()
