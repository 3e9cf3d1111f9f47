"""Distances between two sets of samples (Reuter et al. 2025): a classifier's accuracy, MMD and Wasserstein's W2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from inweights.ledger import NotHereError

FOLDS, TREES = 4, 40


def c2st(one: Tensor, other: Tensor, seed: int = 0) -> float:
    """The balanced accuracy of a random forest that tells two sets `(count, dims)` apart on held-out samples: 0.5 if
    they cannot be told apart, 1 if always."""
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import StratifiedKFold, cross_val_predict
    except ImportError:
        raise NotHereError("scikit-learn is not installed: pip install 'inweights[lab]' installs it") from None
    features = torch.cat([one, other]).double().numpy()
    labels = torch.cat([torch.zeros(len(one)), torch.ones(len(other))]).numpy()
    forest: Any = RandomForestClassifier(TREES, random_state=seed, n_jobs=1)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    right = torch.tensor(cross_val_predict(forest, features, labels, cv=folds) == labels)
    return float((right[: len(one)].double().mean() + right[len(one) :].double().mean()) / 2)


def mmd(one: Tensor, other: Tensor) -> float:
    """The squared maximum mean discrepancy with the sum of five Gaussian kernels, at ¼ to 4 times the mean squared
    distance."""
    both = torch.cat([one, other]).double()
    square = torch.cdist(both, both).square()
    scale = float(square.sum() / (len(both) * (len(both) - 1)))
    kernel = torch.stack([(-square / (scale * factor)).exp() for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]).sum(0)
    n = len(one)
    return float(kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean())


def w2(one: Tensor, other: Tensor) -> float:
    """Wasserstein's distance W2 of two sets of the same size: the best assignment of one to the other."""
    from scipy.optimize import linear_sum_assignment

    cost = torch.cdist(one.double(), other.double()).square().numpy()
    return float(cost[linear_sum_assignment(cost)].mean() ** 0.5)
