"""Is the update that the demonstrations make implicitly like the one that gradient descent makes?

Both are changes of the same matrices: those that read the MLP's input of each block. The implicit update is the one of
the theorem, exact for one query; that of gradient descent comes from the demonstrations alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from inweights.compare._shots import Shots
from inweights.models import Model, Prompt, patch

DIRECTIONS = 4
"""How many leading directions are compared by principal angles."""


def implicit_changes(model: Model, shown: Shots, order: Sequence[int], query: int) -> dict[str, Tensor]:
    """The exact changes of the matrices that read each MLP's input, by name, which replace the demonstrations in an
    order where this query is asked."""
    prompt = Prompt(model, list(shown.prefix(order)), list(shown.queries[query]))
    new = patch(prompt, "static").parameters(model)
    names = [control.name for block in model.anatomy.blocks for control in block.inputs]
    return {name: (new[name] - model.model.get_parameter(name)).detach() for name in names if name in new}


def aligned(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """For each matrix that both change: the cosine of the changes, and the mean cosine of the principal angles between
    the leading directions that they read (their right singular vectors)."""
    names = [name for name in one if name in other]
    cosines, angles = [], []
    for name in names:
        a, b = one[name].double().cpu(), other[name].double().cpu()
        cosines.append(float((a * b).sum() / (a.norm() * b.norm()).clamp_min(1e-300)))
        angles.append(float(principal(a, b).mean()))
    return {"cosine": cosines, "angles": angles}


def principal(a: Tensor, b: Tensor, directions: int = DIRECTIONS) -> Tensor:
    """The cosines of the principal angles between the leading right singular subspaces of two matrices."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # of the range finder
        Va, Vb = (torch.svd_lowrank(m, q=min(4 * directions, *m.shape))[2][:, :directions] for m in (a, b))
    return torch.linalg.svdvals(Va.mT @ Vb).clamp(max=1.0)


def random_like(changes: Mapping[str, Tensor], seed: int = 0) -> dict[str, Tensor]:
    """Random changes of the same norms: the control, whose cosines are those of chance."""
    generator = torch.Generator().manual_seed(seed)
    made = {name: torch.randn(c.shape, generator=generator, dtype=torch.float64) for name, c in changes.items()}
    return {name: noise * (changes[name].double().norm().cpu() / noise.norm()) for name, noise in made.items()}
