"""Generated tokens are checked: equal, apart by a tie that rounding decides, or wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from talking import talker

import inweights as iw
from inweights.models import Generated, generated_verdict


def ranked(prompt: iw.Prompt) -> list[int]:
    with torch.no_grad():
        return prompt.model.model(prompt.ids).logits[0, -1].argsort(descending=True).tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_what_is_generated_passes_and_other_tokens_fail(dtype: torch.dtype) -> None:
    prompt = iw.Prompt(talker(dtype=dtype), "My name is Bob. ", "I am")
    result = iw.generate(prompt, 6)
    assert result.patched == result.prompted
    assert generated_verdict(prompt, result) == "PASS"
    wrong = replace(result, patched=[(t + 1) % 259 for t in result.prompted])
    assert generated_verdict(prompt, wrong) == "FAIL"
    last = replace(result, patched=[*result.prompted[:-1], (result.prompted[-1] + 1) % 259])
    assert generated_verdict(prompt, last) == ("INCONCLUSIVE" if dtype == torch.bfloat16 else "FAIL")


def test_a_tie_is_decided_by_rounding_and_is_no_failure() -> None:
    """Two tokens with the same row in the head have the same logit; float64, the tolerance of `verify`."""
    model = talker(dtype=torch.float64)
    prompt = iw.Prompt(model, "My name is Bob. ", "I am")
    first, second = ranked(prompt)[:2]
    apart = Generated([first], [], [second])
    assert generated_verdict(prompt, apart) == "FAIL"
    head = model.model.get_output_embeddings().weight
    head[second] = head[first]
    assert generated_verdict(prompt, apart) == "PASS"
