"""`Walk`: block by block is the same as a plain forward; and `Store`, which holds what is walked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from inweights import InputError
from inweights.models._load import as_model
from inweights.models._tiny import tiny
from inweights.running._chain import Chain, standing_in
from inweights.running._hidden import hidden, run
from inweights.running._precision import KeepFloat64
from inweights.running._store import Store
from inweights.running._walk import Walk, chain_of

GENERATOR = torch.Generator().manual_seed(0)
# Longer than the windows of the tiny models, which are 16.
PREFIX = torch.randint(3, 90, (20,), generator=GENERATOR)
IDS = [torch.randint(3, 90, size, generator=GENERATOR) for size in ((3, 7), (2, 11), (1, 5))]
SHARED = ["llama", "gpt2", "qwen3", "gemma2", "phi", "bloom", "opt", "mistral"]
WHOLE = ["mamba", "qwen3_next"]


def names(net: nn.Module) -> list[str]:
    return [block.name for block in as_model(net).anatomy.blocks if block.tail != "head"]


def plain(net: nn.Module, ids: Tensor) -> dict[str, Tensor]:
    """What each block says in a plain forward."""
    seen: dict[str, Tensor] = {}
    hooks = [
        net.get_submodule(name).register_forward_hook(lambda m, a, o, name=name: seen.__setitem__(name, hidden(o)))
        for name in names(net)
    ]
    run(net, ids)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("family", SHARED + WHOLE)
def test_prompted_states_are_those_of_a_plain_forward(family: str) -> None:
    net = tiny(family, 0)
    with KeepFloat64(), torch.no_grad(), Store() as store:
        chain = chain_of(net, names(net))
        walk = Walk(chain, IDS, store, "prompted", PREFIX)
        assert bool(walk.whole) == (family in WHOLE), walk.whole
        goals = [plain(net, torch.cat([PREFIX.expand(len(ids), -1), ids], 1)) for ids in IDS]
        for k, name in enumerate(chain.names):
            walk.advance(k)
            for i, goal in enumerate(goals):
                torch.testing.assert_close(walk.rows(walk[i]), goal[name][:, len(PREFIX) :], rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", SHARED)
def test_the_bare_stream_starts_at_position_0(family: str) -> None:
    net = tiny(family, 0)
    with KeepFloat64(), torch.no_grad(), Store() as store:
        chain = chain_of(net, names(net))
        walk = Walk(chain, IDS, store, "bare")
        for k in range(len(chain.names)):
            walk.advance(k)
        for i, ids in enumerate(IDS):
            at = {"position_ids": torch.arange(ids.shape[1]).unsqueeze(0)} if family not in ("bloom", "opt") else {}
            seen: list[Tensor] = []
            hook = chain.module(-1).register_forward_hook(lambda m, a, o, seen=seen: seen.append(hidden(o)))
            run(net, ids, **at)
            hook.remove()
            torch.testing.assert_close(walk[i], seen[0], rtol=0, atol=1e-12)


def test_the_context_matters_and_padding_does_not() -> None:
    net = tiny("llama", 0)
    with KeepFloat64(), torch.no_grad(), Store() as store:
        chain = chain_of(net, names(net))
        padded = torch.cat([IDS[0], torch.zeros_like(IDS[0])], 1)
        walks = [Walk(chain, [ids], store, str(i), p) for i, (ids, p) in enumerate(
            [(IDS[0], PREFIX), (IDS[0], None), (padded, PREFIX)])]  # fmt: skip
        for walk in walks:
            for k in range(len(chain.names)):
                walk.advance(k)
        with_it, without, longer = (walk[0][:, : IDS[0].shape[1]] for walk in walks)
        assert float((with_it - without).abs().max()) > 0.1
        torch.testing.assert_close(with_it, longer, rtol=0, atol=1e-12)


def test_a_block_can_run_again_over_the_shared_cache() -> None:
    """What a run adds to the cache is gone after it, and the shared keys and values are views without memory."""
    net = tiny("llama", 0)
    with torch.no_grad(), Store() as store:
        walk = Walk(chain_of(net, names(net)), IDS, store, "prompted", PREFIX)
        first = walk.run(0, 0)
        assert torch.equal(walk.run(0, 0), first)
        held = [t for layer in walk._cache.layers for t in (layer.keys, layer.values)]
        assert all(len(t) == 1 and t.shape[2] == len(PREFIX) for t in held)


def test_arguments_are_held_once() -> None:
    """Equal rows of a mask are one row, and batches of one shape share it."""
    net = tiny("llama", 0)
    with torch.no_grad(), Store() as store:
        chain = chain_of(net, names(net))
        walk = Walk(chain, [IDS[0], IDS[0] + 1], store, "prompted", PREFIX)
        masks = [call.kwargs["attention_mask"].row for calls in walk._calls for call in calls]
        assert all(mask is masks[0] for mask in masks)
        assert len(masks[0]) == 1


def test_the_model_is_left_as_it_was() -> None:
    net = tiny("gpt2", 0)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    with torch.no_grad(), Store() as store:
        walk = Walk(chain_of(net, names(net)), IDS, store, "prompted", PREFIX)
        walk.advance(0)
    assert all(torch.equal(p, before[name]) for name, p in net.named_parameters())
    assert not any("forward" in vars(m) or m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_a_forward_of_ones_own_comes_back() -> None:
    layer = nn.Linear(2, 2)
    own = layer.forward
    layer.forward = lambda x: own(x) + 1
    mine = layer.forward
    with standing_in(layer, lambda x: x):
        assert layer(3) == 3
    assert layer.forward is mine


def test_a_model_that_works_between_its_blocks_is_refused() -> None:
    net = tiny("llama", 0)
    chain = chain_of(net, names(net))
    assert isinstance(chain, Chain)
    with pytest.raises(InputError, match="hand on more than hidden states"):
        chain_of(net, [names(net)[0], names(net)[2]])
    with pytest.raises(InputError, match="takes no hidden states"):
        chain_of(net, ["model"])


# --- the store ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_what_is_spilled_comes_back(dtype: torch.dtype) -> None:
    a, b, c = (torch.full((4, 4), i).to(dtype) for i in range(3))
    with Store(2 * a.nbytes) as store:
        store["a"], store["b"], store["c"] = a, b, c
        assert (store.spilled, store.held) == (1, 2 * a.nbytes)
        assert [torch.equal(store[k], v) for k, v in zip("abc", (a, b, c), strict=True)] == [True] * 3
        assert torch.equal(store.pop("a"), a)
        assert "a" not in store
        store["c"] = b  # there is room now, and the file goes
        assert (store.spilled, store.held) == (0, 2 * a.nbytes)
        assert torch.equal(store["c"], b)


def test_the_folder_is_removed() -> None:
    with Store(0) as store:
        store["a"] = torch.zeros(3)
        folder = store._folder
        assert isinstance(folder, Path)
        assert len(list(folder.iterdir())) == 1
    assert not folder.exists()


def test_a_view_does_not_keep_what_it_is_a_view_of() -> None:
    with Store() as store:
        store["a"] = torch.zeros(100, 100)[:2]
        assert store["a"].untyped_storage().nbytes() == store.held == 800
