"""Settings of models: sizes, heads and widths."""

from __future__ import annotations

import pytest

from inweights._errors import InputError
from inweights.lab.models import MODELS
from inweights.lab.models._settings import SIZES


def test_heads_share_the_width() -> None:
    with pytest.raises(InputError, match=r"`heads` is 3, which does not divide the width 64\.$"):
        MODELS.make("encoder", heads=3)


@pytest.mark.parametrize("size", list(SIZES))
def test_the_dial_sets_what_is_not_set(size: str) -> None:
    layers, width, heads = SIZES[size]
    assert MODELS.make("hybrid", size=size).shape == (layers, width, heads)  # type: ignore[attr-defined]
    assert MODELS.make("hybrid", size=size, layers=5, heads=1).shape == (5, width, 1)  # type: ignore[attr-defined]
    assert MODELS.make("mamba", size=size, width=8).shape[:2] == (layers, 8)  # type: ignore[attr-defined]
