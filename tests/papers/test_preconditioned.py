"""Ahn et al. 2023: exact claims hold; the measurements of trained models distinguish the theorems from chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from inweights.lab.models import LSA, Learner, LSAModel, gd_construction, gdpp_construction
from inweights.lab.models._forms import SparseForm
from inweights.lab.tasks import Linear, Rotated, Sample
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers._descent import best_descent
from inweights.papers.preconditioned import claims as preconditioned
from inweights.papers.preconditioned.claims import D, N, from_identity

Maker = Callable[[Trial], Learner]
Make = Callable[[str], Maker]
Stand = Callable[[Mapping[str, Maker]], None]
Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def best_layer(_: Trial) -> LSAModel:
    return gd_construction(LSAModel(LSA(form="products"), D, 1), N / (N + D + 1), N)


def three_steps(trial: Trial) -> LSAModel:
    result = best_descent(trial, Linear(dims=D), N, 3, plus=True)
    model = LSAModel(LSA(layers=3, form="sparse"), D, 1)
    return gdpp_construction(model, (N * result.eta).tolist(), result.gamma.tolist(), N)


def whitening(trial: Trial) -> LSAModel:
    model = LSAModel(LSA(layers=3, form="sparse"), D, 1)
    assert isinstance(model.form, SparseForm)
    task = trial.recipe("ahn-rotated").make_task()
    assert isinstance(task, Rotated)
    inverse = torch.linalg.inv(task.covariance())
    model.form.a.data = torch.stack([a * inverse for a in (0.5, 1.0, 2.0)]).unsqueeze(1)
    model.form.b.data[:2] = torch.stack([b * torch.eye(D) for b in (0.9, 0.6)]).unsqueeze(1)
    return model


THEIRS = {"ahn-1": best_layer, "ahn-3": three_steps, "ahn-rotated": whitening}
MEASURED = {"ahn-optimum": "ahn-1", "ahn-three-layers": "ahn-3", "ahn-rotated": "ahn-rotated"}


def test_the_construction_holds_with_the_transpose_alone(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seeds, float64; tolerance and control are those of the criteria. Where all A are symmetric, as written."""
    result, judged = verdict("ahn-construction")
    assert result is Verdict.ERRATUM, judged
    general = preconditioned.preconditioners
    monkeypatch.setattr(preconditioned, "preconditioners", lambda trial: (general(trial)[1], general(trial)[1]))
    result, judged = verdict("ahn-construction")
    assert result is Verdict.PASS, judged


def test_another_layer_is_not_taken_for_the_transpose(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers with A off by a thousandth."""
    right = preconditioned.apart_from_descent

    def wrong(sample: Sample, matrices: Tensor, by: Tensor) -> Tensor:
        return right(sample, 1.001 * matrices, by)

    monkeypatch.setattr(preconditioned, "apart_from_descent", wrong)
    assert verdict("ahn-construction")[0] is Verdict.FAIL


def test_the_controls_are_the_claim_where_there_is_nothing_to_precondition(
    verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With multiples of the identity as A, descent by the identity is right, and so no control."""
    general = preconditioned.preconditioners

    def plain(trial: Trial) -> tuple[Tensor, Tensor]:
        result = preconditioned.identity_part(general(trial)[0])
        return result, result

    monkeypatch.setattr(preconditioned, "preconditioners", plain)
    assert verdict("ahn-construction")[0] is Verdict.INCONCLUSIVE


def test_layers_are_the_papers() -> None:
    """`Z ← Z + (1/n) P Z M (Zᵀ Q Z)` as it is written, tokens as columns: float64, 1e-12."""
    sample = Linear(dims=D).sample(Trial(0).draw(4, dtype=torch.float64), N + 1)
    a = preconditioned.preconditioners(Trial(0))[0]
    model = LSAModel(LSA(layers=3, form="sparse"), D, 1).double().requires_grad_(False)
    assert isinstance(model.form, SparseForm)
    model.form.a.copy_(a.unsqueeze(1))
    model.form.b.zero_()
    Z = torch.cat([sample.xs, sample.ys.unsqueeze(-1)], -1).mT.clone()
    Z[:, -1, -1] = 0
    P, M, Q = torch.zeros(D + 1, D + 1).double(), torch.eye(N + 1).double(), torch.zeros(3, D + 1, D + 1).double()
    P[-1, -1], M[-1, -1], Q[:, :D, :D] = 1, 0, -a
    for layer in Q:
        Z = Z + P @ Z @ M @ (Z.mT @ layer @ Z) / N
    torch.testing.assert_close(model(sample.xs, sample.ys)[:, -1], -Z[:, -1, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("id", MEASURED)
def test_constructed_weights_pass_the_claims(id: str, stand_in: Stand, verdict: Judge) -> None:
    """Weights of float32, measured in float64; the bounds are those of the criteria."""
    stand_in(THEIRS)
    result, judged = verdict(id, 5)
    assert result is Verdict.PASS, judged


@pytest.mark.parametrize(("id", "recipe"), MEASURED.items())
def test_untrained_weights_fail_the_claims(
    id: str, recipe: str, stand_in: Stand, untrained: Make, verdict: Judge
) -> None:
    """What was not trained fails, as far as its control does: one that is as good would be inconclusive."""
    stand_in({recipe: untrained(recipe)})
    result, judged = verdict(id)
    assert result is Verdict.FAIL, judged
    assert {j.verdict for j in judged.values()} == {Verdict.FAIL}


def plain(trial: Trial) -> LSAModel:
    """Three steps of plain gradient descent, which does not use the covariance."""
    model = whitening(trial)
    assert isinstance(model.form, SparseForm)
    model.form.a.data = torch.stack([a * torch.eye(D) for a in (0.5, 1.0, 2.0)]).unsqueeze(1)
    return model


def bent(trial: Trial) -> LSAModel:
    """The right A beside a B that is no multiple of the identity."""
    model = whitening(trial)
    assert isinstance(model.form, SparseForm)
    model.form.b.data[:2] = torch.diag(torch.tensor([0.1, 0.5, 1.0, 1.5, 2.0]))
    return model


@pytest.mark.parametrize("wrong", [plain, bent])
def test_other_weights_than_the_theorems_fail(wrong: Maker, stand_in: Stand, verdict: Judge) -> None:
    stand_in({"ahn-rotated": wrong})
    result, judged = verdict("ahn-rotated")
    assert result is Verdict.FAIL, judged


def test_the_last_b_changes_no_answer() -> None:
    """So the claims ignore it."""
    sample = Linear(dims=D).sample(Trial(0).draw(8), N + 1)
    one, other = whitening(Trial(0)), whitening(Trial(0))
    assert isinstance(other.form, SparseForm)
    other.form.b.data[-1] += torch.randn(1, D, D)
    assert torch.equal(one(sample.xs, sample.ys), other(sample.xs, sample.ys))
    other.form.b.data[0] += 1.0
    assert not torch.allclose(one(sample.xs, sample.ys), other(sample.xs, sample.ys))


def test_the_distance_from_the_identity() -> None:
    """float64, 1e-12: 0 for its multiples, 1 for what has no trace, and what is between."""
    eye = torch.eye(3, dtype=torch.float64)
    one = torch.zeros(3, 3, dtype=torch.float64)
    one[0, 0] = 1.0
    result = from_identity(torch.stack([-2 * eye, one.roll(1, 1), one]))
    torch.testing.assert_close(result, torch.tensor([0, 1, (2 / 3) ** 0.5], dtype=torch.float64), rtol=0, atol=1e-12)
