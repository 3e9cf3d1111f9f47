"""Training rows become weights: TabPFN, and small networks of its kind with random weights."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from torch import Tensor, nn
from typer.testing import CliRunner

from inweights import models
from inweights._errors import InputError
from inweights._fetch import cache, cached
from inweights.cli.rows import rows_command
from inweights.models import _rows
from inweights.models._rows import TABPFN, RowLearner, RowsResult, each, fold_rows, load_tabpfn, rows, scaled, table
from inweights.theory import Changes


@pytest.fixture(scope="module")
def tabpfn() -> RowLearner:
    return load_tabpfn()


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def small(seed: int = 0) -> RowLearner:
    torch.manual_seed(seed)
    return RowLearner(depth=3, width=16, inner=24, heads=2).double()


def problem(n: int, m: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    known, asked = (torch.randn(k, 100, generator=g, dtype=torch.float64) for k in (n, m))
    return known, torch.randint(0, 3, (n,), generator=g).double(), asked


def kept_of(full: tuple[Tensor, Tensor, Tensor], keep: int) -> tuple[Tensor, Tensor, Tensor]:
    return full[0][:keep], full[1][:keep], full[2]


def test_the_network_is_torchs_own_post_norm_encoder(tabpfn: RowLearner) -> None:
    """The oracle: `nn.TransformerEncoderLayer` with the same weights and a mask over the rows without labels."""
    assert sum(p.numel() for p in tabpfn.parameters()) == 25_821_706
    known, labels, asked = problem(7, 3)
    x = tabpfn.embed(known, labels, asked)
    hidden = torch.zeros(10, 10, dtype=torch.bool)
    hidden[:, 7:] = True
    for block in tabpfn.blocks:
        layer = nn.TransformerEncoderLayer(512, 4, 1024, 0.0, "gelu", batch_first=True, dtype=torch.float64)
        layer.load_state_dict(block.state_dict())
        x = layer(x, src_mask=hidden)
    theirs = tabpfn.decoder(x[7:])
    assert (tabpfn(known, labels, asked) - theirs).abs().max() < 1e-10


@pytest.mark.parametrize(("data", "right"), [("iris", 70), ("wine", 88), ("breast_cancer", 279)])
def test_half_of_a_table_teaches_the_other_half(tabpfn: RowLearner, data: str, right: int) -> None:
    """The published network without training, on a split that was measured before this code was written."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    x, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    split = train_test_split(x, y, test_size=0.5, random_state=0, stratify=y)
    known, asked, labels, truth = (torch.as_tensor(part) for part in split)
    known, asked = scaled(known, asked)
    logits = tabpfn(known, labels.double(), asked)
    results = int((logits[:, : int(y.max()) + 1].argmax(-1) == truth).sum())
    assert abs(results - right) <= 1


def test_the_pickle_is_opened_once(tabpfn: RowLearner, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("opened again")

    monkeypatch.setattr(torch, "load", never)
    monkeypatch.setattr(_rows, "fetch", never)
    again = load_tabpfn()
    for mine, other in zip(again.parameters(), tabpfn.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_damaged_weights_are_made_anew(tabpfn: RowLearner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = cached(TABPFN) or pytest.fail("the fixture fetched it")
    plain = cache() / TABPFN.sha256 / "tabpfn.safetensors"
    elsewhere = tmp_path / TABPFN.sha256
    elsewhere.mkdir()
    (elsewhere / source.name).symlink_to(source)
    (elsewhere / plain.name).write_bytes(plain.read_bytes()[:1000])
    (elsewhere / f"{plain.name}.note").write_bytes(plain.with_name(f"{plain.name}.note").read_bytes())
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    assert torch.equal(load_tabpfn().encoder.weight, tabpfn.encoder.weight)


def test_scaling_uses_the_labelled_rows_alone() -> None:
    g = torch.Generator().manual_seed(0)
    known, asked = torch.randn(9, 5, generator=g).double() * 7 + 3, torch.randn(4, 5, generator=g).double()
    known[:, 2] = 1.5  # says nothing, and must not reach anything, whatever the other rows have there
    mine, theirs = scaled(known, asked)
    assert mine.shape == (9, 100)
    assert theirs.shape == (4, 100)
    assert torch.allclose(mine[:, :4].mean(0), torch.zeros(4).double(), atol=1e-12)
    assert torch.allclose(mine[:, :4].std(0), torch.full((4,), 25.0).double(), rtol=1e-5)
    assert not mine[:, 4:].any()
    assert torch.equal(scaled(known, asked[:1])[1], theirs[:1])
    assert torch.equal(scaled(known, asked * 2)[0], mine)
    assert not any(x.any() for x in scaled(known[:1], asked))  # one row has no scale


@pytest.mark.parametrize("data", ["iris", "wine", "breast_cancer"])
def test_every_stretch_of_a_table_has_its_share_of_each_class(data: str) -> None:
    x, y = table(data, seed=0)
    assert len(x) == len(y) == _rows.SIZES[data]
    share = torch.bincount(y) / len(y)
    for start, stop in ((0, 10), (0, 60), (60, 100)):
        counts = torch.bincount(y[start:stop], minlength=len(share))
        assert bool((counts > 0).all())
        assert bool(((counts - share * (stop - start)).abs() <= 3).all())
    assert torch.equal(table(data, seed=0)[0], x)
    assert not torch.equal(table(data, seed=1)[0], x)
    assert torch.equal(x.sort(0).values, table(data, seed=1)[0].sort(0).values)


@pytest.mark.parametrize("keep", [1, 4, 11])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_changes_stand_for_the_rows(keep: int, seed: int) -> None:
    model, full = small(seed), problem(12, 5, seed)
    kept = kept_of(full, keep)
    changes = fold_rows(model, full, kept)
    wanted, bare = model(*full), model(*kept)
    patched = changes.run(model, *each(kept))[:, 0]
    assert (patched - wanted).abs().max() < 1e-10
    assert (bare - wanted).abs().max() > 1e-4
    assert {u.name for u in changes.updates} == {f"blocks.{i}.linear1.weight" for i in range(3)}
    assert {s.name for s in changes.shifts} == {f"blocks.{i}.linear2.bias" for i in range(3)}
    assert all(bool((u.rank() == 1).all()) for u in changes.updates)


def test_the_networks_own_forward_one_row_at_a_time() -> None:
    """Without vmap: parameters exchanged, the plain forward called, the parameters back afterwards."""
    model, full = small(), problem(12, 5)
    kept = kept_of(full, 4)
    before = {name: p.clone() for name, p in model.named_parameters()}
    changes, wanted = fold_rows(model, full, kept), model(*full)
    for i in range(5):
        one = Changes((*(u[i] for u in changes.updates), *(s.remade(s.delta[i]) for s in changes.shifts)))
        with one.applied(model):
            assert (model(kept[0], kept[1], kept[2][i : i + 1])[0] - wanted[i]).abs().max() < 1e-10
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_changes_belong_to_their_row() -> None:
    model, full = small(), problem(12, 5)
    known, labels, asked = kept_of(full, 4)
    changes = fold_rows(model, full, (known, labels, asked))
    crossed = changes.run(model, *each((known, labels, asked.roll(1, 0))))[:, 0]
    assert (crossed - model(*full).roll(1, 0)).abs().max() > 1e-3


def test_folding_nothing_changes_nothing() -> None:
    model, full = small(), problem(6, 3)
    changes = fold_rows(model, full, full)
    assert max(float(u.frobenius().max()) for u in changes.updates) < 1e-12


def test_fifty_of_sixty_rows_become_weights_of_tabpfn() -> None:
    results = rows("breast_cancer", keep=10, queries=12)
    assert results.folded == 50
    assert results.max_abs_logit_error <= 1e-9
    assert results.bare_max_abs_logit_error > 0.5
    assert results.control_max_abs_logit_error > 0.5
    assert results.accuracy_patched == results.accuracy_all >= 0.8
    assert len(results.sizes) == 12
    assert all(1e-4 < size < 0.5 for size in results.sizes)
    assert results.holds


def test_a_single_row_is_enough_to_hold_the_weights() -> None:
    results = rows("iris", keep=1, folded=59, queries=6, seed=3)
    assert results.holds
    assert results.accuracy_kept < results.accuracy_patched == results.accuracy_all


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": "irs", "keep": 10}, "There is no table 'irs'; did you mean iris?"),
        ({"data": "iris", "keep": 0}, "`keep` is 0"),
        ({"data": "iris", "keep": 10, "folded": 0}, "`folded` is 0"),
        ({"data": "wine", "keep": 10, "queries": -1}, "`queries` is -1"),
        ({"data": "iris", "keep": 10, "folded": 101}, "111 training rows are too many"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    arguments: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rows, "load_tabpfn", None)
    monkeypatch.setattr(_rows, "table", None)
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        rows(**arguments)


def test_no_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match="pip install scikit-learn"):
        rows("iris", 10)


def result(error: float = 1e-14, bare: float = 3.0, control: float = 10.0) -> RowsResult:
    return RowsResult("iris", 10, 50, 40, 0, error, bare, control, 0.975, 0.95, 0.975, 0.5, (0.01,) * 12)


def test_what_counts_as_holding() -> None:
    assert result().holds
    for wrong in (result(error=1e-8), result(error=float("nan")), result(bare=1e-12), result(control=1e-12)):
        assert not wrong.holds


def run(monkeypatch: pytest.MonkeyPatch, found: RowsResult | None, *args: str) -> Any:
    """The command, with `found` instead of the work, if given."""
    app = typer.Typer()
    app.command()(rows_command)
    if found:
        monkeypatch.setattr(models, "rows", lambda *a, **k: found)
    return CliRunner().invoke(app, args)


def test_the_command_prints_an_object_or_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, result(), "--data", "iris", "--keep", "10", "--json")
    assert done.exit_code == 0
    results = json.loads(done.stdout)
    assert {f"{run}max_abs_logit_error" for run in ("", "bare_", "control_")} <= set(results)
    assert {f"accuracy_{run}" for run in ("all", "kept", "patched", "control")} <= set(results)
    assert results["verdict"] == "holds"
    output = run(monkeypatch, result()).stdout
    for words in ("10 read, 50 in the weights", "1.0e-14", "10.00", "‖ΔW‖/‖W‖"):
        assert words in output


@pytest.mark.parametrize("found", [result(error=1e-8), result(control=1e-12)])
@pytest.mark.parametrize("args", [(), ("--json",)])
def test_the_command_exits_with_1_if_it_does_not_hold(
    found: RowsResult, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(monkeypatch, found, *args)
    assert done.exit_code == 1
    assert "does not hold" in done.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--data", "wines"), "There is no table 'wines'; did you mean wine?"),
        (("--keep", "0"), "--keep is 0 and --rows is 60"),
        (("--keep", "60"), "--keep is 60 and --rows is 60"),
        (("--keep", "-3"), "--keep is -3 and --rows is 60"),
        (("--rows", "150"), "150 training rows are too many: iris has 150 rows"),
    ],
)
def test_the_command_refuses_bad_input(args: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, None, *args, "--json")
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
