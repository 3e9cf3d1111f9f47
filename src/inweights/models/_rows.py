"""Training rows as weights: TabPFN, a pretrained network that learns tables in context, with fewer rows to read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import InputError, Problems, unknown
from inweights._fetch import Recipe, cache, fetch, intact, store
from inweights.theory import Changes, Shift, Update, implicit_update, residual_bias

TOLERANCE = 1e-9
SIZES = {"iris": 150, "wine": 178, "breast_cancer": 569}  # rows of each table, known before scikit-learn is loaded
FEATURES, CLASSES = 100, 10
_CHUNK = 4  # query rows whose changed weights exist at the same time, 50 MB each
TABPFN = Recipe(
    package="pfns",
    version="0.3.0",
    member="pfns-0.3.0/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt",
    sha256="3c9aadaeddbf51462af8c0ee4b3ca3c697890f77e92318abbb0821b75261c392",
    size=103_350_223,
    licence="Apache-2.0",
    sdist=True,
    archive="1b48899b4485188978930c76ce6eeea927ae468355ab9e636c9e583696943544",
)


class Attention(nn.Module):
    """Attention in which every row is a query, and only the first `train` rows, those with labels, are keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.randn(3 * width, width) / width**0.5)
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, train: int) -> Tensor:
        """Rows `(..., n, width)` to their attention outputs over the labelled rows, of the same shape."""
        (Wq, Wk, Wv), (bq, bk, bv) = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        known = x[..., :train, :]
        q, k, v = (
            F.linear(rows, W, b).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for rows, W, b in ((x, Wq, bq), (known, Wk, bk), (known, Wv, bv))
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.out_proj((weights @ v).transpose(-2, -3).flatten(-2))


class RowBlock(nn.Module):
    """A post-norm block: `norm2(z + MLP(z))` with `z = norm1(x + A(x))`."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def read(self, x: Tensor, train: int) -> Tensor:
        """`z`, the input of the MLP and of the skip connection."""
        return self.norm1(x + self.self_attn(x, train))

    def forward(self, x: Tensor, train: int) -> Tensor:
        z = self.read(x, train)
        return self.norm2(z + self.linear2(F.gelu(self.linear1(z))))


class RowLearner(nn.Module):
    """TabPFN v1: labelled rows and rows without labels in, class logits of the latter out; no training."""

    def __init__(self, depth: int = 12, width: int = 512, inner: int = 1024, heads: int = 4) -> None:
        super().__init__()
        self.encoder, self.y_encoder = nn.Linear(FEATURES, width), nn.Linear(1, width)
        self.blocks = nn.ModuleList(RowBlock(width, inner, heads) for _ in range(depth))
        self.decoder = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, CLASSES))

    def embed(self, known: Tensor, labels: Tensor, asked: Tensor) -> Tensor:
        """All rows as one stream `(..., rows, width)`, the labelled ones first."""
        labelled = self.encoder(known) + self.y_encoder(labels.unsqueeze(-1))
        return torch.cat([labelled, self.encoder(asked)], -2)

    def forward(self, known: Tensor, labels: Tensor, asked: Tensor) -> Tensor:
        """Features `(..., n, 100)`, labels `(..., n)` and features `(..., m, 100)` to logits `(..., m, 10)`."""
        n = known.shape[-2]
        x = self.embed(known, labels, asked)
        for block in self.blocks:
            x = block(x, n)
        return self.decoder(x[..., n:, :])


def load_tabpfn() -> RowLearner:
    """The published TabPFN in float64, which holds its float32 weights exactly.

    The checkpoint is a pickle: it is opened only after its hash was checked, only as plain tensors, and only once.
    Later calls read the safetensors file that was made of it.
    """
    from safetensors.torch import load_file, save

    plain = cache() / TABPFN.sha256 / "tabpfn.safetensors"
    if not intact(plain):
        state = torch.load(fetch(TABPFN), map_location="cpu", weights_only=True)[0]
        layers = "module.transformer_encoder.layers."
        names = {name: name.replace(layers, "blocks.").removeprefix("module.") for name in state}
        store(plain, save({new: state[old] for old, new in names.items() if not new.startswith("criterion.")}))
    with torch.device("meta"):  # no time is spent on random weights
        model = RowLearner()
    model.load_state_dict(load_file(plain), assign=True)
    return model.double().eval().requires_grad_(False)


def scaled(known: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in the input format of TabPFN, `(n, 100)` and `(m, 100)`, scaled by the labelled rows alone.

    Columns that are constant over those rows are dropped; the others get mean 0 and deviation 1 and are multiplied by
    `100 / columns`, so that few columns weigh as much as many. The rest is zeros. (TabPFN's own code also clips
    outliers softly and averages over several views of the table; neither is needed here.)
    """
    varies = (known != known[:1]).any(0)
    known, asked = known[:, varies], asked[:, varies]
    if varies.any():  # of a single row there is no deviation
        mean, deviation = known.mean(0), known.std(0) + 1e-6
        known, asked = (((x - mean) / deviation).clamp(-100, 100) for x in (known, asked))
    grow, room = FEATURES / max(1, known.shape[1]), FEATURES - known.shape[1]
    return F.pad(known * grow, (0, room)), F.pad(asked * grow, (0, room))


def table(data: str, seed: int) -> tuple[Tensor, Tensor]:
    """Features `(rows, columns)` and classes `(rows,)`, shuffled so that every stretch has its share of each class."""
    try:
        from sklearn import datasets
    except ImportError:
        raise InputError("The tables come with scikit-learn: install it, `pip install scikit-learn`.") from None
    x, y = (torch.as_tensor(t) for t in getattr(datasets, f"load_{data}")(return_X_y=True))
    generator = torch.Generator().manual_seed(seed)
    place = torch.empty(len(y), dtype=torch.float64)
    for c in y.unique():
        n = int((y == c).sum())
        place[y == c] = (torch.randperm(n, generator=generator) + torch.rand(n, generator=generator)).double() / n
    order = place.argsort()
    return x[order].double(), y[order]


def fold_rows(model: RowLearner, full: Sequence[Tensor], kept: Sequence[Tensor]) -> Changes:
    """For each query row the changes of every block that replace the rows that are not kept.

    Each query row has a stream of its own, `(queries, rows, width)`: the kept rows pass through its changed weights
    too. A block is solved on the stream that the changed blocks before it really give, by the theorem: a rank-1
    update of its first matrix for what the MLP reads, and a shift of its last bias for what the skip carries.

    **Arguments:** `full` and `kept` are the arguments of the model with all rows and with the kept ones.
    """
    changes: list[Update | Shift] = []
    n, k = len(full[0]), len(kept[0])
    whole, x = model.embed(*full), model.embed(*each(kept))
    for i, block in enumerate(model.blocks):
        assert isinstance(block, RowBlock)
        z = block.read(x, k)[:, -1]
        lacks = block.read(whole, n)[n:] - z
        update = implicit_update(block.linear1.weight, z, lacks, name="linear1.weight")
        shift = residual_bias(lacks, name="linear2.bias")
        x = Changes((update, shift)).run(block, x, chunk=_CHUNK, train=k)
        whole = block(whole, n)
        changes += [part.named(f"blocks.{i}.{part.name}") for part in (update, shift)]
    return Changes(tuple(changes))


def each(kept: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The kept rows once for each query row: `(queries, k, 100)`, `(queries, k)`, `(queries, 1, 100)`."""
    known, labels, asked = kept
    return known.expand(len(asked), -1, -1), labels.expand(len(asked), -1), asked.unsqueeze(1)


@dataclass(frozen=True)
class RowsResult:
    """The measurements: errors are the largest differences from the logits of the run with all rows."""

    data: str
    keep: int
    folded: int
    queries: int
    seed: int
    max_abs_logit_error: float
    bare_max_abs_logit_error: float
    control_max_abs_logit_error: float
    accuracy_all: float
    accuracy_kept: float
    accuracy_patched: float
    accuracy_control: float
    sizes: tuple[float, ...]  # ‖ΔW‖/‖W‖ of each block's first matrix, the median over query rows

    @property
    def holds(self) -> bool:
        """Whether the weights reproduce the rows, and neither nothing nor random changes of equal size do."""
        others = min(self.bare_max_abs_logit_error, self.control_max_abs_logit_error)
        return self.max_abs_logit_error <= TOLERANCE < others

    def as_json(self) -> dict[str, Any]:
        """The numbers under their names, and whether they show what they should."""
        verdict = "holds" if self.holds else "does not hold"
        return {**dataclasses.asdict(self), "tolerance": TOLERANCE, "verdict": verdict}


@torch.no_grad()
def rows(data: str, keep: int, folded: int = 50, queries: int = 40, seed: int = 0) -> RowsResult:
    """Folds training rows of a table into TabPFN's weights and lets the changed network answer without them.

    **Arguments:**

    - `data`: one of `iris`, `wine`, `breast_cancer`.
    - `keep`, `folded`: how many training rows are still read, and how many become weights.
    - `queries`: how many other rows are asked about, each with changes of its own.
    - `seed`: of the shuffle and of the control.

    The columns are scaled by the rows that are read, so that the folded rows affect the changed network through its
    weights alone. The proof is the network's own forward with other parameters.
    """
    if data not in SIZES:
        raise unknown("table", data, SIZES)
    problems = Problems()
    for name, value in (("keep", keep), ("folded", folded), ("queries", queries)):
        problems.unless(value >= 1, f"`{name}` is {value}, but at least 1 row is needed.")
    room = SIZES[data] - queries
    why = f"{data} has {SIZES[data]} rows, of which {queries} are asked about"
    problems.unless(keep + folded <= room, f"{keep + folded} training rows are too many: {why}; take at most {room}.")
    problems.stop()
    x, y = table(data, seed)
    n = keep + folded
    asked, truth = x[n : n + queries], y[n : n + queries]
    model = load_tabpfn()

    def read(count: int) -> tuple[Tensor, Tensor, Tensor]:
        known, others = scaled(x[:count], asked)
        return known, y[:count].double(), others

    full, kept = read(n), read(keep)
    changes = fold_rows(model, full, kept)
    wanted, bare = model(*full), model(*kept)
    patched, control = (c.run(model, *each(kept), chunk=_CHUNK)[:, 0] for c in (changes, changes.random_like(seed)))

    def accuracy(logits: Tensor) -> float:
        return float((logits[:, : int(y.max()) + 1].argmax(-1) == truth).double().mean())

    def error(logits: Tensor) -> float:
        return float((logits - wanted).abs().max())

    return RowsResult(
        data, keep, folded, queries, seed,
        error(patched), error(bare), error(control),
        accuracy(wanted), accuracy(bare), accuracy(patched), accuracy(control),
        tuple(float((u.frobenius() / model.get_parameter(u.name).norm()).median()) for u in changes.updates),
    )  # fmt: skip
