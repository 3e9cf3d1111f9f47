"""Shen et al. 2024: in-context learning depends on the order of demonstrations, gradient descent does not."""

from __future__ import annotations

from torch import Tensor

from inweights.compare import Shots, descend, over_orders, shots, way, zero_shot
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.models import Model
from inweights.papers._demonstrated import NEEDS, drawn, given, mean, read_in_context, stored, task
from inweights.papers._papers import SHEN

N = 4


def _sensitivity(trial: Trial, name: str) -> dict[str, list[float]]:
    """The order sensitivity of each query: in context, and of a descent over two disjoint sets of orders."""
    model, shown = given(trial, N, trial.size(12, 50))
    count, epochs = trial.size(3, 5), trial.size(2, 10)
    both = drawn(trial, N, 2 * count).tolist()

    def measure() -> dict[str, list[float]]:
        halves = [
            over_orders(model, shown, way(name), 1e-4, some, epochs=epochs) for some in (both[:count], both[count:])
        ]
        return {"first": halves[0]["sensitivity"], "second": halves[1]["sensitivity"]}

    icl = read_in_context(trial, model, shown, trial.size(6, 10))
    return stored(f"shen-{name}", trial, measure) | {"icl": icl.sensitivity(shown.labels)["sensitivity"]}


def _ratio(trial: Trial, name: str) -> Measurement:
    results = {key: mean(values) for key, values in _sensitivity(trial, name).items()}
    return Measurement(
        {"ratio": (results["icl"] / results["first"], results["second"] / results["first"])},
        reported={"in context": results["icl"], "descent": results["first"]},
    )


@claim("shen-order-icl", SHEN, "Section 4.2, Figure 4", cost=(20, 225), needs=NEEDS)
def order_icl(trial: Trial) -> Measurement:
    """In-context learning is sensitive to the order of its demonstrations.

    Measured: for each query the standard deviation over orders of each token's probability, summed over the vocabulary.

    Control: gradient descent on all demonstrations at once, in three orders.

    Settings: SmolLM2-135M, not the paper's LLaMA-7B; past tense, plurals and, in full, SST-2; 4 demonstrations, 6
    orders, 12 queries (full: 10, 50); descent at rate 1e-4 for 2 epochs (full: 10), float32. The paper reports 0.10 to
    0.15, and at most 0.05 for descent.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    model, shown = given(trial, N, trial.size(12, 50))
    icl = read_in_context(trial, model, shown, trial.size(6, 10))
    few = drawn(trial, N, 3).tolist()
    epochs = trial.size(2, 10)
    still = stored(
        "shen-gd",
        trial,
        lambda: {"gd": over_orders(model, shown, way("gd"), 1e-4, few, epochs=epochs)["sensitivity"]},
    )
    both = icl.sensitivity(shown.labels)
    return Measurement(
        {"sensitivity": (both["sensitivity"], still["gd"])}, reported={"over labels": mean(both["sensitivity_labels"])}
    )


def _apart(model: Model, shown: Shots, name: str, epochs: int, every: int) -> list[Tensor]:
    """The largest difference of log-probabilities between two orders at each checkpoint, at rate 1e-4."""
    pair = [0, 1, 2, 3], [3, 1, 0, 2]
    runs = [descend(model, shown, way(name), 1e-4, epochs=epochs, every=every, order=order) for order in pair]
    return [
        (zero_shot(model, shown, one.descent.forward) - zero_shot(model, shown, other.descent.forward)).abs().max()
        for one, other in zip(*runs, strict=True)
    ]


@claim(
    "shen-order-gd",
    SHEN,
    "Theorem 1: gradient descent is order-stable",
    exact=True,
    cost=(84, 320),
    needs=NEEDS,
)
def order_gd(trial: Trial) -> Measurement:
    """Gradient descent on all demonstrations at once does not depend on their order.

    Measured: the largest difference of the log-probabilities of any token after any query between two orders.

    Control: a step for each demonstration, in the two orders.

    Settings: SmolLM2-135M in float64, all weights, rate 1e-4, 5 epochs (full: 20), 4 demonstrations, 8 queries; in full
    also in float32, where the differences that rounding makes grow with the epochs (figure).
    """
    epochs, every = trial.size(5, 20), trial.size(5, 5)

    def at(dtype: str, name: str) -> list[float]:
        model = trial.language_model(dtype)
        shown = shots(model, task(trial), N, 8, trial.seed)
        return [float(gap) for gap in _apart(model, shown, name, epochs, every)]

    exact, stochastic = at("float64", "gd"), at("float64", "sgd-1")
    lines = {"full batch, float64": exact, "a step for each, float64": stochastic}
    if not trial.quick:
        lines["full batch, float32"] = at("float32", "gd")
    x = [float(every * (k + 1)) for k in range(len(exact))]
    plot = Plot(
        "Two orders of the same demonstrations", "epochs", "largest difference of log-probabilities", x, lines, "y"
    )
    return Measurement({"difference": (exact, stochastic)}, plot)


@claim("shen-order-sgd", SHEN, "Section 4.2, Figure 4", cost=(49, 730), needs=NEEDS)
def order_sgd(trial: Trial) -> Measurement:
    """In-context learning is at least three times as sensitive to order as SGD.

    Measured: the ratio of the two order sensitivities, each a mean over queries.

    Control: SGD over other orders in place of in-context learning.

    Settings: as for shen-order-icl; SGD on all weights, a step for each demonstration, rate 1e-4, 2 epochs (full: 10),
    3 orders (full: 5). Sensitivity grows with rate and epochs; the paper reports all of them below that of in-context
    learning.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return _ratio(trial, "sgd-1")


@claim("shen-order-adam", SHEN, "Section 4.2, Figure 4", cost=(74, 1210), needs=NEEDS)
def order_adam(trial: Trial) -> Measurement:
    """In-context learning is at least three times as sensitive to order as Adam.

    Measured: the ratio of the two order sensitivities, each a mean over queries.

    Control: Adam over other orders in place of in-context learning.

    Settings: those of shen-order-sgd, with Adam at rate 1e-4.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    return _ratio(trial, "adam-1")
