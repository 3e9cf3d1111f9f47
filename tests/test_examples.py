"""The examples in the docstrings of public functions are run, and print the stated output."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re

import pytest

import inweights as iw

FUNCTIONS = [name for name in iw.__all__ if inspect.isfunction(getattr(iw, name))]


def example(name: str) -> str:
    blocks = re.findall(r"\*\*Example:\*\*\n\n```python\n(.*?)```", inspect.getdoc(getattr(iw, name)) or "", re.DOTALL)
    assert len(blocks) == 1, f"{name} has no example, or more than one"
    return str(blocks[0])


@pytest.fixture(scope="module", autouse=True)
def loaded_once() -> None:
    """A model is read once for all examples; it is never changed."""
    patch = pytest.MonkeyPatch()
    load = functools.cache(iw.load)
    patch.setattr("inweights.models.load", functools.wraps(iw.load)(lambda *a, **k: load(*a, **k)))
    yield
    patch.undo()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_public_function_runs(name: str) -> None:
    code, out = example(name), io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    promised = re.findall(r"# prints (.+)", code)
    assert promised
    assert out.getvalue().splitlines() == promised
