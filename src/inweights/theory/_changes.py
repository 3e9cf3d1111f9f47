"""`Changes`: updates and shifts of named parameters, as a value that a module can be run with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from inweights._errors import InputError, Problems, unknown
from inweights.theory._shift import Shift
from inweights.theory._update import Update


@contextmanager
def exchanged(module: nn.Module, new: Mapping[str, Tensor]) -> Iterator[nn.Module]:
    """The module with other tensors as some of its parameters; on leaving, it holds its own ones again."""
    before: list[tuple[nn.Module, str, nn.Parameter]] = []
    try:
        for name, value in new.items():
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path)
            before.append((owner, leaf, module.get_parameter(name)))
            setattr(owner, leaf, nn.Parameter(value, requires_grad=False))
        yield module
    finally:
        for owner, leaf, value in reversed(before):
            setattr(owner, leaf, value)


@dataclass(frozen=True, eq=False)
class Changes:
    """Changes of some parameters of a module. The module itself stays unchanged."""

    items: tuple[Update | Shift, ...]

    def __post_init__(self) -> None:
        names = [item.name for item in self.items]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"{', '.join(map(repr, twice))} would be changed twice: add such changes up first.")

    @property
    def updates(self) -> tuple[Update, ...]:
        """The changes of matrices."""
        return tuple(item for item in self.items if isinstance(item, Update))

    @property
    def shifts(self) -> tuple[Shift, ...]:
        """The changes of vectors."""
        return tuple(item for item in self.items if isinstance(item, Shift))

    def __getitem__(self, name: str) -> Update | Shift:
        for item in self.items:
            if item.name == name:
                return item
        raise unknown("change of", name, [item.name for item in self.items])

    def random_like(self, seed: int = 0) -> Changes:
        """Random changes of the same parameters, ranks and norms: the negative control."""
        generator = torch.Generator().manual_seed(seed)
        return Changes(tuple(item.random_like(generator) for item in self.items))

    def parameters(self, module: nn.Module) -> dict[str, Tensor]:
        """The changed parameters of `module`, dense, with the leading dimensions of the changes."""
        self._require_fit(module)
        return {item.name: item.added_to(module.get_parameter(item.name)) for item in self.items}

    @contextmanager
    def applied(self, module: nn.Module) -> Iterator[nn.Module]:
        """`with changes.applied(module): module(...)` runs the module's own forward with these weights.

        The parameters are exchanged, not edited: on leaving, also by an exception, the module holds the
        very same tensors as before.
        """
        if batch := self._batch(module):
            raise InputError(f"These are changes for a batch {batch}, one module each: use `.run(...)` instead.")
        with exchanged(module, self.parameters(module)):
            yield module

    def run(self, module: nn.Module, *batched: Tensor, chunk: int | None = None, **shared: Any) -> Any:
        """The module's own forward, once for each entry of the changes' leading dimensions.

        `batched` arguments carry those leading dimensions too (expand them if they are the same for all), `shared`
        ones do not. Dense parameters exist for `chunk` entries at a time (all, by default).
        """
        batch = self._batch(module)
        own = {item.name: module.get_parameter(item.name) for item in self.items}
        for t in batched:
            if tuple(t.shape[: len(batch)]) != batch:
                raise InputError(
                    f"An argument has shape {tuple(t.shape)}, but these changes are for a batch {batch}: "
                    f"expand it to ({', '.join(map(str, batch))}, ...)."
                )

        def one(factors: list[tuple[Tensor, ...]], inputs: tuple[Tensor, ...]) -> Any:
            changed = (item.remade(*f) for item, f in zip(self.items, factors, strict=True))
            new = {change.name: change.added_to(own[change.name]) for change in changed}
            return functional_call(module, new, inputs, shared)

        if not batch:
            return one([item.factors for item in self.items], batched)

        def flat(t: Tensor, tail: int) -> Tensor:
            size = t.shape[t.ndim - tail :]
            return t.expand(*batch, *size).flatten(0, len(batch) - 1)

        factors = [tuple(flat(f, own[item.name].ndim) for f in item.factors) for item in self.items]
        out = vmap(one, chunk_size=chunk)(factors, tuple(flat(t, t.ndim - len(batch)) for t in batched))
        return out.reshape(*batch, *out.shape[1:])

    def _batch(self, module: nn.Module) -> tuple[int, ...]:
        """The leading dimensions that the changes have beyond their parameters."""
        self._require_fit(module)
        own = [len(item.shape) - module.get_parameter(item.name).ndim for item in self.items]
        return tuple(torch.broadcast_shapes(*(item.shape[:n] for item, n in zip(self.items, own, strict=True))))

    def _require_fit(self, module: nn.Module) -> None:
        problems = Problems()
        known = dict(module.named_parameters())
        for item in self.items:
            if not problems.unless(item.name in known, f"The module has no parameter named {item.name!r} to change."):
                continue
            size = tuple(known[item.name].shape)
            problems.unless(
                item.shape[-len(size) :] == size,
                f"The change of {item.name!r} has shape {item.shape}, but the parameter is {size}.",
            )
        problems.stop()
