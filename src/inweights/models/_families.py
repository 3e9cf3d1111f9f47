"""The proof on every family of transformers' causal language models, at tiny size, with everything random."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from inweights._errors import InputError, unknown
from inweights.models._anatomy import Anatomy, anatomy
from inweights.models._hidden import run
from inweights.models._precision import KeepFloat64
from inweights.models._run import Mode, goals, solve
from inweights.models._stepping import inputs
from inweights.models._tiny import tiny
from inweights.theory import exchanged

EXACT, CONTROL, SEEDS, TOKENS, STATIC = 1e-9, 0.1, 3, 20, 8


@dataclass(frozen=True)
class Family:
    """What was found for one family: the worst over all seeds.

    - `status`: `exact` (both modes), `token-only`, `static-only`, `not-exact`, or `not-built`.
    - `token_error`, `static_error`: largest logit errors, on the last token, and on 8 query tokens at once.
    - `control`: the *smallest* logit error of the model without the changes, over modes and seeds.
    - `cast_error`: the token error where the family's own casts to float32 are let through; `casts` how many.
    - `reason`: why it is not exact, or not built.
    """

    model_type: str
    status: str
    token_error: float | None = None
    static_error: float | None = None
    control: float | None = None
    error: float | None = None
    casts: int = 0
    cast_error: float | None = None
    inputs: int = 0
    tail: str = ""
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def family_names() -> list[str]:
    """All entries of the mapping."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def families(
    wanted: Iterable[str] = (), *, seeds: int = SEEDS, after: Callable[[Family], None] | None = None
) -> list[Family]:
    """Proves each family in turn; `after` is called with each result."""
    known = family_names()
    chosen = list(wanted) or known
    for name in chosen:
        if name not in known:
            raise unknown("family", name, known)
    found = []
    for name in chosen:
        found.append(prove(name, seeds))
        if after:
            after(found[-1])
    return found


def prove(name: str, seeds: int = SEEDS) -> Family:
    """Token and static mode over some seeds, in float64."""
    token, static, controls, cast = [0.0], [0.0], [float("inf")], [0.0]
    seen: Anatomy | None = None
    for seed in range(seeds):
        try:
            model = tiny(name, seed)
        except InputError as error:
            return Family(name, "not-built", reason=str(error))
        try:
            seen = anatomy(model)
            for mode, errors, count in (("token", token, 1), ("static", static, STATIC)):
                off, bare = errors_of(model, seen, mode, count)  # type: ignore[arg-type]
                errors.append(off)
                controls.append(bare)
            if seed == 0 and seen.casts:
                cast.append(errors_of(model, seen, "token", 1, keep=False)[0])
        except Exception as error:  # a table of 183 models must not stop at the first surprise
            said = (str(error).strip().splitlines() or [""])[0]
            return Family(name, "not-exact", reason=f"{type(error).__name__}: {said}"[:200])
    worst = (max(token), max(static), min(controls))
    good = [error <= EXACT and worst[2] > CONTROL for error in worst[:2]]
    status = {(True, True): "exact", (True, False): "token-only", (False, True): "static-only"}.get(
        (good[0], good[1]), "not-exact"
    )
    assert seen is not None
    last = seen.blocks[-1]
    reason = "; ".join(sorted({b.reason for b in seen.blocks if b.reason}))
    return Family(
        name, status, *worst, max(worst[:2]), seen.casts, max(cast) or None, len(last.inputs), last.tail, reason
    )  # fmt: skip


def errors_of(model: nn.Module, seen: Anatomy, mode: Mode, count: int, *, keep: bool = True) -> tuple[float, float]:
    """The largest logit error on `count` query tokens after a context, with the changes and without."""
    device = next(model.parameters()).device
    ids = ((torch.arange(TOKENS) * 5 + 35) % 90 + 3).unsqueeze(0).to(device)
    rows = torch.arange(TOKENS - count, TOKENS, device=device)
    left, own = ids[:, TOKENS - count :], torch.arange(count, device=device)
    with torch.no_grad(), KeepFloat64() if keep else nullcontext():
        wanted, prompted = goals(model, seen, ids, rows)
        blocks = solve(model, seen, wanted, left, rows.unsqueeze(0), own, mode)
        new: dict[str, torch.Tensor] = {}
        for b in blocks:
            new.update((b if mode == "static" else b.at(0)).parameters(model))
        again = inputs(model, left, rows.unsqueeze(0))
        bare = run(model, left, **again)[0]
        with exchanged(model, new):
            patched = run(model, left, **again)[0]
    return float((patched - prompted).abs().max()), float((bare - prompted).abs().max())
