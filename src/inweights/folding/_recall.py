"""Recall: how well questions about a context are answered: with it, with part of it, without it, and folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from inweights._resample import middle, resamples
from inweights.folding._answers import Question, abstains, answers_right, contains
from inweights.folding._calibrate import questions as by_hand
from inweights.folding._fidelity import ENOUGH
from inweights.folding._fold import Fold
from inweights.folding._frame import Frame
from inweights.folding._passages import retrieved
from inweights.folding._pieces import Piece, marked
from inweights.folding._teach import Reader, greedy
from inweights.models import Model

NEW = 64
"""New tokens of an answer that is judged."""
RETRIEVED = 512
"""Tokens of the passages that are retrieved for a question."""
SOME = 20
"""Questions that are asked in a third turn, and about what the context does not mention."""
STRANGERS = ("Quillon Marsh", "Tavrel", "Orsika Venn", "Bredomir", "Hallis Crane", "Wexlund")
"""Names that no context has: what is asked about them is not known."""

Score = Callable[[str, Question], float]
"""How good an answer to a question is, from 0 to 1."""


@dataclass(frozen=True)
class Recall:
    """Answers to the same questions, greedy, at most `NEW` tokens.

    - `right`: the score of each answer, from 0 to 1, by who answers: `prompted` (the context in the turn that is
      better), `window` (the passage with the answer), `retrieved` (the best passages by BM25, up to 512 tokens),
      `bare`, `folded`, and `random` (updates of equal norms). No `prompted` where the context exceeds the model's
      window.
    - `third_turn`: the mean score after two other turns, prompted and folded.
    - `absent`: questions about names that the context does not mention, prompted and folded: the share in which the
      model says that it does not know (`abstained`), and in which it names something else instead (`invented`).
    - `shown`: some questions with the answers of prompted, bare and folded model.
    - `asked`: every question with the value that answers it.
    """

    right: dict[str, tuple[float, ...]]
    turn: str = "system"
    third_turn: dict[str, float] = field(default_factory=dict)
    absent: dict[str, dict[str, float]] = field(default_factory=dict)
    shown: tuple[dict[str, str], ...] = ()
    asked: tuple[tuple[str, str], ...] = ()

    @property
    def questions(self) -> int:
        """How many there are."""
        return len(self.right["folded"])

    @property
    def accuracy(self) -> dict[str, float | None]:
        """The mean score, by who answers: the share of right answers, where an answer is right or wrong."""
        names = ("prompted", "window", "retrieved", "bare", "folded", "random")
        return {n: sum(self.right[n]) / self.questions if n in self.right else None for n in names}

    @property
    def each(self) -> list[dict[str, Any]]:
        """Every question with its value, and the score of the reference and of the fold on it: which facts are known
        to the fold, and which are not."""
        return [
            {"question": question, "value": value, "reference": self.right[self.reference][i],
             "folded": self.right["folded"][i]}
            for i, (question, value) in enumerate(self.asked)
        ]  # fmt: skip

    @property
    def reference(self) -> str:
        """What the fold is held against: the prompted model, or beyond its window the one with retrieved passages."""
        return "prompted" if "prompted" in self.right else "retrieved"

    def retained(self, seed: int = 0, draws: int = 1000) -> tuple[float, float, float] | None:
        """`(folded − bare) / (prompted − bare)` with its 95% interval; `None` if the context does not help, or
        of fewer than `ENOUGH` questions."""
        folded, bare, full = (
            torch.tensor(self.right[n], dtype=torch.float64) for n in ("folded", "bare", self.reference)
        )
        if self.questions < ENOUGH or float(full.mean() - bare.mean()) <= 0:
            return None
        picks = resamples(self.questions, draws, torch.Generator().manual_seed(seed))
        gained, given = (folded - bare)[picks].mean(1), (full - bare)[picks].mean(1)
        low, high = middle(torch.where(given > 0, gained / given, torch.nan))
        return float((folded - bare).mean() / (full - bare).mean()), float(low), float(high)

    def as_json(self) -> dict[str, Any]:
        kept = self.retained()
        return {
            "questions": self.questions,
            "accuracy": self.accuracy,
            "reference": self.reference,
            "retained": None if kept is None else {"value": kept[0], "low": kept[1], "high": kept[2]},
            "prompted_turn": self.turn,
            "third_turn": self.third_turn,
            "absent": self.absent,
            "shown": list(self.shown),
            "each": self.each,
        }


def recall(
    frame: Frame,
    fold: Fold,
    questions: Sequence[Question],
    parts: Sequence[Piece],
    *,
    score: Score = answers_right,
    seed: int = 0,
    after: Callable[[str], None] = lambda _: None,
) -> Recall:
    """Asks everyone the same questions. `parts` are the passages that are retrieved from; `score` judges an answer."""
    model = frame.model
    bare = [(*frame.before, *frame.asked(q.text)) for q in questions]
    passages = [part.alone for part in parts]

    def count(text: str) -> int:
        return len(model.tokenizer(text, add_special_tokens=False)["input_ids"])

    # All passages of a short context are retrieved: the context itself.
    short = count(frame.context) <= RETRIEVED
    ranked = [frame.context if short else retrieved(passages, q.text, count, RETRIEVED) for q in questions]
    after("answering with passages and without")
    fits = len(frame.folded) + max(map(len, bare)) + NEW <= model.window
    texts: dict[str, list[str]] = {"bare": _texts(frame, bare)}
    readers = {turn: Reader(frame, turn) for turn in (("system", "user") if frame.chat else ("system",))}
    best: dict[str, tuple[float, str]] = {}
    for turn, reader in readers.items():
        given = {"window": [q.passage for q in questions], "retrieved": ranked}
        if fits:
            given["prompted"] = [frame.context] * len(questions)
        if fits and short:
            del given["retrieved"]
        for name, read in given.items():
            answers = _texts(frame, [reader.prompt(t, q.text) for t, q in zip(read, questions, strict=True)])
            total = sum(_scores(score, answers, questions))
            if name not in best or total > best[name][0]:
                best[name], texts[name] = (total, turn), answers
    if fits and short:
        texts["retrieved"] = texts["prompted"]
    after("answering with the fold")
    turn = best["prompted"][1] if fits else "system"
    with fold.applied(model):
        texts["folded"] = _texts(frame, bare)
        third = {"folded": _third(frame, None, questions, score)}
        absent = {"folded": _absent(frame, None, questions)}
    with fold.random_like(seed).applied(model):
        texts["random"] = _texts(frame, bare)
    if fits:
        third["prompted"] = _third(frame, readers[turn], questions, score)
        absent["prompted"] = _absent(frame, readers[turn], questions)
    shown = tuple(
        {"question": q.text, "value": q.value, **{n: texts[n][i] for n in ("prompted", "bare", "folded") if n in texts}}
        for i, q in enumerate(questions[:3])
    )
    right = {name: tuple(_scores(score, answers, questions)) for name, answers in texts.items()}
    asked = tuple((q.text, q.value) for q in questions)
    return Recall(right, turn, third, {k: v for k, v in absent.items() if v}, shown, asked)


def accuracy_of(
    model: Model, fold: Fold, context: str, questions: Sequence[Question], score: Score = answers_right
) -> float:
    """The mean score of a folded model that is given the questions alone."""
    frame = Frame.of(model, context)
    with fold.applied(model):
        answers = _texts(frame, [(*frame.before, *frame.asked(q.text)) for q in questions])
    return sum(_scores(score, answers, questions)) / len(questions)


def _texts(frame: Frame, prompts: Sequence[tuple[int, ...]]) -> list[str]:
    answers = greedy(frame, prompts, [NEW] * len(prompts))
    return [text.strip() for text in frame.model.tokenizer.batch_decode(answers, skip_special_tokens=True)]


def _scores(score: Score, answers: Sequence[str], questions: Sequence[Question]) -> list[float]:
    return [float(score(a, q)) for a, q in zip(answers, questions, strict=True)]


def _third(frame: Frame, reader: Reader | None, questions: Sequence[Question], score: Score) -> float:
    """The mean score in the third turn, after two questions about other things and their answers."""
    some = questions[:SOME]
    start = tuple(reader.prompt(frame.context, by_hand()[0]) if reader else (*frame.before, *frame.asked(by_hand()[0])))
    gap = tuple(frame.model.tokenizer("\n", add_special_tokens=False)["input_ids"]) if frame.chat else ()
    for other in (by_hand()[1], None):
        (answer,) = greedy(frame, [start], [24])
        start = (*start, *answer, *(() if answer[-1:] == (frame.end,) else (frame.end,)), *gap)
        start = (*start, *frame.asked(other)) if other else start
    return sum(_scores(score, _texts(frame, [(*start, *frame.asked(q.text)) for q in some]), some)) / len(some)


def _absent(frame: Frame, reader: Reader | None, questions: Sequence[Question]) -> dict[str, float]:
    """Questions about names that the context does not have: how often the model says so, and how often it names
    something that the question does not. Empty if none can be made."""
    asked: list[str] = []
    for q in questions:
        names = [m for m in marked(q.text) if m in frame.context and not any(c.isdigit() for c in m)]
        if names and len(asked) < SOME:
            asked.append(q.text.replace(names[0], STRANGERS[len(asked) % len(STRANGERS)]))
    if not asked:
        return {}
    prompts = [reader.prompt(frame.context, q) if reader else (*frame.before, *frame.asked(q)) for q in asked]
    answers = _texts(frame, prompts)
    named = [any(not contains(q, m) for m in marked(a)) for q, a in zip(asked, answers, strict=True)]
    silent = [abstains(a) for a in answers]
    invented = [some and not none for some, none in zip(named, silent, strict=True)]
    return {"abstained": sum(silent) / len(asked), "invented": sum(invented) / len(asked)}


def with_passages(pairs: Sequence[tuple[str, str]], parts: Sequence[Piece]) -> list[Question]:
    """A user's questions and answers, each with the pieces that contain the answer; all of them if none does."""
    results = []
    for text, value in pairs:
        q = Question(text, value, kind="given")
        held = [p.alone for p in parts if answers_right(p.text, q)]
        results.append(replace(q, passage="\n".join(held[:3] or [p.alone for p in parts])))
    return results
