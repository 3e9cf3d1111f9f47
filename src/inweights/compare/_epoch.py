"""The epochs of a descent: on a GPU one CUDA graph, as launching the kernels takes longer than computing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from inweights.models import Model
from inweights.running import fused_norms, no_cudnn_attention

L = TypeVar("L", contravariant=True)
LEAST, MOST = 8, 8
"""A graph is made for at least so many epochs, of at most so many steps: capturing a step takes as long as a few."""


class Steps(Protocol[L]):
    """What takes steps: `step` changes tensors that stay where they are, and returns the loss before, `()`."""

    model: Model

    def step(self, lesson: L) -> Tensor: ...


def once(steps: Steps[L], lessons: Sequence[L], epochs: int) -> Callable[[int], Tensor]:
    """A function from the number of an epoch, 1 first, which takes a step on each lesson and returns the losses before
    them, `(lessons,)`.

    On a GPU the second epoch is taken on a stream of its own, as captures ask for, and the later ones are replayed.
    """
    graphed = steps.model.device.type == "cuda" and epochs >= LEAST and len(lessons) <= MOST
    replay: Callable[[], Tensor] | None = None

    def all_lessons() -> Tensor:
        return torch.stack([steps.step(lesson) for lesson in lessons])

    def epoch(number: int) -> Tensor:
        nonlocal replay
        if not graphed or number == 1:
            return all_lessons()
        if number == 2:
            losses, replay = captured(all_lessons, steps.model.model, steps.model.device)
            return losses
        return all_lessons() if replay is None else replay()

    return epoch


@no_cudnn_attention()
def captured(
    work: Callable[[], Tensor], net: nn.Module, device: torch.device
) -> tuple[Tensor, Callable[[], Tensor] | None]:
    """Does some work once, and captures it: its result, and a function that does it again with few launches, or
    nothing where it cannot be captured, as the forward of some models reads numbers back from the GPU."""
    with torch.cuda.device(device), fused_norms(net):
        before, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(before)
        with torch.cuda.stream(side):
            result = work()
        before.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                held = work()
        except RuntimeError:
            return result, None
        finally:
            torch.cuda.set_stream(before)  # a capture that fails leaves its own

    def replay() -> Tensor:
        graph.replay()
        return held.clone()

    return result, replay
