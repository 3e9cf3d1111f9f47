"""Optimisers: Adam for all parameters, or Muon for the inner matrices and Adam for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.lab.training._recipe import Recipe

# Not for Muon: matrices that read or write the data, the rows of which are not equivalent directions, and decay rates,
# which are not linear maps.
EDGES = ("read_", "positions", "embedding", "log_rate", "conv")


class Optimiser:
    """An optimiser of all parameters with the learning rate as a tensor, and its state as named tensors.

    `lead` is the number of leading dimensions of all parameters that belong to no model: 1 if those of several seeds
    are stacked. Each model is updated as if it were alone."""

    def __init__(self, model: nn.Module, recipe: Recipe, lead: int = 0) -> None:
        named = dict(model.named_parameters())
        inside = [
            name
            for name, p in named.items()
            if recipe.optimiser == "muon" and p.ndim == 2 + lead and not any(edge in name for edge in EDGES)
        ]
        if recipe.optimiser == "muon" and not inside:
            raise InputError(f"`optimiser` is muon, but {recipe.model.kind} has no matrices for it: take adam.")
        self.on_gpu = next(iter(named.values())).is_cuda
        rest = {n: p for n, p in named.items() if n not in inside}
        # No weight decay for biases and norms.
        groups = [
            {
                "params": [p for p in rest.values() if (p.ndim > 1 + lead) is decays],
                "weight_decay": recipe.decay * decays,
            }
            for decays in (True, False)
        ]
        self.names = [n for decays in (True, False) for n, p in rest.items() if (p.ndim > 1 + lead) is decays]
        self.lr = torch.zeros((), device=next(iter(named.values())).device)
        self.adam = torch.optim.AdamW(
            [g for g in groups if g["params"]],
            lr=self.lr if self.on_gpu else 0.0,
            betas=recipe.betas,
            fused=True,
            **({"capturable": True} if self.on_gpu else {}),
        )
        self.muon = Muon({n: named[n] for n in inside}, recipe.decay)

    def step(self, rate: Tensor, overflow: Tensor | None = None) -> None:
        """Updates the parameters, unless `overflow` is 1: then gradients are not finite, and nothing changes."""
        if self.on_gpu:
            self.lr.copy_(rate)
        else:
            for group in self.adam.param_groups:
                group["lr"] = rate.item()
        if overflow is not None:
            # The interface of GradScaler to fused optimisers, which have no typed attribute for it.
            self.adam.grad_scale, self.adam.found_inf = None, overflow  # type: ignore[attr-defined]
        self.adam.step()
        self.muon.step(rate, overflow)

    def _adam_state(self) -> Iterator[tuple[str, Tensor, str]]:
        parameters = [p for g in self.adam.param_groups for p in g["params"]]
        for name, p in zip(self.names, parameters, strict=True):
            yield from ((name, p, kind) for kind in ("step", "exp_avg", "exp_avg_sq"))

    def state(self) -> dict[str, Tensor]:
        results = {f"adam.{kind}.{name}": self.adam.state[p][kind] for name, p, kind in self._adam_state()}
        return results | {f"muon.{k}": m for k, m in enumerate(self.muon.momenta)}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, p, kind in self._adam_state():
            self.adam.state[p][kind] = state[f"adam.{kind}.{name}"].to(p.device)
        for k, m in enumerate(self.muon.momenta):
            m.copy_(state[f"muon.{k}"])

    def forget(self) -> None:
        """Resets the state to that before the first step, in place, as a CUDA graph keeps using the same tensors."""
        for values in self.adam.state.values():
            for value in values.values():
                value.zero_()
        for m in self.muon.momenta:
            m.zero_()


class Muon:
    """Muon (Jordan et al. 2024): the update of a matrix is its momentum with all singular values set to about one.

    Matrices of one shape are stacked in one tensor. Updates are scaled to the size of Adam's (Liu et al. 2025), so that
    both can share a learning rate.
    """

    def __init__(self, matrices: dict[str, nn.Parameter], decay: float, momentum: float = 0.95) -> None:
        shapes = sorted({tuple(p.shape) for p in matrices.values()})
        self.groups: list[list[Tensor]] = [[p for p in matrices.values() if tuple(p.shape) == s] for s in shapes]
        self.momenta = [torch.zeros(len(g), *g[0].shape, device=g[0].device) for g in self.groups]
        self.decay, self.momentum = decay, momentum
        self.move: Callable[..., None] = move

    @torch.no_grad()
    def step(self, rate: Tensor, overflow: Tensor | None = None) -> None:
        for group, m in zip(self.groups, self.momenta, strict=True):
            grads = [p.grad for p in group if p.grad is not None]
            self.move([p.data for p in group], grads, m, rate, overflow, self.decay, self.momentum)


def move(
    group: list[Tensor],
    grads: list[Tensor],
    m: Tensor,
    rate: Tensor,
    overflow: Tensor | None,
    decay: float,
    momentum: float,
) -> None:
    """One step of Muon, in place: of n matrices `(…, a, b)` with their gradients, and their momenta `(n, …, a, b)`."""
    rate = rate.float() if overflow is None else rate.float() * (1 - overflow)
    grad = torch.stack(grads)
    if overflow is not None:
        grad = torch.where(overflow > 0, m, grad)
    m.lerp_(grad, 1 - momentum)
    each = orthogonal(grad.lerp(m, momentum).flatten(0, -3)).view_as(m)  # with seeds, m is (n, seeds, a, b)
    update = each * (0.2 * max(m.shape[-2:]) ** 0.5)
    torch._foreach_mul_(group, 1 - rate * decay)
    torch._foreach_sub_(group, list((update * rate).unbind(0)))


@torch.no_grad()
def clipped(grads: list[Tensor], norm: float) -> None:
    """Clips gradients `(seeds, …)` in place, those of each seed by their own norm."""
    norms = torch.cat([g.flatten(1) for g in grads], 1).norm(dim=1)
    factors = (norm / (norms + 1e-6)).clamp(max=1)
    for g in grads:
        g.mul_(factors.view(-1, *[1] * (g.ndim - 1)))


def orthogonal(G: Tensor, steps: int = 5) -> Tensor:
    """The nearest matrices with all singular values near one, by a Newton-Schulz iteration; `(n, a, b)`."""
    X = G.bfloat16() if G.is_cuda else G.clone()
    tall = X.shape[-2] > X.shape[-1]
    X = X.mT if tall else X
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        S = X @ X.mT
        # A quintic with a steep slope at 0: it raises small singular values quickly and keeps them near one.
        X = torch.baddbmm(X, torch.baddbmm(S, S, S, beta=-4.7750, alpha=2.0315), X, beta=3.4445)
    return (X.mT if tall else X).to(G.dtype)
