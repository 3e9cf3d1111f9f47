"""*Transmuting prompts into weights* (arXiv 2510.08734): thought matrices and vectors, and what they keep of a prompt.

The patches of a language model are in `_thoughts`, the tasks in `_words`."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from inweights.blocks import make_block
from inweights.claims._claim import Found, Plot, claim
from inweights.claims._papers import MAZZAWI
from inweights.claims._random_blocks import WIDTH
from inweights.claims._thoughts import PARTS, patched, randomised, recovered, share
from inweights.claims._trial import Trial
from inweights.claims._words import Task, arithmetic, by_examples
from inweights.fold import Frame
from inweights.fold._ridge import Ridge
from inweights.models import Model
from inweights.theory import implicit_update, static_update

INSTRUCTION, COMPLETION = 8, 12


def tokens(trial: Trial, completions: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first dense matrix `W (64, WIDTH)` of a random block, and what its attention says of the tokens of random
    completions alone, `a`, and what an instruction before them adds, `δ`: both `(tokens, WIDTH)`."""
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
    fit = Ridge(0.0)
    fit.add(a, delta, torch.ones(len(a)))
    return fit.update(W).dense()


def mean_of_patches(W: Tensor, a: Tensor, delta: Tensor) -> Tensor:
    """The mean of what serves each token alone, `W δ aᵀ/‖a‖²`."""
    return implicit_update(W, a, delta).dense().mean(0)


def _off(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


@claim("mazzawi-closed-form", MAZZAWI, "Theorem 3.1", exact=True, cost=(0.2, 1))
def closed_form(trial: Trial) -> Found:
    """The thought matrix (Σ W δ_i a_iᵀ) Z⁻¹, Z = Σ a_i a_iᵀ, is the least-squares patch of all tokens at once: the M
    that minimises Σ ‖M a_i − W δ_i‖².

    Measured: its relative distance from what a least-squares solver makes of the tokens themselves, by orthogonal
    factors and without Z.

    Control: Σ W δ_i a_iᵀ / ‖a_i‖² times width/tokens: the formula with Z taken for a multiple of the identity.

    Settings: softmax attention 16 wide, an instruction of 8 tokens, 20 completions of 12 tokens (full: 200); float64.
    """
    W, a, delta = tokens(trial, trial.size(20, 200))
    wanted = torch.linalg.lstsq(a, delta @ W.mT).solution.mT
    wrong = mean_of_patches(W, a, delta) * WIDTH
    return Found({"error": (_off(thought_matrix(W, a, delta), wanted), _off(wrong, wanted))})


@claim("mazzawi-one-token", MAZZAWI, "Theorem 3.1, for one token", exact=True, cost=(0.2, 1))
def one_token(trial: Trial) -> Found:
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
    return Found({"error": ((one - exact).abs().amax((1, 2)), (two - exact).abs().amax((1, 2)))})


@claim("mazzawi-optimal", MAZZAWI, "Theorem 3.1", exact=True, cost=(0.2, 5), repeats="mazzawi-closed-form")
def optimal(trial: Trial) -> Found:
    """No other matrix serves all tokens better than the thought matrix: not the mean of the tokens' exact patches, not
    the matrix 0, and none near it.

    Measured: the loss Σ ‖M a_i − W δ_i‖² of the best of these rivals less that of the thought matrix, as a share of
    the loss of 0.

    Control: the mean of the exact patches in the place of the thought matrix, which is among the rivals then.

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

    return Found({"excess": (excess(best, mean), excess(mean, best))})


COUNTS = (64, 256, 1024, 4096, 16384)


@claim("mazzawi-spherical", MAZZAWI, "Equation 24, spherical approximation", cost=(2, 6))
def spherical(trial: Trial) -> Found:
    """For tokens spread evenly over a sphere the thought matrix is a multiple of the sum of the tokens' exact patches.

    Measured: the relative distance of width/tokens times that sum from the thought matrix, for 16,384 tokens.

    Control: tokens whose coordinates have deviations from 0.1 to 1, brought to the same sphere.

    Settings: 16 wide; δ a random smooth function of a, with noise of a tenth; 4 draws (full: 16); float64.
    """
    random = trial.generator()

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    stretch = torch.linspace(0.1, 1, WIDTH, dtype=torch.float64)
    found = torch.zeros(2, trial.size(4, 16), len(COUNTS), dtype=torch.float64)
    for draw in range(found.shape[1]):
        W, inner, outer = normal(4 * WIDTH, WIDTH), normal(WIDTH, 4 * WIDTH), normal(4 * WIDTH, WIDTH) / 8
        for k, count in enumerate(COUNTS):
            for i, deviations in enumerate((torch.ones_like(stretch), stretch)):
                a = normal(count, WIDTH) * deviations
                a = a * WIDTH**0.5 / a.norm(dim=-1, keepdim=True)
                delta = (a @ inner / 4).tanh() @ outer
                delta = delta + 0.1 * delta.std() * normal(count, WIDTH)
                fast = W @ (delta.mT @ a) / count  # ‖a‖² is the width, which cancels
                found[i, draw, k] = _off(fast, thought_matrix(W, a, delta))
    return Found(
        {"error": (found[0, :, -1], found[1, :, -1])},
        Plot(
            "Exact patches added up, against the thought matrix",
            "tokens",
            "relative distance",
            COUNTS,
            {"even on the sphere": found[0].mean(0).tolist(), "uneven": found[1].mean(0).tolist()},
            log="xy",
        ),
    )


# --- on a language model ---------------------------------------------------------------------------------------------

WORDS = ("past tense", "capital letters")
LEAST = 0.2


def _columns(trial: Trial, model: Model, task: Task, other: Task) -> dict[str, float]:
    """Shares of right answers: prompted, bare, patched, and with the patch of another instruction."""
    frame = Frame.of(model, task.context, chat=False)
    found = {"prompted": share(frame, [*frame.before, *frame.folded], task), "bare": share(frame, frame.before, task)}
    gap = found["prompted"] - found["bare"]
    said = f"{found['prompted']:.0%} right with it, {found['bare']:.0%} without"
    trial.require(gap >= LEAST, f"SmolLM2 gains too little by the instruction to {task.name} ({said})")
    for name, source in (("patched", task), ("other", other)):
        with patched(model, source).applied(model):
            found[name] = share(frame, frame.before, task)
    return found


@cache
def _words(trial: Trial) -> tuple[Model, Task, Task, dict[str, float]]:
    """The model, the task of a trial, the other one, and the columns."""
    model = trial.language_model("float32")
    sizes = {"calibration": 16, "tests": trial.size(10, 50)}
    task, other = (by_examples(WORDS[(trial.seed + i) % 2], trial.seed, **sizes) for i in range(2))
    return model, task, other, _columns(trial, model, task, other)


def _told(columns: dict[str, float]) -> dict[str, float]:
    return columns | {"patched, of prompted": columns["patched"] / columns["prompted"]}


@claim("mazzawi-arithmetic", MAZZAWI, "Table 1, Appendix B.1", cost=(10, 10), needs=("smollm2",))
def arithmetic_task(trial: Trial) -> Found:
    """An instruction to multiply or to add numbers can be moved into the weights: the patched model does without it
    most of what the model does with it.

    Measured: the share of right answers to numbers that the patch was not made with, patched less bare, divided by
    prompted less bare.

    Control: the patch of the other instruction.

    Settings: SmolLM2, float32, plain text; "Multiply numbers." (even trials) or "Sum numbers." (odd ones), three
    numbers of one digit, 10 queries to make the patch with, 20 others, greedy. Thought matrices for the matrices that
    read the MLP's input; as there is no bias, the last matrix adds the rest; block by block.

    Precondition: with the instruction at least 0.2 more answers are right than without it.
    """
    names = ("multiply", "sum")
    sizes = {"calibration": 10, "tests": 20}
    task, other = (arithmetic(names[(trial.seed + i) % 2], trial.seed, **sizes) for i in range(2))
    columns = _columns(trial, trial.language_model("float32"), task, other)
    return Found(
        {"recovered": (recovered(columns), recovered(columns, "other"))},
        told=_told(columns) | {"paper: patched, Gemma 3": 1.0},
    )


@claim("mazzawi-words", MAZZAWI, "Abstract, Algorithm 1, Appendix A", cost=(105, 160), needs=("smollm2",))
def words(trial: Trial) -> Found:
    """A prompt that tells a task on words can be moved into the weights: the patched model does without it most of
    what the model does with it.

    Measured: the share of right answers to words that the patch was not made with, patched less bare, divided by
    prompted less bare.

    Control: the patch of the other task.

    Settings: SmolLM2, float32, plain text; past tense (even trials) or capital letters (odd ones), told by 8 examples;
    16 words to make the patch with, 10 others (full: 50), greedy. Thought matrices for the matrices that read the
    MLP's input; as there is no bias, the last matrix adds the rest; block by block.

    Precondition: with the examples at least 0.2 more answers are right than without them.
    """
    *_, columns = _words(trial)
    return Found({"recovered": (recovered(columns), recovered(columns, "other"))}, told=_told(columns))


@claim("mazzawi-both-parts", MAZZAWI, "Equation 8 and Theorem 3.1, Algorithm 1", cost=(240, 380), needs=("smollm2",))
def both_parts(trial: Trial) -> Found:
    """A patch needs both parts: thought matrices, and what stands for thought vectors.

    Measured: how much more of the prompt's gain both recover than what stands for the vector does alone, and than the
    matrices do alone.

    Control: the same where the part that is added says nothing of the prompt: random updates of the same ranks and
    norms in the place of the thought matrices, or of those of the last matrices.

    Settings: those of mazzawi-words. Alone, the last matrix adds what the stream after attention lacks (the vector's
    part), or is left as it is (the matrices' part). Told beside it: the mean vector itself, by an update of rank one.

    Precondition: with the examples at least 0.2 more answers are right than without them.
    """
    model, task, _, columns = _words(trial)
    frame = Frame.of(model, task.context, chat=False)
    made = {part: patched(model, task, part) for part in ("both", *PARTS)}
    last = set(made["vector"].updates)
    made["random matrices"] = randomised(made["both"], set(made["both"].updates) - last, trial.generator())
    made["random vector"] = randomised(made["both"], last, trial.generator())
    for name, fold in made.items():
        if name != "both":
            with fold.applied(model):
                columns = columns | {name: share(frame, frame.before, task)}

    def gained(name: str, alone: str) -> float:
        return recovered(columns, name) - recovered(columns, alone)

    return Found(
        {
            "gained_on_vector": (gained("patched", "vector"), gained("random matrices", "vector")),
            "gained_on_matrix": (gained("patched", "matrix"), gained("random vector", "matrix")),
        },
        told=_told(columns),
    )
