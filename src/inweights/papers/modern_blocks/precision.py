"""*Equivalence of context and parameter updates in modern transformer blocks* (arXiv 2511.17864): many layers, and the
effect of rounding. On SmolLM2, a trial is one of the paper's five prompts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from inweights.ledger import Measurement, NotHereError, Plot, Trial, claim
from inweights.models import Model, Prompt, patch, tiny, verify
from inweights.papers._papers import GOLDWASER
from inweights.papers.modern_blocks._patched import PROMPTS, disturbed_errors, last_token, random_ids, replayed
from inweights.theory import exchanged

NOISE = 2.0**-9
"""The size of bfloat16 rounding, which has a spacing of at most 2^-8 relative to a number."""
TOKENS = 20
"""The number of tokens of a continuation, as in the paper."""
ENOUGH = 66
"""The same, sufficient to distinguish the paper's 98% from 95% by a 95% interval with a power of 0.8 for independent
tokens: n is (1.96 √(0.95 · 0.05) + 0.84 √(0.98 · 0.02))² / 0.03² = 330, in five prompts."""
PAPER = {"naive": (0.875, 0.875), "stable": (0.98, 1.0)}
"""The shares of equal tokens that successive versions of the paper report for Gemma 3 in bfloat16."""


@claim("goldwaser-many-layers", GOLDWASER, "Theorem 2, Algorithm 1, Section 4", cost=(21, 270), needs=("smollm2",))
def many_layers(trial: Trial) -> Measurement:
    """Patched block by block, each on the output of the patched blocks before it, a model of many layers gives for a
    single token the output after the whole context, and so generates the same text.

    Measured: largest logit errors of all tokens of a greedy continuation, and the share of them on which patched and
    prompted model agree about the next token; with new patches for every token, each block solved on the actual output
    of the patched blocks before it, and the model given that token alone. The finished patch is applied to the model
    for the first token only, and must give the logits of the run that solved it, to 1e-5 of the largest logit. The
    others are taken from the run that solves their patches, block by block, each with its changed parameters.

    Control: the model without changes on the same tokens.

    Settings: SmolLM2 (135 M parameters, 30 layers), float32; the five prompts of the paper, one for each trial; 4
    tokens each (full: 20). Also measured: the same in bfloat16, on 4 tokens each (full: 66), without a criterion: the
    paper's numbers in bfloat16 are for blocks with norms on the branch (goldwaser-low-precision).
    """
    text = PROMPTS[trial.seed % len(PROMPTS)]
    exact = replayed(trial.language_model("float32"), text, trial.size(4, TOKENS))
    rounded = replayed(trial.language_model("bfloat16"), text, trial.size(4, ENOUGH))
    return Measurement(
        {
            "error": (exact.error, exact.bare_error),
            "tokens": (float(exact.match.mean()), float(exact.bare_match.mean())),
        },
        reported={
            "paper: share of equal tokens, Gemma 3, float32": 1.0,
            "share of equal tokens, bfloat16": float(rounded.match.mean()),
            "mean logit error, bfloat16": float(rounded.error.mean()),
        },
    )


@claim("goldwaser-self-correcting", GOLDWASER, "Theorem 2, Algorithm 1", cost=(11, 45), needs=("smollm2",))
def self_correcting(trial: Trial) -> Measurement:
    """The algorithm is self-correcting: a patch computed on the actual output of the blocks before it compensates
    errors that patches computed on ideal streams propagate.

    Measured: the relative error of the logits if the output of every block is perturbed by one draw, with patches
    solved on streams perturbed by another draw, divided by that with patches solved on unperturbed streams.

    Control: no correction: with patches solved on unperturbed streams, the error under the other draw divided by that
    under the first draw.

    Settings: SmolLM2, float32; every coordinate of a block's output has a random relative error of 2^-9, the size of
    bfloat16 rounding; the last token of one of the paper's prompts for each trial, 2 draws (full: 8), each tested with
    the patch of the next one. Also measured: the ratio for a patch tested on the draw that it was solved on, as
    rounding is repeatable, and the ratio expected if the errors of both draws are independent and add up.
    """
    model = trial.language_model("float32")
    prompt = last_token(model, torch.tensor(model.tokenizer(PROMPTS[trial.seed % len(PROMPTS)])["input_ids"]))
    errors = disturbed_errors(prompt, NOISE, [1 + i + 100 * trial.seed for i in range(trial.size(2, 8))])
    own, ideal, foreign = (each[:, -1] for each in (errors.own, errors.ideal, errors.foreign))
    other = ideal.roll(-1)
    layers = len(model.anatomy.blocks)
    lines = {
        "solved on the same draw": errors.own,
        "solved on undisturbed streams": errors.ideal,
        "solved on another draw": errors.foreign,
    }
    return Measurement(
        {"ratio": (foreign / ideal, other / ideal)},
        Plot(
            "Errors from block to block",
            "block",
            "relative error of the stream",
            range(1, layers + 1),
            {name: e[:, :layers].mean(0).tolist() for name, e in lines.items()},
            log="y",
        ),
        reported={
            "ratio on the same draw": float((own / ideal).mean()),
            "ratio if both errors add up": float((torch.hypot(ideal, other) / ideal).mean()),
        },
    )


@claim("goldwaser-low-precision", GOLDWASER, "Section 4, Appendix B", cost=(36, 600), needs=("smollm2",))
def low_precision(trial: Trial) -> Measurement:
    """In bfloat16 naive patches change some of the generated tokens, and stable patches keep almost all of them.

    Measured: of a greedy continuation, token by token, whether patched and prompted model agree about the next one,
    with new patches for every token and the model given that token alone; after a mismatch the comparison continues
    with the prompted history. Both kinds of patches solve every block on the actual output of the patched blocks before
    it; they differ in how they invert the norm on the branch. `naive`: all of it in the scale of the norm; `stable`:
    the last matrix rotates the branch first.

    Control: `naive`: in float32, where rounding has no effect; `stable`: the model without changes on the same tokens.

    Settings: a trained language model in bfloat16; the five prompts of the paper, one for each trial; 4 tokens each
    (full: 66, which distinguishes 98% from 95%; the paper has 20).

    Precondition: the model's blocks have norms on the branch, as those of the paper's models, Gemma 3 (1B and 4B). In
    others, such as SmolLM2's, there is nothing to invert, and both kinds of patches are the same.
    """
    model, exact = (trial.language_model(dtype) for dtype in ("bfloat16", "float32"))
    blocks = model.anatomy.blocks
    if not any(b.tail == "branch-norm" for b in blocks):
        shares = "; ".join(f"{name} {' to '.join(f'{n:g}' for n in dict.fromkeys(s))}" for name, s in PAPER.items())
        raise NotHereError(
            f"it needs a trained model with norms on the branch, as Gemma 3 has them, and none is here: of the "
            f"{len(blocks)} blocks of SmolLM2 none has one, so that naive and stable patches are the same patches "
            f"there; the paper reports for Gemma 3: {shares}"
        )
    text, tokens = PROMPTS[trial.seed % len(PROMPTS)], trial.size(4, ENOUGH)
    naive, stable = (replayed(model, text, tokens, inversion) for inversion in ("naive", "stable"))
    return Measurement(
        {
            "naive": (naive.match, replayed(exact, text, tokens, "naive").match),
            "stable": (stable.match, stable.bare_match),
        },
        reported={
            **{f"paper: {name}, Gemma 3": shares[0] for name, shares in PAPER.items()},
            "mean logit error, naive": float(naive.error.mean()),
            "mean logit error, stable": float(stable.error.mean()),
        },
    )


def one_block(trial: Trial, family: str) -> Model:
    """A random model of a family with its first block only, in bfloat16."""
    net = tiny(family, trial.seed)
    body = net.get_submodule("model")
    body.layers = nn.ModuleList(list(body.get_submodule("layers").children())[:1])
    return Model(net.to(trial.device, torch.bfloat16))


def level(prompt: Prompt, seed: int) -> dict[str, Tensor]:
    """The last matrix of the block, changed so that with the context the normalised branch is 1 or −1 everywhere: no
    coordinate is small, and division by them is safe."""
    net: Any = prompt.model.model
    last = net.model.layers[0].mlp.down_proj
    seen: list[Tensor] = []
    handle = last.register_forward_pre_hook(lambda module, args: seen.append(args[0][0, -1].double()))
    with torch.no_grad():
        net(input_ids=prompt.ids)
    handle.remove()
    h, W = seen[0], last.weight.detach().double()
    u = W @ h
    signs = torch.randint(2, u.shape, generator=torch.Generator().manual_seed(seed)).to(u) * 2 - 1
    flat = u.square().mean().sqrt() * signs
    new = W + torch.outer(flat - u, h) / h.square().sum()
    return {"model.layers.0.mlp.down_proj.weight": new.to(last.weight.dtype)}


@claim("goldwaser-stable-inversion", GOLDWASER, "Appendix B", cost=(9, 30))
def stable_inversion(trial: Trial) -> Measurement:
    """In low precision, rotating the branch by the last matrix first, to where the old scale of the norm fits best,
    loses less to rounding than putting the whole change into the scale, which divides by small coordinates.

    Measured: the largest logit error of the stable patch, divided by that of the naive one, each as the mean over
    texts.

    Control: the same blocks with a last matrix, for each text, for which all coordinates of the normalised branch have
    the same size: the naive patch then loses nothing by dividing.

    Settings: one block of Gemma 2 and one of Gemma 3, so that errors of one block are not corrected by another; 32
    wide, every parameter random, bfloat16; texts of 20 random tokens, 20 for each model (full: 40).
    """
    uneven: list[float] = []
    even: list[float] = []
    for model in (one_block(trial, family) for family in ("gemma2", "gemma3_text")):
        prompts = [last_token(model, ids) for ids in random_ids(trial, trial.size(20, 40))]
        for result, changed in ((uneven, False), (even, True)):
            errors = torch.zeros(2)
            for i, prompt in enumerate(prompts):
                with exchanged(model.model, level(prompt, 1000 * trial.seed + i) if changed else {}):
                    made = (patch(prompt, inversion=inversion) for inversion in ("stable", "naive"))
                    errors += torch.tensor([verify(prompt, each).max_abs_logit_error for each in made])
            result.append(float(errors[0] / errors[1]))
    return Measurement({"ratio": (uneven, even)})
