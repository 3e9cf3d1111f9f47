"""The definitions of the package that a program reaches: those that it names, those that these name, and so on."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from inweights.ledger._package import Function, Package, Place
from inweights.ledger._skeleton import Read, Reader, digest


@dataclass
class Reached:
    """The reached definitions, in order: `own` is the hash of each definition, `texts` are the hashes of the text files
    of its subpackage, and `links` say which name in one definition refers to which other. Definitions are identified by
    the order in which they are reached and never by their location, so that two with the same name stay distinct."""

    ledger_has: Callable[[Place], bool]
    own: dict[Place, str] = field(default_factory=dict)
    texts: dict[Place, list[str]] = field(default_factory=dict)
    links: list[tuple[Place, str, Place]] = field(default_factory=list)

    @property
    def ledger(self) -> list[str]:
        return self._lines(lambda place: self.ledger_has(place))

    @property
    def below(self) -> list[str]:
        return self._lines(lambda place: not self.ledger_has(place))

    @property
    def whole(self) -> list[str]:
        return self._lines(lambda place: True)

    def _lines(self, has: Callable[[Place], bool]) -> list[str]:
        """The lines to hash for a subset of the definitions, with the names by which others refer to them."""
        number = {place: str(k) for k, place in enumerate(p for p in self.own if has(p))}
        lines = [f"{k} is {self.own[place]}" for place, k in number.items()]
        lines += [f"{k} has {text}" for place, k in number.items() for text in self.texts.get(place, ())]
        links = [(number.get(one, one.name), how, number[other]) for one, how, other in self.links if other in number]
        return sorted({*lines, *(f"{one} {how}: {other}" for one, how, other in links)})


class Reach:
    """Follows names through a package. Each definition is parsed once."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._read: dict[Place, Read] = {}
        self._texts: dict[str, list[str]] = {}

    def of(self, *roots: Place, through_core: bool = False) -> Reached:
        """Everything that these definitions reach."""
        return self._follow({p: self.read(p) for p in roots}, through_core)

    def of_outside(self, label: str, statements: Sequence[ast.AST], given: Place | None = None) -> Reached:
        """The same for a function outside the package; names in it are not followed."""
        begun = {Place("", label): Reader(self.package, "").read(label, statements)}
        return self._follow(begun | ({given: self.read(given)} if given else {}), False)

    def read(self, place: Place) -> Read:
        if place not in self._read:
            label = "" if place.name.startswith("<") else place.name
            self._read[place] = Reader(self.package, place.module).read(label, self.package.definition(place))
        return self._read[place]

    def _follow(self, begun: dict[Place, Read], through_core: bool) -> Reached:
        """Follows links from the starting definitions.

        A registry has two states: reached by a definition that registers itself in it (without its other entries), and
        reached by code that looks entries up (with all entries).
        """
        result = Reached(self._is_ledger)
        todo = [(place, True) for place in begun]
        done: set[tuple[Place, bool]] = set()
        attributes: set[str] = set()
        while todo or (todo := self._asked_for(attributes, begun, done)):
            place, entries = todo.pop()
            if (place, entries) in done:
                continue
            done |= {(place, True), (place, False)} if entries else {(place, False)}
            read = begun.get(place) or self.read(place)
            result.own[place] = read.own
            if self._is_ledger(place):
                attributes |= read.attributes
            if read.texts:
                result.texts[place] = self.texts(place.module)
            for how, other, whole in self._next(place, read, entries):
                if through_core or not self.package.aside(other.module):
                    result.links.append((place, how, other))
                    todo.append((other, whole))
        return result

    def _next(self, place: Place, read: Read, entries: bool) -> list[tuple[str, Place, bool]]:
        """The definitions that a definition refers to, in an order that does not depend on their locations."""
        more = [("done", Place(place.module, name), True) for name in self._done_there(place)]
        more += [("entered", other, True) for other in self.entries.get(place, ())] if entries else []
        more += [(how, other, True) for how, other in read.uses] + [("into", other, False) for other in read.entered]
        return sorted(more, key=lambda link: (link[0], self.read(link[1]).own))

    def _asked_for(
        self, attributes: set[str], begun: dict[Place, Read], done: set[tuple[Place, bool]]
    ) -> list[tuple[Place, bool]]:
        """The methods of the class `given` that the program names and that were not reached yet."""
        given = self.package.given
        if given is None or given not in begun:
            return []
        places = [Place(given.module, f"{given.name}.{name}") for name in sorted(attributes)]
        there = self.package.modules[given.module].defined
        return [(p, True) for p in places if p.name in there and (p, True) not in done]

    @cached_property
    def entries(self) -> dict[Place, list[Place]]:
        """The entries of each registry, function or container, added by decorators or by statements elsewhere."""
        results: dict[Place, list[Place]] = {}
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
                        results.setdefault(place, []).append(Place(name, defined))
        return results

    @cached_property
    def _entered(self) -> set[Place]:
        return {place for places in self.entries.values() for place in places}

    def _done_there(self, place: Place) -> list[str]:
        """Statements with side effects in the module of a definition, except those that only fill a registry."""
        module = self.package.modules.get(place.module)
        if module is None or place.name in module.done:
            return []
        return [name for name in module.done if Place(place.module, name) not in self._entered]

    def texts(self, module: str) -> list[str]:
        """Hashes of the text files of a subpackage (recipes, word lists), each with its name."""
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
