"""Small models, examples and losses for tests of closed forms."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.folding._examples import Examples
from inweights.folding._frame import Frame
from inweights.models import Model
from inweights.models._load import as_model
from inweights.models._tiny import tiny
from inweights.running._hidden import run
from inweights.running._precision import KeepFloat64
from inweights.theory import Update, exchanged


def model(family: str = "llama", dtype: torch.dtype = torch.float64) -> Model:
    return as_model(tiny(family, 0).to(dtype))


def examples(of: Model, n: int, before: tuple[int, ...] = (1,), longest: int = 4, seed: int = 0) -> Examples:
    """Queries and answers of random tokens, after a random context."""
    generator = torch.Generator().manual_seed(seed)

    def some(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, 90, (count,), generator=generator).tolist())

    frame = Frame(of, "the context", False, before, some(9))
    asked, output = ([some(low + i % longest) for i in range(n)] for low in (2, 2))
    return Examples(frame, ("?",) * n, tuple(asked), tuple(output))


def changed(of: Model, updates: dict[str, Update]) -> dict[str, Tensor]:
    """The patched parameters; GPT-2 stores its matrices transposed."""
    turned = {name for name, m in of.model.named_modules() if type(m).__name__ == "Conv1D"}
    return {
        name: (u.mT if name.removesuffix(".weight") in turned else u).added_to(of.model.get_parameter(name).detach())
        for name, u in updates.items()
    }


def answers(of: Model, made: Examples, updates: dict[str, Update] | None = None, prompted: bool = False) -> Tensor:
    """The logits of all answer tokens, `(tokens, vocabulary)`, by plain forwards of one sequence each."""
    result = []
    ahead = (*made.frame.before, *(made.frame.folded if prompted else ()))
    with KeepFloat64(), torch.no_grad(), exchanged(of.model, changed(of, updates or {})):
        for asked, output in zip(made.asked, made.answers, strict=True):
            result.append(run(of.model, torch.tensor([[*ahead, *asked, *output[:-1]]]))[0, -len(output) :])
    return torch.cat(result)


def losses(of: Model, made: Examples, *folds: dict[str, Update] | None) -> list[float]:
    """The mean divergence from the prompted model's next tokens with each of these updates; None: without any."""
    goal = answers(of, made, prompted=True).log_softmax(-1)
    return [
        float(F.kl_div(answers(of, made, updates).log_softmax(-1), goal, log_target=True, reduction="batchmean"))
        for updates in folds
    ]


def same(a: dict[str, Update], b: dict[str, Update], off: float = 1e-9) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name].dense(), b[name].dense(), rtol=0, atol=off)
