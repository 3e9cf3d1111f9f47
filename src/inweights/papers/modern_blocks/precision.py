"""*Equivalence of context and parameter updates in modern transformer blocks* (arXiv 2511.17864): many layers, and what
rounding does. On SmolLM2, a trial is one of the paper's five prompts."""

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
"""As large as the rounding of bfloat16, whose numbers lie 2^-8 of their size apart at most."""
TOKENS = 20
"""Of a continuation, as in the paper."""
ENOUGH = 66
"""The same, to tell the paper's 98% from 95% by a 95% interval of a share with a power of 0.8, tokens independent: n is
(1.96 √(0.95 · 0.05) + 0.84 √(0.98 · 0.02))² / 0.03² = 330, in five prompts."""
PAPER = {"naive": (0.875, 0.875), "stable": (0.98, 1.0)}
"""The share of equal tokens that the paper reports of Gemma 3 in bfloat16, from one version of it to the next."""


@claim("goldwaser-many-layers", GOLDWASER, "Theorem 2, Algorithm 1, Section 4", cost=(35, 270), needs=("smollm2",))
def many_layers(trial: Trial) -> Measurement:
    """Patched block by block, each on what the patched blocks before it say, a model of many layers gives for a single
    token what it gives after the whole context, and so generates the same text.

    Measured: largest logit errors of all tokens of a greedy continuation, and the share of them on which patched and
    prompted model agree about the next token; patches anew for every token, each block solved on the actual output of
    the patched ones before it, the model given that token alone. The finished patch is put into the model for the first
    token only, and must give the logits of the run that solved it, to 1e-5 of the largest logit. The others are read
    from the run that solves their patches, block by block, each with its changed parameters.

    Control: the model without changes on the same tokens.

    Settings: SmolLM2 (135 M parameters, 30 layers), float32; the five prompts of the paper, one for each trial; 4
    tokens each (full: 20). The same in bfloat16 is told beside it, on 4 tokens each (full: 66), and nothing is asked of
    it: the paper's numbers in bfloat16 are of blocks with norms on the branch (goldwaser-low-precision).
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


@claim("goldwaser-self-correcting", GOLDWASER, "Theorem 2, Algorithm 1", cost=(19, 45), needs=("smollm2",))
def self_correcting(trial: Trial) -> Measurement:
    """The algorithm corrects itself: a patch that is computed on what the blocks before it really say makes up for
    errors that patches computed on ideal streams pass on.

    Measured: the relative error of the logits where the output of every block is disturbed by one draw, with patches
    that were solved on streams disturbed by another draw, divided by that with patches solved on undisturbed streams.

    Control: nothing is corrected: patches solved on undisturbed streams, the error under the other draw divided by that
    under the one draw.

    Settings: SmolLM2, float32; every coordinate of a block's output off by a random share of it of 2^-9, as large as
    the rounding of bfloat16; the last token of one of the paper's prompts for each trial, 2 draws (full: 8), each
    tested with the patch of the next one. Also measured: the ratio where a patch is tested on the very draw that it was
    solved on, as rounding repeats itself, and the one that follows if the errors of both draws add up, independent of
    each other.
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


@claim("goldwaser-low-precision", GOLDWASER, "Section 4, Appendix B", cost=(60, 600), needs=("smollm2",))
def low_precision(trial: Trial) -> Measurement:
    """In bfloat16 naive patches lose some of the generated tokens, and stable patches keep almost all of them.

    Measured: of a greedy continuation, token by token, whether patched and prompted model agree about the next one,
    patches anew for every token, the model given that token alone; after a mismatch the comparison goes on with the
    prompted history. Both kinds of patches solve every block on the actual output of the patched blocks before it; they
    differ in how they invert the norm on the branch. `naive`: all of it in the scale of the norm; `stable`: the last
    matrix turns the branch first.

    Control: `naive`: in float32, where rounding takes nothing; `stable`: the model without changes on the same tokens.

    Settings: a trained language model in bfloat16; the five prompts of the paper, one for each trial; 4 tokens each
    (full: 66, by which 98% can be told from 95%; the paper has 20).

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
    """A random model of a family with nothing but its first block, bfloat16."""
    net = tiny(family, trial.seed)
    body = net.get_submodule("model")
    body.layers = nn.ModuleList(list(body.get_submodule("layers").children())[:1])
    return Model(net.to(trial.device, torch.bfloat16))


def level(prompt: Prompt, seed: int) -> dict[str, Tensor]:
    """The last matrix of the block, changed so that with the context the normalised branch is 1 or −1 everywhere: no
    coordinate is small, and to divide by them is as safe as can be."""
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


@claim("goldwaser-stable-inversion", GOLDWASER, "Appendix B", cost=(15, 30))
def stable_inversion(trial: Trial) -> Measurement:
    """In low precision, to turn the branch by the last matrix first, to where the old scale of the norm serves best,
    loses less to rounding than to put all of what is missing into the scale, which divides by small coordinates.

    Measured: the largest logit error of the stable patch, divided by that of the naive one, each in the mean over
    texts.

    Control: the same blocks, but that the last matrix is such, for each text, that all coordinates of the normalised
    branch are of one size: there is nothing that the naive patch could lose by dividing.

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
