"""`ContextualBlock`: a contextual layer, the dense part that reads it, and how the two are joined."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import InputError
from inweights.blocks._layer import ContextualLayer
from inweights.blocks._mlp import Dense
from inweights.theory import Shift, Update, residual_scale


class Joint(NamedTuple):
    """What a block holds between its contextual layer and its dense part, for a query.

    - `stream`: `v`, the residual stream that the skip connection carries past the dense part, shape
      `(..., width)`; `None` without a skip connection.
    - `read`: `z`, what the dense part reads, shape `(..., width)`.
    """

    stream: Tensor | None
    read: Tensor


class ContextualBlock(nn.Module):
    """`T_W(C, x) = f(W A(C, x) + b)`: the block of the theorem, and the base of all others here.

    - `input_controls`: parameters that read the contextual layer; empty where none does.
    - `output_controls`: ways to add a vector to the block's stream, the preferred one first; empty
      where nothing needs to be added.
    """

    def __init__(self, layer: ContextualLayer, mlp: Dense) -> None:
        super().__init__()
        self.layer, self.mlp = layer, mlp

    @property
    def input_controls(self) -> tuple[str, ...]:
        return tuple(f"mlp.{name}" for name in self.mlp.inputs)

    @property
    def output_controls(self) -> tuple[str, ...]:
        return ()

    # --- the forward, in three parts that kinds of block replace ------------------------------------

    def enter(self, tokens: Tensor) -> Tensor:
        """Tokens and query as the contextual layer reads them."""
        return tokens

    def join(self, a: Tensor, query: Tensor) -> Joint:
        """Stream and dense input from `a = A(C, x)` and the query."""
        return Joint(None, a)

    def leave(self, stream: Tensor | None, branch: Tensor) -> Tensor:
        """The block's output from the stream and the output of the dense part."""
        return branch

    def forward(self, context: Tensor, query: Tensor, keep: Tensor | None = None) -> Tensor:
        """`T_W(C∖Y, x)`, shape `(..., out)`; arguments as in `ContextualLayer.forward`."""
        joint = self.joint(context, query, keep)
        return self.leave(joint.stream, self.mlp(joint.read))

    # --- the quantities of the theorem ----------------------------------------------------------------

    def joint(self, context: Tensor, query: Tensor, keep: Tensor | None = None) -> Joint:
        """The joint with the context, or with what `keep` leaves of it."""
        tokens = self.enter(self.layer.tokens(context))
        if keep is not None and (keep.dtype != torch.bool or keep.shape[-1:] != tokens.shape[-2:-1]):
            raise InputError(
                f"`keep` is {keep.dtype} of shape {tuple(keep.shape)}, but must be a boolean tensor "
                f"(..., {tokens.shape[-2]}), true for the tokens to read; `without(...)` makes one."
            )
        return self.join(self.layer(tokens, self.enter(query), keep), query)

    def prefix_joints(self, context: Tensor, query: Tensor) -> Joint:
        """The joints of all prefixes, from one pass: shapes `(..., n+1, width)`."""
        tokens = self.enter(self.layer.tokens(context))
        return self.join(self.layer.prefixes(tokens, self.enter(query)), query.unsqueeze(-2))

    def suffix_joints(self, context: Tensor, query: Tensor) -> Joint:
        """The joints of all suffixes, from one pass: shapes `(..., n+1, width)`."""
        tokens = self.enter(self.layer.tokens(context))
        return self.join(self.layer.suffixes(tokens, self.enter(query)), query.unsqueeze(-2))

    def no_control(self, name: str | None) -> str:
        """The error message for an output control that this block does not have."""
        known = ", ".join(self.output_controls) or "none"
        return f"`output` is {name!r}, but this block's output controls are: {known}."

    def add(self, z: Tensor, delta: Tensor, control: str) -> tuple[Update | Shift, ...]:
        """A change that adds `delta` to the stream after the dense part, when that reads `z`."""
        if control not in self.output_controls:
            raise InputError(self.no_control(control))
        return tuple(_inside("mlp", change) for change in self.mlp.add(z, delta, control))


class Residual(ContextualBlock):
    """`x + A + W' g(W A + b) + b'`: the skip connections of the paper's appendix A."""

    @property
    def output_controls(self) -> tuple[str, ...]:
        return self.mlp.outputs

    def join(self, a: Tensor, query: Tensor) -> Joint:
        return Joint(query + a, a)

    def leave(self, stream: Tensor | None, branch: Tensor) -> Tensor:
        return branch if stream is None else stream + branch


class PreNorm(Residual):
    """`v = x + A(norm C, norm x)`, out `v + mlp(norm v)`: GPT-2 with LayerNorm, Llama with RMSNorm."""

    def __init__(self, layer: ContextualLayer, mlp: Dense, norm: type[nn.LayerNorm] | type[nn.RMSNorm]) -> None:
        super().__init__(layer, mlp)
        self.before = norm(layer.width, eps=1e-6)
        self.norm = norm(layer.out, eps=1e-6)

    def enter(self, tokens: Tensor) -> Tensor:
        return self.before(tokens)

    def join(self, a: Tensor, query: Tensor) -> Joint:
        stream = query + a
        return Joint(stream, self.norm(stream))


class PostNorm(Residual):
    """`v = norm(x + A(C, x))`, out `norm(v + mlp(v))`: the original transformer, TabPFN."""

    def __init__(self, layer: ContextualLayer, mlp: Dense) -> None:
        super().__init__(layer, mlp)
        self.norm = nn.LayerNorm(layer.out, eps=1e-6)
        self.after = nn.LayerNorm(layer.out, eps=1e-6)

    def join(self, a: Tensor, query: Tensor) -> Joint:
        stream = self.norm(query + a)
        return Joint(stream, stream)

    def leave(self, stream: Tensor | None, branch: Tensor) -> Tensor:
        return self.after(super().leave(stream, branch))


class Sandwich(PreNorm):
    """`v + m ⊙ n(mlp(norm v))`: a norm on the branch before the sum, as in Gemma.

    The norm hides what the last matrix adds, but its scale `m` is an output control itself.
    """

    def __init__(self, layer: ContextualLayer, mlp: Dense) -> None:
        super().__init__(layer, mlp, nn.RMSNorm)
        self.branch_norm = nn.RMSNorm(layer.out, eps=1e-6)

    @property
    def output_controls(self) -> tuple[str, ...]:
        return ("scale",)

    def leave(self, stream: Tensor | None, branch: Tensor) -> Tensor:
        return super().leave(stream, self.branch_norm(branch))

    def add(self, z: Tensor, delta: Tensor, control: str) -> tuple[Update | Shift, ...]:
        if control != "scale":
            return super().add(z, delta, control)
        n = F.rms_norm(self.mlp(z), self.branch_norm.normalized_shape, eps=self.branch_norm.eps)
        return (residual_scale(n, delta, name="branch_norm.weight"),)


class Parallel(PreNorm):
    """`x + A(norm C, norm x) + mlp(norm x)`: the dense part beside the attention, as in GPT-J.

    The dense part does not depend on the context, so there is no input control: the output control alone
    adds the attention's output.
    """

    def __init__(self, layer: ContextualLayer, mlp: Dense) -> None:
        super().__init__(layer, mlp, nn.LayerNorm)
        del self.norm  # one norm serves both branches

    @property
    def input_controls(self) -> tuple[str, ...]:
        return ()

    def join(self, a: Tensor, query: Tensor) -> Joint:
        return Joint(query + a, self.before(query).expand(torch.broadcast_shapes(query.shape, a.shape)))


def _inside(module: str, change: Update | Shift) -> Update | Shift:
    return change.named(f"{module}.{change.name}")
