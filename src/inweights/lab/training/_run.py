"""`Run`: a training in progress. A step uses only tensors on the device, so that a GPU can replay it as one graph."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import InputError
from inweights.lab._draw import Draw
from inweights.lab.models import Learner
from inweights.lab.tasks import Sample
from inweights.lab.training._memory import keep_freed
from inweights.lab.training._optimiser import Optimiser, clipped, move
from inweights.lab.training._processes import Processes
from inweights.lab.training._recipe import Recipe
from inweights.lab.training._scaler import Scaler
from inweights.lab.training._schedule import active, rate

LOW = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Run:
    """The model, its optimiser, and the number of completed steps: the content of a checkpoint.

    `total` is the sum of the losses since it was last read; `losses` are the means that were read last, one for each
    seed.
    """

    losses: list[float]

    def __init__(self, recipe: Recipe, processes: Processes, *, compiled: bool | None = None) -> None:
        if recipe.batch % processes.count:
            raise InputError(f"`batch` is {recipe.batch}, but must be a multiple of the {processes.count} processes.")
        if (recipe.model.kind, recipe.precision, processes.device.type) == ("lstm", "float16", "cpu"):
            raise InputError("`precision` is float16, but an LSTM has none on a CPU: take bfloat16.")
        self.recipe, self.processes, self.device = recipe, processes, processes.device
        if self.device.type == "cpu":
            keep_freed()
        self.task = recipe.make_task()
        self.model: nn.Module = self._built()
        self.averaged = copy.deepcopy(self.model).requires_grad_(False) if recipe.average else None
        self.optimiser = Optimiser(self.model, recipe, len(self.shape))
        self.scaler = Scaler(self.device) if recipe.precision == "float16" else None
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.total = torch.zeros(self.shape, dtype=torch.float64, device=self.device)
        on_gpu = self.device.type == "cuda"
        self._compile(on_gpu if compiled is None else compiled)
        self._answers: Any = processes.wrapped(self.model)
        self._advance: Callable[[], None] | None = None if on_gpu and processes.count == 1 else self._one_step

    def _compile(self, compiled: bool) -> None:
        """Compiles the parts of a step, or, with False, goes back to those that are not compiled."""
        self._compiled = compiled
        options: dict[str, Any] = {"combo_kernels": True} if self.device.type == "cuda" else {}
        for part in self._compiled_parts():
            part._compiled_call_impl = None
            if compiled:
                part.compile(dynamic=False, options=options)
        # Also the code around the model: dozens of kernels on scalars and small tensors.
        small = compiled and self.processes.count == 1
        fused: Callable[..., Any] = partial(torch.compile, dynamic=False, options=options) if small else lambda f: f
        self._rate = fused(lambda step: rate(self.recipe, step))
        self._objective = fused(self._measured)
        self._clipped = fused(clipped)
        self.optimiser.muon.move = fused(move)

    def advance(self) -> None:
        """One training step: draws a batch and updates the parameters."""
        if self._advance is None:
            self._advance = self._fastest()
        self._advance()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the models that are trained."""
        return (self.recipe.seed,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions of parameters: empty for one model, the number of seeds for several."""
        return ()

    def _built(self) -> nn.Module:
        return build(self.recipe).to(self.device)

    def _compiled_parts(self) -> list[nn.Module]:
        """What is compiled: block by block, as blocks have the same structure, so that one compilation serves all, and
        a run starts quickly. Many kernels are too small to fill a GPU: independent ones are combined."""
        return list(getattr(self.model, "blocks", [self.model]))

    def finished(self, folder: Path) -> list[tuple[Recipe, Learner, Path]]:
        """The trained models, each with its recipe and the folder that it is written to."""
        model = self.averaged or self.model
        assert isinstance(model, Learner)
        return [(self.recipe, model, folder)]

    def mean_loss(self, steps: int) -> float:
        """The mean loss of the last `steps` steps, over all processes and seeds; resets the sum."""
        self.losses = (self.processes.mean(self.total.clone()) / steps).reshape(-1).tolist()
        self.total.zero_()
        return sum(self.losses) / len(self.losses)

    def _one_step(self) -> None:
        self.model.zero_grad(set_to_none=True)
        objective, loss = self._loss()
        if self.scaler is None:
            objective.backward()
        else:
            self.scaler.backward(objective, self.model)
        if self.recipe.clip:
            self._clip(self.recipe.clip)
        self.optimiser.step(self._rate(self.step), self.scaler.overflow if self.scaler else None)
        if self.averaged is not None:
            with torch.no_grad():
                # A plain mean at first, so that the initial weights do not bias the average.
                share = 1 / (self.step + 1).clamp(max=self.recipe.average).float()
                for mean, p in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
                    mean.lerp_(p, share)
        self.total += loss
        self.step += 1

    def _clip(self, norm: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), norm)

    def _loss(self) -> tuple[Tensor, Tensor]:
        """The objective to minimise, and the mean loss to report, on the batch of this step."""
        recipe, local = self.recipe, self.recipe.batch // self.processes.count
        first = self.processes.rank * local
        draw = Draw(recipe.seed, self.step, local, first=first, device=self.device, compiled=self._compiled)
        dims, points = active(recipe, self.task.dims, self.step)
        sample = self.task.sample(draw, recipe.points, active=dims if recipe.curriculum else None)
        low = LOW.get(recipe.precision)
        with torch.autocast(self.device.type, low) if low else nullcontext():
            answers = self._answers(sample.xs, sample.ys)
        results: tuple[Tensor, Tensor] = self._objective(answers, sample, points)
        return results

    def _measured(self, answers: Tensor, sample: Sample, points: Tensor) -> tuple[Tensor, Tensor]:
        """The objective and the mean loss of predictions on a batch, over its first `points` points; of the leading
        shape of the parameters."""
        recipe, local = self.recipe, self.recipe.batch // self.processes.count
        sums, counts = point_losses(recipe, self.task.loss, answers.float(), sample, self.shape)
        # Over all processes: each divides its own sum by the same number, so that their mean is that of the batch.
        counts = self.processes.mean(counts * (torch.arange(sums.shape[-1], device=sums.device) < points))
        mean = (sums * (counts > 0)).sum(-1) / counts.sum(-1).clamp_min(1 / self.processes.count) / self.task.power
        if recipe.objective == "mean":
            return mean, mean.detach()
        # The gradient of the logarithm of each point's loss: small losses have the same weight as large ones.
        size = self.processes.mean(sums.detach()).clamp_min(recipe.floor * self.task.power * local)
        return (sums / size * (counts > 0)).sum(-1) / (counts > 0).sum(-1).clamp_min(1), mean.detach()

    def _fastest(self) -> Callable[[], None]:
        """The step as a CUDA graph of compiled parts; where that fails, of parts that are not compiled; else as it
        is."""
        for compiled in (True, False) if self._compiled else (False,):
            if compiled is not self._compiled:
                self._compile(compiled)
            try:
                return self._captured()
            except Exception as error:  # compilers and drivers raise errors of many types
                what = "compiled training step" if compiled else "training step"
                lines = f"{type(error).__name__}: {error}".splitlines()
                warnings.warn(f"No CUDA graph of the {what} ({lines[0]}): slower.", RuntimeWarning, stacklevel=3)
        return self._one_step

    def _captured(self) -> Callable[[], None]:
        """The step as a CUDA graph. All state is restored after the capture, also after one that failed."""
        kept = {name: value.clone() for name, value in self.state().items()} if int(self.step) else None
        total = self.total.clone()
        before = [t.detach().clone() for t in self._tensors()]  # detached: an autograd graph would keep its stream
        current, side = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side):
                for _ in range(3):
                    self._one_step()
            current.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            # Another thread of this process may use the GPU meanwhile: its calls are no error of the capture.
            with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                self._one_step()
        finally:
            torch.cuda.set_stream(current)  # a capture that fails stays on its own
            current.wait_stream(side)
            with torch.no_grad():
                for t, old in zip(self._tensors(), before, strict=True):
                    t.copy_(old)
            if kept is None:
                self.optimiser.forget()
            else:
                for name, value in self.optimiser.state().items():
                    value.copy_(kept[name])
            self.total.copy_(total)
        return graph.replay

    def _tensors(self) -> list[Tensor]:
        averaged = [] if self.averaged is None else list(self.averaged.parameters())
        scaler = [] if self.scaler is None else list(self.scaler.state().values())
        return [*self.model.parameters(), *averaged, *scaler, self.step]

    def state(self) -> dict[str, Tensor]:
        """All state as named tensors; state that the optimiser has not created yet is left out."""
        results = {f"model.{n}": t for n, t in self.model.state_dict().items()}
        if self.averaged is not None:
            results |= {f"average.{n}": t for n, t in self.averaged.state_dict().items()}
        if self.scaler is not None:
            results |= self.scaler.state()
        if int(self.step):
            results |= self.optimiser.state()
        return results | {"step": self.step}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restores a state."""
        for prefix, module in (("model.", self.model), ("average.", self.averaged)):
            if module is not None:
                module.load_state_dict({n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)})
        for name, tensor in self.scaler.state().items() if self.scaler else ():
            tensor.copy_(state[name])
        self.step.copy_(state["step"])
        if int(self.step):
            self.optimiser.load(state)


def build(recipe: Recipe) -> Learner:
    """The untrained model. Its weights depend only on the seed, not on the global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return recipe.make_model().build(recipe.make_task(), recipe.points)


def point_losses(
    recipe: Recipe, kind: str, answers: Tensor, sample: Sample, shape: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """The sum over prompts of the losses at each point, and the number of prompts in it; both `(*shape, k)`, for the
    last k points. The prompts are those of as many batches as `shape` has places, one after the other."""
    k = answers.shape[1]
    clean = recipe.target == "clean" and "clean" in sample.hidden
    target = (sample.hidden["clean"] if clean else sample.ys)[:, -k:]
    if kind == "squared":
        each = (answers - target).square()
    elif kind == "logistic":
        each = F.binary_cross_entropy_with_logits(answers, (target > 0).float(), reduction="none")
    else:
        each = F.cross_entropy(answers.flatten(0, 1), target.flatten(), reduction="none").view_as(target)
    each = each.flatten(2).mean(2) if each.ndim == 3 else each
    scored = torch.ones_like(each) if sample.scored is None else sample.scored[:, -k:].to(each.dtype)
    sums, counts = ((t.unflatten(0, (*shape, -1))) for t in (each * scored, scored))
    return sums.sum(-2), counts.sum(-2)
