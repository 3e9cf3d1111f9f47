"""`Frame`: how a context and a query become tokens, with the context and without it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from inweights._errors import InputError, shown
from inweights.models import HOW_TO_PASS_ONE, Model, adds_bos, turns

MARK = "§query§"
QUESTION = ("\n\nQuestion: ", "\nAnswer:")
"""The text before and after a question to a model that has no turns."""


@dataclass(frozen=True)
class Frame:
    """A context, and the form in which queries follow it.

    In a chat the context is the system turn and a query a user turn; *bare* is the same user turn with no system turn
    at all. Otherwise both are plain text. Positions of the bare query begin at 0: it is what a server will run.

    - `before`: what stands before the context and before bare text alike: a beginning-of-text token, or the opening
      of the turn where a template puts the system's text into the user's turn. Often empty.
    - `folded`: the tokens that the fold replaces.
    - `around`: the text of the turn before and after the user's own words.
    """

    model: Model
    context: str
    chat: bool
    before: tuple[int, ...]
    folded: tuple[int, ...]
    around: tuple[str, str] = ("", "")

    @staticmethod
    def of(model: Model, context: str, chat: bool | None = None) -> Frame:
        """`chat` defaults to whether the model's tokenizer has a chat template."""
        tok = model.tokenizer
        if tok is None:
            raise InputError(f"Folding works on text, but the model has no tokenizer: {HOW_TO_PASS_ONE}.")
        if not isinstance(context, str):
            raise InputError(f"`context` is {shown(context)}, but must be text: the prompt to fold.")
        if not context.strip():
            raise InputError("`context` is empty: there is nothing to fold.")
        chat = bool(getattr(tok, "chat_template", None)) if chat is None else chat
        if not chat:
            return Frame(model, context, False, (tok.bos_token_id,) if adds_bos(tok) else (), _ids(tok, context))
        ahead, turn, after = _cut(tok, context)
        start, mark, end = after.partition(MARK)
        if not mark:
            raise InputError("This model's chat template does not show the user's words as they are.")
        before, folded = _ids(tok, ahead), _ids(tok, turn)
        if folded[:1] == (tok.bos_token_id,) != _ids(tok, after)[:1]:  # a beginning of text, and no mark of a turn
            before, folded = folded[:1], folded[1:]
        return Frame(model, context, True, before, folded, (start, end))

    @staticmethod
    def of_questions(model: Model, context: str) -> Frame:
        """Plain text in which a query is a question with its answer: how a model without turns is asked."""
        return replace(Frame.of(model, context, chat=False), around=QUESTION)

    def asked(self, query: str) -> tuple[int, ...]:
        """The tokens of a query, its turn and the opening of the answer included."""
        start, end = self.around
        return tuple(self.model.tokenizer(f"{start}{query}{end}", add_special_tokens=False)["input_ids"])

    def asked_after(self, history: Sequence[tuple[str, str]], query: str) -> tuple[int, ...]:
        """As `asked`, in a chat after earlier turns, each with its answer; empty where the template takes no such
        turns, or changes what stands before them."""
        tok = self.model.tokenizer
        turns = [{"role": "system", "content": self.context}]
        for text, answer in history:
            turns += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
        turns.append({"role": "user", "content": query})
        try:
            whole = tok.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except Exception:  # a template may raise anything
            return ()
        ahead, turn, _ = _cut(tok, self.context)
        return _ids(tok, whole[len(ahead + turn) :]) if whole.startswith(ahead + turn) else ()

    def opened(self, words: str) -> tuple[int, ...]:
        """The tokens of a user's turn that begins with these words and is not ended."""
        return tuple(self.model.tokenizer(self.around[0] + words, add_special_tokens=False)["input_ids"])

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens that end an answer."""
        config: Any = getattr(self.model.model, "generation_config", None)
        known = [getattr(config, "eos_token_id", None), self.model.tokenizer.eos_token_id]
        if self.chat:  # what the template puts behind the user's words ends a turn
            behind = self.model.tokenizer(self.around[1], add_special_tokens=False)["input_ids"][:1]
            known += [i for i in behind if i in self.model.tokenizer.all_special_ids]
        flat = [i for k in known for i in (k if isinstance(k, list) else [k])]
        return frozenset(i for i in flat if i is not None)

    @cached_property
    def end(self) -> int:
        """The token that an answer is ended with: the mark of the turn's end, the end of text, or a new line."""
        tok = self.model.tokenizer
        if not self.chat:
            return int(tok("\n", add_special_tokens=False)["input_ids"][-1])
        behind = tok(self.around[1], add_special_tokens=False)["input_ids"][:1]
        return int(next((i for i in behind if i in self.ends), tok.eos_token_id))

    def ended(self, token: int) -> bool:
        """Whether an answer ends with this token: a turn with its end, plain text with its line."""
        return token in self.ends or (not self.chat and "\n" in self.model.tokenizer.decode([token]))

    @property
    def digest(self) -> str:
        """The sha256 of the context's text, which identifies the prompt in a model card without showing it."""
        return hashlib.sha256(self.context.encode()).hexdigest()

    def describe(self, query: str) -> dict[str, list[str]]:
        """Both token sequences of a query, for reports."""
        words = self.model.tokenizer.convert_ids_to_tokens
        asked = self.asked(query)
        return {
            "prompted": words([*self.before, *self.folded, *asked]),
            "bare": words([*self.before, *asked]),
        }


def _ids(tok: Any, text: str) -> tuple[int, ...]:
    return tuple(tok(text, add_special_tokens=False)["input_ids"])


def _cut(tok: Any, context: str) -> tuple[str, str, str]:
    """The text that comes before the context, the text that is folded, and what comes after, the user's words marked.

    Most templates begin with a system turn. Where the system's text is put into the user's turn, what is folded is
    what that turn has more than without a system.
    """
    first, rest = turns(tok, context, MARK)
    if context not in rest:
        return "", first, rest
    both = first + rest
    bare = tok.apply_chat_template([{"role": "user", "content": MARK}], tokenize=False, add_generation_prompt=True)
    at = next((i for i, (a, b) in enumerate(zip(both, bare, strict=False)) if a != b), min(len(both), len(bare)))
    more = len(both) - len(bare)
    if more <= 0 or both[at + more :] != bare[at:] or context.strip() not in both[at : at + more]:
        raise InputError("This model's chat template does not keep the system's text apart, so it cannot be folded.")
    return both[:at], both[at : at + more], both[at + more :]
