"""Gradient descent on demonstrations: what moves, what does not depend on order, and that the model stays as it was."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from worded import reader, reviews

from inweights import InputError
from inweights.compare import WAYS, Descent, Lesson, Shots, descend, way, zero_shot
from inweights.compare._ways import moved_names
from inweights.models import Model
from inweights.running import full_precision


@pytest.fixture
def model() -> Model:
    return reader()


@pytest.fixture
def shown(model: Model) -> Shots:
    return reviews(model)


def after(model: Model, shown: Shots, name: str, rate: float, epochs: int, order: list[int]) -> torch.Tensor:
    (point,) = descend(model, shown, way(name), rate, epochs=epochs, every=epochs, order=order)
    return zero_shot(model, shown, point.descent.forward)


def test_a_full_batch_does_not_depend_on_order(model: Model, shown: Shots) -> None:
    """Twenty epochs at rate 1e-4 in float64: ≤ 1e-5. A step for each demonstration does."""
    one, other = (after(model, shown, "gd", 1e-4, 20, order) for order in ([0, 1, 2, 3], [3, 1, 0, 2]))
    assert (one - other).abs().max() <= 1e-5
    assert (one - zero_shot(model, shown)).abs().max() > 1e-3
    one, other = (after(model, shown, "sgd-1", 1e-2, 20, order) for order in ([0, 1, 2, 3], [3, 1, 0, 2]))
    assert (one - other).abs().max() > 1e-3


def test_one_step_is_the_gradient_of_the_labels_alone(model: Model, shown: Shots) -> None:
    """Against one forward for each demonstration, without padding, float64, ≤ 1e-12."""
    descent = Descent(model, way("gd"), 1.0)
    descent.step(Lesson.of(shown, range(4), model.device))
    ids = [torch.tensor([[*shown.asked[i], *shown.answered[i]]]) for i in range(4)]
    net = model.model.requires_grad_()
    loss = torch.zeros((), dtype=torch.float64)
    with full_precision(net):
        for each in ids:
            logits = net(input_ids=each).logits[0]
            loss = loss + torch.nn.functional.cross_entropy(logits[-2], each[0, -1]) / 4
    grads = torch.autograd.grad(loss, list(net.parameters()))
    for (name, moved), grad in zip(descent.changes().items(), grads, strict=True):
        assert (moved + grad).abs().max() <= 1e-12 * (1 + grad.abs().max()), name
        assert grad.abs().max() > 1e-6, name


@pytest.mark.parametrize("name", sorted(WAYS))
def test_every_way_lowers_its_loss_and_leaves_the_model_as_it_was(model: Model, shown: Shots, name: str) -> None:
    held = {n: (p, p.detach().clone()) for n, p in model.model.named_parameters()}
    rate = 1e-3 if WAYS[name].optimiser == "adam" else 1e-2
    points = list(descend(model, shown, way(name), rate, epochs=6, every=1))
    assert points[-1].loss < points[0].loss
    for n, p in model.model.named_parameters():
        assert p is held[n][0]
        assert torch.equal(p, held[n][1])


def test_only_what_a_way_moves_moves(model: Model, shown: Shots) -> None:
    assert moved_names(model, "value-middle") == ["model.layers.2.self_attn.v_proj.weight"]
    assert moved_names(model, "value-deep") == ["model.layers.2.self_attn.v_proj.weight"]
    assert len(moved_names(model, "mlp")) == 8
    assert not any("embed" in name or name == "model.norm.weight" for name in moved_names(model, "blocks"))
    (point,) = descend(model, shown, way("value-deep"), 1e-2, epochs=1, every=1)
    assert list(point.descent.changes()) == ["model.layers.2.self_attn.v_proj.weight"]
    assert all(change.abs().max() > 0 for change in point.descent.changes().values())


def test_layer_causal_gradients_come_from_a_block_alone(model: Model, shown: Shots) -> None:
    """The gradient of the first block is that of its own loss: what later blocks do changes nothing in it."""
    lesson, names = Lesson.of(shown, range(4), model.device), model.anatomy.names

    def first_gradient(shift: float) -> torch.Tensor:
        descent = Descent(model, way("layer-causal"), 1.0)
        later = [p for n, p in descent.moved.items() if n.startswith(names[2])]
        with torch.no_grad():
            for p in later:
                p.add_(shift)
        loss = lesson.causal_loss(model.model, names, descent.forward)
        return torch.autograd.grad(loss, descent.moved[f"{names[0]}.mlp.down_proj.weight"])[0]

    def plain_gradient(shift: float) -> torch.Tensor:
        descent = Descent(model, way("gd"), 1.0)
        with torch.no_grad():
            for n, p in descent.moved.items():
                if n.startswith(names[2]):
                    p.add_(shift)
        loss = lesson.loss(model.model, descent.forward)
        return torch.autograd.grad(loss, descent.moved[f"{names[0]}.mlp.down_proj.weight"])[0]

    assert torch.equal(first_gradient(0.0), first_gradient(0.1))
    assert not torch.allclose(plain_gradient(0.0), plain_gradient(0.1))


@pytest.mark.parametrize("name", ["gd", "layer-causal", "lora"])
def test_ctrl_c_leaves_the_model_as_it_was(
    model: Model, shown: Shots, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the middle of a forward and in the middle of a step of the optimiser."""
    held = {n: (p, p.detach().clone(), p.requires_grad) for n, p in model.model.named_parameters()}
    hooks = {n: (len(m._forward_hooks), len(m._forward_pre_hooks)) for n, m in model.model.named_modules()}

    def as_before() -> None:
        for n, p in model.model.named_parameters():
            assert p is held[n][0]
            assert torch.equal(p, held[n][1])
            assert p.requires_grad == held[n][2]
        result = {n: (len(m._forward_hooks), len(m._forward_pre_hooks)) for n, m in model.model.named_modules()}
        assert result == hooks

    inner = model.model.model.layers[1].mlp
    calls = 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return type(inner).forward(inner, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(inner, "forward", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(descend(model, shown, way(name), 1e-2, epochs=9, every=9))
    as_before()
    kind = torch.optim.Adam if name == "lora" else torch.optim.SGD
    real = kind.step

    def half(self: Any, *args: Any, **kwargs: Any) -> Any:
        real(self, *args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "step", half)
    with pytest.raises(KeyboardInterrupt):
        list(descend(model, shown, way(name), 1e-2, epochs=9, every=9))
    as_before()


@pytest.mark.parametrize("name", ["gd", "layer-causal", "lora", "adam-1"])
def test_weights_are_freed_with_their_descent(model: Model, shown: Shots, name: str) -> None:
    """Without the collector of garbage, which does not know how large tensors are."""
    gc.collect()
    gc.disable()
    try:
        held = []
        for point in descend(model, shown, way(name), 1e-3, epochs=2, every=1):
            zero_shot(model, shown, point.descent.forward)
            held.append(weakref.ref(point.descent.leaves[0]))
            assert point.descent.leaves[0].grad is None
        del point
        assert [ref() for ref in held] == [None, None]
    finally:
        gc.enable()


def test_a_model_without_a_value_matrix_of_its_own_is_refused() -> None:
    with pytest.raises(InputError, match="has 0 matrices named as one that makes values"):
        moved_names(reader("gpt2"), "value-middle")
