"""The trajectory on a language model: packed copies against patches made one prefix at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from inweights.models import Model, Prompt, patch, trace
from inweights.models._load import as_model
from inweights.models._packed import packed
from inweights.models._tiny import tiny
from inweights.models._trace import one_by_one, staircase, unpackable

IDS = (torch.arange(20) * 5 + 35) % 90 + 3


def prompt(name: str = "llama", **kwargs: object) -> Prompt:
    return Prompt(as_model(tiny(name)), IDS[:9], IDS[9:12], **kwargs)


@cache
def each_prefix(name: str) -> tuple[Prompt, Any]:
    """A prompt and its updates one by one: made once, as it takes a run of the model for each of them."""
    asked = prompt(name)
    return asked, one_by_one(asked, staircase(asked))[0]


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3"])
@pytest.mark.parametrize("piece", [1, 4, 64])
def test_packed_copies_give_the_updates_of_each_prefix(name: str, piece: int) -> None:
    asked, each = each_prefix(name)
    assert unpackable(asked) == ""
    ours = packed(asked, staircase(asked), piece)
    for kind in ("input", "output"):
        for mine, other in zip(ours[kind], each[kind], strict=True):
            for a, b in zip(mine, other, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    for u, _ in ours["input"]:
        assert u[0].abs().max() < 1e-12  # nothing read, nothing moved
        assert u[1:].abs().max() > 0.1


def test_norms_are_those_of_dense_matrices() -> None:
    asked = prompt()
    result = trace(asked)
    u, v = one_by_one(asked, staircase(asked))[0]["input"][1]
    dense = u.unsqueeze(-1) * v.unsqueeze(-2)
    steps = torch.linalg.matrix_norm(dense[1:] - dense[:-1])
    torch.testing.assert_close(result.norms[1].double(), steps, rtol=1e-9, atol=1e-12)
    block = asked.model.anatomy.blocks[1]
    W = torch.cat([asked.model.model.get_parameter(c.name) for c in block.inputs])
    torch.testing.assert_close(result.totals[1], torch.linalg.matrix_norm(dense[1:]) / W.norm())
    assert result.norms.shape == (len(result.layers), 9)
    assert result.how == "packed"


def test_leave_one_out_compares_with_everything() -> None:
    asked = prompt()
    result = trace(asked, leave_one_out=True)
    keeps = torch.ones(9, 9, dtype=torch.bool) & ~torch.eye(9, dtype=torch.bool)
    u, v = packed(asked, torch.cat([keeps, torch.ones(1, 9, dtype=torch.bool)]), 64)["input"][0]
    dense = u.unsqueeze(-1) * v.unsqueeze(-2)
    torch.testing.assert_close(result.norms[0], torch.linalg.matrix_norm(dense[-1:] - dense[:-1]))


@pytest.mark.parametrize(
    "name", ["mixtral", "mamba", "bloom", "gemma3_text", "gptj", "deepseek_v3", "ministral", "gpt_neox", "dbrx", "lfm2"]
)
def test_models_that_cannot_be_packed_are_run_one_by_one_and_say_so(name: str) -> None:
    result = trace(prompt(name))
    assert result.how != "packed"
    for values in (result.norms, result.totals, result.output_norms, result.output_totals):
        assert values.shape == (len(result.layers), 9)
        assert bool(values.isfinite().all())
    assert result.output_norms.max() > 0


def test_totals_of_a_mixture_count_its_experts() -> None:
    asked = prompt("mixtral")
    result = trace(asked)
    made = patch(asked).blocks[0].at(2)
    changed = made.parameters(asked.model.model)
    own = {c.name: asked.model.model.get_parameter(c.name).detach() for c in made.block.inputs}
    moved = sum((changed[name] - W).norm() ** 2 for name, W in own.items()) ** 0.5
    whole = sum(W.norm() ** 2 for W in own.values()) ** 0.5
    assert float(result.totals[0, -1]) == pytest.approx(float(moved / whole), rel=1e-9)


def test_smollm2_draws_a_trajectory(smollm2_float32: Model) -> None:
    asked = Prompt(smollm2_float32, "My name is Bob and I live in Rome.", " I live in")
    result = trace(asked)
    assert result.tokens[:2] == ["My", "Ġname"]
    assert result.norms.shape == (30, 10)
    assert bool((result.norms > 0).all())


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3"])
def test_a_patch_of_the_prompt_is_as_good_as_a_run_for_the_check(name: str) -> None:
    """The same bits as without it; with the patch of another prompt the packed passes are not accepted."""
    asked = prompt(name)
    plain, given = trace(asked), trace(asked, made=patch(asked))
    assert plain.how == given.how == "packed"
    assert torch.equal(plain.norms, given.norms)
    assert torch.equal(plain.totals, given.totals)
    other = Prompt(asked.model, IDS[4:13], IDS[9:12])
    assert trace(asked, made=patch(other)).how != "packed"
