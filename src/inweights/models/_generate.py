"""Generating with the context in the weights: a new patch for every token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError, out_of_memory
from inweights.models._patch import TOLERANCE, Patch, solved
from inweights.models._prompt import Prompt
from inweights.models._twin import joined, twins
from inweights.running import full_precision, inputs, run, signature, step, steppable, takes_positions

After = Callable[[str, int, int], None]
"""Called with the name of the stream (prompted, bare or patched), the number of tokens before, and the token."""


Each = Callable[[int, int], None]
"""The same for one stream."""


_ALONE = "its patched stream does not run beside the prompted one."


def _nothing(place: int, token: int) -> None:
    pass


def _silent(who: str, place: int, token: int) -> None:
    pass


@dataclass(frozen=True)
class Generated:
    """Token ids of three continuations, greedy: with the context, without it, and with the weights in its place."""

    prompted: list[int]
    bare: list[int]
    patched: list[int]

    @property
    def matching(self) -> float:
        """The fraction of positions at which the prompted and the patched tokens are equal."""
        return sum(a == b for a, b in zip(self.prompted, self.patched, strict=True)) / max(1, len(self.prompted))


def generate(
    prompt: Prompt, new_tokens: int = 20, *, cached: bool = True, strength: float = 1.0, after: After = _silent
) -> Generated:
    """Prompted, bare and patched continuations.

    `cached` runs prompted and patched stream side by side over one cache, the updates acting as factors. Otherwise,
    and where a model's blocks do not allow that, everything is recomputed for every token: the whole text before the
    current token is folded, and the plain model runs on that token alone with changed parameters. `after` is called
    with each generated token: its stream, position and id; a repeated position replaces the earlier token.
    `strength` multiplies every update of the patched stream, block by block: 0 is the bare model, 1 the prompted one,
    and in between each block closes this share of what is left between the two.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2", dtype="float64")
    prompt = iw.Prompt(m, context="My name is Bob. ", query="I am")
    texts = iw.generate(prompt, new_tokens=2)
    print(texts.patched == texts.prompted)
    # prints True
    ```
    """
    if new_tokens < 1:
        raise InputError(f"`new_tokens` is {new_tokens}, but must be at least 1.")
    if prompt.ids.shape[1] + new_tokens > prompt.model.window:
        raise InputError(f"The text would have more than the {prompt.model.window} tokens that the model reads.")
    model, net = prompt.model, prompt.model.model

    def by(who: str) -> Each:
        return lambda place, token: after(who, place, token)

    with torch.no_grad(), full_precision(model.model):
        everything = torch.arange(prompt.ids.shape[1], device=prompt.ids.device).unsqueeze(0)
        steps = not steppable(net, prompt.ids)
        prompted = plain(net, prompt.ids, everything, new_tokens, steps, by("prompted"))
        bare = plain(net, prompt.reduced_ids, prompt.reduced_positions, new_tokens, steps, by("bare"))
        side_by_side = cached and steps and not twins(model.anatomy, net) and takes_positions(net)
        patched = patched_cached(prompt, new_tokens, by("patched"), strength) if side_by_side else None
    if patched is None and strength != 1:
        raise InputError(f"`strength` is {strength:g}, but for this model only 1 is possible: {_ALONE}")
    if patched is None:
        patched = patched_anew(prompt, new_tokens, by("patched"))
    return Generated(prompted, bare, patched)


def generated_verdict(prompt: Prompt, result: Generated) -> str:
    """`PASS`, `FAIL` or `INCONCLUSIVE`: whether the patched model generates what the prompted one does.

    The first token that differs decides, as all behind it follow from it: it passes if the prompted model's own logits
    of both tokens are no further apart than `verify` tolerates, because rounding then chooses between them. In low
    precision rounding may choose anywhere, and only if no token at all is equal that is a failure.
    """
    pairs = list(zip(result.prompted, result.patched, strict=True))
    apart = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if apart is None:
        return "PASS"
    model, net = prompt.model, prompt.model.model
    tolerance = TOLERANCE.get(model.dtype)
    if tolerance is None:
        return "INCONCLUSIVE" if result.matching > 0 else "FAIL"
    ids = torch.cat([prompt.ids, torch.tensor([result.prompted[:apart]], device=prompt.ids.device).long()], 1)
    with torch.no_grad(), full_precision(net):
        logits = run(net, ids, last=1, **inputs(net, ids, None))[0, -1]
    chosen, other = pairs[apart]
    return "PASS" if float(logits[chosen] - logits[other]) <= tolerance else "FAIL"


def plain(
    net: nn.Module, ids: Tensor, positions: Tensor, new_tokens: int, cached: bool = True, after: Each = _nothing
) -> list[int]:
    """Greedy tokens of the model as it is; without a cache where the model's cannot be stepped over."""
    cache: dict[str, Any] = {}
    generated: list[int] = []
    seen = 0
    for _ in range(0 if cached else new_tokens):
        generated.append(int(run(net, ids, last=1, **inputs(net, ids, positions))[0, -1].argmax()))
        after(len(generated) - 1, generated[-1])
        ids = torch.cat([ids, torch.tensor([generated[-1:]], device=ids.device)], 1)
        positions = torch.cat([positions, positions[:, -1:] + 1], 1)
    for _ in range(new_tokens if cached else 0):
        seen += ids.shape[1]
        logits, cache = step(net, ids, positions, seen, cache)
        ids = logits[:, -1:].argmax(-1)
        positions = positions[:, -1:] + 1
        generated.append(int(ids))
        after(len(generated) - 1, generated[-1])
    return generated


def patched_cached(prompt: Prompt, new_tokens: int, after: Each = _nothing, strength: float = 1.0) -> list[int] | None:
    """Greedy tokens of the patched stream, beside the prompted one in a batch of two.

    `None` where that does not work: some models make NaN of rows that see nothing, as the masked tokens of row 1 do.
    """
    net, n = prompt.model.model, prompt.ids.shape[1]
    seen = torch.ones(2, n, dtype=torch.long, device=prompt.ids.device)
    seen[1] = 0
    seen[1, prompt.left] = 1
    ids = prompt.ids.expand(2, -1)
    positions = torch.arange(n, device=ids.device).expand(2, -1).clone()
    positions[1, prompt.left] = prompt.reduced_positions[0]
    rows = slice(prompt.context_tokens, None)
    cache: Any = None
    keep: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in signature(net) else {}
    generated: list[int] = []
    for _ in range(new_tokens):
        try:
            with joined(net, prompt.model.anatomy, rows, strength):
                out = net(
                    input_ids=ids,
                    position_ids=positions,
                    attention_mask=seen,
                    past_key_values=cache,
                    use_cache=True,
                    **keep,
                )
        except (RuntimeError, AttributeError, TypeError, ValueError) as error:
            if out_of_memory(error):  # recomputing everything instead would be far slower, and need as much
                raise
            return None  # an input that cannot be used at all is refused there, too
        if not bool(out.logits[:, -1].isfinite().all()):
            return None
        cache = out.past_key_values
        generated.append(int(out.logits[1, -1].argmax()))
        after(len(generated) - 1, generated[-1])
        ids = torch.full((2, 1), generated[-1], device=ids.device)
        positions = positions[:, -1:] + 1
        seen = torch.cat([seen, seen.new_ones(2, 1)], 1)
        rows = slice(0, 1)
    return generated


def patched_anew(prompt: Prompt, new_tokens: int, after: Each = _nothing) -> list[int]:
    """Greedy tokens of the plain model on the current token alone, its parameters changed for that token."""
    model, net = prompt.model, prompt.model.model
    ids = prompt.ids
    generated: list[int] = []
    for _ in range(new_tokens):
        now = Prompt(model, ids[:, :-1], ids[:, -1:], positions=prompt.positions)
        # The amplification is not used here, and measuring it costs one more run.
        made = Patch("token", solved(now, "token", measure=False), 1, model.fingerprint)
        with made.applied(model):
            logits = run(net, now.reduced_ids, last=1, **inputs(net, now.reduced_ids, now.reduced_positions))
        generated.append(int(logits[0, -1].argmax()))
        after(len(generated) - 1, generated[-1])
        ids = torch.cat([ids, torch.tensor([[generated[-1]]], device=ids.device)], 1)
    return generated
