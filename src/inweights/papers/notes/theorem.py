"""Claims of the notes about the theorem and its dynamics, including mistakes."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.blocks import ContextualBlock, absorb
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers._random_blocks import block_and_prompts, each
from inweights.papers._smallest_changes import run, smallest, trained
from inweights.papers.learning_without_training.dynamics import (
    descent_error,
    peeling_error,
    products,
    token_factors,
)
from inweights.theory import implicit_update


@claim("note-factors", NOTES, "000, appendix B", exact=True, cost=(0.2, 10))
def factors(trial: Trial) -> Measurement:
    """Tokens are removed from the front of the context by W_i = W_{i−1} + h_i W_{i−2} A_i.

    Measured: for each prompt the largest difference of T_{W_i}(c_{i+1}…c_n, x) from T(C, x) over all i; W_{−1} is taken
    as W_0. `corrected`: the same with W_{i−1} in place of W_{i−2}; the note continues with “= W_{i−1} (1 + h_i A_i)”,
    which says that.

    Control: the correct factors in the opposite order.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 5 prompts (full: 50), float64.
    """
    block, contexts, queries = block_and_prompts(trial, trial.size(5, 50))
    W0 = block.get_parameter(block.input_controls[0]).detach()
    errors, right, controls = [], [], []
    for context, query in zip(contexts, queries, strict=True):
        each = token_factors(block, context, query)
        path = [W0, W0]
        for factor in each:
            path.append(path[-1] + path[-2] @ factor - path[-2])
        errors.append(peeling_error(block, context, query, path[2:]))
        right.append(peeling_error(block, context, query, products(W0, each)))
        controls.append(peeling_error(block, context, query, products(W0, each[::-1])))
    return Measurement({"error": (errors, controls), "corrected": (right, controls)})


@claim("note-index", NOTES, "000, Proposition 3.1", exact=True, cost=(0.5, 10))
def index(trial: Trial) -> Measurement:
    """The weights after i tokens are W_i = W_{i−1} − h ∇L_i(W_{i−1}), where the loss L_i contains the effect of token i
    + 1.

    Measured: for each prompt the largest difference of T_{W_i}(x) from T(c_1…c_i, x), i from 1 to n − 1. `corrected`:
    the same with L_i at W_i, as the note has it two lines below.

    Control: losses with an index shifted by two.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 5 prompts (full: 50), float64.
    """
    block, contexts, queries = block_and_prompts(trial, trial.size(5, 50))
    h = block.joint(contexts[:, :0], queries).read.detach().square().sum(-1).reciprocal()
    right, errors, controls = (
        [descent_error(block, c, x, float(r), shift) for c, x, r in zip(contexts, queries, h, strict=True)]
        for shift in (0, 1, 2)
    )
    return Measurement({"error": (errors, controls), "corrected": (right, controls)})


@claim(
    "note-underdetermined", NOTES, "001, after Theorem 2.2", exact=True, cost=(1.3, 5),
    aside="both parts are linear algebra, as are dherin-family and dherin-minimum-norm",
)  # fmt: skip
def underdetermined(trial: Trial) -> Measurement:
    """The condition on the update, ΔW A(x) = W ΔA, is underdetermined; the update of rank 1 is its solution of least
    norm.

    Measured: `spread`: W is trained twice, from two random starting points, until the output for the query alone is
    that with the context; the distance of the two changes, relative to ‖ΔW‖, for each prompt. `least`: the distance of
    LAPACK's least-norm solution from ΔW, relative to ‖ΔW‖.

    Control: for `spread`, two trainings from one starting point; for `least`, another solution, with a random right
    factor.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, all of them removed, 20 prompts (full: 200);
    starting points as large as the weights; float64.

    Precondition: all trainings converge, to 1e-10.
    """
    block, context, query = block_and_prompts(trial, trial.size(20, 200))
    update = absorb(block, context, query).updates[0].dense()
    size = torch.linalg.matrix_norm(update)
    one, other = beginnings(trial, block, len(query))
    first, *others = (taught(trial, block, context, query, start) for start in (one, other, one))
    spread, control = (torch.linalg.matrix_norm(first - second) / size for second in others)

    a, full = (block.joint(c, query).read.detach() for c in (context[:, :0], context))
    W = block.get_parameter(block.input_controls[0]).detach()
    result = smallest(a.unsqueeze(-2), ((full - a) @ W.mT).unsqueeze(-2))
    carrier = torch.randn(a.shape, generator=trial.generator(), dtype=a.dtype)
    another = implicit_update(W, a, full - a, carrier=carrier).dense()
    least, wrong = (torch.linalg.matrix_norm(result - each) / size for each in (update, another))
    return Measurement({"spread": (spread, control), "least": (least, wrong)})


def beginnings(trial: Trial, block: ContextualBlock, prompts: int) -> tuple[Tensor, Tensor]:
    """Two random changes of the first matrix for each prompt, `(prompts, out, in)`, as large as the matrix."""
    W, random = block.get_parameter(block.input_controls[0]).detach(), trial.generator()
    one, other = (W.std() * torch.randn(prompts, *W.shape, generator=random, dtype=W.dtype) for _ in range(2))
    return one, other


def taught(trial: Trial, block: ContextualBlock, context: Tensor, query: Tensor, start: Tensor) -> Tensor:
    """The trained change of the first matrix with which the output for a query alone is that with the context."""
    wanted = block(context, query).detach()
    change = trained(block, query, wanted, start, trial.seed)
    miss = float(each(run(block, change, context[:, :0], query), wanted).max())
    trial.require(miss < 1e-10, f"a training ends {miss:.1e} off")
    return change
