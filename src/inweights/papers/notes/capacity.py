"""Claims of the notes about the parts of a transformer: attention heads as algorithms that run in parallel."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.models import LSA, LSAModel
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers._random_blocks import each

DIMS, EXAMPLES = 5, 20


def normal(random: torch.Generator, *shape: int) -> Tensor:
    """Standard normal, float64."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def two_algorithms(rates: Tensor, preconditioners: Tensor) -> LSAModel:
    """A layer of linear self-attention with a head for each label: head h takes a step of gradient descent on label h
    with its own rate `(2,)` and preconditioner `(2, dims, dims)`, averaged over examples."""
    model = LSAModel(LSA(heads=2, form="products"), DIMS, 2).double()
    out, compare = (torch.zeros(1, 2, DIMS + 2, DIMS + 2, dtype=torch.float64) for _ in range(2))
    for h in range(2):
        out[0, h, DIMS + h, DIMS + h] = -rates[h]
        compare[0, h, :DIMS, :DIMS] = preconditioners[h]
    model.form.write(out, compare)
    return model


def best_single_head(rates: Tensor, preconditioners: Tensor) -> LSAModel:
    """The same with one head, which has one preconditioner for both labels: the closest to both, times a rate for each.

    Stacked as two rows, the products of rates and preconditioners would have rank 1: the best such rows are those of
    the singular value decomposition.
    """
    u, s, v = torch.linalg.svd((rates[:, None, None] * preconditioners).flatten(1), full_matrices=False)
    common = (s[0] * v[0]).view(1, DIMS, DIMS)
    return two_algorithms(u[:, 0], common.expand(2, -1, -1))


def without_head(model: LSAModel, head: int) -> LSAModel:
    """The model with one head set to zero."""
    out, compare = (products.clone() for products in model.form.products())
    out[:, head] = 0
    other = LSAModel(LSA(heads=2, form="products"), DIMS, 2).double()
    other.form.write(out, compare)
    return other


@claim("note-heads", NOTES, "004, section 6.2, attention heads", exact=True, cost=(0.2, 0.5))
@torch.no_grad()
def heads(trial: Trial) -> Measurement:
    """Attention heads execute algorithms in parallel: two heads of one layer learn two functions of a context at once,
    each by its own algorithm.

    Measured: for each context the largest difference of the predictions of two labels from those of two methods that
    are run separately: a step of gradient descent on the first label, and a step with a preconditioner and another rate
    on the second. `others`: how much the prediction of a label changes without the head of the other label.

    Control: the best single head, which has one preconditioner for both; and how much the prediction of a label changes
    without its own head.

    Settings: linear self-attention, 5 dimensions, 20 examples, labels of two linear functions; 50 contexts (full: 500),
    20 queries each, float64. The preconditioner is a random positive matrix.
    """
    random, contexts = trial.generator(), trial.size(50, 500)
    xs, queries = normal(random, contexts, EXAMPLES, DIMS), normal(random, contexts, 20, DIMS)
    ys = xs @ normal(random, contexts, DIMS, 2)
    factor = normal(random, DIMS, DIMS)
    methods = torch.tensor([0.5, 0.2], dtype=torch.float64), torch.stack([torch.eye(DIMS).double(), factor @ factor.mT])

    def answers(model: LSAModel) -> Tensor:
        """`(2, contexts, queries)`: every query has its own prompt with the same examples."""
        prompts = torch.cat([xs.unsqueeze(1).expand(-1, 20, -1, -1), queries.unsqueeze(2)], 2).flatten(0, 1)
        labels = torch.cat([ys, torch.zeros_like(ys[:, :1])], 1).repeat_interleave(20, 0)
        return model(prompts, labels)[:, -1].view(contexts, 20, 2).permute(2, 0, 1)

    moments = xs.mT @ ys / EXAMPLES  # (contexts, dims, 2)
    wanted = torch.stack(
        [r * (queries @ A.mT @ moments)[..., h] for h, (r, A) in enumerate(zip(*methods, strict=True))]
    )
    model = two_algorithms(*methods)
    result = answers(model)
    ablated = torch.stack([each(answers(without_head(model, h)), result) for h in range(2)])  # (head, label, contexts)
    own = torch.stack([ablated[0, 0], ablated[1, 1]])
    others = torch.stack([ablated[0, 1], ablated[1, 0]])
    single = answers(best_single_head(*methods))
    return Measurement({"error": (each(result, wanted), each(single, wanted).amax(0)), "others": (others, own)})
