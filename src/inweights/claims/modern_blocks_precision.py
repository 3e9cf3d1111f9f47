"""*Equivalence of context and parameter updates in modern transformer blocks* (arXiv 2511.17864): many layers, and what
rounding does. On SmolLM2, a trial is one of the paper's five prompts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from inweights.claims._claim import Found, Plot, claim
from inweights.claims._papers import GOLDWASER
from inweights.claims._patched import PROMPTS, disturbed_errors, last_token, random_ids, replayed
from inweights.claims._trial import Trial
from inweights.models import Model, Prompt, patch, verify
from inweights.models._tiny import tiny
from inweights.theory import exchanged

NOISE = 2.0**-9
"""As large as the rounding of bfloat16, whose numbers lie 2^-8 of their size apart at most."""
TOKENS = 20
"""Of a continuation, as in the paper."""
ENOUGH = 66
"""The same, to tell the paper's 98% from 95% by a 95% interval of a share with a power of 0.8, tokens independent: n is
(1.96 √(0.95 · 0.05) + 0.84 √(0.98 · 0.02))² / 0.03² = 330, in five prompts."""


@claim("goldwaser-many-layers", GOLDWASER, "Theorem 2, Algorithm 1, Section 4", cost=(23, 60), needs=("smollm2",))
def many_layers(trial: Trial) -> Found:
    """Patched block by block, each on what the patched blocks before it say, a model of many layers gives for a single
    token what it gives after the whole context, and so generates the same text.

    Measured: largest logit errors of all tokens of a greedy continuation, and the share of them on which patched and
    prompted model agree about the next token; stable patches, anew for every token, the model given that token alone.
    The finished patch is put into the model for the first token only, and must say what the run that solved it said, to
    1e-5 of the largest logit. The others are read from the run that solves their patches, block by block, each with its
    changed parameters.

    Control: the model without changes on the same tokens.

    Settings: SmolLM2 (135 M parameters, 30 layers), float32; the five prompts of the paper, one for each trial; 4
    tokens each (full: 20).
    """
    model = trial.language_model("float32")
    found = replayed(model, PROMPTS[trial.seed % len(PROMPTS)], trial.size(4, TOKENS), stable=True)
    return Found(
        {
            "error": (found.error, found.bare_error),
            "tokens": (float(found.match.mean()), float(found.bare_match.mean())),
        },
        told={"paper: share of equal tokens, Gemma 3, float32": 1.0},
    )


@claim("goldwaser-self-correcting", GOLDWASER, "Theorem 2, Algorithm 1", cost=(19, 45), needs=("smollm2",))
def self_correcting(trial: Trial) -> Found:
    """The algorithm corrects itself: a patch that is computed on what the blocks before it really say makes up for
    errors that patches computed on ideal streams pass on.

    Measured: the relative error of the logits where what every block says is disturbed, patches being made on the
    disturbed streams, divided by that with patches made on undisturbed ones.

    Control: with patches that were made on streams with another disturbance of the same size: that of the next one.

    Settings: SmolLM2, float32; every coordinate of a block's output off by a random share of it of 2^-9, as by the
    rounding of bfloat16; the last token of one of the paper's prompts for each trial, 2 disturbances (full: 8).
    """
    model = trial.language_model("float32")
    prompt = last_token(model, torch.tensor(model.tokenizer(PROMPTS[trial.seed % len(PROMPTS)])["input_ids"]))
    found = disturbed_errors(prompt, NOISE, [1 + i + 100 * trial.seed for i in range(trial.size(2, 8))])
    mine, ideal, foreign = found.own, found.ideal, found.foreign
    layers = len(model.anatomy.blocks)
    lines = {"made on what the blocks say": mine, "made on undisturbed streams": ideal, "made on others": foreign}
    return Found(
        {"ratio": (mine[:, -1] / ideal[:, -1], foreign[:, -1] / ideal[:, -1])},
        Plot(
            "Errors from block to block",
            "block",
            "relative error of the stream",
            range(1, layers + 1),
            {name: e[:, :layers].mean(0).tolist() for name, e in lines.items()},
            log="y",
        ),
    )


@claim("goldwaser-low-precision", GOLDWASER, "Section 4, Appendix B", cost=(60, 330), needs=("smollm2",))
def low_precision(trial: Trial) -> Found:
    """In bfloat16 plain patches lose some of the generated tokens, and stable patches keep almost all of them.

    Measured: of a greedy continuation, token by token, whether patched and prompted model agree about the next one,
    patches anew for every token, the model given that token alone; after a mismatch the comparison goes on with the
    prompted history. `stable`: with stable patches; `gained`: their share less that with plain ones.

    Control: `stable`: the model without changes on the same tokens; `gained`: in float32, where rounding takes nothing.

    Settings: SmolLM2 in bfloat16; the five prompts of the paper, one for each trial; 4 tokens each (full: 20 for
    `gained`, as in the paper; 66 for `stable`, by which 98% can be told from 95%). The paper's models are Gemma 3 and
    have norms on the branch, which its stable inversion is about; the blocks of SmolLM2 have none, so that *stable*
    here is to follow rounding from block to block, and nothing else. The paper's shares are told beside ours, and not
    asked for.
    """
    text, tokens = PROMPTS[trial.seed % len(PROMPTS)], trial.size(4, TOKENS)
    model, exact = (trial.language_model(dtype) for dtype in ("bfloat16", "float32"))
    stable = replayed(model, text, trial.size(4, ENOUGH), stable=True)
    naive = replayed(model, text, trial.size(4, ENOUGH), stable=False, first=tokens)
    naive32, stable32 = (replayed(exact, text, tokens, stable=s) for s in (False, True))
    return Found(
        {
            "gained": (
                float((stable.match[:tokens] - naive.match).mean()),
                float((stable32.match - naive32.match).mean()),
            ),
            "stable": (stable.match, stable.bare_match),
        },
        told={
            "plain": float(naive.match.mean()),
            "paper: plain, Gemma 3": 0.875,
            "paper: stable, Gemma 3": 0.98,
            "mean logit error, plain": float(naive.error.mean()),
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
def stable_inversion(trial: Trial) -> Found:
    """In low precision, to turn the branch by the last matrix first, to where the old scale of the norm serves best,
    loses less to rounding than to put all of what is missing into the scale, which divides by small coordinates.

    Measured: the largest logit error of the stable patch, divided by that of the plain one, each in the mean over
    texts.

    Control: the same blocks, but that the last matrix is such, for each text, that all coordinates of the normalised
    branch are of one size: there is nothing that the plain patch could lose by dividing.

    Settings: one block of Gemma 2 and one of Gemma 3, so that errors of one block are not corrected by another; 32
    wide, every parameter random, bfloat16; texts of 20 random tokens, 20 for each model (full: 40).
    """
    uneven: list[float] = []
    even: list[float] = []
    for model in (one_block(trial, family) for family in ("gemma2", "gemma3_text")):
        prompts = [last_token(model, ids) for ids in random_ids(trial, trial.size(20, 40))]
        for found, changed in ((uneven, False), (even, True)):
            errors = torch.zeros(2)
            for i, prompt in enumerate(prompts):
                with exchanged(model.model, level(prompt, 1000 * trial.seed + i) if changed else {}):
                    made = (patch(prompt, stable=stable) for stable in (True, False))
                    errors += torch.tensor([verify(prompt, each).max_abs_logit_error for each in made])
            found.append(float(errors[0] / errors[1]))
    return Found({"ratio": (uneven, even)})
