"""`Model`: a causal language model with its tokenizer and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inweights._errors import InputError
from inweights.models._anatomy import Anatomy, anatomy
from inweights.models._fingerprint import agrees, fingerprint, read_weights


@dataclass(frozen=True, eq=False)
class Model:
    """A causal language model with its tokenizer.

    - `model`: the transformers model itself, never changed by this package.
    - `tokenizer`: its tokenizer; `None` if prompts are given as token ids.
    - `name`: what it was loaded from; `path`: the folder of its weights, if there is one.
    - `revision`: the commit of the hub repository it was loaded from, if it was.
    - `weights`: the hash of all its values, where it is already known.
    """

    model: nn.Module
    tokenizer: Any = None
    name: str = ""
    path: str = ""
    revision: str = ""
    weights: str = field(default="", repr=False)

    @property
    def source(self) -> str:
        """The name of the base model in adapters: a hub id, or else the folder; empty for a model in memory only.

        A hub id means the same on every machine, a path of the cache does not."""
        known = "" if self.name == type(self.model).__name__ else self.name
        return known if self.revision else self.path or known

    @cached_property
    def anatomy(self) -> Anatomy:
        """Which blocks can be patched, and how."""
        return anatomy(self.model)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all values, the configuration and the tokenizer, the same in float32 and float64."""
        weights = self.weights or read_weights(self.model).digest
        return fingerprint(weights, getattr(self.model, "config", None), self.tokenizer)

    def is_base(self, stored: str) -> bool:
        """Whether a patch or an adapter with this stored fingerprint was made for this model."""
        return agrees(stored, self.model, self.fingerprint)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def window(self) -> int:
        """How many tokens the model can read."""
        config: Any = self.model.config
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        limit = int(getattr(text, "max_position_embeddings", 0) or 0)
        return limit if limit > 0 else 1 << 30


def as_model(model: Model | nn.Module, tokenizer: Any = None) -> Model:
    """A `Model`, also from a transformers model that the caller already has; with this tokenizer, if one is given."""
    if isinstance(model, Model):
        return model if tokenizer is None or tokenizer is model.tokenizer else _with_tokenizer(model, tokenizer)
    if not hasattr(model, "get_output_embeddings"):
        load = "load it with `iw.load`, or pass" if isinstance(model, str) else "pass"
        raise InputError(f"`model` is a {type(model).__name__}: {load} a transformers causal language model.")
    if model.training:
        raise InputError("`model` is in training mode, where dropout spoils any proof: call `model.eval()` first.")
    config: Any = getattr(model, "config", None)
    source = str(getattr(model, "name_or_path", "") or "")
    return Model(
        model,
        tokenizer,
        source or type(model).__name__,
        source if source and Path(source).is_dir() else "",
        str(getattr(config, "_commit_hash", None) or ""),
    )


def _with_tokenizer(model: Model, tokenizer: Any) -> Model:
    new = replace(model, tokenizer=tokenizer)
    if "anatomy" in model.__dict__:  # it does not depend on the tokenizer
        new.__dict__["anatomy"] = model.anatomy
    return new
