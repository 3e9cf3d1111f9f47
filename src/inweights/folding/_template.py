"""Chat templates that add a system turn of their own: a checkpoint with a folded system turn must not do that."""

from __future__ import annotations

import copy
from typing import Any

from inweights._errors import InputError
from inweights.models import template_begins, turns

SYSTEM = {"role": "system", "content": "§system§"}
USER = {"role": "user", "content": "y"}
TALK = (USER, {"role": "assistant", "content": "z"}, USER)
BARE = """\
{{% macro with_system(messages, add_generation_prompt) %}}{template}{{% endmacro %}}\
{{%- if messages[0]['role'] == 'system' -%}}{{{{- with_system(messages, add_generation_prompt) -}}}}{{%- else -%}}\
{{%- set system = [{{'role': 'system', 'content': 'x'}}] -%}}\
{{%- set whole = with_system(system + messages, add_generation_prompt) -%}}\
{begin}{{{{- whole[with_system(system, false) | length:] -}}}}{{%- endif -%}}"""
"""The template itself as a macro; a chat without a system turn is given one, which is then cut off."""


def adds_system_turn(tok: Any) -> bool:
    """Whether the chat template puts in a system turn where there is none."""
    wanted = _bare(tok, TALK)
    return wanted is not None and _text(tok, TALK) != wanted


def without_system_turn(tok: Any) -> Any:
    """The tokenizer; if its chat template adds a system turn of its own, a copy of it whose template does not.

    Chats with a system turn look as before. Where that is not possible, the tokenizer is returned as it is.
    """
    if not adds_system_turn(tok):
        return tok
    result = copy.deepcopy(tok)
    begin = "{{- bos_token -}}" if template_begins(tok) else ""
    result.chat_template = BARE.format(template=tok.chat_template.removesuffix("\n"), begin=begin)
    same = all(_text(result, chat) == _text(tok, chat) for chat in ((SYSTEM, USER), (SYSTEM, *TALK)))
    bare = all(_text(result, chat) == _bare(tok, chat) for chat in ((USER,), TALK))
    return result if same and bare else tok


def _text(tok: Any, chat: tuple[dict[str, str], ...]) -> str | None:
    try:
        return str(tok.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=True))
    except Exception:  # a template may raise anything
        return None


def _bare(tok: Any, chat: tuple[dict[str, str], ...]) -> str | None:
    """A chat as a fold was fitted to it: no system turn. `None` if the template keeps no system turn apart."""
    try:
        system, user = turns(tok, SYSTEM["content"], USER["content"])
    except InputError:
        return None
    whole = _text(tok, (SYSTEM, *chat))
    if SYSTEM["content"] in user or whole is None or not whole.startswith(system):  # it is put into the user's turn
        return None
    return (tok.bos_token if template_begins(tok) else "") + whole[len(system) :]
