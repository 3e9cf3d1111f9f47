"""`Registry`: tasks, predictors and models by name, each created from a name and a few settings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from inweights._errors import InputError, Problems, shown, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Dataclasses by name. `make` raises one error that lists everything wrong with a name or its settings."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._kinds: dict[str, type[T]] = {}

    def __call__(self, name: str) -> Callable[[type[T]], type[T]]:
        """A decorator that registers a dataclass under this name."""

        def enter(kind: type[T]) -> type[T]:
            if name in self._kinds:
                raise InputError(f"There is a {self.what} {name!r} already: choose another name for yours.")
            self._kinds[name] = kind
            return kind

        return enter

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._kinds))

    def kinds(self) -> dict[str, type[T]]:
        """A copy of all registered classes, by name."""
        return dict(self._kinds)

    def restore(self, kinds: dict[str, type[T]]) -> None:
        """Removes all classes that are not among these."""
        self._kinds = dict(kinds)

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._kinds:
            raise unknown(self.what, name, self)
        return self._kinds[name]

    def fields(self, name: str) -> dict[str, dataclasses.Field[Any]]:
        """The fields of a registered dataclass, by name."""
        kind: Any = self[name]  # a dataclass, which a type variable cannot express
        return {f.name: f for f in dataclasses.fields(kind) if f.init}

    def make(self, name: str, **settings: Any) -> T:
        kind, fields = self[name], self.fields(name)
        problems = Problems()
        for key, value in settings.items():
            if key not in fields:
                problems.unless(False, str(unknown(f"setting of the {self.what} {name}:", key, fields)))
                continue
            default = fields[key].default
            wanted = type(default) if isinstance(default, bool | int | float | str | tuple) else None
            if fields[key].type == "int | None":
                wanted = int
            if wanted is float and type(value) is int:
                settings[key] = float(value)
            elif isinstance(value, list) and wanted in (tuple, None):  # TOML and JSON have no tuples
                settings[key] = tuple(value)
            elif wanted is not None and type(value) is not wanted:
                problems.unless(
                    False,
                    f"`{key}` of the {self.what} {name} is {shown(value)}, but must be of type {wanted.__name__}.",
                )
            numbers = settings[key] if isinstance(settings[key], tuple) else (settings[key],)
            problems.unless(
                all(math.isfinite(v) for v in numbers if isinstance(v, float)),
                f"`{key}` of the {self.what} {name} is {shown(value)}, but must be finite.",
            )
            problems.unless(
                not isinstance(value, list) or all(isinstance(v, int | float) for v in numbers),
                f"`{key}` of the {self.what} {name} is {shown(value)}, but must be numbers.",
            )
        missing = [
            f.name
            for f in fields.values()
            if f.name not in settings and f.default is f.default_factory is dataclasses.MISSING
        ]
        problems.unless(not missing, f"The {self.what} {name} needs {', '.join(missing)}.")
        problems.stop()
        try:
            return kind(**settings)
        except InputError as error:
            raise InputError(f"The {self.what} {name}: {error}") from None
