"""Shen et al. 2024: the weights of trained transformers are not those of the constructions, and keep moving."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.compare import DELTAS, NEEDED, attention_matrices, gaussian_like, movement, sparsity, stages
from inweights.lab import zoo
from inweights.lab.models import LSA, LSAModel, gd_construction
from inweights.lab.training import changed, read
from inweights.ledger import Measurement, NotHereError, Plot, Trial, claim
from inweights.models import load_tabpfn
from inweights.papers._papers import SHEN

DIMS = 60


def _constructed(kind: str) -> list[Tensor]:
    """The matrices of a layer of linear attention that is a step of gradient descent."""
    model = gd_construction(LSAModel(LSA(), DIMS, 1).double(), 1.0, 10)
    form = {"keys": "k", "queries": "q", "values": "v"}[kind]
    return [getattr(model.form, form)[0, 0].detach()]


def _trained(trial: Trial) -> dict[str, torch.nn.Module]:
    try:
        return {"TabPFN": load_tabpfn(), "decoder": zoo.trained("linear-20")[0]}
    except InputError as error:  # it is downloaded
        raise NotHereError(str(error)) from error


def _sparsity(trial: Trial, kind: str) -> Measurement:
    """The largest share of small entries over layers, networks, thresholds, and both ways to count them."""
    nets = _trained(trial)
    lines, shares, chance = {}, [], []
    for name, net in nets.items():
        matrices = attention_matrices(net)[kind]  # type: ignore[index]
        for relative in (False, True):
            result = sparsity(matrices, relative=relative)
            lines[f"{name}{', relative' if relative else ''}"] = result.max(0).values.tolist()
            shares.append(float(result.max()))
            chance.append(float(sparsity(gaussian_like(matrices, trial.seed), relative=relative).max()))
    made = max(float(sparsity(_constructed(kind), relative=relative).min()) for relative in (False, True))
    lines["construction"] = sparsity(_constructed(kind), relative=False)[0].tolist()
    plot = Plot(
        f"Entries of the {kind}' matrices below a threshold",
        "threshold",
        "largest share in a layer",
        DELTAS,
        lines,
        "x",
    )
    reported = {"needed": NEEDED[kind], "Gaussian weights of the same deviation": max(chance)}
    return Measurement({"share": (max(shares), made)}, plot, reported)


@claim("shen-sparsity-keys", SHEN, "Section 3, Figure 2", cost=(6, 6), needs=("linear-20",))
def sparsity_keys(trial: Trial) -> Measurement:
    """The matrices of keys in trained transformers are far less sparse than the constructions need, 99.99%.

    Measured: the largest share of entries below a threshold, over all layers of two networks and five thresholds, 1e-2
    to 1e-6, absolute and relative to the standard deviation of each matrix.

    Control: the matrix of keys of linear attention that is a step of gradient descent, with 61 rows.

    Settings: TabPFN (12 layers, width 512) and the lab's decoder of 12 layers, width 256, both pretrained to learn in
    context and not quantised; the default language model comes from a quantised file, whose zeros are the quantiser's.
    The paper reports shares below 0.6 in LLaMA-7B.
    """
    return _sparsity(trial, "keys")


@claim("shen-sparsity-queries", SHEN, "Section 3, Figure 2", cost=(4, 4), needs=("linear-20",))
def sparsity_queries(trial: Trial) -> Measurement:
    """The matrices of queries in trained transformers are far less sparse than the constructions need, 99.99%.

    Measured: as for shen-sparsity-keys, for the matrices of queries.

    Control: the matrix of queries of linear attention that is a step of gradient descent.

    Settings: those of shen-sparsity-keys.
    """
    return _sparsity(trial, "queries")


@claim("shen-sparsity-values", SHEN, "Section 3, Figure 2", cost=(4, 4), needs=("linear-20",))
def sparsity_values(trial: Trial) -> Measurement:
    """The matrices of values in trained transformers are less sparse than the constructions need, 75%.

    Measured: as for shen-sparsity-keys, for the matrices of values.

    Control: the matrix of values of linear attention that is a step of gradient descent.

    Settings: those of shen-sparsity-keys.
    """
    return _sparsity(trial, "values")


@claim("shen-emergence", SHEN, "Section 3: weights move while the ability is flat", cost=(82, 385))
def emergence(trial: Trial) -> Measurement:
    """Late in training the ability to learn in context hardly changes while the weights still move.

    Measured: over the last two fifths of a training at a constant rate, the change of the error on the last query, in
    units of always answering 0 (`flat`); and the mean relative change of the products W_Qᵀ W_K and W_O W_V of all
    heads, which no rescaling of factors changes (`moved`).

    Control: the first tenth of the training (`flat`); the last weights with keys and values three times as large, and
    queries and outputs a third, which are other weights for the same function (`moved`).

    Settings: a decoder of 3 layers, width 64, on linear functions of 5 dimensions; Adam at a constant 1e-3, 1,500 steps
    (full: 10,000), 256 prompts. The paper has GPT-J between 310,000 and 380,000 steps.
    """
    steps = trial.size(1500, 10000)
    settings = [f"steps={steps}", "schedule=constant", "optimiser=adam", "rate=1e-3", f"seed={trial.seed}"]
    result = stages(changed(read("linear-5"), settings), steps // 10, after=lambda _: trial.beat())
    early, late, end = result[0], result[5], result[-1]
    moves = [movement(one.products, other.products) for one, other in pairwise(result)]
    lines = {"error": [s.error for s in result[1:]], "moved since the last": moves}
    plot = Plot("Training at a constant rate", "steps", "relative", [float(s.step) for s in result[1:]], lines, "y")
    return Measurement(
        {
            "flat": (abs(end.error - late.error), abs(1.0 - early.error)),
            "moved": (movement(late.products, end.products), movement(end.products, end.rescaled)),
        },
        plot,
    )
