"""Similarities of attention, alignment of updates, sparsity, martingales, many demonstrations and emergence."""

from __future__ import annotations

import math

import pytest
import torch
from worded import reader, reviews

from inweights import InputError
from inweights.compare import (
    aligned,
    attention_matrices,
    bayesian,
    by_model,
    descend,
    first,
    gaussian_like,
    implicit_changes,
    martingale_test,
    movement,
    random_like,
    recent,
    similarity,
    sparsity,
    stages,
    trained_on,
    way,
)
from inweights.compare._alignment import principal
from inweights.compare._emergence import rescaled
from inweights.compare._martingale import Statistics
from inweights.compare._similar import attended
from inweights.lab.models import DecoderModel
from inweights.lab.training import build, changed, read
from inweights.models import Model


@pytest.fixture(params=["sdpa", "eager"])
def model(request: pytest.FixtureRequest) -> Model:
    made = reader()
    made.model.set_attn_implementation(request.param)
    return made


def test_attention_scores_are_those_before_the_softmax(model: Model) -> None:
    """Their softmax is the attention that transformers reports, ≤ 1e-6, as its eager softmax is in float32."""
    text = reviews(model).prefix([0, 1])
    result = attended(model, text, len(text))
    other = reader()
    other.model.set_attn_implementation("eager")
    with torch.no_grad():
        out = other.model(input_ids=torch.tensor([text]), output_attentions=True)
    expected = torch.stack([a[0, :, -1] for a in out.attentions])
    assert (result.scores.softmax(-1) - expected).abs().max() <= 1e-6
    assert result.outputs.shape == (4, 32)


def test_the_model_with_its_own_demonstrations_is_like_itself(model: Model) -> None:
    """A descent that did not move has no direction: 0. Attention scores of the unmoved model are those of zero-shot."""
    shown = reviews(model)
    (point,) = descend(model, shown, way("gd"), 1e-2, epochs=2, every=2)
    result = similarity(model, shown, [0, 1, 2, 3], point.descent.forward, 3)
    assert all(len(values) == 3 for values in result.values())
    assert all(-1 <= value <= 1 for values in result.values() for value in values)
    still = similarity(model, shown, [0, 1, 2, 3], model.model, 2)
    assert still["aou"] == still["am_delta"] == [0.0, 0.0]
    prefix, query = shown.prefix([0, 1, 2, 3]), shown.queries[0]
    pair = [attended(model, (*text, *query), len(query)).scores for text in (prefix, ())]
    assert still["am"][0] == pytest.approx(torch.cosine_similarity(*pair, dim=-1).mean().item())


def test_changes_are_aligned_with_themselves_and_not_with_chance() -> None:
    model = reader()
    shown = reviews(model)
    implicit = implicit_changes(model, shown, [0, 1, 2, 3], 0)
    assert len(implicit) == 8
    same = aligned(implicit, {name: 3 * c for name, c in implicit.items()})
    assert same["cosine"] == pytest.approx([1.0] * 8)
    assert same["angles"] == pytest.approx([1.0] * 8, abs=1e-6)
    chance = aligned(implicit, random_like(implicit))
    assert max(map(abs, chance["cosine"])) < 0.2
    a = torch.diag(torch.tensor([5.0, 4, 0, 0, 0, 0])).double()
    b = torch.diag(torch.tensor([0.0, 0, 5, 4, 0, 0])).double()
    assert principal(a, b, 2).max() <= 1e-6


def test_sparsity_by_hand() -> None:
    W = torch.tensor([[0.0, 2e-5], [0.5, -1.0]])
    assert sparsity([W], relative=False).tolist() == [[0.5, 0.5, 0.5, 0.25, 0.25]]
    assert torch.equal(sparsity([W], relative=True), sparsity([100 * W], relative=True))
    matrices = attention_matrices(reader().model)
    assert {kind: len(result) for kind, result in matrices.items()} == {"queries": 4, "keys": 4, "values": 4}
    like = gaussian_like(matrices["keys"])
    assert like[0].std().item() == pytest.approx(matrices["keys"][0].std().item(), rel=0.1)
    with pytest.raises(InputError, match="No matrices of queries, keys and values"):
        attention_matrices(torch.nn.Linear(3, 3))


def test_a_bayesian_passes_the_martingale_tests_and_a_short_memory_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    observed = (torch.rand(30, generator=generator) < 0.5).double()
    fine = [martingale_test(bayesian, observed, 20, 60, generator) for _ in range(10)]
    assert sum(t.violated for t in fine) <= 2
    assert 0.8 < sum(t.t3_ratio for t in fine) / 10 < 1.25
    wrong = [martingale_test(recent, observed, 20, 60, generator) for _ in range(10)]
    assert sum(t.violated for t in wrong) >= 9


def test_statistics_by_hand() -> None:
    falling = Statistics.of(torch.tensor([[1.0, 1, 1, 0, 0, 0]] * 4, dtype=torch.float64))
    assert falling.t1 == 1.0
    assert falling.t2[0] < 0
    assert falling.t3 == 0.0


def test_a_model_continues_a_sequence_of_digits() -> None:
    """The share of ones among the first digits is the model's own probability."""
    model = reader()
    observed = torch.tensor([0.0, 1, 1, 0])
    drawn = by_model(model)(observed, 400, 3, torch.Generator().manual_seed(0))
    ids = model.tokenizer("0,1,1,0,", add_special_tokens=False)["input_ids"]
    digits = [model.tokenizer(d, add_special_tokens=False)["input_ids"][0] for d in "01"]
    with torch.no_grad():
        p = model.model(input_ids=torch.tensor([ids])).logits[0, -1, digits].softmax(-1)[1].item()
    assert drawn.shape == (400, 3)
    assert drawn[:, 0].mean().item() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 400))


def test_many_demonstrations_are_learnt_and_the_gap_is_told() -> None:
    model = reader()
    shown = reviews(model, 24, 6)
    result = trained_on(model, shown, (1e-2,), 6)
    assert [f["epoch"] for f in result] == [1, 2, 3, 4, 5, 6]
    assert result[-1]["train"] > 0.9
    assert len(first(shown, 8)) == 8


def test_movement_does_not_see_a_rescaling_of_factors() -> None:
    recipe = changed(read("linear-5"), ["steps=4", "schedule=constant", "optimiser=adam"])
    result = stages(recipe, 2, prompts=8)
    assert [s.step for s in result] == [2, 4]
    assert movement(result[0].products, result[1].products) > 1e-4
    assert movement(result[1].products, result[1].rescaled) <= 1e-6
    model = build(recipe)
    assert isinstance(model, DecoderModel)
    one, other = (m.blocks[0].qkv.weight.detach()[None] for m in (model, rescaled(model)))  # type: ignore[union-attr,index]
    assert movement(one, other) > 0.5
