"""`ImplicitUpdates`: logs, while a model trains, the norms of the updates that a context makes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from inweights.models._load import Model
from inweights.models._patch import patch
from inweights.models._prompt import Prompt, Text

if TYPE_CHECKING:
    from transformers import TrainerCallback
else:
    from transformers.trainer_callback import TrainerCallback


class ImplicitUpdates(TrainerCallback):
    """A callback of transformers' Trainer: `Trainer(..., callbacks=[ImplicitUpdates(context, query, tokenizer)])`.

    Whenever the Trainer logs, the norm of the update that the context makes in each block for the last query token is
    logged beside the loss, as `implicit_update/<block>`, with their mean as `implicit_update/mean`; on the console and
    in the Trainer's `log_history`. (Reporters such as TensorBoard's have their turn before callbacks of users.)
    `history` keeps `(step, norms)`.
    """

    def __init__(self, context: Text, query: Text, tokenizer: Any = None) -> None:
        self.context, self.query, self.tokenizer = context, query, tokenizer
        self.history: list[tuple[int, dict[str, float]]] = []

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, model: nn.Module | None = None, **_: Any
    ) -> None:
        if model is None or not state.is_world_process_zero:
            return
        norms = self.measure(getattr(model, "module", model))
        self.history.append((state.global_step, norms))
        record = {f"implicit_update/{name}": norm for name, norm in norms.items()}
        record["implicit_update/mean"] = sum(norms.values()) / len(norms)
        for place in (logs, state.log_history[-1] if state.log_history else None):
            if place is not None:
                place.update(record)

    @torch.no_grad()
    def measure(self, net: nn.Module) -> dict[str, float]:
        """The norm of all changes of a block, input and output controls, by the name of the block. The model itself is
        unchanged afterwards."""
        modes = {module: module.training for module in net.modules()}
        net.eval()
        try:
            result = patch(Prompt(Model(net, self.tokenizer), self.context, self.query))
            return {each["block"]: math.hypot(each["read_norm"], each["added_norm"]) for each in result.report()}
        finally:
            for module, mode in modes.items():
                module.training = mode
