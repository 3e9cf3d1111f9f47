"""`Comparison`: what was measured, as one table with intervals, and what follows for the two hypotheses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from inweights.compare._measures import COSINES, interval
from inweights.compare._verdicts import Finding, against_paper, existence, overall

MEASURES = (
    "accuracy", "accuracy_labels", "sensitivity", "sensitivity_labels", "token_overlap", *COSINES, "kl", "calibration",
)  # fmt: skip
Row = dict[str, list[float]]
"""A measure with its value and, where it is a mean over queries, the ends of its 95% interval."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The measurements of a comparison, for each query.

    - `setting`: the plan, the model, and what is to be known of labels.
    - `rows`: in-context learning, the model without demonstrations, and the exact patch and the fold if planned.
    - `ceiling`: one order of in-context learning against another.
    - `descents`: the checkpoints of each way of gradient descent, of all its rates.
    - `orders`: the order sensitivity of gradient descent.
    - `controls`: the construction, shuffled labels, and models without training.
    - `further`: further comparisons: many demonstrations, attention, updates of weights, martingale tests.
    - `weights`: how sparse the matrices of attention are.
    """

    setting: dict[str, Any]
    rows: dict[str, dict[str, Any]]
    ceiling: dict[str, list[float]]
    descents: dict[str, list[dict[str, Any]]]
    orders: dict[str, dict[str, Any]]
    controls: dict[str, dict[str, Any]]
    weights: dict[str, Any]
    further: dict[str, dict[str, Any]]

    def best(self, way: str, measure: str) -> dict[str, Any]:
        """The checkpoint, of all rates, that does best by a measure: gradient descent is judged by its best."""
        sign = -1.0 if measure == "kl" else 1.0
        return max(self.descents[way], key=lambda point: sign * mean(point[measure]))

    def table(self) -> dict[str, Row]:
        """One row for each side and control, with the intervals of its measures."""
        table = {name: row(values) for name, values in self.rows.items()}
        table["in-context"] |= row(self.ceiling)
        for name in self.descents:
            table[name] = row(
                {m: self.best(name, m)[m] for m in ("accuracy", "accuracy_labels", "token_overlap", "kl")}
            )
            table[name] |= row({m: self.best(name, m)[m] for m in COSINES} | self.orders.get(name, {}))
            table[name]["calibration"] = [self.best(name, "accuracy_labels")["calibration"]]
        for name, values in self.controls.items():
            if "in_context" in values:
                table[f"in-context, {name}"] = row(values["in_context"] | values["ceiling"])
                best = {
                    m: max((p[m] for p in values["checkpoints"]), key=mean)
                    for m in ("accuracy", "accuracy_labels", "token_overlap", *COSINES)
                }
                table[f"gd, {name}"] = row(best)
            elif name == "shuffled":
                table["in-context, shuffled labels"] = row(values)
        made = self.controls["construction"]
        table["construction"] = row({"sensitivity": made["order_sensitivity"], "token_overlap": made["token_overlap"]})
        return table

    def findings(self) -> dict[str, Finding]:
        """What follows for hypothesis 1 (any pretrained model) on this model, and for hypothesis 2 (some weights)."""
        result = against_paper(
            icl=self.rows["in-context"], gd_orders=self.orders["gd"], ceiling=self.ceiling,
            best={m: self.best("gd", m)[m] for m in ("token_overlap", *COSINES, "accuracy_labels")},
        )  # fmt: skip
        return {**result, "hypothesis_1": overall(result), "hypothesis_2": existence(self.controls["construction"])}

    def as_json(self) -> dict[str, Any]:
        """The result under the names that scripts rely on."""
        table = self.table()

        def column(*measures: str) -> dict[str, Any]:
            return {
                name: {m: values[m] for m in measures if m in values}
                for name, values in table.items()
                if any(m in values for m in measures)
            }

        return {
            "setting": self.setting,
            "accuracy": column("accuracy", "accuracy_labels"),
            "order_sensitivity": column("sensitivity", "sensitivity_labels"),
            "token_overlap": column("token_overlap"),
            "overlap_cosine": {name: column(name) for name in COSINES},
            "kl": column("kl"),
            "calibration": column("calibration"),
            "best": {
                way: {
                    m: {k: self.best(way, m)[k] for k in ("rate", "epoch", "loss")}
                    for m in ("accuracy_labels", "token_overlap")
                }
                for way in self.descents
            },
            "curves": {
                way: [
                    {"rate": p["rate"], "epoch": p["epoch"], "loss": p["loss"]}
                    | {m: mean(p[m]) for m in ("accuracy", "accuracy_labels", "token_overlap", *COSINES, "kl")}
                    for p in points
                ]
                for way, points in self.descents.items()
            },
            "largest_difference_between_orders": self.orders["gd"]["largest_difference"],
            "sparsity": self.weights,
            "further": self.further,
            "verdicts": {name: finding.as_json() for name, finding in self.findings().items()},
        }  # fmt: skip


def mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).mean())


def row(values: dict[str, Any]) -> Row:
    """The means of measures with their intervals; a number as it is."""
    return {
        name: interval(torch.tensor(values[name], dtype=torch.float64))
        if isinstance(values[name], list)
        else [values[name]]
        for name in MEASURES
        if name in values
    }
