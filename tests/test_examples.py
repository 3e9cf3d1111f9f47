"""The examples in the docstrings of public functions are run, and print the stated output."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
from collections.abc import Callable
from typing import Any

import pytest

import inweights as iw

FUNCTIONS = [name for name in iw.__all__ if inspect.isfunction(getattr(iw, name))]


def example(name: str) -> str:
    blocks = re.findall(r"\*\*Example:\*\*\n\n```python\n(.*?)```", inspect.getdoc(getattr(iw, name)) or "", re.DOTALL)
    assert len(blocks) == 1, f"{name} has no example, or more than one"
    return str(blocks[0])


@pytest.fixture(scope="module")
def folded_once() -> Callable[..., Any]:
    """`fold`, but the fold that several examples begin with is made once."""
    result: dict[str, Any] = {}

    @functools.wraps(iw.fold)
    def once(*args: Any, **more: Any) -> Any:
        asked = repr((*map(id, args[:1]), args[1:], sorted(more.items())))
        if asked not in result:
            result[asked] = plain(*args, **more)
        return result[asked]

    plain = iw.fold
    return once


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_public_function_runs(
    name: str, folded_once: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models that are read, and folds of the same arguments, are those of the examples before."""
    code, out = example(name), io.StringIO()
    monkeypatch.setattr("inweights.folding.fold", folded_once)
    with contextlib.redirect_stdout(out):
        exec(code, {})
    promised = re.findall(r"# prints (.+)", code)
    assert promised
    assert out.getvalue().splitlines() == promised
