"""What the notes say of the theorem and its dynamics, mistakes included."""

from __future__ import annotations

from inweights.blocks import absorb
from inweights.claims._claim import Found, claim
from inweights.claims._papers import NOTES
from inweights.claims._random_blocks import block_and_prompts, largest
from inweights.claims._trial import Trial
from inweights.claims.learning_without_training_dynamics import (
    descent_error,
    peeling_error,
    products,
    token_factors,
)
from inweights.theory import Update, blind_to


@claim("note-factors", NOTES, "000, appendix B", exact=True, cost=(2, 10))
def factors(trial: Trial) -> Found:
    """Tokens are taken off the front of the context by W_i = W_{i−1} + h_i W_{i−2} A_i.

    Measured: the largest difference of T_{W_i}(c_{i+1}…c_n, x) from T(C, x) over all i; W_{−1} is read as W_0.

    Control: the right factors in the opposite order.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 5 prompts (full: 50), float64.
    """
    block, contexts, queries = block_and_prompts(trial, trial.size(5, 50))
    W0 = block.get_parameter(block.input_controls[0]).detach()
    errors, controls = [], []
    for context, query in zip(contexts, queries, strict=True):
        each = token_factors(block, context, query)
        path = [W0, W0]
        for factor in each:
            path.append(path[-1] + path[-2] @ factor - path[-2])
        errors.append(peeling_error(block, context, query, path[2:]))
        controls.append(peeling_error(block, context, query, products(W0, each[::-1])))
    return Found({"error": (max(errors), min(controls))})


@claim("note-index", NOTES, "000, Proposition 3.1", exact=True, cost=(2, 10))
def index(trial: Trial) -> Found:
    """The weights after i tokens are W_i = W_{i−1} − h ∇L_i(W_{i−1}), where the loss L_i holds what token i + 1 adds.

    Measured: the largest difference of T_{W_i}(x) from T(c_1…c_i, x), i from 1 to n − 1.

    Control: losses two places off.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 5 prompts (full: 50), float64.
    """
    block, contexts, queries = block_and_prompts(trial, trial.size(5, 50))
    h = block.joint(contexts[:, :0], queries).read.detach().square().sum(-1).reciprocal()
    value, control = (
        [descent_error(block, c, x, float(r), shift) for c, x, r in zip(contexts, queries, h, strict=True)]
        for shift in (1, 2)
    )
    return Found({"error": (max(value), min(control))})


@claim("note-only-update", NOTES, "001, Theorem 2.2", exact=True, cost=(0.2, 0.5))
def only_update(trial: Trial) -> Found:
    """The update of rank 1 is the update: no other change of W stands for the context.

    Measured: how far apart two changes are that both do it to 1e-10, as a share of ‖ΔW‖: ΔW and ΔW + B, B A(x) = 0.

    Control: the updates of two queries, which nobody would call one.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 12 tokens, 20 prompts (full: 200), float64.

    Precondition: the second change does what the first does.
    """
    block, context, query = block_and_prompts(trial, trial.size(20, 200))
    changes = absorb(block, context, query)
    update = changes.updates[0]
    alone = block.joint(context[:, :0], query).read.detach()
    noise = blind_to(changes.random_like(trial.seed).updates[0], alone)
    miss = largest((update + noise)(alone), update(alone))
    trial.require(miss < 1e-10, f"the second change misses by {miss:.1e}")
    other = Update(update.u.roll(1, 0), update.v.roll(1, 0), update.name)
    size = update.frobenius().detach()
    value, control = ((u.frobenius() / size).detach() for u in (noise, update - other))
    return Found({"spread": (value.max(), control.max())})
