"""Generation with the context in the weights, with a new patch for every token."""

from __future__ import annotations

import time

import torch

from inweights.bench._measure import Result, Row
from inweights.bench._smollm2 import prompt as make_prompt
from inweights.models import patched_anew, patched_cached, plain

SAMPLE = 4


def run(context: int = 256, query: int = 8, new_tokens: int = 32, rounds: int = 3) -> Result:
    """Runs the benchmark. Ours computes the prompted and the patched stream together, with one cache.

    `recompute` recomputes everything for every token (timed on the first few and scaled up, which favours the rival,
    as later ones are longer). `prompted` is plain generation with the prompt, without any patch.
    """
    prompt = make_prompt(context, query)
    net = prompt.model.model
    positions = torch.arange(prompt.ids.shape[1]).unsqueeze(0)
    taken: dict[str, list[float]] = {"ours": [], "prompted": []}
    generated = {}
    with torch.no_grad():
        for _ in range(rounds):
            for name in taken:
                start = time.perf_counter()
                if name == "ours":
                    generated[name] = patched_cached(prompt, new_tokens) or []
                else:
                    generated[name] = plain(net, prompt.ids, positions, new_tokens)
                taken[name].append(time.perf_counter() - start)
        start = time.perf_counter()
        anew = patched_anew(prompt, SAMPLE)
        recompute = (time.perf_counter() - start) * new_tokens / SAMPLE
    ours, prompted = (sorted(taken[name])[rounds // 2] for name in ("ours", "prompted"))
    same = generated["ours"] == generated["prompted"] and anew == generated["prompted"][:SAMPLE]
    return Result(
        setting=f"SmolLM2, {context} context tokens, {new_tokens} new tokens, float32, "
        f"{torch.get_num_threads()} thread(s); recompute timed on {SAMPLE} tokens",
        headline="recompute",
        rows=(
            Row("recompute", ours, recompute, "seconds", goal=5.0),
            Row("prompted", ours, prompted, "seconds", goal=0.4),
        ),
        error=0.0 if same else 1.0,
        tolerance=0.0,
    )
