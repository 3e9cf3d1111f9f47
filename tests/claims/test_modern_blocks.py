"""*Equivalence in modern blocks*: what is exact holds, and the measurements can tell what is not."""

from __future__ import annotations

import pytest
import torch
from talking import talker

from inweights.claims import CLAIMS, Trial, Verdict, criteria, judge, modern_blocks
from inweights.claims._keep import Kept
from inweights.claims._patched import PROMPTS, disturbed_errors, last_token, random_ids, random_model, replayed


def verdict(id: str) -> Verdict:
    """What follows from the quick trials of a claim."""
    trials = [Kept.of(CLAIMS[id].measure(Trial(seed)), "found", "", 0.0).quantities for seed in range(5)]
    found = {name: ([t[name][0] for t in trials], [t[name][1] or [] for t in trials]) for name in trials[0]}
    return judge(criteria()[id], found)[0]


@pytest.mark.parametrize(
    "id",
    [
        "goldwaser-gemma",
        "goldwaser-llama",
        "goldwaser-gpt2",
        "goldwaser-mixture",
        "goldwaser-parallel",
        "goldwaser-controllable",
        "goldwaser-preconditions",
        "goldwaser-token-specific",
    ],
)
def test_what_is_exact_holds(id: str) -> None:
    """All seeds, float64, by the ledger's own criteria and controls."""
    assert CLAIMS[id].exact
    assert verdict(id) is Verdict.PASS


def test_every_criterion_has_its_claim() -> None:
    assert modern_blocks.__name__
    wanted = {id for id in criteria() if id.startswith("goldwaser-")}
    assert wanted == {id for id, claim in CLAIMS.items() if claim.paper.key == "goldwaser"}
    assert len(PROMPTS) == 5


def test_a_continuation_is_replayed_exactly_with_patches_and_not_without() -> None:
    """A tiny Llama in float64, tolerance 1e-9; without changes logits are off by more than a tenth."""
    found = replayed(talker("llama", torch.float64), "Some context, then more of it:", 4, stable=False)
    assert found.error.shape == (4,)
    assert float(found.error.max()) < 1e-9
    assert float(found.match.min()) == 1
    assert float(found.bare_error.min()) > 0.1


def test_a_patch_that_misses_its_output_controls_is_seen() -> None:
    found = CLAIMS["goldwaser-gpt2"].measure(Trial(3))
    error, control = found.quantities["error"]
    assert float(torch.as_tensor(error).max()) < 1e-10
    assert float(torch.as_tensor(control).min()) > 0.1


def test_disturbances_are_corrected_by_patches_that_know_them() -> None:
    """Tiny Llama, float64. Without noise nothing is off (1e-12). With it, patches that know it leave after every block
    that block's own noise and no more; patches that know none, or another, let it grow."""
    model = random_model(Trial(0), "llama")
    prompt = last_token(model, random_ids(Trial(0), 1)[0])
    assert float(disturbed_errors(prompt, 0.0, 1, None).max()) < 1e-12
    size = 1e-3
    own, clean, other = (disturbed_errors(prompt, size, 1, s)[-2] for s in (1, None, 2))
    assert 0.3 * size < float(own) < 3 * size
    assert float(clean) > 1.2 * float(own)
    assert float(other) > 1.2 * float(own)


def test_the_stable_inversion_has_something_to_do_in_gemma_and_nothing_in_llama() -> None:
    """bfloat16; the control is the same number divided by itself."""
    value, control = CLAIMS["goldwaser-stable-inversion"].measure(Trial(1)).quantities["ratio"]
    assert max(torch.as_tensor(value).tolist()) < 0.9
    assert torch.as_tensor(control).tolist() == [1.0, 1.0]
