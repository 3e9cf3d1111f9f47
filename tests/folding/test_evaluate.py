"""The fidelity report of a fold."""

from __future__ import annotations

from pathlib import Path

from talking import talker

from inweights.folding import (
    Frame,
    fidelity_of,
    make,
    questions,
)

CONTEXT = "Speak like a pirate."


def test_a_report_has_sets_controls_side_effects_and_savings() -> None:
    model = talker()
    made = make(model, CONTEXT, calibration=10, held_out=4, new=6)
    assert made.fidelity is not None
    assert [s.name for s in made.fidelity.sets] == ["hand-written questions", "made-up questions"]
    assert "random updates of equal norms" in made.fidelity.sets[0].controls
    assert made.fidelity.side is not None
    assert made.fidelity.saved is not None
    assert made.fidelity.saved.tokens == len(Frame.of(model, CONTEXT).folded)
    assert made.fidelity.side.kl_folded > 0
    assert made.fold.card.prompt is None
    assert made.fold.card.fidelity
    frame = Frame.of(model, CONTEXT)
    result = fidelity_of(frame, made.fold, {"some": ["Hi?"]}, answers=[("Hi?", "x"), ("Why?", "y")], new=6)
    assert set(result.accuracy) == {"prompted", "bare", "folded"}


def test_held_out_queries_of_a_file_are_not_calibrated_on(tmp_path: Path) -> None:
    from inweights.folding._generic import _queries

    path = tmp_path / "q.txt"
    path.write_text("\n".join(f"Question {i}?" for i in range(20)) + "\nQuestion 1?\n")
    frame = Frame.of(talker(), CONTEXT)
    asked, apart, source = _queries(frame, path, 0, 8, lambda *_: None)
    assert not set(asked) & set(apart["queries held out"])
    assert len(asked) == 16
    assert source == "file q.txt"
    path.write_text("\n".join(questions()[:20]))
    asked, apart, _ = _queries(frame, path, 0, 24, lambda *_: None)
    assert next(iter(apart)) == "hand-written questions"  # too few were held out to stand for the report
    assert not set(questions()[:20]) & set(apart["hand-written questions"])
