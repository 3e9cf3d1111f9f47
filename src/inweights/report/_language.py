"""The sections of the demo page on a prompt of a language model as weights."""

from __future__ import annotations

from pathlib import Path

from inweights._figures import heatmap
from inweights._files import write_atomic, write_csv
from inweights.models import Showcase
from inweights.report._page import Section


def showcase_summary(result: Showcase) -> list[tuple[str, str, str]]:
    """Table rows: quantity, measured value, value to compare with."""
    rows = [
        (
            f"largest logit error, {name}",
            f"{proof.max_abs_logit_error:.1e}",
            f"{proof.bare_max_abs_logit_error:.1f} without the changes",
        )
        for name, proof in result.proofs.items()
    ]
    return [*rows, ("generated tokens equal to the prompted ones", f"{result.matching:.0%}", "")]


def write_showcase(result: Showcase, folder: Path) -> list[Section]:
    """Writes the heat-map and the table behind it; returns the sections of the page."""
    t = result.trajectory
    picture = heatmap(t.norms.tolist(), t.tokens, "what each context token adds to the weights")
    write_atomic(folder / "trajectory.png", picture)
    write_csv(
        folder / "trajectory.csv",
        ("layer", "i", "token", "norm", "total"),
        [
            (layer, i, token, float(t.norms[k, i]), float(t.totals[k, i]))
            for k, layer in enumerate(t.layers)
            for i, token in enumerate(t.tokens)
        ],
    )
    likely = [(name, *(f"{word!r} {p:.0%}" for word, p in best)) for name, best in result.next_tokens.items()]
    return [
        Section(
            "4. A prompt of a language model as weights",
            (
                f"{len(t.layers)} layers. Context, {len(t.tokens)} tokens: “{result.context.strip()}” "
                f"Query: “{result.query}”.",
                "The context is left out, and the weights of every layer are changed instead: rank-1 updates for each "
                "token (token mode), or one change for the whole query (static mode). The plain model, without hooks, "
                "then gives the logits of the prompted one.",
            ),
            header=("", "measured", "to compare"),
            rows=showcase_summary(result),
        ),
        Section("Twenty tokens, three ways", header=("", "continuation"), rows=list(result.words.items())),
        Section("The most likely next tokens", header=("", "first", "second", "third"), rows=likely),
        Section(
            "5. How the weights move while the context is read",
            (
                "How much each context token changes the update of each layer (Frobenius norm of the step, on a "
                f"logarithmic colour scale). All prefixes were computed in one packed pass, {t.seconds:.1f} s.",
            ),
            picture,
            "Heat-map of layers and context tokens.",
            "trajectory.csv",
        ),
    ]
