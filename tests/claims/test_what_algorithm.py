"""The measurements of Akyürek et al.'s claims, on algorithms in the place of trained models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.claims import CLAIMS, Trial, Verdict, criteria, judge, what_algorithm
from inweights.claims._keep import Kept
from inweights.lab.predictors import GD, OLS, Ridge, Zero
from inweights.lab.tasks import Linear


@dataclass(frozen=True)
class Instead(Trial):
    """A trial in which these take the place of trained models."""

    given: Mapping[str, Any] = field(default_factory=dict)

    def trained(self, name: str) -> Any:
        return self.given[name]


def verdict(id: str, seeds: int = 2, **given: Any) -> Verdict:
    there = {name.replace("_", "-"): model for name, model in given.items()}
    found = [
        Kept.of(CLAIMS[id].measure(Instead(seed, given=there)), "found", "", 0.0).quantities for seed in range(seeds)
    ]
    return judge(
        criteria()[id], {name: ([f[name][0] for f in found], [f[name][1] or [] for f in found]) for name in found[0]}
    )[0]


def test_sherman_and_morrison_pass() -> None:
    assert verdict("akyurek-sherman-morrison", seeds=5) is Verdict.PASS


def test_least_squares_is_known_from_ridge() -> None:
    assert verdict("akyurek-ols", depth_8=OLS(), depth_1=GD()) is Verdict.PASS
    assert verdict("akyurek-ols", depth_8=Ridge(penalty=1.0), depth_1=GD()) is Verdict.FAIL
    assert verdict("akyurek-ols", depth_8=OLS(), depth_1=OLS()) is Verdict.INCONCLUSIVE  # a control that does not fail


def test_the_right_penalty_is_found() -> None:
    right = {f"ridge-{n}": Ridge(penalty=float(n) ** 2) for n in ("0.5", "1", "2")}
    assert verdict("akyurek-ridge", depth_8=OLS(), **right) is Verdict.PASS
    wrong = {name: Ridge(penalty=8 * r.penalty) for name, r in right.items()}
    assert verdict("akyurek-ridge", depth_8=OLS(), **wrong) is Verdict.FAIL


def test_phases_in_order_and_out_of_it() -> None:
    step, ridge, least = GD(rate=0.5), Ridge(penalty=0.5), OLS()
    assert verdict("akyurek-phases", depth_1=step, depth_2=ridge, depth_4=ridge, depth_8=least) is Verdict.PASS
    assert verdict("akyurek-phases", depth_1=ridge, depth_2=ridge, depth_4=ridge, depth_8=least) is Verdict.FAIL
    assert verdict("akyurek-phases", depth_1=least, depth_2=ridge, depth_4=ridge, depth_8=step) is Verdict.FAIL


def test_rank_correlation_is_spearmans() -> None:
    assert what_algorithm.rank_correlation([0, 1, 1, 2]) == pytest.approx(0.9**0.5)
    assert what_algorithm.rank_correlation([2, 1, 0]) == pytest.approx(-1)
    assert what_algorithm.rank_correlation([1, 1, 1]) == 0


def test_a_probe_finds_what_is_there_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def states(model: Any, xs: Tensor, ys: Tensor) -> Tensor:
        """One layer of random numbers, and, unless the model is a zero, the weights turned among them."""
        drawn = torch.randn(*xs.shape[:2], 12, generator=torch.Generator().manual_seed(len(xs)))
        if not isinstance(model, Zero):
            turn = torch.randn(5, 12, generator=torch.Generator().manual_seed(1))
            drawn[:, -1] += 3 * OLS().weights(xs, ys)[:, -1] @ turn
        return drawn.unsqueeze(0)

    monkeypatch.setattr(what_algorithm, "states", states)
    found, nothing = (
        what_algorithm.probed(Trial(0), model, what_algorithm.last_and_mean)  # type: ignore[arg-type]
        for model in (OLS(), Zero())
    )
    assert found["weights"][0] > 0.9
    assert abs(found["control task"][0]) < 0.05
    assert abs(nothing["weights"][0]) < 0.05


def test_labels_wrongly_paired_are_the_same_labels() -> None:
    ys = Linear(dims=2).sample(Trial(0).draw(3), 6).ys
    moved = what_algorithm.wrongly_paired(ys)
    assert (moved.sort(1).values == ys.sort(1).values).all()
    assert (moved[:, :-1] != ys[:, :-1]).all()
    assert (moved[:, -1] == ys[:, -1]).all()
