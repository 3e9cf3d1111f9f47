"""A whole comparison on a tiny model: its keys, its verdicts, and that it goes on where it was stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from worded import ROWS, reader

from inweights import InputError
from inweights.compare import (
    Plan,
    attention_matrices,
    construction,
    cost,
    gaussian_like,
    run_comparison,
    shots,
    sparsity,
    untrained,
)
from inweights.compare import _run as running
from inweights.compare._many import most_that_fit
from inweights.compare._verdicts import AGAINST, FOR, HOLDS, NOT_SHOWN, OPEN, existence, judged, overall
from inweights.models import Model
from inweights.report import write_comparison

SMALL = Plan(
    "sst2", queries=5, orders=3, epochs=4, every=2, rates=(1e-3, 1e-2), ways=("gd", "layer-causal", "sgd-2", "patch")
)
MORE = ("sizes", "many", "attention", "updates", "martingale")


@pytest.fixture(autouse=True)
def films(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reviews of made-up words in place of the data set."""
    monkeypatch.setattr("inweights.compare._shots.pairs", lambda name: ROWS)


@pytest.fixture
def model() -> Model:
    return reader()


def test_the_keys_that_scripts_rely_on(model: Model, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    result = run_comparison(model, SMALL, folder=tmp_path, after=lambda *step: steps.append(step))
    found = json.loads(json.dumps(result.as_json()))
    assert {"accuracy", "order_sensitivity", "token_overlap", "overlap_cosine", "verdicts"} <= set(found)
    assert set(found["overlap_cosine"]) == {"penalised", "digest", "padded"}
    assert found["token_overlap"]["patch"]["token_overlap"][0] == 1.0
    assert found["kl"]["patch"]["kl"][0] <= 1e-12 < found["kl"]["zero-shot"]["kl"][0]
    assert found["largest_difference_between_orders"] <= 1e-10
    assert found["order_sensitivity"]["sgd-2"]["sensitivity"][0] > 1e-6
    assert found["order_sensitivity"]["construction"]["sensitivity"][0] <= 1e-12
    assert found["verdicts"]["hypothesis_2"]["verdict"] == HOLDS
    assert {f["hypothesis"] for f in found["verdicts"].values()} == {1, 2}
    assert ("gd, rate 0.01", 4, 4) in steps
    assert len(found["curves"]["gd"]) == 4
    assert found["sparsity"]["quantised"] is False
    assert set(found["sparsity"]["shares"]) == {"queries", "keys", "values"}
    drawn = sparsity(gaussian_like(attention_matrices(model.model)["keys"]), relative=True).max(0).values.tolist()
    assert found["sparsity"]["random"]["keys"]["relative"] == drawn != found["sparsity"]["shares"]["keys"]["relative"]
    table = result.table()
    assert {"in-context", "zero-shot", "gd", "in-context, untrained", "gd, embeddings", "construction"} <= set(table)
    for row in table.values():
        for values in row.values():
            assert len(values) == 1 or values[1] <= values[0] + 1e-9 <= values[2] + 2e-9
    written = write_comparison(tmp_path, result)
    assert all(path.stat().st_size > 100 for path in written)


def test_a_stopped_run_goes_on_and_gives_the_same(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(SMALL, ways=("gd",), controls=False)
    whole = run_comparison(model, plan, folder=tmp_path / "a").as_json()
    calls: list[float] = []
    real = running.measured_descent

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[4])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(running, "measured_descent", counted)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(model, plan, folder=tmp_path / "b")
    again = run_comparison(model, plan, folder=tmp_path / "b").as_json()
    assert calls == [1e-3, 1e-2, 1e-2]
    for found in (whole, again):
        found["setting"].pop("folder")
    assert again == whole
    (damaged,) = (tmp_path / "b").rglob("gd-0.01-4-2.json")
    damaged.write_text(damaged.read_text()[:40])
    third = run_comparison(model, plan, folder=tmp_path / "b").as_json()
    assert calls == [1e-3, 1e-2, 1e-2, 1e-2]
    assert third["curves"] == whole["curves"]


def test_further_comparisons(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_further", "_plan"):
        monkeypatch.setattr(f"inweights.compare.{module}.COUNTS", (8, 16))
    monkeypatch.setattr("inweights.compare._martingale.REPLICATES", 20)
    plan = replace(SMALL, ways=("gd", *MORE), controls=False)
    found = run_comparison(model, plan, folder=tmp_path).as_json()["further"]
    assert set(found) == set(MORE)
    assert set(found["sizes"]) == {"0", "1", "2", "4", "8"}
    assert found["many"]["in_context"]["demonstrations"] == 16
    epochs = {count: [f["epoch"] for f in each] for count, each in found["many"]["descent"].items()}
    assert epochs == {"8": [1, 2, 1, 2], "16": [1, 1]}  # as many steps at two rates
    assert set(found["attention"]) == {
        f"{kind}, {name}" for kind in ("gd", "layer-causal") for name in ("trained", "untrained")
    }
    assert len(found["updates"]["gradient"][0]["cosine"]) == len(found["updates"]["matrices"]) == 8
    assert sum(v["violated"] for name, v in found["martingale"].items() if "bayesian" in name) <= 3


def test_other_ways_may_have_fewer_epochs(model: Model, tmp_path: Path) -> None:
    plan = replace(SMALL, ways=("gd", "mlp", "sgd-2"), controls=False, also_epochs=1)
    found = run_comparison(model, plan, folder=tmp_path)
    assert {way: {p["epoch"] for p in points} for way, points in found.descents.items()} == {
        "gd": {2, 4}, "mlp": {1}, "sgd-2": {1},
    }  # fmt: skip
    assert {way: orders["epochs"] for way, orders in found.orders.items()} == {"gd": 2, "sgd-2": 1}
    with pytest.raises(InputError, match="`also_epochs` is 5: it must be at most the 4 epochs of gd"):
        replace(plan, also_epochs=5).check()


def test_the_most_demonstrations_that_fit(model: Model) -> None:
    shown = shots(model, "sst2", 40, 3)
    each = max(len(q) + len(a) + len(shown.ended) for q, a in zip(shown.asked, shown.answered, strict=True))
    fits = most_that_fit(model, shown)
    assert 512 - 2 * each <= len(shown.prefix(range(fits))) + max(map(len, shown.queries)) <= 512 or fits == 40
    assert most_that_fit(model, replace(shown, before=(0,) * 400)) < fits


def test_everything_that_is_wrong_with_a_plan_is_told_at_once() -> None:
    with pytest.raises(InputError) as error:
        Plan("sst3", demonstrations=1, orders=1, epochs=5, every=9, rates=(0.0,), ways=("gb",)).check()
    lines = str(error.value).splitlines()
    assert len(lines) == 7
    assert any("did you mean sst2" in line for line in lines)


def test_a_cost_is_expected_for_every_part(model: Model) -> None:
    shown = shots(model, "sst2", 4, 5)
    expected = cost(model, replace(SMALL, ways=("gd", "sgd-2", "fold")), shown)
    assert {"in-context", "gd", "gd, orders", "sgd-2", "untrained", "fold"} <= set(expected.parts)
    assert expected.seconds > 0


def test_models_without_training(model: Model) -> None:
    held = model.model.get_input_embeddings().weight
    plain, mixed = untrained(model, 7), untrained(model, 7, embeddings=True)
    assert torch.equal(mixed.model.get_input_embeddings().weight, held)
    assert not torch.equal(plain.model.get_input_embeddings().weight, held)
    assert torch.equal(plain.model.model.layers[0].mlp.up_proj.weight, mixed.model.model.layers[0].mlp.up_proj.weight)
    assert plain.dtype == model.dtype


def test_the_construction_is_gradient_descent_and_its_controls_are_not() -> None:
    found = construction(3)
    assert max(found["order_sensitivity"]) <= 1e-12
    assert found["token_overlap"] == [1.0] * 20
    assert min(found["sgd_sensitivity"]) > 1e-6
    assert sum(found["softmax_overlap"]) / 20 < 0.95
    assert existence(found).verdict == HOLDS
    assert existence(found | {"order_sensitivity": [1e-3]}).verdict == NOT_SHOWN
    assert existence(found | {"softmax_overlap": [1.0] * 20}).verdict == NOT_SHOWN


def test_verdicts_follow_from_intervals_and_need_all_to_agree() -> None:
    assert judged((0.2, 0.1, 0.3), "").verdict == AGAINST
    assert judged((-0.2, -0.3, 0.0), "").verdict == FOR
    assert judged((0.1, -0.1, 0.3), "").verdict == OPEN
    names = ("order", "token_overlap", "penalised", "digest", "padded")
    against, for_ = judged((0.2, 0.1, 0.3), ""), judged((-0.2, -0.3, -0.1), "")
    assert overall(dict.fromkeys(names, against)).verdict == AGAINST
    assert overall(dict.fromkeys(names, against) | {"padded": for_}).verdict == OPEN
