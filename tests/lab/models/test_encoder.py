"""The encoder is that of the seed note, in a faster implementation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from inweights.lab.models import Encoder, EncoderModel, ReluEncoder
from inweights.lab.models._layer import relu_mix
from inweights.lab.tasks import Linear


def build(**settings: object) -> EncoderModel:
    torch.manual_seed(0)
    return Encoder(**settings).build(Linear(dims=10), 21)  # type: ignore[arg-type]


def as_torch(model: EncoderModel, *, heads: int, norm_first: bool) -> nn.TransformerEncoder:
    """`nn.TransformerEncoder` with the weights of a model."""
    width = model.read_out.in_features
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=norm_first)
    stack = nn.TransformerEncoder(layer, len(model.layers), enable_nested_tensor=False)
    names = {
        "self_attn.in_proj_weight": "qkv.weight",
        "self_attn.in_proj_bias": "qkv.bias",
        "self_attn.out_proj.weight": "out.weight",
        "self_attn.out_proj.bias": "out.bias",
        "linear1.weight": "up.weight",
        "linear1.bias": "up.bias",
        "linear2.weight": "down.weight",
        "linear2.bias": "down.bias",
    } | {f"{norm}.{part}": f"{norm}.{part}" for norm in ("norm1", "norm2") for part in ("weight", "bias")}
    for theirs, ours in zip(stack.layers, model.layers, strict=True):
        theirs.load_state_dict({key: ours.state_dict()[value] for key, value in names.items()})
    return stack


@pytest.mark.parametrize("norm_first", [False, True])
def test_it_is_the_encoder_of_torch(norm_first: bool, device: str) -> None:
    model = build(norm_first=norm_first).double()
    stack = as_torch(model, heads=4, norm_first=norm_first).double().to(device)
    model.to(device)
    xs, ys = torch.randn(5, 21, 10).double().to(device), torch.randn(5, 21).double().to(device)
    read = torch.cat(
        [model.read_example(torch.cat([xs, ys.unsqueeze(-1)], -1))[:, :-1], model.read_query(xs[:, -1:])], 1
    )
    wanted = model.read_out(stack(read)[:, -1:]).squeeze(-1)
    torch.testing.assert_close(model(xs, ys), wanted)


def test_the_seeds_sizes_are_the_default() -> None:
    model = build()
    assert len(model.layers) == 4
    assert model.read_out.in_features == 64
    assert sum(p.numel() for p in model.layers.parameters()) == 4 * 49_984


def test_it_starts_as_torch_does() -> None:
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(64, 4, 256).state_dict()
    ours = build().layers[0].state_dict()
    for a, b in (
        ("self_attn.in_proj_weight", "qkv.weight"),
        ("linear2.weight", "down.weight"),
        ("norm1.bias", "norm1.bias"),
    ):
        assert theirs[a].std().item() == pytest.approx(ours[b].std().item(), rel=0.05, abs=1e-12)
    assert ours["qkv.bias"].abs().max() == ours["out.bias"].abs().max() == 0


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out = torch.zeros_like(q)
    for i in range(len(q)):
        for j in range(len(k)):
            out[i] += max(float(q[i] @ k[j]), 0.0) / len(k) * v[j]
    return out


def test_relu_attention_is_divided_by_the_number_of_tokens() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(6, 4) for _ in range(3))
    torch.testing.assert_close(relu_mix(q, k, v), by_hand(q, k, v))


def test_bais_sizes_are_the_default() -> None:
    model = ReluEncoder().build(Linear(), 21)
    assert len(model.layers) == 12
    assert model.layers[0].up.out_features == 64
    assert model.layers[0].heads == 1
