"""Linear self-attention is gradient descent with constructed weights, and approaches it when it is trained."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.lab.models import LSA, LSAModel, Softmax, gd_construction, gdpp_construction, interpolate
from inweights.lab.models._forms import FORMS
from inweights.lab.tasks import Linear

D = N = 10


def model(dims: int = D, outputs: int = 1, **settings: object) -> LSAModel:
    return LSAModel(LSA(**settings), dims, outputs)  # type: ignore[arg-type]


def descent(xs: Tensor, ys: Tensor, eta: list[float], gamma: list[float]) -> Tensor:
    """The predictions of GD++ (plain descent if gamma is 0) for the last point, one prompt and example at a time."""
    answers = []
    for x, y in zip(xs, ys, strict=True):
        examples, query, labels = x[:-1].clone(), x[-1].clone(), y[:-1].clone()
        answer = torch.zeros_like(labels[0])
        for step, shrink in zip(eta, gamma, strict=True):
            # Residuals take the place of labels, so that the weights start from zero in every step.
            gradient = torch.zeros(labels.shape[1], x.shape[1], dtype=x.dtype)
            spread = torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype)
            for a, b in zip(examples, labels, strict=True):
                gradient -= torch.outer(b, a) / len(examples)
                spread += torch.outer(a, a)
            w = -step * gradient
            answer = answer + w @ query
            labels = labels - examples @ w.T
            query = query - shrink * spread @ query
            examples = examples - shrink * examples @ spread
        answers.append(answer)
    return torch.stack(answers).unsqueeze(1)


def prompts(outputs: int, dims: int = 4, points: int = 8) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    return (torch.randn(3, points, width, generator=g, dtype=torch.float64) for width in (dims, outputs))  # type: ignore[return-value]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outputs", [1, 8])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_constructions_are_descent(form: str, outputs: int, steps: int) -> None:
    xs, ys = prompts(outputs)
    eta, gamma = [0.5 / (i + 1) for i in range(steps)], [0.03 * (i + 1) for i in range(steps)]
    lsa = model(4, outputs, layers=steps, form=form).double()
    plain = descent(xs, ys, eta, [0.0] * steps)
    assert (gd_construction(lsa, eta, 7)(xs, ys) - plain).abs().max() < 1e-12
    better = descent(xs, ys, eta, gamma)
    assert (gdpp_construction(lsa, eta, gamma, 7)(xs, ys) - better).abs().max() < 1e-12
    # The controls: another step size, and another algorithm.
    assert (gd_construction(lsa, [1.01 * e for e in eta], 7)(xs, ys) - plain).abs().max() > 1e-4
    if steps > 1:
        assert (better - plain).abs().max() > 1e-3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 3])
def test_tied_layers_share_a_step_and_idle_heads_do_nothing(form: str, heads: int) -> None:
    xs, ys = prompts(1)
    lsa = model(4, layers=4, heads=heads, tied=True, form=form).double()
    assert len(lsa.form.products()[0]) == 1
    wanted = descent(xs, ys, [0.3] * 4, [0.02] * 4)
    assert (gdpp_construction(lsa, 0.3, 0.02, 7)(xs, ys) - wanted).abs().max() < 1e-12


def test_the_weights_are_those_of_the_paper() -> None:
    """The factors that are written have the products of Proposition 1."""
    out, compare = gd_construction(model(3, 2), 0.7, 5).form.products()
    torch.testing.assert_close(out[0, 0], torch.diag(torch.tensor([0, 0, 0, -0.7 / 5, -0.7 / 5])))
    torch.testing.assert_close(compare[0, 0], torch.diag(torch.tensor([1.0, 1, 1, 0, 0])))


def test_clipping_keeps_entries_in_bounds() -> None:
    xs, ys = prompts(1)
    lsa = gd_construction(model(4, layers=2, clip=0.5).double(), 50.0, 7)
    assert lsa(xs, ys).abs().max() == 0.5


def test_the_start_is_the_papers() -> None:
    torch.manual_seed(0)
    weights = torch.cat([p.flatten() for p in model(30, 2, layers=4).parameters()])
    assert weights.std().item() == pytest.approx((0.002 / 4 / 32) ** 0.5, rel=0.02)
    assert weights.abs().max() < 2.4 * weights.std()


def test_impossible_constructions_are_errors() -> None:
    with pytest.raises(InputError, match=r"^There are 2 step sizes, but 3 layers with weights of their own\.$"):
        gd_construction(model(layers=3), [0.1, 0.2], 5)
    with pytest.raises(InputError, match=r"model lsa alone\.$"):
        gd_construction(Softmax().build(Linear(), 5), 0.1, 5)
    for other in (model(heads=2), model(layers=2), model(layers=2, tied=True), model(form="products"), model(5)):
        with pytest.raises(InputError, match=r"^Only models lsa .* can be mixed\.$"):
            interpolate(model(), other)


def test_mixing_does_not_depend_on_the_scale_of_factors() -> None:
    torch.manual_seed(0)
    xs, ys = prompts(1)
    one, other = (gd_construction(model(4).double(), eta, 7) for eta in (1.0, 3.0))
    with torch.no_grad():
        other.form.q *= -5
        other.form.p /= -5
    wanted = descent(xs, ys, [1.5], [0.0])
    torch.testing.assert_close(interpolate(one, other, 0.75)(xs, ys), wanted)


# --- trained: claims.md, section 6. Inputs U(−½, ½), half the mean square; one step of descent reaches 0.2062 ---------


def drawn(batch: int) -> tuple[Tensor, Tensor]:
    xs = torch.rand(batch, N + 1, D) - 0.5
    return xs, (xs @ torch.randn(batch, D, 1)).squeeze(-1)


def half_square(lsa: LSAModel, xs: Tensor, ys: Tensor, shown: Tensor | None = None) -> Tensor:
    return 0.5 * (lsa(xs, ys if shown is None else shown)[:, 0] - ys[:, -1]).square().mean()


def trained(lsa: LSAModel, show: Callable[[Tensor], Tensor] = lambda ys: ys, steps: int = 700) -> float:
    """The loss on new prompts after a short training by Adam, with a rate that falls to zero."""
    optimiser = torch.optim.Adam(lsa.parameters(), lr=1e-2, betas=(0.9, 0.98))
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 1e-2 * (1 - step / steps)
        xs, ys = drawn(1024)
        optimiser.zero_grad()
        half_square(lsa, xs, ys, show(ys)).backward()
        optimiser.step()
    return loss_of(lsa)


@torch.no_grad()
def loss_of(lsa: LSAModel) -> float:
    torch.manual_seed(99)
    return half_square(lsa, *drawn(20_000)).item()


def test_training_comes_to_descent() -> None:
    gd = gd_construction(model(), 6.06, N)
    assert loss_of(gd) == pytest.approx(0.2062, rel=0.01)
    torch.manual_seed(0)
    lsa = model()
    assert trained(lsa) == pytest.approx(loss_of(gd), rel=0.02)
    assert loss_of(interpolate(lsa, gd)) == pytest.approx(loss_of(gd), rel=0.02)
    torch.manual_seed(1)
    xs, ys = drawn(1000)
    with torch.no_grad():
        assert (lsa(xs, ys) - gd(xs, ys)).abs().mean() < 0.05


def test_shuffled_labels_teach_nothing() -> None:
    torch.manual_seed(0)
    lsa = model()
    assert trained(lsa, show=lambda ys: ys.roll(1, 0)) > 0.4  # answering 0 always costs 0.4167


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_moments_stand_for_the_examples(form: str, layers: int) -> None:
    """Float64, relative tolerance 1e-11: a clip that changes nothing has the tokens themselves pass through all layers.
    The control is a clip that changes them."""
    xs, ys = prompts(2)
    lsa = model(4, 2, layers=layers, form=form, heads=2).double()
    with torch.no_grad():
        for weight in lsa.parameters():
            weight.copy_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    by_moments = lsa(xs, ys)
    lsa.clip = 1e9
    assert (lsa(xs, ys) - by_moments).abs().max() < 1e-11 * by_moments.abs().max()
    lsa.clip = by_moments.abs().max().item() / 2
    assert (lsa(xs, ys) - by_moments).abs().max() > 0.1 * by_moments.abs().max()
