"""`Block`: the parameters of one block of a model whose changes can have the effect of a context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tail = Literal["sum", "post-norm", "branch-norm", "head"]


@dataclass(frozen=True)
class Control:
    """A parameter that can be changed; `transposed` if it is stored as `(in, out)`, `experts` how many it holds."""

    name: str
    transposed: bool = False
    experts: int = 0


@dataclass(frozen=True)
class Block:
    """The parameters of a block that can be changed, and the structure around them.

    - `inputs`: the matrices that read the MLP's input, where that input sees the context.
    - `outputs`: the last matrices: what they add reaches the block's output through nothing but scaling.
    - `tail`: what follows the sum of stream and branch: nothing (`"sum"`), a norm of the sum (`"post-norm"`), or
      a norm on the branch before the sum (`"branch-norm"`), whose module is `norm`. `"head"`: no block could be
      patched, and the matrix of the logits has the whole effect.
    - `scale`, `shift`: the norm's own parameters, which are output controls of a `"branch-norm"`.
    - `unit`: whether the last matrix adds to the output as it is, each row a token.
    - `entry`: the norm whose result the MLP reads, if one stands between it and the stream.
    - `reason`: why nothing can be patched here; empty if something can.
    """

    name: str
    inputs: tuple[Control, ...] = ()
    outputs: tuple[Control, ...] = ()
    tail: Tail = "sum"
    norm: str = ""
    scale: str = ""
    shift: str = ""
    unit: bool = False
    entry: str = ""
    reason: str = ""

    @property
    def supported(self) -> bool:
        return not self.reason

    @property
    def adding(self) -> tuple[str, ...]:
        """The parameters that add a vector to the block's output."""
        if self.tail == "branch-norm":
            return (self.shift or self.scale,)
        return tuple(c.name for c in self.outputs)
