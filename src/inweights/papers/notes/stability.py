"""Claims of the notes about what makes in-context learning stable: temperature, LayerNorm, the scale of branches."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._bounded import Bounded, bounded, constant, count, unit_tokens
from inweights.papers._papers import NOTES

LAYERS, WIDTH, POINTS, GAMMA = 2, 16, 20, 8.0
"""Γ is as large as that of a transformer whose attention selects: at Γ = 0 no temperature matters."""


def given(trial: Trial) -> tuple[Bounded, Tensor]:
    """Random transformers without skip connections or norms, and a prompt for each."""
    random = trial.generator()
    model = bounded(random, count(trial), LAYERS, WIDTH, GAMMA)
    return model, unit_tokens(random, count(trial), POINTS, WIDTH)


def without_scores(model: Bounded) -> Bounded:
    """The same with W = 0: attention averages, whatever is varied in its scores."""
    return model.sharper(0.0)


def ratio(one: Bounded, other: Bounded, tokens: Tensor) -> float:
    """The stability constant of the first over that of the second."""
    return constant(one, tokens) / constant(other, tokens)


@claim("note-stable-temperature", NOTES, "004, section 3.2", cost=(0.4, 15))
def temperature(trial: Trial) -> Measurement:
    """A condition of stability is the temperature of the softmax: the higher it is, the more stable is the transformer.

    Measured: the stability constant at temperature 4, divided by that at temperature 1/4: m times the change of the
    output by the most influential example, as in the theorem. The note lists the condition without a direction or a
    number: that a higher temperature must reduce the constant, by 10% at least, is our reading.

    Control: the same transformers with W = 0, in which there is nothing for a temperature to act on.

    Settings: random transformers of 2 layers of width 16, Γ = 8, without norms and skip connections; 20 points, 16
    transformers (full: 64), float64. Also measured: the same relative to the norm of the output, which shrinks as well
    if attention averages over more tokens.
    """
    model, tokens = given(trial)
    steps = (0.25, 0.5, 1.0, 2.0, 4.0)
    lines = {
        name: [constant(replace(one, temperature=t), tokens, relative=False) for t in steps]
        for name, one in (("Γ = 8", model), ("Γ = 0", without_scores(model)))
    }
    plot = Plot("Stability and temperature", "temperature", "constant K", steps, lines, log="xy")
    value, control = (line[-1] / line[0] for line in lines.values())
    hot, cold = (replace(model, temperature=t) for t in (steps[-1], steps[0]))
    return Measurement({"ratio": (value, control)}, plot, {"relative to the output": ratio(hot, cold, tokens)})


@claim("note-stable-norm", NOTES, "004, section 3.2", cost=(0.2, 15))
def layer_norm(trial: Trial) -> Measurement:
    """A condition of stability is layer normalisation: with it, the transformer is more stable.

    Measured: the stability constant of transformers whose layers read their input through LayerNorm, divided by that of
    the same transformers without it: m times the change of the output by the most influential example, relative to the
    output. The note lists the condition without a number: that it must reduce the constant by 10% is our reading.

    Control: values twice as large in place of the norm, in one layer without a skip connection: output and change both
    double.

    Settings: random transformers of 2 layers of width 16 with skip connections, Γ = 8; LayerNorm divided by √width, so
    that tokens have norm 1 as without it; 20 points, 16 transformers (full: 64), float64. Also measured: the same
    without skip connections.
    """
    model, tokens = given(trial)
    skipping = replace(model, branch=1.0)
    first = Bounded(model.compare[:1], model.values[:1], model.mlp[:1])
    return Measurement(
        {
            "ratio": (
                ratio(replace(skipping, norm=True), skipping, tokens),
                ratio(replace(first, values=2 * first.values), first, tokens),
            )
        },
        reported={"without skip connections": ratio(replace(model, norm=True), model, tokens)},
    )


@claim("note-stable-residual", NOTES, "004, section 3.2", cost=(0.2, 15))
def residual(trial: Trial) -> Measurement:
    """A condition of stability is the scaling of residual connections: the smaller the branch, the more stable is the
    transformer.

    Measured: the stability constant with branches times 1/4, divided by that with branches as they are: m times the
    change of the output by the most influential example, relative to the output. The note lists the condition without a
    direction or a number: that smaller branches must reduce the constant, by 10% at least, is our reading.

    Control: the same factor on values in one layer without a skip connection: output and change are both a quarter.

    Settings: random transformers of 2 layers of width 16, Γ = 8, `X + s · branch`; 20 points, 16 transformers (full:
    64), float64.
    """
    model, tokens = given(trial)
    first = Bounded(model.compare[:1], model.values[:1], model.mlp[:1])
    scales = (0.25, 0.5, 1.0, 2.0)
    line = [constant(replace(model, branch=s), tokens) for s in scales]
    plot = Plot("Stability and branches", "scale of the branch", "constant K", scales, {"Γ = 8": line}, log="xy")
    control = ratio(replace(first, values=first.values / 4), first, tokens)
    return Measurement({"ratio": (line[0] / line[2], control)}, plot)
