"""Recall: how well questions about a context are answered: with it, with part of it, without it, and folded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

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

K = TypeVar("K")
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
    bare = _prompts(frame, None, [q.text for q in questions])
    fits = len(frame.folded) + max(map(len, bare)) + NEW <= model.window
    after("answering with passages and without")
    texts, reader = _with_context(frame, questions, parts, bare, score, fits)
    after("answering with the fold")
    some, strangers = questions[:SOME], _about_strangers(frame, questions)
    third: dict[str, float] = {}
    absent: dict[str, dict[str, float]] = {}

    def more(who: str, reader: Reader | None, own: dict[str, list[tuple[int, ...]]]) -> dict[str, list[str]]:
        """The answers to the model's `own` prompts, to some questions in a third turn, and to those about strangers."""
        prompts = own | {"third": _third(frame, reader, some), "absent": _prompts(frame, reader, strangers)}
        answers = _texts(frame, prompts)
        third[who] = sum(_scores(score, answers["third"], some)) / len(some)
        absent[who] = _absent(strangers, answers["absent"])
        return answers

    with fold.applied(model):
        texts["folded"] = more("folded", None, {"folded": bare})["folded"]
    with fold.random_like(seed).applied(model):
        texts |= _texts(frame, {"random": bare})
    if fits:
        more("prompted", reader, {})
    shown = tuple(
        {"question": q.text, "value": q.value, **{n: texts[n][i] for n in ("prompted", "bare", "folded") if n in texts}}
        for i, q in enumerate(questions[:3])
    )
    right = {name: tuple(_scores(score, answers, questions)) for name, answers in texts.items()}
    values = tuple((q.text, q.value) for q in questions)
    absent = {k: v for k, v in absent.items() if v}
    return Recall(right, reader.turn, third, absent, shown, values)


def _with_context(
    frame: Frame, questions: Sequence[Question], parts: Sequence[Piece], bare: list[tuple[int, ...]], score: Score,
    fits: bool,
) -> tuple[dict[str, list[str]], Reader]:  # fmt: skip
    """The answers of the model with nothing, with passages, and with the whole context if that fits into its window; in
    each case in the turn that is better. And the reader of the whole context in its better turn."""

    def count(text: str) -> int:
        return len(frame.model.tokenizer(text, add_special_tokens=False)["input_ids"])

    # All passages of a short context are retrieved: the context itself.
    short = fits and count(frame.context) <= RETRIEVED
    reads = {"window": [q.passage for q in questions]}
    if not short:
        alone = [part.alone for part in parts]
        reads["retrieved"] = [retrieved(alone, q.text, count, RETRIEVED) for q in questions]
    readers = [Reader(frame, turn) for turn in (("system", "user") if frame.chat else ("system",))]
    prompts = {
        (name, reader.turn): [reader.prompt(text, q.text) for text, q in zip(read, questions, strict=True)]
        for reader in readers
        for name, read in reads.items()
    }
    answers = _texts(frame, {("bare", ""): bare} | prompts)
    for reader in readers if fits else []:  # each on its own: the context is read once
        answers |= _texts(frame, {("prompted", reader.turn): _prompts(frame, reader, [q.text for q in questions])})
    texts, best = {"bare": answers["bare", ""]}, readers[0]
    for name in (*reads, *(("prompted",) if fits else ())):
        totals = [sum(_scores(score, answers[name, reader.turn], questions)) for reader in readers]
        best = readers[totals.index(max(totals))]
        texts[name] = answers[name, best.turn]
    if short:
        texts["retrieved"] = texts["prompted"]
    return texts, best if fits else readers[0]


def accuracy_of(
    model: Model, fold: Fold, context: str, questions: Sequence[Question], score: Score = answers_right
) -> float:
    """The mean score of a folded model that is given the questions alone."""
    frame = Frame.of(model, context)
    with fold.applied(model):
        answers = _texts(frame, {"folded": _prompts(frame, None, [q.text for q in questions])})["folded"]
    return sum(_scores(score, answers, questions)) / len(questions)


def _texts(frame: Frame, prompts: Mapping[K, Sequence[tuple[int, ...]]]) -> dict[K, list[str]]:
    """The greedy answers to prompts, by the name of their list. All are generated at once: what a GPU needs for a token
    hardly depends on the number of texts."""
    every = [prompt for some in prompts.values() for prompt in some]
    answers = greedy(frame, every, [NEW] * len(every))
    texts = iter(text.strip() for text in frame.model.tokenizer.batch_decode(answers, skip_special_tokens=True))
    return {name: [next(texts) for _ in some] for name, some in prompts.items()}


def _prompts(frame: Frame, reader: Reader | None, queries: Sequence[str]) -> list[tuple[int, ...]]:
    """Queries to a reader of the context, or to the model without it."""
    if reader:
        return [reader.prompt(frame.context, q) for q in queries]
    return [(*frame.before, *frame.asked(q)) for q in queries]


def _scores(score: Score, answers: Sequence[str], questions: Sequence[Question]) -> list[float]:
    return [float(score(a, q)) for a, q in zip(answers, questions, strict=True)]


def _third(frame: Frame, reader: Reader | None, questions: Sequence[Question]) -> list[tuple[int, ...]]:
    """The questions in the third turn, after two questions about other things and their answers."""
    (start,) = _prompts(frame, reader, by_hand()[:1])
    gap = tuple(frame.model.tokenizer("\n", add_special_tokens=False)["input_ids"]) if frame.chat else ()
    for other in (by_hand()[1], None):
        (answer,) = greedy(frame, [start], [24])
        start = (*start, *answer, *(() if answer[-1:] == (frame.end,) else (frame.end,)), *gap)
        start = (*start, *frame.asked(other)) if other else start
    return [(*start, *frame.asked(q.text)) for q in questions]


def _about_strangers(frame: Frame, questions: Sequence[Question]) -> list[str]:
    """Questions about names that the context does not have, made from those that it answers."""
    asked: list[str] = []
    for q in questions:
        names = [m for m in marked(q.text) if m in frame.context and not any(c.isdigit() for c in m)]
        if names and len(asked) < SOME:
            asked.append(q.text.replace(names[0], STRANGERS[len(asked) % len(STRANGERS)]))
    return asked


def _absent(asked: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    """How often answers to questions about strangers say that it is not known, and how often they name something that
    the question does not. Empty if there are none."""
    if not asked:
        return {}
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
