"""`Card`: what a fold is, what it was made from and how well it does; as `inweights.json` beside the adapter."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from inweights import __version__
from inweights._errors import InputError, Problems
from inweights._read import parse_json

FORMAT = "inweights-fold-1"
FILE = "inweights.json"
CARD_LIMIT = 4 << 20
"""Bytes of a card: with the text of a prompt of a million tokens, or the hashes of 200,000 queries."""


def versions() -> dict[str, str]:
    """The versions of what a fold is made with."""
    results = {"inweights": __version__}
    for package in ("torch", "transformers"):
        try:
            results[package] = version(package)
        except PackageNotFoundError:  # lent by a path file, without its metadata
            results[package] = "unknown"
    return results


def seen(queries: Iterable[str]) -> list[str]:
    """Short hashes of queries, by which `evaluate` knows which of its queries a fold was calibrated on."""
    return sorted(hashlib.sha256(q.strip().encode()).hexdigest()[:12] for q in queries)


@dataclass(frozen=True)
class Card:
    """What is known of a fold. A foreign adapter has a card with little more than its base and rank.

    - `base`, `base_fingerprint`: the model, and the hash of its weights; empty if not known.
    - `prompt_sha256`, `prompt_tokens`: which prompt it stands for; `prompt` is its text if it was embedded.
    - `strength`: what the updates were multiplied with; the stored factors have it in them.
    - `calibration`: where the queries came from, how many there were, how many answer tokens, short hashes of them.
    - `fidelity`: what was measured. Numbers, `[value, low, high]` or `{"value":, "low":, "high":}` by measure,
      or tables of those by who was measured: `{"folded": {...}, "bare": {...}, "random": {...}}`.
    """

    base: str = ""
    base_fingerprint: str = ""
    prompt_sha256: str = ""
    prompt: str | None = None
    prompt_tokens: int = 0
    chat: bool = False
    method: str = ""
    rank: int = 0
    strength: float = 1.0
    seed: int = 0
    calibration: dict[str, Any] = field(default_factory=dict)
    fidelity: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=versions)

    def to_json(self) -> str:
        """The card as JSON; a number that is not finite becomes null, which every reader takes."""
        return json.dumps({"format": FORMAT, **_finite(asdict(self))}, indent=2, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Card:
        """The card that `to_json` wrote; anything else is refused, all problems at once."""
        return Card.of(parse_json(text, FILE))

    @staticmethod
    def of(values: dict[str, Any]) -> Card:
        """The card with these values; all that is wrong with them at once."""
        if values.get("format") != FORMAT:
            raise InputError(f"{FILE} is not a card of this format ({FORMAT}).")
        problems = Problems()
        for f in fields(Card):
            kinds = _KINDS[f.name]
            if f.name not in values:
                continue
            # To Python true is a number; to a reader of the card it is not.
            fits = isinstance(values[f.name], kinds) and not (isinstance(values[f.name], bool) and bool not in kinds)
            problems.unless(fits, f"{FILE} has a {f.name!r} that is no {' or '.join(k.__name__ for k in kinds)}.")
        for name in ("base_fingerprint", "prompt_sha256"):
            problems.unless(
                str(values.get(name, "")).replace("+", "").isalnum() or not values.get(name),
                f"{FILE} has a {name!r} that is no hash.",
            )
        for name in ("prompt_tokens", "rank", "seed"):
            value = values.get(name, 0)
            problems.unless(
                not isinstance(value, int) or 0 <= value < 2**63,
                f"{FILE} has {value} for {name!r}: it must be a count.",
            )
        hashes = values["calibration"].get("seen", []) if isinstance(values.get("calibration"), dict) else []
        fits = isinstance(hashes, list) and all(isinstance(each, str) for each in hashes)
        problems.unless(fits, f"{FILE} has a 'seen' in its 'calibration' that is no list of hashes.")
        problems.stop()
        given = {f.name: values[f.name] for f in fields(Card) if f.name in values}
        if "versions" not in given:
            given["versions"] = {}
        return Card(**given)

    def beside(self, other: Card, rank: int) -> Card:
        """The card of two folds added up: what holds for both, and nothing measured."""
        both = self.prompt is not None and other.prompt is not None
        return Card(
            base=self.base or other.base,
            base_fingerprint=self.base_fingerprint or other.base_fingerprint,
            prompt_sha256="+".join(filter(None, (self.prompt_sha256, other.prompt_sha256))),
            prompt=f"{self.prompt}\n\n{other.prompt}" if both else None,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            chat=self.chat or other.chat,
            method=f"sum of two folds: {self.method or 'foreign'}, {other.method or 'foreign'}",
            rank=rank,
            seed=self.seed,
            calibration={"first": self.calibration, "second": other.calibration},
        )


_KINDS: dict[str, tuple[type, ...]] = {
    "base": (str,), "base_fingerprint": (str,), "prompt_sha256": (str,), "prompt": (str, type(None)),
    "prompt_tokens": (int,), "chat": (bool,), "method": (str,), "rank": (int,), "strength": (int, float),
    "seed": (int,), "calibration": (dict,), "fidelity": (dict, type(None)), "versions": (dict,),
}  # fmt: skip


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value
