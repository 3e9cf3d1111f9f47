"""The judge on simulated claims with a known truth: at most 5% of them pass wrongly, and at most 5% fail wrongly.

The truth lies exactly on the bound, where a mistake is most likely, and counts as either side: as false for PASS, and
as true for FAIL. Of each kind, 400 claims of five trials are drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch

from inweights.ledger import Bound, Criteria, Criterion, Verdict, judge

CLAIMS, TRIALS = 400, 5
Draw = Callable[[torch.Generator], list[list[float]]]


def normal(mean: float, *, between: float = 0.1, within: float = 0.0, units: int = 1) -> Draw:
    """Trials that differ, with units that differ from the mean of their trial."""

    def draw(random: torch.Generator) -> list[list[float]]:
        middle = mean + between * torch.randn(TRIALS, 1, generator=random, dtype=torch.float64)
        numbers: list[list[float]] = (
            middle + within * torch.randn(TRIALS, units, generator=random, dtype=torch.float64)
        ).tolist()
        return numbers

    return draw


def ratios(middle: float, spread: float) -> Draw:
    """Ratios with a geometric mean, whose logarithms have this standard deviation."""

    def draw(random: torch.Generator) -> list[list[float]]:
        logs = spread * torch.randn(TRIALS, 1, generator=random, dtype=torch.float64)
        numbers: list[list[float]] = (middle * logs.exp()).tolist()
        return numbers

    return draw


def hits(share: float, units: int) -> Draw:
    def draw(random: torch.Generator) -> list[list[float]]:
        numbers: list[list[float]] = (torch.rand(TRIALS, units, generator=random) < share).double().tolist()
        return numbers

    return draw


def criterion(bound: str, **more: object) -> Criterion:
    return Criterion(Bound.of(bound), each=False, **more)  # type: ignore[arg-type]


FAR, NEAR = normal(9.0), normal(0.0)
KINDS: dict[str, list[tuple[Criterion, Draw, Draw, Draw | None]]] = {
    "one number a trial": [(criterion("<1"), normal(1.0), FAR, None)],
    "units in trials": [(criterion(">1"), normal(1.0, between=0.2, within=1.0, units=10), NEAR, None)],
    "units that differ more than trials": [
        (criterion("<1"), normal(1.0, between=0.0, within=1.0, units=20), FAR, None)
    ],
    "an equivalence": [(criterion("-1..1"), normal(1.0, between=0.3), FAR, None)],
    "a ratio": [(criterion("<2", scale="log"), ratios(2.0, 0.3), ratios(900.0, 0.1), None)],
    "a ratio that varies widely": [(criterion(">10", scale="log"), ratios(10.0, 1.5), ratios(0.01, 0.1), None)],
    "a ratio near 1": [(criterion("0.9..1.1", scale="log"), ratios(1.1, 0.1), ratios(9.0, 0.1), None)],
    "a share": [(criterion(">0.8", range=Bound(0, 1)), hits(0.8, 10), hits(0.1, 10), None)],
    "two quantities": [(criterion("<1"), normal(1.0), FAR, None)] * 2,
    "three ratios": [(criterion("<2", scale="log"), ratios(2.0, 0.3), ratios(900.0, 0.1), None)] * 3,
    "five ratios": [(criterion("<2", scale="log"), ratios(2.0, 0.3), ratios(900.0, 0.1), None)] * 5,
    "a control that meets the criterion": [(criterion("<1"), NEAR, normal(1.0), None)],
    "a rival that meets the criterion": [(criterion("<1", rival=True), NEAR, FAR, normal(1.0))],
}


def verdicts(kind: str) -> Counter[Verdict]:
    random, result = torch.Generator().manual_seed(1), Counter[Verdict]()
    for _ in range(CLAIMS):
        criteria, results, rivals = {}, {}, {}
        for i, (needed, value, control, rival) in enumerate(KINDS[kind]):
            criteria[str(i)], results[str(i)] = needed, (value(random), control(random))
            rivals |= {str(i): rival(random)} if rival else {}
        result[judge(Criteria(criteria), results, rivals)[0]] += 1
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_verdicts_are_rare(kind: str) -> None:
    result = verdicts(kind)
    assert result[Verdict.PASS] / CLAIMS <= 0.05, result
    assert result[Verdict.FAIL] / CLAIMS <= 0.05, result


def test_the_simulation_can_find_a_bad_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the widening for several quantities, and with the arithmetic mean of ratios, rates are above 5%."""
    monkeypatch.setattr("inweights.ledger._judge._against", lambda means, trials: 1.0)
    assert verdicts("five ratios")[Verdict.FAIL] / CLAIMS > 0.05
    random, far = torch.Generator().manual_seed(1), [[1e9]] * TRIALS
    mean = math.exp(1.5**2 / 2)  # the arithmetic mean of ratios with a geometric mean of 1
    plain = Criteria({"x": criterion(f"<{mean}")})
    result = [judge(plain, {"x": (ratios(1.0, 1.5)(random), far)})[0] for _ in range(CLAIMS)]
    assert result.count(Verdict.PASS) / CLAIMS > 0.05


@pytest.mark.parametrize(
    ("needed", "draw", "control", "wanted"),
    [
        (criterion("<1"), normal(0.5), FAR, Verdict.PASS),
        (criterion("<1"), normal(1.5), FAR, Verdict.FAIL),
        (criterion(">10", scale="log"), ratios(1000.0, 1.0), ratios(0.01, 0.1), Verdict.PASS),
        (criterion("0.8..1.25", scale="log"), ratios(1.0, 0.05), ratios(9.0, 0.1), Verdict.PASS),
        (criterion("0.8..1.25", scale="log"), ratios(2.0, 0.1), ratios(9.0, 0.1), Verdict.FAIL),
    ],
)
def test_what_is_clear_is_decided(needed: Criterion, draw: Draw, control: Draw, wanted: Verdict) -> None:
    """Rare mistakes alone could be had by never deciding."""
    random = torch.Generator().manual_seed(2)
    result = Counter(judge(Criteria({"x": needed}), {"x": (draw(random), control(random))})[0] for _ in range(200))
    assert result[wanted] / 200 > 0.9, result
