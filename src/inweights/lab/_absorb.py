"""The theorem on a decoder of the lab: the examples of a prompt as weight changes, for every point at once."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from inweights._errors import InputError
from inweights.lab.models._decoder import DecoderBlock, DecoderModel
from inweights.lab.models._learner import Learner
from inweights.theory import Changes, Shift, Update, implicit_update, residual_bias, residual_matrix


@torch.no_grad()
def absorb_decoder(model: Learner, xs: Tensor, ys: Tensor, *, output: Literal["matrix", "bias"] = "matrix") -> Changes:
    """The weight changes under which each input alone gives the same prediction as after all examples before it.

    In every block, the first matrix of the MLP gets the rank-1 update of the theorem, and the last matrix (or the last
    bias, by `output`) adds the missing term of the skip connection.

    **Arguments:**

    - `model`: a decoder of the lab.
    - `xs`, `ys`: prompts, `(batch, points, dims)` and `(batch, points)`.

    **Returns:** `Changes` of `blocks.0.up.weight`, `blocks.0.down.weight`, … with leading dimensions `(batch, points)`:
    entry `(b, i)` holds the effect of the first i examples of prompt b on its input i. All are computed in one pass.

    ```python
    changes = absorb(model, xs, ys)
    alone(model, xs, ys, changes)  # equals model(xs, ys)
    ```
    """
    decoder = _require_decoder(model)
    if output not in ("matrix", "bias"):
        raise InputError(f"`output` is {output!r}, but must be matrix or bias.")
    h = decoder.enter(xs, ys)
    items: list[Update | Shift] = []
    for i, block in enumerate(decoder.blocks):
        assert isinstance(block, DecoderBlock)
        x = decoder.inputs(h)
        alone = block.attend(x.flatten(0, 1).unsqueeze(1)).view_as(x)  # each token attends only to itself
        full = decoder.inputs(block.attend(h))
        z, z_full = block.norm2(alone), block.norm2(full)
        items.append(implicit_update(block.up.weight, z, z_full - z, name=f"blocks.{i}.up.weight"))
        items.append(_add(block.inner(z_full), full - alone, f"blocks.{i}.down", output))
        h = block(h)
    return Changes(tuple(items))


@torch.no_grad()
def alone(model: Learner, xs: Tensor, ys: Tensor, changes: Changes | None = None) -> Tensor:
    """Predictions `(batch, points)` for each input without the examples before it, by the model with `changes`."""
    decoder = _require_decoder(model)
    batch, points = xs.shape[:2]
    at = torch.arange(points, device=xs.device)
    if changes is None:
        return torch.cat([decoder(xs, ys, i) for i in at], 1)
    # A separate prompt for each point: every entry of the changes is another model.
    prompts = (t[:, None, None].expand(batch, points, 1, *t.shape[1:]) for t in (xs, ys))
    with sdpa_kernel(SDPBackend.MATH):  # the other backends have no vmap rule
        answers: Tensor = changes.run(decoder, *prompts, at.expand(batch, points), chunk=256)
    return answers[:, :, 0, 0]


def _add(h: Tensor, delta: Tensor, name: str, output: str) -> Update | Shift:
    if output == "bias":
        return residual_bias(delta, name=f"{name}.bias")
    return residual_matrix(h, delta, name=f"{name}.weight")


def _require_decoder(model: Learner) -> DecoderModel:
    if not isinstance(model, DecoderModel):
        raise InputError(
            f"`model` is a {type(model).__name__}, but changes of weights are taken of decoders: a block needs a dense "
            "matrix behind its attention."
        )
    return model
