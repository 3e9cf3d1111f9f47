"""The guard of a fit: keeps the last good state, and goes back to it at half the rate when the fit diverges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.theory import not_finite

WORSE = 3.0
"""How many times the divergence of the bare model counts as diverging."""
NOISE = 1.2
"""The largest ratio of a good state's mean divergence to the best one: batches differ."""
PATIENCE = 6


class Guard:
    """Monitors the divergence of a fit.

    **Arguments:**

    - `parameters`: what is fitted; restored in place.
    - `bare`: the divergence of the bare model, which a fit must not exceed for long.
    """

    def __init__(self, parameters: Sequence[Tensor], bare: float) -> None:
        self.parameters, self.bare = parameters, bare
        self.factor, self.restored = 1.0, 0
        self.best = self.last = bare
        # The losses of some steps are those of the state before them: only then is it known to be good.
        self.good = [p.detach().clone() for p in parameters]
        self.before = [p.detach().clone() for p in parameters]

    def look(self, losses: Sequence[float], adam: torch.optim.Optimizer) -> None:
        """After some steps: keeps their state if it is good, or restores the last good one."""
        mean = self.last = sum(losses) / len(losses)
        if math.isfinite(mean) and mean <= WORSE * self.bare:
            if mean <= NOISE * self.best:
                self.best = min(self.best, mean)
                self.good, self.before = self.before, self.good
            _copy(self.parameters, self.before)
            return
        self.restored += 1
        if self.restored > PATIENCE:
            raise InputError(
                f"The fit diverged {self.restored} times, the last time at {self.factor:g} of its rate: the model "
                "may not be finite in this precision."
            )
        self.factor /= 2
        self._restore(adam)

    def finish(self) -> None:
        """Back to the best state, if the last one is not finite or much worse."""
        finite = not not_finite({str(i): p for i, p in enumerate(self.parameters)})
        if not finite or not self.last <= NOISE**2 * self.best:
            self._restore(None)

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Tensors and numbers from which `resume` continues."""
        kept = {"good": self.good, "before": self.before, "now": self.parameters}
        tensors = {f"{name}.{i}": t for name, some in kept.items() for i, t in enumerate(some)}
        return tensors, {"factor": self.factor, "restored": self.restored, "best": self.best, "last": self.last}

    def resume(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, float]) -> None:
        """Continues from a state, the parameters included."""
        for name, to in (("good", self.good), ("before", self.before), ("now", self.parameters)):
            _copy([tensors[f"{name}.{i}"] for i in range(len(to))], to)
        self.factor, self.restored = numbers["factor"], int(numbers["restored"])
        self.best, self.last = numbers["best"], numbers["last"]

    def _restore(self, adam: torch.optim.Optimizer | None) -> None:
        _copy(self.good, self.parameters)
        _copy(self.good, self.before)
        if adam is not None:
            for p in self.parameters:
                for value in adam.state[p].values():
                    value.zero_()  # its moments point back to the state that was left


def _copy(source: Sequence[Tensor], to: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for a, b in zip(source, to, strict=True):
            b.copy_(a)
