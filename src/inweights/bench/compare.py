"""In-context learning over many orders and queries: batched, with shared demonstrations, against a forward for each."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from inweights.bench._measure import Result, Row
from inweights.compare import Shots, in_context, orders, shots
from inweights.models import Model, load
from inweights.running import run as run_model

SAMPLE = 50


def run(task: str = "sst2", demonstrations: int = 4, count: int = 10, queries: int = 100) -> Result:
    """Runs the benchmark. Both sides compute the distribution of the next token for every order and query, and the
    logits of the last token alone. The rival is timed on every 50th pair and scaled up."""
    model = load("smollm2", device="cpu")
    shown = shots(model, task, demonstrations, queries)
    places = orders(demonstrations, count, torch.Generator().manual_seed(0))
    some = [(k, q) for k in range(len(places)) for q in range(queries)][SAMPLE // 2 :: SAMPLE]
    one_each(model, shown, places, some[:2])  # warm up
    start = time.perf_counter()
    alone = one_each(model, shown, places, some)
    rival = (time.perf_counter() - start) * len(places) * queries / len(some)
    start = time.perf_counter()
    batched = in_context(model, shown, places)
    ours = time.perf_counter() - start
    apart = torch.stack([batched[k, q] for k, q in some]) - alone
    return Result(
        setting=f"SmolLM2, {task}, {demonstrations} demonstrations in {len(places)} orders, {queries} queries, "
        f"float32, {torch.get_num_threads()} thread(s); the rival timed on every {SAMPLE}th",
        headline="batched",
        rows=(Row("batched", ours, rival, "seconds", goal=4),),
        error=float(apart.abs().max()),
        tolerance=1e-3,
    )


@torch.no_grad()
def one_each(model: Model, shown: Shots, places: Tensor, some: list[tuple[int, int]]) -> Tensor:
    """One forward for each pair of an order and a query: log-probabilities `(pairs, vocabulary)`."""
    rows = []
    for k, q in some:
        ids = torch.tensor([[*shown.prefix(places[k].tolist()), *shown.queries[q]]])
        rows.append(run_model(model.model, ids, last=1)[0, -1].log_softmax(-1))
    return torch.stack(rows)
