"""All prefixes and suffixes in one pass, whole sequences, and the properties of each layer."""

from __future__ import annotations

import pytest
import torch
from cases import LAYERS, WIDTH
from torch import Tensor, nn

from inweights.blocks import GRU, LSTM, ContextualLayer, ElmanRNN, MeanPool, SoftmaxAttention, make_block
from inweights.blocks._scan import linear_scan, running_softmax

F64 = torch.float64


def layer_and_tokens(name: str, n: int = 7, batch: tuple[int, ...] = ()) -> tuple[ContextualLayer, Tensor, Tensor]:
    layer = make_block("plain", name, width=WIDTH, seed=1).layer
    g = torch.Generator().manual_seed(2)
    tokens = torch.randn(*batch, n, WIDTH, generator=g, dtype=F64)
    return layer, tokens, torch.randn(*batch, WIDTH, generator=g, dtype=F64)


@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("name", LAYERS)
def test_all_prefixes_and_suffixes_in_one_pass(name: str, n: int, batch: tuple[int, ...]) -> None:
    layer, tokens, query = layer_and_tokens(name, n, batch)
    calls = []
    layer.register_forward_pre_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        prefixes, suffixes = layer.prefixes(tokens, query), layer.suffixes(tokens, query)
        assert len(calls) <= 2  # one pass each: at most one packed forward
        for i in range(n + 1):
            first, rest = torch.arange(n) < i, torch.arange(n) >= i
            torch.testing.assert_close(prefixes[..., i, :], layer(tokens, query, first), rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(suffixes[..., i, :], layer(tokens, query, rest), rtol=1e-12, atol=1e-12)
    assert (prefixes[..., 0, :] - prefixes[..., -1, :]).abs().max() > 1e-2


@pytest.mark.parametrize("name", LAYERS)
def test_an_empty_context_is_the_query_alone(name: str) -> None:
    layer, tokens, query = layer_and_tokens(name)
    alone, masked = layer(tokens[:0], query), layer(tokens, query, torch.zeros(7, dtype=torch.bool))
    if getattr(layer, "positions", "none") == "absolute":  # when masked, the query stands at another position
        alone = layer(tokens[:0], query - layer.position[0] + layer.position[7])
    torch.testing.assert_close(alone, masked)


@pytest.mark.parametrize("name", LAYERS)
def test_a_sequence_reads_every_position_at_once(name: str) -> None:
    layer, tokens, _ = layer_and_tokens(name)
    output = layer.sequence(tokens)
    for i in range(7):
        if name == "softmax-bidirectional":
            others = [j for j in range(7) if j != i]
            want = layer(tokens[others], tokens[i])
        else:
            want = layer(tokens[:i], tokens[i])
        torch.testing.assert_close(output[i], want)


def test_causal_and_bidirectional_differ_before_the_end() -> None:
    layer, tokens, _ = layer_and_tokens("softmax")
    assert isinstance(layer, SoftmaxAttention)
    causal = layer.sequence(tokens)
    layer.causal = False
    both = layer.sequence(tokens)
    torch.testing.assert_close(causal[-1], both[-1])
    assert (causal[0] - both[0]).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["softmax-rotary", "softmax-absolute", "mamba"])
def test_left_out_tokens_do_not_move_the_rest(name: str) -> None:
    """Positions are absolute: leaving c_1 out by mask is not the same as deleting it."""
    layer, tokens, query = layer_and_tokens(name, n=3)
    masked = layer(tokens, query, torch.tensor([True, False, True]))
    deleted = layer(tokens[[0, 2]], query)
    assert (masked - deleted).abs().max() > 1e-4


def test_rotary_attention_sees_distances_only() -> None:
    layer, tokens, query = layer_and_tokens("softmax-rotary", n=6)
    later = layer(tokens, query, torch.arange(6) >= 3)  # the last three, far from position 0
    torch.testing.assert_close(later, layer(tokens[3:], query))


def test_a_window_ends() -> None:
    layer, tokens, query = layer_and_tokens("sliding-window")
    assert layer.reach == 2
    tokens.requires_grad_()
    (seen,) = torch.autograd.grad(layer(tokens, query).sum(), tokens)
    assert torch.equal(seen.abs().sum(-1) > 0, torch.arange(7) >= 5)


def test_softmax_attention_is_torchs() -> None:
    layer, tokens, query = layer_and_tokens("softmax")
    assert isinstance(layer, SoftmaxAttention)
    theirs = nn.MultiheadAttention(WIDTH, layer.heads, bias=False, dtype=F64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.q.weight, layer.k.weight, layer.v.weight]))
        theirs.out_proj.weight.copy_(layer.o.weight)
    both = torch.cat([tokens, query.unsqueeze(0)])
    torch.testing.assert_close(layer(tokens, query), theirs(query.unsqueeze(0), both, both)[0][0])


@pytest.mark.parametrize(
    ("ours", "theirs"), [(ElmanRNN, nn.RNN), (GRU, nn.GRU), (LSTM, nn.LSTM)], ids=["elman", "gru", "lstm"]
)
def test_recurrent_layers_are_torchs(ours, theirs) -> None:
    layer, reference = ours(WIDTH).double(), theirs(WIDTH, WIDTH, batch_first=True).double()
    with torch.no_grad():
        reference.weight_ih_l0.copy_(layer.x.weight)
        reference.bias_ih_l0.copy_(layer.x.bias)
        reference.weight_hh_l0.copy_(layer.h.weight)
        reference.bias_hh_l0.copy_(layer.h.bias)
    tokens = torch.randn(2, 7, WIDTH, dtype=F64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer.sequence(tokens), reference(tokens)[0])


def test_mean_pool_is_the_mean() -> None:
    layer, tokens, query = layer_and_tokens("mean-pool")
    assert isinstance(layer, MeanPool)
    torch.testing.assert_close(layer(tokens, query), layer.v(torch.cat([tokens, query.unsqueeze(0)]).mean(0)))


def test_griffins_recurrence_is_the_papers() -> None:
    """Step by step from the formulas of arXiv 2402.19427, section 2.4."""
    layer, tokens, _ = layer_and_tokens("griffin")
    h, output = torch.zeros(WIDTH, dtype=F64), []
    for x in tokens:
        r, i = torch.sigmoid(layer.r(x)), torch.sigmoid(layer.i(x))
        a = torch.sigmoid(-layer.decay) ** (8 * r)  # 1 − σ(Λ) = exp(−softplus(Λ))
        h = a * h + torch.sqrt(1 - a**2) * (i * layer.x(x))
        output.append(layer.o(h))
    torch.testing.assert_close(layer.sequence(tokens), torch.stack(output))


def test_mambas_state_space_is_the_papers() -> None:
    """Step by step: convolution, selection, recurrence, gate (arXiv 2312.00752, algorithm 2)."""
    layer, tokens, _ = layer_and_tokens("mamba")
    m, output = layer, []
    u = m.u(tokens)
    H = torch.zeros(m.inner, m.size, dtype=F64)
    for t in range(7):
        taps = [m.conv[:, 3 - k] * u[t - k] for k in range(4) if t - k >= 0]
        x = nn.functional.silu(torch.stack(taps).sum(0) + m.conv_bias)
        delta = nn.functional.softplus(m.delta(x))
        H = torch.exp(-delta[:, None] * m.log_rate.exp()) * H + torch.outer(delta * x, m.b(x))
        output.append(m.o((H @ m.c(x) + m.direct * x) * nn.functional.silu(m.z(tokens[t]))))
    torch.testing.assert_close(layer.sequence(tokens), torch.stack(output))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("wide", [1, 3])
def test_the_scan_is_the_loop(n: int, wide: int) -> None:
    g = torch.Generator().manual_seed(0)
    decay, x = torch.rand(2, n, wide, generator=g, dtype=F64), torch.randn(2, n, 3, generator=g, dtype=F64)
    y, want = torch.zeros(2, 3, dtype=F64), []
    for i in range(n):
        y = decay[:, i] * y + x[:, i]
        want.append(y)
    torch.testing.assert_close(linear_scan(decay, x), torch.stack(want, 1))


def test_running_softmax_survives_large_scores() -> None:
    """With one maximum for all prefixes, float32 would divide zero by zero at the early ones."""
    scores = torch.tensor([0.0, 200.0, -torch.inf, 400.0, 100.0])
    values = torch.eye(5)
    got = running_softmax(scores, values)
    want = torch.stack([scores[: i + 1].softmax(0) @ values[: i + 1] for i in range(5)])
    torch.testing.assert_close(got, want)
    early = (scores - scores.max()).exp()[:1]
    assert (early / early.sum()).isnan().all()


def test_patches_are_cut_row_by_row() -> None:
    layer = make_block("plain", "image-patches", width=WIDTH).layer
    image = torch.arange(64, dtype=F64).reshape(1, 8, 8)
    corners = layer.tokens(image)
    assert corners.shape == (4, WIDTH)
    second = image[:, :4, 4:].reshape(1, 1, 4, 4)
    torch.testing.assert_close(corners[1], layer.embed(second.flatten()))


def test_a_layer_of_ones_own_is_used_as_it_is() -> None:
    mine = MeanPool(16)
    before = mine.v.weight.clone()
    block = make_block("residual", mine, width=99)
    assert block.layer is mine
    assert torch.equal(mine.v.weight, before)
    assert {p.dtype for p in block.parameters()} == {torch.float32}


def test_the_same_seed_gives_the_same_block_and_leaves_the_global_one_alone() -> None:
    before = torch.random.get_rng_state()
    one, two = (make_block("mixture", "lstm", seed=5) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters(), strict=True))
    other = make_block("mixture", "lstm", seed=6)
    assert not any(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))
