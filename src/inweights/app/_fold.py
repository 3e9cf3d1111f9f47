"""Fold: a prompt or a document becomes an adapter; its pieces, questions and report; and a chat with it."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inweights._errors import InputError
from inweights._files import beside
from inweights._read import read_json
from inweights.app._jobs import unfinished
from inweights.app._limits import ChatRequest, FoldRequest, PastTurn
from inweights.app._worker import Desk, Tell
from inweights.folding import Draft, Frame, Made, Studied, load_fold, make, pieces, with_passages
from inweights.running import sample

SHOWN = 200
"""Pieces and questions that the page is sent."""


def fold_job(request: FoldRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """Folds, measures and saves; resumes a fold that was interrupted."""
    id = desk.id
    tell.progress("loading the model")
    model = desk.model(request.model, "float32")
    folder, out = unfinished(desk.root, id), desk.root / "folds" / id
    folder.parent.mkdir(parents=True, exist_ok=True)
    parts = pieces(request.context)
    tell.news("pieces", pieces=[p.text for p in parts][:SHOWN], resumed=folder.is_dir())
    own = with_passages([(q.query, q.answer) for q in request.questions], parts)
    looked: set[str] = set()

    def after(stage: str, done: int, total: int) -> None:
        _look(folder, looked, tell)
        tell.progress(stage, done, total)

    def asked_about(some: Sequence[Draft | Studied]) -> None:
        for what, kind in (("written", Draft), ("kept", Studied)):
            listed = [{"piece": q.piece, "query": q.query} for q in some if isinstance(q, kind)][:SHOWN]
            if listed:
                tell.news(what, questions=listed)

    made = make(
        model, request.context, calibration=request.calibration, method=request.method, folder=folder, after=after,
        held_out=24, report=True, asked_about=asked_about, questions=own,
    )  # fmt: skip
    _look(folder, looked, tell)
    if out.is_dir():  # saved before the last stop, but not reported
        shutil.rmtree(out)
    made.fold.save_pretrained(out)
    _zip(out, out.with_suffix(".zip"))
    shutil.rmtree(folder, ignore_errors=True)
    return _report(made)


def _look(folder: Path, looked: set[str], tell: Tell) -> None:
    """Reports the questions as soon as the stage that generates them has finished and saved them."""
    for name in ("study", "queries"):
        path = folder / f"{name}.json"
        if name in looked or not path.is_file():
            continue
        looked.add(name)
        if name == "study":
            study = read_json(path, "The study", limit=1 << 28)
            asked = [{"piece": q["piece"], "query": q["query"]} for q in study["questions"][:SHOWN]]
            tell.news("questions", questions=asked, written=study["written"], dropped=study["dropped"])
        else:
            listed, *_ = json.loads(path.read_bytes())
            tell.news("queries", queries=[str(q) for q in listed][:SHOWN])


def _report(made: Made) -> dict[str, Any]:
    assert made.fidelity is not None
    study = made.study
    return {
        "verdict": made.fidelity.verdict, "warnings": made.fidelity.warnings, "rank": made.fold.rank,
        "bytes": made.fold.nbytes, "seconds_solve": made.seconds_solve, "seconds_total": made.seconds_total,
        "resumed": made.resumed, "coverage": study.coverage, "facts": len(study.facts), "facts_asked": len(study.asked),
        "studied": len(study.questions), "fidelity": made.fidelity.as_json(),
        "pieces": [p.text for p in study.pieces][:SHOWN],
        "questions": [{"piece": q.piece, "query": q.query} for q in study.questions[:SHOWN]],
    }  # fmt: skip


def _zip(folder: Path, path: Path) -> None:
    half = beside(path)
    with zipfile.ZipFile(half, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(file, file.relative_to(folder))
    half.replace(path)


def chat(request: ChatRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """The answers of prompted, bare and folded model to one more turn, each after its own earlier ones."""
    folder = desk.root / "folds" / request.fold
    if not folder.is_dir():
        raise InputError("There is no such fold.")
    asked = read_json(desk.root / "jobs" / request.fold / "job.json", "The fold")["request"]
    model = desk.model(asked["model"], "float32")
    frame, fold = Frame.of(model, asked["context"]), load_fold(folder, model)
    shared = {"prompted": (*frame.before, *frame.folded), "bare": frame.before, "folded": frame.before}
    answers: dict[str, str] = {}
    for step, who in enumerate(("prompted", "bare", "folded")):
        tell.progress(f"{who} answer", step, 3)
        ids = _turn(frame, getattr(request, who), request.query)
        if len(shared[who]) + len(ids) + request.new_tokens > model.window:
            raise InputError(f"The conversation is longer than the {model.window} tokens that the model reads.")
        arguments: dict[str, Any] = {"new": request.new_tokens, "temperature": 0.0, "seed": 0, "ends": frame.ended}
        if who == "folded":
            with fold.applied(model):
                (tokens,) = sample(model.model, shared[who], [ids], **arguments)
        else:
            (tokens,) = sample(model.model, shared[who], [ids], **arguments)
        answers[who] = model.tokenizer.decode(tokens, skip_special_tokens=True).strip()
        tell.news("answer", who=who, text=answers[who])
    return {"answers": answers}


def _turn(frame: Frame, history: Sequence[PastTurn], query: str) -> tuple[int, ...]:
    if not frame.chat:
        return frame.asked(query)
    ids = frame.asked_after([(turn.query, turn.answer) for turn in history], query)
    if not ids:
        raise InputError("This model's chat template takes no further turns: begin the chat again.")
    return ids
