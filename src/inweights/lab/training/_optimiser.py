"""How weights move: Adam for all of them, or Muon for the matrices inside and Adam for the rest."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.lab.training._recipe import Recipe

# Where a matrix reads or writes the data, rows are no directions among equals; and what decays a state is no matrix.
EDGES = ("read_", "positions", "embedding", "log_rate", "conv")


class Optimiser:
    """One step for all parameters, their rate given as a tensor; its state as plain tensors with names."""

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        named = dict(model.named_parameters())
        inside = [
            name
            for name, p in named.items()
            if recipe.optimiser == "muon" and p.ndim == 2 and not any(edge in name for edge in EDGES)
        ]
        if recipe.optimiser == "muon" and not inside:
            raise InputError(f"`optimiser` is muon, but {recipe.model.kind} has no matrices for it: take adam.")
        self.on_gpu = next(iter(named.values())).is_cuda
        rest = {n: p for n, p in named.items() if n not in inside}
        # Biases and norms are not pulled to zero: they are no directions.
        groups = [
            {"params": [p for p in rest.values() if (p.ndim > 1) is decays], "weight_decay": recipe.decay * decays}
            for decays in (True, False)
        ]
        self.names = [n for decays in (True, False) for n, p in rest.items() if (p.ndim > 1) is decays]
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
        """`overflow`: 1 where gradients are no numbers, so that nothing must move."""
        if self.on_gpu:
            self.lr.copy_(rate)
        else:
            for group in self.adam.param_groups:
                group["lr"] = rate.item()
        if overflow is not None:
            # As GradScaler says it to a fused optimiser, which has no typed attribute for it.
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
        """Back to the state before the first step, in place: a CUDA graph goes on with the same tensors."""
        for values in self.adam.state.values():
            for value in values.values():
                value.zero_()
        for m in self.muon.momenta:
            m.zero_()


class Muon:
    """Steps of equal size in all directions of a matrix (Jordan et al. 2024): momentum, its singular values made one.

    Matrices of one shape are one tensor. Updates are scaled to the size of Adam's (Liu et al. 2025), so that both can
    share a rate.
    """

    def __init__(self, matrices: dict[str, nn.Parameter], decay: float, momentum: float = 0.95) -> None:
        shapes = sorted({tuple(p.shape) for p in matrices.values()})
        self.groups: list[list[Tensor]] = [[p for p in matrices.values() if tuple(p.shape) == s] for s in shapes]
        self.momenta = [torch.zeros(len(g), *g[0].shape, device=g[0].device) for g in self.groups]
        self.decay, self.momentum = decay, momentum

    @torch.no_grad()
    def step(self, rate: Tensor, overflow: Tensor | None = None) -> None:
        rate = rate.float() if overflow is None else rate.float() * (1 - overflow)
        for group, m in zip(self.groups, self.momenta, strict=True):
            grad = torch.stack([p.grad for p in group if p.grad is not None])
            if overflow is not None:
                grad = torch.where(overflow > 0, m, grad)
            m.lerp_(grad, 1 - self.momentum)
            update = orthogonal(grad.lerp(m, self.momentum)) * (0.2 * max(m.shape[-2:]) ** 0.5)
            torch._foreach_mul_(group, 1 - rate * self.decay)
            torch._foreach_sub_(group, list((update * rate).unbind(0)))


def orthogonal(G: Tensor, steps: int = 5) -> Tensor:
    """The nearest matrix with all singular values near one, by a Newton-Schulz iteration; `(n, a, b)`."""
    X = G.bfloat16() if G.is_cuda else G.clone()
    tall = X.shape[-2] > X.shape[-1]
    X = X.mT if tall else X
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        S = X @ X.mT
        # The quintic whose slope at 0 is steep: it lifts small singular values fast and leaves them near one.
        X = torch.baddbmm(X, torch.baddbmm(S, S, S, beta=-4.7750, alpha=2.0315), X, beta=3.4445)
    return (X.mT if tall else X).to(G.dtype)
