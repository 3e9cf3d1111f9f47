"""Claims of the notes about what cannot be learned in context, and why."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.models import LSA, LSAModel, Softmax
from inweights.lab.predictors import OLS
from inweights.lab.tasks import Linear, Parity, Quadratic, Task
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES

DIMS = 5
SIGNS = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)


def drawn(settings: LSA, random: torch.Generator) -> LSAModel:
    """Attention over raw tokens with random weights, float64."""
    model = settings.build(Linear(dims=DIMS), 0).double()
    products = next(model.form.parameters()).shape
    out, compare = (0.3 * torch.randn(*products, generator=random, dtype=torch.float64) for _ in range(2))
    model.form.write(out, compare)
    return model


def correlation(model: LSAModel, xs: Tensor, ys: Tensor) -> Tensor:
    """How much predictions depend on the product of the first two coordinates of a query, `(batch,)`: the mean of their
    product with it over all four signs of the two, relative to their root mean square."""
    queries = xs[:, -1:].repeat(1, len(SIGNS), 1)
    queries[..., :2] = SIGNS
    prompts = torch.cat([xs[:, :-1].unsqueeze(1).expand(-1, len(SIGNS), -1, -1), queries.unsqueeze(2)], 2)
    answers = model(prompts.flatten(0, 1), ys.repeat_interleave(len(SIGNS), 0))[:, -1].view(len(xs), len(SIGNS))
    return (answers * SIGNS.prod(-1)).mean(-1).abs() / answers.square().mean(-1).sqrt()


@claim("note-limit-linear", NOTES, "004, section 9.2, limits", exact=True, cost=(0.2, 1))
@torch.no_grad()
def limit_linear(trial: Trial) -> Measurement:
    """Some tasks cannot be learned in context: linear self-attention, of any depth and with any weights, learns no
    label that is not linear in the query, such as the parity of two signs, from no number of examples.

    Measured: the correlation of its predictions with the parity over all four signs of the two coordinates, in contexts
    of 4, 20 and 100 examples of this parity.

    Control: the same weights with softmax attention, the mean over contexts.

    Settings: 5 signs, of which the first two matter; 1, 2 and 4 layers with random weights; 20 contexts (full: 200),
    float64. The reason: a layer multiplies the query's token by a matrix that depends on the examples alone.
    """
    values: list[Tensor] = []
    controls: list[Tensor] = []
    for step, n in enumerate((4, 20, 100)):
        xs = Parity(dims=DIMS).inputs(trial.draw(trial.size(20, 200), step, dtype=torch.float64), n + 1)
        ys = xs[..., 0] * xs[..., 1]
        for layers in (1, 2, 4):
            linear, softmax = (
                drawn(kind(layers=layers, heads=2, form="products"), trial.generator()) for kind in (LSA, Softmax)
            )
            values.append(correlation(linear, xs, ys))
            controls.append(correlation(softmax, xs, ys).mean(0, keepdim=True))
    return Measurement({"correlation": (torch.cat(values), torch.cat(controls))})


@claim("note-limit-class", NOTES, "004, section 9.2, limits", needs=("depth-8",), cost=(1.7, 5))
def limit_class(trial: Trial) -> Measurement:
    """Some tasks cannot be learned in context: a learner of one class of functions does not learn those of another,
    from no number of examples, although they suffice for others.

    Measured: the squared error of a decoder trained on linear functions on quadratic ones, in units of always answering
    0, after that number of 5 to 15 examples where it is smallest.

    Control: the same on linear functions.

    Settings: `depth-8`, 5 dimensions, 1,024 prompts (full: 8,192). Reported: the error with the squares of the inputs
    in their place, of which these functions are linear ones: what is missing is the class, not the examples.

    Precondition: least squares on the squares learns these functions from 15 examples: its error is below 0.01.
    """
    model, prompts = trial.trained("depth-8"), trial.size(1024, 8192)

    def errors(task: Task, squares: bool = False) -> tuple[Tensor, Tensor]:
        """The errors of the decoder and of least squares after each number of examples, `(16,)`."""
        sample = task.sample(trial.draw(prompts), 16)
        xs = sample.xs.square() / 3**0.5 if squares else sample.xs
        answers = [p.predict_prefixes(xs, sample.ys) for p in (model, OLS())]
        one, other = ((a.double() - sample.ys).square().mean(0) / task.power for a in answers)
        return one, other

    quadratic, linear = Quadratic(dims=DIMS), Linear(dims=DIMS)
    squared, exact = errors(quadratic, squares=True)
    trial.require(float(exact[-1]) < 0.01, f"least squares on the squares has an error of {exact[-1]:.3g}")
    lines = {"quadratic": errors(quadratic)[0], "linear": errors(linear)[0], "quadratic, given the squares": squared}
    plot = Plot("A learner of linear functions", "examples", "share of always answering 0", range(1, 16),
                {name: line[1:].tolist() for name, line in lines.items()}, log="y")  # fmt: skip
    value, control = (float(lines[name][5:].min()) for name in ("quadratic", "linear"))
    return Measurement({"error": (value, control)}, plot, {"given the squares": float(squared[5:].min())})
