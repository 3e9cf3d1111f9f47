"""`Shift`: the change of a parameter that is a vector (a bias, the scale of a norm)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.theory._checks import wide


@dataclass(frozen=True, eq=False)
class Shift:
    """The change `b → b + delta` of a vector parameter; `delta` has shape `(..., width)`."""

    delta: Tensor
    name: str = ""

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading dimensions: one vector for each of their entries."""
        return tuple(self.delta.shape[:-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """`(..., width)`."""
        return tuple(self.delta.shape)

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """The tensors it is made of: `(delta,)`."""
        return (self.delta,)

    def remade(self, *factors: Tensor) -> Shift:
        """The shift of the same parameter with other factors."""
        (delta,) = factors
        return Shift(delta, self.name)

    def added_to(self, b: Tensor) -> Tensor:
        """`b + delta`, rounded once to the dtype of `b`."""
        if b.shape[-1:] != self.delta.shape[-1:]:
            raise InputError(f"`b` has shape {tuple(b.shape)}, but the shift is {self.shape[-1]} wide.")
        return (wide(b) + wide(self.delta)).to(b.dtype)

    def random_like(self, generator: torch.Generator) -> Shift:
        """A random shift of the same parameter and norm."""
        noise = torch.randn(self.delta.shape, generator=generator, dtype=self.delta.dtype).to(self.delta.device)
        size = torch.linalg.vector_norm(self.delta, dim=-1, keepdim=True)
        return self.remade(noise / torch.linalg.vector_norm(noise, dim=-1, keepdim=True) * size)

    def named(self, name: str) -> Shift:
        """The same shift, belonging to the parameter `name`."""
        return dataclasses.replace(self, name=name)
