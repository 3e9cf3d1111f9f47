"""*Learning without training* (arXiv 2507.16003): the theorem. Its dynamics and experiments are in separate files."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.blocks import LAYERS, SoftmaxAttention, absorb, make_block, without
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import DHERIN
from inweights.papers._random_blocks import TOKENS, WIDTH, block_and_prompts, each, parts
from inweights.papers._smallest_changes import run, smallest, trained
from inweights.theory import Changes, implicit_update, scalar_update


@claim("dherin-theorem", DHERIN, "Theorem 2.2", exact=True, cost=(1, 5))
def theorem(trial: Trial) -> Measurement:
    """The effect of any part Y of a context on a contextual block equals that of a change of its first dense matrix
    without Y: T_W(C, x) = T_{W+ΔW(Y)}(C∖Y, x), with ΔW(Y) = (W ΔA(Y)) A(C∖Y, x)ᵀ / ‖A(C∖Y, x)‖².

    Measured: for each prompt and random part, the largest difference of the two outputs.

    Control: a random update of rank 1 and equal norm in place of each ΔW(Y).

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 16 prompts, 22 parts (full: 110), float64.

    Precondition: A(C∖Y, x) is not 0; otherwise the library raises an error.
    """
    block, context, query = block_and_prompts(trial, 16)
    prompted = block(context, query)
    errors, controls = [], []
    for part in parts(trial, trial.size(22, 110)):
        changes, keep = absorb(block, context, query, part), without(context, part)
        errors.append(each(changes.run(block, context, query, keep=keep), prompted))
        controls.append(each(changes.random_like(trial.seed).run(block, context, query, keep=keep), prompted))
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})


@claim("dherin-corollary", DHERIN, "Corollary 2.3.1", exact=True, cost=(0.5, 1))
def corollary(trial: Trial) -> Measurement:
    """The whole context can be moved into the weights: T_W(C, x) = T_{W+ΔW(C)}(x).

    Measured: for each prompt the largest difference of the two outputs, the query alone being given to the block.

    Control: each query with the update of another context.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 100 prompts (full: 1,000), float64.

    Precondition: A(x) is not 0; otherwise the library raises an error.
    """
    block, context, query = block_and_prompts(trial, trial.size(100, 1000))
    prompted, nothing = block(context, query), context[:, :0]
    changes = absorb(block, context, query)
    foreign = absorb(block, context.roll(1, 0), query)
    errors, controls = (each(c.run(block, nothing, query), prompted) for c in (changes, foreign))
    return Measurement({"error": (errors, controls)})


@claim("dherin-residual", DHERIN, "Appendix A of version 1, Theorem B.2 of later ones", exact=True, cost=(1, 5))
def residual(trial: Trial) -> Measurement:
    """With skip connections, x + A + W' g(W A + b) + b', the same ΔW(Y) and Δb'(Y) = ΔA(Y) move Y into the weights.

    Measured: for each prompt and random part, the largest difference of the outputs with Y and with the changes.

    Control: ΔW(Y) alone, without Δb'(Y).

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 16 prompts, 22 parts (full: 110), float64.

    Precondition: A(C∖Y, x) is not 0; otherwise the library raises an error.
    """
    block, context, query = block_and_prompts(trial, 16, "residual")
    prompted = block(context, query)
    errors, controls = [], []
    for part in parts(trial, trial.size(22, 110)):
        changes, keep = absorb(block, context, query, part, output="bias"), without(context, part)
        errors.append(each(changes.run(block, context, query, keep=keep), prompted))
        controls.append(each(Changes(changes.updates).run(block, context, query, keep=keep), prompted))
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})


@claim("dherin-rank-one", DHERIN, "Theorem 2.2", exact=True, cost=(1, 5), repeats="dherin-theorem")
def rank_one(trial: Trial) -> Measurement:
    """A change of W of rank 1 is sufficient to replace Y.

    Measured: for each prompt and random part, the dense matrix D of least norm with D A(C∖Y, x) = W ΔA(Y), computed by
    LAPACK; its second singular value divided by its first.

    Control: the D of least norm that does so for two queries at once.

    Settings: softmax attention 16 wide, 64 hidden units; 12 tokens, 16 prompts, 22 parts (full: 110), float64.

    Precondition: with D and without Y the block has the same output as with Y, to 1e-10.
    """
    block, context, query = block_and_prompts(trial, 16)
    W = block.get_parameter(block.input_controls[0]).detach()
    prompted = block(context, query)
    both = torch.stack([query, query.roll(1, 0)], 1)  # (prompts, 2, width)
    contexts = context.unsqueeze(1)
    full = block.joint(contexts, both).read.detach()
    values: list[Tensor] = []
    controls: list[Tensor] = []
    for part in parts(trial, trial.size(22, 110)):
        keep = without(context, part)
        reads = block.joint(contexts, both, keep).read.detach()
        targets = (full - reads) @ W.mT
        one, two = (smallest(reads[:, :k], targets[:, :k]) for k in (1, 2))
        miss = float(each(run(block, one, context, query, keep), prompted).max())
        trial.require(miss < 1e-10, f"with D the block is off by {miss:.1e}")
        for result, D in ((values, one), (controls, two)):
            s = torch.linalg.svdvals(D)
            result.append(s[:, 1] / s[:, 0])
    return Measurement({"second": (torch.cat(values), torch.cat(controls))})


@claim(
    "dherin-minimum-norm", DHERIN, "Abstract of version 4; note 001 on Theorem 2.2", exact=True, cost=(2, 10),
    aside="changes with B A(x) = 0 are orthogonal to ΔW(C), so by Pythagoras nothing but PASS could come out",
)  # fmt: skip
def minimum_norm(trial: Trial) -> Measurement:
    """Of all changes D of W with the same output of the first layer, D A(x) = W ΔA, ΔW(C) has the smallest Frobenius
    norm.

    Measured: `excess`, how much larger the smallest of the others ΔW(C) + B is, B A(x) = 0, as a share of ‖ΔW(C)‖, for
    each prompt; `error`, for each prompt and B the largest difference of outputs between these and the prompt.

    Control: `excess` over another exact update of rank 1, with a random right factor, which is not the smallest;
    `error` with B as drawn, for which B A(x) is not 0, where B is at least as large as ΔW(C).

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 5 prompts (full: 20), for each 100 random B of full rank
    (full: 200) with norms of 1/1000 to 10 times that of ΔW(C), float64.
    """
    block, context, query = block_and_prompts(trial, trial.size(5, 20))
    count = trial.size(100, 200)
    prompted, nothing = block(context, query), context[:, :0]
    a, full = (block.joint(c, query).read.detach() for c in (nothing, context))
    update = absorb(block, context, query).updates[0].dense()
    W, random = block.get_parameter(block.input_controls[0]).detach(), trial.generator()
    carrier = torch.randn(a.shape, generator=random, dtype=a.dtype)
    other = implicit_update(W, a, full - a, carrier=carrier).dense()
    size, others_size = (frobenius(one) for one in (update, other))

    seeing = torch.randn(len(a), count, *W.shape, generator=random, dtype=a.dtype)
    seen = (seeing @ a[:, None, :, None]) / a.square().sum(-1)[:, None, None, None]
    blind = seeing - seen * a[:, None, None, :]
    shares = torch.logspace(-3, 1, count, dtype=a.dtype)
    sizes = (shares * size.unsqueeze(-1))[..., None, None]
    seeing, blind = (B * sizes / frobenius(B)[..., None, None] for B in (seeing, blind))
    least = frobenius(update.unsqueeze(1) + blind).amin(-1)

    def errors(B: Tensor) -> Tensor:
        k = B.shape[1]
        changed = (t.unsqueeze(1).expand(-1, k, *t.shape[1:]) for t in (nothing, query))
        return each(run(block, update.unsqueeze(1) + B, *changed), prompted.unsqueeze(1))

    by_outputs = trained(block, query, prompted.detach(), torch.zeros_like(update), trial.seed)
    return Measurement(
        {
            "excess": (least / size - 1, least / others_size - 1),
            "error": (errors(blind), errors(seeing[:, shares >= 1])),
        },
        reported={
            "a change trained for this block's outputs alone, over ‖ΔW(C)‖": float(
                (frobenius(by_outputs) / size).mean()
            )
        },
    )


def frobenius(matrices: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrices)


@claim(
    "dherin-family", DHERIN, "Note 002 on Theorem 2.2", exact=True, cost=(0.5, 1),
    aside="(W ΔA) vᵀ A(x) is W ΔA if vᵀA(x) = 1, so that by algebra nothing but PASS could come out",
)  # fmt: skip
def family(trial: Trial) -> Measurement:
    """Every (W ΔA) vᵀ with vᵀA(x) = 1 replaces the context too, for any such v.

    Measured: for each prompt, with a random v scaled to vᵀA(x) = 1, the largest difference of outputs from the prompt.

    Control: the same v, scaled to vᵀA(x) = −1, 0, ½ and 2, one after the other.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 100 prompts (full: 1,000), float64.
    """
    block, context, query = block_and_prompts(trial, trial.size(100, 1000))
    prompted, nothing, name = block(context, query), context[:, :0], block.input_controls[0]
    a, full = (block.joint(c, query).read.detach() for c in (nothing, context))
    v = torch.randn(a.shape, generator=trial.generator(), dtype=a.dtype)
    update = implicit_update(block.get_parameter(name).detach(), a, full - a, carrier=v, name=name)
    wrong = torch.tensor([-1, 0, 0.5, 2], dtype=a.dtype).repeat(len(a) // 4)
    errors, controls = (each(Changes((u,)).run(block, nothing, query), prompted) for u in (update, update * wrong))
    return Measurement({"error": (errors, controls)})


@claim(
    "dherin-scalar", DHERIN, "Note 002 on Theorem 2.2, the picture in one dimension", exact=True, cost=(0.5, 0.5),
    aside="the theorem in one dimension, where it is a division, so that by algebra nothing but PASS could come out",
)  # fmt: skip
def scalar(trial: Trial) -> Measurement:
    """In one dimension the update is the relative change of the contextual layer's output, times the weight.

    Measured: for each prompt the difference of w A(C, x) and (w + Γ) A(x), Γ = w (A(C, x) − A(x)) / A(x).

    Control: the absolute change, Γ = w (A(C, x) − A(x)).

    Settings: w A(C, x), |w| > 1, A a softmax average of tokens that are numbers; 12 tokens; the first 100 (full: 1,000)
    of ten times as many random prompts that distinguish the two: A(x) is farther than ½ from 0 and from 1 (where a
    relative change is an absolute one), and the context changes A by more than ½; float64.

    Precondition: there are enough such prompts.
    """
    random, prompts = trial.generator(), trial.size(100, 1000)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        layer = SoftmaxAttention(1, heads=1).double()
    for weight in (layer.v.weight, layer.o.weight):
        torch.nn.init.ones_(weight)
    w, query = (torch.randn(10 * prompts, 1, generator=random, dtype=torch.float64) for _ in range(2))
    w, query = w + w.sign(), 2 * query
    context = torch.randn(10 * prompts, TOKENS, 1, generator=random, dtype=torch.float64)
    with torch.no_grad():
        full, reduced = layer(context, query), layer(context[:, :0], query)
    telling = ((full - reduced).abs() > 0.5) & (reduced.abs() > 0.5) & ((reduced - 1).abs() > 0.5)
    chosen = telling.squeeze(-1).nonzero().squeeze(-1)[:prompts]
    trial.require(len(chosen) == prompts, f"only {len(chosen)} prompts can tell")
    w, full, reduced = (t[chosen] for t in (w, full, reduced))
    errors, controls = (
        each((w + g) * reduced, w * full) for g in (scalar_update(w, full, reduced), w * (full - reduced))
    )
    return Measurement({"error": (errors, controls)})


@claim("dherin-other-layers", DHERIN, "Section 2, after Theorem 2.2", exact=True, cost=(2, 10))
def other_layers(trial: Trial) -> Measurement:
    """The theorem makes no assumption on the contextual layer: it holds for all kinds of attention, for recurrent
    layers, local attention and images.

    Measured: for each kind of layer and prompt the largest difference of outputs with Y and with ΔW(Y).

    Control: a random update of rank 1 and equal norm.

    Settings: 13 kinds of layers 16 wide, 64 hidden units, GELU; 12 tokens, 6 prompts (full: 60); Y is a random half and
    the last token, which affects every layer; float64.
    """
    errors, controls = [], []
    for name, kind in LAYERS.items():
        random = trial.generator()
        block = make_block("plain", name, width=WIDTH, seed=trial.seed)
        prompts = trial.size(6, 60)
        context = torch.stack([kind.context(TOKENS, WIDTH, random) for _ in range(prompts)])
        query = torch.randn(prompts, WIDTH, generator=random, dtype=torch.float64)
        part = torch.rand(TOKENS, generator=random) < 0.5
        part[-1] = True
        keep, prompted = without(context, part, block), block(context, query)
        changes = absorb(block, context, query, part)
        errors.append(each(changes.run(block, context, query, keep=keep), prompted))
        controls.append(each(changes.random_like(trial.seed).run(block, context, query, keep=keep), prompted))
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})


# Last, so that the ledger has the claims in the order of the paper.
