"""The notes' claims about trained linear attention and decoders beside gradient descent, on known algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from inweights.lab.models import LSA, Learner, LSAModel, gd_construction, gdpp_construction
from inweights.lab.predictors import GD, OLS, DiscreteMMSE, Newton, Predictor, Ridge, Zero
from inweights.lab.tasks import Pool, Sample, Uniform
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers._descent import Descent, best_descent, prompts
from inweights.papers.notes import depth, mesa, outputs, recognition
from inweights.papers.task_diversity import pretrained

Maker = Callable[[Trial], object]
Stand = Callable[[Mapping[str, Maker]], None]
Make = Callable[[str], Callable[[Trial], Learner]]
Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
D = N = 10


def descending(eta: float, gamma: float = 0.0, **settings: object) -> Callable[[Trial], LSAModel]:
    return lambda _: gdpp_construction(LSAModel(LSA(**settings), D, 1), eta, gamma, N)  # type: ignore[arg-type]


PLUS = [0.3, 2.5, 22.0, 200.0, 1800.0], [0.3, 2.5, 22.0, 200.0, 0.0]
"""Five steps of GD++ as trainings find them, per example."""


def five(clip: float = 10.0) -> LSAModel:
    return gdpp_construction(LSAModel(LSA(layers=5, clip=clip), D, 1), *PLUS, 1)


# --- weights ------------------------------------------------------------------------------------------------------


def test_weights_are_compared_up_to_scale_and_without_what_no_prediction_reads() -> None:
    """float64, 1e-12; a weight that a prediction reads is seen."""
    one, other = (gd_construction(LSAModel(LSA(), D, 1).double(), eta, N) for eta in (6.0, 3.0))
    with torch.no_grad():
        other.form.p *= -5.0
        other.form.q *= -0.1
    assert mesa.likeness(one, other) == pytest.approx(1, abs=1e-12)
    with torch.no_grad():
        other.form.p[..., 0, :] = 7.0  # writes to inputs of the last layer
    assert mesa.likeness(one, other) == pytest.approx(1, abs=1e-12)
    with torch.no_grad():
        other.form.p[..., D, 0] = other.form.p[..., D, D]
    assert mesa.likeness(one, other) == pytest.approx(0.5**0.5, abs=1e-6)


def test_constructed_weights_pass_and_others_fail(stand_in: Stand, untrained: Make, verdict: Judge) -> None:
    world: dict[str, Maker] = {
        "lsa-1": descending(6.0),
        "lsa-2": descending(13.5, 0.177, layers=2, tied=True),
        "lsa-1-shuffled": untrained("lsa-1-shuffled"),
    }
    stand_in(world)
    result, judged = verdict("note-weights")
    assert result is Verdict.PASS, judged
    stand_in(world | {"lsa-2": descending(6.0, 0.0, layers=2, tied=True)})  # plain descent is not GD++
    result, judged = verdict("note-weights")
    assert result is Verdict.FAIL
    assert judged["one_layer"].verdict is Verdict.PASS


# --- momentum -----------------------------------------------------------------------------------------------------


def some(prompts_: int = 20) -> Sample:
    return prompts(Trial(900), Uniform(dims=D), prompts_, N)


def test_both_algorithms_are_what_they_are_called() -> None:
    """GD++ is that of the lab's layers, and momentum adds the step before; float64, 1e-9 of weights of order 1."""
    sample = some()
    context = mesa.Context.of(sample)
    eta, gamma, none = torch.tensor([0.6, 0.9]).double(), torch.tensor([0.1, 0.2]).double(), torch.zeros(2).double()
    model = Descent(eta, gamma).model(D)
    wanted = context.along(mesa.asked_weights(model, sample.xs, sample.ys))
    torch.testing.assert_close(context.descended(eta, gamma, none), wanted, rtol=0, atol=1e-6)  # weights of float32
    beta = torch.tensor([0.0, 0.5]).double()
    first = eta[0] * context.moment
    second = eta[1] * (context.moment - context.values * first) + 0.5 * first
    torch.testing.assert_close(context.descended(eta, none, beta), first + second, rtol=0, atol=1e-12)
    assert (context.descended(eta, none, none) - first - second).abs().max() > 1e-2


class HeavyBall(LSAModel):
    """Descent with momentum in the place of layers."""

    def __init__(self, eta: list[float], beta: list[float]) -> None:
        super().__init__(LSA(layers=len(eta)), D, 1)
        self.eta, self.beta = eta, beta

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        context = mesa.Context.of(Sample(xs, ys, {}))
        numbers = (torch.tensor(v, dtype=xs.dtype) for v in (self.eta, [0.0] * len(self.eta), self.beta))
        w = (context.axes @ context.descended(*numbers).unsqueeze(-1)).squeeze(-1)
        return (w * xs[:, -1]).sum(-1, keepdim=True)


@pytest.mark.parametrize("heavy", [True, False])
def test_momentum_is_distinguished_from_changed_inputs(
    heavy: bool, stand_in: Stand, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 30)
    steps = best_descent(Trial(900), Uniform(dims=D), N, 5, count=1000).eta.tolist()
    balls = {"lsa-2": HeavyBall([0.5] * 2, [0.3] * 2), "lsa-5": HeavyBall(steps, [0.0, 0.2, 0.3, 0.4, 0.5])}
    layers = {"lsa-2": descending(13.0, 0.17, layers=2, tied=True)(Trial(0)), "lsa-5": five()}
    models = balls if heavy else layers
    stand_in({name: lambda _, m=m: m for name, m in (models | {"gdpp-5": five()}).items()})  # type: ignore[misc]
    result, judged = verdict("note-momentum")
    assert result is (Verdict.PASS if heavy else Verdict.FAIL), judged


# --- the mesa-objective -------------------------------------------------------------------------------------------


def test_implicit_weights_after_each_layer_are_those_of_the_steps() -> None:
    """float64, 1e-6, as weights are of float32."""
    sample = some()
    model = gd_construction(LSAModel(LSA(layers=3), D, 1), 4.0, N).double().requires_grad_(False)
    path = mesa.after_layers(model, sample)
    assert path.shape == (4, 20, D)
    for k in (1, 2, 3):
        wanted = GD(rate=4.0, steps=k).weights(sample.xs, sample.ys)[:, -1]
        torch.testing.assert_close(path[k], wanted, rtol=0, atol=1e-6)
    assert path[0].abs().max() == 0
    assert mesa.falling(path, sample).min() == 1
    assert mesa.falling(path.flip(0), sample).max() == 0
    assert mesa.squared_rather_than_absolute(path, sample) > 0
    assert mesa.squared_rather_than_absolute(mesa.absolute_descent(sample, 3), sample) < 0


def test_descent_on_the_examples_and_ascent(stand_in: Stand, verdict: Judge) -> None:
    stand_in({"lsa-5": descending(4.0, layers=5)})
    result, judged = verdict("note-mesa-objective")
    assert result is Verdict.PASS, judged
    stand_in({"lsa-5": descending(-4.0, layers=5)})
    assert verdict("note-mesa-objective")[0] is Verdict.FAIL


# --- length and depth ---------------------------------------------------------------------------------------------


class ByLength:
    """Gradient descent in the place of a decoder: after n examples, as wrong as n steps on all of them."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        sample = Sample(xs.double(), ys.double(), {})
        wanted = depth.descent_errors(sample, self.rate) * depth.DIMS
        return ys + torch.cat([ys.new_zeros(1), wanted.sqrt().to(ys)])


@pytest.mark.parametrize(
    ("model", "wanted"), [(ByLength(0.3), Verdict.PASS), (OLS(), Verdict.FAIL), (Ridge(penalty=0.01), Verdict.FAIL)]
)
def test_a_pattern_like_that_of_descent(model: Predictor, wanted: Verdict, stand_in: Stand, verdict: Judge) -> None:
    stand_in({"depth-8": lambda _: model})
    result, judged = verdict("note-length-descent")
    assert result is wanted, judged


def test_errors_of_descent_are_those_of_the_lab() -> None:
    """float64, 1e-9."""
    sample = depth.drawn(Trial(900))
    result = depth.descent_errors(sample, 0.3)
    for steps in (1, 7):
        answers = GD(rate=0.3, steps=steps).predict_prefixes(sample.xs, sample.ys)[:, -1]
        assert result[steps - 1] == pytest.approx(((answers - sample.ys[:, -1]).square().mean() / 5).item(), rel=1e-9)


@pytest.mark.parametrize(("newton", "wanted"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
def test_layers_that_are_newtons_steps_or_fewer(newton: bool, wanted: Verdict, stand_in: Stand, verdict: Judge) -> None:
    def steps(k: int) -> Predictor:
        return Newton(steps=2 * k + 1) if newton else GD(rate=0.05, steps=k)

    stand_in({f"depth-{k}": lambda _, k=k: steps(k) for k in depth.DEPTHS})  # type: ignore[misc]
    result, judged = verdict("note-depth-ols")
    assert result is wanted, judged


# --- labels in the lab --------------------------------------------------------------------------------------------


def test_learning_and_recognition_in_the_lab(stand_in: Stand, verdict: Judge) -> None:
    stand_in({"depth-8": lambda _: Ridge(penalty=1e-4)})
    result, judged = verdict("note-lab-labels")
    assert result is Verdict.PASS, judged
    pool = Pool(dims=recognition.DIMS, size=16)
    for wrong in (Zero(), DiscreteMMSE(pool=pool.weights(), noise=0.5)):
        stand_in({"depth-8": lambda _, wrong=wrong: wrong})  # type: ignore[misc]
        assert verdict("note-lab-labels")[0] is Verdict.FAIL


class Nearly(Predictor):
    """A predictor that is a bit off, as a model is."""

    def __init__(self, exact: Predictor) -> None:
        self.exact = exact

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        return self.exact.predict_prefixes(xs, ys, queries) + 0.05 * torch.sin(1e3 * xs.sum(-1))


def test_few_tasks_are_recognised_and_many_learned(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """dMMSE and ridge regression in the place of decoders; the wrong way round, and one that predicts 0."""

    def instead(few: Predictor | None, many: Predictor | None) -> Verdict:
        def both(trial: Trial) -> dict[str, Predictor]:
            pool = pretrained.pool(trial, fresh=False)
            known = DiscreteMMSE(pool=pool.weights(), noise=pool.noise)
            return {"few": Nearly(few or known), "many": Nearly(many or known)}

        monkeypatch.setattr(pretrained, "both", both)
        return verdict("note-two-views", 5)[0]

    assert instead(None, pretrained.RIDGE) in (Verdict.PASS, Verdict.HOLDS_NOT_DIAGNOSTIC)
    assert instead(pretrained.RIDGE, None) is Verdict.INCONCLUSIVE  # the controls do what the values should
    assert instead(Zero(), Zero()) not in (Verdict.PASS, Verdict.HOLDS_NOT_DIAGNOSTIC)


# --- several outputs ----------------------------------------------------------------------------------------------


def test_several_outputs_have_a_step_each(
    exact_verdict: Judge, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seeds, float64; if values mix outputs, it fails."""
    assert exact_verdict("note-outputs")[0] is Verdict.PASS
    monkeypatch.setattr(outputs, "note_values", lambda count: torch.full((5 + count, count), 1.0 / count).double())
    assert verdict("note-outputs")[0] is Verdict.FAIL


def test_the_best_steps_are_those_of_the_claims_trial() -> None:
    """Fewer prompts for the fit change η by less than a tenth."""
    trial, task = Trial(900), Uniform(dims=D)
    few, many = (best_descent(trial, task, N, 2, plus=True, tied=True, count=c).eta[0].item() for c in (1000, 4000))
    assert few == pytest.approx(many, rel=0.1)
