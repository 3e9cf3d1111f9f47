"""Fitting one adapter by gradient: to the prompted model's answers, and to the outputs of its blocks.

Context distillation uses the logits alone. Matching the output of every block too gives a gradient with far less noise:
a quarter of the steps reach the same quality (docs/log.md has the numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.folding._draw import Draws
from inweights.folding._examples import Examples
from inweights.folding._graphs import Shape, captured, shapes
from inweights.folding._guard import Guard
from inweights.folding._lora import Lora
from inweights.folding._steps import Divergence, Steps, with_truth
from inweights.folding._teacher import Teacher
from inweights.folding._work import State, adam_tensors, restore_adam
from inweights.models import Model
from inweights.running import at_head, block_outputs, fused_norms, no_cudnn_attention, pick


class Fit:
    """One step of fitting over tensors that stay where they are, so that it can be captured as graphs."""

    def __init__(self, model: Model, examples: Examples, teacher: Teacher, lora: Lora, steps: Steps) -> None:
        self.model, self.teacher, self.lora, self.steps = model, teacher, lora, steps
        whole = examples.batch(list(range(len(examples))))
        self.ids, self.shapes = whole.ids, shapes(whole.real.sum(1).tolist(), examples.answers, steps.graph)
        self.index, self.weights = (t.to(model.device) for t in examples.answer_rows())
        self.tokens, self.sure = (t.to(model.device) for t in examples.answer_tokens())
        self.any_sure = bool(self.sure.any())
        self.rate = torch.zeros((), device=model.device)
        on_gpu = model.device.type == "cuda"
        self.adam = torch.optim.AdamW(
            lora.parameters, lr=self.rate if on_gpu else 0.0, betas=steps.betas, weight_decay=0.0, fused=True,
            **({"capturable": True} if on_gpu else {}),
        )  # fmt: skip
        self.scale = torch.ones((), device=model.device)
        self.gaps = torch.ones((), device=model.device)
        self.loss = torch.zeros((), device=model.device)
        self.skipped = torch.zeros((), dtype=torch.long, device=model.device)
        self.now: tuple[Tensor, ...] = ()
        self.places: dict[Shape, tuple[Tensor, ...]] = {}

    def load(self, chosen: list[int]) -> Shape:
        """Copies a batch to the step's tensors: ids; rows, weights and tokens of the answers; the teacher's states.

        They are no wider than these examples need, and as a graph always the same for batches of one shape.
        """
        some = [self.shapes[i] for i in chosen]
        width, rows = shape = max(w for w, _ in some), max(r for _, r in some)
        at = torch.tensor(chosen, device=self.model.device)
        own = (self.index, self.weights, self.tokens, self.sure, self.teacher.last)
        inner = self.teacher.blocks if self.steps.match else self.teacher.last[:, :0]
        new = (self.ids[at, :width], *(t[at, :rows] for t in (*own, inner)))
        self.now = self.places.setdefault(shape, new) if self.steps.graph else new
        if self.now is not new:
            for to, value in zip(self.now, new, strict=True):
                to.copy_(value)
        return shape

    def terms(self) -> tuple[Tensor, Tensor]:
        """The divergence of the answers, and for each block the mean square of its error, `(blocks,)`."""
        ids, index, weights, tokens, sure, last, inner = self.now

        def both(h: Tensor) -> Tensor:
            own = pick(h, index)
            return torch.cat([own.flatten(0, 1), last.to(own.dtype).flatten(0, 1)])

        def keep(h: Tensor) -> Tensor:
            return pick(h, index) if self.steps.match else h[:0]

        forward = self.lora.merged if self.steps.graph else self.lora.beside
        net, names = self.model.model, self.model.anatomy.names
        with block_outputs(net, names, keep) as outputs, at_head(net, both):
            logits = forward(input_ids=ids, use_cache=False).logits
        student, teacher = logits.chunk(2)
        flat, target = weights.flatten(), teacher.detach()
        if self.any_sure:
            target = with_truth(target, tokens.flatten(), sure.flatten())
        divergence: Tensor = Divergence.apply(student, target, flat, self.steps.focus)
        if not self.steps.match:
            return divergence, divergence.detach().new_zeros(len(outputs))
        missed = (torch.stack(outputs, 2) - inner).float().square().mean(-1).flatten(0, 1)
        return divergence, (flat / flat.sum()) @ missed

    def set_rate(self, rate: float) -> None:
        self.rate.fill_(rate)
        if self.model.device.type != "cuda":
            self.adam.param_groups[0]["lr"] = rate

    def step(self) -> None:
        divergence, missed = self.terms()
        # The last block's output is what the divergence itself measures.
        loss = divergence / self.scale + self.steps.match * (missed / self.gaps)[:-1].mean()
        grads = torch.autograd.grad(loss, self.lora.parameters)
        # A step whose gradient overflows is skipped, on the device: reading the value here would interrupt the graph.
        usable = torch.stack([g.isfinite().all() for g in grads]).all()
        for p, g in zip(self.lora.parameters, grads, strict=True):
            g = torch.where(usable, g, 0.0)
            p.grad = g if p.grad is None else p.grad.copy_(g)
        self.skipped += ~usable
        if self.steps.clip:
            torch.nn.utils.clip_grad_norm_(self.lora.parameters, self.steps.clip)
        self.adam.step()
        self.loss.copy_(divergence.detach())


@no_cudnn_attention()
def fit(
    model: Model,
    examples: Examples,
    teacher: Teacher,
    lora: Lora,
    steps: Steps,
    *,
    seed: int = 0,
    state: State | None = None,
    after: Callable[[int], None] = lambda _: None,
) -> list[float]:
    """Takes the gradient steps; the factors in `lora` are fitted in place. Returns the divergence at every step.

    A `state` is saved now and then; an interrupted fit resumes from it.
    """
    lengths = [len(q) + len(a) for q, a in zip(examples.asked, examples.answers, strict=True)]
    draws = Draws(lengths, steps.batch, seed, examples.times)
    doing = Fit(model, examples, teacher, lora, steps)
    # The value of each term for the bare model, over eight batches: one alone, alike in length, is not representative.
    some = Draws(lengths, steps.batch, seed, examples.times).next(8)
    with torch.no_grad():
        results = []
        for chosen in some:
            doing.load(chosen)
            results.append(doing.terms())
        doing.scale = torch.stack([d for d, _ in results]).mean().clamp_min(1e-6)
        doing.gaps = torch.stack([m for _, m in results]).mean(0).clamp_min(1e-12)
    state = state or State()
    with fused_norms(model.model) if steps.graph else nullcontext():
        replay = captured(doing, draws.size) if steps.graph else lambda shape: doing.step()
    guard = Guard(lora.parameters, float(doing.scale))
    losses = _resumed(state, guard, doing, draws)
    before = len(losses)
    while len(losses) < steps.count:
        some, seen = draws.next(steps.count - len(losses)), []
        for k, chosen in enumerate(some, len(losses)):
            shape = doing.load(chosen)
            doing.set_rate(guard.factor * rate_at(k, steps))
            replay(shape)
            seen.append(doing.loss.clone())
            after(k + 1)
        losses += torch.stack(seen).tolist()
        _require_steps(doing, len(losses) - before)
        guard.look(losses[-len(seen) :], doing.adam)
        if state.due() or len(losses) == steps.count:
            tensors, numbers = guard.state()
            state.keep(tensors | adam_tensors(doing.adam, lora.parameters), numbers | {"losses": losses})
    guard.finish()
    return losses


def _require_steps(doing: Fit, taken: int) -> None:
    """Refuses to go on where every step was left out: the updates would stay zero, however finite the losses are."""
    if int(doing.skipped) == taken:
        kind = str(next(doing.model.model.parameters()).dtype).removeprefix("torch.")
        raise InputError(
            f"The gradient is not finite in any of the first {taken} steps in {kind}, so nothing can be fitted: fold "
            "on --device cpu, or a model that was loaded with attn_implementation='eager'."
        )


def _resumed(state: State, guard: Guard, doing: Fit, draws: Draws) -> list[float]:
    """The divergences of the steps before an interruption; the state after them is restored."""
    kept = state.read()
    if kept is None:
        return []
    tensors, numbers = kept
    losses = list(map(float, numbers.pop("losses")))
    guard.resume(tensors, numbers)
    restore_adam(doing.adam, doing.lora.parameters, tensors)
    drawn = 0
    while drawn < len(losses):
        drawn += len(draws.next(doing.steps.count - drawn))
    return losses


def rate_at(k: int, steps: Steps) -> float:
    """The learning rate of step `k`: a linear warm-up, then a linear decay to 0."""
    return steps.rate * min(1.0, (k + 1) / max(10, steps.count // 20)) * (1 - k / steps.count)
