"""*Learning without training* (arXiv 2507.16003): the weight updates as a context is read token by token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from inweights.blocks import ContextualBlock
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import DHERIN
from inweights.papers._random_blocks import block_and_prompts, largest
from inweights.theory import exchanged, product_path


@claim("dherin-gradient-steps", DHERIN, "Proposition 3.1", exact=True, cost=(2, 20))
def gradient_steps(trial: Trial) -> Measurement:
    """Reading one more token is a step of gradient descent, W_{i+1} = W_i − h ∇L_i(W_i), on the linear loss
    L_i(W) = trace(Δ_iᵀ W) with Δ_i = W_0 (A(c_1…c_i, x) − A(c_1…c_{i+1}, x)) A(x)ᵀ and h = 1/‖A(x)‖².

    Measured: for each prompt the largest difference between T_{W_i}(x) and T(c_1…c_i, x) over all i; gradients by
    autograd, steps one after the other.

    Control: steps twice as long.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 5 prompts (full: 50), float64.
    """
    block, contexts, queries = block_and_prompts(trial, trial.size(5, 50))
    alone = block.joint(contexts[:, :0], queries).read.detach()
    h = alone.square().sum(-1).reciprocal()
    errors, controls = (
        [descent_error(block, c, x, times * float(rate)) for c, x, rate in zip(contexts, queries, h, strict=True)]
        for times in (1, 2)
    )
    return Measurement({"error": (errors, controls)})


def descent_error(block: ContextualBlock, context: Tensor, query: Tensor, h: float, shift: int = 0) -> float:
    """The largest difference of T_{W_i}(x) from T(c_1…c_i, x), where step i descends the loss with index `i +
    shift`."""
    n, name = len(context), block.input_controls[0]
    A = [block.joint(context[:i], query).read.detach() for i in range(n + 1)]
    W0 = block.get_parameter(name).detach()
    W, worst = W0, 0.0
    for i in range(n - shift):
        step = i + shift
        gradient = torch.outer(W0 @ (A[step] - A[step + 1]), A[0])
        at = W.clone().requires_grad_()
        W = W - h * torch.autograd.grad(torch.trace(gradient.mT @ at), at)[0]
        with exchanged(block, {name: W}):
            output = block(context[:0], query)
        worst = max(worst, largest(output, block(context[: i + 1], query)))
    return worst


@claim("dherin-factors", DHERIN, "Appendix B", exact=True, cost=(2, 20))
def factors(trial: Trial) -> Measurement:
    """Tokens can also be removed from the front one by one, each by a factor: W_i = W_{i−1} (I + h_i A_i) has
    T_{W_i}(c_{i+1}…c_n, x) = T_{W_0}(C, x), so that W_n = W_0 (I + h_1 A_1) … (I + h_n A_n).

    Measured: for each prompt the largest difference of these outputs over all i.

    Control: the same factors multiplied in the opposite order.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 5 prompts (full: 50), float64.
    """
    block, contexts, queries = block_and_prompts(trial, trial.size(5, 50))
    W0 = block.get_parameter(block.input_controls[0]).detach()
    errors, controls = [], []
    for context, query in zip(contexts, queries, strict=True):
        each = token_factors(block, context, query)
        errors.append(peeling_error(block, context, query, products(W0, each)))
        controls.append(peeling_error(block, context, query, products(W0, each[::-1])))
    path = product_path(W0, block.suffix_joints(contexts, queries).read)
    return Measurement(
        {"error": (errors, controls)}, reported={"rank of W_n − W_0": float(path.total.rank().double().mean())}
    )


def token_factors(block: ContextualBlock, context: Tensor, query: Tensor) -> list[Tensor]:
    """`I + h_i A_i` for every token, each `(in, in)`."""
    A = [block.joint(context[i:], query).read.detach() for i in range(len(context) + 1)]
    identity = torch.eye(len(A[0]), dtype=A[0].dtype)
    return [identity + torch.outer(more - less, less) / less.square().sum() for more, less in pairwise(A)]


def products(W: Tensor, each: Sequence[Tensor]) -> list[Tensor]:
    """`W_1, W_2, …`: the products of `W` with the first 1, 2, … factors."""
    results = []
    for factor in each:
        W = W @ factor
        results.append(W)
    return results


def peeling_error(block: ContextualBlock, context: Tensor, query: Tensor, path: Sequence[Tensor]) -> float:
    """The largest difference of T_{W_i}(c_{i+1}…c_n, x) from T(C, x) along a path of matrices."""
    prompted, worst = block(context, query), 0.0
    for i, W in enumerate(path, 1):
        with exchanged(block, {block.input_controls[0]: W}):
            worst = max(worst, largest(block(context[i:], query), prompted))
    return worst
