"""*Learning without training* (arXiv 2507.16003): the limits of the theorem, on one block."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.blocks import absorb, make_block, without
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import DHERIN
from inweights.papers._random_blocks import WIDTH, block_and_prompts, each
from inweights.papers._smallest_changes import run, trained
from inweights.theory import Changes

ASKED = 4
"""The number of query tokens at the end of a prompt; the tokens before them are the context."""


@claim("dherin-last-token", DHERIN, "Limits that the paper names", exact=True, cost=(1, 5))
def last_token(trial: Trial) -> Measurement:
    """The equality holds for the output at the last token only: with its ΔW, the outputs at earlier tokens differ from
    those with the context.

    Measured: a context is moved into the weights for four tokens after it, each of which attends to those before; for
    each prompt and each of the first three, the largest difference between the outputs with the context and with the ΔW
    of the last token.

    Control: with the token's own ΔW, as the library computes it for each position.

    Settings: softmax attention 16 wide, 64 hidden units, GELU; 9 tokens of context, 100 prompts (full: 1,000), float64.

    Precondition: at the last token the output with its ΔW is that with the context, to 1e-10.
    """
    block, tokens, query = block_and_prompts(trial, trial.size(100, 1000))
    whole = torch.cat([tokens, query.unsqueeze(1)], 1)  # (prompts, positions, width)
    asked = range(whole.shape[1] - ASKED, whole.shape[1])
    moved = range(asked.start)
    own = {i: absorb(block, whole[:, :i], whole[:, i], moved) for i in asked}
    *others, last = asked

    def miss(i: int, changes: Changes | None) -> Tensor:
        """The error at position i without the context, with changes in its place, `(prompts,)`."""
        before, here = whole[:, :i], whole[:, i]
        keep = without(before, moved)
        alone = block(before, here, keep) if changes is None else changes.run(block, before, here, keep=keep)
        return each(alone, block(before, here))

    off = float(miss(last, own[last]).max())
    trial.require(off < 1e-10, f"at the last token the block is off by {off:.1e}")
    errors, controls, bare = (
        torch.cat(result)
        for result in zip(*((miss(i, own[last]), miss(i, own[i]), miss(i, None)) for i in others), strict=True)
    )
    return Measurement(
        {"error": (errors, controls)}, reported={"error, over that with no change": float((errors / bare).mean())}
    )


@claim("dherin-precondition", DHERIN, "Theorem 2.2", exact=True, cost=(1, 2), repeats="dherin-theorem")
def precondition(trial: Trial) -> Measurement:
    """If A(x) = 0, no change of W can replace the context.

    Measured: for each prompt, the share of the context's effect on the output that remains missing after W was trained,
    for this one query, to reproduce the output with the context.

    Control: the same for a query with nonzero A(x).

    Settings: a query of zeros (control: a random one) in softmax attention, the same with rotary positions, and a mean,
    16 wide, 64 hidden units, GELU; 12 tokens, 5 prompts (full: 50); W trained on outputs, from zero and then, if
    necessary, from nine random starting points; float64.
    """
    _, context, query = block_and_prompts(trial, trial.size(5, 50))
    results: list[list[Tensor]] = [[], []]
    for name in ("softmax", "softmax-rotary", "mean-pool"):
        block = make_block("plain", name, width=WIDTH, seed=trial.seed)
        W = block.get_parameter(block.input_controls[0]).detach()
        for shares, x in zip(results, (torch.zeros_like(query), query), strict=True):
            wanted = block(context, x).detach()
            change = trained(block, x, wanted, W.new_zeros(len(x), *W.shape), trial.seed)
            left = each(run(block, change, context[:, :0], x), wanted)
            shares.append(left / each(block(context[:, :0], x), wanted))
    return Measurement({"left": (torch.cat(results[0]), torch.cat(results[1]))})
