"""Shen et al. 2024: the outputs of in-context learning and of gradient descent differ."""

from __future__ import annotations

from inweights.compare import COSINES, measured_descent, patched, way
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._demonstrated import NEEDS, drawn, given, mean, read_in_context, stored
from inweights.papers._papers import SHEN

N = 4
MEASURES = ("token_overlap", *COSINES)


def _gaps(trial: Trial, name: str) -> dict[str, tuple[list[float], list[float]]]:
    """For each measure and query: two orders of in-context learning, less in-context learning against the best
    checkpoint of a descent; and less the exact patch, with which the gap is not positive."""
    model, shown = given(trial, N, trial.size(12, 50))
    icl = read_in_context(trial, model, shown, trial.size(6, 10))
    rates, epochs, every = trial.size((1e-4, 5e-4), (1e-5, 5e-5, 1e-4, 5e-4)), trial.size(6, 60), trial.size(3, 20)

    def descent() -> dict[str, list[float]]:
        points = [
            point
            for rate in rates
            for point in measured_descent(model, shown, icl, way(name), rate, epochs=epochs, every=every)["checkpoints"]
        ]
        return {m: max((point[m] for point in points), key=mean) for m in MEASURES}

    def patch() -> dict[str, list[float]]:
        order = drawn(trial, N, 1)[0].tolist()
        against = icl.against(patched(model, shown, order, 4), 0)
        return {m: against[m] for m in MEASURES}

    best, exact, ceiling = (
        stored(f"shen-best-{name}", trial, descent),
        stored("shen-patch", trial, patch),
        icl.ceiling(),
    )
    return {
        m: (
            [c - b for c, b in zip(ceiling[m], best[m], strict=True)],
            [c - e for c, e in zip(ceiling[m], exact[m], strict=False)],
        )
        for m in MEASURES
    }


@claim("shen-overlap", SHEN, "Section 5, Figure 5: token overlap", cost=(32, 295), needs=NEEDS)
def overlap(trial: Trial) -> Measurement:
    """The ten most likely tokens of in-context learning overlap less with those of gradient descent, at every rate and
    epoch, than with those of in-context learning in another order.

    Measured: for each query the token overlap of two orders, less that of in-context learning with gradient descent, at
    the checkpoint and rate where the latter is largest on average.

    Control: the exact patch of the theorem in place of gradient descent, which is equivalent to the demonstrations.

    Settings: SmolLM2-135M; tasks, demonstrations, orders and queries as for shen-order-icl; all weights, full batch,
    rates 1e-4 and 5e-4 for 6 epochs, a checkpoint each 3 (full: 1e-5, 5e-5, 1e-4, 5e-4 for 60, each 20; the paper: for
    200). The patch is made for one order and 4 queries.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return Measurement({"gap": _gaps(trial, "gd")["token_overlap"]})


@claim("shen-cosine", SHEN, "Section 5, Figure 5: overlap cosine similarity", cost=(2, 12), needs=NEEDS)
def cosine(trial: Trial) -> Measurement:
    """The probabilities of common tokens are less alike between in-context learning and gradient descent than between
    two orders of in-context learning.

    Measured: as for shen-overlap, with the overlap cosine. Its normalisation is not certain to us: three forms are
    measured, and all must agree.

    Control: the exact patch of the theorem in place of gradient descent.

    Settings: those of shen-overlap.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    gaps = _gaps(trial, "gd")
    return Measurement({name: gaps[name] for name in COSINES})


@claim("shen-value-middle", SHEN, "Section 5: GD-hat, a middle layer", cost=(11, 115), needs=NEEDS)
def value_middle(trial: Trial) -> Measurement:
    """Gradient descent on the value matrix of one middle layer does not give the outputs of in-context learning either.

    Measured: as for shen-overlap, for the value matrix of layer ⌊L/2⌋.

    Control: the exact patch of the theorem in place of gradient descent.

    Settings: those of shen-overlap; all key-value heads of the layer.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return Measurement({"gap": _gaps(trial, "value-middle")["token_overlap"]})


@claim("shen-value-deep", SHEN, "Section 5: GD-hat, a deep layer", cost=(9, 105), needs=NEEDS)
def value_deep(trial: Trial) -> Measurement:
    """Gradient descent on the value matrix of one deep layer does not give the outputs of in-context learning either.

    Measured: as for shen-overlap, for the value matrix of layer L − 2.

    Control: the exact patch of the theorem in place of gradient descent.

    Settings: those of shen-overlap; all key-value heads of the layer.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return Measurement({"gap": _gaps(trial, "value-deep")["token_overlap"]})


@claim("shen-layer-causal", SHEN, "Section 5, with the descent of Deutch et al.", cost=(22, 320), needs=NEEDS)
def layer_causal(trial: Trial) -> Measurement:
    """Layer-causal gradient descent, proposed since, does not give the outputs of in-context learning either.

    Measured: as for shen-overlap, for layer-causal gradient descent on all blocks.

    Control: the exact patch of the theorem in place of gradient descent.

    Settings: those of shen-overlap.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return Measurement({"gap": _gaps(trial, "layer-causal")["token_overlap"]})
