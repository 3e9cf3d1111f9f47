"""Tiny models that can be talked to, in memory and on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from talking import talker

from inweights.cli import main
from inweights.models import Model


@pytest.fixture(params=["llama", "gpt2"])
def model(request: pytest.FixtureRequest) -> Model:
    """Rotary and learned positions, matrices stored one way and the other."""
    return talker(request.param, torch.float64)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model folder for the command line."""
    where = tmp_path_factory.mktemp("talker")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return str(where)


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`run("export", …)`: how `inweights export …` ends, in this process: a new one takes seconds to load torch."""

    def call(*args: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["inweights", *args])
        with pytest.raises(SystemExit) as end:
            main()
        return Ended(int(end.value.code or 0), *capsys.readouterr())

    return call
