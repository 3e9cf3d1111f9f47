"""A comparison from beginning to end: its parts measured or read, then its table and its verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inweights.compare._controls import construction
from inweights.compare._further import MORE
from inweights.compare._ours import folded, patched
from inweights.compare._parts import Parts
from inweights.compare._plan import CONTROL_QUERIES, FEW_ORDERS, PATCHED, Plan
from inweights.compare._predict import in_context, zero_shot
from inweights.compare._result import Comparison
from inweights.compare._shots import Shots, orders
from inweights.compare._sparsity import weights_of
from inweights.compare._stages import InContext, control_model, correctness, measured_descent, over_orders, sensitivity
from inweights.compare._ways import Way
from inweights.data import pairs, source
from inweights.models import Model

After = Callable[[str, int, int], None]
"""`after(part, done, total)`: called with the progress."""


def run_comparison(
    model: Model,
    plan: Plan,
    *,
    folder: Path | None = None,
    after: After = lambda part, done, total: None,
) -> Comparison:
    """Measures the parts of a plan; parts that were measured before are read.

    **Arguments:**

    - `folder`: where parts are kept, by default in the user's cache.
    - `after`: called with the name of a part, how much of it is done, and how much there is.
    """
    shown = plan.check().shots(model)
    return _Run(model, plan, shown, Parts(model, plan, folder), after).all()


class _Run:
    def __init__(self, model: Model, plan: Plan, shown: Shots, parts: Parts, after: After) -> None:
        self.model, self.plan, self.shown, self.parts, self.after = model, plan, shown, parts, after
        self.orders = orders(plan.demonstrations, plan.orders, torch.Generator().manual_seed(plan.seed))

    def all(self) -> Comparison:
        plan, shown = self.plan, self.shown
        first = self._in_context()
        icl = InContext.of(first["in_context"])
        rows = {
            "in-context": correctness(icl.logp, shown) | icl.sensitivity(shown.labels),
            "zero-shot": correctness(first["zero_shot"], shown) | icl.against(first["zero_shot"]),
        }
        descents = {kind.name: self._descent(kind, icl) for kind in plan.descents}
        ordered = {k.name: self._orders(k) for k in plan.descents if k.name == "gd" or k.ordered}
        ours = {name: self._ours(name, icl) for name in plan.ways if name in ("patch", "fold")}
        controls: dict[str, Any] = {"construction": self.parts.numbers("construction", construction)}
        if plan.controls:
            controls["shuffled"] = self._shuffled()
            controls["untrained"] = self._control(embeddings=False)
            controls["embeddings"] = self._control(embeddings=True)
        return Comparison(
            setting=asdict(plan) | {"orders": len(self.orders), "model": self.model.name, **self._about()},
            rows=rows | ours,
            ceiling=icl.ceiling(),
            descents=descents,
            orders=ordered,
            controls=controls,
            further={name: self._further(name) for name in plan.ways if name in MORE},
            weights=self.parts.numbers("weights", lambda: weights_of(self.model)),
        )

    def _about(self) -> dict[str, Any]:
        return {
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "labels_of_several_tokens": self.shown.several,
            "rows_left_out": self.shown.left_out,
            "folder": str(self.parts.folder),
        }

    def _step(self, part: str, total: int) -> Callable[[int], None]:
        return lambda done: self.after(part, done, total)

    def _in_context(self) -> dict[str, Tensor]:
        def measure() -> dict[str, Tensor]:
            total = len(self.orders) * len(self.shown.queries)
            done = in_context(self.model, self.shown, self.orders, after=self._step("in-context", total))
            return {"in_context": done, "zero_shot": zero_shot(self.model, self.shown)}

        return self.parts.tensors("in-context", measure)

    def _descent(self, kind: Way, icl: InContext) -> list[dict[str, Any]]:
        plan, result = self.plan, []
        epochs, every = plan.epochs_of(kind), plan.every_of(kind)
        for rate in plan.rates_of(kind):
            name = f"{kind.name}-{rate:g}-{epochs}-{every}"

            def measure(rate: float = rate) -> dict[str, Any]:
                return measured_descent(
                    self.model, self.shown, icl, kind, rate, epochs=epochs, every=every, seed=plan.seed,
                    after=self._step(f"{kind.name}, rate {rate:g}", epochs),
                )  # fmt: skip

            result += self.parts.numbers(name, measure)["checkpoints"]
        return result

    def _orders(self, kind: Way) -> dict[str, Any]:
        """At the rate of the paper's test that the plan has, or at its largest."""
        rates = self.plan.rates_of(kind)
        rate = 1e-4 if 1e-4 in rates else max(rates)
        some = self.orders if kind.ordered else self.orders[:FEW_ORDERS]
        epochs = self.plan.every_of(kind)
        return self.parts.numbers(
            f"{kind.name}-orders-{rate:g}-{epochs}",
            lambda: over_orders(
                self.model, self.shown, kind, rate, some.tolist(), epochs=epochs,
                after=self._step(f"{kind.name}, orders", len(some) * epochs),
            ),
        )  # fmt: skip

    def _ours(self, name: str, icl: InContext) -> dict[str, Any]:
        """The exact patch or the fold, made from the first order and measured against it."""
        order = self.orders[0].tolist()

        def measure() -> dict[str, Any]:
            if name == "patch":
                count = min(PATCHED, len(self.shown.queries))
                logp = patched(self.model, self.shown, order, count, self._step("patch", count))
            else:
                logp = folded(self.model, self.shown, order, self._calibration(), self.plan.seed)
            return correctness(logp, self.shown) | icl.against(logp, 0)

        return self.parts.numbers(name, measure)

    def _further(self, name: str) -> dict[str, Any]:
        self.after(name, 0, 1)
        return self.parts.numbers(f"{name}-{self.plan.every}", lambda: MORE[name](self.model, self.plan, self.shown))

    def _calibration(self, count: int = 64) -> list[str]:
        """Questions of the task that are neither demonstrations nor queries."""
        data, used = source(self.plan.task), {question for question, _ in self.shown.texts}
        asked = [data.query(question) for question, _ in pairs(self.plan.task)]
        return [question for question in asked if question not in used][:count]

    def _shuffled(self) -> dict[str, Any]:
        def measure() -> dict[str, Any]:
            wrong = self.shown.relabelled(torch.Generator().manual_seed(self.plan.seed))
            total = len(self.orders) * len(wrong.queries)
            logp = in_context(self.model, wrong, self.orders, after=self._step("shuffled labels", total))
            return correctness(logp, wrong) | sensitivity(logp, wrong.labels)

        return self.parts.numbers("shuffled", measure)

    def _control(self, *, embeddings: bool) -> dict[str, Any]:
        plan, name = self.plan, "embeddings" if embeddings else "untrained"
        total = plan.every * len(plan.rates)
        return self.parts.numbers(
            f"{name}-{plan.every}-{'-'.join(f'{r:g}' for r in plan.rates)}",
            lambda: control_model(
                self.model, self.shown, self.orders, plan.rates, queries=min(CONTROL_QUERIES, plan.queries),
                epochs=plan.every, embeddings=embeddings, seed=plan.seed, after=self._step(name, total),
            ),
        )  # fmt: skip
