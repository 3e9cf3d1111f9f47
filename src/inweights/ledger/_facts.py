"""Facts about claims that no program computes: the stratum, the paper's value and scale, and deviations from it."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from inweights._errors import InputError
from inweights._read import CONFIG_LIMIT, read_toml
from inweights.ledger._claim import CLAIMS


class Stratum(StrEnum):
    """What a verdict is evidence of. Verdicts are counted in each stratum, and never added across strata."""

    IDENTITY = "identity"
    CONSTRUCTION = "construction"
    TRAINED_SMALL = "trained-small"
    TRAINED_PAPER = "trained-paper"
    LANGUAGE_MODEL = "language-model"
    NOTE = "note"

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS = {
    Stratum.IDENTITY: "an equality or inequality that algebra decides, tested on random numbers up to rounding",
    Stratum.CONSTRUCTION: "networks with weights that are written by hand or drawn at random",
    Stratum.TRAINED_SMALL: "trained networks, smaller than those of the paper",
    Stratum.TRAINED_PAPER: "trained networks of the paper's own size",
    Stratum.LANGUAGE_MODEL: "a pretrained language model, SmolLM2-135M, unless another one is named",
    Stratum.NOTE: "sentences of the notes that the project started from, at any scale",
}


class Facts(BaseModel):
    """What `facts.toml` states about a claim.

    - `paper_value`: the paper's value, with the setting it is for; or that the paper states none.
    - `scale`: ours and the paper's, by name: `{"width": (40, 256)}`; empty where there is no scale to compare.
    - `deviations`: every known difference from the paper's setting.
    - `rival`: the rival explanation, or why none applies. `precondition`: what must hold for the claim to be about
      anything. Both are in the file only where the claim's docstring has none.
    - `pending`: what a verdict still lacks, such as a training; empty if nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    stratum: Stratum
    paper_value: str
    scale: dict[str, tuple[float, float]] = {}
    deviations: tuple[str, ...] = ()
    rival: str = ""
    precondition: str = ""
    pending: str = ""

    @property
    def ratios(self) -> dict[str, float]:
        """Our scale divided by the paper's, by name."""
        return {name: ours / paper for name, (ours, paper) in self.scale.items()}


FACTS = TypeAdapter(dict[str, Facts])


def facts() -> dict[str, Facts]:
    """The facts about all loaded claims, by id, with what their docstrings state."""
    results = {}
    for id, claim in CLAIMS.items():
        own = facts_file(claim.paper.folder).get(id)
        if own is None:
            raise InputError(f"{id}: facts.toml in {claim.paper.folder.name} has no [{id}].")
        stated = {name: text for name in ("rival", "precondition") if (text := getattr(claim, name))}
        results[id] = own.model_copy(update=stated)
    return results


@cache
def facts_file(folder: Path) -> dict[str, Facts]:
    """The content of `facts.toml` in the folder of a paper."""
    return FACTS.validate_python(read_toml(folder / "facts.toml", "The file", limit=CONFIG_LIMIT))
