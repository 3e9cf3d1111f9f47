"""Adds a trained model to the zoo: large models are rounded first, and errors are measured after rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from inweights.lab._curves import curves
from inweights.lab.training._checkpoint import METRICS, MODEL, load_trained, write
from inweights.lab.training._metrics import read

# Models with at least `HALF` parameters are stored in float16, which has three bits more than bfloat16.
HALF, LARGE = 180_000, 1_000_000  # with at least `LARGE` in bfloat16


def rounded(model: torch.nn.Module) -> torch.dtype:
    """Rounds a large model in place to the dtype that it is stored in, and returns that dtype."""
    size = sum(p.numel() for p in model.parameters())
    dtype = torch.bfloat16 if size >= LARGE else torch.float16 if size >= HALF else torch.float32
    for p in model.parameters():
        p.data = p.data.to(dtype).float()
    return dtype


def keep(folder: Path, name: str, into: Path, *, prompts: int = 6400, device: str = "cpu") -> dict[str, Any]:
    """Writes the model that `lab train` left in `folder` as `into/name.safetensors`; returns its metadata.

    `quality` is the mean error of the rounded model after 0, 1, … examples; `curve` is its training loss.
    """
    model, recipe, about = load_trained(folder / MODEL)
    dtype = rounded(model)
    result = curves(
        recipe.make_task(), recipe.points, {"model": model.to(device)}, prompts=prompts, device=device,
        clean=recipe.target == "clean",
    )["model"]  # fmt: skip
    lines = read(folder / METRICS)
    thinned = lines[:: max(1, len(lines) // 50)]
    about = {
        "quality": [round(e, 7) for e in result.mean(0).tolist()],
        "curve": [[line["step"], round(line["loss"], 6)] for line in thinned],
        "rounded": "" if dtype is torch.float32 else str(dtype).removeprefix("torch."),
        "torch": torch.__version__,
        **{key: about[key] for key in ("seconds", "device", "seeds", "made_with") if key in about},
    }
    state = {n: t.to(dtype) if t.is_floating_point() else t for n, t in model.cpu().state_dict().items()}
    write(into / f"{name}.safetensors", state, recipe, **about)
    return about
