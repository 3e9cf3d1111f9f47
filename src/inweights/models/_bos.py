"""A hint where a tokenizer adds no beginning-of-text token although its model expects one: results are then worse."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from inweights._errors import InputError
from inweights._read import read_json
from inweights.models._model import Model
from inweights.models._prompt import adds_bos, turns

SETTINGS = "tokenizer_config.json"


def bos_hint(model: Model) -> str:
    """The hint about a missing beginning-of-text token, as one sentence; empty if none is missing."""
    tok = model.tokenizer
    if tok is None or tok.bos_token_id is None or adds_bos(tok):
        return ""
    why = _expected(model)
    if not why:
        return ""
    return (
        f"Hint: the tokenizer adds no beginning-of-text token {tok.bos_token!r} to plain text, but {why}. Use the chat "
        "form, or repair it: tok.add_bos_token = True; tok.update_post_processor(); tok.save_pretrained(FOLDER)."
    )


def _expected(model: Model) -> str:
    """The evidence that the model expects the token; empty if there is none."""
    tok = model.tokenizer
    with suppress(InputError):  # of settings that cannot be read
        if model.path and read_json(Path(model.path) / SETTINGS, "The settings").get("add_bos_token") is True:
            return f"its {SETTINGS} asks for it (add_bos_token)"
    return "its chat template begins with it" if template_begins(tok) else ""


def template_begins(tok: Any) -> bool:
    """Whether the chat template begins with a beginning-of-text token, and not with one that marks every turn."""
    try:
        system, user = turns(tok, "x", "y")
    except InputError:  # there is no template, or it takes no system turn
        return False
    return bool(tok.bos_token) and system.startswith(tok.bos_token) and not user.startswith(tok.bos_token)
