"""Transformers learn to implement preconditioned gradient descent (Ahn et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.models import LSA, Learner, LSAModel, SparseForm, gd_construction
from inweights.lab.predictors import PreconditionedGD
from inweights.lab.tasks import Linear, Rotated, Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._asked import apart as parted
from inweights.papers._asked import asked_weights
from inweights.papers._descent import best_descent, excess, mean_square, prompts, trained
from inweights.papers._papers import AHN

D, N = 5, 20


@claim("ahn-construction", AHN, "Lemma 1", exact=True, cost=(1, 1))
@torch.no_grad()
def construction(trial: Trial) -> Measurement:
    """With weights `P = diag(0, 1)` and `Q = −diag(A, 0)`, layers of linear self-attention compute gradient descent
    preconditioned by A, one step for each layer.

    Measured: the distance of the implicit weights of 1, 2 and 3 layers, measured with all unit vectors as queries, from
    those of the descent, relative to their norm. `transposed`: the same with descent preconditioned by Aᵀ, which is the
    corrected form; for these A and for symmetric ones.

    Control: descent preconditioned by the identity, with the step size closest to A.

    Settings: 5 dimensions, 20 normal examples, 64 or 512 prompts, float64; A are random and not symmetric; the lemma
    does not require symmetry.
    """
    sample = prompts(trial, Linear(dims=D), trial.size(64, 512), N)
    both = preconditioners(trial)
    errors, controls = (apart_from_descent(sample, both[0], by) for by in (both[0], identity_part(both[0])))
    right, wrong = (
        torch.cat([apart_from_descent(sample, of, by) for of, by in zip(both, each, strict=True)])
        for each in ([a.mT for a in both], [identity_part(a) for a in both])
    )
    return Measurement({"error": (errors, controls), "transposed": (right, wrong)})


def preconditioners(trial: Trial) -> tuple[Tensor, Tensor]:
    """One for each of three layers, `(3, dims, dims)`: random ones, and their symmetric parts."""
    drawn = trial.draw(3, 1, dtype=torch.float64).normal(D, D)
    general = 0.5 * torch.eye(D).to(drawn) + 0.2 * drawn
    return general, (general + general.mT) / 2


def identity_part(matrices: Tensor) -> Tensor:
    """The multiples of the identity nearest to matrices, of the same shape."""
    return matrices.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] * torch.eye(matrices.shape[-1]).to(matrices)


def apart_from_descent(sample: Sample, matrices: Tensor, by: Tensor) -> Tensor:
    """The distances of 1, 2 and 3 layers with the A `matrices` from descent preconditioned by `by`: `(3 prompts,)`."""
    results = []
    for layers in (1, 2, 3):
        model = LSAModel(LSA(layers=layers, form="sparse"), D, 1).to(sample.xs)
        form = sparse(model)
        form.a.copy_(matrices[:layers].unsqueeze(1))
        form.b.zero_()
        wanted = PreconditionedGD(matrices=by[:layers]).weights(sample.xs, sample.ys)[:, -1]
        results.append(parted(asked_weights(model, sample.xs, sample.ys), wanted))
    return torch.cat(results)


def sparse(model: Learner) -> SparseForm:
    assert isinstance(model, LSAModel)
    assert isinstance(model.form, SparseForm)
    return model.form


def matrix(model: LSAModel) -> Tensor:
    """The A of a model with one layer, independent of the scale of its two products: `(dims, dims)`."""
    out, compare = (each[0, 0] for each in model.form.products())
    return -out[D, D] * compare[:D, :D]


def apart(result: Tensor, wanted: Tensor) -> float:
    """The distance of two matrices relative to the norm of the second."""
    return ((result - wanted).norm() / wanted.norm()).item()


@claim("ahn-optimum", AHN, "Theorem 1", cost=(3.6, 16), needs=("ahn-1",))
def optimum(trial: Trial) -> Measurement:
    """The best weights of one layer compute a step preconditioned by `A = n / (n + d + 1) I` if inputs are standard
    normal; training converges to them.

    Measured: the mean squared error, which theory predicts as d (d + 1) / (n + d + 1) = 1.154; and the distance of the
    A in the weights from the best, relative to its norm.

    Control: the same for `A = I`, which would be best for infinitely many examples.

    Settings: 5 dimensions, 20 examples, no weight fixed; 50,000 or 200,000 prompts, float64.
    """
    sample = prompts(trial, Linear(dims=D), trial.size(50_000, 200_000), N)
    model = trained(trial, "ahn-1")
    control = gd_construction(LSAModel(LSA(form="products"), D, 1).to(sample.xs), 1.0, N).requires_grad_(False)
    best = PreconditionedGD.one_step(torch.eye(D).to(sample.xs), N).matrices
    return Measurement(
        {
            "loss": (mean_square(model, sample), mean_square(control, sample)),
            "matrix": (apart(matrix(model), best), apart(matrix(control), best)),
        },
        reported={"theory": D * (D + 1) / (N + D + 1)},
    )


def from_identity(matrices: Tensor) -> Tensor:
    """The distances of matrices from multiples of the identity, relative to their norms: `(…, d, d)` → `(…)`."""
    return torch.linalg.matrix_norm(matrices - identity_part(matrices)) / torch.linalg.matrix_norm(matrices)


def from_theorem(model: Learner, root: Tensor) -> float:
    """The largest distance of any `Σ^½ A Σ^½` or B from a multiple of the identity; `root` is `Σ^½`. The last B is left
    out, as no prediction depends on it."""
    form = sparse(model)
    return max(from_identity(root @ form.a @ root).max().item(), from_identity(form.b[:-1]).max().item())


@claim("ahn-three-layers", AHN, "Theorem 4 and section 5.1, where Σ = I", cost=(2.4, 15), needs=("ahn-3",))
@torch.no_grad()
def three_layers(trial: Trial) -> Measurement:
    """Three layers of the form P = diag(B, 1), Q = −diag(A, 0) learn multiples of the identity as A and B if inputs are
    standard normal, which is GD++, and have less error than three steps of gradient descent.

    Measured: the mean squared error; its relative excess over that of gradient descent with the best three step sizes;
    the largest relative distance of any A or B from a multiple of the identity, without the last B, on which no
    prediction depends.

    Control: the same for the untrained model.

    Settings: 5 dimensions, 20 examples; 5,000 or 50,000 prompts, float64. The loss is that of the authors' notebook.
    """
    task = Linear(dims=D)
    sample = prompts(trial, task, trial.size(5000, 50_000), N)
    with torch.enable_grad():  # for the search of the best steps
        descent, better = (best_descent(trial, task, N, 3, plus=plus).model(D) for plus in (False, True))
    model = trained(trial, "ahn-3")
    control = build(trial.recipe("ahn-3")).to(sample.xs)
    eye = torch.eye(D).to(sample.xs)
    return Measurement(
        {
            "loss": (mean_square(model, sample), mean_square(control, sample)),
            "against_gd": (excess(model, descent, sample), excess(control, descent, sample)),
            "identity": (from_theorem(model, eye), from_theorem(control, eye)),
        },
        reported={"loss of GD++": mean_square(better, sample), "paper": 0.001},
    )


@claim("ahn-rotated", AHN, "Theorem 4 and section 5.1, Figure 3", cost=(1.2, 4), needs=("ahn-rotated",))
@torch.no_grad()
def rotated(trial: Trial) -> Measurement:
    """If inputs have the covariance Σ and weights its inverse, three layers of that form learn multiples of the inverse
    covariance as A, and of the identity as B.

    Measured: the largest relative distance of any `Σ^½ A Σ^½` or B from a multiple of the identity, without the last B,
    on which no prediction depends.

    Control: the same for the untrained model.

    Settings: 5 dimensions, 20 examples (the paper: 10), eigenvalues 1, 1, 1/4, 1/16 and 1 along axes that each seed
    draws anew, as in the paper; float64. Also measured: the same for A itself, which would be 0 for plain gradient
    descent.
    """
    task = trial.recipe("ahn-rotated").make_task()
    assert isinstance(task, Rotated)
    model = trained(trial, "ahn-rotated")
    values, axes = torch.linalg.eigh(task.covariance(trial.device, torch.float64))
    root = axes * values.sqrt() @ axes.mT
    control = build(trial.recipe("ahn-rotated")).to(root)
    loss = mean_square(model, prompts(trial, task, trial.size(5000, 50_000), N))
    reported = {"A itself": from_identity(sparse(model).a).mean().item(), "loss": loss, "paper": 8.1e-4}
    return Measurement({"identity": (from_theorem(model, root), from_theorem(control, root))}, reported=reported)
