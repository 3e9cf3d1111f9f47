"""What figures and tables show of a fold is what its card and its report contain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.figure import Figure

from inweights.folding._card import Card
from inweights.folding._show import card_bars, card_rows, draw_norms, fidelity_bars, fidelity_rows

INTERVAL = {"value": 0.8, "low": 0.7, "high": 0.9}
NOTHING = {"value": 0.0, "low": -0.1, "high": 0.1}
SET: dict[str, Any] = {
    "name": "made-up queries", "recovered": INTERVAL, "controls": {"random updates": NOTHING}, "kl_bare": 1.0,
    "kl_folded": 0.2, "agree_bare": 0.25, "agree_folded": 0.75,
}  # fmt: skip
REPORT: dict[str, Any] = {
    "verdict": "PARTIAL", "sets": [SET], "studied": {"name": "questions about the prompt", "recovered": INTERVAL},
    "turns": [{"name": "turn 2", "recovered": NOTHING}],
    "recall": {"accuracy": {"prompted": 0.9, "folded": 0.5, "random": 0.1, "window": None}},
    "side_effects": {"kl_folded": 0.01, "kl_prompted": 0.02}, "saved": {"tokens": 336}, "warnings": ["few queries"],
}  # fmt: skip
LEAST: dict[str, Any] = {"verdict": "FAILED", "sets": [{**SET, "controls": None}]}


def test_bars_of_a_report() -> None:
    bars = {bar.label: bar for bar in fidelity_bars(REPORT)}
    assert bars["recovered, made-up queries"].colour == bars["recovered, questions about the prompt"].colour == "blue"
    assert (bars["recovered, turn 2"].value, bars["recovered, turn 2"].low) == (0.0, -0.1)
    assert bars["control: random updates"].colour == "orange"
    assert bars["right answers with the fold"].value == 0.5
    assert bars["right answers with the whole prompt"].colour == "grey"
    assert not any("passage" in label for label in bars)  # was not measured
    assert [bar.label for bar in fidelity_bars(LEAST)] == ["recovered, made-up queries"]


def test_bars_of_a_card_are_those_of_its_intervals() -> None:
    table = {
        "made-up queries": {"recovered": INTERVAL}, "control: random updates": {"recovered": NOTHING},
        "an old card": {"recovered": 0.5}, "a remark": "text",
        "right answers to questions about the prompt": {"folded": 0.5, "bare": None},
    }  # fmt: skip
    bars = [(bar.label, bar.value, bar.colour) for bar in card_bars(table)]
    assert bars == [
        ("recovered, made-up queries", 0.8, "blue"), ("control: random updates", 0.0, "orange"),
        ("right answers with the fold", 0.5, "blue"),
    ]  # fmt: skip
    assert card_bars({}) == []


def test_rows_of_a_report_name_only_what_was_measured() -> None:
    rows = dict(fidelity_rows(REPORT))
    assert rows["verdict"] == "PARTIAL"
    assert rows["same next token"] == "25.0% bare, 75.0% folded"
    assert rows["unrelated text, KL a token"] == "0.0100 (the prompt: 0.0200)"
    assert (rows["prompt tokens saved at every request"], rows["warning"]) == ("336", "few queries")
    assert len(fidelity_rows(LEAST)) == 3


def test_rows_of_a_card() -> None:
    card = Card(prompt_tokens=12, chat=True, method="", rank=4, strength=0.5)
    assert dict(card_rows(card)) == {
        "base model": "not known", "stands for": "a system prompt of 12 tokens",
        "method, rank, strength": "not known, 4, 0.5",
    }  # fmt: skip
    other = dict(card_rows(replace(card, base="m", chat=False, method="match", calibration={"queries": 8})))
    assert other["stands for"] == "a text before the query of 12 tokens"
    assert (other["base model"], other["calibration queries"]) == ("m", "8")


@pytest.mark.parametrize("relative", [True, False])
def test_norms_are_drawn_by_layer_and_kind(relative: bool) -> None:
    norms = {"model.layers.0.mlp.up.weight": 1.0, "model.layers.2.mlp.up.weight": 3.0, "model.layers.2.mlp.down": 4.0}
    axes: Any = Figure().subplots()
    draw_norms(axes, norms, relative=relative)
    grid = axes.images[0].get_array().filled(math.nan).tolist()
    assert grid[0] == [1.0, 3.0]
    assert math.isnan(grid[1][0])
    assert grid[1][1] == 4.0
    assert [t.get_text() for t in axes.get_yticklabels()] == ["mlp.up", "mlp.down"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0", "2"]
    assert axes.figure.axes[1].get_ylabel() == ("‖ΔW‖/‖W‖" if relative else "‖ΔW‖")
    without_layers: Any = Figure().subplots()
    draw_norms(without_layers, {"head": 2.0}, relative=relative)
    assert without_layers.images[0].get_array().tolist() == [[2.0]]
