"""The proof: the plain model, other parameters, no hooks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from inweights._draw import Bar, Shown, bars_size, draw_bars
from inweights._errors import InputError
from inweights.models._patch import TOLERANCE, Patch
from inweights.models._prompt import Prompt
from inweights.running import full_precision, inputs, run, step, steppable
from inweights.theory import require_finite

SHARE = 1e-2
STATIC_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}


@dataclass(frozen=True)
class Proof(Shown):
    """How far the patched model, without the folded tokens, is from the prompted one.

    - `max_abs_logit_error`: over all query tokens and the whole vocabulary.
    - `bare_max_abs_logit_error`: the control: the same without the patch. It must be large.
    - `top1_match`: whether the most likely next token is the same at every query token.
    - `verdict`: `PASS`, `FAIL`, or `INCONCLUSIVE` in low precision, where rounding decides.
    """

    max_abs_logit_error: float
    bare_max_abs_logit_error: float
    top1_match: bool
    dtype: str
    layers: int
    tolerance: float
    verdict: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def bars(self) -> list[Bar]:
        """The error, what is allowed, and the control, as a figure shows them."""
        errors = [Bar("patched", self.max_abs_logit_error), Bar("bare (control)", self.bare_max_abs_logit_error)]
        allowed = Bar("allowed", self.tolerance, colour="grey")
        return [errors[0], *([allowed] if self.tolerance else []), replace(errors[1], colour="orange")]

    def _draw(self, axes: Any) -> None:
        draw_bars(axes, self.bars(), "largest difference of a logit from the prompted model", log=True)

    def _size(self) -> tuple[float, float]:
        return bars_size(self.bars())

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("verdict", self.verdict),
            ("largest logit error, patched", f"{self.max_abs_logit_error:.1e}"),
            ("largest logit error, bare (control)", f"{self.bare_max_abs_logit_error:.3g}"),
            ("most likely next tokens equal", "yes" if self.top1_match else "no"),
            ("blocks patched, dtype", f"{self.layers}, {self.dtype}"),
        ]


def verify(prompt: Prompt, patch: Patch) -> Proof:
    """Runs prompted, bare and patched, and compares the logits of all query tokens.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2", dtype="float64")
    prompt = iw.Prompt(m, context="My name is Bob. ", query="I am")
    proof = iw.verify(prompt, iw.patch(prompt))
    print(proof.verdict, proof.max_abs_logit_error < 1e-10 < proof.bare_max_abs_logit_error)
    # prints PASS True
    ```
    """
    model, net = prompt.model, prompt.model.model
    if patch.mode != "static" and patch.tokens != prompt.asked:
        raise InputError(f"This patch was made for {patch.tokens} query tokens, but the query has {prompt.asked}.")
    with torch.no_grad(), full_precision(model.model):
        last = prompt.asked
        prompted = run(net, prompt.ids, last=last, **inputs(net, prompt.ids, None))[0]
        ids, positions = prompt.reduced_ids, prompt.reduced_positions
        bare = run(net, ids, last=last, **inputs(net, ids, positions))[0]
        if patch.mode == "static":
            with patch.applied(model):
                patched = run(net, ids, last=last, **inputs(net, ids, positions))[0]
        else:
            patched = token_by_token(prompt, patch)
    require_finite(prompted=prompted, bare=bare, patched=patched)
    error = _largest(patched - prompted)
    control = _largest(bare - prompted)
    table = STATIC_TOLERANCE if patch.mode == "static" else TOLERANCE
    tolerance = table.get(model.dtype, 0.0)
    # A small error means something only beside a large control: where the context does little, so must the error.
    good = patch.exact and error <= tolerance < control and error <= SHARE * control
    held = "PASS" if good else "FAIL"
    verdict = held if model.dtype in table else "INCONCLUSIVE"
    return Proof(
        error,
        control,
        bool((patched.argmax(-1) == prompted.argmax(-1)).all()),
        str(model.dtype).removeprefix("torch."),
        len(patch.blocks),
        tolerance,
        verdict,
    )


def token_by_token(prompt: Prompt, patch: Patch) -> Tensor:
    """Each query token in turn, with its own parameters, over the cached keys and values of what came before."""
    net, ids, positions = prompt.model.model, prompt.reduced_ids, prompt.reduced_positions
    if prompt.asked == 1 and len(prompt.left) == 1:  # nothing came before: no cache is needed
        with patch.applied(prompt.model, 0):
            return run(net, ids, **inputs(net, ids, positions))[0]
    why = steppable(net, ids)
    if why:
        raise InputError(
            f"This model cannot be run token by token over its cache ({why}): prove a query of one token, or --static."
        )
    before = len(prompt.left) - prompt.asked
    cache: dict[str, Any] = {}
    logits_at = []
    steps = ([(0, before, None)] if before else []) + [(before + i, before + i + 1, i) for i in range(prompt.asked)]
    for start, stop, token in steps:
        if token is None:
            logits, cache = step(net, ids[:, start:stop], positions[:, start:stop], stop, cache)
            continue
        with patch.applied(prompt.model, token):
            logits, cache = step(net, ids[:, start:stop], positions[:, start:stop], stop, cache)
        logits_at.append(logits[0, -1])
    return torch.stack(logits_at)


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max())
