"""In-context learning and gradient descent revisited (Deutch et al. 2024): untrained models, layer-causal descent."""

from __future__ import annotations

from inweights.compare import Shots, descend, similarity, untrained, way
from inweights.ledger import Measurement, Trial, claim
from inweights.models import Model
from inweights.papers._demonstrated import NEEDS, given, mean, read_in_context, stored
from inweights.papers._papers import DEUTCH

N = 4
RATE = 1e-4


def similar(trial: Trial, kind: str, way_name: str, rate: float = RATE) -> dict[str, list[float]]:
    """The three similarities of a descent with in-context learning, for each query; `kind` is trained or untrained."""
    model, shown = given(trial, N, trial.size(12, 50))
    read_in_context(trial, model, shown, trial.size(6, 10))  # the precondition

    def measure() -> dict[str, list[float]]:
        used = model if kind == "trained" else untrained(model, trial.seed)
        return _similar(used, shown, way_name, rate, trial.size(3, 10), trial.size(4, 16))

    return stored(f"deutch-{kind}-{way_name}-{rate:g}", trial, measure)


def _similar(model: Model, shown: Shots, name: str, rate: float, epochs: int, queries: int) -> dict[str, list[float]]:
    order = list(range(len(shown)))
    (point,) = descend(model, shown, way(name), rate, epochs=epochs, every=epochs)
    return similarity(model, shown, order, point.descent.forward, queries)


def _excess(trial: Trial, measure: str) -> Measurement:
    """How much higher a similarity is in the trained model than in an untrained one."""
    trained, bare = (similar(trial, kind, "gd") for kind in ("trained", "untrained"))
    return Measurement(
        {"excess": (mean(trained[measure]) - mean(bare[measure]), mean(trained[measure]))},
        reported={"trained": mean(trained[measure]), "untrained": mean(bare[measure])},
    )


@claim("deutch-untrained-outputs", DEUTCH, "Table 1: SimAOU", cost=(24, 50), needs=NEEDS)
def untrained_outputs(trial: Trial) -> Measurement:
    """Untrained models have as high a similarity of attention outputs, SimAOU, as trained ones.

    Measured: SimAOU of the trained model less that of an untrained model of the same shape, means over queries.

    Control: a model without any similarity in place of the untrained one, so that the difference is SimAOU itself.

    Settings: SmolLM2-135M, not the paper's GPT of 1.3 billion; past tense, plurals and, in full, SST-2; 4
    demonstrations (paper: 32); full batch on all weights, rate 1e-4, 3 epochs (full: 10); the paper trains keys and
    values by SGD for one epoch. 4 queries (full: 16). The paper reports 0.05 and 0.09, 0.17 and 0.18.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return _excess(trial, "aou")


@claim("deutch-untrained-maps", DEUTCH, "Table 1: SimAM", cost=(2, 11), needs=NEEDS)
def untrained_maps(trial: Trial) -> Measurement:
    """Untrained models have as high a similarity of attention maps, SimAM, as trained ones.

    Measured: SimAM of the trained model less that of an untrained model of the same shape, means over queries.

    Control: a model without any similarity in place of the untrained one, so that the difference is SimAM itself.

    Settings: those of deutch-untrained-outputs.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return _excess(trial, "am")


@claim("deutch-layer-causal", DEUTCH, "Table 3", cost=(20, 55), needs=NEEDS)
def layer_causal(trial: Trial) -> Measurement:
    """Layer-causal gradient descent is more like in-context learning than gradient descent, in attention outputs and in
    the change of attention maps.

    Measured: SimAOU and SimAM_Δ of layer-causal descent less those of gradient descent.

    Control: gradient descent at half the rate in place of layer-causal descent.

    Settings: those of deutch-untrained-outputs. The paper reports 0.167 against 0.102, and 0.336 against 0.267.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    plain, causal = similar(trial, "trained", "gd"), similar(trial, "trained", "layer-causal")
    half = similar(trial, "trained", "gd", RATE / 2)
    return Measurement(
        {
            name: (mean(causal[key]) - mean(plain[key]), mean(half[key]) - mean(plain[key]))
            for name, key in (("outputs", "aou"), ("maps", "am_delta"))
        },
        reported={"descent": mean(plain["aou"]), "layer-causal": mean(causal["aou"])},
    )
