"""`Frame`: how a context and a query become tokens, with the context and without it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inweights._errors import InputError
from inweights.models import Model
from inweights.models._prompt import adds_bos, turns

MARK = "§query§"


@dataclass(frozen=True)
class Frame:
    """A context, and how queries stand after it.

    In a chat the context is the system turn and a query a user turn; *bare* is the same user turn with no system turn
    at all. Otherwise both are plain text. Positions of the bare query begin at 0: it is what a server will run.

    - `before`: a beginning-of-text token, which bare text has too; empty if the tokenizer adds none.
    - `folded`: the tokens that the weights shall stand for.
    """

    model: Model
    context: str
    chat: bool
    before: tuple[int, ...]
    folded: tuple[int, ...]

    @staticmethod
    def of(model: Model, context: str, chat: bool | None = None) -> Frame:
        """`chat` is whether the model's tokenizer has a chat template, unless said."""
        tok = model.tokenizer
        if tok is None:
            raise InputError("Folding works on text, but this model has no tokenizer.")
        if not context.strip():
            raise InputError("`context` is empty: there is nothing to fold.")
        chat = bool(getattr(tok, "chat_template", None)) if chat is None else chat
        text = turns(tok, context, MARK)[0] if chat else context
        ids = tuple(tok(text, add_special_tokens=False)["input_ids"])
        before: tuple[int, ...] = ()
        if chat:
            first = tok(turns(tok, context, MARK)[1], add_special_tokens=False)["input_ids"][:1]
            if ids[:1] == (tok.bos_token_id,) != tuple(first):  # a beginning of text, and not the mark of a turn
                before, ids = ids[:1], ids[1:]
        elif adds_bos(tok):
            before = (tok.bos_token_id,)
        return Frame(model, context, chat, before, ids)

    @cached_property
    def _around(self) -> tuple[str, str]:
        """The text before and after the user's own words."""
        if not self.chat:
            return "", ""
        start, mark, end = turns(self.model.tokenizer, self.context, MARK)[1].partition(MARK)
        if not mark:
            raise InputError("This model's chat template does not show the user's words as they are.")
        return start, end

    def asked(self, query: str) -> tuple[int, ...]:
        """The tokens of a query, its turn and the opening of the answer included."""
        start, end = self._around
        return tuple(self.model.tokenizer(f"{start}{query}{end}", add_special_tokens=False)["input_ids"])

    def opened(self, words: str) -> tuple[int, ...]:
        """The tokens of a user's turn that begins with these words and is not ended."""
        return tuple(self.model.tokenizer(self._around[0] + words, add_special_tokens=False)["input_ids"])

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens that end an answer."""
        config: Any = getattr(self.model.model, "generation_config", None)
        known = [getattr(config, "eos_token_id", None), self.model.tokenizer.eos_token_id]
        if self.chat:  # what the template puts behind the user's words ends a turn
            behind = self.model.tokenizer(self._around[1], add_special_tokens=False)["input_ids"][:1]
            known += [i for i in behind if i in self.model.tokenizer.all_special_ids]
        flat = [i for k in known for i in (k if isinstance(k, list) else [k])]
        return frozenset(i for i in flat if i is not None)

    @property
    def digest(self) -> str:
        """The sha256 of the context's text: what a model card may say without giving the prompt away."""
        return hashlib.sha256(self.context.encode()).hexdigest()

    def describe(self, query: str) -> dict[str, list[str]]:
        """Both token sequences of a query, for reports."""
        words = self.model.tokenizer.convert_ids_to_tokens
        asked = self.asked(query)
        return {
            "prompted": words([*self.before, *self.folded, *asked]),
            "bare": words([*self.before, *asked]),
        }
