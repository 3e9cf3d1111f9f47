"""The table of families as a page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from inweights.models._families import CONTROL, DRAWS, SHARE, STATIC, TOLERANCE, Family
from inweights.models._realistic import DEPTH
from inweights.models._tiny import probe

COLUMNS = (
    "family", "tiny", "token", "static", "control", "float32 inside",
    "deep", "deep token", "its logit", "deep static", "its logit", "deep control", "amplification",
    "float32 token", "float32 static", "norms", "draws", "inputs", "residual form", "reason",
)  # fmt: skip


def families_table(tiny: Sequence[Family], deep: Sequence[Family], total: int) -> str:
    """Markdown; made by `inweights families --depth both --out docs/families.md`, never by hand."""
    import torch
    import transformers

    n = probe().shape[1]
    counts = [sum(f.status == "exact" for f in results) for results in (tiny, deep)]
    in_token = sum(f.status in ("exact", "token-only") for f in deep)
    in_static = sum(f.status in ("exact", "static-only") for f in deep)
    streams = sum(bool(f.stream_norms) for f in deep)
    lines = [
        "# Families",
        "",
        "Made by `inweights families --depth both --out docs/families.md`; do not edit by hand.",
        "",
        f"**{counts[0]} of {total}** entries of transformers' causal-LM mapping are exact in both modes at tiny size, "
        f"**{counts[1]} of {total}** at deep size ({in_token} in token mode, {in_static} in static mode); transformers "
        f"{transformers.__version__}, torch {torch.__version__.split('+')[0]}, float64, the worst of three seeds.",
        "",
        f"*tiny*: two or three blocks, every parameter Gaussian. *deep*: at least {DEPTH} blocks with parameters as "
        "trained checkpoints have them: norm scales from 0.01 to 1,000 with zeros and negative values, heavy-tailed "
        "matrices with zero rows, closed units, tied embeddings, and a first token with activations of thousands. "
        "*its logit*: the largest logit beside that error. *norms*: *stream* where the whole stream passes through the "
        f"norms of each block ({streams} families); these have scales from 0.4 to 4, as wider ones would leave nothing "
        "of the context, and all others the whole range. *draws*: how many models were drawn (the most of any seed) "
        f"for one whose context changes the logits by {SHARE:.0%} of the largest one; at most {DRAWS}.",
        "",
        f"*token*: largest logit error on the last of {n} tokens, all before it folded. *static*: the same on {STATIC} "
        "query tokens with one weight change. *control*: smallest logit error without the changes. Exact at tiny size: "
        f"both errors at most {TOLERANCE['tiny']:.0e}, control above {CONTROL}; at deep size: both at most "
        f"{TOLERANCE['deep']:.0e} times their largest logit (or 1), control above {SHARE:.0%} of it. *float32 "
        "inside*: the token error where the family's own casts to float32 are let through. *float32 token*, *static*: "
        "errors at deep size with everything in float32. *amplification*: the largest of any patched block, "
        "`‖δ_out‖/‖δ_in‖` for a relative error of each coordinate. *residual form*: how the result of the last matrix "
        "joins the stream: *sum*, *post-norm* (a norm of the sum), *branch-norm* (a norm before the sum); *head* says "
        "that no block could be patched and the matrix of the logits carries everything. *inputs*: how many matrices "
        "read the MLP's input in the last block; 0 where the output control carries everything.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
    ]
    by_name = {f.model_type: f for f in deep}
    for f in sorted(tiny, key=lambda f: (f.status != "exact", f.status, f.model_type)):
        lines.append("| " + " | ".join(_cells(f, by_name.get(f.model_type))) + " |")
    return "\n".join(lines) + "\n"


def _cells(f: Family, d: Family | None) -> tuple[str, ...]:
    def number(x: float | None) -> str:
        return "" if x is None else f"{x:.0e}"

    reason = "; ".join(filter(None, (f.reason, "" if d is None or d.reason == f.reason else f"deep: {d.reason}")))
    d = d or Family(f.model_type, "")
    return (
        f.model_type, f.status, number(f.token_error), number(f.static_error), number(f.control), number(f.cast_error),
        d.status, number(d.token_error), number(d.token_largest), number(d.static_error), number(d.static_largest),
        number(d.control), number(d.amplification), number(d.float32_token_error), number(d.float32_static_error),
        "stream" if d.stream_norms else "", "" if d.draws is None else str(d.draws),
        str(f.inputs) if f.tail else "", f.tail, reason.replace("|", "/"),
    )  # fmt: skip
