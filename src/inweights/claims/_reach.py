"""What a program reaches in the package: the definitions that it names, what these name, and so on."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from inweights.claims._package import Function, Package, Place
from inweights.claims._skeleton import Read, Reader, digest


@dataclass
class Reached:
    """Hashes of all that was reached, as sets: in the `ledger`, and `below` it. Where something stands is no part of
    them, but what the names in it stand for is: two definitions of one name must not be taken for each other."""

    ledger: set[str] = field(default_factory=set)
    below: set[str] = field(default_factory=set)

    @property
    def whole(self) -> set[str]:
        return self.ledger | self.below


class Reach:
    """Follows names through a package. Each definition is read once."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._read: dict[Place, Read] = {}
        self._texts: dict[str, list[str]] = {}

    def of(self, *roots: Place, through_core: bool = False) -> Reached:
        """What these definitions reach."""
        seen, begun = Reached(), {p: self.read(p) for p in roots}
        return self._follow(seen, begun, through_core)

    def of_outside(self, label: str, statements: Sequence[ast.AST], given: Place | None = None) -> Reached:
        """As `of`, for a function that is not in the package; names in it are not followed."""
        outside = Place("", label)
        begun = {outside: Reader(self.package, "").read(label, statements)}
        if given is not None:
            begun[given] = self.read(given)
        return self._follow(Reached(), begun, False)

    def read(self, place: Place) -> Read:
        if place not in self._read:
            label = "" if place.name.startswith("<") else place.name
            self._read[place] = Reader(self.package, place.module).read(label, self.package.definition(place))
        return self._read[place]

    def _follow(self, found: Reached, begun: dict[Place, Read], through_core: bool) -> Reached:
        """A registry has two states: reached by what is entered into it, and, with all that is, by who asks it."""
        todo = [(place, True) for place in begun]
        done: set[tuple[Place, bool]] = set()
        attributes: set[str] = set()
        while todo or (todo := self._asked_for(attributes, begun, done)):
            place, entries = todo.pop()
            if (place, entries) in done:
                continue
            done |= {(place, True), (place, False)} if entries else {(place, False)}
            read = begun.get(place) or self.read(place)
            self._side(found, place).add(read.own)
            if self._is_ledger(place):
                attributes |= read.attributes
            if read.texts:
                self._side(found, place).update(self.texts(place.module))
            into = [("entered", other) for other in self.entries.get(place, ())] if entries else []
            more = [("done", Place(place.module, name)) for name in self._done_there(place)]
            for how, other in (*read.uses, *into, *more):
                if through_core or not self.package.aside(other.module):
                    self._side(found, other).add(f"{place.name} {how}: {self.read(other).own}")
                    todo.append((other, True))
            todo += [(other, False) for other in read.entered]
        return found

    def _asked_for(
        self, attributes: set[str], begun: dict[Place, Read], done: set[tuple[Place, bool]]
    ) -> list[tuple[Place, bool]]:
        """The methods of what a program is given that it asks for by name, and that were not reached yet."""
        given = self.package.given
        if given is None or given not in begun:
            return []
        places = [Place(given.module, f"{given.name}.{name}") for name in sorted(attributes)]
        there = self.package.modules[given.module].defined
        return [(p, True) for p in places if p.name in there and (p, True) not in done]

    @cached_property
    def entries(self) -> dict[Place, list[Place]]:
        """What is entered into each registry, function or container, by decorators or by statements elsewhere."""
        found: dict[Place, list[Place]] = {}
        for name, module in self.package.modules.items():
            reader = Reader(self.package, name)
            for defined, statements in module.defined.items():
                for statement in statements:
                    if defined in module.done:
                        into = [reader.root(statement)]
                    elif isinstance(statement, Function | ast.ClassDef):
                        into = [reader.enters(d) for d in statement.decorator_list]
                    else:
                        continue
                    for place in filter(None, into):
                        found.setdefault(place, []).append(Place(name, defined))
        return found

    @cached_property
    def _entered(self) -> set[Place]:
        return {place for places in self.entries.values() for place in places}

    def _done_there(self, place: Place) -> list[str]:
        """Statements that run whenever the module of a definition is imported, unless they are about one definition."""
        module = self.package.modules.get(place.module)
        if module is None or place.name in module.done:
            return []
        return [name for name in module.done if Place(place.module, name) not in self._entered]

    def texts(self, module: str) -> list[str]:
        """Of the small files of a part of the package, each with its name: recipes, lists of words."""
        part = ".".join(module.split(".")[:2])
        if part not in self._texts:
            self._texts[part] = []
            for path in self.package.texts(module):
                text = path.read_text(encoding="utf-8")
                content = tomllib.loads(text) if path.suffix == ".toml" else text
                self._texts[part].append(digest((path.name, content)))
        return self._texts[part]

    def _is_ledger(self, place: Place) -> bool:
        return not place.module or self.package.of_the_ledger(place.module)

    def _side(self, found: Reached, place: Place) -> set[str]:
        return found.ledger if self._is_ledger(place) else found.below
