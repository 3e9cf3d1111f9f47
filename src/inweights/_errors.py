"""Errors for inputs that cannot be used: one sentence per problem, all problems at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """An argument that cannot be used. The message names the argument, the value and the fix.

    The command line prints the message alone and exits with 2.
    """


NO_MEMORY = ("DefaultCPUAllocator", "out of memory", "Storage size calculation overflowed")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error is about missing memory. Torch has no class of its own for that of the CPU."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY)


SHOWN = 80
"""Characters of a value that a sentence shows."""
LISTED = 20
"""Problems that one error lists: a file may have a million."""


def shown(value: object, most: int = SHOWN) -> str:
    """A value as Python shows it, cut where it is long: it may come from a file."""
    text = repr(value[: most + 1] if isinstance(value, str | bytes | list | tuple) else value)
    return text if len(text) <= most else text[:most] + "…"


class Problems:
    """Collects the problems of the arguments of one call, so that one error lists them all."""

    def __init__(self) -> None:
        self._sentences: list[str] = []

    def unless(self, holds: bool, sentence: str) -> bool:
        """Notes `sentence` unless `holds`; returns `holds`, for checks that build on each other."""
        if not holds:
            self._sentences.append(sentence)
        return holds

    def stop(self) -> None:
        """Raises `InputError` with every sentence noted so far, if there is any."""
        if self._sentences:
            more = len(self._sentences) - LISTED
            rest = [f"And {more} more."] if more > 0 else []
            raise InputError("\n".join(self._sentences[:LISTED] + rest))


def unknown(what: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not known, with the nearest ones that are."""
    names = list(known)
    near = difflib.get_close_matches(str(name)[:SHOWN], names, n=3, cutoff=0.5)
    if near:
        return InputError(f"There is no {what} {shown(name)}; did you mean {', '.join(near)}?")
    some = ", ".join(names[:LISTED]) + (", …" if names[LISTED:] else "")
    return InputError(f"There is no {what} {shown(name)}; there are: {some}.")
