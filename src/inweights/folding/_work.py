"""`Work`: a folder in which a fold keeps its finished stages, so that the same fold resumes after an interruption."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from inweights._errors import InputError
from inweights._files import write_atomic

T = TypeVar("T")
SETTING = "setting.json"
EVERY = 30.0
"""Seconds between two states of a fit that are kept."""


class Work:
    """Stages and states of one fold.

    **Arguments:**

    - `folder`: where they are kept; `None` keeps nothing.
    - `setting`: what the fold is made of. A folder of another setting is refused.
    """

    def __init__(self, folder: Path | None, setting: Mapping[str, Any]) -> None:
        self.folder, self.resumed = folder, False
        if folder is None:
            return
        text, path = json.dumps(setting, sort_keys=True), folder / SETTING
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"The folder {str(folder)!r} has an unfinished fold of another prompt, model or setting: delete it, "
                "or name another --out."
            )
        self.resumed = path.is_file()
        write_atomic(path, text)

    def stage(self, name: str, kind: Any, compute: Callable[[], T]) -> T:
        """The result of a stage, of the type `kind`: what an earlier run kept, or what is computed and kept now."""
        if self.folder is None:
            return compute()
        path, form = self.folder / f"{name}.json", TypeAdapter(kind)
        if path.is_file():
            try:
                return form.validate_json(path.read_bytes())
            except ValidationError:
                raise InputError(
                    f"{str(path)!r} is damaged: delete the folder {str(self.folder)!r} to begin again."
                ) from None
        result = compute()
        write_atomic(path, form.dump_json(result))
        return result

    def state(self, name: str) -> State:
        """Where a fit keeps its state."""
        return State(self.folder / f"{name}.safetensors" if self.folder else None)


class State:
    """The tensors and numbers of a fit, as a file that is replaced every `EVERY` seconds."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.last = path, time.monotonic()

    def due(self) -> bool:
        """Whether it is time to keep the state."""
        return self.path is not None and time.monotonic() - self.last >= EVERY

    def keep(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Writes the state; nothing without a file."""
        if self.path is None:
            return
        parts = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
        write_atomic(self.path, save(parts, {"numbers": json.dumps(numbers)}))
        self.last = time.monotonic()

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The state that was kept, if any."""
        if self.path is None or not self.path.is_file():
            return None
        try:
            with safe_open(self.path, "pt") as file:
                names = list(file.keys())
                return {name: file.get_tensor(name) for name in names}, json.loads(file.metadata()["numbers"])
        except (SafetensorError, ValueError, KeyError, TypeError):
            raise InputError(f"{str(self.path)!r} is damaged: delete it to begin these steps again.") from None


def adam_tensors(adam: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """The optimiser's state, by the number of the parameter and its name in torch."""
    return {f"adam.{i}.{k}": v for i, p in enumerate(parameters) for k, v in adam.state[p].items()}


def restore_adam(adam: torch.optim.Optimizer, parameters: Sequence[Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Restores the optimiser's state: in place where there is one, as a captured graph needs it."""
    for name, value in tensors.items():
        if name.startswith("adam."):
            _, i, key = name.split(".")
            p = parameters[int(i)]
            if key in adam.state[p]:
                adam.state[p][key].copy_(value)
            else:
                adam.state[p][key] = value.to(p.device if key != "step" else value.device).clone()
