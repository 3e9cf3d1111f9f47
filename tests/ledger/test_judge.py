"""Verdicts follow from the numbers and the criteria, and a control that does not fail is never a pass."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from inweights.ledger import Verdict, judge
from inweights.ledger._criteria import Bound, Criteria, Criterion
from inweights.ledger._intervals import Interval, log_mean, mean, resampled

BELOW = Criterion(Bound.of("<1"), each=False)
EACH = Criterion(Bound.of("<1"), each=True, control=Bound.of(">2"))


def verdict(criterion: Criterion, values: list[float], controls: list[float] | None) -> Verdict:
    result = [[v] for v in values], None if controls is None else [[c] for c in controls]
    return judge(Criteria({"x": criterion}), {"x": result})[0]


@pytest.mark.parametrize(
    ("criterion", "values", "controls", "wanted"),
    [
        (BELOW, [0.1, 0.2, 0.3], [5.0, 6.0, 7.0], Verdict.PASS),
        (BELOW, [2.0, 2.1, 2.2], [5.0, 6.0, 7.0], Verdict.FAIL),
        (BELOW, [0.1, 1.0, 2.0], [5.0, 6.0, 7.0], Verdict.INCONCLUSIVE),  # straddles
        (BELOW, [0.1, 0.2, 0.3], [0.1, 1.0, 2.0], Verdict.INCONCLUSIVE),  # the control straddles
        (BELOW, [0.1, 0.2, math.nan], [5.0, 6.0, 7.0], Verdict.INCONCLUSIVE),
        (BELOW, [0.1, 0.2, 0.3], [5.0, 6.0, math.inf], Verdict.INCONCLUSIVE),
        (BELOW, [0.1, 0.2, math.inf], [5.0, 6.0, 7.0], Verdict.FAIL),  # infinite is outside of any bound
        (EACH, [0.1, math.inf], [2.1, 9.0], Verdict.FAIL),
        (EACH, [0.1, math.nan], [2.1, 9.0], Verdict.INCONCLUSIVE),
        (EACH, [0.1, 0.9], [2.1, 9.0], Verdict.PASS),
        (EACH, [0.1, 1.1], [2.1, 9.0], Verdict.FAIL),  # the worst counts
        (EACH, [0.1, 0.9], [1.5, 9.0], Verdict.INCONCLUSIVE),  # of the control, the best: it misses, but not far enough
        (Criterion(Bound.of(">1"), each=True), [2.0, 3.0], [0.1, 0.2], Verdict.PASS),
        (Criterion(Bound.of(">1"), each=True), [2.0, 3.0], [0.1, 1.2], Verdict.INCONCLUSIVE),
        (Criterion(Bound.of("-1..1"), each=False), [0.0, 0.1], [3.0, 3.0], Verdict.PASS),
        (Criterion(Bound.of("-1..1"), each=False), [0.0, 0.1], [-3.0, 3.0], Verdict.INCONCLUSIVE),
        (Criterion(Bound.of("-1..1"), each=True), [0.0, 100.0], [3.0, 3.0], Verdict.FAIL),
        (Criterion(Bound.of("-1..1"), each=True), [-100.0, 0.0], [3.0, 3.0], Verdict.FAIL),
        (Criterion(Bound.of("-1..1"), each=True), [0.0, 0.1], [0.0, 100.0], Verdict.INCONCLUSIVE),
        (Criterion(Bound.of("-1..1"), each=True), [0.0, 0.1], [-3.0, 100.0], Verdict.PASS),
        (Criterion(Bound.of("<1"), each=False, controlled=False), [0.0, 0.1], None, Verdict.PASS),
    ],
)
def test_verdicts(criterion: Criterion, values: list[float], controls: list[float] | None, wanted: Verdict) -> None:
    assert verdict(criterion, values, controls) is wanted


def test_all_quantities_must_pass_and_one_is_enough_to_fail() -> None:
    two = Criteria({"a": BELOW, "b": BELOW})
    far = [[9.0], [9.5]]
    assert judge(two, {"a": ([[0.1], [0.2]], far), "b": ([[0.1], [0.2]], far)})[0] is Verdict.PASS
    assert judge(two, {"a": ([[0.1], [0.2]], far), "b": ([[5.0], [5.1]], far)})[0] is Verdict.FAIL
    # A failure whose own control is as it should be stands, whatever another control does; without one it does not.
    loose = {"a": ([[0.1], [0.2]], [[0.1], [0.1]]), "b": ([[5.0], [5.1]], far)}
    assert judge(two, loose)[0] is Verdict.FAIL
    bare = Criteria({"a": BELOW, "b": Criterion(Bound.of("<1"), each=False, controlled=False)})
    assert judge(bare, loose)[0] is Verdict.INCONCLUSIVE
    with pytest.raises(ValueError, match="the criteria are about"):
        judge(two, {"a": ([[0.1]], far)})
    with pytest.raises(ValueError, match="a control is missing"):
        judge(Criteria({"a": BELOW}), {"a": ([[0.1]], None)})


def test_a_rival_decides_the_interpretation_alone() -> None:
    """A rival that misses the criterion leaves PASS; one that meets or straddles it does not; FAIL stays FAIL."""
    needed = Criteria({"x": Criterion(Bound.of("<1"), each=False, rival=True)})
    low, far, straddling = [[0.1], [0.2], [0.3]], [[5.0], [6.0], [7.0]], [[0.1], [1.0], [2.0]]

    def of(value: list[list[float]], control: list[list[float]], rival: list[list[float]]) -> Verdict:
        return judge(needed, {"x": (value, control)}, {"x": rival})[0]

    assert of(low, far, far) is Verdict.PASS
    assert of(low, far, low) is of(low, far, straddling) is Verdict.HOLDS_NOT_DIAGNOSTIC
    assert of(far, far, low) is Verdict.FAIL
    assert of(low, low, far) is of(low, low, low) is of(straddling, far, low) is Verdict.INCONCLUSIVE
    two = Criteria({"x": needed.quantities["x"], "y": BELOW})
    assert judge(two, {"x": (low, far), "y": (low, far)}, {"x": low})[0] is Verdict.HOLDS_NOT_DIAGNOSTIC
    assert judge(two, {"x": (low, far), "y": (far, far)}, {"x": low})[0] is Verdict.FAIL
    for rivals in ({}, {"x": low, "y": low}):
        with pytest.raises(ValueError, match="the criteria ask for those of"):
            judge(needed, {"x": (low, far)}, rivals)


def test_an_erratum_is_a_failure_whose_correction_holds() -> None:
    needed = Criteria({"x": EACH, "right": Criterion(Bound.of("<1"), each=True, corrected=True)})
    low, far = [[0.1], [0.2]], [[5.0], [6.0]]

    def of(value: list[list[float]], right: list[list[float]], control: list[list[float]]) -> Verdict:
        return judge(needed, {"x": (value, far), "right": (right, control)})[0]

    assert of(far, low, far) is Verdict.ERRATUM
    assert of(far, far, far) is of(far, low, low) is Verdict.FAIL  # it fails too, or its control does not
    assert of(low, far, far) is Verdict.PASS  # the sentence itself holds


def test_means_of_ratios_are_those_of_logarithms() -> None:
    result = log_mean([1.0, 100.0], "log")
    assert result.value == pytest.approx(10)
    assert result.low * result.high == pytest.approx(100)
    over = log_mean([0.01, 1.0], "log")  # the other way up, everything is the inverse
    assert (over.value * 10, over.low * result.high / 100) == (pytest.approx(1), pytest.approx(0.01))
    assert log_mean([0.0, 99.0], "excess").value == pytest.approx(9)
    assert math.isnan(log_mean([1.0, 0.0], "log").value)
    assert math.isnan(log_mean([1.0, -1.0], "excess").value)
    assert log_mean([2.0], "log").high == math.inf
    for wrong in ({"each": True, "scale": "log"}, {"each": False, "scale": "logs"}):
        with pytest.raises(ValueError, match="the scale of"):
            Criterion(Bound.of("<1"), **wrong)  # type: ignore[arg-type]


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6),
    st.sampled_from(["<1", ">-2", "-3..4"]),
    st.booleans(),
    st.integers(0, 5),
)
@example([0.0, 0.0], "-3..4", True, 0)
def test_controls_as_good_as_the_values_never_pass(values: list[float], bound: str, each: bool, which: int) -> None:
    controls = [1e9] * len(values)
    controls[which % len(values)] = values[which % len(values)]
    criterion = Criterion(Bound.of(bound), each)
    alike = values if each is False else controls
    assert verdict(criterion, values, alike) is not Verdict.PASS


@pytest.mark.parametrize("units", [1, 40])
def test_intervals_cover_means(units: int) -> None:
    """Of 600 sets of 5 trials, about 95% of the intervals hold the truth; without Student's factor, 84%."""
    generator = torch.Generator().manual_seed(0)
    held = narrow = 0
    wide = 2.776 / 1.96 * (5 / 4) ** 0.5
    for seed in range(600):
        trials = [
            torch.randn((), generator=generator, dtype=torch.float64)
            + torch.randn(units, generator=generator, dtype=torch.float64)
            for _ in range(5)
        ]
        result = resampled(trials, draws=400, seed=seed)
        assert result.low <= result.value <= result.high
        held += result.low <= 0 <= result.high
        narrow += (
            result.value - (result.value - result.low) / wide <= 0 <= result.value + (result.high - result.value) / wide
        )
    assert 0.92 <= held / 600 <= 0.99
    assert narrow / 600 < 0.9
    # One unit a trial, all alike, is no interval at all.
    alone = resampled([torch.ones(1, dtype=torch.float64)] * 5)
    assert alone.low == alone.high == 1


@pytest.mark.parametrize(
    ("right", "units", "low", "high"),
    [(15, 15, 0.796, 1), (20, 20, 0.839, 1), (19, 20, 0.764, 0.991), (0, 20, 0, 0.161)],
)
def test_of_zeros_and_ones_the_interval_is_at_least_wilsons(right: int, units: int, low: float, high: float) -> None:
    """Numbers from tables of Wilson's interval. The bootstrap alone has zero width for equal numbers."""
    drawn = [1.0] * right + [0.0] * (units - right)
    result = mean([drawn[k::5] for k in range(5)])
    assert 0 <= result.low <= low + 1e-3
    assert high - 1e-3 <= result.high <= 1
    if right in (0, units):
        assert (result.low, result.high) == pytest.approx((low, high), abs=1e-3)
        alike = resampled([torch.tensor(drawn[k::5]).double() for k in range(5)])
        assert alike.low == alike.high


def test_trials_that_differ_by_more_than_their_units_are_wider_than_wilsons() -> None:
    """Two of five trainings are correct on all units: five trainings are not a hundred independent units."""
    result = mean([[1.0] * 20] * 2 + [[0.0] * 20] * 3)
    assert result.value == 0.4
    assert result.low < 0.2  # Wilson's of 40 in 100 is [0.31, 0.50]
    assert result.high > 0.7


def test_single_numbers_that_are_0_or_1_are_counts_only_if_both_sides_are() -> None:
    ones, zeros = [[1.0]] * 5, [[0.0]] * 5
    assert mean(ones, zeros).low == pytest.approx(0.566, abs=1e-3)
    assert mean(ones, [[0.3]] * 5) == Interval(1.0, 1.0, 1.0)  # such as a loss that is cut at 1
    assert mean(zeros, zeros) == Interval(0.0, 0.0, 0.0)  # such as a difference of nothing
    needed = Criteria({"x": Criterion(Bound.of(">0.9"), each=False)})
    assert judge(needed, {"x": (ones, zeros)})[0] is Verdict.INCONCLUSIVE
    assert judge(needed, {"x": ([[1.0] * 8] * 5, [[0.0] * 8] * 5)})[0] is Verdict.PASS  # 40 of 40: from 0.912 on


def test_an_interval_ends_where_its_quantity_does() -> None:
    cosine = Criterion(Bound.of(">0.5"), each=False, range=Bound.of("-1..1"))
    result = judge(Criteria({"x": cosine}), {"x": ([[0.9], [0.99], [0.999]], [[-0.9], [-0.99], [-0.999]])})[1]["x"]
    assert result.value.high == 1
    assert result.value.low < 0.9
    assert result.control is not None
    assert result.control.low == -1
    free = Criterion(Bound.of(">0.5"), each=False)
    beyond = judge(Criteria({"x": free}), {"x": ([[0.9], [0.99], [0.999]], [[-0.9]] * 3)})[1]["x"]
    assert beyond.value.high > 1
    with pytest.raises(ValueError, match=r"1\.2 is outside of its range, -1 to 1"):
        judge(Criteria({"x": cosine}), {"x": ([[1.2]] * 3, [[0.0]] * 3)})
    assert judge(Criteria({"x": cosine}), {"x": ([[1 + 1e-7]] * 3, [[0.0]] * 3)})[1]["x"].value.value == 1  # rounding


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.lists(st.floats(-1, 1), min_size=2, max_size=6))
def test_no_verdict_hangs_on_a_range(values: list[float], controls: list[float]) -> None:
    ranged = Criterion(Bound.of(">0.5"), each=False, range=Bound.of("-1..1"))
    assert verdict(ranged, values, controls) is verdict(Criterion(Bound.of(">0.5"), each=False), values, controls)


def test_a_bound_outside_of_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="outside of its range, 0 to 1"):
        Criterion(Bound.of(">1.5"), each=False, range=Bound.of("0..1"))


@pytest.mark.parametrize("text", ["<1e-10", ">0.5", "-0.02..0.02"])
def test_bounds_are_read_as_written(text: str) -> None:
    bound = Bound.of(text)
    assert bound.holds(*(0.0, 0.0)) == (text != ">0.5")
    assert bound.misses(0.6, 0.7) == (text != ">0.5")
