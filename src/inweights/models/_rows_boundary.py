"""The decision boundary of TabPFN over two columns of a table, with all rows read, with some, and with the others as
weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights._errors import Problems, unknown
from inweights.models._rows import SIZES, RowLearner, each, fold_rows, load_tabpfn, scaled, table
from inweights.theory import Changes

CHUNK = 4


@dataclass(frozen=True, eq=False)
class Boundary:
    """Class logits over a grid, `(grid · grid, classes)`, row by row from the lowest value of the second column.

    - `points`, `labels`: the training rows, `(rows, 2)` and `(rows,)`; `columns`: what the two columns are called.
    - `low`, `high`: the corners of the grid.
    - `full`, `bare`, `patched`, `control`: with all rows read; with the kept ones; with the kept ones and weights in
      place of the others; with random changes of equal norm.
    """

    points: Tensor
    labels: Tensor
    columns: tuple[str, str]
    low: tuple[float, float]
    high: tuple[float, float]
    full: Tensor
    bare: Tensor
    patched: Tensor
    control: Tensor

    def error(self, logits: Tensor) -> float:
        """The largest difference from the logits with all rows read."""
        return float((logits - self.full).abs().max())


@torch.no_grad()
def rows_boundary(
    data: str,
    kept: Sequence[int],
    rows: int = 30,
    grid: int = 12,
    seed: int = 0,
    *,
    model: RowLearner | None = None,
    after: Callable[[int, int], None] = lambda done, total: None,
) -> Boundary:
    """The boundary over the last two columns of `iris`, or the first two of another table, learnt from its first `rows`
    rows; those that `kept` numbers stay in the context, the others become weights.

    Every point of the grid is a query with changes of its own; `after` is called with those that are done.
    """
    if data not in SIZES:
        raise unknown("table", data, SIZES)
    kept = sorted(set(kept))
    problems = Problems()
    problems.unless(2 <= rows <= SIZES[data], f"`rows` is {rows}, but must be between 2 and {SIZES[data]}.")
    problems.unless(grid >= 2, f"`grid` is {grid}, but must be at least 2.")
    problems.unless(
        len(kept) >= 2 and kept[0] >= 0 and kept[-1] < rows,
        f"`kept` is {kept}, but must name at least two rows below {rows}.",
    )
    problems.stop()
    x, y = table(data, seed)
    names, pair = _columns(data)
    points, labels, classes = x[:rows, pair], y[:rows], int(y.max()) + 1
    margin = 0.1 * (points.amax(0) - points.amin(0))
    low, high = points.amin(0) - margin, points.amax(0) + margin
    across, up = (torch.linspace(float(a), float(b), grid, dtype=x.dtype) for a, b in zip(low, high, strict=True))
    asked = torch.cartesian_prod(up, across).flip(-1)
    net, index = load_tabpfn() if model is None else model, torch.tensor(kept)
    results: dict[str, list[Tensor]] = {"full": [], "bare": [], "patched": [], "control": []}
    for some in asked.split(grid):
        every, few = _read(points, labels, some), _read(points[index], labels[index], some)
        changes: Changes = fold_rows(net, every, few)
        results["full"].append(net(*every))
        results["bare"].append(net(*few))
        for name, c in (("patched", changes), ("control", changes.random_like(seed))):
            results[name].append(c.run(net, *each(few), chunk=CHUNK)[:, 0])
        after(sum(map(len, results["full"])), len(asked))
    logits = {name: torch.cat(parts)[:, :classes] for name, parts in results.items()}
    return Boundary(points, labels, names, _pair(low), _pair(high), **logits)


def _read(known: Tensor, labels: Tensor, asked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows, others = scaled(known, asked)
    return rows, labels.double(), others


def _columns(data: str) -> tuple[tuple[str, str], list[int]]:
    from sklearn import datasets

    names = [str(n) for n in getattr(datasets, f"load_{data}")().feature_names]
    pair = [len(names) - 2, len(names) - 1] if data == "iris" else [0, 1]
    return (names[pair[0]], names[pair[1]]), pair


def _pair(values: Tensor) -> tuple[float, float]:
    return float(values[0]), float(values[1])
