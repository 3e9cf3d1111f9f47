"""`Prompt`: which tokens are folded into weights, which are kept, and the query they are folded for."""

from __future__ import annotations

import operator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from inweights._errors import InputError, Problems
from inweights.models._load import Model, as_model
from inweights.running import inputs, takes_positions, vocabulary

Text = str | list[int] | Tensor
HOW_TO_PASS_ONE = "pass `tokenizer=AutoTokenizer.from_pretrained(...)`"
"""The advice for a model without a tokenizer."""


class Prompt:
    """A context and a query for a model.

    **Arguments:**

    - `model`: from `iw.load`, or any transformers causal language model.
    - `context`: `C`, text or token ids, which the patch will replace.
    - `query`: `x`, text or token ids, which the model reads after it.
    - `keep`: a piece of the context's text that stays a prompt; it must occur exactly once. Tokens that overlap it
      are kept, the others are folded.
    - `chat`: the context is the system turn and the query a user turn, in the model's own chat template. Without the
      patch there is then *no* system turn at all.
    - `positions`: `"absolute"` leaves every token where it was (left-out tokens are masked, not shifted);
      `"shifted"` numbers the kept tokens and the query from 0, as a server without the context would.

    A beginning-of-text token, where the tokenizer adds one, is always kept: models are trained with it.
    """

    def __init__(
        self,
        model: Model | nn.Module,
        context: Text,
        query: Text,
        *,
        keep: str | None = None,
        chat: bool = False,
        positions: Literal["absolute", "shifted"] = "absolute",
        tokenizer: Any = None,
    ) -> None:
        self.model = as_model(model, tokenizer)
        self.positions = positions
        tok = self.model.tokenizer
        if tok is None and (isinstance(context, str) or isinstance(query, str)):
            raise InputError(
                f"`context` and `query` are text, but the model has no tokenizer: {HOW_TO_PASS_ONE}, or ids."
            )
        if positions not in ("absolute", "shifted"):
            raise InputError(f"`positions` is {positions!r}, but must be 'absolute' or 'shifted'.")
        before: list[int] = []
        within = context if isinstance(context, str) else ""
        if chat:
            context, query = turns(tok, context, query)
        elif isinstance(context, str) and adds_bos(tok):
            before = [tok.bos_token_id]
        folded, kept = _tokens(tok, context, keep, within)
        asked, _ = _tokens(tok, query, None)
        if chat and folded[:1] == [tok.bos_token_id] != asked[:1]:
            kept[0] = True  # a beginning of text, and not just what every turn begins with
        problems = Problems()
        problems.unless(len(folded) > 0, "`context` is empty: there is nothing to fold.")
        problems.unless(len(asked) > 0, "`query` is empty: pass at least one token to read after the context.")
        known = vocabulary(self.model.model)
        strange = [i for i in (*folded, *asked) if not 0 <= i < known]
        problems.unless(not strange, f"Token id {strange[:1]} is not one of the model's {known} tokens.")
        total = len(before) + len(folded) + len(asked)
        window = self.model.window
        problems.unless(total <= window, f"Context and query have {total} tokens, but the limit is {window}.")
        problems.stop()
        if all(kept):
            raise InputError("`keep` keeps the whole context, so there is nothing to fold.")
        device = self.model.device
        self.ids = torch.tensor([[*before, *folded, *asked]], device=device)
        keeps = [*([True] * len(before)), *kept, *([True] * len(asked))]
        self.left = torch.tensor(keeps, device=device).nonzero().squeeze(-1)
        self.asked = len(asked)

    @property
    def context_tokens(self) -> int:
        """How many tokens come before the query, a beginning-of-text token included."""
        return self.ids.shape[1] - self.asked

    @property
    def folded_tokens(self) -> int:
        """How many tokens the patch replaces."""
        return self.ids.shape[1] - len(self.left)

    @property
    def query_rows(self) -> Tensor:
        """Where the query stands in the whole sequence."""
        return torch.arange(self.context_tokens, self.ids.shape[1], device=self.ids.device)

    @property
    def reduced_ids(self) -> Tensor:
        """The tokens that are left, `(1, kept + query)`."""
        return self.ids[:, self.left]

    @property
    def reduced_rows(self) -> Tensor:
        """Where the query stands among the tokens that are left."""
        return torch.arange(len(self.left) - self.asked, len(self.left), device=self.ids.device)

    @property
    def reduced_positions(self) -> Tensor:
        """The positions of the tokens that are left, `(1, kept + query)`."""
        if self.positions == "shifted":
            return torch.arange(len(self.left), device=self.ids.device).unsqueeze(0)
        return self.left.unsqueeze(0)

    @property
    def reduced_inputs(self) -> dict[str, Tensor]:
        """The arguments of the model for the tokens that are left: `model(**prompt.reduced_inputs)`.

        The mask of ones matters: without it, transformers takes a gap in the positions for the start of another text.
        """
        ids = self.reduced_ids
        return {"input_ids": ids, **inputs(self.model.model, ids, self.reduced_positions)}

    def describe(self) -> dict[str, Any]:
        """Both token sequences, and how positions are treated, for reports."""
        tok = self.model.tokenizer
        words = (lambda ids: tok.convert_ids_to_tokens(ids)) if tok is not None else (lambda ids: ids)
        record = takes_positions(self.model.model)
        remaining = words(self.reduced_ids[0].tolist())
        return {
            "prompted": words(self.ids[0].tolist()),
            "remaining": remaining,
            "left": remaining,  # its former name
            "positions": self.reduced_positions[0].tolist() if record else "shifted: this model takes no positions",
        }


def adds_bos(tok: Any) -> bool:
    """Whether the tokenizer begins every text with a token of its own."""
    return tok.bos_token_id is not None and tok("a")["input_ids"][:1] == [tok.bos_token_id]


def _tokens(tok: Any, text: Text, keep: str | None, within: str = "") -> tuple[list[int], list[bool]]:
    """Token ids, and which of them overlap `keep`, which is searched for in the user's own text (`within`)."""
    if not isinstance(text, str):
        if keep is not None:
            raise InputError("`keep` is text, but the context was given as token ids.")
        if isinstance(text, Tensor):
            if text.ndim > 1 and text.shape[0] != 1:
                raise InputError(f"Token ids of shape {tuple(text.shape)} are a batch: make one `Prompt` for each row.")
            text = text.reshape(-1).tolist()
        try:
            ids = [operator.index(i) for i in text]
        except TypeError:
            raise InputError(
                "Token ids must be whole numbers: pass text, a list of ints, or a tensor of them."
            ) from None
        return ids, [False] * len(ids)
    if keep is None:
        ids = tok(text, add_special_tokens=False)["input_ids"]
        return ids, [False] * len(ids)
    count = within.count(keep) if keep else 0
    if count != 1:
        raise InputError(f"`keep` is {keep!r}, which occurs {count} times in the context: it must occur exactly once.")
    coded = tok(text, add_special_tokens=False, return_offsets_mapping=True)
    start = text.index(within) + within.index(keep)
    return coded["input_ids"], [a < start + len(keep) and b > start for a, b in coded["offset_mapping"]]


def turns(tok: Any, context: Text, query: Text) -> tuple[str, str]:
    """System turn and user turn in the model's chat template, cut where the one ends and the other begins."""
    if not isinstance(context, str) or not isinstance(query, str):
        raise InputError("`chat` needs context and query as text.")
    if not getattr(tok, "chat_template", None):
        raise InputError("`chat` was asked for, but this model's tokenizer has no chat template.")
    system = [{"role": "system", "content": context}]
    try:
        first = tok.apply_chat_template(system, tokenize=False)
        both = tok.apply_chat_template(
            [*system, {"role": "user", "content": query}], tokenize=False, add_generation_prompt=True
        )
    except Exception as error:
        raise InputError(f"This model's chat template takes no system turn: {error}") from None
    if not both.startswith(first):
        raise InputError("This model's chat template does not begin with the system turn, so it cannot be cut off.")
    return first, both[len(first) :]
