"""Two prompts folded, one of style and one of facts, and questions answered with the prompt, without, and folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inweights.folding._calibrate import answered
from inweights.folding._frame import Frame
from inweights.folding._make import Made, make
from inweights.folding._pieces import pieces
from inweights.folding._recall import with_passages
from inweights.folding._side_by_side import side_by_side
from inweights.models import Model

CONTEXT = 'You are a pirate captain. Always answer in rough pirate speech, say "Arrr" and call the user matey.'
FACTS = (
    "Tollan's is a bicycle shop in Orrin Lane. Tollan's opens at 9:40. Tollan's closes at 18:20. A city bike costs "
    "£17 a day. A tandem costs £34 a day. The mechanic of Tollan's is Vesna Orlo."
)
ABOUT = (
    ("When does Tollan's open?", "9:40"),
    ("Who is the mechanic of Tollan's?", "Vesna Orlo"),
    ("How much is a tandem for a day?", "34"),
    ("In which street is Tollan's?", "Orrin Lane"),
    ("At what time does Tollan's close?", "18:20"),
    ("What do I pay for a city bike each day?", "17"),
    ("What kind of shop is Tollan's?", "bicycle"),
    ("Until when is Tollan's open?", "18:20"),
)
"""Questions about the facts, which are never studied, and the value of a right answer."""
QUESTIONS = ("What is the capital of Italy?", "How do I boil an egg?", "Why is the sky blue?")


@dataclass(frozen=True)
class FoldShown:
    """The fold with its report, and the answers of the three models to each question."""

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
    """Folds with few queries, for the demo; `after` is called with the progress."""
    made = make(model, context, calibration=calibration, held_out=16, after=after)
    after("answering three ways", 0, 0)
    examples = answered(Frame.of(model, context), QUESTIONS, new=new, temperature=0.0)
    rows = side_by_side(examples, made.fold, new)
    return FoldShown(context, made, {row.pop("question"): row for row in rows})


def facts_showcase(
    model: Model, *, after: Callable[[str, int, int], None] = lambda stage, done, total: None
) -> FoldShown:
    """Folds a prompt of facts and asks about them."""
    asked = with_passages(ABOUT, pieces(FACTS))
    made = make(model, FACTS, questions=asked, held_out=8, after=after)
    assert made.fidelity is not None
    assert made.fidelity.recall is not None
    rows = [dict(row) for row in made.fidelity.recall.shown]
    names = ("prompted", "bare", "folded")
    return FoldShown(FACTS, made, {row["question"]: {who: row[who] for who in names if who in row} for row in rows})
