"""The benchmark of predictors, small: both sides agree, and global settings are restored."""

from __future__ import annotations

import sys

import pytest
import torch

from inweights._errors import InputError
from inweights.bench import load, predictors


def small() -> predictors.Result:
    return load("predictors")(tasks=4, points=9, dims=4, pool=16, sample=2, prefixes=(3, 6), rounds=1)


def test_both_sides_agree_and_threads_are_put_back() -> None:
    threads = torch.get_num_threads()
    result = small()
    assert torch.get_num_threads() == threads
    assert [row.name for row in result.rows] == ["lasso", "ridge", "dmmse", "network", "ols"]
    assert result.headline == "lasso"
    assert result.agrees, result.error
    assert all(row.ours > 0 and row.rival > 0 for row in result.rows)


def test_a_side_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rival = predictors._ridge
    monkeypatch.setattr(predictors, "_ridge", lambda xs, ys: 1.01 * rival(xs, ys))
    assert not small().agrees


def test_threads_are_put_back_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setattr(predictors, "_ols", lambda xs, ys: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        small()
    assert torch.get_num_threads() == threads


def test_without_scikit_learn_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(InputError, match=r"pip install 'inweights\[lab\]'"):
        small()
