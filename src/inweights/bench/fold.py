"""One adapter for all queries, against gradient context distillation on the same tokens.

Measurements of each prompt are cached under a key of code and settings, so that a stopped run can resume.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import transformers

from inweights import __version__
from inweights._errors import InputError, unknown
from inweights._fetch import cache
from inweights._files import write_atomic
from inweights._read import read_json
from inweights.bench._measure import Result, Row
from inweights.bench._suite import DEVELOPMENT, Task, suite
from inweights.folding import (
    DISTILLED,
    Card,
    Examples,
    Fold,
    Frame,
    Measured,
    Steps,
    accuracy,
    answered,
    made_up,
    measure,
    questions,
    solve_updates,
    steps_for,
    working,
)
from inweights.models import Model, load

HELD_OUT = 64
SEEN = ("facts", "french")  # our number of steps was chosen on these too


def run(only: tuple[str, ...] = (), folder: Path | None = None) -> Result:
    """Runs the benchmark.

    On a GPU: the whole suite, 1,024 queries, and 400 steps of 32 queries for the rival. On a CPU: two prompts, 64
    queries, and 60 steps of 8 queries for the rival, with its time extrapolated to 400 steps.

    The *solve time* covers everything after the answers are sampled, including the prompted pass, on both sides.
    """
    for name in only:
        if name not in {t.name for t in suite()}:
            raise unknown("prompt", name, [t.name for t in suite()])
    on_gpu = torch.cuda.is_available()
    model = load("smollm2", device="cuda" if on_gpu else "cpu")
    low = working(model)
    rival = DISTILLED if on_gpu else replace(DISTILLED, count=60, batch=8)
    setting = {
        "queries": 1024 if on_gpu else 64,
        "rival": asdict(rival),
        "device": torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads",
        "inweights": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "code": code_hash(),
    }
    key = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:12]
    home = folder or cache() / "bench" / f"fold-{key}"
    home.mkdir(parents=True, exist_ok=True)
    tasks = [t for t in suite() if (t.name in only if only else on_gpu or t.name in ("pirate", "facts"))]
    rows: list[Row] = []
    another: Fold | None = None
    earlier = 0
    for task in tasks:
        kept = home / f"{task.name.replace(' ', '-')}.json"
        if kept.is_file():
            earlier += 1
        else:
            result, another = _piece(model, low, task, setting, another)
            write_atomic(kept, json.dumps(result))
        rows.append(_row(task.name, _measured_before(kept), on_gpu))
    pieces = {r.name: r.beside | {"ours": r.ours, "rival": r.rival} for r in rows}
    result = _mean(list(pieces.values()))
    unseen = [p for name, p in pieces.items() if name not in SEEN]
    if unseen:
        result |= {f"{k}_unseen": _mean(unseen)[k] for k in ("recovered_ours", "recovered_rival")}
    total = _row("mean", result, on_gpu)
    short = total.beside["recovered_rival"] - total.beside["recovered_ours"]
    return Result(
        setting=f"SmolLM2, {len(rows)} prompts, {setting['queries']} queries, {setting['device']}"
        + (
            "; ours replays a CUDA graph, the rival is an eager loop"
            if on_gpu
            else f"; the rival's time is extrapolated to 400 steps, its quality is that of {rival.count}"
        )
        + (f"; {earlier} of {len(rows)} prompts measured by an earlier run of the same code" if earlier else ""),
        headline="mean",
        rows=(*rows, total),
        error=max(0.0, short),
        tolerance=0.0,
    )


def _measured_before(path: Path) -> dict[str, Any]:
    """The measurements that a run wrote to a file. Raises an error that names the file if it lacks them."""
    fix = "delete it to measure again"
    result = read_json(path, "The measurement", fix=fix, finite=False)
    if not all(isinstance(result.get(name), float) for name in ("ours", "rival", "recovered_ours", "recovered_rival")):
        raise InputError(f"The measurement {str(path)!r} lacks its numbers: {fix}.")
    return result


def code_hash() -> str:
    """A hash of the measured code, for the cache key."""
    digest = hashlib.sha256()
    for room, pattern in (
        ("theory", "*"),
        ("models", "*"),
        ("running", "*"),
        ("folding", "*"),
        ("bench", "*suite*"),
        ("bench", "*fold*"),
    ):
        for path in sorted(Path(str(files(f"inweights.{room}"))).glob(pattern)):
            if path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _warm_up(model: Model, low: Model, examples: Examples) -> Fold:
    """Runs two untimed steps of both sides on a GPU, which loads kernels and allocates memory. Returns the fold of
    another prompt, as the control for the first prompt."""
    if model.device.type == "cuda":
        for method, steps in (("match", steps_for(model, len(examples))), ("distil", DISTILLED)):
            solve_updates(model, examples, method, low=low, steps=replace(steps, count=2))
    frame = Frame.of(low, DEVELOPMENT["list"])
    return Fold(solve_updates(model, answered(frame, made_up(frame, 64, seed=9), seed=9), low=low).updates, Card())


def _piece(
    model: Model, low: Model, task: Task, setting: dict[str, Any], another: Fold | None
) -> tuple[dict[str, Any], Fold]:
    """Measures one prompt: both folds, timed one after the other, and how much each recovers. Also returns our fold,
    as the control for the next prompt."""
    frame, quick = Frame.of(model, task.context, task.chat), Frame.of(low, task.context, task.chat)
    queries = list(task.calibration) or made_up(quick, int(setting["queries"]) + HELD_OUT, seed=0)
    apart = queries[int(setting["queries"]) :]
    examples = answered(quick, queries[: int(setting["queries"])], seed=1)
    another = another or _warm_up(model, low, examples)
    ours = solve_updates(model, examples, "match", low=low)
    steps = Steps(**setting["rival"])
    rival = solve_updates(model, examples, "distil", low=low, steps=steps)
    fold, theirs = (Fold(s.updates, Card(method="fold")) for s in (ours, rival))
    sets: dict[str, Examples] = {}
    if task.chat:
        sets["made_up"] = replace(answered(quick, apart, seed=2), frame=frame)
        sets["hand_written"] = answered(frame, questions(), temperature=0.0)
    else:
        sets["held_out"] = answered(frame, [q for q, _ in task.tests], temperature=0.0)
    # Only the time of the steps is extrapolated: the prompted pass is made once.
    more = rival.seconds_steps * (DISTILLED.count / steps.count - 1)
    results: dict[str, Any] = {"ours": ours.seconds, "rival": rival.seconds + more}
    for name, heard in sets.items():
        a = measure(name, heard, fold, others={"another": another})
        b = measure(name, heard, theirs, control=False)
        results |= _values(name, a, b)
    first = next(iter(sets))
    results["recovered_ours"], results["recovered_rival"] = results[f"{first}_ours"], results[f"{first}_rival"]
    if task.tests:
        for who, f in (("ours", fold), ("rival", theirs)):
            results |= {f"accuracy_{k}_{who}": v for k, v in accuracy(frame, f, task.tests, strict=True).items()}
    return results, fold


def _values(name: str, ours: Measured, rival: Measured) -> dict[str, Any]:
    return {
        f"{name}_ours": ours.recovered.value,
        f"{name}_interval": [ours.recovered.low, ours.recovered.high],
        f"{name}_rival": rival.recovered.value,
        f"{name}_rival_interval": [rival.recovered.low, rival.recovered.high],
        f"{name}_agree": [ours.agree_bare, ours.agree_folded, rival.agree_folded],
        f"{name}_controls": {what: r.value for what, r in ours.controls.items()},
    }


def _row(name: str, result: dict[str, Any], on_gpu: bool) -> Row:
    beside = {k: v for k, v in result.items() if k not in ("ours", "rival")}
    return Row(name, result["ours"], result["rival"], "seconds", goal=20.0 if on_gpu else 10.0, beside=beside)


def _mean(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over prompts of the times and of the recovered shares."""
    names = ("ours", "rival", "recovered_ours", "recovered_rival")
    results = {name: mean(p[name] for p in pieces) for name in names}
    by_hand = [p for p in pieces if "hand_written_ours" in p]
    if by_hand:
        results |= {name: mean(p[name] for p in by_hand) for name in ("hand_written_ours", "hand_written_rival")}
    return results
