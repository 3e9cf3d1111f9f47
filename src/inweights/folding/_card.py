"""`Card`: the description of a fold, its origin and its fidelity; as `inweights.json` beside the adapter."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from inweights import __version__
from inweights._errors import InputError
from inweights._read import parse_json

FORMAT = "inweights-fold-1"
FILE = "inweights.json"
CARD_LIMIT = 4 << 20
"""Bytes of a card: with the text of a prompt of a million tokens, or the hashes of 200,000 queries."""


def versions() -> dict[str, str]:
    """The versions of the libraries that a fold is made with."""
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


Count = Annotated[int, Field(ge=0, lt=2**63)]
Hash = Annotated[str, Field(pattern=r"^[0-9A-Za-z+]*$")]


@dataclass(frozen=True)
class Card:
    """The description of a fold. A foreign adapter has a card with little more than its base and rank.

    - `base`, `base_fingerprint`: the model, and the hash of its weights; empty if not known.
    - `prompt_sha256`, `prompt_tokens`: the prompt that it replaces; `prompt` is its text if it was embedded.
    - `strength`: what the updates were multiplied with; the stored factors have it in them.
    - `calibration`: where the queries came from, how many there were, how many answer tokens, short hashes of them.
    - `fidelity`: the measurements. Numbers, `[value, low, high]` or `{"value":, "low":, "high":}` by measure,
      or tables of those by model: `{"folded": {...}, "bare": {...}, "random": {...}}`.
    """

    __pydantic_config__ = ConfigDict(strict=True)

    base: str = ""
    base_fingerprint: Hash = ""
    prompt_sha256: Hash = ""
    prompt: str | None = None
    prompt_tokens: Count = 0
    chat: bool = False
    method: str = ""
    rank: Count = 0
    strength: float = 1.0
    seed: Count = 0
    calibration: dict[str, Any] = field(default_factory=dict)
    fidelity: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=versions)

    def to_json(self) -> str:
        """The card as JSON; a number that is not finite becomes null, which every reader accepts."""
        return json.dumps({"format": FORMAT, **_finite(asdict(self))}, indent=2, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Card:
        """The card that `to_json` wrote; anything else is refused, all problems at once."""
        return Card.of(parse_json(text, FILE))

    @staticmethod
    def of(values: dict[str, Any]) -> Card:
        """The card with these values; an error lists all problems with them."""
        if values.get("format") != FORMAT:
            raise InputError(f"{FILE} is not a card of this format ({FORMAT}).")
        given = {"versions": {}} | {f.name: values[f.name] for f in fields(Card) if f.name in values}
        try:
            card = _checked().validate_json(json.dumps(given))  # strict: of Python values it would take a Card alone
        except ValidationError as error:
            lines = [f"{FILE}: {'.'.join(map(str, e['loc']))!r}: {e['msg']}." for e in error.errors()]
            raise InputError("\n".join(lines)) from None
        hashes = card.calibration.get("seen", [])
        if not (isinstance(hashes, list) and all(isinstance(each, str) for each in hashes)):
            raise InputError(f"{FILE} has a 'seen' in its 'calibration' that is no list of hashes.")
        return card

    def beside(self, other: Card, rank: int) -> Card:
        """The card of a sum of two folds: the entries that hold for both, and no measurements."""
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


@cache
def _checked() -> TypeAdapter[Card]:
    return TypeAdapter(Card)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value
