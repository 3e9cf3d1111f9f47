"""The trajectory over all prefixes of a context: packed copies against one run for each prefix."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inweights.bench._measure import Result, Row
from inweights.bench._smollm2 import prompt as make_prompt
from inweights.models import Copies, PackedFactors, packed, staircase

SAMPLE = 8


def run(context: int = 256, query: int = 4, piece: int = 64) -> Result:
    """Runs the benchmark. All three sides compute the update norms of all layers with the same code.

    `per_prefix` runs the model on each prefix and the query from the start; `cached` reuses the keys and values of the
    context and runs the query alone. Both rivals are timed on every 8th prefix and scaled up.
    """
    prompt = make_prompt(context, query)
    keeps = staircase(prompt)
    some = torch.arange(SAMPLE // 2, len(keeps), SAMPLE)
    scale = len(keeps) / len(some)
    packed(prompt, keeps[:piece], piece)  # warm up
    seconds: dict[str, float] = {}

    def timed(name: str, job: Callable[..., Any], *args: object) -> Tensor:
        start = time.perf_counter()
        result = job(*args)
        seconds[name] = time.perf_counter() - start
        return torch.stack([u for u, _ in result["input"]])

    ours = timed("ours", packed, prompt, keeps, piece)
    cached = timed("cached", packed, prompt, keeps[some], 1)
    full = timed("per_prefix", _each_from_the_start, prompt, keeps[some])
    again = timed("again", packed, prompt, keeps, piece)
    error = max(
        float((ours[:, some] - other).abs().max() / ours.abs().max()) for other in (cached, full, again[:, some])
    )
    mine = (seconds["ours"] + seconds["again"]) / 2  # the mean of the runs before and after the rivals
    rows = tuple(
        Row(name, mine, seconds[name] * scale, "seconds", goal=goal)
        for name, goal in (("per_prefix", 15.0), ("cached", 3.0))
    )
    return Result(
        setting=f"SmolLM2, {context} context tokens, {query} query tokens, float32, "
        f"{torch.get_num_threads()} thread(s); rivals timed on every {SAMPLE}th prefix",
        headline="per_prefix",
        rows=rows,
        error=error,
        tolerance=1e-3,
    )


def _each_from_the_start(prompt: object, keeps: Tensor) -> PackedFactors:
    """One forward pass over prefix and query for each row of `keeps`."""
    from inweights.models import Prompt

    assert isinstance(prompt, Prompt)
    model, net, q = prompt.model, prompt.model.model, prompt.asked
    results = []
    with torch.no_grad():
        for keep in keeps:
            seen = torch.cat([keep.nonzero().squeeze(-1), prompt.query_rows])
            causal = torch.ones(len(seen), len(seen), dtype=torch.bool).tril()
            mask = torch.zeros(1, 1, len(seen), len(seen)).masked_fill(~causal, torch.finfo(torch.float32).min)
            with Copies(net, model.anatomy.blocks, 1, q, skip=len(seen) - q) as copies:
                net(
                    input_ids=prompt.ids[:, seen],
                    position_ids=seen.unsqueeze(0),
                    attention_mask=mask,
                    use_cache=False,
                )
            results.append(copies.factors())
    whole: PackedFactors = {}
    for kind in results[0]:
        blocks = zip(*(f[kind] for f in results), strict=True)
        whole[kind] = [(torch.cat([u for u, _ in one]), torch.cat([v for _, v in one])) for one in blocks]
    return whole
