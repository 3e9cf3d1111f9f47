"""Attention alone over tokens: patterns, positions and ablations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from inweights._errors import InputError
from inweights.lab.models import AttentionOnly, AttentionOnlyModel

VOCABULARY, LENGTH = 16, 10


def build(points: int = 2 * LENGTH, **settings: object) -> AttentionOnlyModel:
    torch.manual_seed(0)
    return AttentionOnlyModel(AttentionOnly(**settings), VOCABULARY, points)  # type: ignore[arg-type]


def repeated(batch: int) -> Tensor:
    """Sequences in which the second half repeats the first."""
    once = torch.randint(VOCABULARY, (batch, LENGTH))
    return once.repeat(1, 2)


@pytest.mark.parametrize("positions", ["learned", "shortformer"])
def test_patterns_are_where_heads_look(positions: str) -> None:
    model, xs = build(positions=positions), repeated(3)
    patterns = model.patterns(xs)
    assert patterns.shape == (3, 2, 2, 20, 20)
    torch.testing.assert_close(patterns.sum(-1), torch.ones(3, 2, 2, 20))
    assert (patterns.triu(1) == 0).all()
    # The first layer by hand, from its pattern.
    first = model.layers[0]
    h = F.embedding(xs, model.embedding) + (0 if positions == "shortformer" else model.positions)
    read = patterns[:, 0] @ first.v(first.norm(h)).unflatten(-1, (2, 32)).transpose(1, 2)
    added = first(h, model.positions if positions == "shortformer" else None, [], None)
    torch.testing.assert_close(first.out(read.transpose(1, 2).flatten(2)), added)


def test_shortformer_copies_nothing_of_positions() -> None:
    """With zero keys and queries, all positions of a constant sequence have the same output; with learned positions
    they do not."""
    for positions, alike in (("shortformer", True), ("learned", False)):
        model = build(positions=positions)
        for layer in model.layers:
            torch.nn.init.zeros_(layer.qk.weight)
        output = model(torch.ones(1, 12, dtype=torch.long))
        assert torch.allclose(output[:, 0], output[:, -1], atol=1e-6) == alike


def test_an_ablated_head_adds_nothing_while_it_lasts() -> None:
    model, xs = build(), repeated(3)
    whole = model(xs)
    with model.ablated((1, 0)):
        without = model(xs)
        with model.ablated((1, 1), (0, 0), (0, 1)):
            nothing = model(xs)
        torch.testing.assert_close(model(xs), without)
    torch.testing.assert_close(model(xs), whole)
    assert not torch.allclose(without, whole)
    alone = model.read_out(model.norm(F.embedding(xs, model.embedding) + model.positions))
    torch.testing.assert_close(nothing, alone)
    with torch.no_grad():
        model.layers[1].out.weight[:, :32] = 0  # the columns that read head 0
    torch.testing.assert_close(model(xs), without)


def test_patterns_see_ablations_of_earlier_layers() -> None:
    model, xs = build(), repeated(3)
    whole = model.patterns(xs)
    with model.ablated((0, 0), (0, 1)):
        patterns = model.patterns(xs)
    assert torch.equal(patterns[:, 0], whole[:, 0])
    assert not torch.allclose(patterns[:, 1], whole[:, 1])


def test_a_head_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(InputError, match=r"^There is no head 2 in layer 1: there are 2 layers of 2\.$"),
        build().ablated((1, 2)),
    ):
        pass


def test_fixed_patterns_keep_where_heads_look() -> None:
    """float32, up to rounding; without them, the same ablation changes where a later layer looks."""
    model, xs = build(), repeated(3)
    patterns = model.patterns(xs)
    torch.testing.assert_close(model.run(xs, fixed=patterns), model(xs))
    with model.ablated((0, 0)):
        assert not torch.allclose(model.run(xs, fixed=patterns), model(xs), atol=1e-4)


def test_smeared_keys_are_mixed_with_those_before() -> None:
    model, xs = build(smeared=True), repeated(3)
    plain = build()
    plain.load_state_dict({name: p for name, p in model.state_dict().items() if "smear" not in name})
    for layer in model.layers:
        layer.smear.data.fill_(50.0)  # all of a key is its own token's
    torch.testing.assert_close(model(xs), plain(xs))
    layer = model.layers[0]
    layer.smear.data.fill_(-50.0)
    h = F.embedding(xs, model.embedding) + model.positions
    (_, keys), (_, before) = layer.queries_and_keys(h, None), plain.layers[0].queries_and_keys(h, None)
    torch.testing.assert_close(keys[:, :, 1:], before[:, :, :-1])
    torch.testing.assert_close(keys[:, :, 0], before[:, :, 0])
    assert not torch.allclose(model(xs), plain(xs), atol=1e-5)


def test_queries_and_keys_of_two_streams() -> None:
    model, xs = build(), repeated(3)
    h = F.embedding(xs, model.embedding) + model.positions
    layer = model.layers[0]
    torch.testing.assert_close(layer.composed(h, h, None), model.patterns(xs)[:, 0])
    assert not torch.allclose(layer.composed(h, h.roll(1, 0), None), layer.composed(h.roll(1, 0), h, None))


def test_what_heads_add_from_one_token() -> None:
    """Summed over heads and weighted by attention, it is what the layer adds."""
    model, xs = build(), repeated(3)
    h = F.embedding(xs, model.embedding) + model.positions
    layer = model.layers[0]
    added = torch.einsum("bhij,bhjw->biw", model.patterns(xs)[:, 0], layer.through(h))
    torch.testing.assert_close(added, layer(h, None, [], None))
    assert not torch.allclose(added, layer.through(h)[:, 0], atol=1e-5)
