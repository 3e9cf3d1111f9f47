"""What all tests share."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

# Two test processes share two cores, and a first call may compile or page things in: no deadlines.
settings.register_profile("house", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("house")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)
