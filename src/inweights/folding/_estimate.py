"""How much memory a fold takes, from the model's sizes and from how much it is calibrated on."""

from __future__ import annotations

import torch

from inweights.folding._lora import linear_modules
from inweights.folding._steps import DISTILLED, MATCHED, Steps
from inweights.models import Estimate, Model, Sizes, estimate, memory_fixes, model_sizes
from inweights.running import AT_ONCE, DEFAULT_LIMIT

FLOAT32 = torch.float32.itemsize
ADAM = 4
"""A factor, its gradient, and the two moments of AdamW."""


def fold_memory(
    low: Model, *, context: int, queries: int, query: int, new: int, method: str, rank: int, report: bool
) -> Estimate:
    """The memory that is still needed to fold with the working copy `low`, and to report on it.

    `context`, `query` and `new` are the tokens of the context, of the longest query and of an answer; `queries` is how
    many are answered.
    """
    s, total = model_sizes(low), query + new
    kind = "cuda" if low.device.type == "cuda" else "cpu"
    weights = [low.model.get_parameter(f"{name}.weight") for name in linear_modules(low)]
    phases = [_sampling(s, AT_ONCE[kind], context, queries, total)]
    if report:
        phases.append({"changed weights": sum(W.numel() for W in weights) * FLOAT32, **s.forward(context + total)})
    if method in ("match", "polish", "distil"):
        fitting = _fitting(s, DISTILLED if method == "distil" else MATCHED[kind], queries, total, new)
        phases.append({**fitting, "adapter": ADAM * FLOAT32 * rank * sum(sum(W.shape) for W in weights)})
    if method not in ("match", "distil"):
        held = 2 * queries * total * s.width * FLOAT32
        phases.append({"hidden states of both streams": min(held, DEFAULT_LIMIT), **s.forward(context)})
    return estimate(low, max(phases, key=lambda terms: sum(terms.values())))


def require_fold_memory(needed: Estimate) -> None:
    """Refuses a fold that does not fit, with the options that help."""
    helping = "a smaller --calibration", "a shorter --context", "a lower --rank"
    needed.require(memory_fixes(needed.device, *helping))


def _sampling(s: Sizes, at_once: tuple[int, int], context: int, queries: int, total: int) -> dict[str, int]:
    """Answers in batches over shared keys and values; each new token copies those of one layer at a time."""
    room, most = at_once
    rows = max(1, min(most, queries, room // max(1, context * s.keys * s.item)))
    cache = rows * (context + total) * s.keys * s.item
    return {"keys and values": cache + cache // max(1, s.layers), **s.forward(context)}


def _fitting(s: Sizes, steps: Steps, queries: int, total: int, new: int) -> dict[str, int]:
    """One gradient step: activations of all blocks, and logits of the answers, the student's and the teacher's."""
    batch = min(steps.batch, queries)
    blocks = 1 + (s.layers if steps.match else 0)
    # Norms keep dividend and divisor in float32, whatever the dtype of their input.
    kept = (8 * s.width + 6 * s.queries + 2 * s.inner) * s.item + 6 * s.width * FLOAT32
    return {
        "activations": batch * total * s.layers * kept,
        # Both logits, log-probabilities and probabilities of both in float32, and a gradient.
        "logits": batch * new * s.vocabulary * (3 * s.item + 4 * FLOAT32),
        "hidden states of the answers": queries * new * blocks * s.width * s.item,
    }
