"""*Learning without training* (arXiv 2507.16003): limits of the equality, and an extension beyond them, on SmolLM2."""

from __future__ import annotations

import dataclasses

from inweights.ledger import Measurement, Trial, claim
from inweights.models import Model, Patch, Prompt, generate, goals, patch, solve_patches, verify
from inweights.papers._papers import DHERIN
from inweights.running import full_precision

PROMPTS = [
    ("You are a pirate captain. Answer in rough pirate speech and call everybody matey. What is the", " weather like"),
    ("Wood floats, iron sinks, cork floats, gold sinks, straw floats, lead sinks,", " and a feather"),
    ("The children of the baker are called Ida, Otto and Paul. The oldest is Otto. The oldest child", " is called"),
    ("red: rouge, blue: bleu, green: vert, black: noir, white: blanc,", " yellow:"),
    ("This recipe is for people who never eat meat, and who like it very hot. First, cut", " the vegetables"),
]
"""A context and a query, one pair for each trial."""


def asked(trial: Trial) -> tuple[Model, str, str]:
    """SmolLM2, the context and the query of a trial."""
    return trial.language_model(), *PROMPTS[trial.seed % len(PROMPTS)]


@claim("dherin-limits", DHERIN, "Limits that the paper names", cost=(18, 30), needs=("smollm2",))
def limits(trial: Trial) -> Measurement:
    """The equality holds for a single block and the next generated token; in a model of many blocks the update of the
    first block alone does not replace the context.

    Measured: the largest error of a logit after the last token of the query: `first_token`, with the updates of every
    block; `one_block`, with those of the first block alone. (That it holds only for the last token is
    dherin-last-token; that the next token needs its own updates is goldwaser-token-specific.) Also measured: the same
    with updates of the last block alone, computed with all other blocks unchanged. These do replace the context, since
    no later block attends to it: unlike the first block, the last one alone is sufficient.

    Control: `first_token` without updates; `one_block` with the updates of every block.

    Settings: SmolLM2, 30 blocks, float32; a context and a query for each trial.
    """
    model, context, query = asked(trial)
    whole = Prompt(model, context, query).ids[0].tolist()
    prompt = Prompt(model, whole[:-1], whole[-1:])
    made = patch(prompt)
    every, first = (verify(prompt, each) for each in (made, only_first(made)))
    return Measurement(
        {
            "first_token": (every.max_abs_logit_error, every.bare_max_abs_logit_error),
            "one_block": (first.max_abs_logit_error, every.max_abs_logit_error),
        },
        reported={"error, the last block alone": verify(prompt, only_last(prompt)).max_abs_logit_error},
    )


def only_first(made: Patch) -> Patch:
    """The patch restricted to the changes of the first block."""
    return dataclasses.replace(made, blocks=made.blocks[:1])


def only_last(prompt: Prompt) -> Patch:
    """The patch of the last block alone, with all other blocks unchanged; for one query token."""
    model = prompt.model
    anatomy = dataclasses.replace(model.anatomy, blocks=model.anatomy.blocks[-1:])
    with full_precision(model.model):
        wanted, _ = goals(model.model, anatomy, prompt.ids, prompt.query_rows)
        own = prompt.reduced_ids, prompt.reduced_positions, prompt.reduced_rows
        blocks = solve_patches(model.model, anatomy, wanted, *own, "token")
    return Patch("token", tuple(blocks), prompt.asked, model.fingerprint)


@claim(
    "dherin-beyond", DHERIN, "Beyond the limits that the paper names", cost=(48, 120), needs=("smollm2",),
    repeats="goldwaser-many-layers",
)  # fmt: skip
def beyond(trial: Trial) -> Measurement:
    """Beyond the limits that the paper names: with updates in every block, recomputed for every token, a whole model
    generates without the context the same tokens as with it.

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
    return Measurement(
        {
            "error": (proof.max_abs_logit_error, proof.bare_max_abs_logit_error),
            "tokens": (new.matching, bare),
        }
    )
