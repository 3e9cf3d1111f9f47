"""Small models of attention alone, trained on repeated sequences, and their heads while they form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab.models import AttentionOnlyModel
from inweights.lab.tasks import Repeats
from inweights.lab.training import Processes, Recipe, Run, build, changed
from inweights.ledger import Trial, kept
from inweights.papers.induction_heads._scores import prefix_matching, repeated

EVERY, COPIES, ROWS = 10, 4, 64
"""Steps between two looks at a training; copies and rows of the sequences that it is looked at with."""


@dataclass(frozen=True, eq=False)
class Formed:
    """A trained model, sequences that it has not seen, and its course: for each look, the best prefix-matching score of
    a head, and the loss on the last copy, in nats."""

    model: AttentionOnlyModel
    tokens: Tensor
    prefix: list[float]
    late: list[float]

    @property
    def steps(self) -> list[int]:
        return [EVERY * (k + 1) for k in range(len(self.prefix))]

    @property
    def nothing(self) -> float:
        """The loss of whoever knows nothing of the context: random tokens have no other regularity."""
        return math.log(len(self.model.embedding))

    @property
    def gain(self) -> float:
        """The nats that the context is worth on the last copy."""
        return self.nothing - self.late[-1]


@cache
def formed(trial: Trial, name: str) -> Formed:
    """The model of a recipe with the seed of a trial, trained once for all claims; two thirds of the steps if quick."""
    recipe = trial.recipe(name)
    recipe = changed(recipe, [f"steps={trial.size(2 * recipe.steps // 3, recipe.steps)}"])
    result = kept(f"{name}-{recipe.steps}-{trial.seed}", lambda: _trained(recipe))
    prefix, late = (result.pop(key).tolist() for key in ("prefix", "late"))
    model = build(recipe)
    model.load_state_dict(result)
    assert isinstance(model, AttentionOnlyModel)
    return Formed(model.eval(), unseen(recipe), prefix, late)


def able(trial: Trial, two: Formed) -> None:
    """Stops a trial if no induction head has formed in two layers."""
    trial.require(two.prefix[-1] >= 0.3, f"no induction head has formed: the best score is {two.prefix[-1]:.2f}")


def unseen(recipe: Recipe) -> Tensor:
    """Sequences to test a model on: different tokens, in as many copies as fit its context four times."""
    task = recipe.make_task()
    assert isinstance(task, Repeats)
    generator = torch.Generator().manual_seed(recipe.seed)
    return repeated(torch.arange(task.vocabulary), recipe.points // COPIES, COPIES, ROWS, generator)


def _trained(recipe: Recipe) -> dict[str, Tensor]:
    """The weights after a training, and its course."""
    run, tokens = Run(recipe, Processes("cpu")), unseen(recipe)
    model = run.model
    assert isinstance(model, AttentionOnlyModel)
    prefix, late = [], []
    for step in range(1, recipe.steps + 1):
        run.advance()
        if step % EVERY == 0:
            prefix.append(prefix_matching(model.patterns(tokens), tokens).max())
            late.append(late_loss(model, tokens))
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    return weights | {"prefix": torch.stack(prefix), "late": torch.tensor(late)}


@torch.no_grad()
def late_loss(model: AttentionOnlyModel, tokens: Tensor, fixed: Tensor | None = None) -> float:
    """The mean loss on the last copy, in nats; `fixed` are attention weights to use."""
    length = tokens.shape[1] // COPIES
    logits = model.run(tokens, fixed=fixed)[:, -length - 1 : -1]
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, -length:].flatten()).item()
