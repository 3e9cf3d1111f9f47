"""The table of families as a page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from inweights.models._families import CONTROL, EXACT, STATIC, TOKENS, Family


def families_table(found: Sequence[Family], total: int) -> str:
    """Markdown; made by `inweights families --out docs/families.md`, never by hand."""
    import torch
    import transformers

    exact = sum(f.status == "exact" for f in found)
    lines = [
        "# Families",
        "",
        "Made by `inweights families --out docs/families.md`; do not edit by hand.",
        "",
        f"**{exact} of {total}** entries of transformers' causal-LM mapping are exact in both modes "
        f"(transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float64, three seeds, "
        "every parameter random, tiny sizes).",
        "",
        f"*token*: largest logit error on the last of {TOKENS} tokens, all before it folded. *static*: the same on "
        f"{STATIC} query tokens with one weight change. *control*: smallest logit error without the changes. Exact: "
        f"both errors at most {EXACT:.0e}, control above {CONTROL}. *float32 inside*: the token error where the "
        "family's own casts to float32 are let through. *tail*: what follows the last matrix; *head* says that no "
        "block could be patched and the matrix of the logits carries everything. *inputs*: how many matrices read the "
        "MLP's input in the last block; 0 where the output control carries everything.",
        "",
        "| family | status | token | static | control | float32 inside | inputs | tail | reason |",
        "|---|---|---|---|---|---|---|---|---|",
    ]

    def number(x: float | None) -> str:
        return "" if x is None else f"{x:.0e}"

    for f in sorted(found, key=lambda f: (f.status != "exact", f.status, f.model_type)):
        cells = (
            f.model_type, f.status, number(f.token_error), number(f.static_error), number(f.control),
            number(f.cast_error), str(f.inputs) if f.tail else "", f.tail, f.reason.replace("|", "/"),
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
