"""Training with several processes by accelerate, which a single process does not need."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError


class Processes:
    """This process among those launched together: `accelerate launch --num_processes 2 -m inweights lab train …
    --device cuda`, or, without a GPU, `torchrun --nproc_per_node 2 -m inweights lab train …`.

    Each process draws its own rows of the same batch, so that any number of processes trains on the same prompts.
    """

    def __init__(self, device: str) -> None:
        self.rank, self.count = 0, 1
        self._accelerator: Any = None
        self.device = torch.device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            try:
                from accelerate import Accelerator
            except ModuleNotFoundError:
                raise InputError(
                    "Several processes need accelerate: install it with pip install 'inweights[peft]'."
                ) from None
            self._accelerator = Accelerator(cpu=self.device.type == "cpu")
            self.rank, self.count = self._accelerator.process_index, self._accelerator.num_processes
            self.device = self._accelerator.device

    @property
    def first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def wrapped(self, model: nn.Module) -> Any:
        """The model, with gradients averaged over all processes."""
        return model if self._accelerator is None else self._accelerator.prepare_model(model)

    def mean(self, value: Tensor) -> Tensor:
        """The mean of a value over all processes."""
        return value if self._accelerator is None else self._accelerator.reduce(value, "mean")

    def wait(self) -> None:
        """Waits until all processes have reached this point."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()
