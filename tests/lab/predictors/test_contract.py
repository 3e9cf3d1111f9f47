"""Properties of every predictor in the registry: a new one is tested as soon as it is registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.lab import Draw
from inweights.lab.predictors import OLS, PREDICTORS, Classical, LinearPredictor, Predictor, RegressionTree, Ridge, Zero
from inweights.lab.tasks import Linear

DIMS, POINTS = 5, 13
NEEDED: dict[str, dict[str, Any]] = {
    "weighted-ridge": {"prior": (1.0, 2.0, 0.5, 1.0, 3.0)},
    "gd++": {"rates": (0.3, 0.2), "curvatures": (0.01, 0.02)},
    "preconditioned-gd": {"matrices": torch.diag(torch.linspace(0.1, 0.5, DIMS))},
    "dmmse": {"pool": Draw(3, 0, 16).normal(DIMS)},
    "outputs": {"of": Ridge(penalty=0.5)},
    "network": {"hidden": 10, "steps": 20},
    "validation": {"among": (Ridge(penalty=0.1), RegressionTree(depth=1))},
}
NAMES = list(PREDICTORS)
IN_ORDER = {"sgd", "validation"}  # the first examples count differently from the last


def make(name: str) -> Predictor:
    return PREDICTORS.make(name, **NEEDED.get(name, {}))


def draw(name: str, *, points: int = POINTS, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Any:
    sample = Linear(dims=DIMS, noise=0.3).sample(Draw(7, 0, 3, dtype=torch.float64), points)
    ys = torch.stack([sample.ys, -2 * sample.ys], -1) if name == "outputs" else sample.ys
    return sample.xs.to(device, dtype), ys.to(device, dtype)


def leak(predictor: Predictor, xs: Tensor, ys: Tensor) -> float:
    """The change of predictions with inputs that they must not depend on: later points, and their own label."""
    honest = predictor.predict_prefixes(xs, ys)
    worst = 0.0
    for i in range(xs.shape[1]):
        other_xs, other_ys = xs.clone(), ys.clone()
        other_xs[:, i + 1 :] = 3 * other_xs[:, i + 1 :].flip(1) - 1
        other_ys[:, i:] = 2 - 5 * other_ys[:, i:]
        moved = predictor.predict_prefixes(other_xs, other_ys)
        worst = max(worst, float((moved - honest)[:, : i + 1].abs().max()))
    return worst


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_dtypes(name: str, dtype: torch.dtype, device: str) -> None:
    xs, ys = draw(name, dtype=dtype, device=device)
    result = make(name).predict_prefixes(xs, ys)
    assert (result.shape, result.dtype, result.device) == (ys.shape, dtype, xs.device)
    assert result.isfinite().all()
    exact = make(name).predict_prefixes(xs.double(), ys.double())
    assert torch.allclose(result.double(), exact, rtol=1e-3, atol=1e-3)  # in float32


@pytest.mark.parametrize("name", NAMES)
def test_a_single_point_is_answered_without_examples(name: str) -> None:
    xs, ys = draw(name, points=1)
    longer = make(name).predict_prefixes(*draw(name))
    assert make(name).predict_prefixes(xs, ys).shape == ys.shape
    if name != "dmmse":  # all others know nothing before the first example
        assert (longer[:, 0] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_predictions_depend_only_on_the_examples_before(name: str) -> None:
    assert leak(make(name), *draw(name)) < 1e-10  # float64; the network's and the tree's are sums in another order


@pytest.mark.parametrize("name", sorted(set(PREDICTORS) - {"zero"}))
def test_predictions_do_depend_on_the_examples_before(name: str) -> None:
    """Otherwise the test above would be vacuous."""
    xs, ys = draw(name)
    other = ys.clone()
    other[:, 0] += 5
    moved = make(name).predict_prefixes(xs, other) - make(name).predict_prefixes(xs, ys)
    assert moved[:, 1:].abs().max() > 1e-4


@dataclass(frozen=True, kw_only=True)
class Cheat(Classical):
    """A predictor that uses its own label, or the next example."""

    ahead: int

    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        return OLS().predict_prefixes(xs, ys) + 1e-6 * ys.roll(-self.ahead, 1)


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_predictor_that_cheats_is_caught(ahead: int) -> None:
    assert leak(Cheat(ahead=ahead), *draw("ols")) > 1e-7


@pytest.mark.parametrize("name", NAMES)
def test_queries_are_what_is_answered(name: str) -> None:
    xs, ys = draw(name)
    predictor = make(name)
    plain = predictor.predict_prefixes(xs, ys)
    assert torch.allclose(predictor.predict_prefixes(xs, ys, xs.clone()), plain, atol=1e-12)
    others = predictor.predict_prefixes(xs, ys, xs.flip(0))
    # The last entry, asked of a point that has another query, is the answer to that query.
    swapped = torch.cat([xs[:, :-1], xs.flip(0)[:, -1:]], 1)
    assert torch.allclose(others[:, -1], predictor.predict_prefixes(swapped, ys)[:, -1], atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_examples_matters_only_where_it_should(name: str) -> None:
    xs, ys = draw(name)
    order = torch.cat([torch.randperm(POINTS - 1, generator=torch.Generator().manual_seed(0)), torch.tensor([12])])
    predictor = make(name)
    before = predictor.predict_prefixes(xs, ys)[:, -1]
    after = predictor.predict_prefixes(xs[:, order], ys[:, order])[:, -1]
    assert torch.allclose(before, after, atol=1e-9) == (name not in IN_ORDER)


@pytest.mark.parametrize("name", NAMES)
def test_prompts_do_not_mix(name: str) -> None:
    xs, ys = draw(name)
    whole = make(name).predict_prefixes(xs, ys)
    assert torch.allclose(make(name).predict_prefixes(xs[:1], ys[:1]), whole[:1], atol=1e-9)


@pytest.mark.parametrize("name", [n for n in PREDICTORS if issubclass(PREDICTORS[n], LinearPredictor)])
def test_linear_predictors_have_weights(name: str) -> None:
    xs, ys = draw(name)
    predictor = make(name)
    assert isinstance(predictor, LinearPredictor)
    assert predictor.weights(xs, ys).shape == xs.shape


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("ridge", {"penalty": 0.0}, "`penalty` is 0.0, but must be above 0"),
    ("weighted-ridge", {"prior": (1.0, 0.0)}, "must be variances above 0"),
    ("weighted-ridge", {"prior": (1.0,), "noise": 0.0}, "`noise` is 0.0"),
    ("bayesian", {"noise": -1.0}, "`noise` is -1.0, but must be above 0"),
    ("kernel-ridge", {"scale": 0.0}, "`scale` is 0.0"),
    ("lasso", {"penalty": -1.0}, "`penalty` is -1.0"),
    ("nearest", {"neighbours": 0}, "`neighbours` is 0, but must be at least 1"),
    ("gd", {"steps": 0}, "`steps` is 0"),
    ("gd", {"rate": 0.0}, "`rate` is 0.0"),
    ("gd++", {"rates": (0.1,), "curvatures": ()}, "`rates` has 1 numbers and `curvatures` 0"),
    ("preconditioned-gd", {"matrices": torch.ones(2, 3)}, r"`matrices` has shape \(2, 3\)"),
    ("newton", {"start": "book"}, "`start` is 'book', but must be code or paper"),
    ("newton", {"steps": -1}, "`steps` is -1"),
    ("sgd", {"rate": 0.0}, "`rate` is 0.0"),
    ("sgd", {"penalty": -1.0}, "`penalty` is -1.0"),
    ("dmmse", {"pool": torch.ones(3)}, r"`pool` has shape \(3,\)"),
    ("dmmse", {"pool": torch.ones(3, 2), "noise": 0.0}, "`noise` is 0.0"),
    ("logistic", {"penalty": 0.0}, "`penalty` is 0.0"),
    ("tree", {"depth": -1}, "`depth` is -1"),
    ("tree", {"leaf": 0}, "`leaf` is 0"),
    ("network", {"hidden": 0}, "`hidden` is 0"),
    ("network", {"rate": 0.0}, "`rate` is 0.0"),
    ("pretest", {"classes": (1.0, 1.0)}, "must be two different labels"),
    ("validation", {"among": ()}, "`among` is empty"),
    ("validation", {"share": 1.0}, "`share` is 1.0, but must be between 0 and 1"),
]


@pytest.mark.parametrize(("name", "settings", "sentence"), BAD)
def test_bad_settings_are_named_in_one_sentence(name: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as raised:
        PREDICTORS.make(name, **settings)
    assert str(raised.value).startswith(f"The predictor {name}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "setting"), [("weighted-ridge", "prior"), ("preconditioned-gd", "matrices"), ("dmmse", "pool")]
)
def test_settings_for_another_width_are_named(name: str, setting: str) -> None:
    xs, ys = draw(name)
    with pytest.raises(InputError, match=f"`{setting}` is for 5 dimensions, but the inputs have 4"):
        make(name).predict_prefixes(xs[..., :4], ys)


def test_zero_is_zero() -> None:
    assert (Zero().predict_prefixes(*draw("zero")) == 0).all()
