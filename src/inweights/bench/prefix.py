"""All prefixes of a context through one attention layer: one pass against one forward for each."""

from __future__ import annotations

import torch

from inweights.bench._measure import Result, Row, race
from inweights.blocks import ContextualLayer, SoftmaxAttention


def run(n: int = 512, width: int = 256, heads: int = 8, rounds: int = 7) -> Result:
    """Runs the benchmark. The rival runs the layer on `c_1…c_i` and `x` for i = 0 … n; it projects only the tokens that
    it needs, and computes only the output of the query. A second rival runs n+1 masked copies of the query in one
    batch."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = SoftmaxAttention(width, heads=heads)
    tokens = torch.randn(n, width, generator=generator)
    query = torch.randn(width, generator=generator)

    def one_pass() -> torch.Tensor:
        return layer.prefixes(tokens, query)

    def one_forward_each() -> torch.Tensor:
        return torch.stack([layer(tokens[:i], query) for i in range(n + 1)])

    def masked_copies() -> torch.Tensor:
        return ContextualLayer.prefixes(layer, tokens, query)

    with torch.no_grad():
        error = (one_pass() - one_forward_each()).abs().max().item()
        error = max(error, (one_pass() - masked_copies()).abs().max().item())
        ours, rival = race(one_pass, one_forward_each, rounds=rounds)
        again, copies = race(one_pass, masked_copies, rounds=rounds)
    return Result(
        setting=f"softmax attention, {n} tokens, width {width}, {heads} heads, float32, "
        f"{torch.get_num_threads()} thread(s)",
        headline="packed",
        rows=(Row("packed", ours, rival, "seconds", goal=50), Row("copies", again, copies, "seconds", goal=10)),
        error=error,
        tolerance=1e-5,
    )
