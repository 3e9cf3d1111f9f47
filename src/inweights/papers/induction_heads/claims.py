"""Olsson et al. 2022: induction heads in small models of attention alone, trained within a trial."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from inweights.lab.models import AttentionOnlyModel
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import OLSSON
from inweights.papers.induction_heads._forming import COPIES, able, formed, late_loss
from inweights.papers.induction_heads._scores import (
    best,
    copying,
    mostly_previous,
    prefix_matching,
    previous_token,
    stripe,
)
from inweights.running import hooked


@claim("olsson-two-layers", OLSSON, "Argument 1, Figure: one, two and three layers", cost=(57, 300))
def two_layers(trial: Trial) -> Measurement:
    """Induction heads form in models with two layers or more, and not in models with one.

    Measured: the largest prefix-matching score of a head after training: the attention of a token to the tokens that
    followed its earlier copies.

    Control: the same training with one layer.

    Rival: that two layers have more parameters: one layer, twice as wide, with twice the heads, which has more.

    Settings: attention alone, width 32, one head in each layer, positions added to keys and queries; sequences of 8
    to 20 of 256 random tokens, repeated up to 48 tokens; 600 steps (quick: 400) of 64 sequences, Muon at 0.01.
    Measured on 64 sequences of 12 different tokens, four times each (the paper: 25 tokens, four times). Also
    measured: the mean of one diagonal, which is the other common measure and sees only the copy one period earlier.

    Precondition: none: a model in which nothing formed would fail.
    """
    two, one, wide = (formed(trial, name) for name in ("induction-2", "induction-1", "induction-1-wide"))
    scores = [prefix_matching(each.model.patterns(each.tokens), each.tokens).max().item() for each in (two, one, wide)]
    lines = {"two layers": two.prefix, "one layer": one.prefix, "one wide layer": wide.prefix}
    return Measurement(
        {"prefix": (scores[0], scores[1])},
        plot=Plot("Best prefix-matching score of a head", "step", "score", two.steps, lines),
        rivals={"prefix": scores[2]},
        reported={
            "stripe of one diagonal": stripe(two.model.patterns(two.tokens), two.tokens.shape[1] // COPIES)
            .max()
            .item(),
            "loss on the last copy, two layers": two.late[-1],
            "loss on the last copy, one layer": one.late[-1],
        },
    )


@claim("olsson-previous-token", OLSSON, "Mechanism: the first head of the pair", cost=(40, 200))
def previous(trial: Trial) -> Measurement:
    """The first of the two heads attends to the previous token.

    Measured: the share of tokens whose largest attention is to the token before, of the head of the first layer of two
    that attends to it most.

    Control: the same for the only layer of a model with one, where no later head reads what a first one has copied.

    Settings: those of olsson-two-layers. Also measured: the mean attention to the token before.

    Precondition: an induction head has formed: a prefix-matching score of at least 0.3.
    """
    two, one = formed(trial, "induction-2"), formed(trial, "induction-1")
    able(trial, two)
    patterns = [each.model.patterns(each.tokens)[:, :1] for each in (two, one)]
    shares = [mostly_previous(p)[best(previous_token(p))].item() for p in patterns]
    means = [previous_token(p).max().item() for p in patterns]
    return Measurement(
        {"previous": (shares[0], shares[1])},
        reported={"mean attention, two layers": means[0], "mean attention, one layer": means[1]},
    )


@claim("olsson-k-composition", OLSSON, "Mechanism: K-composition", cost=(20, 120))
def composition(trial: Trial) -> Measurement:
    """An induction head finds its tokens by composition of its keys with the head that attends to the previous token.

    Measured: the share of the prefix-matching score of the best head of the second layer that is lost if its keys are
    read from the residual stream without the output of the head of the first layer that attends most to the token
    before. Queries read the whole stream.

    Control: the same output is missing from what the queries read, and not from the keys.

    Settings: those of olsson-two-layers.

    Precondition: an induction head has formed: a prefix-matching score of at least 0.3.
    """
    two = formed(trial, "induction-2")
    able(trial, two)
    patterns = two.model.patterns(two.tokens)
    first, second = best(previous_token(patterns[:, :1]))[1], best(prefix_matching(patterns, two.tokens))
    whole, at = entering(two.model, two.tokens, second[0])
    attention = two.model.attention(second[0])

    def lost(queried: Tensor, keyed: Tensor) -> float:
        with torch.no_grad():
            composed = attention.composed(queried, keyed, at).unsqueeze(1)
        score = prefix_matching(composed, two.tokens)[0, second[1]]
        return 1 - (score / prefix_matching(patterns, two.tokens)[second]).item()

    with two.model.ablated((0, first)):
        without, _ = entering(two.model, two.tokens, second[0])
    return Measurement({"lost": (lost(whole, without), lost(without, whole))})


@claim("olsson-copying", OLSSON, "Definition: copying; Model analysis table", cost=(20, 120))
def copies(trial: Trial) -> Measurement:
    """Induction heads copy: they raise the logits of the tokens that they attend to.

    Measured: of what the best prefix-matching head raises when it reads one token of 12 different ones alone, over the
    mean of the 12, the share that is that token.

    Control: the same with the rows of the read-out of the 12 in another order, so that nothing can be a copy.

    Rival: that every head of a model that is trained to copy does so: the most copying head of the first layer.

    Settings: those of olsson-two-layers; the tokens are read after the layers below the head, in sequences of which no
    token repeats, each alone, where the paper takes what the head attends to. The paper maps shares onto −1 to 1; 0.5
    is its 0.

    Precondition: an induction head has formed: a prefix-matching score of at least 0.3.
    """
    two = formed(trial, "induction-2")
    able(trial, two)
    layer, head = best(prefix_matching(two.model.patterns(two.tokens), two.tokens))
    once = two.tokens[:, : two.tokens.shape[1] // COPIES]
    others = once.roll(1, 1)
    own, wrong = (copy_scores(two.model, once, read)[layer, head].item() for read in (once, others))
    first = copy_scores(two.model, once, once)[0].max().item()
    return Measurement({"copied": (own, wrong)}, rivals={"copied": first}, reported={"paper's scale": 2 * own - 1})


@claim("olsson-smeared-keys", OLSSON, "Argument 2: an architecture with smeared keys", cost=(40, 160))
def smeared_keys(trial: Trial) -> Measurement:
    """If each key is mixed with the key of the token before it, induction heads form in one layer as well.

    Measured: the largest prefix-matching score of a head of one layer whose keys are mixed in a learned ratio.

    Control: one layer without it.

    Settings: those of olsson-two-layers. Also measured: the loss on the last copy, and the learned shares of the tokens
    before.

    Precondition: none: a model in which nothing formed would fail.
    """
    smeared, one = formed(trial, "induction-smeared"), formed(trial, "induction-1")
    scores = [prefix_matching(each.model.patterns(each.tokens), each.tokens).max().item() for each in (smeared, one)]
    own = smeared.model.attention(0).smear
    assert own is not None
    return Measurement(
        {"prefix": (scores[0], scores[1])},
        reported={
            "loss on the last copy": smeared.late[-1],
            "loss on the last copy, one layer": one.late[-1],
            "largest share of the token before": (1 - own.detach().sigmoid()).max().item(),
        },
    )


@claim("olsson-ablation", OLSSON, "Argument 3: pattern-preserving ablations", cost=(20, 120))
def ablation(trial: Trial) -> Measurement:
    """If induction heads are knocked out, while all heads attend as before, most of in-context learning is lost; other
    heads can be knocked out at little cost.

    Measured: the share of the gain by the context, on the last copy, that is lost without the heads whose
    prefix-matching score is more than half of the best.

    Control: as many other heads, drawn at random.

    Settings: those of olsson-two-layers; attention weights are those of the whole model. The gain is the loss without
    any context, log 256, less that on the last copy. Also measured: the same where heads attend by what is left, and
    the share lost without the head that attends to the token before.

    Precondition: an induction head has formed: a prefix-matching score of at least 0.3.
    """
    two = formed(trial, "induction-2")
    able(trial, two)
    patterns = two.model.patterns(two.tokens)
    scores = prefix_matching(patterns, two.tokens)
    heads = [divmod(i, two.model.heads) for i in range(scores.numel())]
    chosen = [h for h in heads if scores[h] > scores.max() / 2]
    rest = [h for h in heads if h not in chosen]
    drawn = [rest[i] for i in torch.randperm(len(rest), generator=trial.generator()).tolist()[: len(chosen)]]

    def lost(off: list[tuple[int, int]], fixed: Tensor | None = patterns) -> float:
        with two.model.ablated(*off):
            return (late_loss(two.model, two.tokens, fixed) - two.late[-1]) / two.gain

    first = (0, best(previous_token(patterns[:, :1]))[1])
    return Measurement(
        {"lost": (lost(chosen), lost(drawn))},
        reported={
            "lost, attending by what is left": lost(chosen, None),
            "lost without the head of the token before": lost([first], None),
            "heads knocked out": len(chosen),
        },
    )


def entering(model: AttentionOnlyModel, tokens: Tensor, layer: int) -> tuple[Tensor, Tensor | None]:
    """The residual stream that a layer reads, `(batch, n, width)`, and what is added to it for keys and queries."""
    read: list[tuple[Tensor, Tensor | None]] = []

    def note(_: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        h, at = args[:2]
        assert isinstance(h, Tensor)
        assert at is None or isinstance(at, Tensor)
        read.append((h, at))

    with torch.no_grad(), hooked(before=[(model.layers[layer], note)]):
        model.run(tokens)
    return read[0]


@torch.no_grad()
def copy_scores(model: AttentionOnlyModel, tokens: Tensor, read: Tensor) -> Tensor:
    """The copying score of each head, `(layers, heads)`, on rows of different tokens `(batch, n)`; `read` are the
    tokens whose logits count as those of each place."""
    rows = model.read_out.weight[read]  # (batch, n, width)
    scores = []
    for layer in range(len(model.layers)):
        added = model.attention(layer).through(entering(model, tokens, layer)[0])
        scores.append(copying((added - added.mean(-1, keepdim=True)) * model.norm.weight @ rows.unsqueeze(1).mT))
    return torch.stack(scores)
