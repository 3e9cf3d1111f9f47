"""Recurrent models and hybrids, which read a prompt token by token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from inweights.blocks import Gated, GatedLinearRecurrence, SelectiveStateSpace
from inweights.lab.models._heads import CausalAttention
from inweights.lab.models._learner import Learner
from inweights.lab.models._pairs import shaped_like, turns
from inweights.lab.models._scan import scan
from inweights.lab.models._selective import selective_scan
from inweights.lab.models._settings import MODELS, Sized, Stacked, need_numbers
from inweights.lab.tasks import Task


@MODELS("lstm")
@dataclass(frozen=True, kw_only=True)
class Lstm(Stacked):
    """LSTM layers (Hochreiter and Schmidhuber 1997) of torch."""

    def build(self, task: Task, points: int) -> StreamModel:
        need_numbers("lstm", task)
        layers, width, _ = self.shape
        return StreamModel(task, width, Cells(width, layers))


@MODELS("griffin")
@dataclass(frozen=True, kw_only=True)
class Griffin(Sized):
    """De et al. 2024: two layers with a gated linear recurrence, then one with attention, repeated.

    Each is followed by a gated MLP. The recurrences encode the order, so attention has no positions; prompts are
    shorter than the paper's window, so that attention covers all tokens.
    """

    def build(self, task: Task, points: int) -> StreamModel:
        need_numbers("griffin", task)
        layers, width, heads = self.shape
        parts: list[nn.Module] = []
        for i in range(layers):
            parts.append(CausalAttention(width, heads) if i % 3 == 2 else GatedRecurrence(width))
            parts.append(Gated(width, 3 * width, activation=F.gelu))
        return StreamModel(task, width, stream(width, parts))


@MODELS("mamba")
@dataclass(frozen=True, kw_only=True)
class Mamba(Stacked):
    """Gu and Dao 2023. Two selective state spaces, with the parameters of one transformer layer, count as one layer."""

    def build(self, task: Task, points: int) -> StreamModel:
        need_numbers("mamba", task)
        layers, width, _ = self.shape
        return StreamModel(task, width, stream(width, [StateSpace(width) for _ in range(2 * layers)]))


@MODELS("hybrid")
@dataclass(frozen=True, kw_only=True)
class Hybrid(Sized):
    """MambaFormer (Park et al. 2024): first a state space in place of positions, then attention and state spaces
    alternate."""

    def build(self, task: Task, points: int) -> StreamModel:
        need_numbers("hybrid", task)
        layers, width, heads = self.shape
        parts: list[nn.Module] = [StateSpace(width)]
        for _ in range(layers):
            parts += [CausalAttention(width, heads), StateSpace(width)]
        return StreamModel(task, width, stream(width, parts))


class StreamModel(Learner):
    """Reads `x_1, y_1, x_2, y_2, …`; the prediction for a point is read at its input token.

    - `body`: a causal module, `(batch, 2 points, width)` to the same shape.
    """

    def __init__(self, task: Task, width: int, body: nn.Module) -> None:
        super().__init__()
        self.read_in = nn.Linear(task.dims + task.outputs, width)
        self.body = body
        self.read_out = nn.Linear(width, task.outputs)

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        # Under autocast products are rounded; the residual stream is not.
        h = self.body(self.read_in(turns(xs, ys)).to(self.read_in.weight.dtype))
        return shaped_like(ys, self.read_out(h[:, ::2]))


def stream(width: int, parts: list[nn.Module]) -> nn.Sequential:
    """A residual stack with pre-norm parts and a final norm."""
    return nn.Sequential(*(Adds(width, part) for part in parts), nn.RMSNorm(width))


class Adds(nn.Module):
    """`h + part(norm(h))`."""

    def __init__(self, width: int, part: nn.Module) -> None:
        super().__init__()
        self.norm, self.part = nn.RMSNorm(width), part

    def forward(self, h: Tensor) -> Tensor:
        added: Tensor = self.part(self.norm(h))
        return h + added


class Cells(nn.Module):
    """LSTM layers, initialised with open forget gates."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        for layer in range(layers):
            nn.init.constant_(getattr(self.lstm, f"bias_hh_l{layer}")[width : 2 * width], 1.0)

    def forward(self, h: Tensor) -> Tensor:
        outputs: Tensor = self.lstm(h)[0]
        return outputs


class StateSpace(nn.Module):
    """Mamba's selective state-space layer, computed by the scan for training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = SelectiveStateSpace(width)

    def forward(self, h: Tensor) -> Tensor:
        at, n = self.layer, h.shape[1]
        taps = at.conv.unsqueeze(1)
        mixed = F.conv1d(at.u(h).mT, taps, at.conv_bias, padding=at.taps - 1, groups=at.inner)[..., :n].mT
        u = F.silu(mixed)
        read = selective_scan(F.softplus(at.delta(u)), u, at.b(u), at.c(u), at.log_rate.exp())
        return at.o((read + at.direct * u) * F.silu(at.z(h)))


class GatedRecurrence(nn.Module):
    """Griffin's recurrent part: a short convolution, the gated linear recurrence, and a gate on its output."""

    def __init__(self, width: int, taps: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, taps, groups=width, padding=taps - 1)
        self.layer = GatedLinearRecurrence(width)
        self.gate, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        mixed = self.conv(h.mT)[..., : h.shape[1]].mT  # over a token and the three before it
        drive = self.layer.drive(mixed, None)
        outputs = self.layer.emit(scan(drive[0], drive[1]), drive)
        return self.out(outputs * F.gelu(self.gate(h)))
