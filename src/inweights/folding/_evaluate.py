"""The fidelity report: how much of a prompt's effect a fold keeps on held-out queries, with controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from inweights._draw import Bar, Shown, bars_size, draw_bars
from inweights._errors import InputError
from inweights.folding._accuracy import accuracy
from inweights.folding._answers import DEFINITION
from inweights.folding._calibrate import answered, questions
from inweights.folding._examples import Examples
from inweights.folding._fidelity import Distance, Recovered, distance, recovered
from inweights.folding._fold import Fold
from inweights.folding._frame import Frame
from inweights.folding._methods import batch_tokens
from inweights.folding._recall import Recall
from inweights.folding._savings import Savings, savings
from inweights.folding._show import fidelity_bars, fidelity_rows
from inweights.folding._side_by_side import side_by_side
from inweights.folding._teacher import prompted
from inweights.folding._turns import conversations
from inweights.folding._unrelated import SideEffects, side_effects
from inweights.folding._verdict import reasons, verdict

SHOWN = 3
"""Questions that a report shows with their answers."""


@dataclass(frozen=True)
class Measured:
    """On one set of queries: how far bare and folded model are from the prompted one.

    `controls` are the same measure for negative controls: random updates of equal norms, and another prompt's fold
    where there is one.
    """

    name: str
    queries: int
    tokens: int
    kl_bare: float
    kl_folded: float
    agree_bare: float
    agree_folded: float
    recovered: Recovered
    controls: dict[str, Recovered] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Fidelity(Shown):
    """The whole report. Its headline numbers are those of the first set of queries; `accuracy` needs given answers.

    - `studied`: the divergences on questions about the context that were kept apart; `recall`: right answers to them.
    - `facts`: how many facts the context states. `directs`: whether it also directs how to answer. One that does not
      hardly changes answers to generic questions, and a fold should leave them alone: the verdict is then based on the
      studied questions.
    - `strict`: how `accuracy` was judged.
    - `turns`: the divergences in the first, second and third turn of conversations, see `_turns.py`.
    - `shown`: some questions with the answers of prompted, bare and folded model.
    """

    sets: tuple[Measured, ...]
    accuracy: dict[str, float] = field(default_factory=dict)
    side: SideEffects | None = None
    saved: Savings | None = None
    studied: Measured | None = None
    recall: Recall | None = None
    facts: int = 0
    directs: bool = True
    strict: bool = False
    turns: tuple[Measured, ...] = ()
    shown: tuple[dict[str, str], ...] = ()

    @property
    def definition(self) -> str:
        """When an answer counted as right for `accuracy`."""
        return DEFINITION[self.strict]

    @property
    def warnings(self) -> list[str]:
        """The limits of the report, one sentence each."""
        kept = self.recall.retained() if self.recall else None
        if not self.facts or kept is not None:
            return []
        asked = self.recall.questions if self.recall else 0
        return [
            f"The prompt states {self.facts} facts, but what is retained of them is not known: {asked} questions could "
            "be asked, or the prompt itself did not help to answer them. The command takes your own: --questions FILE."
        ]

    @property
    def verdict(self) -> str:
        """`GOOD`, `PARTIAL` or `FAILED`, see `_verdict.py`; at most `PARTIAL` where the facts could not be judged."""
        first = self._judged.recovered if self._judged else None
        kept = self.recall.retained() if self.recall else None
        numbers = [self.side.perplexity_folded] if self.side else []
        word = verdict((first.value, first.low) if first else None, (kept[0], kept[1]) if kept else None, numbers)
        return "PARTIAL" if word == "GOOD" and self.warnings else word

    @property
    def reason(self) -> str:
        """The numbers that the verdict follows from, in words."""
        kept = self.recall.retained() if self.recall else None
        first = self._judged
        return reasons(
            first.recovered.value if first else None,
            kept[0] if kept else None,
            first is not None and first is self.studied,
        )

    @property
    def _judged(self) -> Measured | None:
        """The queries on which the recovered share decides about the verdict."""
        if self.studied is not None and not self.directs:
            return self.studied
        return self.sets[0] if self.sets else None

    def as_json(self) -> dict[str, Any]:
        return {
            "sets": [s.as_json() for s in self.sets],
            "accuracy": self.accuracy,
            "accuracy_definition": self.definition if self.accuracy else None,
            "side_effects": self.side.as_json() if self.side else None,
            "saved": self.saved.as_json() if self.saved else None,
            "studied": self.studied.as_json() if self.studied else None,
            "recall": self.recall.as_json() if self.recall else None,
            "turns": [t.as_json() for t in self.turns],
            "shown": list(self.shown),
            "verdict": self.verdict,
            "verdict_on": self._judged.name if self._judged else None,
            "warnings": self.warnings,
        }

    def _bars(self) -> list[Bar]:
        return fidelity_bars(self.as_json())

    def _draw(self, axes: Any) -> None:
        draw_bars(axes, self._bars(), "share of 1")

    def _size(self) -> tuple[float, float]:
        return bars_size(self._bars())

    def _rows(self) -> list[tuple[str, str]]:
        return fidelity_rows(self.as_json())

    def for_card(self) -> dict[str, Any]:
        """The report as the model card shows it: without times, which depend on the machine."""
        table: dict[str, Any] = {"verdict": f"{self.verdict}: {self.reason}"}
        for s in self.sets:
            row = {"recovered": asdict(s.recovered), "kl": s.kl_folded, "agreement": s.agree_folded}
            table[f"folded, {s.name}"] = row
            table[f"bare, {s.name}"] = {"recovered": 0.0, "kl": s.kl_bare, "agreement": s.agree_bare}
            table |= {f"control: {name}, {s.name}": {"recovered": asdict(r)} for name, r in s.controls.items()}
        table |= {f"folded, {t.name}": {"recovered": asdict(t.recovered)} for t in self.turns}
        if self.side:
            table["unrelated text"] = self.side.as_json()
        if self.recall:
            table["right answers to questions about the prompt"] = {
                who: share for who, share in self.recall.accuracy.items() if share is not None
            }
        return table | ({"accuracy": self.accuracy} if self.accuracy else {})


def measure(
    name: str,
    examples: Examples,
    fold: Fold,
    *,
    seed: int = 0,
    others: dict[str, Fold] | None = None,
    control: bool = True,
) -> Measured:
    """One set of queries; with `control`, also a random update of equal norms, and `others`."""
    model = examples.frame.model
    size = batch_tokens(model)
    teacher = prompted(model, examples, batch_tokens=size)

    def of(changed: Fold | None) -> Distance:
        return distance(model, examples, teacher, changed.applied(model) if changed else None, batch_tokens=size)

    bare, folded = of(None), of(fold)
    wrong = {"random updates of equal norms": fold.random_like(seed), **(others or {})} if control else {}
    return Measured(
        name, len(examples), examples.tokens, bare.mean_kl, folded.mean_kl, bare.agreement, folded.agreement,
        recovered(folded, bare, seed=seed),
        {what: recovered(of(f), bare, seed=seed) for what, f in wrong.items()},
    )  # fmt: skip


def fidelity_of(
    frame: Frame,
    fold: Fold,
    queries: Mapping[str, Sequence[str]],
    *,
    answers: Sequence[tuple[str, str]] = (),
    strict: bool = False,
    others: dict[str, Fold] | None = None,
    new: int = 48,
    seed: int = 0,
    after: Callable[[str], None] = lambda _: None,
) -> Fidelity:
    """The report of any fold on any queries, by the name of their set; greedy answers of the prompted model.

    `answers` are queries with what should be answered: for these, accuracies of the prompted, bare and folded model,
    where answers are judged as `is_right` does, strictly or not.
    """
    fold.require_fit(frame.model)
    sets: list[Measured] = []
    turns: list[Measured] = []
    shown: tuple[dict[str, str], ...] = ()
    for name, asked in queries.items():
        after(f"measuring on {name}")
        examples = answered(frame, list(asked), seed, new=new, temperature=0.0)
        first = not sets
        sets.append(measure(name, examples, fold, seed=seed, others=others, control=first))
        if first:
            shown = side_by_side(examples.some(range(min(SHOWN, len(examples)))), fold, new)
            after("measuring in conversations")
            turns = [
                measure(f"turn {i}", each, fold, seed=seed, control=False)
                for i, each in enumerate(conversations(frame, list(asked), seed), 1)
            ]
    result = accuracy(frame, fold, answers, strict=strict, after=after) if answers else {}
    after("looking at unrelated text")
    side = side_effects(frame, fold.applied(frame.model))
    some = next((q[0] for q in queries.values() if q), answers[0][0] if answers else "Hello.")
    return Fidelity(tuple(sets), result, side, savings(frame, some), strict=strict, turns=tuple(turns), shown=shown)


def evaluate(
    fold: Fold, context: str, queries: Sequence[str] = (), *, chat: bool | None = None, new: int = 48, seed: int = 0
) -> Fidelity:
    """How faithful a fold, or any LoRA adapter read by `load_fold`, is to a prompt.

    **Arguments:**

    - `context`: the prompt that it replaces.
    - `queries`: the queries to measure on; the hand-written questions of this package by default.
    - `chat`: whether context and query are turns; by default, if the model has a chat template.
    - `new`: how many answer tokens to compare.

    **Returns:** a `Fidelity`: divergences and agreement of bare and folded model with the prompted one, with a control.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2")
    queries = ["Who are you?", "What is a cat?"]
    fold = iw.fold(m, "Answer in French.", calibration=queries, method="vector")
    report = iw.evaluate(fold, "Answer in French.", ["Where is Rome?"], new=4)
    print(report.sets[0].name, report.sets[0].kl_bare > 0)
    # prints queries True
    ```
    """
    if fold.model is None:
        raise InputError("`fold` has no model: read it with `load_fold(folder, model)`.")
    frame = Frame.of(fold.model, context, chat)
    sets: dict[str, Sequence[str]] = {"queries": queries} if queries else {"hand-written questions": questions()}
    return fidelity_of(frame, fold, sets, new=new, seed=seed)
