"""One prompt folded, and three questions answered with it, without it, and with the fold: what the demo shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inweights.folding._calibrate import answered
from inweights.folding._frame import Frame
from inweights.folding._make import Made, make
from inweights.folding._side_by_side import side_by_side
from inweights.models import Model

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
    examples = answered(Frame.of(model, context), QUESTIONS, new=new, temperature=0.0)
    rows = side_by_side(examples, made.fold, new)
    return FoldShown(context, made, {row.pop("question"): row for row in rows})
