"""Ctrl-C at any moment of a comparison: nothing of the model, and no setting of torch, is left changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import _get_current_function_mode
from worded import ROWS, reader

from inweights.compare import Plan, run_comparison
from inweights.models import Model

PLAN = Plan("sst2", queries=3, orders=2, epochs=2, every=1, rates=(1e-3,), controls=False)
PARTS = {
    "in context": (PLAN, "in_context"),
    "orders": (PLAN, "over_orders"),
    "descent": (PLAN, "measured_descent"),
    "patch": (replace(PLAN, ways=("gd", "patch")), "patched"),
    "fold": (replace(PLAN, ways=("gd", "fold")), "folded"),
    "controls": (replace(PLAN, controls=True), "control_model"),
}
FURTHER = ("attention", "updates", "martingale", "sizes")


@pytest.fixture(autouse=True)
def films(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inweights.compare._shots.pairs", lambda name: ROWS)
    monkeypatch.setattr("inweights.compare._run.pairs", lambda name: ROWS)
    monkeypatch.setattr("inweights.compare._plan.SIZES", (0, 1, 2))
    monkeypatch.setattr("inweights.compare._further.SIZES", (0, 1, 2))


def state(model: Model) -> dict[str, Any]:
    """All that a run could leave behind: values, identities, hooks and forwards of the model, settings of torch."""
    net = model.model
    return {
        "parameters": {n: (id(p), p.requires_grad, p.grad, p.detach().clone()) for n, p in net.named_parameters()},
        "modules": {
            n: (id(m), m.training, len(m._forward_hooks), len(m._forward_pre_hooks), "forward" in vars(m))
            for n, m in net.named_modules()
        },
        "attention": net.config._attn_implementation,
        "dtype": torch.get_default_dtype(),
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
        "gradients": torch.is_grad_enabled(),
        "mode": _get_current_function_mode(),
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one is other or bool(one == other)


def interrupt(model: Model, monkeypatch: pytest.MonkeyPatch, part: str, at: int) -> list[int]:
    """Raises as Ctrl-C does in the forward number `at` of a block after a part of the comparison has begun."""
    import inweights.compare._further as further
    import inweights.compare._run as running

    seen: list[int] = []
    inside = type(model.model.model.layers[1].mlp)
    real = inside.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if begun:
            seen.append(1)
            if len(seen) == at:
                raise KeyboardInterrupt
        return real(*args, **kwargs)

    begun: list[int] = []
    monkeypatch.setattr(inside, "forward", forward)
    if part in further.MORE:
        own = further.MORE[part]
        monkeypatch.setitem(further.MORE, part, lambda *args: (begun.append(1), own(*args))[1])
    else:
        there = getattr(running, part)
        monkeypatch.setattr(running, part, lambda *a, **k: (begun.append(1), there(*a, **k))[1])
    return seen


@pytest.mark.parametrize("at", [2, 7])
@pytest.mark.parametrize("name", [*PARTS, *FURTHER])
def test_nothing_is_left_changed(name: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader()
    plan, part = PARTS[name] if name in PARTS else (replace(PLAN, ways=("gd", name)), name)
    before = state(model)
    with monkeypatch.context() as patch:
        seen = interrupt(model, patch, part, at)
        with pytest.raises(KeyboardInterrupt):
            run_comparison(model, plan, folder=tmp_path)
    assert len(seen) == at
    assert same(before, state(model))
    with torch.no_grad():  # the control: a change of one value is seen
        model.model.model.layers[0].mlp.up_proj.weight[0, 0] += 1e-9
    assert not same(before, state(model))
