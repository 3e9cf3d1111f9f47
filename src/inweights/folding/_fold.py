"""`Fold`: low-rank updates of a model's matrices that replace a prompt, as a value and as files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inweights._draw import Shown
from inweights._errors import InputError, Problems
from inweights.folding._card import FILE, Card
from inweights.folding._page import page
from inweights.folding._show import card_rows, draw_norms
from inweights.folding._template import without_system_turn
from inweights.models import Factors, Model, as_model, is_transposed, to_float64, write_gguf, write_merged, write_peft
from inweights.theory import Changes, Update, wide


def matrices(model: Model) -> dict[str, tuple[int, int]]:
    """`{module: (out, in)}` of every layer that a LoRA adapter can change, whichever way it stores its matrix."""
    from transformers.pytorch_utils import Conv1D

    results = {}
    for name, module in model.model.named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            rows, columns = module.weight.shape
            results[name] = (columns, rows) if is_transposed(model, name) else (rows, columns)
    return results


def of_another_model(wrong: int, total: int, model: Model) -> str:
    """One sentence for all matrices that do not fit: those of another model may be hundreds."""
    return (
        f"The updates are those of another model than {model.name!r}: {wrong} of their {total} matrices do not fit it. "
        "Name the model that they were made for."
    )


@dataclass(frozen=True, eq=False)
class Fold(Shown):
    """One update for each of some matrices of a model, with their description.

    **Arguments:**

    - `updates`: `{parameter: ΔW}`, each of the mathematical shape `(out, in)` with factors `u (out, r)` and
      `v (in, r)`, also where the layer stores its matrix transposed, as GPT-2's do.
    - `card`: their origin and fidelity.
    - `model`: the model that they were made or read for; methods that need a model use it unless given another.

    A fold is a value: strengths, sums and controls are new folds, and the model itself stays unchanged.
    """

    updates: dict[str, Update]
    card: Card
    model: Model | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.updates:
            raise InputError("A fold needs the update of at least one matrix.")
        problems = Problems()
        for name, update in self.updates.items():
            problems.unless(name.endswith(".weight"), f"{name!r} is not the matrix of a layer.")
            problems.unless(not update.batch, f"The update of {name!r} is a batch {update.batch}, not one matrix.")
        problems.stop()
        object.__setattr__(self, "updates", {name: update.named(name) for name, update in self.updates.items()})

    def __repr__(self) -> str:
        what = self.card.method or "adapter"
        return f"Fold({what}, rank {self.rank}, {len(self.updates)} matrices, {self.nbytes} bytes)"

    # --- properties ---------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The largest number of factor columns of any matrix."""
        return max(update.columns for update in self.updates.values())

    @property
    def nbytes(self) -> int:
        """Bytes that the factors occupy."""
        return sum(update.nbytes for update in self.updates.values())

    def norms(self, model: Model | nn.Module) -> dict[str, float]:
        """`‖ΔW‖_F / ‖W‖_F` of each parameter."""
        model = self.require_fit(model)
        results = {}
        for name, update in self.updates.items():
            size = torch.linalg.vector_norm(to_float64(model.model.get_parameter(name).detach()))
            results[name] = float(update.frobenius()) / float(size)
        return results

    def _draw(self, axes: Any) -> None:
        sizes = {name: float(update.frobenius()) for name, update in self.updates.items()}
        draw_norms(axes, sizes if self.model is None else self.norms(self.model), relative=self.model is not None)

    def _rows(self) -> list[tuple[str, str]]:
        size = ("matrices, size", f"{len(self.updates)}, {self.nbytes / 2**20:.1f} MiB")
        return [*card_rows(replace(self.card, rank=self.rank)), size]

    # --- what it does -------------------------------------------------------------------------------

    @contextmanager
    def applied(self, model: Model | nn.Module) -> Iterator[nn.Module]:
        """`with fold.applied(model) as net: net(...)` runs the model's own forward with `W + ΔW`.

        Parameters are exchanged, not edited: on leaving, the model holds the very same tensors as before.
        """
        with self.changes(model).applied(model.model if isinstance(model, Model) else model) as net:
            yield net

    def changes(self, model: Model | nn.Module) -> Changes:
        """The updates as `model` stores its matrices, on its devices."""
        model = self.require_fit(model)
        results = []
        for name, update in self.updates.items():
            stored = update.mT if is_transposed(model, name.removesuffix(".weight")) else update
            results.append(stored.to(model.model.get_parameter(name).device))
        return Changes(tuple(results))

    def require_fit(self, model: Model | nn.Module) -> Model:
        """The model as a `Model`; refuses one that these updates were not made for, in one sentence."""
        model = self._of(model)
        base = self.card.base_fingerprint
        if base and not model.is_base(base):
            raise InputError(f"This fold was made for other weights, or another dtype, than those of {model.name!r}.")
        wrong = []
        known = matrices(model)
        for name, update in self.updates.items():
            size = known.get(name.removesuffix(".weight"))
            if size is None:
                wrong.append(f"The model has no dense layer with the matrix {name!r}.")
            elif update.shape != size:
                wrong.append(f"The update of {name!r} has shape {update.shape}, but the matrix is {size}.")
        if wrong:
            raise InputError(wrong[0] if len(wrong) == 1 else of_another_model(len(wrong), len(self.updates), model))
        return model

    # --- algebra ------------------------------------------------------------------------------------

    def __mul__(self, strength: float) -> Fold:
        """The fold at another strength, which is noted in the card."""
        if not math.isfinite(strength):
            raise InputError(f"`strength` is {strength}, but must be a number.")
        if strength == 1:
            return self
        scaled = {name: update * float(strength) for name, update in self.updates.items()}
        # The measurements are those of the strength before.
        card = replace(self.card, strength=self.card.strength * float(strength), fidelity=None)
        return replace(self, updates=scaled, card=card)

    __rmul__ = __mul__

    def random_like(self, seed: int = 0) -> Fold:
        """Random updates of the same matrices, columns and norms: the negative control."""
        drawn = {update.name: update for update in Changes(tuple(self.updates.values())).random_like(seed).updates}
        text = replace(self.card, method=f"random, norms of: {self.card.method}", seed=seed, fidelity=None)
        return replace(self, updates=drawn, card=text)

    def combined(self, other: Fold, rank: int | None = None) -> tuple[Fold, float]:
        """The sum of two folds of one model, each matrix cut back to `rank`, and the relative error of the cut.

        `rank` defaults to the larger of the two ranks. The error is `‖sum − cut‖_F / ‖sum‖_F` over all matrices.
        """
        rank = max(self.rank, other.rank) if rank is None else rank
        if rank < 1:
            raise InputError(f"`rank` is {rank}, but must be at least 1.")
        bases = {b for b in (self.card.base_fingerprint, other.card.base_fingerprint) if b}
        if len(bases) > 1:
            raise InputError("These two folds were made for different weights: their updates do not add up.")
        results: dict[str, Update] = {}
        lost = total = 0.0
        for name in {**self.updates, **other.updates}:
            both = [fold.updates[name] for fold in (self, other) if name in fold.updates]
            # In float64: at full rank the cut must give the sum itself, to the precision of its factors.
            place = both[0].u.device
            wide = [update.remade(*map(to_float64, update.to(place).factors)) for update in both]
            cut, kept, dropped = _cut(wide[0] if len(wide) == 1 else wide[0] + wide[1], rank)
            results[name] = cut.to(torch.promote_types(both[0].u.dtype, both[-1].u.dtype)).to(place)
            lost, total = lost + dropped, total + kept + dropped
        summed = replace(self, updates=results, card=self.card.beside(other.card, rank))
        return summed, math.sqrt(lost / total) if total else 0.0

    def trimmed(self, energy: float) -> Fold:
        """Each update cut to the lowest rank that keeps this share of its squared norm."""
        if not 0 < energy <= 1:
            raise InputError(f"`energy` is {energy}, but must be above 0 and at most 1.")
        results = {}
        for name, update in self.updates.items():
            s = to_float64(update.singular_values()).square()
            rank = 1 + int((s.cumsum(-1) < energy * s.sum() * (1 - 1e-12)).sum())
            results[name] = _cut(update, min(rank, len(s)))[0]
        largest = max(u.columns for u in results.values())
        return replace(self, updates=results, card=replace(self.card, rank=largest, fidelity=None))

    # --- files --------------------------------------------------------------------------------------

    def _of(self, model: Model | nn.Module | None) -> Model:
        """The model to work with: the given one, or else the fold's own."""
        given = self.model if model is None else model
        if given is None:
            raise InputError("This fold was made without a model: pass the `model` that it is for.")
        own = self.model is not None and given is self.model.model  # whose fingerprint is known already
        return self.model if own and self.model is not None else as_model(given)

    def factors(self, model: Model | nn.Module) -> Factors:
        """`{module: (A, B)}` with `ΔW = B A`: shapes `(r, in)` and `(out, r)`, as adapters hold them."""
        self.require_fit(model)
        return {name.removesuffix(".weight"): (update.v.mT, update.u) for name, update in self.updates.items()}

    def save_pretrained(self, folder: str | Path, model: Model | nn.Module | None = None) -> Path:
        """A PEFT adapter folder with the card, as inweights.json and README.md; written completely or not at all."""
        model = self._of(model)
        card = replace(self.card, rank=self.rank)

        def beside(half: Path) -> None:
            (half / FILE).write_text(card.to_json(), encoding="utf-8")
            (half / "README.md").write_text(page(card), encoding="utf-8")

        return write_peft(self.factors(model), model, Path(folder), beside)

    def to_gguf(self, path: str | Path, model: Model | nn.Module | None = None) -> Path:
        """A LoRA adapter for llama.cpp, for the GGUF of the same base model."""
        model = self._of(model)
        return write_gguf(self.factors(model), model, Path(path))

    def to_merged(self, folder: str | Path, model: Model | nn.Module | None = None) -> Path:
        """A checkpoint with the updates in its weights, and the tokenizer beside it.

        The chat template of a folded system turn then has no system turn of its own."""
        model = self.require_fit(self._of(model))
        owners: dict[int, list[str]] = {}
        for name, p in model.model.named_parameters(remove_duplicate=False):
            owners.setdefault(id(p), []).append(name)
        # An adapter changes one use of such a tensor, a checkpoint would change both, or neither.
        shared = [names for names in owners.values() if len(names) > 1 and not self.updates.keys().isdisjoint(names)]
        if shared:
            raise InputError(f"This fold cannot be merged: {' and '.join(map(repr, shared[0]))} are one tensor.")
        chats = self.card.chat and model.tokenizer is not None
        sent = as_model(model, without_system_turn(model.tokenizer)) if chats else model
        return write_merged(self.applied(model), sent, Path(folder))


def _cut(update: Update, rank: int) -> tuple[Update, float, float]:
    """The best update of so many columns, and the squared norms of what was kept and of what was not.

    With `u = Q_u R_u` and `v = Q_v R_v`, the small matrix `R_u R_vᵀ` has the singular values of `u vᵀ`.
    """
    (Qu, Ru), (Qv, Rv) = torch.linalg.qr(wide(update.u)), torch.linalg.qr(wide(update.v))
    P, s, Qt = torch.linalg.svd(Ru @ Rv.mT, full_matrices=False)
    root = s[:rank].sqrt()
    cut = update.remade(Qu @ P[:, :rank] * root, Qv @ Qt.mT[:, :rank] * root)
    return cut, float(s[:rank].square().sum()), float(s[rank:].square().sum())
