"""*Equivalence of context and parameter updates in modern transformer blocks* (arXiv 2511.17864): many layers, and what
rounding does. On SmolLM2, a trial is one of the paper's five prompts."""

from __future__ import annotations

import torch
from torch import nn

from inweights.claims._claim import Found, Plot, claim
from inweights.claims._papers import GOLDWASER
from inweights.claims._patched import PROMPTS, disturbed_errors, last_token, random_ids, replayed
from inweights.claims._trial import Trial
from inweights.models import Model, patch, verify
from inweights.models._tiny import tiny

NOISE = 2.0**-9
"""As large as the rounding of bfloat16, whose numbers lie 2^-8 of their size apart at most."""


@claim("goldwaser-many-layers", GOLDWASER, "Theorem 2, Algorithm 1", cost=(25, 130), needs=("smollm2",))
def many_layers(trial: Trial) -> Found:
    """Patched block by block, each on what the patched blocks before it say, a model of many layers gives for a single
    token what it gives after the whole context, and so generates the same text.

    Measured: largest logit errors of all tokens of a greedy continuation, and the share of them on which patched and
    prompted model agree about the next token; patches anew for every token, the model given that token alone.

    Control: the model without changes on the same tokens.

    Settings: SmolLM2 (135 M parameters, 30 layers), float32; the five prompts of the paper, one for each trial; 4
    tokens each (full: 20).
    """
    model = trial.language_model("float32")
    found = replayed(model, PROMPTS[trial.seed % len(PROMPTS)], trial.size(4, 20), stable=True)
    return Found(
        {
            "error": (found.error, found.bare_error),
            "tokens": (float(found.match.mean()), float(found.bare_match.mean())),
        },
        told={"paper: share of equal tokens, Gemma 3, float32": 1.0},
    )


@claim("goldwaser-self-correcting", GOLDWASER, "Algorithm 1", cost=(20, 75), needs=("smollm2",))
def self_correcting(trial: Trial) -> Found:
    """The algorithm corrects itself: a patch that is computed on what the blocks before it really say makes up for
    their errors, so that errors do not add up over the layers.

    Measured: the relative error of the logits where what every block says is disturbed, patches being made on the
    disturbed streams, divided by that with patches made on undisturbed ones.

    Control: patches that were made on streams with another disturbance of the same size.

    Settings: SmolLM2, float32; every coordinate of a block's output off by a random share of it of 2^-9, as by the
    rounding of bfloat16; the last token of one of the paper's prompts for each trial, 2 disturbances (full: 8).
    """
    model = trial.language_model("float32")
    prompt = last_token(model, torch.tensor(model.tokenizer(PROMPTS[trial.seed % len(PROMPTS)])["input_ids"]))
    seeds = [1 + 2 * i + 100 * trial.seed for i in range(trial.size(2, 8))]
    mine, ideal, foreign = (
        torch.stack([disturbed_errors(prompt, NOISE, seed, solved_with(seed)) for seed in seeds])
        for solved_with in (lambda seed: seed, lambda seed: None, lambda seed: seed + 1)
    )
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


@claim("goldwaser-low-precision", GOLDWASER, "Section 4, Appendix B", cost=(25, 130), needs=("smollm2",))
def low_precision(trial: Trial) -> Found:
    """In bfloat16 the plain patches keep 87.5% of the generated tokens, and the stable ones 98%.

    Measured: the share of tokens of a greedy continuation on which patched and prompted model agree, patches anew for
    every token, the model given that token alone; after a mismatch the comparison goes on with the prompted history.

    Control: the model without changes on the same tokens.

    Settings: SmolLM2 in bfloat16; the five prompts of the paper, one for each trial; 4 tokens each (full: 20). The
    paper's models are Gemma 3 and have norms on the branch, which its stable inversion is about; the blocks of SmolLM2
    have none, so that *stable* here is to follow rounding from block to block, and nothing else.
    """
    model = trial.language_model("bfloat16")
    text, tokens = PROMPTS[trial.seed % len(PROMPTS)], trial.size(4, 20)
    naive, stable = (replayed(model, text, tokens, stable=s) for s in (False, True))
    return Found(
        {"naive": (naive.match, None), "stable": (stable.match, stable.bare_match)},
        told={
            "paper: naive": 0.875,
            "paper: stable": 0.98,
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


@claim("goldwaser-stable-inversion", GOLDWASER, "Appendix B", cost=(5, 20))
def stable_inversion(trial: Trial) -> Found:
    """In low precision, to turn the branch by the last matrix first, to where the old scale of the norm serves best,
    loses less to rounding than to put all of what is missing into the scale.

    Measured: the largest logit error of the stable patch, divided by that of the plain one, each in the mean over
    texts.

    Control: the same on Llama blocks, which have no norm on the branch to be inverted.

    Settings: one block of Gemma 2 and one of Gemma 3 (control: Llama and Qwen 3), so that errors of one block are not
    corrected by another; 32 wide, every parameter random, bfloat16; texts of 20 random tokens, 8 for each model (full:
    40).
    """

    def ratios(*families: str) -> list[float]:
        found = []
        for model in (one_block(trial, family) for family in families):
            prompts = [last_token(model, ids) for ids in random_ids(trial, trial.size(8, 40))]
            stable, plain = (
                sum(verify(p, patch(p, stable=s)).max_abs_logit_error for p in prompts) for s in (True, False)
            )
            found.append(stable / plain)
        return found

    return Found({"ratio": (ratios("gemma2", "gemma3_text"), ratios("llama", "qwen3"))})
