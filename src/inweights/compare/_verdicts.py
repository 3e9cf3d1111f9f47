"""Verdicts on the two hypotheses of arXiv 2310.08540.

Hypothesis 1: in *any* pretrained model, in-context learning is gradient descent. A model can contradict it.
Hypothesis 2: there *are* weights for which it is. No measurement of a pretrained model can contradict that.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from inweights._resample import middle, resamples
from inweights.compare._measures import COSINES, DRAWS

AGAINST, FOR, OPEN, HOLDS, NOT_SHOWN = "contradicted", "not contradicted", "inconclusive", "holds", "not shown"
TIMES = 3.0
"""How many times as sensitive to order in-context learning must be, as the paper reports 3 to 5."""
EXACT = 1e-12


@dataclass(frozen=True)
class Finding:
    """A verdict on a hypothesis with the number that it follows from and its 95% interval."""

    hypothesis: int
    verdict: str
    sentence: str
    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def against_paper(
    *, icl: dict[str, Any], gd_orders: dict[str, Any], ceiling: dict[str, Any], best: dict[str, Any]
) -> dict[str, Finding]:
    """The test of hypothesis 1 by each measure; all numbers are lists over the same queries."""
    order = difference(icl["sensitivity"], [TIMES * s for s in gd_orders["sensitivity"]])
    results = {
        "order": judged(
            order, f"sensitivity to order of in-context learning, less {TIMES:g} times that of full-batch descent"
        )
    }
    names = {"token_overlap": "token overlap", **{name: f"overlap cosine ({name})" for name in COSINES}}
    for name, words in names.items():
        gap = difference(ceiling[name], best[name])
        results[name] = judged(gap, f"{words}: two orders of in-context learning, less in-context against descent")
    gap = difference(icl["accuracy_labels"], best["accuracy_labels"])
    results["accuracy"] = Finding(
        1, OPEN, "accuracy over labels, in-context less descent: reported only, as it depends on the model", *gap
    )
    return results


def difference(one: list[float], other: list[float]) -> tuple[float, float, float]:
    """The mean of a paired difference over queries with its 95% bootstrap interval."""
    gap = torch.tensor(one, dtype=torch.float64) - torch.tensor(other, dtype=torch.float64)
    again = resamples(len(gap), DRAWS, torch.Generator().manual_seed(0))
    low, high = middle(gap[again].mean(1))
    return float(gap.mean()), float(low), float(high)


def judged(gap: tuple[float, float, float], sentence: str) -> Finding:
    """Hypothesis 1 asks for a gap of 0 or less: it is contradicted by an interval above 0."""
    verdict = AGAINST if gap[1] > 0 else FOR if gap[2] <= 0 else OPEN
    return Finding(1, verdict, sentence, *gap)


def overall(findings: dict[str, Finding]) -> Finding:
    """Hypothesis 1 on this model: the order test alone can contradict it, but overlap and all cosines must agree."""
    names = ("order", "token_overlap", *COSINES)
    verdicts = {findings[name].verdict for name in names}
    verdict = verdicts.pop() if len(verdicts) == 1 else OPEN
    words = {
        AGAINST: "this model does not learn in context by full-batch gradient descent: all tests agree",
        FOR: "no test tells in-context learning from gradient descent on this model",
        OPEN: "the tests do not agree on this model",
    }[verdict]
    share = sum(findings[name].verdict == AGAINST for name in names) / len(names)
    return Finding(1, verdict, words, share, share, share)


def existence(made: dict[str, list[float]]) -> Finding:
    """Hypothesis 2: linear attention with constructed weights is one step of gradient descent."""
    exact = max(made["order_sensitivity"]) <= EXACT and min(made["token_overlap"]) == 1.0
    controls = min(made["sgd_sensitivity"]) > 1e-6 and min(made["softmax_overlap"]) < 1.0
    sentence = "weights for which in-context learning is gradient descent exist: linear attention, by construction"
    value = min(made["token_overlap"])
    return Finding(2, HOLDS if exact and controls else NOT_SHOWN, sentence, value, value, value)
