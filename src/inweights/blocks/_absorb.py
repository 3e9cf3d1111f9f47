"""The theorem on a block: a part of the context becomes changes of the block's parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch import Tensor

from inweights._errors import InputError, Problems
from inweights.blocks._block import ContextualBlock, Joint, _inside
from inweights.theory import Changes, require_alike, require_broadcast, require_finite

Part = Iterable[int] | Tensor
"""Which tokens of the context: their indices, or a boolean mask `(n,)`."""


def absorb(
    block: ContextualBlock,
    context: Tensor,
    query: Tensor,
    part: Part | None = None,
    *,
    output: str | None = None,
    carrier: Tensor | None = None,
) -> Changes:
    """The changes with which the block has the same output without `Y` as with it: `T_W(C, x) = T_{W+ΔW}(C∖Y, x)`.

    **Arguments:**

    - `context`: `C`, shape `(..., n, width)`, or an image where the layer reads patches.
    - `query`: `x`, shape `(..., width)`.
    - `part`: `Y`, the tokens to absorb; all of them if `None`.
    - `output`: which output control adds what the skip connection lacks; the block's preferred one if `None`.
    - `carrier`: another right factor of the input update, see `inweights.theory.rank_one`.

    **Returns:** `Changes` with the leading dimensions of the inputs.

    **Example:**

    ```python
    import torch
    import inweights as iw

    torch.manual_seed(0)
    block = iw.make_block("gated", width=8)
    context, query = torch.randn(5, 8).double(), torch.randn(8).double()
    changes = iw.absorb(block, context, query, part=[0, 2])
    patched = changes.run(block, context, query, keep=iw.without(context, [0, 2]))
    print(torch.allclose(patched, block(context, query)))
    # prints True
    ```
    """
    with torch.no_grad():
        tokens = _require_inputs(block, context, query, output)
        keep = _kept(tokens.shape[-2], part, tokens.device)
        full, reduced = block.joint(context, query), block.joint(context, query, keep)
        return between(block, reduced, full, output=output, carrier=carrier)


def trajectory(block: ContextualBlock, context: Tensor, query: Tensor, *, output: str | None = None) -> Changes:
    """The changes for every prefix of the context, from one pass, to be run on the query alone.

    **Returns:** `Changes` with leading dimensions `(..., n+1)`: entry i holds what `c_1…c_i` do, the other tokens
    masked. They are run on the query alone: everything masked, nothing moves.

    **Example:**

    ```python
    import torch
    import inweights as iw

    torch.manual_seed(0)
    block = iw.make_block("gated", width=8)
    context, query = torch.randn(5, 8).double(), torch.randn(8).double()
    changes = iw.trajectory(block, context, query)
    contexts, queries = (t.expand(6, *t.shape) for t in (context, query))
    outputs = changes.run(block, contexts, queries, keep=iw.without(context))
    print(torch.allclose(outputs[-1], block(context, query)))
    # prints True
    ```
    """
    with torch.no_grad():
        _require_inputs(block, context, query, output)
        full = block.prefix_joints(context, query)
        start = Joint(None if full.stream is None else full.stream[..., :1, :], full.read[..., :1, :])
        return between(block, start, full, output=output)


def between(
    block: ContextualBlock,
    reduced: Joint,
    full: Joint,
    *,
    output: str | None = None,
    carrier: Tensor | None = None,
) -> Changes:
    """The changes with which `reduced` has the effect of `full`; the joints' leading dimensions broadcast."""
    require_finite(**{"A(C∖Y, x)": reduced.read, "A(C, x)": full.read})
    changes = Changes(())
    if carrier is not None and not block.input_controls:
        raise InputError("`carrier` carries an input update, but this block has no input control.")
    if block.input_controls:
        steered = block.mlp.steer(reduced.read, full.read - reduced.read, carrier)
        changes = Changes(tuple(_inside("mlp", change) for change in steered))
    if full.stream is not None and reduced.stream is not None:
        # After the input update the inner activation is that of the full context: hence `full.read`.
        control = output or block.output_controls[0]
        changes = Changes(changes.items + block.add(full.read, full.stream - reduced.stream, control))
    return changes


def without(context: Tensor, part: Part | None = None, block: ContextualBlock | None = None) -> Tensor:
    """The `keep` mask of `C∖Y`, shape `(n,)`: false for the tokens of `part` (for all, if `None`).

    Pass the `block` where the context is not tokens yet (an image).

    **Example:**

    ```python
    import torch
    import inweights as iw

    print(iw.without(torch.randn(4, 8), [0, 2]))
    # prints tensor([False,  True, False,  True])
    ```
    """
    tokens = context if block is None else block.layer.tokens(context)
    return _kept(tokens.shape[-2], part, tokens.device)


def _kept(n: int, part: Part | None, device: torch.device) -> Tensor:
    if part is None:
        return torch.zeros(n, dtype=torch.bool, device=device)
    if isinstance(part, Tensor) and part.dtype == torch.bool:
        if part.shape != (n,):
            raise InputError(f"`part` is a mask of shape {tuple(part.shape)}, but the context has {n} tokens.")
        chosen = part.to(device)
    else:
        indices = _indices(part)
        outside = sorted({i for i in indices if not 0 <= i < n})
        if outside:
            raise InputError(
                f"`part` names {', '.join(map(str, outside))}, outside the context: "
                f"its {n} tokens are numbered 0 to {n - 1}."
            )
        chosen = torch.zeros(n, dtype=torch.bool, device=device)
        chosen[indices] = True
    if not bool(chosen.any()):
        raise InputError("`part` is empty, so there is nothing to absorb: name at least one token.")
    return ~chosen


def _indices(part: object) -> list[int]:
    """The token numbers; booleans and floats are refused."""
    try:
        # What cannot be listed raises a TypeError, which is caught below.
        listed = list(part)  # type: ignore[call-overload]
        if any(isinstance(i, bool) or str(getattr(i, "dtype", "")).endswith("bool") for i in listed):
            raise TypeError
        return [operator.index(i) for i in listed]
    except (TypeError, ValueError):
        raise InputError(
            f"`part` is {part!r}, but must be a list of token numbers such as [0, 2], or a boolean tensor (n,)."
        ) from None


def _require_inputs(block: ContextualBlock, context: Tensor, query: Tensor, output: str | None) -> Tensor:
    require_alike(block=next(block.mlp.parameters()), context=context, query=query)
    width, problems = block.layer.width, Problems()
    problems.unless(
        query.ndim >= 1 and query.shape[-1] == width,
        f"`query` has shape {tuple(query.shape)}, but this block reads vectors (..., {width}).",
    )
    problems.unless(output is None or output in block.output_controls, block.no_control(output))
    if problems.unless(context.ndim >= 2, f"`context` has shape {tuple(context.shape)}: pass tokens (..., n, width)."):
        tokens = block.layer.tokens(context)
        problems.unless(
            tokens.shape[-1] == width,
            f"`context` has shape {tuple(context.shape)}, but this block reads tokens (..., n, {width}).",
        )
        problems.unless(tokens.shape[-2] > 0, "`context` is empty: pass at least one token to absorb.")
    problems.stop()
    require_broadcast(context=tuple(tokens.shape[:-2]), query=tuple(query.shape[:-1]))
    require_finite(context=context, query=query)
    return tokens
