"""*Equivalence of context and parameter updates in modern transformer blocks* (arXiv 2511.17864): exact claims. Claims
that depend on precision are in a separate file."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.blocks import BLOCKS, LAYERS, ContextualBlock, absorb, make_block
from inweights.ledger import Measurement, Trial, claim
from inweights.models import patch, verify
from inweights.papers._papers import GOLDWASER
from inweights.papers._random_blocks import TOKENS, WIDTH
from inweights.papers.modern_blocks._patched import family_errors, last_token, random_ids, random_model
from inweights.theory import Changes


def _families(trial: Trial, *names: str) -> Measurement:
    errors, controls = family_errors(trial, *names)
    return Measurement({"error": (errors, controls)})


@claim("goldwaser-gemma", GOLDWASER, "Theorems 1 and 2, Table 1", exact=True, cost=(1.8, 5))
def gemma(trial: Trial) -> Measurement:
    """In a Gemma block, with a norm of scale m between the MLP and the residual sum, a context is exactly replaced by
    rank-one updates of the gate's and the up matrix, W (z_C − z) zᵀ/‖z‖², and by Δm = (v_C − v) ⊘ rms(W_down h_C).

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: the two matrices changed, but not m.

    Settings: Gemma 2 and Gemma 3 in transformers' own code, three layers 32 wide, every parameter random; texts of 20
    random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "gemma2", "gemma3_text")


@claim("goldwaser-llama", GOLDWASER, "Lemma output_weight, Table 1", exact=True, cost=(1.8, 6))
def llama(trial: Trial) -> Measurement:
    """In Llama, Mistral and Qwen blocks the same updates of gate and up matrix and ΔW_down = (v_C − v) hᵀ/‖h‖² replace
    the context.

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: gate and up matrix changed, but not W_down.

    Settings: Llama, Mistral and Qwen 3 in transformers' own code, three layers 32 wide, every parameter random; texts
    of 20 random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "llama", "mistral", "qwen3")


@claim(
    "goldwaser-gpt2",
    GOLDWASER,
    "Lemma output_weight, Table 1",
    exact=True,
    cost=(1, 2),
    repeats="goldwaser-llama",
)
def gpt2(trial: Trial) -> Measurement:
    """In a GPT-2 block rank-one updates of the first and of the last matrix of the MLP replace the context: the same
    lemma as for Llama, without a gate.

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: the first matrix changed, but not the last.

    Settings: GPT-2 in transformers' own code, three layers 32 wide, every parameter random; texts of 20 random tokens,
    2 for each trial (full: 8); float64.
    """
    return _families(trial, "gpt2")


@claim("goldwaser-mixture", GOLDWASER, "Lemma output_moe, Table 1", exact=True, cost=(1.8, 7))
def mixture(trial: Trial) -> Measurement:
    """In a mixture of experts the same input update of the router and of every expert keeps the routing, and the last
    matrices of the active experts add the missing part of the output, each its share.

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: router and first matrices changed, but no last one.

    Settings: Mixtral and Qwen 2 with experts in transformers' own code, three layers 32 wide, 2 of 4 experts for each
    token, every parameter random; texts of 20 random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "mixtral", "qwen2_moe")


@claim("goldwaser-parallel", GOLDWASER, "Lemma parallel_block, Table 1", exact=True, cost=(2, 4))
def parallel(trial: Trial) -> Measurement:
    """If the MLP is parallel to the attention and does not depend on the context, its last matrix alone absorbs the
    missing output of the attention.

    Measured: the largest logit error on the last token, given alone, with this change in all blocks.

    Control: no change, as nothing else can be changed.

    Settings: GPT-J and Falcon in transformers' own code, three layers 32 wide, every parameter random; texts of 20
    random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "gptj", "falcon")


@claim("goldwaser-controllable", GOLDWASER, "Theorem 5, Definitions 3 and 4", exact=True, cost=(2, 6))
def controllable(trial: Trial) -> Measurement:
    """Any residual block admits an exact patch if its inner function is input-controllable and its outer one
    output-controllable, for any such functions and any contextual layer.

    Measured: the largest difference of the block's outputs, with the context and with the changes, for each prompt,
    kind of block, output control (last matrix, last bias, scale of a norm) and contextual layer.

    Control: the same changes without that of the output control.

    Settings: eight kinds of block (plain and gated MLPs, experts; LayerNorm and RMSNorm before, after and on the
    branch; parallel) on softmax attention, a GRU and mean pooling (full: on twelve layers); 16 wide, 12 tokens, 4
    prompts each; float64.
    """
    random = trial.generator()
    context = torch.randn(4, TOKENS, WIDTH, generator=random, dtype=torch.float64)
    query = torch.randn(4, WIDTH, generator=random, dtype=torch.float64)
    errors: list[float] = []
    controls: list[float] = []
    for layer in trial.size(["softmax", "gru", "mean-pool"], [name for name in LAYERS if name != "image-patches"]):
        for kind, block_kind in BLOCKS.items():
            block = make_block(kind, layer, width=WIDTH, seed=trial.seed)
            prompted = block(context, query)
            keep = torch.zeros(TOKENS, dtype=torch.bool)
            for control in block_kind.outputs:
                changes = absorb(block, context, query, output=control)
                inner = Changes(tuple(c for c in changes.items if c.name in block.input_controls))
                for result, made in ((errors, changes), (controls, inner)):
                    outputs = made.run(block, context, query, keep=keep)
                    result.extend((outputs - prompted).abs().amax(-1).tolist())
    return Measurement({"error": (errors, controls)})


def undone(outputs: Tensor, control: Tensor, wanted: Tensor) -> Tensor:
    """The remainder of a `wanted` change of the `outputs`, `(width,)`, after the best change of the control.

    The outputs are linear in the control: its derivatives span all reachable changes. No formula of the paper is
    used."""
    each = torch.eye(len(outputs), dtype=outputs.dtype)
    (slopes,) = torch.autograd.grad(outputs, control, each, is_grads_batched=True)
    directions, sizes, _ = torch.linalg.svd(slopes.flatten(1), full_matrices=False)
    reached = directions[:, sizes > 1e-12]
    return wanted - reached @ (reached.mT @ wanted)


def left(block: ContextualBlock, contexts: Tensor, queries: Tensor, name: str) -> float:
    """The share of the changes required by contexts that no change of this control can produce."""
    W, missed, asked = block.get_parameter(name), 0.0, 0.0
    for context, query in zip(contexts, queries, strict=True):
        full, alone = block.joint(context, query), block.joint(context[:0], query)
        assert full.stream is not None
        assert alone.stream is not None
        if name in block.input_controls:  # W z should become W z_C
            outputs, wanted = F.linear(alone.read, W), F.linear(full.read - alone.read, W)
        else:  # v should become v_C, with the inner activation of the context
            outputs, wanted = block.leave(alone.stream, block.mlp(full.read)), full.stream - alone.stream
        missed += undone(outputs, W, wanted.detach()).square().sum().item()
        asked += wanted.square().sum().item()
    return (missed / asked) ** 0.5


@claim(
    "goldwaser-preconditions", GOLDWASER, "Theorem 1, Definitions 3 and 4", exact=True, cost=(1, 4),
    aside="a condition of the theorem itself; a matrix times 0 is 0 whatever the matrix is, so that nothing could come "
    "out but PASS",
)  # fmt: skip
def preconditions(trial: Trial) -> Measurement:
    """An exact patch needs an MLP input z and an inner activation h that are not zero, and, where the scale of a norm
    is the output control, a normalised branch of which no coordinate is zero.

    Measured: the share of the required change that the best change of a control leaves out, by the derivative of the
    block with respect to the control, in which it is linear; over all prompts together.

    Control: the same blocks with all conditions met: nothing may be left out.

    Settings: z = 0 by a query of zeros, for gate and up matrix of a Llama block; h = 0 by a gate of zeros, for its last
    matrix; a coordinate of 0 by a row of zeros in the last matrix of a Gemma block, for the scale of the norm on the
    branch. Softmax attention 16 wide, 64 hidden units, 12 tokens, 8 prompts (full: 32); float64.
    """
    random, count = trial.generator(), trial.size(8, 32)
    contexts = torch.randn(count, TOKENS, WIDTH, generator=random, dtype=torch.float64)
    queries = torch.randn(count, WIDTH, generator=random, dtype=torch.float64)
    results: list[list[float]] = []
    for holds in (0.0, 1.0):
        llama, silent, gemma = (
            make_block(kind, width=WIDTH, seed=trial.seed) for kind in ("gated", "gated", "sandwich")
        )
        with torch.no_grad():
            silent.get_parameter("mlp.gate.weight").mul_(holds)
            gemma.get_parameter("mlp.last.weight")[0].mul_(holds)
        results.append(
            [
                *(left(llama, contexts, holds * queries, name) for name in llama.input_controls),
                left(silent, contexts, queries, "mlp.last.weight"),
                left(gemma, contexts, queries, "branch_norm.weight"),
            ]
        )
    return Measurement({"left": (results[0], results[1])})


@claim("goldwaser-token-specific", GOLDWASER, "Section 4, recomputed patches", exact=True, cost=(1.8, 8))
def token_specific(trial: Trial) -> Measurement:
    """A patch is specific to one token: the next token needs another one, so patches are recomputed for each token.

    Measured: the largest logit error on a token, given alone, with the patch of the token before it.

    Control: with its own patch.

    Settings: Llama, GPT-2 and Gemma 3 in transformers' own code, three layers 32 wide, every parameter random; texts
    of 20 random tokens, 2 for each model (full: 8); float64.
    """
    errors, controls = [], []
    for family in ("llama", "gpt2", "gemma3_text"):
        model = random_model(trial, family)
        for ids in random_ids(trial, trial.size(2, 8)):
            prompt = last_token(model, ids)
            errors.append(verify(prompt, patch(last_token(model, ids[:-1]))).max_abs_logit_error)
            controls.append(verify(prompt, patch(prompt)).max_abs_logit_error)
    return Measurement({"error": (errors, controls)})


# Last, so that the ledger has the claims of this file first.
