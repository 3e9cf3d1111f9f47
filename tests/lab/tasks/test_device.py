"""Batches can be made on any device, without waiting for it: also inside a CUDA graph, where the step is a tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.tasks import SHIFTS, TASKS, Sample, Task

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

ROWS, POINTS = 8, 20
SOURCES = [*TASKS, *SHIFTS]


def sample(name: str, draw: Draw) -> Sample:
    if name in set(TASKS):
        return TASKS.make(name).sample(draw, POINTS)
    return SHIFTS.make(name).sample(TASKS.make("linear", noise=0.5), draw, POINTS)


def tensors(of: Sample) -> list[Tensor]:
    return [each for each in (of.xs, of.ys, of.queries, of.answers, *of.hidden.values()) if each is not None]


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_waits_for_the_device(name: str) -> None:
    """A meta device has no values: reading one, using one for a shape, or mixing devices is an error."""
    step = torch.zeros((), dtype=torch.int64, device="meta")
    made = tensors(sample(name, Draw(3, step, ROWS, device="meta")))
    here = tensors(sample(name, Draw(3, 0, ROWS)))
    assert [(each.shape, each.dtype) for each in made] == [(each.shape, each.dtype) for each in here]
    assert all(each.is_meta for each in made)


@pytest.mark.parametrize(
    "wait", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x + torch.ones(3), lambda x: bool(x.any())]
)
def test_synchronisation_is_detected(wait: Callable[[Tensor], object]) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        wait(torch.zeros(3, device="meta"))


@cuda
@pytest.mark.parametrize("name", SOURCES)
def test_a_graph_replays_other_steps(name: str) -> None:
    step = torch.zeros((), dtype=torch.int64, device="cuda")

    def make() -> Sample:
        return sample(name, Draw(3, step, ROWS, device="cuda", dtype=torch.float64))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        make()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = make()
    for at in (1, 7):
        step.fill_(at)
        graph.replay()
        wanted = sample(name, Draw(3, at, ROWS, dtype=torch.float64))
        for got, want in zip(tensors(made), tensors(wanted), strict=True):
            torch.testing.assert_close(got.cpu(), want, rtol=1e-6, atol=1e-6)


@cuda
@pytest.mark.parametrize("name", list(TASKS))
def test_batches_of_the_device_are_those_of_the_host(name: str) -> None:
    task: Task = TASKS.make(name)
    here, there = (task.sample(Draw(1, 2, ROWS, device=d, dtype=torch.float64), POINTS) for d in ("cpu", "cuda"))
    for want, got in zip(tensors(here), tensors(there), strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-6, atol=1e-6)
