"""What a fold knows of a document, against the document in the prompt and against distillation in equal time.

Measurements of each document are cached under a key of code and settings, so that a stopped run can resume.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from inweights import __version__
from inweights._errors import InputError
from inweights._fetch import cache
from inweights._files import write_atomic
from inweights._read import read_json
from inweights.bench._cases import Case, false_case, old_values, register_case, squad_cases, unrelated_passages
from inweights.bench._distil import distilled
from inweights.bench._measure import Result, Row
from inweights.bench.fold import code_hash
from inweights.data import multiple_choice
from inweights.folding import Fold, Made, accuracy_of, choice_accuracy, make, perplexity
from inweights.models import Model, load

SIZES = {"cuda": ("50", "250", "1000", "false", "squad"), "cpu": ("20",)}
SEEDS = (20, 21, 22)
"""Settings were chosen on seeds 0 to 2, and the rules of grammar written on texts of seeds 10 to 12: these have other
names, values and attributes, but there are four domains, of which those texts show three."""
ASKED = {"cuda": 200, "cpu": 60}
CHOICES = {"cuda": 400, "cpu": 40}
"""Questions of CommonsenseQA, which no document is about."""
PASSAGES = {"cuda": 100, "cpu": 20}
"""Passages of articles of SQuAD that are not among the documents."""
COLUMNS = ("prompted", "window", "retrieved", "bare", "folded", "random")
RIVAL_QUERIES = 512
"""Studied questions that the rival learns from, at most."""


def run(only: tuple[str, ...] = (), model: str = "smollm2", folder: Path | None = None) -> Result:
    """Runs the benchmark. Ours and rival are seconds of the steps for one document.

    `only` names rows: a number of facts, such as `"50"`, `"false"` (values that contradict what is known), or
    `"squad"` (six articles; `accuracy_*` is the mean F1 there).
    """
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    wrong = [s for s in only if s not in ("false", "squad") and (not s.isdigit() or int(s) % 5 or int(s) < 10)]
    if wrong:
        raise InputError(
            f"--only is {wrong[0]!r}, but must be a number of facts (a multiple of 5, at least 10), false or squad."
        )
    loaded = load(model, device=kind)
    setting = {"model": loaded.fingerprint, "device": kind, "inweights": __version__, "code": code_hash()}
    key = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:12]
    home = folder or cache() / "bench" / f"knowledge-{key}"
    home.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in only or SIZES[kind]:
        cases, results = _cases(name, ASKED[kind]), []
        for i, case in enumerate(cases):
            kept = home / f"{case.name}.json"
            if not kept.is_file():
                write_atomic(kept, json.dumps(measured(loaded, case, cases[i - 1] if len(cases) > 1 else None)))
            results.append(read_json(kept, "The measurement", fix="delete it to measure again", finite=False))
        rows.append(_row(f"{name} facts" if name.isdigit() else name, results, [len(c.questions) for c in cases]))
    short = max((r.beside["accuracy_prompted"] or 0.0) - r.beside["accuracy_folded"] for r in rows)
    return Result(
        f"{loaded.name}, {len(SEEDS)} registers of each size, {kind}", rows[0].name, tuple(rows), max(0.0, short), 0.0
    )


def _cases(name: str, count: int) -> list[Case]:
    if name == "squad":
        return squad_cases()
    if name == "false":
        return [false_case(seed, count) for seed in SEEDS]
    return [register_case(int(name), seed, count) for seed in SEEDS]


def measured(model: Model, case: Case, other: Case | None) -> dict[str, Any]:
    """One document: the fold with its report, the rivals in equal time, and the controls.

    `other` is a document whose questions the fold must not answer.
    """
    made = make(model, case.text, questions=case.questions, score=case.score)
    assert made.fidelity is not None
    assert made.fidelity.recall is not None
    accuracy = made.fidelity.recall.accuracy
    own = [q.query for q in made.study.questions if q.phrase][:RIVAL_QUERIES]
    generic, seconds = distilled(model, case.text, (), made.seconds_solve)
    result: dict[str, Any] = {f"accuracy_{name}": accuracy[name] for name in COLUMNS}
    result["accuracy_rival"] = _on(model, generic, case)
    if own:
        result["accuracy_rival_studied"] = _on(model, distilled(model, case.text, own, made.seconds_solve)[0], case)
    if case.moved:
        result |= _moved(model, case.moved)
    if other:
        result["accuracy_other_document"] = _on(model, made.fold, other)
    return result | _unrelated(model, made) | {
        "verdict": made.fidelity.verdict,
        "recovered": made.fidelity.sets[0].recovered.value if made.fidelity.sets else None,
        "coverage": made.study.coverage,
        "named": made.study.named,
        "facts": len(made.study.facts),
        "studied": len(made.study.questions),
        "dropped": made.study.dropped,
        "third_turn": made.fidelity.recall.third_turn,
        "absent": made.fidelity.recall.absent,
        "seconds_total": made.seconds_total,
        "seconds_solve": made.seconds_solve,
        "seconds_rival": seconds,
    }  # fmt: skip


def _on(model: Model, fold: Fold, case: Case) -> float:
    return accuracy_of(model, fold, case.text, case.questions, case.score)


def _moved(model: Model, case: Case) -> dict[str, float]:
    """A fold of the document with moved values, asked for the new values and for the old ones."""
    fold = make(model, case.text, report=False).fold
    return {
        "accuracy_shuffled_new": _on(model, fold, case),
        "accuracy_shuffled_old": accuracy_of(model, fold, case.text, old_values(case.questions)),
    }


def _unrelated(model: Model, made: Made) -> dict[str, float]:
    """What must stay as it was: perplexity of people's text, and right choices in a test of general knowledge."""
    asked = multiple_choice("commonsense-qa", CHOICES[model.device.type])
    items = [(q.question, q.choices, q.right) for q in asked]
    texts = unrelated_passages(PASSAGES[model.device.type])
    before, likely = choice_accuracy(model, items), perplexity(model, texts)
    with made.fold.applied(model):
        return {
            "perplexity_change": perplexity(model, texts) / likely - 1,
            "choices_bare": before,
            "choices_folded": choice_accuracy(model, items),
        }


def _row(name: str, results: list[dict[str, Any]], counts: list[int]) -> Row:
    """The documents of one row; accuracies are pooled over all questions."""
    names = [n for n in results[0] if all(isinstance(r.get(n), int | float) for r in results)]
    beside: dict[str, Any] = {n: mean(float(r[n]) for r in results) for n in names}
    for n in names:
        if n.startswith("accuracy_"):
            beside[n] = sum(r[n] * k for r, k in zip(results, counts, strict=True)) / sum(counts)
    beside |= {"verdicts": [r["verdict"] for r in results], "questions": sum(counts)}
    return Row(name, beside["seconds_solve"], beside["seconds_rival"], "seconds", 0.0, beside)
