"""Cache of trial results, keyed by the code and the settings that produced them. A damaged file counts as missing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from inweights._fetch import cache as cache_folder
from inweights._files import write_atomic
from inweights._read import CACHE_LIMIT, read_json
from inweights.ledger._claim import Claim, Measurement, Numbers
from inweights.ledger._code import made_by
from inweights.ledger._json import dumps, loads
from inweights.ledger._trial import Trial

OUTCOMES = ("found", "unmet", "not here", "broken")


@dataclass(frozen=True)
class Kept:
    """The result of one trial as plain values.

    - `quantities[name]`: the measured values and those of the control (None without a control).
    - `rivals[name]`: the values under a rival explanation, for quantities that have one.
    - `told`: further measured values, on which no verdict depends (`Measurement.reported`).
    - `made_with`: the versions and the hardware of the process that ran the trial.
    """

    outcome: str
    message: str
    quantities: dict[str, tuple[list[float], list[float] | None]]
    plot: dict[str, Any] | None
    told: dict[str, float]
    seconds: float
    made_with: dict[str, str]
    rivals: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        result: Measurement | None,
        outcome: str,
        message: str,
        seconds: float,
        made_with: dict[str, str] | None = None,
    ) -> Kept:
        made_with = made_with or {}
        if result is None:
            return cls(outcome, message, {}, None, {}, seconds, made_with)
        quantities = {name: (_list(v), None if c is None else _list(c)) for name, (v, c) in result.quantities.items()}
        plot = None
        if result.plot is not None:
            plot = asdict(result.plot) | {
                "x": _list(result.plot.x),
                "lines": {name: _list(line) for name, line in result.plot.lines.items()},
            }
        record = {k: float(v) for k, v in result.reported.items()}
        rivals = {name: _list(numbers) for name, numbers in result.rivals.items()}
        return cls(outcome, message, quantities, plot, record, seconds, made_with, rivals)


KEPT = TypeAdapter(Kept)


def _list(numbers: Numbers) -> list[float]:
    return torch.as_tensor(numbers, dtype=torch.float64).detach().cpu().reshape(-1).tolist()


def key(claim: Claim, trial: Trial) -> Path:
    """The cache file of a trial. It differs whenever the code, the models or the settings differ."""
    made = made_by(claim.measure, claim.models)
    text = json.dumps([claim.id, trial.seed, trial.quick, trial.device, made])
    return cache_folder() / "claims" / f"{claim.id}-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def write(path: Path, kept: Kept) -> None:
    """Writes a result with its checksum, so that a damaged file is detected."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = dumps(asdict(kept))
    write_atomic(path, json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "body": body}))


def read(path: Path) -> Kept | None:
    """The cached result, or None if the file is missing or damaged."""
    try:
        outer = read_json(path, "The result", limit=CACHE_LIMIT)
        body = str(outer["body"])
        if hashlib.sha256(body.encode()).hexdigest() != outer["sha256"]:
            return None
        kept = KEPT.validate_python(loads(body))
    except (ValueError, KeyError):  # missing, damaged, or with values of other types
        return None
    return kept if kept.outcome in OUTCOMES else None
