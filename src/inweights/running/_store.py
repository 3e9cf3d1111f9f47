"""`Store`: tensors by key, in memory up to a limit and in a temporary folder beyond it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

DEFAULT_LIMIT = 2 << 30
"""Bytes that are held in memory by default."""


class Store:
    """Tensors by key. Those beyond `limit` bytes are kept in a temporary folder, which `close` removes.

    A tensor is returned on the device from which it was stored. It must not be changed in place: a tensor held in
    memory is returned without a copy.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.held = 0
        self._memory: dict[Hashable, Tensor] = {}
        self._files: dict[Hashable, tuple[Path, torch.device]] = {}
        self._folder: Path | None = None
        self._made = 0

    @property
    def spilled(self) -> int:
        """How many tensors are in the folder now."""
        return len(self._files)

    def __setitem__(self, key: Hashable, value: Tensor) -> None:
        self.discard(key)
        if self.held + value.nbytes <= self.limit:
            # A view would keep its whole base tensor in memory.
            whole = value.untyped_storage().nbytes() == value.nbytes
            self._memory[key] = value if whole else value.clone(memory_format=torch.contiguous_format)
            self.held += value.nbytes
            return
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="inweights-fold-"))
        path = self._folder / f"{self._made}.safetensors"
        self._made += 1
        save_file({"value": value.contiguous()}, path)
        self._files[key] = (path, value.device)

    def __getitem__(self, key: Hashable) -> Tensor:
        if key in self._memory:
            return self._memory[key]
        path, device = self._files[key]
        return load_file(path, device=str(device))["value"]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._memory or key in self._files

    def pop(self, key: Hashable) -> Tensor:
        """The tensor, which is not held any more."""
        value = self[key]
        self.discard(key)
        return value

    def discard(self, key: Hashable) -> None:
        """Forgets the tensor, if there is one."""
        if key in self._memory:
            self.held -= self._memory.pop(key).nbytes
        elif key in self._files:
            self._files.pop(key)[0].unlink()

    def close(self) -> None:
        """Forgets everything and removes the folder."""
        self._memory.clear()
        self._files.clear()
        self.held = 0
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
