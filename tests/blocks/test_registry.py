"""The registry describes the blocks correctly, and bad input gives a one-sentence error."""

from __future__ import annotations

import pytest
import torch
from cases import BLOCKS, LAYERS, WIDTH, make_case

from inweights import InputError
from inweights.blocks import (
    MeanPool,
    Mixture,
    PatchAttention,
    SoftmaxAttention,
    absorb,
    make_block,
    make_layer,
    trajectory,
)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_kind_has_a_control_and_states_it(name: str) -> None:
    block, kind = make_block(name), BLOCKS[name]
    assert len(block.input_controls) == kind.inputs
    assert block.output_controls == kind.outputs
    assert kind.inputs + len(kind.outputs) >= 1
    known = dict(block.named_parameters())
    assert all(control in known for control in block.input_controls)


@pytest.mark.parametrize("name", BLOCKS)
def test_no_parameter_hides_behind_a_zero_or_a_one(name: str) -> None:
    for parameter_name, p in make_block(name).named_parameters():
        assert ((p != 0) & (p != 1)).all(), parameter_name


def test_the_control_that_was_asked_for_is_used() -> None:
    case = make_case("softmax", "pre-layernorm")
    names = {out: absorb(*case, output=out).items[-1].name for out in ("matrix", "bias")}
    assert names == {"matrix": "mlp.last.weight", "bias": "mlp.last.bias"}
    assert absorb(*make_case("softmax", "sandwich")).items[-1].name == "branch_norm.weight"
    assert [c.name for c in absorb(*make_case("softmax", "parallel")).items] == ["mlp.last.weight"]


def test_a_mixture_routes_as_it_did_and_idle_experts_stay() -> None:
    case = make_case("softmax", "mixture")
    mixture = case.block.mlp
    assert isinstance(mixture, Mixture)
    changes = absorb(*case)
    reduced = case.block.joint(case.context, case.query, torch.zeros(5, dtype=torch.bool)).read
    wanted = mixture.routing(case.block.joint(case.context, case.query).read)
    assert not torch.allclose(mixture.routing(reduced), wanted)  # the control: alone it routes otherwise
    with changes.applied(case.block):
        torch.testing.assert_close(mixture.routing(reduced), wanted)
    sums = wanted.sum(-1)
    assert sums < 0.99  # not renormalised: dividing by 1 instead of the actual sum would miss
    idle = changes["mlp.downs"].frobenius() == 0
    assert torch.equal(idle, wanted == 0)


case = make_case("softmax", "residual")
block, context, query = case
nan = torch.full_like(query, torch.nan)


def layer_with(value: float):
    """A block with a contextual layer that has only this output."""
    made = make_block("plain", "softmax", width=WIDTH)
    torch.nn.init.constant_(made.layer.v.weight, value)
    return made


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: absorb(layer_with(0.0), context, query), r"`a` = A\(C∖Y, x\) is zero, so no weight update can act"),
        (lambda: absorb(block, context, nan), "`query` has NaN or infinite entries"),
        (lambda: absorb(block, context / 0, nan), "`context`, `query` have NaN or infinite entries"),
        (lambda: absorb(layer_with(torch.nan), context, query), r"`A\(C∖Y, x\)`, `A\(C, x\)` have NaN or infinite"),
        (lambda: absorb(block, context[:0], query), "`context` is empty: pass at least one token"),
        (lambda: trajectory(block, context[:0], query), "`context` is empty"),
        (lambda: absorb(block, context, query[:3]), r"`query` has shape \(3,\), but this block reads vectors"),
        (lambda: absorb(block, context[:, :3], query), r"`context` has shape \(5, 3\), but this block reads tokens"),
        (lambda: absorb(block, context[0], query), r"`context` has shape \(16,\): pass tokens"),
        (lambda: absorb(block, context[:, :3], query[:3]), r"(?s)`query` has shape.*`context` has shape"),
        (lambda: absorb(block, context, query, [7]), r"`part` names 7, outside the context: its 5 tokens .* 0 to 4"),
        (lambda: absorb(block, context, query, [-1, 9]), "`part` names -1, 9, outside"),
        (lambda: absorb(block, context, query, []), "`part` is empty"),
        (lambda: absorb(block, context, query, [True, False, True]), "must be a list of token numbers"),
        (lambda: absorb(block, context, query, torch.ones(5).bool().numpy()), "must be a list of token numbers"),
        (lambda: absorb(block, context, query, [0.7]), "must be a list of token numbers"),
        (lambda: absorb(block, context, query, "02"), "`part` is '02', but must be a list of token numbers"),
        (lambda: absorb(block, context, query, 3), "`part` is 3, but must be a list of token numbers"),
        (lambda: absorb(block, context.float(), query.float()), "`block` is float64 on cpu, `context` is float32"),
        (lambda: absorb(block, context.expand(2, 5, 16), query.expand(3, 16)), r"`context` \(2,\), `query` \(3,\)"),
        (lambda: absorb(*make_case("softmax", "parallel"), carrier=query), "this block has no input control"),
        (
            lambda: block(context, query, torch.ones(5)),
            r"`keep` is torch.float32 .*must be a boolean tensor",
        ),
        (lambda: block(context, query, torch.ones(4).bool()), r"`keep` is torch.bool of shape \(4,\)"),
        (lambda: make_block("residual", MeanPool(16, 8)), "`layer` turns width 16 into 8, but a 'residual' block adds"),
        (lambda: make_block("residual", hidden=0), "`hidden` is 0"),
        (lambda: make_block("residual", width=6), "`width` is 6, but must be a positive multiple of 8"),
        (lambda: absorb(block, context, query, torch.ones(3, dtype=torch.bool)), r"a mask of shape \(3,\)"),
        (lambda: absorb(block, context, query, output="scale"), "`output` is 'scale', but .* are: matrix, bias"),
        (lambda: absorb(make_block("plain"), context, query, output="bias"), "output controls are: none"),
        (lambda: Mixture(8, 8, experts=4, top_k=5), "`top_k` is 5, but there are 4 experts: choose between 1 and 4"),
        (lambda: Mixture(8, 8, experts=0, top_k=1), "`experts` is 0"),
        (lambda: SoftmaxAttention(10, heads=4), "`heads` is 4, which does not divide the width 10"),
        (lambda: SoftmaxAttention(12, heads=4, positions="rotary"), "a head is 3 wide: make it even"),
        (lambda: SoftmaxAttention(8, positions="alibi"), "`positions` is 'alibi'"),
        (lambda: SoftmaxAttention(8, window=0), "`window` is 0"),
        (
            lambda: SoftmaxAttention(8, positions="absolute", limit=3)(torch.ones(3, 8), torch.ones(8)),
            "Position 3 is beyond the 3 learned positions",
        ),
        (lambda: PatchAttention(8).tokens(torch.ones(1, 5, 8)), r"must be an image \(\.\.\., 1, height, width\)"),
        (lambda: make_block("pre-norm"), "There is no block 'pre-norm'; did you mean pre-rmsnorm"),
        (lambda: make_layer("lstn", 8), "There is no layer 'lstn'; did you mean lstm"),
    ],
)
def test_bad_input_gets_one_sentence(wrong, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong()


def test_the_registry_covers_the_house() -> None:
    assert len(LAYERS) == 13
    assert len(BLOCKS) == 9
