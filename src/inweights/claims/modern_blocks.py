"""*Equivalence of context and parameter updates in modern transformer blocks* (arXiv 2511.17864): what is exact. What
depends on precision has its own file."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.blocks import BLOCKS, LAYERS, absorb, make_block
from inweights.claims._claim import Found, claim
from inweights.claims._papers import GOLDWASER
from inweights.claims._patched import family_errors, last_token, random_ids, random_model
from inweights.claims._random_blocks import TOKENS, WIDTH, largest
from inweights.claims._trial import Trial
from inweights.models import patch, verify
from inweights.theory import Changes, implicit_update, residual_matrix, residual_scale


def _families(trial: Trial, *names: str) -> Found:
    errors, controls = family_errors(trial, *names)
    return Found({"error": (errors, controls)})


@claim("goldwaser-gemma", GOLDWASER, "Theorem 1", exact=True, cost=(3, 5))
def gemma(trial: Trial) -> Found:
    """In a Gemma block, where a norm with scale m stands between the MLP and the sum, a context is perfectly replaced
    by rank-one updates of the gate's and the up matrix, W (z_C − z) zᵀ/‖z‖², and by Δm = (v_C − v) ⊘ rms(W_down h_C).

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: the two matrices changed, but not m.

    Settings: Gemma 2 and Gemma 3 in transformers' own code, three layers 32 wide, every parameter random; texts of 20
    random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "gemma2", "gemma3_text")


@claim("goldwaser-llama", GOLDWASER, "Theorem 5, Table 1", exact=True, cost=(3, 6))
def llama(trial: Trial) -> Found:
    """In Llama, Mistral and Qwen blocks the same updates of gate and up matrix and ΔW_down = (v_C − v) hᵀ/‖h‖² do it.

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: gate and up matrix changed, but not W_down.

    Settings: Llama, Mistral and Qwen 3 in transformers' own code, three layers 32 wide, every parameter random; texts
    of 20 random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "llama", "mistral", "qwen3")


@claim("goldwaser-gpt2", GOLDWASER, "Theorem 5, Table 1", exact=True, cost=(1, 2))
def gpt2(trial: Trial) -> Found:
    """In a GPT-2 block rank-one updates of the first and of the last matrix of the MLP do it.

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: the first matrix changed, but not the last.

    Settings: GPT-2 in transformers' own code, three layers 32 wide, every parameter random; texts of 20 random tokens,
    2 for each trial (full: 8); float64.
    """
    return _families(trial, "gpt2")


@claim("goldwaser-mixture", GOLDWASER, "Lemma on mixtures of experts, Table 1", exact=True, cost=(3, 7))
def mixture(trial: Trial) -> Found:
    """In a mixture of experts the same input update of the router and of every expert keeps the routing, and the last
    matrices of the active experts add what is missing, each its share.

    Measured: the largest logit error on the last token, given alone, with these changes in all blocks.

    Control: router and first matrices changed, but no last one.

    Settings: Mixtral and Qwen 2 with experts in transformers' own code, three layers 32 wide, 2 of 4 experts for each
    token, every parameter random; texts of 20 random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "mixtral", "qwen2_moe")


@claim("goldwaser-parallel", GOLDWASER, "Lemma on parallel blocks, Table 1", exact=True, cost=(2, 4))
def parallel(trial: Trial) -> Found:
    """Where the MLP stands beside the attention and never sees the context, its last matrix alone absorbs what the
    attention lacks.

    Measured: the largest logit error on the last token, given alone, with this change in all blocks.

    Control: no change, as there is nothing else to be changed.

    Settings: GPT-J and Falcon in transformers' own code, three layers 32 wide, every parameter random; texts of 20
    random tokens, 2 for each model (full: 8); float64.
    """
    return _families(trial, "gptj", "falcon")


@claim("goldwaser-controllable", GOLDWASER, "Theorem 5", exact=True, cost=(2, 6))
def controllable(trial: Trial) -> Found:
    """Any residual block admits a perfect patch if its inner function is input-controllable and its outer one
    output-controllable, whatever these are and whatever brings the context.

    Measured: the largest difference of the block's outputs, with the context and with the changes, over kinds of
    block, each of their output controls (last matrix, last bias, scale of a norm), and contextual layers.

    Control: the same changes without that of the output control.

    Settings: eight kinds of block (plain and gated MLPs, experts; LayerNorm and RMSNorm before, after and on the
    branch; parallel) on softmax attention, a GRU and mean pooling (full: on twelve layers); 16 wide, 12 tokens, 4
    prompts each; float64.
    """
    random = trial.generator()
    context = torch.randn(4, TOKENS, WIDTH, generator=random, dtype=torch.float64)
    query = torch.randn(4, WIDTH, generator=random, dtype=torch.float64)
    errors, controls = [], []
    for layer in trial.size(["softmax", "gru", "mean-pool"], [name for name in LAYERS if name != "image-patches"]):
        for kind, block_kind in BLOCKS.items():
            block = make_block(kind, layer, width=WIDTH, seed=trial.seed)
            prompted = block(context, query)
            keep = torch.zeros(TOKENS, dtype=torch.bool)
            for control in block_kind.outputs:
                changes = absorb(block, context, query, output=control)
                inner = Changes(tuple(c for c in changes.items if c.name in block.input_controls))
                errors.append(largest(changes.run(block, context, query, keep=keep), prompted))
                controls.append(largest(inner.run(block, context, query, keep=keep), prompted))
    return Found({"error": (errors, controls)})


def _flagged(attempt: Callable[[], object]) -> float:
    """1 if something was refused, or a proof failed; else 0."""
    try:
        proof = attempt()
    except InputError:
        return 1.0
    return float(getattr(proof, "verdict", "PASS") != "PASS")


def _alarms(trial: Trial, broken: bool) -> list[float]:
    """For each precondition whether an alarm is given, where it is violated (`broken`) and where it holds."""
    random = trial.generator()
    W, z, h, n, delta = (
        torch.randn(*s, generator=random, dtype=torch.float64) for s in ((8, 4), (4,), (8,), (4,), (4,))
    )

    def zero(x: Tensor) -> Tensor:
        return torch.zeros_like(x) if broken else x

    def dead(x: Tensor) -> Tensor:
        """One coordinate, or one row, is zero."""
        return torch.cat([zero(x[:1]), x[1:]])

    def silenced(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], None]:
        def inside(net: nn.Module) -> None:
            p = net.get_parameter(name)
            p.copy_(change(p))

        return inside

    found = [
        _flagged(lambda: implicit_update(W, zero(z), delta)),
        _flagged(lambda: residual_matrix(zero(h), delta)),
        _flagged(lambda: residual_scale(dead(n), delta)),
    ]
    for family, name, change in (
        ("gemma3_text", "model.layers.2.mlp.down_proj.weight", dead),
        ("llama", "model.layers.2.mlp.gate_proj.weight", zero),
        ("llama", "model.layers.2.post_attention_layernorm.weight", zero),
    ):
        model = random_model(trial, family, silenced(name, change))
        prompt = last_token(model, random_ids(trial, 1)[0])
        found.append(_flagged(lambda: verify(prompt, patch(prompt))))  # noqa: B023 - it is called at once
    return found


@claim("goldwaser-preconditions", GOLDWASER, "Theorem 1, Definitions 3 and 4", exact=True, cost=(3, 3))
def preconditions(trial: Trial) -> Found:
    """A perfect patch needs an MLP input z and an inner activation h that are not zero, and, where the scale of a norm
    is the output control, a normalised branch of which no coordinate is zero. Violations can be told.

    Measured: for each violation whether it is detected: by an error of the formula, or by a proof that fails.

    Control: the same on inputs and models in which nothing is violated: no alarm may be given.

    Settings: z = 0, h = 0 and a zero coordinate, given to the formulas; the same in tiny Llama and Gemma 3 models by
    a zero norm, a zero gate and a zero row of the last matrix in the last block; float64.
    """
    return Found({"detected": (_alarms(trial, broken=True), _alarms(trial, broken=False))})


@claim("goldwaser-token-specific", GOLDWASER, "Section 4", exact=True, cost=(3, 8))
def token_specific(trial: Trial) -> Found:
    """A patch is made for one token: the next token needs another one, which is why they are computed anew for each.

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
    return Found({"error": (errors, controls)})


# Last, so that the ledger has the claims of this file first.
from inweights.claims import modern_blocks_precision as modern_blocks_precision  # noqa: E402
