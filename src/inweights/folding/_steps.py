"""How to go down the gradient of a fold: the settings, and the divergence that is made small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """How to go down the gradient: AdamW, a linear warm-up over ten steps or 5%, and a linear decay to 0.

    - `match`: how much the blocks' hidden states count against the divergence of the answers, each measured in what
      it is for the bare model; 0 is context distillation.
    - `betas`: AdamW's; when steps are few, a shorter memory goes further.
    - `clip`: gradients are cut to this length, 0 leaves them: some prompts have steps with a thousand times the usual.
    - `focus`: the weight of tokens that the student gives more than ½ where the teacher has its likeliest one. Facts
      are few tokens among many: below 1, what is still wrong counts for more.
    - `keep`: the share of the fitted update that is kept, where it began with none: a little less of it answers the
      same questions, and moves everything else less.
    - `graph`: replay each step as one CUDA graph, one for each width of a batch, its matrices merged; for a GPU only.
    """

    count: int
    rate: float
    batch: int
    match: float = 10.0
    betas: tuple[float, float] = (0.8, 0.95)
    clip: float = 1.0
    focus: float = 1.0
    keep: float = 1.0
    graph: bool = False


MATCHED = {
    "cpu": Steps(count=128, rate=3e-3, batch=4),
    "cuda": Steps(count=108, rate=4e-3, batch=32, graph=True),
}
KNOWN = {
    "cpu": Steps(count=0, rate=2e-3, batch=8, match=0.0, focus=0.3, keep=0.9),
    "cuda": Steps(count=0, rate=2e-3, batch=64, match=0.0, focus=0.3, graph=True),
}
"""For questions about facts: the answers alone, since a teacher that reads a window has other hidden states."""
DISTILLED = Steps(count=400, rate=2e-3, batch=32, match=0.0, betas=(0.9, 0.99), clip=0.0)


SURE = 0.5
"""The probability that is given to the tokens of a sure answer, at least: a weak teacher misreads even one sentence."""


def with_truth(teacher: Tensor, tokens: Tensor, sure: Tensor) -> Tensor:
    """The teacher's log-probabilities `(rows, vocabulary)`, moved towards a token in the rows `(rows,)` that are sure:
    `(1 − ½) p + ½ [token]`."""
    share = (SURE * sure).unsqueeze(-1)
    p = teacher.float().softmax(-1).mul_(1 - share)
    return p.scatter_add_(-1, tokens.unsqueeze(-1), share).clamp_min_(1e-30).log_()


class Divergence(torch.autograd.Function):
    """KL(teacher ‖ student) of logits `(rows, vocabulary)`: the weighted mean over rows.

    The gradient is made on the way, in one go.
    """

    @staticmethod
    def forward(ctx: Any, student: Tensor, teacher: Tensor, weights: Tensor, focus: float) -> Tensor:
        ls, lt = student.float().log_softmax(-1), teacher.float().log_softmax(-1)
        pt = lt.exp()
        if focus < 1:
            known = ls.gather(-1, lt.argmax(-1, keepdim=True)).squeeze(-1) > -0.6931
            weights = weights * torch.where(known, focus, 1.0)
        share = (weights / weights.sum()).unsqueeze(-1)
        ctx.save_for_backward(((ls.exp() - pt) * share).to(student.dtype))
        return (pt * (lt - ls)).mul_(share).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.saved_tensors[0] * grad, None, None, None
