"""Prompt to weights: the updates of a context, token by token, their proof, and four continuations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.app._limits import LayerRequest, PromptRequest
from inweights.app._worker import Desk, Tell
from inweights.folding import load_fold
from inweights.models import (
    Model,
    Patch,
    Prompt,
    generate,
    generated_verdict,
    patch,
    plain,
    step_alignment,
    trace,
    verify,
)

ALIGNED = 24
"""Query tokens whose updates are compared with each other, the last ones."""
SPECTRUM = 32
"""Singular values that are returned."""


def prompt(request: PromptRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """Everything about one prompt; the map and the proof are sent as soon as they are computed."""
    tell.progress("loading the model")
    model = desk.model(request.model, request.dtype)
    asked = Prompt(model, request.context, request.query, chat=request.chat)
    _require_window(asked, request.new_tokens)
    tell.news("tokens", **_tokens(asked))
    tell.progress("updates, token by token")
    made = patch(asked)
    desk.last["patch"] = (_key(request), asked, made)
    path = trace(asked, made=made)
    heat = {
        "tokens": texts(model, _folded_ids(asked)), "layers": path.layers, "norms": rounded(path.norms),
        "totals": rounded(path.totals), "seconds": path.seconds,
    }  # fmt: skip
    tell.news("heat", **heat)
    tell.progress("proof")
    proof = verify(asked, made).as_json() | {"warnings": made.warnings, "exact": made.exact, "bytes": made.nbytes}
    proof["blocks"] = [
        {k: row[k] for k in ("block", "rank", "amplification", "exact", "residual")} for row in made.report()
    ]
    tell.news("proof", **proof)
    written = _continued(asked, request, tell, desk)
    return {"heat": heat, "proof": proof, "texts": written}


def layer(request: LayerRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """The update of one block: how alike the step of one context token is to those of the others; its size for each
    query token, how alike these are, and its spectrum as one change."""
    tell.progress("the update of this layer")
    key = _key(request)
    if desk.last.get("patch", ("",))[0] != key:
        asked = Prompt(desk.model(request.model, request.dtype), request.context, request.query, chat=request.chat)
        desk.last["patch"] = (key, asked, patch(asked))
    _, asked, made = desk.last["patch"]
    if request.layer >= len(made.blocks):
        raise InputError(f"`layer` is {request.layer}, but the model has {len(made.blocks)}.")
    if request.token >= asked.folded_tokens:
        raise InputError(f"`token` is {request.token}, but the context has {asked.folded_tokens}.")
    if desk.last.get("static", ("",))[0] != key:
        desk.last["static"] = (key, patch(asked, "static"))
    static: Patch = desk.last["static"][1]
    model, block, whole = asked.model, made.blocks[request.layer], static.blocks[request.layer]
    first = max(0, asked.asked - ALIGNED)
    changes = [block.at(i).changes(model.model) for i in range(first, asked.asked)]
    updates = [c.updates[0] for c in changes]
    name = updates[0].name
    size = float(model.model.get_parameter(name).detach().norm())
    singular = {u.name: rounded(u.singular_values()[:SPECTRUM]) for u in whole.changes(model.model).updates}
    ids = asked.ids[0, asked.query_rows].tolist()
    return {
        "layer": request.layer,
        "report": made.report()[request.layer],
        "matrix": name,
        "norm": float(updates[-1].frobenius()),
        "relative": [float(u.frobenius()) / size for u in updates],
        "alignment": [[float(a.alignment(b)) for b in updates] for a in updates],
        "tokens": texts(model, ids[first:]),
        "token": request.token,
        "steps": rounded(step_alignment(asked, request.layer, made=made)[request.token]),
        "spectrum": singular,
        "static": static.report()[request.layer],
    }


def _continued(asked: Prompt, request: PromptRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """The four continuations, sent token by token; the strength multiplies the updates and the adapter."""
    model, tok = asked.model, asked.model.tokenizer
    ids: dict[str, list[int]] = {}

    def after(who: str, place: int, token: int) -> None:
        ids[who] = [*ids.get(who, [])[:place], token]
        tell.news("text", who=who, text=tok.decode(ids[who]), place=place)

    tell.progress("continuations")
    result = generate(asked, request.new_tokens, strength=request.strength, after=after)
    verdict = generated_verdict(asked, result) if request.strength == 1 else None
    if request.fold is not None:
        shifted = torch.arange(asked.reduced_ids.shape[1], device=asked.ids.device).unsqueeze(0)
        fold = load_fold(desk.root / "folds" / request.fold, model) * request.strength
        with torch.no_grad(), fold.applied(model):
            plain(
                model.model, asked.reduced_ids, shifted, request.new_tokens,
                after=lambda place, token: after("folded", place, token),
            )  # fmt: skip
    final = {who: tok.decode(tokens) for who, tokens in ids.items()}
    return {"texts": final, "matching": result.matching, "verdict": verdict, "strength": request.strength}


def rounded(values: Tensor) -> Any:
    """Numbers for the page, to six digits."""
    flat = [float(f"{x:.6g}") for x in values.double().flatten().tolist()]
    if values.ndim < 2:
        return flat
    width = values.shape[-1]
    return [flat[i : i + width] for i in range(0, len(flat), width)]


def texts(model: Model, ids: Sequence[int]) -> list[str]:
    """Each token as text."""
    return [model.tokenizer.decode([i]) for i in ids]


def _folded_ids(asked: Prompt) -> list[int]:
    kept = set(asked.left.tolist())
    return [i for place, i in enumerate(asked.ids[0].tolist()) if place not in kept]


def _tokens(asked: Prompt) -> dict[str, Any]:
    return {"folded": asked.folded_tokens, "query": asked.asked, "total": int(asked.ids.shape[1])}


def _key(request: PromptRequest) -> str:
    return repr((request.model, request.dtype, request.context, request.query, request.chat))


def _require_window(asked: Prompt, new: int) -> None:
    total = int(asked.ids.shape[1]) + new
    if total > asked.model.window:
        raise InputError(f"Prompt and answer have {total} tokens, but the model reads {asked.model.window}.")
