"""One prompt folded, and three questions answered with it, without it, and with the fold: what the demo shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inweights.folding._calibrate import answered
from inweights.folding._fold import Fold
from inweights.folding._frame import Frame
from inweights.folding._make import Made, make
from inweights.models import Model
from inweights.running import sample

CONTEXT = 'You are a pirate captain. Always answer in rough pirate speech, say "Arrr" and call the user matey.'
QUESTIONS = ("What is the capital of Italy?", "How do I boil an egg?", "Why is the sky blue?")


@dataclass(frozen=True)
class FoldShown:
    """The fold with its report, and the answers: for each question what the three say."""

    context: str
    made: Made
    answers: dict[str, dict[str, str]]

    @property
    def recovered(self) -> float | None:
        """On the first set of questions."""
        return self.made.fidelity.sets[0].recovered.value if self.made.fidelity else None


def fold_showcase(
    model: Model,
    context: str = CONTEXT,
    *,
    calibration: int = 32,
    new: int = 28,
    after: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> FoldShown:
    """Folds with few queries, for a quick look; `after` is told how far it is."""
    made = make(model, context, calibration=calibration, held_out=16, after=after)
    after("answering three ways", 0, 0)
    return FoldShown(context, made, answers(model, context, made.fold, QUESTIONS, new))


def answers(model: Model, context: str, fold: Fold, questions: tuple[str, ...], new: int) -> dict[str, dict[str, str]]:
    """Greedy answers: prompted, bare and folded, by question."""
    frame = Frame.of(model, context)
    outputs = {
        "prompted": answered(frame, questions, new=new, temperature=0.0).answers,
        "bare": _bare(frame, questions, new),
    }
    with fold.applied(model):
        outputs["folded"] = _bare(frame, questions, new)
    words = model.tokenizer
    return {
        q: {who: words.decode(ids[i], skip_special_tokens=True).strip() for who, ids in outputs.items()}
        for i, q in enumerate(questions)
    }


def _bare(frame: Frame, questions: tuple[str, ...], new: int) -> tuple[tuple[int, ...], ...]:
    asked = [frame.asked(q) for q in questions]
    return tuple(sample(frame.model.model, frame.before, asked, new=new, temperature=0.0, seed=0, ends=frame.ended))
