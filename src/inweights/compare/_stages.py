"""The stages of a comparison, each a function from a model and its shots to plain numbers for each query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from inweights.compare._controls import untrained
from inweights.compare._descent import descend
from inweights.compare._measures import (
    COSINES,
    Top,
    accuracy,
    calibration_error,
    divergence,
    order_sensitivity,
    overlap_cosines,
    pairs_of,
    token_overlap,
)
from inweights.compare._predict import counted_on, in_context, zero_shot
from inweights.compare._shots import Shots
from inweights.compare._ways import Way, way
from inweights.models import Model
from inweights.running import no_cudnn_attention

After = Callable[[int], None]


def _nothing(_: int) -> None:
    pass


@dataclass(frozen=True, eq=False)
class InContext:
    """In-context learning with the demonstrations in several orders: log-probabilities `(orders, queries,
    vocabulary)`, and the most likely tokens."""

    logp: Tensor
    top: Top

    @classmethod
    def of(cls, logp: Tensor) -> InContext:
        return cls(logp, Top.of(logp))

    def against(self, logp: Tensor, first: int | None = None) -> dict[str, list[float]]:
        """Measures of other distributions `(queries, vocabulary)` against all orders, for each query: the mean over
        orders; against the `first` order alone for what was made from it."""
        chosen = range(len(self.logp)) if first is None else [first]
        count, top = len(logp), Top.of(logp)
        own = [Top(self.top.ids[i, :count], self.top.p[i, :count]) for i in chosen]
        cosines = [overlap_cosines(each, top) for each in own]
        kl = self._divergence(logp) if first is None else divergence(self.logp[first, :count], logp)
        return {
            "token_overlap": _mean([token_overlap(each, top) for each in own]),
            **{name: _mean([c[name] for c in cosines]) for name in COSINES},
            "kl": kl.tolist(),
        }

    @cached_property
    def _average(self) -> tuple[Tensor, Tensor]:
        """The means over orders of the distributions, `(queries, vocabulary)`, and of `Σ p log p`, `(queries,)`."""
        p = torch.zeros(self.logp.shape[1:], dtype=torch.float64)
        certain = p.new_zeros(len(p))
        for each in self.logp.unbind():
            now = each.double().exp()
            p += now
            certain += (now * each).sum(-1)
        return p / len(self.logp), certain / len(self.logp)

    def _divergence(self, logp: Tensor) -> Tensor:
        """The mean over orders of KL(order ‖ other), `(queries,)`: as the mean is linear in the first distribution, it
        takes one pass over the vocabulary for each checkpoint instead of one for each order."""
        p, certain = self._average
        return certain[: len(logp)] - (p[: len(logp)] * logp.double()).sum(-1)

    def ceiling(self) -> dict[str, list[float]]:
        """The same measures of one order against another, over all pairs."""
        both = [(self.top[i], self.top[j]) for i, j in pairs_of(len(self.logp))]
        cosines = [overlap_cosines(*pair) for pair in both]
        return {
            "token_overlap": _mean([token_overlap(*pair) for pair in both]),
            **{name: _mean([c[name] for c in cosines]) for name in COSINES},
            "kl": _mean(self._between_orders()),
        }

    def _between_orders(self) -> list[Tensor]:
        """KL(order ‖ earlier order) of all pairs, each `(queries,)`; exponentials are computed once for each order."""
        results = []
        for i, own in enumerate(self.logp.unbind()):
            p = own.double().exp()
            certain = (p * own).sum(-1)
            results += [certain - (p * self.logp[j]).sum(-1) for j in range(i)]
        return results

    def sensitivity(self, labels: Tensor) -> dict[str, list[float]]:
        return sensitivity(self.logp, labels)


def sensitivity(logp: Tensor, labels: Tensor) -> dict[str, list[float]]:
    """The order sensitivity of each query, over the vocabulary and over the labels."""
    return {
        "sensitivity": order_sensitivity(logp).tolist(),
        "sensitivity_labels": order_sensitivity(logp, labels).tolist(),
    }


def correctness(logp: Tensor, shown: Shots) -> dict[str, Any]:
    """How often distributions `(..., queries, vocabulary)` are right, for each query; and their calibration."""
    count = logp.shape[-2]
    right = shown.right[:count]
    full, among = accuracy(logp, right), accuracy(logp, right, shown.labels)
    return {
        "accuracy": full.reshape(-1, count).mean(0).tolist(),
        "accuracy_labels": among.reshape(-1, count).mean(0).tolist(),
        "calibration": float(calibration_error(logp, right.expand(logp.shape[:-1]), shown.labels)),
    }


def _mean(values: Sequence[Tensor]) -> list[float]:
    return torch.stack(list(values)).mean(0).tolist()


@no_cudnn_attention()
def measured_descent(
    model: Model,
    shown: Shots,
    icl: InContext,
    kind: Way,
    rate: float,
    *,
    epochs: int,
    every: int,
    seed: int = 0,
    after: After = _nothing,
) -> dict[str, Any]:
    """One descent, measured at each checkpoint."""
    results = []
    for point in descend(model, shown, kind, rate, epochs=epochs, every=every, seed=seed, after=after):
        logp = zero_shot(model, shown, point.descent.forward)
        measures = correctness(logp, shown) | icl.against(logp)
        results.append({"rate": rate, "epoch": point.epoch, "loss": point.loss, **measures})
    return {"checkpoints": results}


@no_cudnn_attention()
def over_orders(
    model: Model,
    shown: Shots,
    kind: Way,
    rate: float,
    orders: Sequence[Sequence[int]],
    *,
    epochs: int,
    after: After = _nothing,
) -> dict[str, Any]:
    """The order sensitivity of a descent after some epochs, and the largest difference of log-probabilities."""
    results: list[Tensor] = []
    for k, order in enumerate(orders):
        points = descend(
            model, shown, kind, rate, epochs=epochs, every=epochs, order=order,
            after=counted_on(after, k * epochs),
        )  # fmt: skip
        results.extend(zero_shot(model, shown, point.descent.forward) for point in points)
    logp = torch.stack(results)
    apart = float((logp - logp[0]).abs().max())
    about = {"rate": rate, "epochs": epochs, "orders": len(orders), "largest_difference": apart}
    return about | sensitivity(logp, shown.labels)


def control_model(
    model: Model,
    shown: Shots,
    orders: Tensor,
    rates: Sequence[float],
    *,
    queries: int,
    epochs: int,
    embeddings: bool,
    seed: int = 0,
    after: After = _nothing,
) -> dict[str, Any]:
    """In-context learning and gradient descent of a model that was not trained, or whose blocks were not."""
    other = untrained(model, seed, embeddings=embeddings)
    few = replace(shown, queries=shown.queries[:queries], right=shown.right[:queries])
    icl = InContext.of(in_context(other, few, orders))
    checkpoints = []
    for k, rate in enumerate(rates):
        done = measured_descent(
            other, few, icl, way("gd"), rate, epochs=epochs, every=epochs,
            after=counted_on(after, k * epochs),
        )  # fmt: skip
        checkpoints += done["checkpoints"]
    return {
        "in_context": correctness(icl.logp, few) | icl.sensitivity(few.labels),
        "ceiling": icl.ceiling(),
        "checkpoints": checkpoints,
    }
