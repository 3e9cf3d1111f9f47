"""SimAOU, SimAM and SimAM_Δ of arXiv 2311.07772: does gradient descent change attention as demonstrations do?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from inweights._errors import InputError
from inweights.compare._predict import Forward
from inweights.compare._shots import Shots
from inweights.models import Model
from inweights.running import full_precision, hidden, hooked


class Scores(TorchFunctionMode):
    """While active, notes the attention scores of the last token before the softmax, `(heads, tokens)`, of each
    attention, whether it is torch's own function or a softmax over four dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func is F.scaled_dot_product_attention:
            q, k = (named.get(name, args[i] if i < len(args) else None) for i, name in enumerate(("query", "key")))
            assert isinstance(q, Tensor)
            assert isinstance(k, Tensor)
            keys = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
            scale = named.get("scale") or q.shape[-1] ** -0.5
            self.rows.append((q[0, :, -1:] @ keys[0].mT).squeeze(1).detach() * scale)
        elif func in (F.softmax, torch.softmax, torch.Tensor.softmax) and args[0].ndim == 4:
            self.rows.append(args[0][0, :, -1].detach())
        return func(*args, **named)


@dataclass(frozen=True, eq=False)
class Attended:
    """What attention did at the last token of a text: its outputs `(layers, width)`, and its scores on the last tokens
    of the text, those of the query, `(layers, heads, tokens)`."""

    outputs: Tensor
    scores: Tensor


def attention_modules(model: Model) -> list[nn.Module]:
    """The attention of each block: its first submodule that is called so."""
    results = []
    for name in model.anatomy.names:
        inner = [m for m in model.model.get_submodule(name).modules() if "Attention" in type(m).__name__]
        if not inner:
            raise InputError(f"No attention was found in the block {name} of this model.")
        results.append(inner[0])
    return results


@torch.no_grad()
def attended(model: Model, text: Sequence[int], last: int, forward: Forward | None = None) -> Attended:
    """What attention does at the end of a text whose `last` tokens are the query."""
    outputs: list[Tensor] = []

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        outputs.append(hidden(out)[0, -1])

    net, modules = model.model, attention_modules(model)
    ids = torch.tensor([list(text)], device=model.device)
    with hooked(after=[(m, note) for m in modules]), full_precision(net), Scores() as scores:
        (forward or net)(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
    if len(scores.rows) != len(modules):
        raise InputError("The attention of this model does not show its scores: it needs torch's or an eager one.")
    return Attended(torch.stack(outputs), torch.stack(scores.rows)[..., -last:])


def similarity(
    model: Model, shown: Shots, order: Sequence[int], forward: Forward, queries: int
) -> dict[str, list[float]]:
    """The three similarities for each of some queries, means over layers (and heads).

    - `aou`: `cos(h_ICL − h_ZS, h_FT − h_ZS)` of attention outputs at the last token. Nothing is normalised before the
      difference, which would raise it.
    - `am`: the cosine of attention scores on the query's tokens, in context and after descent.
    - `am_delta`: the same of the scores less those of the model without demonstrations.

    `forward` runs the model after gradient descent.
    """
    prefix = shown.prefix(order)
    results: dict[str, list[float]] = {"aou": [], "am": [], "am_delta": []}
    for query in shown.queries[:queries]:
        bare, n = (*shown.before, *query), len(query)
        icl, zero = attended(model, (*prefix, *query), n), attended(model, bare, n)
        tuned = attended(model, bare, n, forward)
        pairs = {
            "aou": (icl.outputs - zero.outputs, tuned.outputs - zero.outputs),
            "am": (icl.scores, tuned.scores),
            "am_delta": (icl.scores - zero.scores, tuned.scores - zero.scores),
        }
        for name, (one, other) in pairs.items():
            results[name].append(float(F.cosine_similarity(one.double(), other.double(), dim=-1).mean()))
    return results
