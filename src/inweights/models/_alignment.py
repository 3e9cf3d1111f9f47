"""How alike the steps are by which context tokens move the weights of one block."""

from __future__ import annotations

from torch import Tensor

from inweights._errors import InputError
from inweights.models._patch import Patch
from inweights.models._prompt import Prompt
from inweights.models._trace import factors, staircase


def step_alignment(prompt: Prompt, layer: int, *, made: Patch | None = None) -> Tensor:
    """Cosines between the steps `ΔW_{i+1} − ΔW_i` of a block's input update, `(folded tokens, folded tokens)`.

    1 is a token that moves the weights in the same direction as another, −1 one that undoes it, 0 one that has nothing
    to do with it; the steps are those of `trace`, and `made` is used as there.
    """
    results, blocks, _ = factors(prompt, staircase(prompt), made=made)
    if not 0 <= layer < len(blocks):
        raise InputError(f"`layer` is {layer}, but the model has {len(blocks)}, counted from 0.")
    u, v = (t.double() for t in results["input"][layer])
    # Step i is du v1ᵀ + u0 dvᵀ: no large numbers are subtracted from each other.
    (u0, du), (v1, dv) = (u[:-1], u.diff(dim=0)), (v[1:], v.diff(dim=0))
    crossed = (du @ u0.mT) * (v1 @ dv.mT)
    inner = (du @ du.mT) * (v1 @ v1.mT) + (u0 @ u0.mT) * (dv @ dv.mT) + crossed + crossed.mT
    size = inner.diagonal().clamp_min(0).sqrt().clamp_min(1e-300)
    return inner / size.unsqueeze(0) / size.unsqueeze(1)
