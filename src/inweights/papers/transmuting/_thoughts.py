"""Patches of a language model by thought matrices and vectors, and their share of correct answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from inweights.folding import Batch, Card, Examples, Fold, Frame, Part, Rule, is_right, parts_of, solve_blocks
from inweights.models import Model
from inweights.papers.transmuting._words import Task
from inweights.running import full_precision, sample
from inweights.theory import Update, exchanged

RIDGE = 0.3
"""The default penalty of `inweights.folding`; without one, Z of a few tokens has no inverse."""


def _every_token(batch: Batch) -> Tensor:
    """Equal weights for all tokens except the first of a text, which attention uses as a sink."""
    each = batch.real.to(torch.float32)
    each[:, 0] = 0
    return each


# --- the last matrix fitted to each token: Appendix A ----------------------------------------------------------------


class Nothing:
    """A fit that leaves its matrix unchanged."""

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        self.made = Update(y.new_zeros(y.shape[-1], 1), x.new_zeros(x.shape[-1], 1))

    def update(self, W: Tensor | None = None) -> Update:
        return self.made


class Few:
    """`Ridge` for fewer tokens than the matrix is wide: the same `M`, in factors of as many columns as tokens.

    `Yᵀ X (XᵀX + λ)⁻¹ = Yᵀ (XXᵀ + λ)⁻¹ X`: the second inverse has the size of the number of tokens. All tokens have
    equal weight.
    """

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty
        self.x: list[Tensor] = []
        self.y: list[Tensor] = []

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        self.x.append(x[weight > 0])
        self.y.append(y[weight > 0])

    def update(self, W: Tensor | None = None) -> Update:
        X, Y = torch.cat(self.x), torch.cat(self.y)
        damped = X @ X.mT
        damped.diagonal().add_(self.penalty * X.square().sum() / X.shape[1])
        u = torch.linalg.solve(damped, Y).mT
        return Update(u if W is None else W @ u, X.mT)


def _ridge(name: str) -> Few:
    return Few(RIDGE)


RULES = {
    "both": Rule(_every_token, _ridge, _ridge),
    "vector": Rule(_every_token, _ridge, aim="stream"),
    "matrix": Rule(_every_token, lambda name: Nothing(), _ridge),
}
"""Models like SmolLM2 have no bias for a thought vector: the last matrix is fitted to add the missing output of each
token, of which the vector is the mean."""


def fitted(model: Model, examples: Examples, part: str = "both") -> Fold:
    """The patch that replaces the context of examples, with the last matrix fitted to each token."""
    return Fold(solve_blocks(model, examples, RULES[part]), Card(), model)


def randomised(fold: Fold, names: Collection[str], generator: torch.Generator) -> Fold:
    """The same patch with random updates of equal rank and norm in place of those of some matrices."""
    updates = {name: u.random_like(generator) if name in names else u for name, u in fold.updates.items()}
    return Fold(updates, Card(), fold.model)


# --- a vector and matrices: Equation 8 and Theorem 3.1 ---------------------------------------------------------------


@dataclass(frozen=True)
class Thoughts:
    """Thought matrices, as the changed matrices by name; thought vectors, by the name of the module that they are added
    to, as a bias is."""

    matrices: dict[str, Tensor] = field(default_factory=dict)
    vectors: dict[str, Tensor] = field(default_factory=dict)

    @contextmanager
    def applied(self, model: Model) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(exchanged(model.model, self.matrices))
            for name, vector in self.vectors.items():
                stack.callback(_biased(model.model.get_submodule(name), vector))
            yield


def _biased(module: nn.Module, vector: Tensor) -> Callable[[], None]:
    return module.register_forward_hook(lambda _, args, out: out + vector).remove


@contextmanager
def _at_entries(net: nn.Module, parts: Sequence[Part], see: Callable[[Part, Tensor, Tensor], None]) -> Iterator[None]:
    """While active, `see` is called for every block with the stream after attention and the input of the MLP."""

    def hook(part: Part) -> Callable[..., None]:
        def entered(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
            see(part, args[0], out)

        return entered

    with ExitStack() as stack:
        for part in parts:
            stack.callback(net.get_submodule(part.entry).register_forward_hook(hook(part)).remove)
        yield


def as_written(model: Model, examples: Examples, step: float = 1.0) -> Thoughts:
    """Algorithm 1: for each block, on the output of the patched blocks before it, the thought vector, which is the mean
    of δ, and the thought matrices `W M`, where `M` has the smallest norm among the minimisers of `Σ ‖M a − δ‖²` over
    the tokens; both multiplied by `step`.

    For the vector, δ is the difference of the stream after attention with and without the context; for the matrices,
    that of the MLP's input `a`, which is the stream after a norm."""
    net: Any = model.model
    parts = [part for part in parts_of(model) if not part.reason]
    frame, batch = examples.frame, examples.batch(list(range(len(examples))))
    ahead = len(frame.before)
    prefix = torch.tensor([[*frame.before, *frame.folded]], device=batch.ids.device).expand(len(examples), -1)
    counts = _every_token(batch)[:, ahead:] > 0
    full: dict[str, tuple[Tensor, Tensor]] = {}
    made = Thoughts()

    def note(part: Part, stream: Tensor, read: Tensor) -> None:
        full[part.name] = stream[:, prefix.shape[1] :][counts], read[:, prefix.shape[1] :][counts]

    with torch.no_grad(), full_precision(model.model), ExitStack() as changed:
        with _at_entries(net, parts, note):
            net.base_model(input_ids=torch.cat([prefix, batch.ids[:, ahead:]], 1), use_cache=False)  # no logits

        def think(part: Part, stream: Tensor, read: Tensor) -> None:
            assert part.last is not None
            wanted, wanted_read = full[part.name]
            a = read[:, ahead:][counts]
            M = step * torch.linalg.lstsq(a, wanted_read - a, driver="gelsd").solution.mT
            new = {}
            for c in part.inputs:
                W = net.get_parameter(c.name).detach()
                new[c.name] = W + (M.mT @ W if c.transposed else W @ M)
            module, vector = part.last.name.rpartition(".")[0], step * (wanted - stream[:, ahead:][counts]).mean(0)
            changed.enter_context(exchanged(net, new))
            changed.callback(_biased(net.get_submodule(module), vector))
            made.matrices.update(new)
            made.vectors[module] = vector

        with _at_entries(net, parts, think):
            net.base_model(input_ids=batch.ids, use_cache=False)
    return made


# --- evaluation ------------------------------------------------------------------------------------------


def right(frame: Frame, before: Sequence[int], asked: Sequence[tuple[str, str]]) -> list[bool]:
    """Which queries the model in its current state answers correctly after these tokens; greedy."""
    answers = sample(
        frame.model.model, before, [frame.asked(q) for q, _ in asked],
        new=6, temperature=0.0, seed=0, ends=frame.ended,
    )  # fmt: skip
    texts = [frame.model.tokenizer.decode(ids, skip_special_tokens=True) for ids in answers]
    return [is_right(text, answer) for text, (_, answer) in zip(texts, asked, strict=True)]


def share(frame: Frame, before: Sequence[int], task: Task) -> float:
    """The share of a task's tests that are answered correctly."""
    result = right(frame, before, task.tests)
    return sum(result) / len(result)


def recovered(columns: Mapping[str, float], name: str = "patched") -> float:
    """The share of the prompt's gain that a patch recovers without it."""
    return (columns[name] - columns["bare"]) / (columns["prompted"] - columns["bare"])
