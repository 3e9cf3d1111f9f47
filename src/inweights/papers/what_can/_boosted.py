"""XGBoost, which the paper compares with on decision trees. The package is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from inweights.lab.tasks import Sample
from inweights.ledger import NotHereError


def boosted(sample: Sample, after: Sequence[int]) -> Tensor:
    """The predictions `(batch, len(after))` of XGBoost on the signs of the inputs, after these numbers of examples, by
    the paper's settings: 50 trees of depth 4, rate 0.1."""
    try:
        import xgboost
    except ImportError:
        raise NotHereError("XGBoost is not installed: pip install 'inweights[lab]' installs it") from None
    made: Any = xgboost.XGBRegressor
    xs, ys = sample.xs.sign().cpu().double().numpy(), sample.ys.cpu().double().numpy()
    result = torch.zeros(len(xs), len(after), dtype=torch.float64)
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        for j, n in enumerate(after):
            model = made(n_estimators=50, max_depth=4, learning_rate=0.1, n_jobs=1).fit(x[:n], y[:n])
            result[i, j] = float(model.predict(x[n : n + 1])[0])
    return result.to(sample.xs.device)
