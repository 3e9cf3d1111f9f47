"""Section 4 of Dherin et al. on the demo page: its three figures and the tables behind them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from inweights._figures import HEADER, Curve, Figure
from inweights._files import write_atomic, write_csv
from inweights.lab import bootstrap
from inweights.lab.section4 import Section4
from inweights.report._page import Section


def section4_summary(result: Section4) -> list[tuple[str, str, str]]:
    """Table rows: quantity, measured value, value to compare with."""
    n = result.numbers()
    return [
        ("loss with the prompt", f"{n['prompt_loss']:.4f}", f"{n['untrained_loss']:.4f} untrained"),
        ("loss with the weights, no prompt", f"{n['weights_loss']:.4f}", ""),
        ("largest difference of predictions, float32", f"{n['max_difference_float32']:.1e}", ""),
        (
            "largest difference of predictions, float64",
            f"{n['max_difference_float64']:.1e}",
            f"{n['control_difference']:.2f} random ΔW of equal norm (median)",
        ),
        ("size of the update, ‖ΔW‖/‖W‖ (median)", f"{n['relative_update']:.2f}", ""),
        (
            "‖ΔWᵢ − ΔWᵢ₋₁‖ falls as i to the power",
            f"{n['increment_exponent_trained']:.2f}",
            f"{n['increment_exponent_untrained']:.2f} untrained",
        ),
        (
            f"loss on {len(result.tuned.sgd)} other tasks: {result.settings.examples} examples read",
            _with_band(result.tuned.implicit),
            f"{n['implicit_loss_borrowed']:.3f} ΔW of another query",
        ),
        (
            f"loss on the same: SGD on {result.settings.examples} examples",
            _with_band(result.tuned.sgd),
            f"{n['finetuning_loss_untrained']:.3f} SGD, untrained block",
        ),
    ]


def _with_band(losses: Tensor) -> str:
    """The mean loss after the last example, with its 95% interval."""
    band = bootstrap(losses[:, -1])
    return f"{band.mean:.3f} ({band.low:.2f}–{band.high:.2f})"


def section4_figures(result: Section4) -> dict[str, Figure]:
    """The three figures, by file name."""
    n = result.settings.examples

    def spread(label: str, values: Tensor, colour: str) -> Curve:
        """The median and the interquartile range over prompts."""
        low, mid, high = values.double().quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64), 0)
        return Curve(label, range(1, n + 1), mid.tolist(), colour, low=low.tolist(), high=high.tolist())

    def mean(label: str, values: Tensor, colour: str) -> Curve:
        band = bootstrap(values)
        low, high = band.low.tolist(), band.high.tolist()
        return Curve(label, range(n + 1), band.mean.tolist(), colour, low=low, high=high)

    prompt, weights = ([getattr(c, f"{way}_loss") for c in result.during] for way in ("prompt", "weights"))
    return {
        "losses": Figure(
            "With the prompt, or with the weights that replace it",
            "training step",
            "test loss",
            (
                Curve("prompt: T(C, x)", result.steps, prompt, "blue", width=5),
                Curve("weights: T with W + ΔW, x alone", result.steps, weights, "orange", "--", marker="o"),
            ),
            y_scale="log",
        ),
        "increments": Figure(
            "Each further token moves the weights less",
            "context token i",
            "‖ΔWᵢ − ΔWᵢ₋₁‖",
            (
                spread("trained block", result.trained, "blue"),
                spread("untrained block (control)", result.untrained, "grey"),
            ),
            x_scale="log",
            y_scale="log",
        ),
        "finetuning": Figure(
            "Reading examples and training on them",
            "examples read or trained on",
            "test loss",
            (
                mean("implicit: each query with its own ΔW(c₁ … cᵢ)", result.tuned.implicit, "blue"),
                mean("control: with the ΔW of another query", result.tuned.borrowed, "grey"),
                mean(f"SGD on W, rate {result.tuned.rate:g}", result.tuned.sgd, "orange"),
                mean(
                    f"control: SGD, untrained block, rate {result.tuned.untrained_rate:g}",
                    result.tuned.untrained,
                    "green",
                ),
            ),
        ),
    }


def write_section4(result: Section4, folder: Path) -> list[Section]:
    """Writes the figures and the tables behind them; returns their sections of the page."""
    figures = section4_figures(result)
    pictures = {name: figure.png() for name, figure in figures.items()}
    for name, figure in figures.items():
        write_atomic(folder / f"{name}.png", pictures[name])
        write_csv(folder / f"{name}.csv", HEADER, figure.rows())
    return [
        _overview(result),
        _losses(result, pictures["losses"]),
        _increments(result, pictures["increments"]),
        _finetuning(result, pictures["finetuning"]),
    ]


def _overview(result: Section4) -> Section:
    s = result.settings
    return Section(
        "One block, trained here",
        (
            f"Section 4 of Dherin et al., Learning without training (arXiv 2507.16003); seed {s.seed}, training "
            f"took {result.seconds:.0f} s.",
        ),
        header=("", "measured", "to compare"),
        rows=section4_summary(result),
    )


def _losses(result: Section4, picture: bytes) -> Section:
    s, n = result.settings, result.numbers()
    return Section(
        "1. The prompt is a weight update",
        (
            f"A transformer of one block learns linear regression in context: {s.dims} dimensions, "
            f"{s.examples} solved examples in the prompt, {s.steps} training steps. At {len(result.steps)} "
            "moments of the training its loss on 1,000 new prompts is measured twice: with the prompt, and "
            "without it after adding ΔW = (W ΔA) A(x)ᵀ/‖A(x)‖², one rank-1 update for each prompt, to its "
            "first dense matrix.",
            "The theorem says that the curves coincide. The largest difference between two predictions is "
            f"{n['max_difference_float32']:.1e} in float32 and {n['max_difference_float64']:.1e} in float64; "
            f"with a random rank-1 update of the same norm it is {n['control_difference']:.1f}.",
        ),
        picture,
        "Test loss during training, with the prompt and with the weights.",
        "losses.csv",
    )


def _increments(result: Section4, picture: bytes) -> Section:
    n = result.numbers()
    return Section(
        "2. Each further token moves the weights less",
        (
            "As the prompt is read, W moves by gradient steps on one linear loss for each token "
            "(Proposition 3.1). The figure shows the norm of the step that token i causes: median and "
            "interquartile range over 1,000 prompts.",
            f"It falls as i to the power {n['increment_exponent_trained']:.2f}. The control: in the untrained block "
            f"it falls as i to the power {n['increment_exponent_untrained']:.2f}, since softmax "
            "attention averages over the context. The decay alone is no evidence of learning.",
        ),
        picture,
        "Norm of the weight increments against the token's index, for the trained and the untrained block.",
        "increments.csv",
    )


def _finetuning(result: Section4, picture: bytes) -> Section:
    n, trials, rates = result.numbers(), result.tuned.sgd.shape[0], len(result.tuned.rates)
    return Section(
        "3. Reading examples and training on them",
        (
            "On other tasks, the trained block either reads the first i examples (its W is changed by ΔW) or "
            "is trained on them by SGD, one example at a time, on the same matrix W. Mean test loss over "
            f"{trials} tasks, bands: 95% bootstrap intervals. The learning rate of SGD is the best of {rates}, chosen "
            "on separate tasks.",
            "The two are not equivalent. SGD produces one W for all queries of a task; the implicit update differs "
            "for each query, and applied to another query it gives a loss of "
            f"{n['implicit_loss_borrowed']:.2f} instead of {n['implicit_loss']:.2f}. SGD also learns these tasks just "
            f"as well in an untrained block ({n['finetuning_loss_untrained']:.3f} against "
            f"{n['finetuning_loss']:.3f}): that both curves fall is no evidence that reading is training.",
        ),
        picture,
        "Test loss against the number of examples, for the implicit update and for SGD.",
        "finetuning.csv",
    )
