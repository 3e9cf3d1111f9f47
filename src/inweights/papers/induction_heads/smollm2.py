"""Olsson et al. 2022: induction heads of a language model, SmolLM2, on repeated random tokens and on tasks."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights._errors import InputError
from inweights.compare import in_context, shots, zero_shot
from inweights.ledger import Measurement, NotHereError, Trial, claim
from inweights.models import Model
from inweights.papers._demonstrated import LEAST
from inweights.papers._heads import Head, others, patterns, through, top, without
from inweights.papers._papers import OLSSON
from inweights.papers.induction_heads._scores import copying, prefix_matching, previous_token, repeated, stripe
from inweights.running import vocabulary

LENGTH, COPIES, HEADS = 25, 4, 13
"""The paper's tokens and copies; 13 of SmolLM2's 270 heads are 5%."""
COMMON, RARE = 1000, 20000
"""Tokens are drawn from the entries of the vocabulary between these: neither the most common nor the rarest."""
TASKS = ("past-tense", "plurals")


class Measured(NamedTuple):
    """SmolLM2, its scores on some sequences, by which heads are chosen, and other sequences to measure on."""

    model: Model
    prefix: Tensor
    previous: Tensor
    tokens: Tensor


@cache
def measured(trial: Trial) -> Measured:
    """Scores of all heads, `(layers, heads)`, and repeated tokens that they were not measured on."""
    model, generator = trial.language_model("float32"), trial.generator()
    choosing, tokens = (sequences(model, COPIES, trial.size(2, 8), generator) for _ in range(2))
    seen = patterns(model, choosing)
    return Measured(model, scored(seen, choosing), previous_token(seen[..., 1:, 1:]), tokens)


def sequences(model: Model, copies: int, rows: int, generator: torch.Generator) -> Tensor:
    """Repeated random tokens after a token that begins a text, which attention uses as a sink."""
    begins = int(cast(Any, model.tokenizer).bos_token_id or 0)
    size = vocabulary(model.model)
    choices = torch.arange(min(COMMON, size // 4), min(RARE, size))
    tokens = repeated(choices, LENGTH, copies, rows, generator)
    return torch.cat([torch.full((rows, 1), begins), tokens], 1).to(model.device)


def scored(seen: Tensor, tokens: Tensor) -> Tensor:
    """Olsson's prefix-matching scores, `(layers, heads)`; the first token is no part of the sequence."""
    return prefix_matching(seen[..., 1:, 1:], tokens[:, 1:])


@torch.no_grad()
def copied(model: Model, tokens: Tensor) -> float:
    """The nats by which the loss on the last copy is lower than on the first, but its first five tokens."""
    logits = cast(Any, model.model)(input_ids=tokens, use_cache=False).logits[:, :-1]
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none").view(len(tokens), -1)
    return (loss[:, 5:LENGTH].mean() - loss[:, -LENGTH:].mean()).item()


@claim("olsson-smollm2-heads", OLSSON, "Argument 5: prefix matching in larger models", cost=(9, 60), needs=("smollm2",))
def heads(trial: Trial) -> Measurement:
    """Large language models have induction heads: heads that, on repeated random tokens, attend to the tokens that
    followed earlier copies.

    Measured: the prefix-matching score of the best head, chosen on other sequences.

    Control: the score at the same places where nothing is repeated, so that a head that attends at a fixed distance
    would have it too.

    Settings: SmolLM2-135M, float32; 25 different random tokens, four times, after a token that begins a text; 2
    sequences to choose on and 2 to measure on (full: 8 and 8). Also measured: the mean of one diagonal, the other
    common measure, which sees only the copy one period earlier, and how many of 270 heads have a score of 0.3.

    Precondition: none: a model without such heads would fail.
    """
    model, prefix, _, tokens = measured(trial)
    (head,) = top(prefix, 1)
    once = sequences(model, 1, len(tokens) * COPIES, trial.generator())[:, 1:].reshape(len(tokens), -1)
    seen, plain = patterns(model, tokens), patterns(model, torch.cat([tokens[:, :1], once], 1))
    return Measurement(
        {"prefix": (scored(seen, tokens)[head].item(), scored(plain, tokens)[head].item())},
        reported={
            "stripe of one diagonal": stripe(seen[..., 1:, 1:], LENGTH)[head].item(),
            "heads with 0.3": float((prefix > 0.3).sum()),
            "layer of the best": float(head[0]),
        },
    )


@claim("olsson-smollm2-copying", OLSSON, "Definition: copying; larger models", cost=(3.2, 60), needs=("smollm2",))
def copies(trial: Trial) -> Measurement:
    """In a language model, heads that match prefixes also copy.

    Measured: of what each of the 13 best prefix-matching heads raises when it reads one token of 25 alone, over the
    mean of the 25, the share that is that token; the mean of the heads.

    Control: as many other heads of the same layers.

    Settings: those of olsson-smollm2-heads; tokens are read in sequences of which none repeats. A head that has nothing
    to do with tokens has 0.04; 0.5 is the 0 of the paper's scale of −1 to 1.

    Precondition: a head has a prefix-matching score of at least 0.3.
    """
    model, prefix, _, tokens = measured(trial)
    formed(trial, prefix)
    chosen = top(prefix, HEADS)
    scores = copy_scores(model, tokens[:, : LENGTH + 1])

    def mean(heads: list[Head]) -> float:
        return sum(scores[h].item() for h in heads) / len(heads)

    drawn = others(model, chosen, trial.generator())
    return Measurement({"copied": (mean(chosen), mean(drawn))}, reported={"best of all heads": scores.max().item()})


@torch.no_grad()
def copy_scores(model: Model, tokens: Tensor) -> Tensor:
    """The copying score of each head, `(layers, heads)`, on rows of different tokens after one that begins a text."""
    net = cast(Any, model.model)
    rows = net.get_output_embeddings().weight[tokens[:, 1:]] * net.model.norm.weight  # (batch, n, width)
    added = through(model, tokens)[..., 1:, :]
    return torch.stack([copying(added[:, layer] @ rows.unsqueeze(1).mT) for layer in range(added.shape[1])])


@claim("olsson-smollm2-ablation", OLSSON, "Argument 3: ablations", cost=(8, 90), needs=("smollm2",))
def ablation(trial: Trial) -> Measurement:
    """If the induction heads of a language model are knocked out, it no longer predicts repeated tokens; other heads
    can be knocked out at little cost.

    Measured: the share of the gain by repetition that is lost without the 13 best prefix-matching heads. The gain is
    the loss on the first copy less that on the last.

    Control: as many other heads of the same layers, drawn at random; the mean of two draws (full: four).

    Settings: those of olsson-smollm2-heads. Heads add nothing, and the rest attends by what is left; the paper keeps
    where heads attend.

    Precondition: a head has a prefix-matching score of at least 0.3, and repetition gains at least one nat.
    """
    model, prefix, _, tokens = measured(trial)
    formed(trial, prefix)
    whole, generator = copied(model, tokens), trial.generator()
    trial.require(whole >= 1, f"repetition gains too little: {whole:.2f} nats")
    chosen = top(prefix, HEADS)

    def lost(off: list[Head]) -> float:
        with without(model, off):
            return 1 - copied(model, tokens) / whole

    drawn = [lost(others(model, chosen, generator)) for _ in range(trial.size(2, 4))]
    return Measurement({"lost": (lost(chosen), sum(drawn) / len(drawn))}, reported={"gain, nats": whole})


@claim(
    "olsson-smollm2-composition", OLSSON, "Mechanism: K-composition; larger models", cost=(10, 90), needs=("smollm2",)
)
def composition(trial: Trial) -> Measurement:
    """In a language model as well, induction heads need the heads that attend to the previous token.

    Measured: the share of the mean prefix-matching score of the 13 best heads that is lost without the 13 heads that
    attend most to the token before, of those in layers below the last of the former.

    Control: as many other heads of the same layers, drawn at random; the mean of four draws (full: eight).

    Settings: those of olsson-smollm2-heads. Also measured: the mean attention of the 13 to the token before.

    Precondition: a head has a prefix-matching score of at least 0.3.
    """
    model, prefix, previous, tokens = measured(trial)
    formed(trial, prefix)
    chosen, generator = top(prefix, HEADS), trial.generator()
    below = previous.clone()
    below[max(layer for layer, _ in chosen) :] = 0
    for head in chosen:
        below[head] = 0
    first = top(below, HEADS)

    def matched(off: list[Head]) -> float:
        with without(model, off) if off else nullcontext():
            scores = scored(patterns(model, tokens), tokens)
        return sum(scores[h].item() for h in chosen)

    whole = matched([])
    drawn = [1 - matched(others(model, first, generator, chosen)) / whole for _ in range(trial.size(4, 8))]
    return Measurement(
        {"lost": (1 - matched(first) / whole, sum(drawn) / len(drawn))},
        reported={"mean attention to the token before": sum(previous[h].item() for h in first) / HEADS},
    )


@claim(
    "olsson-smollm2-few-shot",
    OLSSON,
    "Argument 4: more than literal copying",
    cost=(9, 200),
    needs=("smollm2", *TASKS),
)
def few_shot(trial: Trial) -> Measurement:
    """The heads that copy repeated tokens also serve in-context learning of other kinds: without them, demonstrations
    of a task are worth much less.

    Measured: the share of the gain by demonstrations that is lost without the 13 best prefix-matching heads on repeated
    random tokens. The gain is that of the log-probability of the answer's first token, with the demonstrations and
    without; both are measured without the heads.

    Control: as many other heads of the same layers, drawn at random; the mean of two draws (full: four).

    Settings: those of olsson-smollm2-heads; past tense or plurals of words, 8 demonstrations, 8 queries (full: 24).

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    model, prefix, _, _ = measured(trial)
    formed(trial, prefix)
    try:
        shown = shots(model, TASKS[trial.seed % 2], 8, trial.size(8, 24), trial.seed)
    except InputError as error:  # the data set is not there
        raise NotHereError(str(error)) from error

    def predictions() -> tuple[Tensor, Tensor]:
        return in_context(model, shown, torch.arange(8).unsqueeze(0))[0], zero_shot(model, shown)

    accuracy = [float((logp.argmax(1) == shown.right).double().mean()) for logp in predictions()]
    trial.require(
        accuracy[0] - accuracy[1] >= LEAST, f"demonstrations gain too little: {accuracy[0] - accuracy[1]:.0%}"
    )

    def gain() -> float:
        icl, bare = (logp.gather(1, shown.right.unsqueeze(1)).mean().item() for logp in predictions())
        return icl - bare

    chosen, whole, generator = top(prefix, HEADS), gain(), trial.generator()

    def lost(off: list[Head]) -> float:
        with without(model, off):
            return 1 - gain() / whole

    drawn = [lost(others(model, chosen, generator)) for _ in range(trial.size(2, 4))]
    return Measurement({"lost": (lost(chosen), sum(drawn) / len(drawn))}, reported={"gain, nats": whole})


def formed(trial: Trial, prefix: Tensor) -> None:
    """Stops a trial if the model has no induction head."""
    best = prefix.max().item()
    trial.require(best >= 0.3, f"the model has no induction head: the best score is {best:.2f}")
