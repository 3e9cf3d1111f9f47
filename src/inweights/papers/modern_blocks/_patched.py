"""Tests of patches: on random models of a family, and on SmolLM2 token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

from inweights.ledger import Trial
from inweights.models import Goal, Model, Patch, Prompt, goals, patch, plain, solving, tiny, verify
from inweights.running import full_precision, hidden, inputs, run, with_hidden
from inweights.theory import exchanged

TOKENS = 20
PROMPTS = (
    "Write a single-sentence weather forecast for Mars, from the perspective of a slightly annoyed robot:",
    "Constraint: No 'e's. Topic: The meaning of life. Length: Exactly 20 words. Write:",
    "Explain what a 'bug' is in computer programming, but explain it to a 16th-century medieval peasant. Use 20 words "
    "or less:",
    "Topic: Three siblings named Jack, Fred, and Alice. Task: Write one 5-7-5 haiku about them:",
    "We can absorb the impact of a prompt for a modern language model such as Gemma into the MLP weights. Write a "
    "two-line rhyming couplet about this fact:",
)
"""The five prompts of the paper's experiments, verbatim."""


def random_model(trial: Trial, family: str, change: Callable[[nn.Module], None] = lambda net: None) -> Model:
    """A small model of a family, every parameter random, float64; `change` may modify it first."""
    net = tiny(family, trial.seed)
    with torch.no_grad():
        change(net)
    return Model(net.to(trial.device))


def random_ids(trial: Trial, count: int) -> Tensor:
    """Texts of `TOKENS` random tokens, `(count, TOKENS)`."""
    return torch.randint(3, 99, (count, TOKENS), generator=trial.generator())


def last_token(model: Model, ids: Tensor) -> Prompt:
    """All but the last token of a text `(n,)` as the context of the last one."""
    return Prompt(model, ids[:-1], ids[-1:])


def input_side(made: Patch) -> Patch:
    """The same patch without its output controls."""
    return replace(made, blocks=tuple(replace(b, added={}, moved={}) for b in made.blocks))


def family_errors(trial: Trial, *families: str) -> tuple[Tensor, Tensor]:
    """The largest logit error of the patched model for each family and text, and the same without output controls."""
    errors, controls = [], []
    for family in families:
        model = random_model(trial, family)
        for ids in random_ids(trial, trial.size(2, 8)):
            prompt = last_token(model, ids)
            made = patch(prompt)
            errors.append(verify(prompt, made).max_abs_logit_error)
            controls.append(verify(prompt, input_side(made)).max_abs_logit_error)
    return torch.tensor(errors, dtype=torch.float64), torch.tensor(controls, dtype=torch.float64)


@dataclass(frozen=True)
class Replayed:
    """The errors of a greedy continuation with a new patch for each token. All `(tokens,)`.

    - `error`, `bare_error`: largest logit errors of the patched and of the unchanged model, both on the current token
      alone.
    - `match`, `bare_match`: whether the most likely next token is that of the prompted model.
    """

    error: Tensor
    bare_error: Tensor
    match: Tensor
    bare_match: Tensor


@cache
def _prompted(model: Model, text: str, tokens: int) -> tuple[Tensor, Tensor, dict[str, Goal], Tensor]:
    """The ids of a text and of the greedy tokens that follow, `(1, n + tokens)`. For the last token of the text and all
    tokens after it but the last: the logits `(tokens, vocabulary)` of each alone, at its position; the outputs of every
    block for them in the text, and their logits there."""
    ids = torch.tensor([model.tokenizer(text)["input_ids"]], device=model.device)
    n = ids.shape[1]
    at = torch.arange(n, device=ids.device).unsqueeze(0)
    with torch.no_grad(), full_precision(model.model):
        outputs = plain(model.model, ids, at, tokens)
        ids = torch.cat([ids, torch.tensor([outputs], device=ids.device)], 1)
        rows = torch.arange(n - 1, n - 1 + tokens, device=ids.device)
        alone = ids[0, rows].unsqueeze(1)
        bare = run(model.model, alone, **inputs(model.model, alone, rows.unsqueeze(1)))[:, -1]
        return ids, bare, *goals(model.model, model.anatomy, ids[:, :-1], rows)


@cache
def replayed(model: Model, text: str, tokens: int, inversion: Literal["best", "naive", "stable"] = "best") -> Replayed:
    """For each token of the prompted model's greedy continuation: everything before it is folded, and the model runs on
    that token alone, at its position. The history is always that of the prompted model.

    Every block is solved on the actual output of the patched blocks before it (Algorithm 1 of the paper), so that the
    run that solves a patch is that of the patched model. For the first token the finished patch is applied to the
    model, to verify that. `inversion` is the way in which a norm on the branch is inverted; it has no effect on blocks
    without one.
    """
    net, (ids, alone, wanted, logits) = model.model, _prompted(model, text, tokens)
    own = torch.zeros(1, dtype=torch.long, device=ids.device)
    results = []
    for i, (outputs, bare) in enumerate(zip(logits, alone, strict=True)):
        at = ids.shape[1] - tokens - 1 + i
        now = ids[:, at : at + 1]
        extra = inputs(net, now, torch.tensor([[at]], device=ids.device))
        goal = {name: each.at(i) for name, each in wanted.items()}
        with torch.no_grad(), full_precision(model.model):
            with solving(net, model.anatomy, goal, own, "token", inversion, measure=False) as blocks:
                patched = run(net, now, **extra)[0, -1]
            if i == 0:
                with exchanged(net, {k: v for b in blocks for k, v in b.at(0).parameters(net).items()}):
                    again = run(net, now, **extra)[0, -1]
                if float((again - patched).abs().max()) > 1e-5 * float(outputs.abs().max()):
                    raise RuntimeError("the patched model's logits are not those of the run that solved its patch")
        best = outputs.argmax()
        off = [float((x - outputs).abs().max()) for x in (patched, bare)]
        results.append([*off, *(float(x.argmax() == best) for x in (patched, bare))])
    return Replayed(*torch.tensor(results, dtype=torch.float64).unbind(1))


@contextmanager
def disturbed(model: Model, seed: int, size: float) -> Iterator[list[Tensor]]:
    """While active, every coordinate of a block's output has a random relative error, normal with standard deviation
    `size` and determined by the seed. Yields a list that receives the blocks' outputs."""
    generator = torch.Generator().manual_seed(seed)
    outputs: list[Tensor] = []

    def hook(module: nn.Module, args: object, out: object) -> object:
        h = hidden(out)
        noise = torch.randn(h.shape, generator=generator, dtype=torch.float64).to(h)
        outputs.append(h * (1 + size * noise))
        return with_hidden(out, outputs[-1])

    handles = [model.model.get_submodule(b.name).register_forward_hook(hook) for b in model.anatomy.blocks]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Errors:
    """Relative errors of the stream after each block and of the logits, `(draws, blocks + 1)`, if the outputs of all
    blocks are perturbed by a draw: with patches solved on streams with the same draw (`own`), on unperturbed streams
    (`ideal`), and on streams with another draw (`foreign`)."""

    own: Tensor
    ideal: Tensor
    foreign: Tensor


def disturbed_errors(prompt: Prompt, size: float, seeds: Sequence[int]) -> Errors:
    """The errors of a patched model under perturbations of a size, one draw for each seed. The foreign patch of a draw
    is that of the next draw."""
    model, net, anatomy = prompt.model, prompt.model.model, prompt.model.anatomy
    own, rows = prompt.reduced_ids, prompt.reduced_rows
    again = inputs(net, own, prompt.reduced_positions)
    with torch.no_grad(), full_precision(model.model):
        wanted, logits = goals(net, anatomy, prompt.ids, prompt.query_rows)

        def changed(seed: int | None) -> dict[str, Tensor]:
            # Hooks run in order of registration: the noise is added after the patch of each block.
            with (
                solving(net, anatomy, wanted, rows, "token", measure=False) as blocks,
                disturbed(model, seed or 0, 0.0 if seed is None else size),
            ):
                run(net, own, **again)
            return {name: value for b in blocks for name, value in b.at(0).parameters(net).items()}

        def errors(new: dict[str, Tensor], seed: int) -> Tensor:
            with exchanged(net, new), disturbed(model, seed, size) as outputs:
                last = run(net, own, **again)[0, rows]
            pairs = [(h[0, rows], wanted[b.name].output) for h, b in zip(outputs, anatomy.blocks, strict=True)]
            return torch.stack([((a - b).norm() / b.norm()).double().cpu() for a, b in [*pairs, (last, logits)]])

        mine, foreign = [], []
        for i, seed in enumerate(seeds):
            new = changed(seed)  # copies of all weights: one set at a time
            mine.append(errors(new, seed))
            foreign.append(errors(new, seeds[i - 1]))
        clean = changed(None)
        ideal = [errors(clean, seed) for seed in seeds]
    return Errors(torch.stack(mine), torch.stack(ideal), torch.stack([*foreign[1:], foreign[0]]))
