"""Error curves of the lab as files: the figure, and the table that it is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from inweights._figures import HEADER
from inweights._files import write_atomic, write_csv
from inweights.lab import curves_figure


def write_curves(stem: Path, title: str, errors: Mapping[str, Tensor], unit: str) -> tuple[Path, Path]:
    """Writes the figure and its table, `stem.png` and `stem.csv`, and returns their paths."""
    figure = curves_figure(title, errors, unit)
    picture = write_atomic(stem.with_name(f"{stem.name}.png"), figure.png())
    return picture, write_csv(stem.with_name(f"{stem.name}.csv"), HEADER, figure.rows())
