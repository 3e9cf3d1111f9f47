"""*Transmuting prompts into weights* (arXiv 2510.08734): thought matrices on random tokens. Their effect on a language
model is tested in a separate file."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.blocks import make_block
from inweights.folding import RidgeFit
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import MAZZAWI
from inweights.papers._random_blocks import WIDTH
from inweights.theory import implicit_update, static_update

INSTRUCTION, COMPLETION = 8, 12


def tokens(trial: Trial, completions: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first dense matrix `W (64, WIDTH)` of a random block; the attention outputs `a` of the tokens of random
    completions alone, and the differences `δ` that an instruction before them makes: both `(tokens, WIDTH)`."""
    block = make_block("plain", "softmax", width=WIDTH, seed=trial.seed)
    random = trial.generator()
    instruction = torch.randn(INSTRUCTION, WIDTH, generator=random, dtype=torch.float64)
    x = torch.randn(completions, COMPLETION, WIDTH, generator=random, dtype=torch.float64)
    with torch.no_grad():
        a = block.layer.sequence(x)
        full = block.layer.sequence(torch.cat([instruction.expand(completions, -1, -1), x], 1))[:, INSTRUCTION:]
    W = block.get_parameter(block.input_controls[0]).detach()
    return W, a.reshape(-1, WIDTH), (full - a).reshape(-1, WIDTH)


def thought_matrix(W: Tensor, a: Tensor, delta: Tensor) -> Tensor:
    """`Δ(I) = (Σ W δ aᵀ) Z⁻¹` with `Z = Σ a aᵀ`."""
    fit = RidgeFit(0.0)
    fit.add(a, delta, torch.ones(len(a)))
    return fit.update(W).dense()


def mean_of_patches(W: Tensor, a: Tensor, delta: Tensor) -> Tensor:
    """The mean of the exact patches of each token, `W δ aᵀ/‖a‖²`."""
    return implicit_update(W, a, delta).dense().mean(0)


def _off(result: Tensor, wanted: Tensor) -> float:
    return float((result - wanted).norm() / wanted.norm())


@claim("mazzawi-closed-form", MAZZAWI, "Theorem 3.1", exact=True, cost=(0.2, 1))
def closed_form(trial: Trial) -> Measurement:
    """The thought matrix (Σ W δ_i a_iᵀ) Z⁻¹, Z = Σ a_i a_iᵀ, is the least-squares patch of all tokens at once: the M
    that minimises Σ ‖M a_i − W δ_i‖².

    Measured: its relative distance from the result of a least-squares solver on the tokens themselves, by orthogonal
    factors and without Z.

    Control: Σ W δ_i a_iᵀ / ‖a_i‖² times width/tokens: the formula with Z replaced by a multiple of the identity.

    Settings: softmax attention 16 wide, an instruction of 8 tokens, 20 completions of 12 tokens (full: 200); float64.
    """
    W, a, delta = tokens(trial, trial.size(20, 200))
    wanted = torch.linalg.lstsq(a, delta @ W.mT).solution.mT
    wrong = mean_of_patches(W, a, delta) * WIDTH
    return Measurement({"error": (_off(thought_matrix(W, a, delta), wanted), _off(wrong, wanted))})


@claim("mazzawi-one-token", MAZZAWI, "Theorem 3.1, for one token", exact=True, cost=(0.2, 1))
def one_token(trial: Trial) -> Measurement:
    """With one token the least-squares patch of smallest norm is the exact patch of that token, W δ aᵀ/‖a‖².

    Measured: the largest difference of the two matrices, for each token.

    Control: the least-squares patch of two tokens against the exact patch of the first.

    Settings: softmax attention 16 wide, an instruction of 8 tokens, 5 completions of 12 tokens (full: 50), each token
    by itself; float64.
    """
    W, a, delta = tokens(trial, trial.size(5, 50))
    exact = implicit_update(W, a, delta).dense()
    pairs = [torch.stack([x, x.roll(1, 0)], 1) for x in (a, delta)]
    one = static_update(W, a.unsqueeze(1), delta.unsqueeze(1)).update.dense()
    two = static_update(W, *pairs).update.dense()
    return Measurement({"error": ((one - exact).abs().amax((1, 2)), (two - exact).abs().amax((1, 2)))})


@claim("mazzawi-optimal", MAZZAWI, "Theorem 3.1", exact=True, cost=(0.2, 5), repeats="mazzawi-closed-form")
def optimal(trial: Trial) -> Measurement:
    """No other matrix fits all tokens better than the thought matrix: not the mean of the tokens' exact patches, not
    the matrix 0, and none near it.

    Measured: the loss Σ ‖M a_i − W δ_i‖² of the best of these alternatives minus that of the thought matrix, relative
    to the loss of 0.

    Control: the mean of the exact patches in place of the thought matrix, which is then among the alternatives.

    Settings: softmax attention 16 wide, an instruction of 8 tokens, 20 completions of 12 tokens (full: 200); 20
    random neighbours at a thousandth of its norm (full: 200); float64.
    """
    W, a, delta = tokens(trial, trial.size(20, 200))
    best, mean = thought_matrix(W, a, delta), mean_of_patches(W, a, delta)
    random = trial.generator()
    steps = torch.randn(trial.size(20, 200), *best.shape, generator=random, dtype=torch.float64)
    steps *= 1e-3 * best.norm() / steps.norm(dim=(1, 2), keepdim=True)
    target = delta @ W.mT

    def loss(M: Tensor) -> Tensor:
        return (a @ M.mT - target).square().sum((-2, -1))

    none = loss(torch.zeros_like(best))

    def excess(chosen: Tensor, other: Tensor) -> float:
        rivals = torch.stack([*loss(chosen + steps), none, loss(other)])
        return float((rivals.min() - loss(chosen)) / none)

    return Measurement({"excess": (excess(best, mean), excess(mean, best))})


COUNTS = (64, 256, 1024, 4096, 16384)


@claim("mazzawi-spherical", MAZZAWI, "Equation 24, spherical approximation", cost=(0.7, 6))
def spherical(trial: Trial) -> Measurement:
    """For tokens uniformly distributed on a sphere the thought matrix is a multiple of the sum of the tokens' exact
    patches.

    Measured: the relative distance of width/tokens times that sum from the thought matrix, for 16,384 tokens.

    Control: tokens with standard deviations of coordinates from 0.1 to 1, projected to the same sphere.

    Settings: 16 wide; δ a random smooth function of a, with noise of a tenth; 4 draws (full: 16); float64.
    """
    random = trial.generator()

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    stretch = torch.linspace(0.1, 1, WIDTH, dtype=torch.float64)
    result = torch.zeros(2, trial.size(4, 16), len(COUNTS), dtype=torch.float64)
    for draw in range(result.shape[1]):
        W, inner, outer = normal(4 * WIDTH, WIDTH), normal(WIDTH, 4 * WIDTH), normal(4 * WIDTH, WIDTH) / 8
        for k, count in enumerate(COUNTS):
            for i, deviations in enumerate((torch.ones_like(stretch), stretch)):
                a = normal(count, WIDTH) * deviations
                a = a * WIDTH**0.5 / a.norm(dim=-1, keepdim=True)
                delta = (a @ inner / 4).tanh() @ outer
                delta = delta + 0.1 * delta.std() * normal(count, WIDTH)
                fast = W @ (delta.mT @ a) / count  # ‖a‖² is the width, which cancels
                result[i, draw, k] = _off(fast, thought_matrix(W, a, delta))
    return Measurement(
        {"error": (result[0, :, -1], result[1, :, -1])},
        Plot(
            "Exact patches added up, against the thought matrix",
            "tokens",
            "relative distance",
            COUNTS,
            {"even on the sphere": result[0].mean(0).tolist(), "uneven": result[1].mean(0).tolist()},
            log="xy",
        ),
    )


# Last, so that the ledger has the claims of this file first.
