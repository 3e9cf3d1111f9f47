"""Putting a trained model into the zoo: rounded if it is large, then measured, so that its quality is what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from inweights.lab._curves import curves
from inweights.lab.training._checkpoint import METRICS, MODEL, load, write
from inweights.lab.training._metrics import read

LARGE = 1_000_000  # parameters; from here on in bfloat16


def keep(folder: Path, name: str, into: Path, *, prompts: int = 6400, device: str = "cpu") -> dict[str, Any]:
    """Writes what `lab train` left in `folder` as `into/name.safetensors`; returns what is told about it there.

    `quality` is the model's mean error after 0, 1, … examples, after rounding; `curve` its loss in training.
    """
    model, recipe, about = load(folder / MODEL)
    large = sum(p.numel() for p in model.parameters()) > LARGE
    if large:
        for p in model.parameters():
            p.data = p.data.bfloat16().float()
    found = curves(
        recipe.make_task(), recipe.points, {"model": model.to(device)}, prompts=prompts, device=device,
        clean=recipe.target == "clean",
    )["model"]  # fmt: skip
    lines = read(folder / METRICS)
    thinned = lines[:: max(1, len(lines) // 50)]
    about = {
        "quality": [round(e, 7) for e in found.mean(0).tolist()],
        "curve": [[line["step"], round(line["loss"], 6)] for line in thinned],
        "rounded": "bfloat16" if large else "",
        "torch": torch.__version__,
        **{key: about[key] for key in ("seconds", "device") if key in about},
    }
    state = {n: t.bfloat16() if large and t.is_floating_point() else t for n, t in model.cpu().state_dict().items()}
    write(into / f"{name}.safetensors", state, recipe, **about)
    return about
