"""A fit that diverges is stopped, restored and slowed down; a good one is left alone."""

from __future__ import annotations

import math

import pytest
import torch
from talking import talker

from inweights import InputError
from inweights.folding import Frame, Steps, answered, made_up
from inweights.folding._draw import Draws
from inweights.folding._fidelity import distance
from inweights.folding._guard import Guard
from inweights.folding._lora import Lora
from inweights.folding._match import fit
from inweights.folding._steps import Divergence
from inweights.folding._teacher import prompted
from inweights.theory import Changes


def test_the_last_state_known_to_be_good_is_restored() -> None:
    p = torch.zeros(2, requires_grad=True)
    guard, adam = Guard([p], 1.0), torch.optim.AdamW([p])
    with torch.no_grad():
        p.fill_(1.0)
    guard.look([0.9, 0.8], adam)  # losses of the steps from 0 to 1
    with torch.no_grad():
        p.fill_(2.0)
    guard.look([0.5, 0.4], adam)  # those from 1 to 2 were good, so 1 is known to be
    with torch.no_grad():
        p.fill_(math.nan)
    guard.look([math.nan], adam)
    assert p.tolist() == [1.0, 1.0]
    assert (guard.factor, guard.restored) == (0.5, 1)
    guard.look([0.5], adam)
    assert guard.factor == 0.5  # all is well again
    for _ in range(5):
        guard.look([50.0], adam)
    with pytest.raises(InputError, match="diverged"):
        guard.look([50.0], adam)


def test_a_sabotaged_rate_is_caught() -> None:
    """At a rate that is thousands of times too high a guarded fit ends no worse than the bare model; without the guard
    it ends far worse."""
    model = talker()
    frame = Frame.of(model, "Speak like a pirate.")
    examples = answered(frame, made_up(frame, 16, 0, new=4), 0, new=6)
    teacher = prompted(model, examples, blocks=True)
    bare = distance(model, examples, teacher).mean_kl

    def ended() -> float:
        lora = Lora(model, 4)
        fit(model, examples, teacher, lora, Steps(count=80, rate=30.0, batch=4, match=0.0, clip=0.0))
        changes = Changes(tuple(lora.updates().values()))
        return distance(model, examples, teacher, changes.applied(model.model)).mean_kl

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Guard, "look", lambda *_: None)
        patch.setattr(Guard, "finish", lambda *_: None)
        without = ended()
    assert not without < 1.5 * bare
    assert ended() < 1.1 * bare


def test_all_examples_are_drawn_before_any_again() -> None:
    draws = Draws([5] * 64, 8, seed=0)
    assert sorted(i for _ in range(2) for b in draws.next(8) for i in b) == sorted([*range(64)] * 2)


def test_focus_moves_weight_to_what_is_still_wrong() -> None:
    teacher = torch.tensor([[4.0, 0, 0], [4.0, 0, 0]])
    student = torch.tensor([[4.0, 0, 0.5], [0, 4.0, 0]])  # the first is right, the second wrong
    even, focused = (float(Divergence.apply(student, teacher, torch.ones(2), f)) for f in (1.0, 0.1))
    wrong = float(Divergence.apply(student[1:], teacher[1:], torch.ones(1), 1.0))
    assert even < focused < wrong


def test_a_fit_whose_gradients_are_not_finite_says_so() -> None:
    """All steps are left out there, and the updates stay zero, however finite the losses are."""
    model = talker()
    frame = Frame.of(model, "Speak like a pirate.")
    examples = answered(frame, made_up(frame, 8, 0, new=4), 0, new=6)
    steps = Steps(count=8, rate=1e-3, batch=4, match=0.0)

    def fitted(factor: float) -> list[float]:
        lora = Lora(model, 4)
        lora.parameters[0].register_hook(lambda g: g * factor)
        return fit(model, examples, prompted(model, examples), lora, steps)

    assert len(fitted(1.0)) == 8
    with pytest.raises(InputError, match="not finite in any of the first 8 steps in float32"):
        fitted(math.nan)


def test_attention_is_computed_without_cudnn() -> None:
    seen = []
    model = talker()
    frame = Frame.of(model, "Speak like a pirate.")
    hook = model.model.register_forward_pre_hook(lambda *_: seen.append(torch.backends.cuda.cudnn_sdp_enabled()))
    examples = answered(frame, made_up(frame, 8, 0, new=4), 0, new=6)
    fit(model, examples, prompted(model, examples), Lora(model, 4), Steps(count=2, rate=1e-3, batch=4, match=0.0))
    hook.remove()
    assert seen
    assert not any(seen)
    assert torch.backends.cuda.cudnn_sdp_enabled()  # as it was before
