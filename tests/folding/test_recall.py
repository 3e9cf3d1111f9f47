"""The report of what a fold knows: accuracies of all columns, what is retained, and the verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from talking import talker

from inweights.folding import (
    Fidelity,
    Fold,
    Frame,
    Measured,
    Question,
    Recall,
    answered,
    made_up,
    pieces,
    recall,
    with_passages,
)
from inweights.folding._card import Card
from inweights.folding._fidelity import Recovered, distance
from inweights.folding._lora import Lora
from inweights.folding._teacher import prompted
from inweights.folding._verdict import reasons, verdict
from inweights.models import Model

CONTEXT = "The Orla costs £45. The Fenn costs £62."


def test_the_measured_divergence_is_that_of_prompted_to_bare(model: Model) -> None:
    """Against NumPy, row by row (1e-4: logits in float64, divergences in float32); reversed it is another number."""
    frame = Frame.of(model, CONTEXT)
    examples = answered(frame, made_up(frame, 6, 0, new=4), 0, new=5)
    result = distance(model, examples, prompted(model, examples)).kl

    def logs(before: tuple[int, ...], answer: tuple[int, ...]) -> Any:
        ids = torch.tensor([[*before, *answer[:-1]]])
        rows = model.model(input_ids=ids).logits[0, len(before) - 1 :].detach().double().numpy()
        return (
            rows
            - np.log(np.exp(rows - rows.max(-1, keepdims=True)).sum(-1, keepdims=True))
            - rows.max(-1, keepdims=True)
        )

    ours, reversed_ = [], []
    for asked, answer in zip(examples.asked, examples.answers, strict=True):
        p = logs((*frame.before, *frame.folded, *asked), answer)
        q = logs((*frame.before, *asked), answer)
        ours.append((np.exp(p) * (p - q)).sum())
        reversed_.append((np.exp(q) * (q - p)).sum())
    assert np.allclose(result.numpy(), ours, rtol=1e-4, atol=1e-4)
    assert not np.allclose(result.numpy(), reversed_, rtol=1e-2, atol=1e-2)


def share(n: int, right: int) -> tuple[bool, ...]:
    return tuple(i < right for i in range(n))


def test_retained_is_the_share_of_what_the_prompt_gains() -> None:
    known = Recall({"prompted": share(20, 16), "bare": share(20, 0), "folded": share(20, 12), "random": share(20, 0)})
    kept = known.retained()
    assert kept is not None
    value, low, high = kept
    assert value == pytest.approx(0.75)
    assert 0.4 < low < 0.75 < high < 1.05
    assert known.accuracy["window"] is None
    useless = Recall({"prompted": share(20, 0), "bare": share(20, 0), "folded": share(20, 3)})
    assert useless.retained() is None
    few = Recall({"prompted": share(4, 4), "bare": share(4, 0), "folded": share(4, 4)})
    assert few.retained() is None
    long = Recall({"retrieved": share(20, 10), "bare": share(20, 0), "folded": share(20, 10)})
    assert long.reference == "retrieved"
    assert json.dumps(known.as_json(), allow_nan=False)


def test_each_fact_is_known_or_not() -> None:
    """By the scores of the reference, which is retrieval where the context is beyond the model's window."""
    asked = (("When?", "9:30"), ("Who?", "Ada"), ("Where?", "Rome"))
    scores = {"prompted": (1.0, 1.0, 0.0), "bare": (0.0,) * 3, "folded": (1.0, 0.0, 0.5), "retrieved": (0.0, 0.0, 1.0)}
    each = Recall(scores, asked=asked).each
    assert [(e["question"], e["value"]) for e in each] == list(asked)
    assert [(e["reference"], e["folded"]) for e in each] == [(1.0, 1.0), (1.0, 0.0), (0.0, 0.5)]
    del scores["prompted"]
    assert [e["reference"] for e in Recall(scores, asked=asked).each] == [0.0, 0.0, 1.0]


def test_a_verdict_names_the_numbers_that_decide() -> None:
    assert reasons(0.73, None) == "0.73 of the prompt's effect is recovered (GOOD needs 0.8)"
    both = reasons(0.73, 0.2)
    assert both.startswith("0.20 of the right answers about the prompt are retained (GOOD needs 0.9); 0.73 of its")
    assert reasons(None, None) == ""


@pytest.mark.parametrize(
    ("recovered", "retained", "numbers", "wanted"),
    [
        ((0.85, 0.7), (0.95, 0.8), (), "GOOD"),
        ((0.85, 0.7), None, (), "GOOD"),
        ((0.79, 0.7), (0.95, 0.8), (), "PARTIAL"),
        ((0.85, 0.7), (0.89, 0.8), (), "PARTIAL"),
        ((0.85, 0.7), (0.95, -0.01), (), "FAILED"),
        ((0.85, 0.0), (0.95, 0.8), (), "FAILED"),
        ((-2.5, None), None, (), "FAILED"),
        ((0.9, None), None, (), "GOOD"),
        ((math.nan, None), None, (), "FAILED"),
        ((0.85, 0.7), None, (math.inf,), "FAILED"),
        (None, None, (), "FAILED"),
    ],
)
def test_the_verdict(recovered: Any, retained: Any, numbers: Any, wanted: str) -> None:
    assert verdict(recovered, retained, numbers) == wanted


def test_facts_that_could_not_be_judged_are_never_good() -> None:
    good = Measured("q", 24, 99, 1.0, 0.1, 0.5, 0.9, Recovered(0.9, 0.85, 0.95))
    assert Fidelity((good,)).verdict == "GOOD"
    unknown = Fidelity((good,), facts=7)
    assert unknown.verdict == "PARTIAL"
    assert "7 facts" in unknown.warnings[0]
    known = Recall({"prompted": share(20, 16), "bare": share(20, 0), "folded": share(20, 16)})
    assert Fidelity((good,), facts=7, recall=known).verdict == "GOOD"


def test_generic_questions_do_not_decide_about_a_prompt_that_directs_nothing() -> None:
    """Such a prompt hardly changes answers to them. One that directs as well is judged by both."""
    generic = Measured("generic", 24, 99, 0.1, 0.07, 0.5, 0.6, Recovered(0.3, -0.1, 0.6))
    studied = Measured("studied", 24, 99, 1.0, 0.1, 0.5, 0.9, Recovered(0.9, 0.85, 0.95))
    lost = Measured("studied", 24, 99, 1.0, 1.0, 0.5, 0.5, Recovered(0.0, -0.1, 0.1))
    known = Recall({"prompted": share(20, 16), "bare": share(20, 0), "folded": share(20, 16)})

    def judged(directs: bool, apart: Measured | None) -> Fidelity:
        return Fidelity((generic,), facts=7, recall=known, studied=apart, directs=directs)

    assert judged(False, studied).verdict == "GOOD"
    assert "0.90 of its effect on studied questions" in judged(False, studied).reason
    assert judged(True, studied).verdict == "FAILED"
    assert "0.30 of its effect on other questions" in judged(True, studied).reason
    assert judged(False, lost).verdict == "FAILED"
    assert judged(False, None).verdict == "FAILED"  # then only the generic ones are there
    assert [judged(d, studied).as_json()["verdict_on"] for d in (False, True)] == ["studied", "generic"]


def test_everyone_is_asked_the_same_questions() -> None:
    """On random weights nobody knows anything: what is checked is that each column is what its name says."""
    model = talker()
    frame, parts = Frame.of(model, CONTEXT), pieces(CONTEXT)
    lora = Lora(model, 2)
    nothing = Fold(lora.updates(), Card(), model)  # B is zero: the bare model
    asked = with_passages([("What does the Orla cost?", "45"), ("And the Fenn?", "62")], parts)
    assert [q.passage for q in asked] == ["The Orla costs £45.", "The Fenn costs £62."]
    (absent,) = with_passages([("Who was the first owner?", "Ada Lovelace")], parts)
    assert absent.passage == "\n".join(part.alone for part in parts)  # the text does not have it: all of it is read
    known = recall(frame, nothing, asked, parts)
    assert known.right["folded"] == known.right["bare"] == known.right["random"]
    assert set(known.right) == {"prompted", "window", "retrieved", "bare", "folded", "random"}
    assert [s["folded"] for s in known.shown] == [s["bare"] for s in known.shown]
    assert set(known.third_turn) == {"prompted", "folded"}
    right = Question("?", "", kind="absent")
    assert right.value == ""


def test_the_command_judges_by_the_users_questions(
    folder: str, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from inweights.folding import _make

    monkeypatch.setattr(_make, "study", lambda frame, **_: _make.Study(tuple(pieces(frame.context)), (), ()))
    file = tmp_path / "questions.jsonl"
    file.write_text('{"query": "What does the Orla cost?", "answer": "45"}\n')
    args = ("fold", "--model", folder, "--context", CONTEXT, "--calibration", "8", "--device", "cpu", "--json")
    ended = run(*args, "--out", str(tmp_path / "a"), "--questions", str(file))
    reported = json.loads(ended.out)
    assert reported["fidelity"]["recall"]["questions"] == 1
    assert reported["verdict"] in ("GOOD", "PARTIAL", "FAILED")
    assert ended.code == (1 if reported["verdict"] == "FAILED" else 0)
    file.write_text("What does the Orla cost?\n")
    refused = run(*args, "--out", str(tmp_path / "b"), "--questions", str(file))
    assert refused.code == 2
    assert "--questions needs an answer to every query" in refused.err
    assert not (tmp_path / "b").exists()
