"""How often greedy answers are right: with the prompt, without it, and folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inweights._errors import InputError
from inweights.folding._answers import is_right
from inweights.folding._fold import Fold
from inweights.folding._frame import Frame
from inweights.running import sample


def accuracy(
    frame: Frame,
    fold: Fold,
    answers: Sequence[tuple[str, str]],
    *,
    strict: bool = False,
    new: int = 64,
    after: Callable[[str], None] = lambda _: None,
) -> dict[str, float]:
    """How often the greedy answer is right, see `is_right`: prompted, bare, folded.

    At most `new` tokens of an answer are read, or if the right one is longer, a few more than that has; `strict`
    needs no more.
    """
    model, tok = frame.model, frame.model.tokenizer
    asked = [frame.asked(q) for q, _ in answers]
    enough = 4 + max(len(tok(a, add_special_tokens=False)["input_ids"]) for _, a in answers)
    enough = enough if strict else max(enough, new)
    longest = len(frame.before) + len(frame.folded) + max(map(len, asked)) + enough
    if longest > model.window:
        raise InputError(f"Context, longest query and answer are {longest} tokens, but the model reads {model.window}.")

    def share(before: Sequence[int]) -> float:
        texts = sample(
            model.model, before, asked, new=enough, temperature=0.0, seed=0,
            ends=frame.ended,
        )  # fmt: skip
        given = tok.batch_decode(texts, skip_special_tokens=True)
        return sum(is_right(t, a, strict=strict) for t, (_, a) in zip(given, answers, strict=True)) / len(answers)

    results = {}
    after("answering with the prompt")
    results["prompted"] = share([*frame.before, *frame.folded])
    after("answering without it")
    results["bare"] = share(frame.before)
    after("answering with the fold")
    with fold.applied(model):
        results["folded"] = share(frame.before)
    return results
