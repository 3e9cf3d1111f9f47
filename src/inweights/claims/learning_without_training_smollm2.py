"""*Learning without training* (arXiv 2507.16003): where its equality ends, and what lies beyond, on SmolLM2."""

from __future__ import annotations

import dataclasses

import torch

from inweights.claims._claim import Found, claim
from inweights.claims._papers import DHERIN
from inweights.claims._trial import Trial
from inweights.models import Model, Patch, Prompt, generate, patch, verify
from inweights.theory import Update

PROMPTS = [
    ("You are a pirate captain. Answer in rough pirate speech and call everybody matey. What is the", " weather like"),
    ("Wood floats, iron sinks, cork floats, gold sinks, straw floats, lead sinks,", " and a feather"),
    ("The children of the baker are called Ida, Otto and Paul. The oldest is Otto. The oldest child", " is called"),
    ("red: rouge, blue: bleu, green: vert, black: noir, white: blanc,", " yellow:"),
    ("This recipe is for people who never eat meat, and who like it very hot. First, cut", " the vegetables"),
]
"""A context and what is asked after it, one for each trial."""


def asked(trial: Trial) -> tuple[Model, str, str]:
    """SmolLM2, the context and the query of a trial."""
    return trial.language_model(), *PROMPTS[trial.seed % len(PROMPTS)]


@claim("dherin-limits", DHERIN, "Section 5", cost=(60, 60), needs=("smollm2",))
def limits(trial: Trial) -> Found:
    """The equality is one for the last token of the prompt and the first token that is generated, and ends there.

    Measured: the largest error of a logit: `first_token`, with the updates of the query's last token, for the token
    after it; `another_token`, with the same updates, when that token has been generated and is read.

    Control: `first_token` without the updates; `another_token` with updates made for it.

    Settings: SmolLM2, all 30 blocks, greedy, float32; a context and a query for each trial.
    """
    model, context, query = asked(trial)
    whole = Prompt(model, context, query).ids[0].tolist()
    first = Prompt(model, whole[:-1], whole[-1:])
    proof = verify(first, patch(first))
    with torch.no_grad():
        said = int(model.model(input_ids=first.ids).logits[0, -1].argmax())
    second = Prompt(model, whole[:-1], [whole[-1], said])
    own = patch(second)
    stale, fresh = verify(second, first_updates(own)), verify(second, own)
    return Found(
        {
            "first_token": (proof.max_abs_logit_error, proof.bare_max_abs_logit_error),
            "another_token": (stale.max_abs_logit_error, fresh.max_abs_logit_error),
        }
    )


def first_updates(made: Patch) -> Patch:
    """Every token with the updates of the first one."""

    def stay(update: Update) -> Update:
        return Update(update.u[:1].expand_as(update.u), update.v[:1].expand_as(update.v), update.name)

    blocks = tuple(
        dataclasses.replace(
            b, read=None if b.read is None else stay(b.read), added={slot: stay(u) for slot, u in b.added.items()}
        )
        for b in made.blocks
    )
    return dataclasses.replace(made, blocks=blocks)


@claim("dherin-beyond", DHERIN, "Section 5, beyond it", cost=(80, 120), needs=("smollm2",))
def beyond(trial: Trial) -> Found:
    """Beyond the limits that the paper names: with updates in every block, made anew for every token, a whole model
    says without the context what it says with it, token for token.

    Measured: `error`, the largest error of a logit over all tokens of the query; `tokens`, the share of generated
    tokens that are the same.

    Control: the same without the updates.

    Settings: SmolLM2, all 30 blocks, greedy, 8 new tokens (full: 20), float32; a context and a query for each trial.
    """
    model, context, query = asked(trial)
    prompt = Prompt(model, context, query)
    proof = verify(prompt, patch(prompt))
    new = generate(prompt, trial.size(8, 20))
    bare = sum(a == b for a, b in zip(new.prompted, new.bare, strict=True)) / len(new.prompted)
    return Found(
        {
            "error": (proof.max_abs_logit_error, proof.bare_max_abs_logit_error),
            "tokens": (new.matching, bare),
        }
    )
