"""The measurements of Akyürek et al.'s claims, on algorithms in the place of trained models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.lab.models import DecoderModel
from inweights.lab.predictors import OLS, Predictor, Ridge
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.ledger._trial import UnmetError
from inweights.papers.what_algorithm import _written
from inweights.papers.what_algorithm import claims as what_algorithm
from inweights.papers.what_algorithm import probe as what_algorithm_probe

Stand = Callable[[Mapping[str, Callable[[Trial], Any]]], None]
Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
STEP = what_algorithm.Step(rate=0.05)


def instead(stand_in: Stand, **given: Predictor) -> None:
    """These take the place of trained models."""

    def maker(model: Predictor) -> Callable[[Trial], Predictor]:
        return lambda _: model

    stand_in({name.replace("_", "-"): maker(model) for name, model in given.items()})


def test_a_written_decoder_makes_one_update(exact_verdict: Judge) -> None:
    """Two seeds, float64; tolerance and control are those of the criteria."""
    result, judged = exact_verdict("akyurek-sherman-morrison")
    assert result is Verdict.PASS, judged


def test_a_decoder_of_another_penalty_does_not(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(dims: int, penalty: float, *, divides: bool) -> DecoderModel:
        return _written.sherman_morrison(dims, 1.001 * penalty, divides=divides)

    monkeypatch.setattr(what_algorithm, "written", other)
    assert verdict("akyurek-sherman-morrison", 1)[0] is Verdict.FAIL


def test_its_width_grows_with_the_square_and_its_depth_does_not() -> None:
    sizes = {d: _written.sherman_morrison(d, 1.0) for d in (2, 4, 8)}
    assert {d: m.width for d, m in sizes.items()} == {2: 26, 4: 58, 8: 170}
    assert {m.layers for m in sizes.values()} == {5}


@pytest.mark.parametrize(
    ("deep", "shallow", "wanted"),
    [
        (OLS(), STEP, Verdict.PASS),
        (Ridge(penalty=1.0), STEP, Verdict.FAIL),
        (OLS(), OLS(), Verdict.INCONCLUSIVE),  # a control that does not fail
    ],
)
def test_least_squares_is_distinguished_from_ridge(
    deep: Predictor, shallow: Predictor, wanted: Verdict, stand_in: Stand, verdict: Judge
) -> None:
    instead(stand_in, depth_8=deep, depth_1=shallow)
    result, judged = verdict("akyurek-ols")
    assert result is wanted, judged


def test_implicit_weights_are_those_of_a_linear_method() -> None:
    """float32 answers, 1e-4; of another method, others."""
    sample = Linear(dims=5).sample(Trial(0).draw(6), 10)
    result = what_algorithm.implicit_weights(Trial(0), Ridge(penalty=0.5), sample, 7)
    weights = Ridge(penalty=0.5).weights(sample.xs, sample.ys)[:, 7].double()
    torch.testing.assert_close(result, weights, rtol=1e-4, atol=1e-4)
    assert (result - OLS().weights(sample.xs, sample.ys)[:, 7]).abs().max() > 1e-2


RIGHT = {name: Ridge(penalty=(noise / spread) ** 2) for name, (noise, spread) in what_algorithm.RIDGES.items()}


def test_the_correct_penalty_is_recovered(stand_in: Stand, verdict: Judge) -> None:
    instead(stand_in, depth_2=OLS(), **RIGHT)
    result, judged = verdict("akyurek-ridge", 5)
    assert result is Verdict.PASS, judged
    instead(stand_in, depth_2=OLS(), **{name: Ridge(penalty=8 * r.penalty) for name, r in RIGHT.items()})
    assert verdict("akyurek-ridge", 5)[0] is Verdict.FAIL


def test_a_penalty_that_forgets_the_scale_of_the_weights_is_not_the_right_one(stand_in: Stand, verdict: Judge) -> None:
    """σ² in place of σ²/τ²: two of five models, ten of 25 units, are wrong."""
    blind = {name: Ridge(penalty=noise**2) for name, (noise, _) in what_algorithm.RIDGES.items()}
    instead(stand_in, depth_2=OLS(), **blind)
    result, judged = verdict("akyurek-ridge")
    assert (result, judged["hits"].value.value) == (Verdict.INCONCLUSIVE, pytest.approx(0.6))


def test_a_penalty_that_is_right_after_one_example_alone_is_not_enough(stand_in: Stand, verdict: Judge) -> None:
    class Tiring(Ridge):
        """Least squares from the second example on."""

        def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
            result = super().predict_prefixes(xs, ys, queries)
            return torch.where(torch.arange(result.shape[1]) < 2, result, OLS().predict_prefixes(xs, ys, queries))

    instead(stand_in, depth_2=OLS(), **{name: Tiring(penalty=r.penalty) for name, r in RIGHT.items()})
    result, judged = verdict("akyurek-ridge")
    assert result is Verdict.FAIL, judged


@pytest.mark.parametrize(
    ("depths", "wanted"),
    [
        ((STEP, Ridge(penalty=0.5), Ridge(penalty=0.5), OLS()), Verdict.PASS),
        ((STEP, STEP, Ridge(penalty=0.1), OLS()), Verdict.PASS),
        ((Ridge(penalty=0.5), Ridge(penalty=0.5), OLS(), OLS()), Verdict.FAIL),  # one of the three is missing
        ((OLS(), Ridge(penalty=0.5), Ridge(penalty=0.5), STEP), Verdict.FAIL),  # the wrong way round
    ],
)
def test_phases(depths: tuple[Predictor, ...], wanted: Verdict, stand_in: Stand, verdict: Judge) -> None:
    one, two, four, eight = depths
    instead(stand_in, depth_1=one, depth_2=two, depth_4=four, depth_8=eight)
    result, judged = verdict("akyurek-phases")
    assert result is wanted, judged


def test_one_training_without_all_phases_is_enough_to_fail(stand_in: Stand, verdict: Judge) -> None:
    """Four of five are in order; a mean would not detect it."""
    shallow = {True: STEP, False: Ridge(penalty=0.5)}
    makers = {"depth-1": lambda trial: shallow[trial.seed != 3], "depth-2": lambda _: Ridge(penalty=0.5)}
    stand_in(makers | dict.fromkeys(("depth-4", "depth-8"), lambda _: OLS()))
    result, judged = verdict("akyurek-phases", 5)
    assert result is Verdict.FAIL, judged


@pytest.mark.parametrize(
    ("which", "wanted"),
    [([0, 1, 1, 2], True), ([0, 0, 1, 2], True), ([1, 1, 2, 2], False), ([0, 2, 1, 2], False), ([2, 1, 1, 0], False)],
)
def test_all_in_order(which: list[int], wanted: bool) -> None:
    assert what_algorithm.all_in_order(which) is wanted


def seen(sample: Sample, code: Callable[[Tensor], Tensor]) -> Tensor:
    """A layer of random numbers, which holds a code of both targets at one position."""
    drawn = torch.randn(1, *sample.xs.shape[:2], 24, generator=torch.Generator().manual_seed(len(sample.xs)))
    turn = torch.randn(10, 24, generator=torch.Generator().manual_seed(1))
    drawn[0, :, -2] += 3 * code(torch.cat(list(what_algorithm_probe.targets(sample)), -1) @ turn)
    return drawn


def test_a_probe_finds_what_is_there_and_nothing_else() -> None:
    fit, test = (Linear(dims=5).sample(Trial(0).draw(n, n), 16) for n in (2048, 512))
    targets = what_algorithm_probe.targets(fit), what_algorithm_probe.targets(test)

    def read(code: Callable[[Tensor], Tensor]) -> list[float]:
        return [r[0] for r in what_algorithm_probe.probed(Trial(0), seen(fit, code), seen(test, code), *targets)]

    assert min(read(lambda v: v)) > 0.9
    assert min(read(torch.relu)) > 0.8  # not linear
    assert max(read(lambda v: 0 * v)) < 0.05


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller probes, fitted to fewer prompts in fewer steps."""
    less: dict[Any, Any] = {(4096, 1024): (1024, 256), 600: 300}
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: less.get(quick, quick))
    monkeypatch.setattr(what_algorithm_probe, "WIDTH", 64)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("knows", "wanted"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
def test_the_claim_of_the_probe(
    knows: bool, wanted: Verdict, stand_in: Stand, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A world in which the trained model holds both targets, and one in which it holds as little as the others."""

    class Learned:
        pass

    def states(model: object, xs: Tensor, ys: Tensor) -> Tensor:
        return seen(Sample(xs, ys, {}), lambda v: v if knows and isinstance(model, Learned) else 0 * v)

    monkeypatch.setattr(what_algorithm_probe, "states", states)
    monkeypatch.setattr(what_algorithm_probe, "control_model", lambda trial: build(trial.recipe("depth-1")))
    stand_in({"depth-8": lambda _: Learned()})
    result, judged = verdict("akyurek-probe", 2)
    assert result is wanted, judged


@pytest.mark.usefixtures("small")
def test_a_probe_that_cannot_decode_a_planted_code_is_inconclusive(
    stand_in: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_algorithm_probe, "control_model", lambda trial: build(trial.recipe("depth-1")))
    monkeypatch.setattr(what_algorithm_probe, "plant", lambda layer, target: layer)
    stand_in({"depth-8": lambda trial: build(trial.recipe("depth-8"))})
    with pytest.raises(UnmetError, match="a planted code of the weights is read with R²"):
        what_algorithm_probe.probe(Trial(0))


def test_the_control_model_has_learned_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """On other prompts, and whatever their weights are: it adds up the query's coordinates. Two layers are enough."""
    recipe = Trial.recipe
    monkeypatch.setattr(Trial, "recipe", lambda trial, name: recipe(trial, name.replace("-8", "-2")))
    model = what_algorithm_probe.control_model(Trial(0))
    sample = Linear(dims=5).sample(Trial(1).draw(256), 16)
    assert (model(sample.xs, sample.ys) - sample.xs.sum(-1)).square().mean() / 5 < 0.2
