"""Documents to fold, with questions whose answers are known: made-up registers, false ones, and articles of SQuAD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inweights.bench._registers import Register, register, sampled
from inweights.data import squad_documents
from inweights.folding import Question, Score, answers_right, f1

MOVED = 250
"""Facts up to which the values of a register are also moved among its entities, which takes a second fold."""
FALSE = 50
"""Facts of a register that contradicts what is known."""
ARTICLES = (6, 21)
"""Articles of SQuAD that are folded, and all that have as many questions."""
BRIEF = " Answer in a few words."
"""What stands after every question about an article, in every column."""


@dataclass(frozen=True)
class Case:
    """A document and questions about it.

    - `score`: how good an answer is, from 0 to 1.
    - `moved`: the same document with its values moved among its entities, and questions whose right answer is the new
      value and the first of whose `others` is the old one; `None` where that cannot be done.
    """

    name: str
    text: str
    questions: tuple[Question, ...]
    score: Score = answers_right
    moved: Case | None = None


def register_case(facts: int, seed: int, count: int) -> Case:
    """A made-up register and `count` held-out paraphrases of questions about it."""
    text = register(facts, seed)
    other = None
    if facts <= MOVED:
        moved = register(facts, seed, shuffled=True)
        other = Case(f"{facts}-{seed}-moved", moved.text, _asked(moved, count, seed))
    return Case(f"{facts}-{seed}", text.text, _asked(text, count, seed), moved=other)


def false_case(seed: int, count: int) -> Case:
    """Real things with values that contradict what everybody knows."""
    text = register(FALSE, seed, false=True)
    return Case(f"false-{seed}", text.text, _asked(text, count, seed))


def unrelated_passages(count: int) -> list[str]:
    """Passages of articles of SQuAD that are not folded, evenly from all of them."""
    passages = [p for document in squad_documents(ARTICLES[1])[ARTICLES[0] :] for p in document.passages]
    return passages[:: len(passages) // count][:count]


def squad_cases(titles: int = ARTICLES[0]) -> list[Case]:
    """Articles of SQuAD with people's questions, scored by F1."""
    results = []
    for document in squad_documents(titles):
        answers: dict[str, tuple[str, ...]] = {q + BRIEF: some for q, some, _ in document.questions}

        def score(answer: str, question: Question, answers: dict[str, tuple[str, ...]] = answers) -> float:
            return f1(answer, answers[question.text])

        asked = tuple(
            Question(q + BRIEF, some[0], passage=document.passages[i], kind="squad")
            for q, some, i in document.questions
        )
        name = "squad-" + "-".join(document.title.lower().split())
        results.append(Case(name, "\n\n".join(document.passages), asked, score))
    return results


def old_values(questions: Sequence[Question]) -> list[Question]:
    """The questions of a register with moved values, with the values that stood there before as right answers."""
    return [replace(q, value=q.others[0], others=(q.value, *q.others[1:])) for q in questions]


def _asked(text: Register, count: int, seed: int) -> tuple[Question, ...]:
    return sampled([q for q in text.questions if q.kind == "paraphrase"], count, seed)
