"""The parts under the patches: the tape, the precision that is kept, the stable inversion."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from inweights import InputError
from inweights.models import Prompt, patch
from inweights.models._stable import balanced, balanced_scale, closest
from inweights.models._tiny import tiny
from inweights.running._precision import KeepFloat64
from inweights.running._tape import Tape, matrices

F64 = torch.float64


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@pytest.mark.parametrize(
    ("make", "transposed"),
    [
        (lambda x, W: F.linear(x, W), False),
        (lambda x, W: x @ W.mT, False),
        (lambda x, W: torch.matmul(x, W.t()), False),
        (lambda x, W: F.linear(x, W.mT.contiguous().mT), None),  # a copy is no view of the parameter
        (lambda x, W: torch.addmm(torch.zeros(3, dtype=F64), x[0], W.t()).unsqueeze(0), False),
    ],
)
def test_the_tape_sees_products_however_they_are_written(make, transposed: bool | None) -> None:
    W, x = nn.Parameter(randn(3, 4)), randn(1, 5, 4, seed=1)
    with Tape({"W": W}) as tape:
        out = make(x, W)
    if transposed is None:
        assert tape.products == []
        return
    (product,) = tape.products
    assert product.transposed == transposed
    assert product.x.shape == (1, 5, 4)
    torch.testing.assert_close(product.rows(product.made)[0], out[0])
    torch.testing.assert_close(out, x @ W.mT)


def test_a_parameter_stored_as_its_transpose_is_recognised() -> None:
    W, x = nn.Parameter(randn(4, 3)), randn(1, 5, 4, seed=1)
    with Tape({"W": W}) as tape:
        _ = x @ W
    assert tape.products[0].transposed


def test_experts_are_told_apart() -> None:
    W, x = nn.Parameter(randn(6, 3, 4)), randn(2, 4, seed=1)
    with Tape({"W": W}) as tape:
        F.linear(x, W[4])
        torch.bmm(randn(6, 2, 4, seed=2), W.mT)
    assert tape.products[0].experts == range(4, 5)
    assert tape.products[1].experts == range(6)
    assert tape.products[1].x.shape == (6, 2, 4)


def test_the_tape_may_change_what_is_made() -> None:
    W, x = nn.Parameter(randn(3, 4)), randn(1, 5, 4, seed=1)
    with Tape({"W": W}, lambda p: p.made * 2), torch.no_grad():
        out = F.linear(x, W)
    torch.testing.assert_close(out, 2 * x @ W.mT)


def test_tied_parameters_go_by_their_last_name() -> None:
    net = tiny("gpt2")
    assert net.lm_head.weight is net.transformer.wte.weight
    with Tape(matrices(net)) as tape, torch.no_grad():
        net(input_ids=torch.arange(5).unsqueeze(0), use_cache=False)
    assert tape.products[-1].name == "lm_head.weight"


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.float(),
        lambda x: x.to(torch.float32),
        lambda x: x.to(dtype=torch.float32),
        lambda x: x.to("cpu", torch.float32),
        lambda x: x.type(torch.float32),
        lambda x: x.to(torch.zeros(1)),
        lambda x: x.type_as(torch.zeros(1)),
        lambda x: x.bfloat16(),
        lambda x: F.softmax(x, -1, dtype=torch.float32),
        lambda x: x.sum(-1, dtype=torch.float32),
        lambda x: x @ torch.zeros(4, 4, dtype=torch.float32),
    ],
)
def test_float64_stays_float64(cast) -> None:
    x = randn(2, 4)
    with KeepFloat64():
        assert cast(x).dtype == F64
        assert torch.ones(2, dtype=torch.int64).float().dtype == torch.float32  # nothing else is touched


def test_casts_are_counted() -> None:
    with KeepFloat64() as mode:
        randn(2).float().to(torch.float32)
    assert mode.casts == 2


def test_the_default_dtype_comes_back_also_after_an_exception() -> None:
    before = torch.get_default_dtype()
    with pytest.raises(RuntimeError, match="on purpose"), KeepFloat64():
        raise RuntimeError("on purpose")
    assert torch.get_default_dtype() == before


@given(st.integers(2, 12), st.integers(0, 500))
def test_stable_inversion_finds_the_closest(width: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    goal = torch.randn(width, generator=g, dtype=F64) * 10 ** (3 * torch.rand(1, generator=g, dtype=F64) - 1.5)
    scale = torch.randn(width, generator=g, dtype=F64)
    y = closest(goal, scale)
    assert abs(float(y.square().mean()) - 1) < 1e-6
    best = (scale * y - goal).norm()
    for size in (1.0, 0.1, 0.01):
        other = y + size * torch.randn(200, width, generator=g, dtype=F64)
        other = other / other.square().mean(-1, keepdim=True).sqrt()
        assert bool(((scale * other - goal).norm(dim=-1) >= best - 1e-7 * (1 + best)).all())


def test_the_hard_case_of_the_inversion() -> None:
    """The goal is zero where the scale is smallest: no multiplier makes `y` long enough by itself."""
    scale = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=F64)
    goal = torch.tensor([0.0, 0.1, 0.1, 0.1], dtype=F64)
    y = closest(goal, scale)
    torch.testing.assert_close(y.square().mean(), torch.tensor(1.0, dtype=F64))
    assert y[0].abs() > 1.9  # nearly all of its length
    g = torch.Generator().manual_seed(0)
    other = torch.randn(20_000, 4, generator=g, dtype=F64)
    other = other / other.square().mean(-1, keepdim=True).sqrt()
    assert bool(((scale * other - goal).norm(dim=-1) >= (scale * y - goal).norm() - 1e-9).all())


@given(st.integers(2, 12), st.integers(0, 500))
def test_the_balanced_inversion_has_the_smallest_scale(width: int, seed: int) -> None:
    """`mean y² = 1`, and no other such `y` gives a shorter `goal/y`; float64."""
    g = torch.Generator().manual_seed(seed)
    goal = torch.randn(width, generator=g, dtype=F64) * 10 ** (6 * torch.rand(width, generator=g, dtype=F64) - 3)
    scale = torch.randn(width, generator=g, dtype=F64)
    y = balanced(goal, scale)
    assert float(y.square().mean()) == pytest.approx(1)
    assert bool((goal / y * scale >= 0).all())  # the signs of the old scale
    best = (goal / y).norm()
    other = y * (1 + 0.3 * torch.randn(200, width, generator=g, dtype=F64))
    other = other / other.square().mean(-1, keepdim=True).sqrt()
    assert bool(((goal / other).norm(dim=-1) >= best * (1 - 1e-9)).all())


def test_a_goal_of_zero_has_no_balanced_inversion() -> None:
    with pytest.raises(InputError, match="`goal` is zero for a whole token"):
        balanced(torch.zeros(1, 3, dtype=F64), torch.ones(3, dtype=F64))


@given(st.integers(1, 6), st.integers(0, 200))
def test_one_scale_serves_all_tokens_of_like_size(tokens: int, seed: int) -> None:
    """64 coordinates: `mean (goal_t/m)² = size²` for every token, 1e-8; and no other scale that does so is shorter."""
    g = torch.Generator().manual_seed(seed)
    goals = torch.randn(tokens, 64, generator=g, dtype=F64)
    size = torch.tensor(0.999, dtype=F64)
    m = balanced_scale(goals, size)
    reached = (goals / m).square().mean(-1)
    torch.testing.assert_close(reached, size.square().expand(tokens), rtol=1e-8, atol=0)
    # Other solutions: 1/m² moved in a direction that leaves all conditions as they are.
    w, G = 1 / m.square(), goals.square()
    step = torch.randn(64, generator=g, dtype=F64) * w
    step = step - torch.linalg.pinv(G) @ (G @ step)
    for length in (1e-2, 1e-1):
        other = w + length * step
        if bool((other > 0).all()):
            assert float((1 / other).sum()) >= float((1 / w).sum()) * (1 - 1e-9)


def test_one_token_alone_has_the_balanced_scale() -> None:
    goal = randn(1, 8)
    m = balanced_scale(goal, torch.tensor(1.0, dtype=F64))
    torch.testing.assert_close(m, (goal / balanced(goal, torch.ones(8, dtype=F64)))[0].abs())


def test_tokens_of_very_different_sizes_are_never_above_what_the_norm_allows() -> None:
    goals = torch.stack([randn(8), 1e-3 * randn(8, seed=1), torch.zeros(8, dtype=F64)])
    reached = (goals / balanced_scale(goals, torch.tensor(0.9, dtype=F64))).square().mean(-1).sqrt()
    assert float(reached.max()) == pytest.approx(0.9)
    assert bool((reached[1:] < 0.9).all())


def test_a_tape_can_hold_some_rows_alone() -> None:
    W, x = torch.randn(3, 4, dtype=F64), torch.randn(1, 6, 4, dtype=F64)
    with Tape({"W": W}) as whole, Tape({"W": W}, rows=torch.tensor([1, 5])) as some:
        torch.nn.functional.linear(x, W)
    assert torch.equal(some.products[0].x, whole.products[0].x[:, [1, 5]])
    assert torch.equal(some.products[0].made, whole.products[0].made[:, [1, 5]])
    assert some.products[0].x.untyped_storage().nbytes() == 2 * 4 * 8  # the other rows can be freed


@pytest.mark.parametrize("family", ["llama", "gpt2", "mixtral"])
def test_changed_weights_are_the_sum_of_weights_and_updates(family: str) -> None:
    """Matrices stored one way and the other, and experts; the weights themselves stay as they are."""
    net = tiny(family)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    for b in patch(Prompt(net, [3, 4, 5], [6])).blocks:
        at = b.at(0)
        for name, changed in at.parameters(net).items():
            W = before[name]
            control = next((c for c in (*at.block.inputs, *at.block.outputs) if c.name == name), None)
            expected = W.clone()
            if at.read is not None and control in at.block.inputs:
                change = at.read.premultiplied(W.mT if control.transposed else W).dense()
                expected += change.mT if control.transposed else change
            for (of, expert), update in at.added.items():
                if of == name:
                    change = update.dense().mT if control.transposed else update.dense()
                    (expected if expert < 0 else expected[expert]).add_(change)
            if name not in at.moved:
                torch.testing.assert_close(changed, expected)
    assert all(torch.equal(p, before[name]) for name, p in net.named_parameters())
