"""A prompt of a few examples, and other questions to try it on."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from inweights._errors import Problems
from inweights.data._parse import Pairs
from inweights.data._sources import pairs, source

CALIBRATION = 128


@dataclass(frozen=True)
class FewShot:
    """A task told by examples.

    - `context`: the examples, as text.
    - `calibration`: other questions, without their answers.
    - `test`: others again, with the answers that are expected after them, up to the end of the line.
    """

    context: str
    calibration: list[str]
    test: list[tuple[str, str]]


def few_shot(name: str, *, shots: int = 8, calibration: int | None = None, test: int = 100, seed: int = 0) -> FewShot:
    """A few-shot prompt from a data set; no question stands in two of its three parts.

    **Arguments:**

    - `name`: the data set, one of `DATA`.
    - `shots`, `calibration`, `test`: how many examples and questions; to calibrate with, 128 or what is left. Where
      answers are labels, the examples show each of them equally often, as far as `shots` and the data allow.
    - `seed`: which ones are drawn, and in what order.

    **Raises:** `InputError` if the data set has fewer pairs than are asked for.
    """
    data, drawn = source(name), pairs(name)
    if calibration is None:
        calibration = max(0, min(CALIBRATION, len(drawn) - shots - test))
    problems = Problems()
    for what, number, least in (("shots", shots, 1), ("calibration", calibration, 0), ("test", test, 0)):
        problems.unless(number >= least, f"`{what}` is {number}: it must be at least {least}.")
    problems.stop()
    wanted, chance = shots + calibration + test, Random(seed)
    problems.unless(
        wanted <= len(drawn),
        f"The data set {name!r} has {len(drawn)} pairs, but `shots` + `calibration` + `test` is "
        f"{shots} + {calibration} + {test} = {wanted}: ask for fewer.",
    )
    problems.stop()
    chance.shuffle(drawn)
    shown = _evenly(drawn, shots) if data.labels else drawn[:shots]
    chance.shuffle(shown)
    taken = set(shown)
    rest = [pair for pair in drawn if pair not in taken]
    return FewShot(
        context="".join(data.shot(*pair) for pair in shown),
        calibration=[data.query(question) for question, _ in rest[:calibration]],
        test=[(data.query(question), f" {answer}") for question, answer in rest[calibration:][:test]],
    )


def _evenly(drawn: Pairs, shots: int) -> Pairs:
    """The first ones of every answer, equally many of each while there are any."""
    turns: dict[str, int] = {}
    turn = []
    for _, answer in drawn:
        turns[answer] = turns.get(answer, 0) + 1
        turn.append(turns[answer])
    order = sorted(range(len(drawn)), key=turn.__getitem__)
    return [drawn[i] for i in order[:shots]]
