"""Metrics of a training as JSON lines, and for TensorBoard where it is installed."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from inweights._errors import InputError
from inweights._files import write_atomic
from inweights._read import parse_json, read_text

AGAIN = "delete it to go on"


class Metrics:
    """Writes lines of `step`, `loss`, `rate` and `tasks_per_second`. On resuming, lines after `step` are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        kept = [line for line in read(path) if line["step"] <= step]
        write_atomic(path, "".join(json.dumps(line) + "\n" for line in kept))
        self._board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(path.parent / "tensorboard"), purge_step=step + 1)
        except ImportError:
            pass

    def add(self, **values: float) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if name != "step":
                    self._board.add_scalar(name, value, int(values["step"]))

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def read(path: Path) -> list[dict[str, float]]:
    """The lines of a file. Incomplete lines and lines that are not numbers are left out."""
    if not path.is_file():
        return []
    results = []
    for line in read_text(path, "The file", fix=AGAIN).splitlines():
        with suppress(InputError):
            values = parse_json(line, "A line")
            if {"step", "loss"} <= values.keys() and all(type(v) in (int, float) for v in values.values()):
                results.append(values)
    return results
