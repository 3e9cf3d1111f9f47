"""`Model`: a causal language model with its tokenizer and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
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
    """A `Model`, also from a transformers model that the caller already has."""
    if isinstance(model, Model):
        return model
    if not hasattr(model, "get_output_embeddings"):
        raise InputError(f"`model` is a {type(model).__name__}: pass a transformers causal language model.")
    if model.training:
        raise InputError("`model` is in training mode, where dropout spoils any proof: call `model.eval()` first.")
    return Model(model, tokenizer, type(model).__name__)
