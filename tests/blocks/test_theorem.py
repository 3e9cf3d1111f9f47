"""The theorem on every kind of layer and block, by running the block's own forward with changed parameters.

float64, tolerance 1e-10. Controls, where they apply: random changes of equal norm, and the changes without the
residual term, must miss by more than 1e-2; without the input update, by more than 1e-3.
"""

from __future__ import annotations

import pytest
import torch
from cases import BLOCKS, CASES, LAYERS, PAIRS, PARTS, WIDTH, Case, N, is_visible, make_case
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from inweights.blocks import absorb, make_block, trajectory, without
from inweights.theory import Changes, Update, family, product_path

EXACT, MISS = 1e-10, 1e-2


def run(case: Case, changes: Changes, keep: Tensor) -> Tensor:
    """The block's own forward on what is left of the context, with changed parameters."""
    with torch.no_grad(), changes.applied(case.block):
        return case.block(case.context, case.query, keep)


def off(case: Case, changes: Changes, keep: Tensor) -> float:
    """The difference between the changed block without the part and the plain block with it."""
    with torch.no_grad():
        return (run(case, changes, keep) - case.block(case.context, case.query)).abs().max().item()


@pytest.mark.parametrize(("layer", "block", "part", "output"), CASES)
def test_a_part_of_the_context_becomes_weights(layer: str, block: str, part: str, output: str | None) -> None:
    case, kind = make_case(layer, block), BLOCKS[block]
    keep = without(case.context, PARTS[part], case.block)
    changes = absorb(case.block, case.context, case.query, PARTS[part], output=output)
    assert off(case, changes, keep) <= EXACT

    steered = changes.items[: kind.inputs]
    if not is_visible(case, PARTS[part]):  # nothing was seen, so nothing may change
        assert all(update.frobenius().max() == 0 for update in changes.updates)
        assert off(case, Changes(()), keep) == 0
        return
    for update in changes.updates:
        active = update.frobenius() > 0  # experts that are not chosen need no output update
        assert bool(active.any())
        assert torch.equal(update.rank()[active], torch.ones_like(update.rank()[active]))
    assert off(case, changes.random_like(), keep) > MISS
    if len(changes.items) > kind.inputs:
        assert off(case, Changes(steered), keep) > MISS
    if steered:
        assert off(case, Changes(changes.items[kind.inputs :]), keep) > MISS / 10


@pytest.mark.parametrize(("layer", "block"), PAIRS)
def test_the_input_update_is_the_smallest_of_its_family(layer: str, block: str) -> None:
    case, kind = make_case(layer, block), BLOCKS[block]
    keep = without(case.context, PARTS["scattered"], case.block)
    changes = absorb(case.block, case.context, case.query, PARTS["scattered"])
    z = case.block.joint(case.context, case.query, keep).read.detach()
    if kind.inputs == 0:
        assert torch.equal(z, case.block.joint(case.context, case.query).read)  # it never saw the context
        return
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        others = []
        for update in changes.updates[: kind.inputs]:
            u, v = (torch.randn(*f.shape[:-1], 2, generator=g, dtype=f.dtype) for f in update.factors)
            seen = z if update.u.ndim == 2 else z.unsqueeze(-2)
            other = family(update, seen, Update(u, v, update.name))
            assert bool((other.frobenius() > update.frobenius()).all())
            others.append(other)
        assert off(case, Changes((*others, *changes.items[kind.inputs :])), keep) <= EXACT


@pytest.mark.parametrize("block", [name for name, kind in BLOCKS.items() if kind.inputs])
@pytest.mark.parametrize("layer", LAYERS)
def test_any_carrier_is_exact(layer: str, block: str) -> None:
    case = make_case(layer, block)
    keep = without(case.context, PARTS["random"], case.block)
    v = torch.ones(WIDTH, dtype=torch.float64)
    changes = absorb(case.block, case.context, case.query, PARTS["random"], carrier=v)
    assert off(case, changes, keep) <= EXACT


@pytest.mark.parametrize(("layer", "block"), PAIRS)
def test_every_prefix_from_the_query_alone(layer: str, block: str) -> None:
    """Proposition 3.1: with `W_i` the query alone gives `T(c_1…c_i, x)`, for every i, from one pass."""
    case = make_case(layer, block)
    context, query = (t.expand(N + 1, *t.shape) for t in (case.context, case.query))
    with torch.no_grad():
        path = trajectory(case.block, case.context, case.query)
        got = path.run(case.block, context, query, keep=without(case.context, None, case.block))
        want = torch.stack([case.block(case.context, case.query, torch.arange(N) < i) for i in range(N + 1)])
    assert (got - want).abs().max() <= EXACT
    assert (want - want[0]).abs().max() > MISS  # the control: without the changes all would be want[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_product_form_keeps_the_output_at_every_suffix(layer: str) -> None:
    case = make_case(layer, "plain")
    name = "mlp.first.weight"
    W = case.block.get_parameter(name)
    with torch.no_grad():
        full = case.block(case.context, case.query)
        path = product_path(W, case.block.suffix_joints(case.context, case.query).read, name=name)
        for i in range(N + 1):
            keep = torch.arange(N) >= i  # c_{i+1} … c_n
            assert (run(case, Changes((path.update(i),)), keep) - full).abs().max() <= EXACT
            if i == N:
                assert (case.block(case.context, case.query, keep) - full).abs().max() > MISS
    seen = N if case.block.layer.reach is None else case.block.layer.reach
    assert path.total.rank() == seen >= 2  # one for each token that is seen: not of rank 1


@given(
    st.sampled_from(sorted(LAYERS)),
    st.sampled_from(sorted(BLOCKS)),
    st.integers(1, 9),
    st.integers(0, 10_000),
    st.data(),
)
def test_any_size_any_seed_any_part(layer: str, block: str, n: int, seed: int, data: st.DataObject) -> None:
    case = make_case(layer, block, n=n, seed=seed)
    part = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    keep = without(case.context, part, case.block)
    changes = absorb(case.block, case.context, case.query, part)
    size = 1 + max(c.factors[0].abs().max().item() for c in changes.items)
    assert off(case, changes, keep) <= EXACT * size


@pytest.mark.parametrize(("layer", "block"), PAIRS)
def test_batches_of_prompts_have_their_own_weights(layer: str, block: str) -> None:
    """Leading dimensions: every prompt of a batch gets its own changes, run by one call."""
    made = make_block(block, layer, width=WIDTH, seed=3)
    g = torch.Generator().manual_seed(1)
    context = torch.stack([LAYERS[layer].context(N, WIDTH, g) for _ in range(4)])
    query = torch.randn(4, WIDTH, generator=g, dtype=torch.float64)
    keep = without(context, PARTS["scattered"], made)
    changes = absorb(made, context, query, PARTS["scattered"])
    with torch.no_grad():
        assert (changes.run(made, context, query, keep=keep) - made(context, query)).abs().max() <= EXACT
        assert (made(context, query, keep) - made(context, query)).abs().max() > MISS


def test_the_output_update_needs_the_activation_of_the_full_context() -> None:
    """With the reduced context's inner activation the residual term lands in the wrong place."""
    case = make_case("softmax", "residual")
    keep = without(case.context)
    right = absorb(case.block, case.context, case.query)
    with torch.no_grad():
        reduced = case.block.joint(case.context, case.query, keep)
        full = case.block.joint(case.context, case.query)
        assert full.stream is not None
        assert reduced.stream is not None
        wrong = case.block.add(reduced.read, full.stream - reduced.stream, "matrix")
    assert off(case, right, keep) <= EXACT
    assert off(case, Changes((right.items[0], *wrong)), keep) > MISS


def test_changes_made_for_one_query_do_not_serve_another() -> None:
    case = make_case("softmax", "gated")
    changes = absorb(case.block, case.context, case.query)
    other = case._replace(query=case.query.flip(0))
    assert off(other, changes, without(case.context)) > MISS


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.15)])
def test_lower_precision_on_every_device(block: str, dtype: torch.dtype, tolerance: float, device: str) -> None:
    case = make_case("softmax", block, device=device)
    case = Case(case.block.to(dtype), case.context.to(dtype), case.query.to(dtype))
    changes = absorb(case.block, case.context, case.query)
    assert all(f.dtype == dtype for change in changes.items for f in change.factors)
    assert off(case, changes, without(case.context)) <= tolerance
    assert off(case, Changes(()), without(case.context)) > 2 * tolerance


@pytest.mark.parametrize(("layer", "block"), PAIRS)
def test_float64_on_every_device(layer: str, block: str, device: str) -> None:
    case = make_case(layer, block, device=device)
    changes = absorb(case.block, case.context, case.query)
    assert off(case, changes, without(case.context, None, case.block)) <= EXACT
