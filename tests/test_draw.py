"""Values draw themselves: their numbers, on any axes, safely; without matplotlib there is a sentence."""

from __future__ import annotations

import sys
from typing import Any

import matplotlib as mpl
import pytest
import torch
from matplotlib.figure import Figure as Canvas

import inweights as iw
from inweights._draw import Bar, draw_bars, png, readable, svg
from inweights.folding import Card, card_bars
from inweights.lab import Curves
from inweights.models import Proof, Trace
from inweights.theory import Update

PROOF = Proof(2e-13, 31.5, True, "float64", 30, 1e-9, "PASS")
TOKENS = ["<script>", "$x", "$$", "\x1b[31m", "日本", "Ġpirate"]
GRID = torch.arange(1.0, 13.0).view(2, 6)
TRACE = Trace(TOKENS, ["0", "1"], GRID, GRID / 100, GRID, GRID, 0.5)
CURVES = Curves({"ols": torch.rand(8, 5), "$ridge": torch.rand(8, 5)}, "squared error")


def fold() -> iw.Fold:
    updates = {
        f"model.layers.{i}.{name}.weight": Update(torch.ones(3, 1), torch.ones(2, 1))
        for i in range(2)
        for name in ("mlp.up", "mlp.down")
    }
    return iw.Fold(updates, Card(base="<b>", method="match"))


def axes() -> Any:
    return Canvas().add_subplot()


@pytest.mark.parametrize("value", [PROOF, TRACE, CURVES, fold()], ids=lambda v: type(v).__name__)
def test_a_value_draws_itself(value: Any) -> None:
    mpl.use("agg")
    mine = axes()
    assert value.plot(mine) is mine
    assert mine.has_data()
    html = value._repr_html_()
    assert "<table>" in html
    assert "<svg" in html
    assert "http" not in html, "a figure loads nothing"
    assert "<script" not in html
    assert "currentColor" in html
    assert html == value._repr_html_()
    from matplotlib import pyplot

    assert not pyplot.get_fignums(), "showing a value leaves no figure behind"
    value.plot()
    assert len(pyplot.get_fignums()) == 1
    pyplot.close("all")


def test_the_numbers_are_those_of_the_value() -> None:
    assert "2.0e-13" in PROOF._repr_html_()
    assert [bar.value for bar in PROOF.bars()] == [2e-13, 1e-9, 31.5]
    assert TRACE.top(2) == [("Ġpirate", 5, 9.0), ("日本", 4, 8.0)]
    drawn = axes()
    TRACE.plot(drawn)
    assert drawn.images[0].get_array().tolist() == GRID.tolist()
    drawn = axes()
    fold().plot(drawn)
    assert drawn.images[0].get_array().tolist() == [[pytest.approx(6**0.5)] * 2] * 2


def test_an_entry_draws_its_quantities() -> None:
    (entry,) = iw.claims("dherin-minimum-norm")
    html = entry._repr_html_()
    assert f"PASS: {'the sentence holds'}" in html
    assert all(f">{name}</text>" in html for name in entry.quantities)
    mine = [axes() for _ in entry.seen]
    assert entry.plot(mine) == mine
    assert all(a.has_data() for a in mine)


def test_the_card_of_a_fold_as_bars() -> None:
    table = {
        "folded, x": {"recovered": {"value": 0.9, "low": 0.8, "high": 1.0}, "kl": 0.1},
        "control: random, x": {"recovered": {"value": 0.0, "low": None, "high": None}},
        "right answers to questions about the prompt": {"folded": 0.5, "bare": 0.0},
    }
    bars = card_bars(table)
    assert [(b.value, b.low, b.colour) for b in bars] == [
        (0.9, 0.8, "blue"), (0.0, None, "orange"), (0.5, None, "blue"), (0.0, None, "grey"),
    ]  # fmt: skip


def test_odd_numbers_and_names() -> None:
    bars = [Bar("$a", 0.0), Bar("<b>", float("nan")), Bar("c", 1e-300), Bar("d", -1.0, -2.0, 0.5)]
    assert png(lambda a: draw_bars(a, bars[:3], "x", log=True)).startswith(b"\x89PNG")
    text = svg(lambda a: draw_bars(a, [bars[0], bars[3]], "x"), label='"><script>')
    assert "<script" not in text
    assert ">$a</text>" in text
    assert readable("Ġa\x00Ċ") == " a·⏎"


def test_without_matplotlib_there_is_a_table_and_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    html = PROOF._repr_html_()
    assert "2.0e-13" in html
    assert "Figures need matplotlib: install it with pip install" in html
    with pytest.raises(iw.InputError, match="Figures need matplotlib"):
        PROOF.plot()
