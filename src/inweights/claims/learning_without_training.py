"""*Learning without training* (arXiv 2507.16003): the theorem. Its dynamics and experiments have files of their own."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.blocks import LAYERS, ContextualBlock, SoftmaxAttention, absorb, make_block, without
from inweights.claims._claim import Found, claim
from inweights.claims._papers import DHERIN
from inweights.claims._random_blocks import TOKENS, WIDTH, block_and_prompts, largest, parts
from inweights.claims._trial import Trial
from inweights.theory import (
    Changes,
    Update,
    blind_to,
    gradient_path,
    implicit_update,
    product_path,
    scalar_update,
)


@claim("dherin-theorem", DHERIN, "Theorem 2.2", exact=True, cost=(1, 5))
def theorem(trial: Trial) -> Found:
    """What any part Y of a context does to a contextual block is what a change of its first dense matrix does without
    Y: T_W(C, x) = T_{W+ΔW(Y)}(C∖Y, x), with ΔW(Y) = (W ΔA(Y)) A(C∖Y, x)ᵀ / ‖A(C∖Y, x)‖².

    Measured: the largest difference of the two outputs over random parts and prompts.

    Control: a random update of rank 1 and equal norm in place of each ΔW(Y).

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 16 prompts, 22 parts (full: 110), float64.
    """
    block, context, query = block_and_prompts(trial, 16)
    prompted = block(context, query)
    errors, controls = [], []
    for part in parts(trial, trial.size(22, 110)):
        changes, keep = absorb(block, context, query, part), without(context, part)
        errors.append(largest(changes.run(block, context, query, keep=keep), prompted))
        controls.append(largest(changes.random_like(trial.seed).run(block, context, query, keep=keep), prompted))
    return Found({"error": (errors, controls)})


@claim("dherin-corollary", DHERIN, "Corollary 2.3.1", exact=True, cost=(0.5, 1))
def corollary(trial: Trial) -> Found:
    """The whole context can be moved into the weights: T_W(C, x) = T_{W+ΔW(C)}(x).

    Measured: the largest difference of the two outputs over prompts, the query alone being given to the block.

    Control: each query with the update of another context.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 100 prompts (full: 1,000), float64.
    """
    block, context, query = block_and_prompts(trial, trial.size(100, 1000))
    prompted, nothing = block(context, query), context[:, :0]
    changes = absorb(block, context, query)
    foreign = absorb(block, context.roll(1, 0), query)
    said = [c.run(block, nothing, query) for c in (changes, foreign)]
    return Found({"error": (largest(said[0], prompted), largest(said[1], prompted))})


@claim("dherin-residual", DHERIN, "Appendix A", exact=True, cost=(1, 5))
def residual(trial: Trial) -> Found:
    """With skip connections, x + A + W' g(W A + b) + b', the same ΔW(Y) and Δb'(Y) = ΔA(Y) move Y into the weights.

    Measured: the largest difference of the outputs with Y and with the changes, over random parts and prompts.

    Control: ΔW(Y) alone, without Δb'(Y).

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 16 prompts, 22 parts (full: 110), float64.
    """
    block, context, query = block_and_prompts(trial, 16, "residual")
    prompted = block(context, query)
    errors, controls = [], []
    for part in parts(trial, trial.size(22, 110)):
        changes, keep = absorb(block, context, query, part, output="bias"), without(context, part)
        errors.append(largest(changes.run(block, context, query, keep=keep), prompted))
        controls.append(largest(Changes(changes.updates).run(block, context, query, keep=keep), prompted))
    return Found({"error": (errors, controls)})


@claim("dherin-rank-one", DHERIN, "Theorem 2.2", exact=True, cost=(1, 5))
def rank_one(trial: Trial) -> Found:
    """The update ΔW(Y) has rank 1.

    Measured: the second singular value of the dense matrix ΔW(Y) over the first.

    Control: the change W_n − W_0 of appendix B, which does the same to the query.

    Settings: softmax attention 16 wide, 64 hidden units; 12 tokens, 16 prompts, 22 parts (full: 110), float64.
    """
    block, context, query = block_and_prompts(trial, 16)
    seconds = []
    for part in parts(trial, trial.size(22, 110)):
        s = torch.linalg.svdvals(absorb(block, context, query, part).updates[0].dense())
        seconds.append(float((s[:, 1] / s[:, 0]).max()))
    W = block.get_parameter(block.input_controls[0])
    s = torch.linalg.svdvals(product_path(W, block.suffix_joints(context, query).read).total.dense())
    return Found({"second": (seconds, s[:, 1] / s[:, 0])})


def members(trial: Trial, count: int) -> tuple[ContextualBlock, Tensor, Tensor, Update, Update, Update]:
    """A block, a context, a query; ΔW(C); random matrices B, from a thousandth to ten times as large as ΔW(C); and
    what of each B does not see A(x), made as large as B was."""
    block, contexts, queries = block_and_prompts(trial, 1)
    context, query = contexts[0], queries[0]
    update = absorb(block, context, query).updates[0]
    out, inside = update.shape
    identity = torch.eye(inside, dtype=torch.float64).expand(count, -1, -1)
    noise = torch.randn(count, out, inside, generator=trial.generator(), dtype=torch.float64)
    sizes = update.frobenius() * torch.logspace(-3, 1, count, dtype=torch.float64)
    seeing = Update(noise, identity, update.name)
    blind = blind_to(seeing, block.joint(context[:0], query).read)
    return block, context, query, update, seeing * (sizes / seeing.frobenius()), blind * (sizes / blind.frobenius())


def error_of(block: ContextualBlock, context: Tensor, query: Tensor, updates: Update) -> float:
    """The largest difference from what the whole context makes of a query, the query alone run with each update."""
    count = len(updates.u)
    said = Changes((updates,)).run(block, context[:0].expand(count, 0, -1), query.expand(count, -1))
    return largest(said, block(context, query))


@claim("dherin-minimum-norm", DHERIN, "Theorem 2.2 and abstract of version 4", exact=True, cost=(0.5, 1))
def minimum_norm(trial: Trial) -> Found:
    """Of all changes of W that stand for the context, ΔW(C) is the one with the smallest Frobenius norm.

    Measured: `excess`, how much larger the smallest of the others ΔW(C) + B is, B A(x) = 0, as a share of ‖ΔW(C)‖;
    `error`, the largest difference of outputs between these and the prompt.

    Control: `excess` over another exact update of rank 1, with a random right factor, which is not the smallest;
    `error` with B as drawn, which sees A(x).

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 100 random B of full rank (full: 1,000) with norms of
    1/1000 to 10 times that of ΔW(C), float64.
    """
    block, context, query, update, seeing, blind = members(trial, trial.size(100, 1000))
    a, full = (block.joint(c, query).read.detach() for c in (context[:0], context))
    carrier = torch.randn(WIDTH, generator=trial.generator(), dtype=torch.float64)
    other = implicit_update(block.get_parameter(update.name).detach(), a, full - a, carrier=carrier)
    smallest = (update + blind).frobenius().detach().min()
    excess, control = (float(smallest / one.frobenius().detach() - 1) for one in (update, other))
    errors = [error_of(block, context, query, update + B) for B in (blind, seeing)]
    return Found({"excess": (excess, control), "error": (errors[0], errors[1])})


@claim("dherin-family", DHERIN, "Theorem 2.2", exact=True, cost=(0.5, 1))
def family(trial: Trial) -> Found:
    """Every (W ΔA) vᵀ with vᵀA(x) = 1 stands for the context as well, whatever else v is.

    Measured: the largest difference of outputs from the prompt, over random v scaled to vᵀA(x) = 1.

    Control: the same v, scaled to length 1 instead.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 100 random v (full: 1,000), float64.
    """
    block, contexts, queries = block_and_prompts(trial, 1)
    context, query = contexts[0], queries[0]
    name = block.input_controls[0]
    a, full = block.joint(context[:0], query).read, block.joint(context, query).read
    v = torch.randn(trial.size(100, 1000), WIDTH, generator=trial.generator(), dtype=torch.float64)
    update = implicit_update(block.get_parameter(name), a, (full - a).expand_as(v), carrier=v, name=name)
    unit = Update(update.u, (v / v.norm(dim=-1, keepdim=True)).unsqueeze(-1), name)
    errors = [error_of(block, context, query, u) for u in (update, unit)]
    return Found({"error": (errors[0], errors[1])})


@claim("dherin-scalar", DHERIN, "Theorem 2.2 in one dimension", exact=True, cost=(0.5, 0.5))
def scalar(trial: Trial) -> Found:
    """In one dimension the update is the relative change of what the contextual layer says, times the weight.

    Measured: the largest difference of w A(C, x) and (w + Γ) A(x), Γ = w (A(C, x) − A(x)) / A(x).

    Control: the absolute change, Γ = w (A(C, x) − A(x)).

    Settings: w A(C, x) with softmax attention over tokens of one number; 12 tokens, 100 prompts (full: 1,000), float64.

    Precondition: no A(x) is within 1e-8 of zero.
    """
    random, prompts = trial.generator(), trial.size(100, 1000)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        layer = SoftmaxAttention(1, heads=1).double()
    w, query = (torch.randn(prompts, 1, generator=random, dtype=torch.float64) for _ in range(2))
    query = query + query.sign()  # at least 1 away from zero: A(x) is proportional to x here
    context = torch.randn(prompts, TOKENS, 1, generator=random, dtype=torch.float64)
    with torch.no_grad():
        full, reduced = layer(context, query), layer(context[:, :0], query)
    trial.require(bool((reduced.abs() > 1e-8).all()), "A(x) is almost zero")
    errors = [largest((w + g) * reduced, w * full) for g in (scalar_update(w, full, reduced), w * (full - reduced))]
    return Found({"error": (errors[0], errors[1])})


@claim("dherin-other-layers", DHERIN, "Section 2.1", exact=True, cost=(2, 10))
def other_layers(trial: Trial) -> Found:
    """The theorem asks nothing of the contextual layer: it holds for attention of every kind, for recurrent layers,
    local attention and images alike.

    Measured: for each kind of layer the largest difference of outputs with Y and with ΔW(Y), over prompts.

    Control: a random update of rank 1 and equal norm.

    Settings: 13 kinds of layers 16 wide, 64 hidden units, GELU; 12 tokens, 6 prompts (full: 60); Y a random half and
    the last token, which every layer sees; float64.
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
        errors.append(largest(changes.run(block, context, query, keep=keep), prompted))
        controls.append(largest(changes.random_like(trial.seed).run(block, context, query, keep=keep), prompted))
    return Found({"error": (errors, controls)})


@claim("dherin-precondition", DHERIN, "Theorem 2.2", exact=True, cost=(0.5, 0.5))
def precondition(trial: Trial) -> Found:
    """Where A(C∖Y, x) = 0 no update exists, and the software says so instead of dividing by zero.

    Measured: the share of such cases that are refused: a query of zeros in three kinds of layers, for ΔW(C), for the
    path of Proposition 3.1 and for that of appendix B.

    Control: the share refused among the same cases with other queries.

    Settings: softmax attention, linear attention and a mean, 16 wide; 12 tokens, float64.
    """
    query = torch.randn(WIDTH, generator=trial.generator(), dtype=torch.float64)
    return Found({"detected": (refused(trial, torch.zeros_like(query)), refused(trial, query))})


def refused(trial: Trial, query: Tensor) -> float:
    """The share of cases in which a query is refused with a sentence."""
    found = []
    for name in ("softmax", "linear-attention", "mean-pool"):
        block = make_block("plain", name, width=WIDTH, seed=trial.seed)
        context = torch.randn(TOKENS, WIDTH, generator=trial.generator(), dtype=torch.float64)
        W = block.get_parameter(block.input_controls[0]).detach()
        for attempt in (
            lambda b, c: absorb(b, c, query),
            lambda b, c, W=W: gradient_path(W, b.prefix_joints(c, query).read),
            lambda b, c, W=W: product_path(W, b.suffix_joints(c, query).read),
        ):
            try:
                attempt(block, context)
                found.append(0.0)
            except InputError:
                found.append(1.0)
    return sum(found) / len(found)


# Last, so that the ledger has the claims in the order of the paper.
from inweights.claims import learning_without_training_dynamics as learning_without_training_dynamics  # noqa: E402
from inweights.claims import learning_without_training_experiments as learning_without_training_experiments  # noqa: E402
from inweights.claims import learning_without_training_smollm2 as learning_without_training_smollm2  # noqa: E402
