"""What a record of `inweights compare` says, as tables: the page and the report draw these same ones.

A cell is a text, or numbers: a value, or a value with the ends of its interval. No torch: the server of the page reads
records without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Cell = str | list[float | None]
Sides = dict[str, dict[str, list[float | None]]]
"""By side or control and by measure: the value, alone or with its interval."""

MEASURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "accuracy": ("accuracy", ("accuracy",)),
    "accuracy_labels": ("accuracy over labels", ("accuracy",)),
    "sensitivity": ("order sensitivity", ("order_sensitivity",)),
    "sensitivity_labels": ("sensitivity over labels", ("order_sensitivity",)),
    "token_overlap": ("token overlap", ("token_overlap",)),
    "penalised": ("overlap cosine, penalised", ("overlap_cosine", "penalised")),
    "digest": ("overlap cosine, digest", ("overlap_cosine", "digest")),
    "padded": ("overlap cosine, padded", ("overlap_cosine", "padded")),
    "kl": ("KL", ("kl",)),
    "calibration": ("calibration error", ("calibration",)),
}
"""Each measure with its heading, and where a record has its sides."""
ALONG = ("accuracy_labels", "accuracy", "token_overlap", "penalised", "digest", "padded", "kl")
"""Measures that are recorded at each checkpoint of gradient descent."""
ABOUT = {
    "in-context": "the model reads the demonstrations",
    "zero-shot": "the model reads the query alone",
    "patch": "the exact change of weights in place of the demonstrations, one for each query",
    "fold": "one adapter in place of the demonstrations, for all queries",
    "gd": "gradient descent on all weights, full batch",
    "value-middle": "gradient descent on the value matrix of the middle layer",
    "value-deep": "gradient descent on the value matrix of the last layer but one",
    "mlp": "gradient descent on the first matrices of all MLPs",
    "layer-causal": "layer-causal gradient descent on all blocks",
    "lora": "Adam on a LoRA of rank 8, full batch",
    **{f"sgd-{n}": f"SGD on all weights, batches of {n}" for n in (1, 2, 4)},
    **{f"adam-{n}": f"Adam on all weights, batches of {n}" for n in (1, 2, 4)},
    "in-context, shuffled labels": "control: the labels of the demonstrations are shuffled",
    "in-context, untrained": "control: a model of the same shape with random weights",
    "gd, untrained": "control: gradient descent on that model",
    "in-context, embeddings": "control: trained embeddings, random blocks",
    "gd, embeddings": "control: gradient descent on that model",
    "construction": "control: linear attention whose weights make in-context learning a step of gradient descent",
}
"""What each side and control is."""
NOTE = (
    "Means with 95% intervals. Gradient descent is judged by its best checkpoint and rate in each column. Overlap is "
    "that with in-context learning, in whose own row it is that of two orders of the demonstrations."
)
HYPOTHESES = (
    "Hypothesis 1: a pretrained model learns in context by gradient descent. Hypothesis 2: there are weights with "
    "which in-context learning is gradient descent."
)
FURTHER = {
    "sizes": "In-context learning with 0 to 8 demonstrations",
    "many": "Gradient descent on many demonstrations",
    "attention": "Similarity of attention and of its outputs",
    "updates": "Alignment of gradient and implicit updates",
    "martingale": "Martingale tests of continuations",
}
MEAN_OF = 3
"""More numbers than these are shown as their mean."""


@dataclass(frozen=True)
class Table:
    """A title, a header, rows whose first cell names them, and what to know when reading them."""

    title: str
    header: list[str]
    rows: list[list[Cell]]
    note: str = ""


def sides(record: Mapping[str, Any]) -> Sides:
    """All measures of each side and control."""
    results: Sides = {}
    for measure, (_, path) in MEASURES.items():
        for side, values in _at(record, path).items():
            if measure in values:
                results.setdefault(side, {})[measure] = values[measure]
    return results


def measured(record: Mapping[str, Any]) -> Table:
    """The table of all measures, one row for each side and control; measures that nothing has are left out."""
    by_side = sides(record)
    shown = [m for m in MEASURES if any(m in values for values in by_side.values())]
    rows: list[list[Cell]] = [[side, *(values.get(m, "") for m in shown)] for side, values in by_side.items()]
    return Table("Measures", ["side or control", *(MEASURES[m][0] for m in shown)], rows, NOTE)


def further(record: Mapping[str, Any]) -> list[Table]:
    """The other tables: what the rows are, the best checkpoints, how sparse attention is, further comparisons."""
    results = [Table("What the rows are", ["side or control", ""], [[s, ABOUT.get(s, "")] for s in sides(record)])]
    best = record.get("best") or {}
    chosen: list[list[Cell]] = [
        [way, MEASURES[measure][0], *_values(point[k] for k in ("rate", "epoch", "loss"))]
        for way, by in best.items()
        for measure, point in by.items()
    ]
    if chosen:
        header = ["way", "judged by", "rate", "epochs", "loss on the demonstrations"]
        results.append(Table("The best checkpoints of gradient descent", header, chosen))
    results += _sparse(record.get("sparsity") or {})
    for name, values in (record.get("further") or {}).items():
        results.append(Table(FURTHER.get(name, _words(name)), ["", "measured"], _flat(values)))
    return results


def orders_note(record: Mapping[str, Any]) -> str:
    """How much gradient descent depends on the order of the demonstrations, which should be rounding."""
    value = record.get("largest_difference_between_orders")
    if value is None:
        return ""
    return f"Largest difference of gradient descent between orders of the same demonstrations: {value:.2g}."


def setting(record: Mapping[str, Any]) -> str:
    """The setting in one line; what was not used (0, or empty) is left out."""
    values = record["setting"]
    parts = [
        f"{_words(k)} {v}"
        for k, v in values.items()
        if k != "folder" and isinstance(v, str | int | float) and not isinstance(v, bool) and (v or k == "seed")
    ]
    lists = [(k, values.get(k)) for k in ("rates", "ways")]
    return ", ".join(parts + [f"{k} {' '.join(map(str, v))}" for k, v in lists if v])


def _sparse(values: Mapping[str, Any]) -> list[Table]:
    deltas = values.get("deltas", [])
    rows: list[list[Cell]] = []
    for which, title in (("shares", ""), ("random", ", random matrices (control)")):
        for kind, by in values.get(which, {}).items():
            for how, numbers in by.items():
                needed = values.get("needed", {}).get(kind)
                rows.append([f"{kind}, {how}{title}", *_values([*numbers, needed])])
    if not rows:
        return []
    note = "Largest share in any layer. Needed: by the constructions. Relative: to the deviation of each matrix."
    if values.get("quantised"):
        note += " The weights come from a quantised file: this measures the quantiser."
    header = ["share of entries below", *(f"{d:.0e}" for d in deltas), "needed"]
    return [Table("How sparse the matrices of attention are", header, rows, note)]


def _at(record: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    level: Any = record
    for key in path:
        level = level.get(key) or {}
    return dict(level)


def _values(numbers: Iterable[float | None]) -> list[Cell]:
    return [[n] for n in numbers]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _flat(value: Any, path: str = "") -> list[list[Cell]]:
    """Whatever a record has, as a path and its value; of many numbers the mean."""
    if isinstance(value, dict):
        return [
            row for k, v in value.items() for row in _flat(v, f"{path}, {_words(str(k))}" if path else _words(str(k)))
        ]
    if isinstance(value, list) and value and all(_number(v) for v in value):
        if len(value) > MEAN_OF:
            return [[f"{path} (mean of {len(value)})", [sum(value) / len(value)]]]
        return [[path, value]]
    if isinstance(value, list):
        return [row for i, v in enumerate(value) for row in _flat(v, f"{path}, {i + 1}")]
    return [[path, [value] if _number(value) else "–" if value is None else str(value)]]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
