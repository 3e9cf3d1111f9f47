"""Gradient descent on demonstrations: a model with weights of its own making, while the model itself stays as it is.

Parameters are handed to the model's forward as values (`functional_call`), so that nothing has to be restored: an
exception at any moment, Ctrl-C included, leaves every tensor of the model bit for bit as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from inweights.compare._epoch import once
from inweights.compare._predict import Forward, padded
from inweights.compare._shots import Shots
from inweights.compare._ways import Way, moved_names
from inweights.folding import Lora
from inweights.models import Model
from inweights.running import (
    at_head,
    full_precision,
    hidden,
    hooked,
    no_cudnn_attention,
    pick,
    stream,
    with_hidden,
    with_stream,
)

RANK = 8


@dataclass(frozen=True, eq=False)
class Lesson:
    """Some demonstrations as a batch: tokens `(n, T)`, and the rows whose next token is part of an answer, `(n, R)`,
    with that token and whether it counts.

    Texts are padded on the right, where a causal model does not look, so that forwards get no mask: transformers would
    read its values, for which a GPU has to be waited for in every step.
    """

    ids: Tensor
    rows: Tensor
    wanted: Tensor
    counts: Tensor

    @classmethod
    def of(cls, shown: Shots, chosen: Sequence[int], device: torch.device) -> Lesson:
        texts = [(*shown.before, *shown.asked[i], *shown.answered[i]) for i in chosen]
        ids, lengths = padded(texts, device)
        sizes = torch.tensor([len(shown.answered[i]) for i in chosen], device=device)
        back = torch.arange(int(sizes.max()), device=device)
        at = (lengths - sizes).unsqueeze(-1) + back  # where the answer's tokens stand
        counts = back < sizes.unsqueeze(-1)
        at = torch.where(counts, at, 1)
        return cls(ids, at - 1, ids.gather(1, at), counts)

    def loss(self, net: nn.Module, forward: Forward) -> Tensor:
        """The mean cross-entropy of the answers' tokens."""
        with at_head(net, lambda h: pick(h, self.rows)):
            logits = forward(input_ids=self.ids, use_cache=False).logits
        return self._mean(logits)

    def causal_loss(self, net: nn.Module, names: Sequence[str], forward: Forward) -> Tensor:
        """The sum over blocks of the loss of each block's output, read by the model's own norm and head, where no
        gradient passes from a block to those before it."""
        outputs: list[Tensor] = []

        def cut(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            x = stream(args, kwargs)
            return None if x is None else with_stream(args, kwargs, x.detach())

        def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
            outputs.append(pick(hidden(out), self.rows))
            # What follows the last block reads the rows of all blocks, one after the other.
            return with_hidden(out, torch.cat(outputs, 1)) if len(outputs) == len(names) else None

        blocks = [net.get_submodule(name) for name in names]
        with hooked(before=[(b, cut) for b in blocks], after=[(b, note) for b in blocks]):
            logits = forward(input_ids=self.ids, use_cache=False).logits
        return torch.stack([self._mean(part) for part in logits.chunk(len(names), 1)]).sum()

    def _mean(self, logits: Tensor) -> Tensor:
        each = F.cross_entropy(logits.flatten(0, 1), self.wanted.flatten(), reduction="none").view_as(self.wanted)
        return (each * self.counts).sum() / self.counts.sum()


class Descent:
    """Weights during gradient descent.

    - `moved`: the parameters that move, by name; copies, which belong to this object alone. Nothing here refers back to
      the object, so that gigabytes are freed with it and do not wait for the collector of garbage.
    """

    def __init__(self, model: Model, way: Way, rate: float, seed: int = 0) -> None:
        self.model, self.way, net = model, way, model.model
        self.lora = Lora(model, RANK, seed) if way.moved == "lora" else None
        names = moved_names(model, way.moved)
        self.moved = {name: net.get_parameter(name).detach().clone().requires_grad_() for name in names}
        # On a GPU, Adam counts its steps there: a step is then the same kernels each time.
        adam = partial(torch.optim.Adam, capturable=model.device.type == "cuda")
        kind = torch.optim.SGD if way.optimiser == "sgd" else adam
        self.leaves = self.lora.parameters if self.lora else list(self.moved.values())
        self.optimiser = kind(self.leaves, lr=rate)
        vars(self.optimiser)["_warned_capturable_if_run_uncaptured"] = True  # its first steps are not captured
        # Of the other parameters views without a gradient: the graph then ends where it should.
        self.others = {name: p.detach() for name, p in net.named_parameters() if name not in self.moved}

    def forward(self, **inputs: Any) -> Any:
        """The model's forward with the weights as they are now."""
        if self.lora:
            return self.lora.beside(**inputs)
        return functional_call(self.model.model, self.others | self.moved, kwargs=inputs)

    def changes(self) -> dict[str, Tensor]:
        """How far each parameter has moved."""
        return {name: p.detach() - self.model.model.get_parameter(name).detach() for name, p in self.moved.items()}

    @no_cudnn_attention()
    def step(self, lesson: Lesson) -> Tensor:
        """One step; returns the loss before it, a number that a GPU may still be computing."""
        net, names = self.model.model, self.model.anatomy.names
        with torch.enable_grad(), full_precision(net):
            causal = self.way.causal
            loss = lesson.causal_loss(net, names, self.forward) if causal else lesson.loss(net, self.forward)
            grads = torch.autograd.grad(loss, self.leaves, allow_unused=True)
        for leaf, grad in zip(self.leaves, grads, strict=True):
            leaf.grad = grad
        del grads
        self.optimiser.step()
        self.optimiser.zero_grad()  # as large as the model
        return loss.detach()


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A moment of a descent: after so many epochs, with the mean loss of the last one."""

    epoch: int
    loss: float
    descent: Descent


def descend(
    model: Model,
    shown: Shots,
    way: Way,
    rate: float,
    *,
    epochs: int,
    every: int,
    order: Sequence[int] | None = None,
    seed: int = 0,
    after: Callable[[int], None] = lambda _: None,
) -> Iterator[Checkpoint]:
    """Gradient descent on the demonstrations in an order; yields at each checkpoint, where weights can be evaluated.

    The batches are the same in all epochs: the order is what is being tested.
    """
    order = list(range(len(shown))) if order is None else list(order)
    size = way.batch or len(order)
    lessons = [Lesson.of(shown, order[i : i + size], model.device) for i in range(0, len(order), size)]
    descent = Descent(model, way, rate, seed)
    one = once(descent, lessons, epochs)
    for epoch in range(1, epochs + 1):
        losses = one(epoch)
        after(epoch)
        if epoch % every == 0 or epoch == epochs:
            yield Checkpoint(epoch, float(losses.mean()), descent)
