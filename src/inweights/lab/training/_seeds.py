"""`SeededRun`: trainings of one recipe with several seeds as one batched program."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from inweights._errors import InputError
from inweights.lab._draw import Draw
from inweights.lab.models import Learner
from inweights.lab.training._processes import Processes
from inweights.lab.training._recipe import Recipe, changed
from inweights.lab.training._run import LOW, Run, build
from inweights.lab.training._schedule import active

ALONE = ("lstm",)
"""Models with library kernels along a sequence that have no batched form over weights."""
SCANNING = ("griffin", "hybrid", "mamba")
"""Models with a scan that is an autograd function of its own."""


def one_by_one(recipe: Recipe) -> str:
    """Why the seeds of a recipe cannot be trained as one program; empty if they can."""
    if recipe.precision in LOW:
        return f"`precision` is {recipe.precision}, whose scaling and rounding are those of one model"
    if recipe.own_task:
        return "each seed has a task of its own"
    kind = recipe.model.kind
    return f"the kernel of {kind} has no batched form over weights" if kind in ALONE else ""


class Stacked(nn.Module):
    """Models of one structure: parameters with a leading dimension of seeds, applied to `(seeds, batch, points, …)`.

    A parameter `a.b` of a model is `a/b` here, as names of parameters have no dots.
    """

    def __init__(self, models: Sequence[Learner]) -> None:
        super().__init__()
        parameters, self._buffers_of_models = stack_module_state(list(models))
        for name, value in parameters.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(value.detach()))
        self._one = [copy.deepcopy(models[0]).to("meta")]  # in a list, so that its parameters are not registered

    def of_models(self) -> dict[str, Tensor]:
        """The stacked parameters by their names in a model."""
        return {name.replace("/", "."): p for name, p in self.named_parameters()}

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], xs: Tensor, ys: Tensor) -> Tensor:
            result: Tensor = functional_call(self._one[0], (parameters, buffers), (xs, ys))
            return result

        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no batched form over weights
            return vmap(one)(self.of_models(), self._buffers_of_models, xs, ys)


class SeededRun(Run):
    """A `Run` of several seeds. Every seed has its own initial weights, prompts, clipping and optimiser state: each
    model is the one that it would be alone, up to rounding."""

    def __init__(
        self, recipe: Recipe, seeds: Sequence[int], processes: Processes, *, compiled: bool | None = None
    ) -> None:
        if reason := one_by_one(recipe):
            raise InputError(f"These seeds cannot be trained at once: {reason}.")
        if processes.count > 1:
            raise InputError("Several seeds are trained by one process: leave out torchrun, or --seeds.")
        self._recipes = [changed(recipe, [f"seed={seed}"]) for seed in seeds]
        super().__init__(self._recipes[0], processes, compiled=compiled)
        self._each_seed = torch.tensor(self.seeds, dtype=torch.int64, device=self.device)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(recipe.seed for recipe in self._recipes)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self._recipes),)

    def _built(self) -> nn.Module:
        return Stacked([build(recipe).to(self.device) for recipe in self._recipes])

    def _compiled_parts(self) -> list[nn.Module]:
        """The models as one, unless they scan their tokens one by one, which is not compiled, and cannot be left out
        of what is compiled where weights are batched."""
        return [] if self.recipe.model.kind in SCANNING else [self.model]

    def finished(self, folder: Path) -> list[tuple[Recipe, Learner, Path]]:
        stacked = self.averaged or self.model
        assert isinstance(stacked, Stacked)
        results = []
        for k, recipe in enumerate(self._recipes):
            model = build(recipe).to(self.device)
            own = {name: p.detach()[k] for name, p in stacked.of_models().items()}
            model.load_state_dict(model.state_dict() | own)
            results.append((recipe, model, folder / f"seed-{recipe.seed}"))
        return results

    def _clip(self, norm: float) -> None:
        """Clips the gradients of each seed by their own norm."""
        self._clipped([p.grad for p in self.model.parameters() if p.grad is not None], norm)

    def _loss(self) -> tuple[Tensor, Tensor]:
        """The sum of the objectives, of which each seed's gradient is its own, and the mean loss of each seed."""
        recipe = self.recipe
        dims, points = active(recipe, self.task.dims, self.step)
        draw = Draw(self._each_seed, self.step, recipe.batch, device=self.device, compiled=self._compiled)
        sample = self.task.sample(draw, recipe.points, active=dims if recipe.curriculum else None)
        xs, ys = (t.unflatten(0, (*self.shape, -1)) for t in (sample.xs, sample.ys))
        objectives, losses = self._objective(self.model(xs, ys).flatten(0, 1), sample, points)
        return objectives.sum(), losses
