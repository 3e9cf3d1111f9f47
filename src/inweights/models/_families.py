"""The proof on every family of transformers' causal language models, tiny and deep."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from inweights._errors import InputError, unknown
from inweights.models._anatomy import Anatomy, anatomy
from inweights.models._realistic import deep, stream_norms
from inweights.models._run import Mode, goals, solve_patches
from inweights.models._tiny import probe, tiny
from inweights.running import KeepFloat64, inputs, run
from inweights.theory import exchanged

Depth = Literal["tiny", "deep"]
SEEDS, STATIC = 3, 8
CONTROL, SHARE = 0.1, 1e-2
TOLERANCE: dict[Depth, float] = {"tiny": 1e-9, "deep": 1e-8}
"""Largest logit errors that count as exact; at deep size relative to the largest logit, where that is above 1."""
DRAWS = 20


@dataclass(frozen=True)
class Family:
    """The result for one family: the worst over all seeds.

    - `status`: `exact` (both modes), `token-only`, `static-only`, `not-exact`, or `not-built`.
    - `token_error`, `static_error`: largest logit errors, on the last token, and on 8 query tokens at once.
    - `control`: the *smallest* logit error of the model without the changes, over modes and seeds.
    - `token_largest`, `static_largest`: the largest logit beside these errors, by which they are judged at deep size.
    - `amplification`: the largest of any block in token mode: `‖δ_out‖/‖δ_in‖`, see `BlockPatch`; `None` where it could
      not be measured.
    - `float32_token_error`, `float32_static_error`: the same errors with weights and activations in float32.
    - `stream_norms`: whether the whole stream passes through norms of its blocks, which at deep size then have scales
      up to 4 instead of 1,000.
    - `draws`: how many deep models were drawn for one whose logits depend on the context, the most of any seed.
    - `cast_error`: the token error where the family's own casts to float32 are let through; `casts` how many.
    - `blocks`, `inputs`, `tail`: how many blocks; of the last one, its input controls and what follows its sum.
    - `reason`: why it is not exact, or not built.
    """

    model_type: str
    status: str
    token_error: float | None = None
    static_error: float | None = None
    control: float | None = None
    error: float | None = None
    token_largest: float | None = None
    static_largest: float | None = None
    amplification: float | None = None
    float32_token_error: float | None = None
    float32_static_error: float | None = None
    stream_norms: bool | None = None
    draws: int | None = None
    casts: int = 0
    cast_error: float | None = None
    blocks: int = 0
    inputs: int = 0
    tail: str = ""
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """One proof: logit errors with the changes and without, the largest logit, the largest amplification."""

    error: float
    control: float
    largest: float
    amplification: float | None
    reason: str = ""

    def tolerance(self, depth: Depth) -> float:
        return TOLERANCE[depth] * (max(1.0, self.largest) if depth == "deep" else 1.0)

    def exact(self, depth: Depth) -> bool:
        """Whether the error is rounding, and the control shows that an error would have been visible."""
        if depth == "tiny":
            return self.error <= self.tolerance(depth) and self.control > CONTROL
        return self.error <= self.tolerance(depth) and self.control > SHARE * max(1.0, self.largest)


def family_names() -> list[str]:
    """All entries of the mapping."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def families(
    wanted: Iterable[str] = (),
    *,
    depth: Depth = "tiny",
    seeds: int = SEEDS,
    after: Callable[[Family], None] | None = None,
) -> list[Family]:
    """Proves each family in turn; `after` is called with each result."""
    known = family_names()
    chosen = list(wanted) or known
    for name in chosen:
        if name not in known:
            raise unknown("family", name, known)
    results = []
    for name in chosen:
        results.append(prove(name, seeds, depth))
        if after:
            after(results[-1])
    return results


def prove(name: str, seeds: int = SEEDS, depth: Depth = "tiny") -> Family:
    """Token and static mode over some seeds, in float64; at deep size also in float32."""
    outcomes: dict[str, list[Outcome]] = {"token": [], "static": []}
    rounded: dict[str, list[Outcome]] = {"token": [], "static": []}
    structure, cast_error, draws = None, None, 0
    for seed in range(seeds):
        try:
            model, drawn = (tiny(name, seed), 0) if depth == "tiny" else _lively(name, seed)
        except InputError as error:
            return Family(name, "not-built", reason=str(error))
        try:
            structure = anatomy(model)
        except Exception as error:  # a table of 183 models must not stop at the first surprise
            return Family(name, "not-exact", reason=_reason(error))
        draws = max(draws, drawn)
        for mode, count in (("token", 1), ("static", STATIC)):
            outcomes[mode].append(_tried(model, structure, mode, count))
        if seed == 0 and depth == "tiny" and structure.casts:
            cast_error = _tried(model, structure, "token", 1, keep=False).error
        if depth == "deep":
            low = copy.deepcopy(model).float()
            for mode, count in (("token", 1), ("static", STATIC)):
                rounded[mode].append(_tried(low, structure, mode, count))
    assert structure is not None
    worst = {mode: _worst(each, depth) for mode, each in outcomes.items()}
    token, static = (all(o.exact(depth) for o in each) for each in outcomes.values())
    status = ("exact" if static else "token-only") if token else ("static-only" if static else "not-exact")
    last, everything = structure.blocks[-1], [*outcomes["token"], *outcomes["static"]]
    reasons = [f"{mode}: {o.reason}" for mode, o in worst.items() if o.reason and not o.exact(depth)]
    low_worst = {mode: _worst(each, depth) for mode, each in rounded.items() if each}
    reasons += [f"float32 {mode}: {o.reason}" for mode, o in low_worst.items() if o.error == float("inf")]
    return Family(
        name,
        status,
        worst["token"].error,
        worst["static"].error,
        min(o.control for o in everything),
        max(o.error for o in worst.values()),
        worst["token"].largest,
        worst["static"].largest,
        max((o.amplification for o in outcomes["token"] if o.amplification is not None), default=None),
        low_worst["token"].error if low_worst else None,
        low_worst["static"].error if low_worst else None,
        bool(stream_norms(name)) if depth == "deep" else None,
        draws or None,
        structure.casts,
        cast_error,
        len(structure.blocks),
        len(last.inputs),
        last.tail,
        "; ".join([*sorted({b.reason for b in structure.blocks if b.reason}), *reasons]),
    )


def _worst(outcomes: list[Outcome], depth: Depth) -> Outcome:
    return max(outcomes, key=lambda o: (not o.exact(depth), o.error / o.tolerance(depth)))


def _lively(name: str, seed: int) -> tuple[nn.Module, int]:
    """A deep model whose logits depend on the context, and how many were drawn for it.

    Where attention ignores the context or a massive coordinate hides it, there is no effect that a proof could miss:
    another model is drawn until the context changes the logits by a hundredth of the largest one.
    """
    for draws in range(1, DRAWS + 1):
        model = deep(name, seed + 1000 * (draws - 1))
        if min(_effect(model, count) for count in (1, STATIC)) > SHARE:
            break
    return model, draws


def _effect(model: nn.Module, count: int) -> float:
    """The largest change that the context makes to the logits of the last `count` tokens, relative to the largest logit
    (or to 1); 0 if not finite."""
    ids, rows = _text(model, count)
    left = ids[:, -count:]
    try:
        with torch.no_grad(), KeepFloat64():
            full = run(model, ids, last=count, **inputs(model, ids, None))
            bare = run(model, left, **inputs(model, left, rows.unsqueeze(0)))
    except (RuntimeError, ValueError, IndexError):
        return 0.0
    share = float((full - bare).abs().max() / full.abs().max().clamp_min(1.0))
    return share if share < float("inf") else 0.0


def _text(model: nn.Module, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens of the proof, `(1, n)`, and the rows of the last `count`."""
    ids = probe().to(next(model.parameters()).device)
    return ids, torch.arange(ids.shape[1] - count, ids.shape[1], device=ids.device)


def _tried(model: nn.Module, structure: Anatomy, mode: str, count: int, *, keep: bool = True) -> Outcome:
    try:
        return errors_of(model, structure, mode, count, keep=keep)  # type: ignore[arg-type]
    except Exception as error:
        return Outcome(float("inf"), 0.0, 0.0, None, _reason(error))


def _reason(error: Exception) -> str:
    words = (str(error).strip().splitlines() or [""])[0]
    return (words if isinstance(error, InputError) else f"{type(error).__name__}: {words}")[:240]


def errors_of(model: nn.Module, structure: Anatomy, mode: Mode, count: int, *, keep: bool = True) -> Outcome:
    """The proof on `count` query tokens after a context; `keep` keeps float64 models from casting to float32."""
    if not structure.supported:
        raise InputError("neither a block nor the head can be patched")
    ids, rows = _text(model, count)
    left, own = ids[:, -count:], torch.arange(count, device=ids.device)
    precise = next(model.parameters()).dtype == torch.float64 and keep
    with torch.no_grad(), KeepFloat64() if precise else nullcontext():
        wanted, prompted = goals(model, structure, ids, rows)
        blocks = solve_patches(model, structure, wanted, left, rows.unsqueeze(0), own, mode)
        new: dict[str, torch.Tensor] = {}
        for b in blocks:
            new.update((b if mode == "static" else b.at(0)).parameters(model))
        again = inputs(model, left, rows.unsqueeze(0))
        bare = run(model, left, **again)[0]
        with exchanged(model, new):
            patched = run(model, left, **again)[0]
    outcome = Outcome(
        float((patched - prompted).abs().max().nan_to_num(float("inf"))),
        float((bare - prompted).abs().max()),
        float(prompted.abs().max()),
        max((b.amplification for b in blocks if b.amplification is not None), default=None),
    )
    last = blocks[-1]
    reason = f"logit error {outcome.error:.0e}, largest logit {outcome.largest:.0e}"
    if not last.exact:
        reason = f"the tokens are not independent in {last.block.name} (rank {last.rank} of {count}); {reason}"
    elif outcome.control <= SHARE * max(1.0, outcome.largest):
        reason = f"the context changes the logits by {outcome.control:.0e} only; {reason}"
    return replace(outcome, reason=reason)
