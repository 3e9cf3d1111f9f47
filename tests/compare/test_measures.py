"""Measures against values that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inweights.compare import InContext
from inweights.compare._measures import (
    COSINES,
    Top,
    accuracy,
    calibration_error,
    divergence,
    interval,
    order_sensitivity,
    overlap_cosines,
    token_overlap,
)


def logs(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


ONE = logs([0.5, 0.3, 0.1, 0.06, 0.04])
OTHER = logs([0.5, 0.04, 0.3, 0.1, 0.06])


def test_overlap_by_hand() -> None:
    """K = 2: {0, 1} and {0, 2} have one token in common."""
    one, other = Top.of(ONE, 2), Top.of(OTHER, 2)
    assert token_overlap(one, other).tolist() == [0.5]
    cosines = {name: value.item() for name, value in overlap_cosines(one, other).items()}
    assert cosines["penalised"] == pytest.approx(0.25 / math.sqrt(0.25 * 0.25 + 1))
    assert cosines["digest"] == pytest.approx(1.0)
    assert cosines["padded"] == pytest.approx(0.25 / (0.25 + 0.09))


def test_nothing_in_common_is_zero_and_equal_is_one() -> None:
    apart = logs([0.4, 0.4, 0.1, 0.05, 0.05]), logs([0.02, 0.03, 0.05, 0.4, 0.5])
    found = overlap_cosines(*(Top.of(p, 2) for p in apart))
    assert [found[name].item() for name in COSINES] == [0, 0, 0]
    same = overlap_cosines(Top.of(ONE, 3), Top.of(ONE, 3))
    assert [same[name].item() for name in COSINES] == pytest.approx([1, 1, 1])
    assert token_overlap(Top.of(ONE, 3), Top.of(ONE, 3)).item() == 1


@given(st.integers(0, 1000))
def test_overlaps_are_symmetric_and_between_0_and_1(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tops = [Top.of(torch.randn(3, 30, generator=generator, dtype=torch.float64).log_softmax(-1)) for _ in range(2)]
    there, back = overlap_cosines(*tops), overlap_cosines(*tops[::-1])
    for name in COSINES:
        assert torch.allclose(there[name], back[name])
        assert (there[name] <= 1 + 1e-12).all()
        assert (there[name] >= 0).all()


def test_sensitivity_by_hand() -> None:
    """Two orders, one query: deviations are |p − q|/√2 for each token."""
    both = torch.stack([logs([0.7, 0.2, 0.1]), logs([0.5, 0.4, 0.1])])
    assert order_sensitivity(both).item() == pytest.approx(0.4 / math.sqrt(2))
    labels = torch.tensor([0, 1])
    assert order_sensitivity(both, labels).item() == pytest.approx(2 * (7 / 9 - 5 / 9) / math.sqrt(2))
    assert order_sensitivity(both[:1].expand(4, -1, -1)).item() == 0
    assert math.isnan(order_sensitivity(both[:1]).item())


def test_accuracy_over_labels_forgives_other_tokens() -> None:
    logp, right, labels = logs([0.1, 0.5, 0.4]), torch.tensor([2]), torch.tensor([0, 2])
    assert accuracy(logp, right).item() == 0
    assert accuracy(logp, right, labels).item() == 1


def test_the_mean_divergence_from_all_orders_in_one_pass() -> None:
    """float64, ≤ 1e-12; that from the first order alone is another."""
    generator = torch.Generator().manual_seed(0)
    icl = InContext.of(torch.randn(4, 6, 50, generator=generator, dtype=torch.float64).log_softmax(-1))
    other = torch.randn(3, 50, generator=generator, dtype=torch.float64).log_softmax(-1)  # of fewer queries

    def kl(result: dict[str, list[float]]) -> torch.Tensor:
        return torch.tensor(result["kl"], dtype=torch.float64)

    each = torch.stack([divergence(one[:3], other) for one in icl.logp])
    assert (kl(icl.against(other)) - each.mean(0)).abs().max() <= 1e-12
    assert (kl(icl.against(other, 1)) - each[1]).abs().max() <= 1e-12
    assert (each[0] - each.mean(0)).abs().max() > 1e-3


def test_divergence_and_calibration() -> None:
    assert divergence(ONE, ONE).item() == pytest.approx(0)
    assert divergence(logs([0.5, 0.5]), logs([0.25, 0.75])).item() == pytest.approx(0.5 * math.log(4 / 3))
    sure = logs([0.75, 0.25]).expand(4, -1)
    right, labels = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1])
    assert calibration_error(sure, right, labels).item() == pytest.approx(0)
    assert calibration_error(sure, torch.ones(4, dtype=torch.long), labels).item() == pytest.approx(0.75)


def test_intervals_contain_the_mean_and_shrink() -> None:
    few, many = torch.arange(8.0), torch.arange(8.0).repeat(50)
    for values in (few, many):
        mean, low, high = interval(values)
        assert low < mean < high
    assert interval(many)[2] - interval(many)[1] < interval(few)[2] - interval(few)[1]
