"""Answers side by side: those of the prompted, the bare and the folded model to the same questions."""

from __future__ import annotations

from inweights.folding._examples import Examples
from inweights.folding._fold import Fold
from inweights.running import sample


def side_by_side(examples: Examples, fold: Fold, new: int) -> tuple[dict[str, str], ...]:
    """For each example its `question` and the answers of the `prompted` model, which it holds, and greedily of the
    `bare` and the `folded` model."""
    frame = examples.frame
    model, tok = frame.model, frame.model.tokenizer

    def greedy() -> list[tuple[int, ...]]:
        asked = examples.asked
        return list(sample(model.model, frame.before, asked, new=new, temperature=0.0, seed=0, ends=frame.ended))

    answers = {"prompted": list(examples.answers), "bare": greedy()}
    with fold.applied(model):
        answers["folded"] = greedy()
    texts = {who: tok.batch_decode(ids, skip_special_tokens=True) for who, ids in answers.items()}
    return tuple(
        {"question": q, **{who: each[i].strip() for who, each in texts.items()}} for i, q in enumerate(examples.queries)
    )
