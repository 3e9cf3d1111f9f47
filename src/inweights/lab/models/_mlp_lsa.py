"""Linear self-attention after an MLP: gradient descent on learned features."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import Problems
from inweights.lab.models._lsa import LSA, LSAModel
from inweights.lab.models._settings import MODELS, at_least, need_numbers
from inweights.lab.tasks import Task


@MODELS("mlp-lsa")
@dataclass(frozen=True, kw_only=True)
class MlpLSA(LSA):
    """The model lsa on features of the inputs, computed by an MLP: von Oswald et al. 2023, Proposition 2.

    - `features`: the number of features. `hidden`: the hidden width of the MLP.
    """

    features: int = 40
    hidden: int = 160

    def check(self, problems: Problems) -> None:
        super().check(problems)
        at_least(problems, 1, features=self.features, hidden=self.hidden)

    def build(self, task: Task, points: int) -> MlpLSAModel:
        need_numbers("mlp-lsa", task)
        return MlpLSAModel(self, task.dims, task.outputs)


class MlpLSAModel(LSAModel):
    """An lsa over tokens `(m(x), y)`."""

    def __init__(self, settings: MlpLSA, dims: int, outputs: int) -> None:
        super().__init__(settings, settings.features, outputs)
        self.read_in = nn.Linear(dims, settings.features)
        self.up, self.down = (
            nn.Linear(settings.features, settings.hidden),
            nn.Linear(settings.hidden, settings.features),
        )

    def features(self, xs: Tensor) -> Tensor:
        """`m(x)`: `(…, dims)` → `(…, features)`."""
        h: Tensor = self.read_in(xs)
        wide: Tensor = self.down(F.gelu(self.up(h)))
        return h + wide

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        return super().forward(self.features(xs), ys)
