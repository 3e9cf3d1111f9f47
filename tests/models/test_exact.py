"""The theorem on SmolLM2: any part of a prompt as a weight change, proved by the plain model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import nn

from inweights import InputError
from inweights.models import Model, Patch, Prompt, Proof, generate, patch, verify

CONTEXT = "You are a pirate captain. Always answer in rough pirate speech, say Arrr and call the user matey. "
QUERY = "The capital of France is a city of"
SHORT = "The capital of"

Proved = Callable[..., tuple[Prompt, Patch, Proof]]


@pytest.fixture(scope="module")
def proved(smollm2: Model) -> Proved:
    """A prompt in float64, its patch, and the proof of it: made once, as a patch of SmolLM2 takes seconds."""

    @cache
    def of(mode: str, keep: str | None = None, query: str = SHORT) -> tuple[Prompt, Patch, Proof]:
        prompt = Prompt(smollm2, CONTEXT, query, keep=keep)
        made = patch(prompt, mode)
        return prompt, made, verify(prompt, made)

    return of


@pytest.mark.parametrize(
    ("mode", "keep", "query"),
    [
        *((mode, keep, SHORT) for mode in ("token", "static", "output") for keep in (None, "rough pirate speech")),
        ("token", "You are", SHORT),
        ("static", None, QUERY),
    ],
)
def test_float64(proved: Proved, mode: str, keep: str | None, query: str) -> None:
    """With eight query tokens once, and three otherwise: each one takes a second."""
    prompt, made, proof = proved(mode, keep, query)
    assert prompt.asked == made.tokens == (8 if query == QUERY else 3)
    assert proof.max_abs_logit_error <= 1e-9
    assert proof.bare_max_abs_logit_error > 1
    assert proof.top1_match
    assert proof.verdict == "PASS"
    assert proof.layers == 30
    assert made.exact


def test_a_long_context_and_a_long_query(smollm2: Model) -> None:
    """500 tokens of context; 32 query tokens by one weight change."""
    ids = smollm2.tokenizer(CONTEXT * 40, add_special_tokens=False)["input_ids"][:500]
    query = smollm2.tokenizer(
        "Once upon a time, in a small village near the sea, there lived an old man who had three daughters, a dog, "
        "two goats and a boat that he had built with his own hands"
    )["input_ids"][:32]
    prompt = Prompt(smollm2, ids, query)
    made = patch(prompt, "static")
    proof = verify(prompt, made)
    assert proof.max_abs_logit_error <= 1e-8
    assert proof.bare_max_abs_logit_error > 1
    assert max(b.rank for b in made.blocks) == 32


def test_float32(smollm2_float32: Model) -> None:
    prompt = Prompt(smollm2_float32, CONTEXT, SHORT)
    for mode in ("token", "static"):
        proof = verify(prompt, patch(prompt, mode))
        assert proof.max_abs_logit_error <= 1e-3
        assert proof.verdict == "PASS"


def test_the_control_a_patch_made_for_one_token_does_not_serve_another(proved: Proved) -> None:
    prompt, made, right = proved("token")
    wrong = verify(prompt, _rotated(made))
    assert right.max_abs_logit_error <= 1e-9
    assert wrong.max_abs_logit_error > 1
    assert wrong.verdict == "FAIL"


def _rotated(made: Patch) -> Patch:
    """Every token gets the changes of the next one."""
    from dataclasses import replace

    from inweights.theory import Update

    def turn(update: Update) -> Update:
        return Update(update.u.roll(1, 0), update.v.roll(1, 0))

    blocks = tuple(
        replace(b, read=turn(b.read), added={slot: turn(u) for slot, u in b.added.items()}) for b in made.blocks
    )
    return replace(made, blocks=blocks)


@pytest.mark.parametrize("mode", ["token", "static"])
def test_no_hook_and_no_foreign_activation_is_alive_during_the_proof(
    proved: Proved, smollm2: Model, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, made, _ = proved(mode)
    modules = list(smollm2.model.modules())
    forwards = [type(m).forward for m in modules]
    seen = []
    plain = nn.Module.__call__

    def watched(self: nn.Module, *args: object, **kwargs: object) -> object:
        hooks = (self._forward_hooks, self._forward_pre_hooks, self._backward_hooks)
        seen.append(not any(hooks) and not torch.overrides._get_current_function_mode_stack()[1:])
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "__call__", watched)
    proof = verify(prompt, made)
    assert proof.verdict == "PASS"
    assert len(seen) > 100
    assert all(seen)  # at most one mode: the one that keeps float64
    assert forwards == [type(m).forward for m in modules]
    assert not any("forward" in vars(m) for m in modules)


def test_the_model_is_left_as_it_was_bit_for_bit(smollm2: Model) -> None:
    before = {name: (p, p.detach().clone()) for name, p in smollm2.model.named_parameters()}
    made = patch(Prompt(smollm2, CONTEXT, "The"), "static")
    changed = "model.layers.0.mlp.up_proj.weight"
    with made.applied(smollm2):
        assert not torch.equal(smollm2.model.get_parameter(changed), before[changed][1])
    with pytest.raises(RuntimeError, match="on purpose"), made.applied(smollm2):
        raise RuntimeError("on purpose")
    for name, p in smollm2.model.named_parameters():
        assert p is before[name][0]
        assert torch.equal(p, before[name][1])
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in smollm2.model.modules())


def test_factors_stay_small(proved: Proved) -> None:
    """O(tokens · layers · width): no dense update is kept."""
    prompt, made, _ = proved("token")
    width, inner = 576, 1536
    assert made.nbytes == prompt.asked * 30 * (2 * width + width + inner) * 8


def test_more_tokens_than_the_features_can_carry_are_not_exact(smollm2: Model) -> None:
    """Equal tokens at equal streams that must change differently: reported, not hidden."""
    prompt = Prompt(smollm2, CONTEXT, [28, 28, 28], positions="shifted")
    made = patch(prompt, "static")
    proof = verify(prompt, made)
    assert made.exact == (proof.max_abs_logit_error <= 1e-8)


def test_generated_tokens_are_those_of_the_prompt(smollm2_float32: Model) -> None:
    prompt = Prompt(smollm2_float32, CONTEXT, "Hello! My name is")
    result = generate(prompt, 8)
    assert result.patched == result.prompted
    assert result.matching == 1.0
    assert result.bare != result.prompted
    anew = generate(prompt, 2, cached=False)
    assert anew.patched == result.prompted[:2]


def test_chat_has_no_system_turn_without_the_patch(smollm2: Model) -> None:
    prompt = Prompt(smollm2, "Answer only in French.", "Hello!", chat=True)
    output = prompt.describe()
    assert "".join(output["left"]).startswith("<|im_start|>user")
    assert "system" in output["prompted"]
    assert "system" not in output["left"]
    assert verify(prompt, patch(prompt, "static")).verdict == "PASS"


def test_positions_are_absolute_or_shifted(smollm2: Model) -> None:
    kept = Prompt(smollm2, "My name is Bob. I live in Rome.", "Who", keep="Bob")
    at = kept.reduced_positions[0].tolist()
    assert at[-1] == kept.ids.shape[1] - 1
    assert at != list(range(len(at)))
    moved = Prompt(smollm2, "My name is Bob. I live in Rome.", "Who", keep="Bob", positions="shifted")
    assert moved.reduced_positions[0].tolist() == list(range(len(at)))
    assert verify(moved, patch(moved, "static")).verdict == "PASS"
    result = generate(Prompt(smollm2, CONTEXT, "Hello! My", positions="shifted"), 3)
    assert result.patched == result.prompted != result.bare


def test_keep_in_chat_is_looked_for_in_what_the_user_wrote(smollm2: Model) -> None:
    prompt = Prompt(smollm2, "The system is down.", "Hello!", chat=True, keep="system")
    left = prompt.describe()["left"]
    assert left.count("Ġsystem") == 1
    assert "system" not in left  # the template's own word


def test_a_model_in_training_mode_is_refused(smollm2: Model) -> None:
    smollm2.model.train()
    try:
        with pytest.raises(InputError, match="in training mode"):
            Prompt(smollm2.model, [1], [2])
    finally:
        smollm2.model.eval()


def test_a_list_of_prompts_is_a_batch(smollm2: Model) -> None:
    prompts = [Prompt(smollm2, text, "Hello") for text in ("You are a cat. ", "You are a dog. ")]
    made = patch(prompts)
    assert [verify(p, m).verdict for p, m in zip(prompts, made, strict=True)] == ["PASS", "PASS"]


@cache
def three_tokens(model: Model) -> Patch:
    return patch(Prompt(model, "a", "b c d"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda m: Prompt(m, "", "Hi"), "`context` is empty"),
        (lambda m: Prompt(m, "Hi", ""), "`query` is empty"),
        (lambda m: Prompt(m, "", ""), r"(?s)`context` is empty.*`query` is empty"),
        (lambda m: Prompt(m, "a b a", "Hi", keep="a"), "`keep` is 'a', which occurs 2 times in the context"),
        (lambda m: Prompt(m, "a b", "Hi", keep="z"), "occurs 0 times"),
        (lambda m: Prompt(m, "a b", "Hi", keep="a b"), "keeps the whole context"),
        (lambda m: Prompt(m, [1, 2], "Hi", keep="a"), "the context was given as token ids"),
        (lambda m: Prompt(m, [1] * 9000, "Hi"), r"have 9001 tokens, but the limit is \d+"),
        (lambda m: Prompt(m, "a", "b", positions="other"), "`positions` is 'other'"),
        (lambda m: Prompt(m, torch.ones(2, 3).long(), [1]), r"of shape \(2, 3\) are a batch"),
        (lambda m: Prompt(m, [1.7], [1]), "Token ids must be whole numbers"),
        (lambda m: Prompt(m, [10**6], [1]), "is not one of the model's 49152 tokens"),
        (lambda m: patch(Prompt(m, "a", "b c"), "static").parameters(m, 1), "leave `token` out"),
        (lambda m: verify(Prompt(m, "a", "b c"), three_tokens(m)), "made for 3 query tokens, but"),
        (lambda m: Prompt(m.model, "a", "b"), "the model has no tokenizer"),
        (lambda m: Prompt(nn.Linear(2, 2), "a", "b"), "`model` is a Linear: pass a transformers causal"),
        (lambda m: patch(Prompt(m, "a", "b"), "other"), "`mode` is 'other'"),
        (lambda m: three_tokens(m).parameters(m), "changes for 3 query tokens: say which"),
        (lambda m: three_tokens(m).parameters(m, 7), "`token` is 7"),
        (lambda m: generate(Prompt(m, "a", "b"), 0), "`new_tokens` is 0"),
    ],
)
def test_bad_input_gets_one_sentence(smollm2: Model, wrong, words: str) -> None:
    with pytest.raises(InputError, match=words):
        wrong(smollm2)
