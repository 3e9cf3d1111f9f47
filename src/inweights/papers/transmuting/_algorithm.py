"""Algorithm 1 of the paper, with its Appendix A for models without a bias: small steps, example by example."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from inweights.folding import Examples, Part, parts_of
from inweights.models import Control, Model
from inweights.papers.transmuting._thoughts import _every_token
from inweights.running import full_precision, hooked
from inweights.theory import exchanged

EXAMPLES, STEP = 10, 0.1
"""The examples and the step size of a third party: about one whole step in total. The paper's own is not known."""
Convention = Literal["stream", "attention"]
"""What δ is the difference of: the stream after attention, so that errors of earlier blocks are corrected; or the
output of the attention alone."""


class Passed(NamedTuple):
    """What a block shows in a run of one example, `(tokens, ·)` each: the stream after attention, the output of the
    attention, the input of the MLP, and the input of its last matrix."""

    stream: Tensor
    attention: Tensor
    read: Tensor
    inner: Tensor


@dataclass(frozen=True)
class Transmuted:
    """The changed matrices of a model, by name."""

    matrices: dict[str, Tensor]

    def applied(self, model: Model) -> AbstractContextManager[Any]:
        return exchanged(model.model, self.matrices)


def transmuted(
    model: Model, examples: Examples, convention: Convention, step: float = STEP, *, matrices: bool = True
) -> Transmuted:
    """Algorithm 1 over the first ten examples, each on the patches so far.

    In each block, in order, with the current, patched matrices: `W += step · W M` for the matrices that read the MLP's
    input, where `M` has the smallest norm among the minimisers of `Σ ‖M a − (a_C − a)‖²` over the example's tokens; and
    for the last matrix, on its input h, `step` times the least-squares solution for `(mlp_C + δ) − mlp`, which adds the
    thought vector that a bias would (Appendix A). Without `matrices`, the last matrix alone is changed."""
    net: Any = model.model
    parts = [part for part in parts_of(model) if not part.reason]
    made: dict[str, Tensor] = {}
    with torch.no_grad(), full_precision(net):
        for i in range(min(EXAMPLES, len(examples))):
            made = _after_one(net, parts, examples, i, made, convention, step, matrices)
    return Transmuted(made)


def _after_one(
    net: Any,
    parts: Sequence[Part],
    examples: Examples,
    i: int,
    made: dict[str, Tensor],
    by: Convention,
    step: float,
    matrices: bool,
) -> dict[str, Tensor]:
    """The changed matrices after the steps of one more example."""
    frame, batch = examples.frame, examples.batch([i])
    ahead = len(frame.before)
    prefix = torch.tensor([[*frame.before, *frame.folded]], device=batch.ids.device)
    rows = (_every_token(batch)[0] > 0).nonzero().squeeze(-1)  # all but the first of a text
    rows = rows[rows >= ahead]
    full: dict[str, tuple[Passed, Tensor]] = {}  # with the context, and the output of the MLP there
    made = dict(made)

    def note(part: Part, seen: Passed) -> None:
        full[part.name] = seen, seen.inner @ _matrix(net, _last(part)).mT

    with _observed(net, parts, rows + prefix.shape[1] - ahead, lambda part, read: None, note):
        net.base_model(input_ids=torch.cat([prefix, batch.ids[:, ahead:]], 1), use_cache=False)

    with ExitStack() as changed:
        changed.enter_context(exchanged(net, made))

        def change(new: dict[str, Tensor]) -> None:
            made.update(new)
            changed.enter_context(exchanged(net, new))

        def inputs(part: Part, read: Tensor) -> None:
            M = _least(read, full[part.name][0].read - read)
            change({c.name: _stored(W + step * W @ M, c) for c in part.inputs for W in [_matrix(net, c)]})

        def last(part: Part, seen: Passed) -> None:
            (goal, out), control = full[part.name], _last(part)
            delta = goal.stream - seen.stream if by == "stream" else goal.attention - seen.attention
            W = _matrix(net, control)
            lacking = out + delta - seen.inner @ W.mT
            change({control.name: _stored(W + step * _least(seen.inner, lacking), control)})

        with _observed(net, parts, rows, inputs if matrices else lambda part, read: None, last):
            net.base_model(input_ids=batch.ids, use_cache=False)
    return made


@contextmanager
def _observed(
    net: nn.Module,
    parts: Sequence[Part],
    rows: Tensor,
    inputs: Callable[[Part, Tensor], None],
    last: Callable[[Part, Passed], None],
) -> Iterator[None]:
    """While active, calls `inputs` for every block when its MLP has its input, and `last` before its last matrix is
    applied, with what the block showed by then at these rows."""
    entered: dict[str, Tensor] = {}
    stream: dict[str, Tensor] = {}
    read: dict[str, Tensor] = {}

    def enters(part: Part) -> Callable[..., None]:
        return lambda module, args, kwargs: entered.update({part.name: args[0][0, rows]})

    def reads(part: Part) -> Callable[..., None]:
        def seen(module: nn.Module, args: tuple[Tensor, ...], kwargs: Any, out: Tensor) -> None:
            stream[part.name], read[part.name] = args[0][0, rows], out[0, rows]
            inputs(part, read[part.name])

        return seen

    def ends(part: Part) -> Callable[..., None]:
        def seen(module: nn.Module, args: tuple[Tensor, ...], kwargs: Any) -> None:
            at, own = part.name, stream[part.name]
            last(part, Passed(own, own - entered[at], read[at], args[0][0, rows]))

        return seen

    before = [(net.get_submodule(part.name), enters(part)) for part in parts]
    before += [(net.get_submodule(_last(part).name.rpartition(".")[0]), ends(part)) for part in parts]
    with hooked(before=before, after=[(net.get_submodule(part.entry), reads(part)) for part in parts]):
        yield


def _least(inputs: Tensor, targets: Tensor) -> Tensor:
    """The matrix of least norm among those that map `inputs` to `targets`, `(tokens, ·)` each, best."""
    return torch.linalg.lstsq(inputs, targets, driver="gelsd").solution.mT


def _last(part: Part) -> Control:
    assert part.last is not None  # every part without a reason has one
    return part.last


def _matrix(net: nn.Module, control: Control) -> Tensor:
    """A matrix in its current state, `(out, in)`."""
    W = net.get_parameter(control.name).detach()
    return W.mT if control.transposed else W


def _stored(matrix: Tensor, control: Control) -> Tensor:
    """A matrix `(out, in)` as the model stores it."""
    return matrix.mT.contiguous() if control.transposed else matrix
