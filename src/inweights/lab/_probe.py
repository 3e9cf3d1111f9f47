"""Hidden states of a model's layers, and linear probes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.lab.models import DecoderModel, Learner
from inweights.lab.models._pairs import turns
from inweights.lab.models._recurrent import Cells, StreamModel
from inweights.running import hooked


@torch.no_grad()
def states(model: Learner, xs: Tensor, ys: Tensor) -> Tensor:
    """The hidden states of each layer at the tokens where predictions are read: `(layers, batch, points, width)`.

    For the decoder and the LSTM. The prediction is read from the last layer.
    """
    if isinstance(model, DecoderModel):
        seen: list[Tensor] = []

        def keep(module: nn.Module, args: Any, kwargs: Any, out: Tensor) -> None:
            seen.append(out)

        with hooked(after=[(block, keep) for block in model.blocks]):
            model(xs, ys)
        return torch.stack([h[:, ::2] if model.two else h for h in seen])
    if isinstance(model, StreamModel) and isinstance(model.body, Cells):
        whole, h = model.body.lstm, model.read_in(turns(xs, ys))
        # torch returns only the last layer's states: stacks of the first k layers give those of the others.
        return torch.stack([_first(whole, layers)(h)[0][:, ::2] for layers in range(1, whole.num_layers + 1)])
    raise InputError(f"Layers can be read of the decoder and of the LSTM, but not of {type(model).__name__}.")


@torch.no_grad()
def after_examples(model: Learner, xs: Tensor, ys: Tensor) -> Tensor:
    """The whole state of an LSTM after all examples, `(batch, 2 · layers · width)`: the hidden and then the cell states
    of its layers, after the last label."""
    if not (isinstance(model, StreamModel) and isinstance(model.body, Cells)):
        raise InputError(f"The state after examples is that of an LSTM, and {type(model).__name__} has none.")
    _, parts = model.body.lstm(model.read_in(turns(xs, ys)))
    return torch.cat([part.transpose(0, 1).flatten(1) for part in parts], 1)


def _first(whole: nn.LSTM, layers: int) -> nn.LSTM:
    """The first `layers` layers of an LSTM."""
    like = next(whole.parameters())
    with torch.device("meta"):  # no weights are drawn
        part = nn.LSTM(whole.input_size, whole.hidden_size, layers, batch_first=True, dtype=like.dtype)
    part.to_empty(device=like.device)
    part.load_state_dict({name: whole.state_dict()[name] for name in part.state_dict()})
    return part


def read_linearly(known: Tensor, targets: Tensor, asked: Tensor, penalty: float = 1e-3) -> Tensor:
    """A linear probe: ridge regression with an intercept, fitted on `known`, `(n, features)`, and `targets`,
    `(n, outputs)`; returns predictions `(m, outputs)` for `asked`, `(m, features)`. All in float64.

    Features are centred and scaled first; `penalty` is per example, in units of their mean square.
    """
    mean, scale = known.double().mean(0), known.double().std(0).clamp(min=1e-8)
    X, Q = ((h.double() - mean) / scale for h in (known, asked))
    middle = targets.double().mean(0)
    gram = X.mT @ X + penalty * len(X) * torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
    return Q @ torch.linalg.solve(gram, X.mT @ (targets.double() - middle)) + middle
