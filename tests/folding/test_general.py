"""Plain text that a fold leaves as it is: what it consists of, how much it counts, and how its change is measured."""

from __future__ import annotations

import pytest
import torch
from talking import talker

from inweights.folding import Examples, Frame, perplexity
from inweights.folding._general import PARTS, STARTS, general
from inweights.models import Model

CONTEXT = "The Orla costs £45."


def test_the_bare_model_is_the_teacher_of_every_part(model: Model) -> None:
    """A later part of a text is read after all earlier ones; a third begins with one of the plain starts."""
    frame = Frame.of(model, CONTEXT)
    some = general(frame, 9 * PARTS, seed=0, new=4)
    for i in range(len(some)):
        assert some.prompt_of(i) == (*frame.before, *some.asked[i])
        assert 1 <= len(some.answers[i]) <= 4
        if i and len(some.asked[i]) > len(some.asked[i - 1]) and some.queries[i] == some.queries[i - 1]:
            assert some.asked[i] == some.asked[i - 1] + some.answers[i - 1]
    starts = list(dict.fromkeys(some.queries))
    assert any(s in STARTS for s in starts)
    assert any(s not in STARTS for s in starts)
    assert len(some) <= 9 * PARTS
    assert general(frame, 9 * PARTS, seed=0, new=4) == some
    assert general(frame, 9 * PARTS, seed=1, new=4) != some


def test_weights_are_those_of_the_rows() -> None:
    frame = Frame.of(talker(), CONTEXT)
    one = Examples(frame, ("a",), ((5,),), ((6, 7),))
    two = Examples(frame, ("b",), ((5,),), ((6, 7, 8),)).weighted(2.5)
    both = one + two
    assert both.answer_rows()[1].tolist() == [[1.0, 1.0, 0.0], [2.5, 2.5, 2.5]]
    assert both.some([1]).weights == (2.5,)
    assert both.repeated(3).weights == (1.0, 2.5)


def test_perplexity_is_that_of_a_plain_pass(model: Model) -> None:
    """float32, relative 1e-4; that of the same words in another order is another."""
    texts = ["The cat sat on the mat.", "A stone in the river is wet, and cold in the winter months."]
    total, count = 0.0, 0
    for text in texts:
        ids = torch.tensor([model.tokenizer(text, add_special_tokens=False)["input_ids"]])
        logp = model.model(input_ids=ids[:, :-1]).logits[0].double().log_softmax(-1)
        total -= float(logp.gather(-1, ids[0, 1:, None]).sum())
        count += ids.shape[1] - 1
    expected = torch.tensor(total / count).exp().item()
    assert perplexity(model, texts) == pytest.approx(expected, rel=1e-4)
    turned = [" ".join(reversed(t.split())) for t in texts]
    assert perplexity(model, turned) != pytest.approx(expected, rel=1e-3)
