"""Universal features, the Lasso from few examples, and the Lasso as layers: on parts with known results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.universal_approximation import claims as universal
from inweights.papers.universal_approximation._layers import Features, LassoTransformer, Threshold

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900
"""The first seed of trials here: not one of those that the ledger records."""


def test_a_target_is_its_integral() -> None:
    # float64, 400,000 frequencies: the mean of that many terms of size 1 is within 5 deviations of 0.0016.
    random = torch.Generator().manual_seed(0)
    xs, direction = universal.normal(random, 5, universal.DIMS), universal.normal(random, universal.DIMS)
    frequencies = universal.normal(random, 400_000, universal.DIMS)
    drawn = universal.waves(xs, frequencies) @ universal.amplitude(frequencies, direction) / len(frequencies)
    torch.testing.assert_close(universal.target(xs, direction), drawn, rtol=0, atol=8e-3)
    assert (universal.target(xs, -direction) - drawn).abs().max() > 5e-2


def test_features_hold_a_target(verdict: Judge) -> None:
    result, judged = verdict("genli-features", 3, FIRST)
    assert result is Verdict.PASS, judged


def test_features_of_the_wrong_frequencies_do_not(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    waves = universal.waves
    monkeypatch.setattr(universal, "waves", lambda xs, frequencies: waves(xs, 3 * frequencies))
    assert verdict("genli-features", 3, FIRST)[0] is Verdict.FAIL


def test_a_target_of_nearly_nothing_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    target = universal.target
    monkeypatch.setattr(universal, "target", lambda xs, direction: 1e-3 * target(xs, direction))
    with pytest.raises(Exception, match="always answering 0"):
        universal.features(Trial(0))


def test_few_examples_are_enough_for_the_lasso(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    result, judged = verdict("genli-few", 4, FIRST)
    assert result is Verdict.PASS, judged
    monkeypatch.setattr(universal, "KEPT", universal.M)  # no target is sparse
    assert verdict("genli-few", 2, FIRST)[0] is not Verdict.PASS


def test_a_lasso_that_does_not_select_fails(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def dense(xs: Tensor, ys: Tensor, penalties: tuple[float, ...]) -> Tensor:
        weights = [torch.linalg.pinv(xs[:, :k]) @ ys[:, :k].unsqueeze(-1) for k in range(1, xs.shape[1])]
        path = torch.stack([torch.zeros_like(weights[0]), *weights], 1).squeeze(-1)
        return path.expand(len(penalties), *path.shape)

    monkeypatch.setattr(universal, "lasso_path", dense)
    assert verdict("genli-few", 4, FIRST)[0] is Verdict.FAIL


def test_exponents_are_those_of_powers() -> None:
    assert universal.slope([7 * n**-1.5 for n in universal.EXAMPLES]) == pytest.approx(-1.5)


def test_the_transformer_solves_the_lasso(
    monkeypatch: pytest.MonkeyPatch, exact_verdict: Judge, verdict: Judge
) -> None:
    result, judged = exact_verdict("genli-lasso")
    assert result is Verdict.PASS, judged
    monkeypatch.setattr(universal, "MANY", 16)  # the method has not converged
    result, judged = verdict("genli-lasso", 2, FIRST)
    assert result is Verdict.FAIL
    assert judged["steps"].verdict is Verdict.PASS


def test_one_layer_more_is_one_step_more() -> None:
    random = torch.Generator().manual_seed(0)
    features, xs = Features(2, 6, random), universal.normal(random, 3, 9, 2)
    ys = universal.normal(random, 3, 8)
    phi = features(xs)
    for steps in (2, 3):
        weights = universal.proximal(phi[:, :-1], ys, steps, 0.1)
        wanted = (phi[:, -1] * weights).sum(-1)
        torch.testing.assert_close(LassoTransformer(features, steps, 0.1, universal.PENALTY)(xs, ys), wanted)
        assert (LassoTransformer(features, 5, 0.1, universal.PENALTY)(xs, ys) - wanted).abs().max() > 1e-3


def test_thresholds() -> None:
    tokens = torch.tensor([3.0, 0.5, -0.2, -2.0], dtype=torch.float64)
    wanted = torch.tensor([3.0, 0.2, 0.0, -1.7], dtype=torch.float64)  # the first is not a weight
    torch.testing.assert_close(tokens + Threshold(4, slice(1, 4), 0.3)(tokens), wanted)
