"""Few-shot prompts from data sets, with other questions for calibration and tests."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from inweights._errors import Problems
from inweights.data._parse import Pairs
from inweights.data._sources import pairs, source

CALIBRATION = 128


@dataclass(frozen=True)
class FewShot:
    """A few-shot prompt with questions for calibration and tests.

    - `context`: the examples, as text.
    - `calibration`: other questions, without answers.
    - `test`: further questions, each with the expected answer (the rest of the line).
    """

    context: str
    calibration: list[str]
    test: list[tuple[str, str]]


def few_shot(name: str, *, shots: int = 8, calibration: int | None = None, test: int = 100, seed: int = 0) -> FewShot:
    """A few-shot prompt from a data set; no question occurs in two of its three parts.

    **Arguments:**

    - `name`: the data set, one of `DATA`.
    - `shots`, `calibration`, `test`: the number of examples and questions; by default up to 128 for calibration. Where
      answers are labels, the examples show each label equally often, as far as `shots` and the data allow.
    - `seed`: determines which pairs are drawn, and in what order.

    **Raises:** `InputError` if the data set has fewer pairs than requested.
    """
    data, drawn = source(name), pairs(name)
    if calibration is None:
        calibration = max(0, min(CALIBRATION, len(drawn) - shots - test))
    problems = Problems()
    for what, number, least in (("shots", shots, 1), ("calibration", calibration, 0), ("test", test, 0)):
        problems.unless(number >= least, f"`{what}` is {number}: it must be at least {least}.")
    problems.stop()
    wanted = shots + calibration + test
    problems.unless(
        wanted <= len(drawn),
        f"The data set {name!r} has {len(drawn)} pairs, but `shots` + `calibration` + `test` is "
        f"{shots} + {calibration} + {test} = {wanted}: ask for fewer.",
    )
    problems.stop()
    shown, rest = split_pairs(drawn, shots, labels=data.labels, seed=seed)
    return FewShot(
        context="".join(data.shot(*pair) for pair in shown),
        calibration=[data.query(question) for question, _ in rest[:calibration]],
        test=[(data.query(question), f" {answer}") for question, answer in rest[calibration:][:test]],
    )


def split_pairs(drawn: Pairs, shots: int, *, labels: bool, seed: int = 0) -> tuple[Pairs, Pairs]:
    """Examples and the other pairs, both shuffled; with `labels`, the examples show each label equally often, as far as
    possible."""
    drawn, chance = list(drawn), Random(seed)
    chance.shuffle(drawn)
    shown = _evenly(drawn, shots) if labels else drawn[:shots]
    chance.shuffle(shown)
    taken = set(shown)
    return shown, [pair for pair in drawn if pair not in taken]


def _evenly(drawn: Pairs, shots: int) -> Pairs:
    """The first pairs of every answer, in equal numbers as far as possible."""
    turns: dict[str, int] = {}
    turn = []
    for _, answer in drawn:
        turns[answer] = turns.get(answer, 0) + 1
        turn.append(turns[answer])
    order = sorted(range(len(drawn)), key=turn.__getitem__)
    return [drawn[i] for i in order[:shots]]
