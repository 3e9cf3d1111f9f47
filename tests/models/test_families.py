"""Structurally different families, by structure alone: the anatomy that is found, and the proof on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from inweights import InputError
from inweights.models import anatomy, families, family_names, generate, patch, verify
from inweights.models._families import CONTROL, TOLERANCE, prove
from inweights.models._load import as_model
from inweights.models._prompt import Prompt
from inweights.models._tiny import probe, tiny

ROOT = Path(__file__).parents[2]

# family: (input controls of the last block, tail, does the last matrix add as it is)
SAMPLE = {
    "llama": (2, "sum", True),  # gated, RMSNorm
    "gpt2": (1, "sum", True),  # plain, Conv1D, LayerNorm, learned positions
    "bloom": (1, "sum", True),  # ALiBi, no positions to be told
    "gptj": (0, "sum", True),  # parallel
    "bert": (1, "post-norm", True),  # a norm after the sum
    "gemma3_text": (2, "branch-norm", True),  # a norm on the branch
    "olmo2": (2, "branch-norm", True),
    "phi3": (1, "sum", True),  # fused gate and up
    "mixtral": (2, "sum", False),  # mixture of experts: the router, and gates and ups in one tensor
    "qwen2_moe": (5, "sum", False),  # with a shared expert behind a gate of its own
    "granite": (2, "sum", True),  # the branch is scaled
    "mamba": (0, "sum", True),  # state space
    "recurrent_gemma": (2, "sum", True),  # Griffin
    "jamba": (None, "sum", None),  # a hybrid of all three
    "rwkv": (None, "sum", None),  # gates that are not linear
    "xlm": (None, "sum", None),  # a cache of caches, filled unasked
    "xlnet": (0, "head", True),  # no chain of blocks: the head carries everything
}


@pytest.mark.parametrize("name", SAMPLE)
def test_anatomy_is_read_off_the_structure(name: str) -> None:
    last = anatomy(tiny(name)).blocks[-1]
    inputs, tail, unit = SAMPLE[name]
    assert last.supported
    assert last.tail == tail
    if inputs is not None:
        assert len(last.inputs) == inputs
    if unit is not None:
        assert last.unit == unit


@pytest.mark.parametrize("name", SAMPLE)
def test_both_modes_are_exact(name: str) -> None:
    result = prove(name, seeds=2)
    assert result.status == "exact", result
    assert result.token_error is not None
    assert result.static_error is not None
    assert result.control is not None
    assert max(result.token_error, result.static_error) <= TOLERANCE["tiny"]
    assert result.control > CONTROL


def test_no_family_is_known_by_name() -> None:
    """The patching code names no family: what differs is found by looking. What llama.cpp does to a family's files
    (`_gguf.py`) cannot be found so."""
    names = {n for n in family_names() if len(n) > 3}
    for path in (ROOT / "src/inweights/models").glob("*.py"):
        if path.name in ("_tiny.py", "_families.py", "_families_table.py", "_rows.py", "_load.py", "_gguf.py"):
            continue
        code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(), flags=re.DOTALL)
        strings = set(re.findall(r'"([a-z0-9_-]+)"', code))
        assert not strings & names, path


def test_casts_inside_a_float64_model_cap_the_equality_unless_they_are_kept_out() -> None:
    result = prove("gemma3_text", seeds=1)
    assert result.casts > 0
    assert result.cast_error is not None
    assert result.cast_error > 1e-9
    assert result.token_error is not None
    assert result.token_error < 1e-10


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "name",
    [
        "llama",
        "gpt2",
        "gpt_neox",
        "bloom",
        "mixtral",
        "jamba",
        "qwen3_next",
        "lfm2",
        "gemma3_text",
        "gemma4_text",
        "rwkv",
        "minimax",
        "mpt",
    ],
)
def test_several_tokens_over_a_cache(name: str, dtype: torch.dtype) -> None:
    """Token mode with more than one query token: each over the cache of those before it, whatever cache that is."""
    model = as_model(tiny(name).to(dtype))
    ids = probe()[0]
    prompt = Prompt(model, ids[:9], ids[9:12])
    proof = verify(prompt, patch(prompt))
    assert proof.verdict == "PASS", proof
    assert proof.max_abs_logit_error <= (1e-9 if dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize("name", ["bart", "mamba"])
def test_a_cache_that_cannot_be_stepped_over_is_said_and_text_is_still_right(name: str) -> None:
    model = as_model(tiny(name))
    ids = probe()[0]
    prompt = Prompt(model, ids[:9], ids[9:12])
    with pytest.raises(InputError, match="cannot be run token by token over its cache"):
        verify(prompt, patch(prompt))
    assert verify(prompt, patch(prompt, "static")).verdict == "PASS"
    one = Prompt(model, ids[:9], ids[9:10])
    assert verify(one, patch(one)).verdict == "PASS"
    result = generate(prompt, 3)
    assert result.patched == result.prompted


def test_a_wrong_patch_does_not_pass_because_the_logits_are_small() -> None:
    model = as_model(tiny("llama").float())
    with torch.no_grad():
        model.model.lm_head.weight.mul_(5e-4)
    ids = probe()[0]
    right, other = Prompt(model, ids[:9], ids[9:10]), Prompt(model, [50, *ids[1:9].tolist()], ids[9:10])
    proof = verify(right, patch(other))
    assert proof.max_abs_logit_error < 1e-3  # below the tolerance, and yet wrong
    assert proof.verdict == "FAIL"
    assert verify(right, patch(right)).verdict == "PASS"


def test_an_unknown_family_is_named_with_its_neighbours() -> None:
    with pytest.raises(InputError, match="There is no family 'lama'; did you mean llama"):
        families(["lama"])


def test_the_table_in_the_docs_is_of_this_mapping_and_good_enough() -> None:
    text = (ROOT / "docs" / "families.md").read_text()
    rows = dict(re.findall(r"^\| ([\w.-]+) \| ([\w-]+) \|", text, re.MULTILINE))
    rows.pop("family", None)
    assert set(rows) == set(family_names()), "run: inweights families --out docs/families.md"
    exact = sum(status == "exact" for status in rows.values())
    assert f"**{exact} of {len(rows)}**" in text
    assert exact >= 130
    assert all(rows[name] == "exact" for name in SAMPLE)


def test_the_table_in_the_docs_has_enough_deep_families() -> None:
    lines = [line.strip("| \n").split(" | ") for line in (ROOT / "docs" / "families.md").read_text().splitlines()]
    header = next(cells for cells in lines if cells[0] == "family")
    table: list[dict[str, Any]] = [dict(zip(header, cells, strict=False)) for cells in lines[lines.index(header) + 2 :]]
    for row, cells in zip(table, lines[lines.index(header) + 2 :], strict=True):
        at = header.index("deep token")
        row["deep errors"], row["their logits"] = cells[at : at + 3 : 2], cells[at + 1 : at + 4 : 2]
    deep = {row["family"]: row["deep"] for row in table}
    assert sum(status in ("exact", "token-only") for status in deep.values()) >= 165
    assert sum(status in ("exact", "static-only") for status in deep.values()) >= 165
    branch = [row["family"] for row in table if row["residual form"] == "branch-norm"]
    assert len(branch) > 10
    assert all(deep[name] in ("exact", "token-only") for name in branch)
    assert all(row["reason"] for row in table if row["deep"] != "exact")
    for row in table:  # by the rule that the page states, to the digits that it shows
        if row["deep"] == "exact":
            for error, logit in zip(row["deep errors"], row["their logits"], strict=True):
                assert float(error) <= 2 * 1e-8 * max(1.0, float(logit)), row["family"]
