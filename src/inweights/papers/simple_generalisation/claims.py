"""*A simple generalisation of the implicit dynamics of in-context learning* (arXiv 2512.11255)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.blocks import between
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import INNOCENTI
from inweights.papers._random_blocks import each
from inweights.papers._smallest_changes import smallest
from inweights.papers.simple_generalisation._stack import (
    DIMS,
    STEPS,
    Skips,
    Stack,
    during,
    examples,
    loss_of,
    new_tokens,
    trained,
    untrained,
)
from inweights.theory import Changes, Update, implicit_update, residual_bias


def updates(block: Skips, tokens: Tensor) -> Changes:
    """ΔW_i and Δb'_i for every position i, `(batch, n + 1)`: with them, the output for the query alone is that at
    position i."""
    start = block.alone(tokens[:, -1:])
    return between(block, start, block.everywhere(tokens), output="bias")


def outputs(block: Skips, changes: Changes, tokens: Tensor) -> Tensor:
    """The outputs of the block for the last token alone with the changes of every position, `(batch, n + 1, width)`."""
    query = tokens[:, -1:].expand_as(tokens)
    return changes.run(block, query.unsqueeze(-2)[..., :0, :], query)


@claim("innocenti-all-positions", INNOCENTI, "Section 1, main result (i)", exact=True, cost=(7, 90))
def all_positions(trial: Trial) -> Measurement:
    """The output of a block with skip connections at any position i is its output for the last token alone with ΔW_i =
    W (ΔA_i + Δz_i) (A(x) + x)ᵀ / ‖A(x) + x‖² and Δb'_i = ΔA_i + Δz_i, Δz_i the difference of the inputs.

    Measured: for each prompt and position the largest difference of outputs, in the first block.

    Control: ΔA_i alone, without Δz_i, at all positions but the last.

    Settings: the trained stack of the authors: 2 dimensions, 50 examples, 3 heads, 5 blocks, two hidden layers of 12,
    GELU, 100 steps of Adam with 128 prompts each (quick: 20 examples, 64 prompts); 8 prompts (full: 128), float64.
    """
    block, tokens = trained(trial).entering(new_tokens(trial, trial.size(8, 128)))[0]
    whole, query = block.sequence(tokens), tokens[:, -1:]
    errors = each(outputs(block, updates(block, tokens), tokens), whole)
    inputs_alike = block.join(block.layer.sequence(block.enter(tokens)), query)
    wrong = between(block, block.alone(query), inputs_alike, output="bias")
    return Measurement({"error": (errors, each(outputs(block, wrong, tokens), whole)[:, :-1])})


@claim("innocenti-any-block", INNOCENTI, "Section 1, main result (ii)", exact=True, cost=(1, 10))
def any_block(trial: Trial) -> Measurement:
    """The same holds in every later block of a deep transformer, with the inputs of that block.

    Measured: for each block but the first and each prompt, the largest difference of outputs over positions.

    Control: the changes computed from the prompt itself, which is the input of the first block.

    Settings: the trained stack, as for `innocenti-all-positions`, 8 prompts (full: 128), float64.
    """
    (_, prompt), *later = trained(trial).entering(new_tokens(trial, trial.size(8, 128)))
    errors, controls = [], []
    for block, tokens in later:
        whole = block.sequence(tokens)
        errors.append(each(outputs(block, updates(block, tokens), tokens), whole).amax(-1))
        controls.append(each(outputs(block, updates(block, prompt), tokens), whole).amax(-1))
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})


@claim("innocenti-layer-norm", INNOCENTI, "Section 1, main result (iii)", exact=True, cost=(7, 90))
def layer_norm(trial: Trial) -> Measurement:
    """With LayerNorm before attention and MLP, ΔW_i = W (u_i − u) uᵀ / ‖u‖² with the normalised streams u_i and u, and
    Δb'_i stays the difference of the streams themselves.

    Measured: for each block and prompt, the largest difference of outputs over positions.

    Control: ΔW_i from the streams before the norm.

    Settings: the trained stack with LayerNorm, else as for `innocenti-all-positions`, 8 prompts (full: 128), float64.
    """
    errors, controls = [], []
    for block, tokens in trained(trial, norms=True).entering(new_tokens(trial, trial.size(8, 128))):
        whole, right = block.sequence(tokens), updates(block, tokens)
        errors.append(each(outputs(block, right, tokens), whole).amax(-1))
        v, start = block.everywhere(tokens).stream, block.alone(tokens[:, -1:]).stream
        assert v is not None
        assert start is not None
        W = implicit_update(block.get_parameter("mlp.first.weight"), start, v - start, name="mlp.first.weight")
        raw = Changes((W, residual_bias(v - start, name="mlp.last.bias")))
        controls.append(each(outputs(block, raw, tokens), whole).amax(-1))
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})


@claim(
    "innocenti-sum-rank", INNOCENTI, "The authors' code, effective rank of the update", exact=True, cost=(1, 5),
    aside="by the formula of innocenti-all-positions the updates have one right factor, so that by algebra nothing "
    "could come out but PASS",
)  # fmt: skip
def sum_rank(trial: Trial) -> Measurement:
    """The updates of all positions of a prompt sum to a matrix of rank 1, though there is one update for each position.

    Measured: for each block and prompt the second singular value of Σ_i D_i over the first, where D_i is the dense
    matrix of least norm with which the MLP has for the query alone the pre-activations at position i, computed by
    LAPACK.

    Control: the same sum with each D_i for the query of another prompt.

    Settings: the trained stack, as for `innocenti-all-positions`, 8 prompts (full: 128), float64.
    """
    results: tuple[list[Tensor], list[Tensor]] = ([], [])
    for block, tokens in trained(trial).entering(new_tokens(trial, trial.size(8, 128))):
        W = block.get_parameter("mlp.first.weight").detach()
        there = block.everywhere(tokens).read.detach()  # (prompts, positions, width)
        alone = block.alone(tokens[:, -1]).read.detach()  # (prompts, width)
        prompts, positions = (torch.arange(n) for n in there.shape[:2])
        for shares, which in zip(results, (0, 1), strict=True):
            reads = alone[(prompts[:, None] + which * positions) % len(alone)]
            each_one = smallest(reads.unsqueeze(-2), ((there - reads) @ W.mT).unsqueeze(-2))
            s = torch.linalg.svdvals(each_one.sum(1))
            shares.append(s[:, 1] / s[:, 0])
    return Measurement({"second": (torch.cat(results[0]), torch.cat(results[1]))})


def cosines(one: Update, other: Update) -> Tensor:
    """Cosines of the updates of all pairs of positions, `(batch, n, n)`."""
    left, right = (F.normalize(u.dense().detach().flatten(-2), dim=-1) for u in (one, other))
    return left @ right.mT


def off_diagonal(matrix: Tensor) -> Tensor:
    """The mean over pairs of different positions, `(batch,)`."""
    n = matrix.shape[-1]
    return (matrix.sum((-2, -1)) - matrix.diagonal(dim1=-2, dim2=-1).sum(-1)) / (n * (n - 1))


def by_block(net: Stack, tokens: Tensor) -> list[Update]:
    """For every block the ΔW_i of all positions, `(batch, n + 1)`."""
    return [updates(block, entering).updates[0] for block, entering in net.entering(tokens)]


def independent_reads() -> float:
    """The mean cosine of a − c and b − c for independent normal a, b and c of the tokens' width: the contribution of
    the query, which all updates have in common."""
    a, b, c = torch.randn(3, 100_000, DIMS + 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return float(F.cosine_similarity(a - c, b - c).mean())


@claim(
    "innocenti-token-alignment", INNOCENTI, "Figure, alignment of tokens", cost=(4, 60),
    aside="the authors show heat-maps of single prompts and state no bound; that of ½ is ours",
)  # fmt: skip
def token_alignment(trial: Trial) -> Measurement:
    """The updates of different positions of a prompt are mostly aligned, in each block and at each step of the training
    that the paper shows.

    Measured: for each block the mean cosine of ΔW_i and ΔW_j, i ≠ j, over prompts, after 10, 20, … 90 steps of
    training: the least of the nine. (That "mostly" means above ½ is our reading.)

    Control: the same block of the untrained stack, the paper's step 0, which also has the same query in all its ΔW_i.
    (Also measured: the mean cosine of differences of independent vectors, and the share of the blocks and steps with a
    mean cosine above ½ and with mostly positive cosines.)

    Settings: the stack of `innocenti-all-positions` in its training, 32 prompts (full: 128).
    """
    tokens = new_tokens(trial, trial.size(32, 128))
    matrices = [[cosines(u, u) for u in by_block(during(trial, step), tokens)] for step in STEPS]
    means = torch.stack([torch.stack([off_diagonal(m).mean() for m in blocks]) for blocks in matrices])
    lines = {f"block {b}": line for b, line in enumerate(means.T.tolist(), 1)}
    plot = Plot("Alignment of the updates of tokens", "steps of training", "mean cosine", STEPS, lines)
    positive = [float(off_diagonal((m > 0).double()).mean()) for blocks in matrices[1:] for m in blocks]
    reported = {
        "share of blocks and steps above ½": float((means[1:] > 0.5).double().mean()),
        "share of blocks and steps with mostly positive cosines": sum(p > 0.5 for p in positive) / len(positive),
        "cosine, independent reads": independent_reads(),
        "loss": loss_of(during(trial, STEPS[-1]), trial),
    }
    quantities = {f"block_{b}": (min(line[1:]), line[0]) for b, line in enumerate(lines.values(), 1)}
    return Measurement(quantities, plot, reported)


@claim("innocenti-last-token", INNOCENTI, "Figure, alignment of tokens", cost=(1.2, 5))
def last_token(trial: Trial) -> Measurement:
    """The last token is an exception: its update is less aligned with the others than these are with each other.

    Measured: the mean cosine of the last token's update with the others, minus that among the others, for each prompt,
    over all blocks.

    Control: the tokens of the middle third in place of the last, averaged over them.

    Rival: algebra: the same untrained stack, where also only the last token has no Δz.

    Settings: the trained stack, as for `innocenti-all-positions`, 32 prompts (full: 128).
    """
    n, tokens = examples(trial), new_tokens(trial, trial.size(32, 128))
    learned, begun = ([cosines(u, u) for u in by_block(net, tokens)] for net in (trained(trial), untrained(trial)))
    value, rival = (torch.stack([apart(m, n) for m in matrices]).mean(0) for matrices in (learned, begun))
    middle = torch.stack([apart(m, i) for m in learned for i in range(n // 3, 2 * n // 3)]).mean(0)
    return Measurement({"difference": (value, middle)}, rivals={"difference": rival})


def apart(matrix: Tensor, position: int) -> Tensor:
    """The mean cosine of one position with the others, minus that among the others, `(batch,)`."""
    others = [i for i in range(matrix.shape[-1]) if i != position]
    return matrix[:, position, others].mean(-1) - off_diagonal(matrix[:, others][:, :, others])


@claim(
    "innocenti-block-alignment", INNOCENTI, "The authors' code, alignment of blocks", cost=(1.2, 5),
    aside="a measure of the authors' code, on which no sentence of the paper is known",
)  # fmt: skip
def block_alignment(trial: Trial) -> Measurement:
    """The updates of different blocks for the last token are aligned with each other. (The paper measures this
    alignment; that it is positive is our reading of its figure.)

    Measured: the mean cosine of the last token's ΔW in two blocks, over all pairs of blocks, for each prompt.

    Control: the same untrained stack.

    Settings: the trained stack, as for `innocenti-all-positions`, 32 prompts (full: 128).
    """
    tokens = new_tokens(trial, trial.size(32, 128))
    values = []
    for net in (trained(trial), untrained(trial)):
        each = [update.dense().detach()[:, -1].flatten(-2) for update in by_block(net, tokens)]
        units = F.normalize(torch.stack(each, 1), dim=-1)  # (prompts, blocks, numbers)
        values.append(off_diagonal(units @ units.mT))
    return Measurement({"cosine": (values[0], values[1])})
