"""In-context learning and gradient descent revisited (Deutch et al. 2024): untrained models, layer-causal descent."""

from __future__ import annotations

from inweights.ledger import Measurement, Trial, claim
from inweights.papers._demonstrated import NEEDS, RATE, mean, similar
from inweights.papers._papers import DEUTCH


def _excess(trial: Trial, measure: str) -> Measurement:
    """How much higher a similarity is in the trained model than in an untrained one."""
    trained, bare = (similar(trial, kind, "gd") for kind in ("trained", "untrained"))
    return Measurement(
        {"excess": (mean(trained[measure]) - mean(bare[measure]), mean(trained[measure]))},
        reported={"trained": mean(trained[measure]), "untrained": mean(bare[measure])},
    )


@claim("deutch-untrained-outputs", DEUTCH, "Table 1: SimAOU", cost=(60, 300), needs=NEEDS)
def untrained_outputs(trial: Trial) -> Measurement:
    """Untrained models have as high a similarity of attention outputs, SimAOU, as trained ones.

    Measured: SimAOU of the trained model less that of an untrained model of the same shape, means over queries.

    Control: a model without any similarity in place of the untrained one, so that the difference is SimAOU itself.

    Settings: SmolLM2-135M, not the paper's GPT of 1.3 billion; past tense, plurals and, in full, SST-2; 4
    demonstrations (paper: 32); full batch on all weights, rate 1e-4, 3 epochs (full: 10); the paper trains keys and
    values by SGD for one epoch. 2 queries (full: 16). The paper reports 0.05 and 0.09, 0.17 and 0.18.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return _excess(trial, "aou")


@claim("deutch-untrained-maps", DEUTCH, "Table 1: SimAM", cost=(60, 300), needs=NEEDS)
def untrained_maps(trial: Trial) -> Measurement:
    """Untrained models have as high a similarity of attention maps, SimAM, as trained ones.

    Measured: SimAM of the trained model less that of an untrained model of the same shape, means over queries.

    Control: a model without any similarity in place of the untrained one, so that the difference is SimAM itself.

    Settings: those of deutch-untrained-outputs.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return _excess(trial, "am")


@claim("deutch-layer-causal", DEUTCH, "Table 3", cost=(60, 300), needs=NEEDS)
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
