"""The step of a fit as CUDA graphs: one for each width of a batch, so that little of what is computed is padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from inweights.folding._match import Fit

Shape = tuple[int, int]
"""The tokens and the answer rows of each example of a batch."""
STEP = 32
"""The widths of batches differ by so many tokens: capturing a width takes as long as a few steps."""


def shapes(lengths: Sequence[int], answers: Sequence[Sequence[int]], graph: bool) -> list[Shape]:
    """The tokens and answer rows that each example needs; as graphs rounded up, to few different shapes, of which a
    wider one never has fewer rows."""
    exact = list(zip(lengths, map(len, answers), strict=True))
    if not graph:
        return exact
    widths = [min(-(-n // STEP) * STEP, max(lengths)) for n in lengths]
    rows = {w: max(r for n, r in exact if n <= w) for w in set(widths)}
    return [(w, rows[w]) for w in widths]


def captured(doing: Fit, batch: int) -> Callable[[Shape], None]:
    """The step for batches of each shape; capturing them leaves the factors unchanged."""
    before = [p.detach().clone() for p in doing.lora.parameters]
    graphs: dict[Shape, torch.cuda.CUDAGraph] = {}
    with torch.cuda.device(doing.model.device):
        side, pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        for shape in sorted(set(doing.shapes), reverse=True):  # the widest first: the others fit into its memory
            widest = [i for i, own in enumerate(doing.shapes) if own == shape]
            doing.load((widest * batch)[:batch])
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                doing.step()  # a rate of 0: memory is allocated, nothing changes
            torch.cuda.current_stream().wait_stream(side)
            graphs[shape] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[shape], pool=pool):
                doing.step()
    with torch.no_grad():
        for p, old in zip(doing.lora.parameters, before, strict=True):
            p.copy_(old)
            for value in doing.adam.state[p].values():
                value.zero_()
    return lambda shape: graphs[shape].replay()
