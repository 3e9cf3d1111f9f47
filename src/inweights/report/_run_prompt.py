"""The parts of a report on one prompt: its proof (`verify`) and its trajectory (`trace`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import torch
from typing_extensions import TypedDict

from inweights._draw import readable, svg
from inweights._errors import InputError
from inweights._figures import HEADER, Curve, Figure
from inweights.models import Proof, Trace
from inweights.report._page import Section
from inweights.report._parts import Part, bars_svg, bars_table, checked

CONTROL = (
    "The control shows how far the model is from the prompted one without the changes: a small error means something "
    "only beside a large control."
)


class _Verified(TypedDict, total=False):
    mode: str
    folded_tokens: int
    query_tokens: int
    tokens: dict[str, Any]
    amplification: list[float | None]
    warnings: list[str]
    tokens_match: float | None
    tokens_verdict: str | None


def verify_part(stem: str, values: dict[str, Any], name: str) -> Part:
    """What `verify --json` printed."""
    proof, more = checked(Proof, values, name), checked(_Verified, values, name)
    folded, asked = more.get("folded_tokens", 0), more.get("query_tokens", 0)
    lead = (
        f"{folded} context tokens are left out, and the weights of {proof.layers} blocks are changed instead. Over "
        f"{asked} query tokens, no logit differs by more than {proof.max_abs_logit_error:.1e} from those with the "
        f"context; without the changes they differ by up to {proof.bare_max_abs_logit_error:.3g}."
    )
    rows = [*proof._rows()[1:], ("allowed", f"{proof.tolerance:.0e}"), ("mode", str(more.get("mode", "")))]
    if more.get("tokens_match") is not None:
        rows.append(("generated tokens equal", f"{more['tokens_match']:.0%}, {more.get('tokens_verdict')}"))
    figure = bars_svg(
        proof.bars(), "largest difference of a logit", "The error, what is allowed, the control", log=True
    )
    beside = f"report-{stem}.csv"
    sections = [
        Section(
            f"Proof: {stem}", (lead, CONTROL), svg=figure, verdict=proof.verdict, data_file=beside,
            header=("", "measured"), rows=rows,
        )
    ]  # fmt: skip
    tables = {beside: bars_table(proof.bars())}
    gains = [(i, g) for i, g in enumerate(more.get("amplification", [])) if g is not None]
    if gains:
        curve = Curve("a relative error", [i for i, _ in gains], [g for _, g in gains], marker="o")
        figure_of = Figure("", "block", "amplification", (curve,))
        title = "How much each block enlarges an error of its input"
        section, table = _curves(title, figure_of, f"report-{stem}-amplification.csv")
        sections.append(section)
        tables |= table
    sections += _tokens(more.get("tokens", {})) + _warnings(more.get("warnings", []))
    return Part(sections, tables)


def _tokens(tokens: dict[str, Any]) -> list[Section]:
    """The tokens with and without the context, as the model reads them."""
    kinds = ("prompted", "remaining")
    rows = [(kind, " ".join(readable(str(t)).strip() or "␣" for t in tokens[kind])) for kind in kinds if kind in tokens]
    return [Section("What the model reads", header=("", "tokens"), rows=rows)] if rows else []


def _warnings(sentences: Sequence[str]) -> list[Section]:
    return [Section("Warnings", sentences)] if sentences else []


class _Traced(TypedDict):
    tokens: list[str]
    layers: list[str]
    norms: list[list[float]]
    totals: list[list[float]]


def trace_part(stem: str, values: dict[str, Any], name: str) -> Part:
    """What `trace --json` printed, or the table that `trace --out` wrote."""
    read = checked(_Traced, values, name)
    shape = (len(read["layers"]), len(read["tokens"]))
    for key, grid in (("norms", read["norms"]), ("totals", read["totals"])):
        if not all(shape) or (len(grid), {len(row) for row in grid}) != (shape[0], {shape[1]}):
            raise InputError(f"{name} has {key!r} of another shape than {shape}, layers by tokens: run trace again.")
    norms, totals = torch.tensor(read["norms"]), torch.tensor(read["totals"])
    seconds, how = values.get("seconds"), values.get("computation", "packed")
    t = Trace(read["tokens"], read["layers"], norms, totals, norms, totals, float(seconds or 0.0), str(how))
    rows = [(repr(readable(token)), str(i), f"{mean:.3g}") for token, i, mean in t.top()]
    took = f" Computed in {t.seconds:.1f} s." if seconds else ""
    beside = f"report-{stem}.csv"
    table_rows = [
        (layer, i, token, float(norms[k, i]), float(totals[k, i]))
        for k, layer in enumerate(t.layers)
        for i, token in enumerate(t.tokens)
    ]
    heat = Section(
        f"Trajectory: {stem}",
        (
            f"How much each of {len(t.tokens)} context tokens changes the update of each of {len(t.layers)} layers, "
            f"on a logarithmic colour scale.{took}",
        ),
        svg=svg(t._draw, t._size(), "Heat-map of layers and context tokens"),
        data_file=beside,
        header=("token", "i", "mean step over layers"),
        rows=rows,
    )
    low, middle, high = totals.double().quantile(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64), 0).tolist()
    line = Curve("median layer; band: all layers", range(1, shape[1] + 1), middle, low=low, high=high)
    figure = Figure("", "context tokens read", "‖ΔW‖/‖W‖", (line,))
    moved, table = _curves("How far the weights have moved", figure, f"report-{stem}-totals.csv")
    return Part([heat, moved], {beside: (("layer", "i", "token", "norm", "total"), table_rows), **table})


def read_trace_table(text: str, name: str) -> dict[str, Any] | None:
    """The CSV table of a trajectory as the values of `trace --json`; None if it is another table."""
    rows = csv.DictReader(io.StringIO(text))
    if not {"layer", "i", "token", "norm", "total"} <= set(rows.fieldnames or ()):
        return None
    layers: dict[str, list[tuple[str, float, float]]] = {}
    try:
        for row in rows:
            layers.setdefault(row["layer"], []).append((row["token"], float(row["norm"]), float(row["total"])))
    except (TypeError, ValueError):
        raise InputError(f"{name} has a row that is no number: run trace again.") from None
    first = next(iter(layers.values()), [])
    return {
        "tokens": [token for token, *_ in first],
        "layers": list(layers),
        "norms": [[norm for _, norm, _ in row] for row in layers.values()],
        "totals": [[total for *_, total in row] for row in layers.values()],
    }


def _curves(title: str, figure: Figure, beside: str) -> tuple[Section, dict[str, Any]]:
    return Section(title, svg=figure.svg(title), data_file=beside), {beside: (HEADER, figure.rows())}
