"""Small networks trained on the examples of each prefix: one for each prompt and prefix, trained in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from inweights._errors import Problems
from inweights.lab._draw import Draw
from inweights.lab.predictors._classical import Classical
from inweights.lab.predictors._predictor import PREDICTORS

TOGETHER = 64  # networks per batch on a CPU: parameters, gradients and Adam's moments about fit its cache
START = -1  # a step of no prompts: with the same random bits, initial weights would depend on the inputs
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's own


@PREDICTORS("network")
@dataclass(frozen=True, kw_only=True)
class Network(Classical):
    """Two layers with ReLU, trained by Adam on the mean squared error of the whole prefix (Garg et al. 2022).

    Networks are initialised like torch's linear layers, from `seed`, one for each prompt of the batch; every prefix
    starts from the same initial weights. Many networks are trained at once by batched products, with explicit
    gradients.

    - `batch`: the number of examples of a step, drawn with replacement; 0: all of them. The paper has batches of 10 and
      5,000 steps.
    """

    hidden: int = 100
    steps: int = 100
    rate: float = 5e-3
    batch: int = 0
    seed: int = 0

    def check(self, problems: Problems) -> None:
        for name, value, least in (("hidden", self.hidden, 1), ("steps", self.steps, 1), ("batch", self.batch, 0)):
            problems.unless(value >= least, f"`{name}` is {value}, but must be at least {least}.")
        problems.unless(self.rate > 0, f"`rate` is {self.rate}, but must be above 0.")

    def start(self, xs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The initial weights: the first layer `(batch, dims + 1, hidden)`, with its bias as the last row, the second
        layer `(batch, 1, hidden)`, and its bias `(batch, 1, 1)`."""
        batch, _, dims = xs.shape
        draw = Draw(self.seed, START, batch, device=xs.device, dtype=xs.dtype)
        low, high = dims**-0.5, self.hidden**-0.5
        return (
            draw.uniform(dims + 1, self.hidden, low=-low, high=low),
            draw.uniform(1, self.hidden, low=-high, high=high),
            draw.uniform(1, 1, low=-high, high=high),
        )

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        return self.predict_after(xs, ys, range(1, xs.shape[1]), queries)

    @torch.no_grad()
    def predict_after(self, xs: Tensor, ys: Tensor, after: Sequence[int], queries: Tensor | None = None) -> Tensor:
        """The same after selected numbers of examples, ascending; 0 elsewhere."""
        batch, points, _ = xs.shape
        inputs, asked = (pad(v, (0, 1), value=1.0) for v in (xs, xs if queries is None else queries))
        layers, labels = self.start(xs), ys.to(xs.dtype).unsqueeze(-1)
        # Sorted by length, so that prefixes in a batch have about equal lengths. Without examples the prediction is 0.
        prompts = torch.arange(batch, device=xs.device).repeat(len(after))
        lengths = torch.tensor(list(after), device=xs.device).repeat_interleave(batch)
        result = xs.new_zeros(batch, points)
        together = TOGETHER if xs.device.type == "cpu" else 2**14
        for at in range(0, len(prompts), together):
            prompt, length = prompts[at : at + together], lengths[at : at + together]
            known = torch.arange(int(length[-1]), device=xs.device) < length.unsqueeze(-1)
            examples = inputs[prompt, : known.shape[1]], labels[prompt, : known.shape[1]]
            W, v, b = self._train(*examples, known / length.unsqueeze(-1), [layer[prompt] for layer in layers])
            result[prompt, length] = ((asked[prompt, length].unsqueeze(1) @ W).relu() @ v.mT + b).flatten()
        return result

    def _train(self, X: Tensor, y: Tensor, share: Tensor, start: list[Tensor]) -> list[Tensor]:
        """The layers after all steps, of networks with examples `X`, `(networks, examples, dims + 1)`, and `y`,
        `(networks, examples, 1)`, weighted by `share`, `(networks, examples)`, in the loss."""
        flat, layers = _joined(start)
        gradient, (dW, dv, db) = _joined(start)
        W, v, b = layers
        mean, square = torch.zeros_like(flat), torch.zeros_like(flat)
        weight = 2 * share.to(X.dtype).unsqueeze(-1)
        whole, lengths = (X, y), (share > 0).sum(1, keepdim=True)
        for step in range(1, self.steps + 1):
            if self.batch:
                chosen = Draw(self.seed, step, len(share), device=share.device).uniform(self.batch)
                at = (chosen * lengths).long().unsqueeze(-1)
                X, y = (each.gather(1, at.expand(-1, -1, each.shape[-1])) for each in whole)
                weight = X.new_full((1, 1, 1), 2 / self.batch)
            H = torch.bmm(X, W).relu_()
            error = (H * v).sum(-1, keepdim=True).add_(b).sub_(y).mul_(weight)
            torch.bmm(error.mT, H, out=dv)
            torch.sum(error, 1, keepdim=True, out=db)
            torch.bmm(X.mT, H.sign_().mul_(error).mul_(v), out=dW)
            mean.lerp_(gradient, 1 - BETA1)
            square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            scale = square.sqrt().mul_((1 - BETA2**step) ** -0.5).add_(EPSILON)
            flat.addcdiv_(mean, scale, value=-self.rate / (1 - BETA1**step))
        return layers


def _joined(parts: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """A copy of the parts in one flat tensor, and views of it in their shapes."""
    flat = torch.cat([part.flatten() for part in parts])
    return flat, [v.view_as(part) for v, part in zip(flat.split([p.numel() for p in parts]), parts, strict=True)]
