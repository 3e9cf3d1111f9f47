"""A sweep on a cluster gives what it gives here. The engine itself is put to the test in tests/engines/test_ray.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from inweights.engines import no_beat
from inweights.lab.sweep import cells, sweep
from inweights.lab.sweep._cell import Training
from inweights.lab.training import Recipe, load_trained

PROMPTS = 32


def test_cells_that_fail_and_cells_that_do_not(cluster: Any, small: Recipe, tmp_path: Path) -> None:
    """Bit for bit what this process makes of the cell, and its trained model comes back with the result."""
    out, here = tmp_path / "ray", tmp_path / "here"
    wild, tame = wanted = cells(small, ["rate=1e6,1e-3"])
    failed, done = sweep(wanted, out, engine="ray", address=cluster.address, prompts=PROMPTS)
    assert "train with a `rate` below 1e+06" in failed.message
    assert str(out / "cells" / wild.key) in failed.message  # not the folder that it had on its node
    before = torch.get_num_threads()
    try:
        mine = Training(tame, tame.key, here, PROMPTS).do(here, no_beat)
    finally:
        torch.set_num_threads(before)
    assert replace(done, seconds=0.0) == replace(mine, seconds=0.0)
    models = [load_trained(p / "model.safetensors")[0] for p in (out / "cells" / tame.key, here)]
    one, two = (m.state_dict() for m in models)
    assert one.keys() == two.keys()
    assert all(one[n].equal(two[n]) for n in one)
