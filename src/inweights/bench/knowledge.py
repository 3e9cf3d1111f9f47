"""What a fold knows of a document: made-up registers, against the document in the prompt and against distillation.

Measurements of each register are cached under a key of code and settings, so that a stopped run can resume.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from inweights import __version__
from inweights._errors import InputError
from inweights._fetch import cache
from inweights._files import write_atomic
from inweights._read import read_json
from inweights.bench._measure import Result, Row
from inweights.bench._registers import Register, register, sampled
from inweights.bench.fold import code_hash
from inweights.folding import (
    DISTILLED,
    Card,
    Fold,
    Frame,
    Question,
    accuracy_of,
    answered,
    made_up,
    make,
    solve_updates,
    working,
)
from inweights.models import Model, load

SIZES = {"cuda": (50, 250, 1000), "cpu": (20,)}
SEEDS = (10, 11, 12)
"""Registers that nothing was chosen on: the settings were, on seeds 0 to 2."""
ASKED = {"cuda": 200, "cpu": 60}
COLUMNS = ("prompted", "window", "retrieved", "bare", "folded", "random")


def run(only: tuple[str, ...] = (), model: str = "smollm2", folder: Path | None = None) -> Result:
    """Runs the benchmark; `only` names sizes, such as `"50"`. Ours and rival are seconds for one register."""
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    wrong = [size for size in only if not size.isdigit() or int(size) % 5 or int(size) < 10]
    if wrong:
        raise InputError(f"--only is {wrong[0]!r}, but must be a number of facts: a multiple of 5, at least 10.")
    sizes = tuple(map(int, only)) or SIZES[kind]
    loaded = load(model, device=kind)
    setting = {"model": loaded.fingerprint, "device": kind, "inweights": __version__, "code": code_hash()}
    key = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:12]
    home = folder or cache() / "bench" / f"knowledge-{key}"
    home.mkdir(parents=True, exist_ok=True)
    rows = []
    for size in sizes:
        results = []
        for seed in SEEDS:
            kept = home / f"{size}-{seed}.json"
            if not kept.is_file():
                write_atomic(kept, json.dumps(measured(loaded, size, seed, ASKED[kind])))
            results.append(read_json(kept, "The measurement", fix="delete it to measure again", finite=False))
        rows.append(_row(size, results))
    short = max(r.beside["accuracy_prompted"] - r.beside["accuracy_folded"] for r in rows)
    return Result(
        f"{loaded.name}, {len(SEEDS)} registers of each size, {kind}", rows[0].name, tuple(rows), max(0.0, short), 0.0
    )


def measured(model: Model, size: int, seed: int, count: int) -> dict[str, Any]:
    """One register: the fold and its report, the rival in equal time, and the controls."""
    text = register(size, seed)
    asked = _asked(text, count, seed)
    made = make(model, text.text, questions=asked)
    assert made.fidelity is not None
    assert made.fidelity.recall is not None
    known = made.fidelity.recall
    moved = register(size, seed, shuffled=True)
    new = _asked(moved, count, seed)
    other = make(model, moved.text, report=False).fold
    old = [replace(q, value=q.others[0], others=(q.value, *q.others[1:])) for q in new]
    rival, seconds = _rival(model, text, made.seconds_solve)
    return {
        **{f"accuracy_{name}": known.accuracy[name] for name in COLUMNS},
        "accuracy_rival": accuracy_of(model, rival, text.text, asked),
        "accuracy_shuffled_new": accuracy_of(model, other, moved.text, new),
        "accuracy_shuffled_old": accuracy_of(model, other, moved.text, old),
        "accuracy_other_document": accuracy_of(model, other, text.text, _asked(register(size, seed + 1), count, seed)),
        "perplexity_change": _change(made.fidelity.side.perplexity_folded, made.fidelity.side.perplexity_base)
        if made.fidelity.side
        else None,
        "recovered": made.fidelity.sets[0].recovered.value if made.fidelity.sets else None,
        "verdict": made.fidelity.verdict,
        "coverage": made.study.coverage,
        "studied": len(made.study.questions),
        "seconds_total": made.seconds_total,
        "seconds_solve": made.seconds_solve,
        "seconds_rival": seconds,
    }


def _change(after: float, before: float) -> float:
    return after / before - 1


def _asked(text: Register, count: int, seed: int) -> list[Question]:
    return list(sampled([q for q in text.questions if q.kind == "paraphrase"], count, seed))


def _rival(model: Model, text: Register, seconds: float) -> tuple[Fold, float]:
    """Context distillation on made-up generic queries, with as many steps as fit into the same time."""
    low = working(model)
    frame = Frame.of(low, text.text)
    queries = made_up(frame, 256 if model.device.type == "cuda" else 24)
    examples = replace(answered(frame, queries, 1), frame=Frame.of(model, text.text))
    batch = 32 if model.device.type == "cuda" else 8
    start = time.perf_counter()
    solve_updates(model, examples, "distil", low=low, steps=replace(DISTILLED, count=4, batch=batch))
    each = (time.perf_counter() - start) / 4
    steps = replace(DISTILLED, count=max(8, round(seconds / each)), batch=batch)
    start = time.perf_counter()
    solved = solve_updates(model, examples, "distil", low=low, steps=steps)
    return Fold(solved.updates, Card(method="distil"), model), time.perf_counter() - start


def _row(size: int, results: list[dict[str, Any]]) -> Row:
    """The registers of one size, pooled: each has as many questions as the others."""
    names = [n for n in results[0] if all(isinstance(r[n], int | float) for r in results)]
    beside: dict[str, Any] = {n: mean(float(r[n]) for r in results) for n in names}
    beside |= {"verdicts": [r["verdict"] for r in results]}
    return Row(f"{size} facts", beside["seconds_solve"], beside["seconds_rival"], "seconds", 0.0, beside)
