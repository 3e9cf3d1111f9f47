"""`Fold` as a value: applied and gone again, scaled, added up; and its card."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inweights import InputError
from inweights.folding._card import Card
from inweights.folding._fold import Fold, _cut, matrices
from inweights.models import Model
from inweights.models._load import as_model
from inweights.models._tiny import tiny
from inweights.theory import Update

IDS = ((torch.arange(20) * 5 + 35) % 90 + 3).unsqueeze(0)
FAMILIES = ["llama", "gpt2"]


def model(name: str = "llama", dtype: torch.dtype = torch.float32) -> Model:
    return as_model(tiny(name, 0).to(dtype))


def fold(of: Model, seed: int = 0, rank: int = 3, every: int = 1, size: float = 0.3) -> Fold:
    """Random updates of every so-manieth matrix in the blocks, of `size` times the norm of the matrix."""
    generator = torch.Generator().manual_seed(seed)
    updates = {}
    inside = [name for name in matrices(of) if name != "lm_head"]
    for name in inside[::every]:
        out, into = matrices(of)[name]
        made = Update(torch.randn(out, rank, generator=generator), torch.randn(into, rank, generator=generator))
        whole = of.model.get_parameter(f"{name}.weight").detach().float()
        updates[f"{name}.weight"] = made * float(size * whole.norm() / made.frobenius())
    return Fold(updates, Card(base="tiny", base_fingerprint=of.fingerprint, method="random", rank=rank))


def logits(net: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return net(input_ids=IDS.to(next(net.parameters()).device), use_cache=False).logits


# --- what it does ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_applied_adds_the_updates_and_leaves_nothing(name: str, dtype: torch.dtype) -> None:
    of = model(name, dtype)
    made = fold(of)
    before = dict(of.model.named_parameters())
    bits = {n: p.detach().clone() for n, p in before.items()}
    bare = logits(of.model)
    with made.applied(of) as net:
        changed = logits(net)
        for n, update in made.updates.items():
            dense = update.dense().mT if name == "gpt2" else update.dense()
            torch.testing.assert_close(net.get_parameter(n).detach(), (bits[n].to(torch.float32) + dense).to(dtype))
    after = dict(of.model.named_parameters())
    assert all(after[n] is p and torch.equal(p, bits[n]) for n, p in before.items())
    assert torch.equal(logits(of.model), bare)
    assert (changed - bare).abs().max() > 0.5


def test_an_exception_inside_restores_too() -> None:
    of = model()
    before = dict(of.model.named_parameters())
    with pytest.raises(RuntimeError, match="inside"), fold(of).applied(of):
        raise RuntimeError("inside")
    assert all(p is before[n] for n, p in of.model.named_parameters())


def test_gpt2_stores_the_transpose_of_what_a_fold_holds() -> None:
    """The square matrix of attention's output is the case in which a mistake would not be seen by its shape."""
    of = model("gpt2")
    made = fold(of)
    name = "transformer.h.0.attn.c_proj.weight"
    x = torch.randn(5, 32)
    layer = of.model.get_submodule(name.removesuffix(".weight"))
    bare = layer(x)
    with made.applied(of):
        torch.testing.assert_close(layer(x) - bare, made.updates[name](x), rtol=1e-4, atol=1e-5)
    assert (made.updates[name].mT(x) - made.updates[name](x)).abs().max() > 0.1


def test_norms_bytes_and_rank() -> None:
    of = model("gpt2")
    made = fold(of, size=0.3)
    assert all(abs(x - 0.3) < 1e-5 for x in made.norms(of).values())
    assert made.rank == 3
    assert made.nbytes == sum(4 * 3 * sum(u.shape) for u in made.updates.values())


def test_strength_scales_and_the_card_counts_it() -> None:
    of = model()
    made = replace(fold(of), card=replace(fold(of).card, fidelity={"recovered": 0.9}))
    half = 0.5 * made * 3
    assert half.card.strength == 1.5
    assert half.card.fidelity is None, "measured at another strength"
    assert (made * 1).card.fidelity
    for name, update in half.updates.items():
        torch.testing.assert_close(update.dense(), 1.5 * made.updates[name].dense())
    with pytest.raises(InputError, match="`strength` is inf"):
        _ = made * math.inf


def test_the_control_has_the_norms_and_nothing_else() -> None:
    of = model()
    made = fold(of)
    control, again, other = made.random_like(1), made.random_like(1), made.random_like(2)
    for name, update in made.updates.items():
        assert torch.equal(control.updates[name].u, again.updates[name].u)
        assert not torch.equal(control.updates[name].u, other.updates[name].u)
        torch.testing.assert_close(control.updates[name].frobenius(), update.frobenius())
        assert abs(float(control.updates[name].alignment(update))) < 0.5
    assert control.card.method.startswith("random")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m: {"model.layers.9.mlp.up_proj.weight": m}, "no dense layer with the matrix"),
        (lambda m: {"model.norm.weight": m}, "no dense layer with the matrix"),
        (
            lambda m: {"model.layers.0.mlp.down_proj.weight": m.mT},
            r"has shape \(64, 32\), but the matrix is \(32, 64\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_changes(spoil: object, words: str) -> None:
    of = model()
    wrong = Fold(spoil(Update(torch.randn(32, 2), torch.randn(64, 2))), Card())  # type: ignore[operator]
    for use in (lambda: wrong.applied(of).__enter__(), lambda: wrong.norms(of), lambda: wrong.factors(of)):
        with pytest.raises(InputError, match=words):
            use()


def test_a_fold_of_other_weights_is_refused() -> None:
    with pytest.raises(InputError, match="made for other weights"):
        fold(model()).factors(as_model(tiny("llama", 1).float()))


def test_what_is_no_fold() -> None:
    with pytest.raises(InputError, match="at least one matrix"):
        Fold({}, Card())
    with pytest.raises(InputError, match=r"(?s)not the matrix of a layer.*is a batch"):
        Fold({"a.bias": Update(torch.ones(2, 3, 1), torch.ones(4, 1))}, Card())


# --- sums --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_at_full_rank_a_sum_is_the_sum(name: str) -> None:
    of = model(name)
    a, b = fold(of, 1, rank=3), fold(of, 2, rank=2, every=2)
    both, error = a.combined(b, rank=5)
    assert error < 1e-12
    assert both.rank == 5
    assert both.updates.keys() == a.updates.keys() | b.updates.keys()
    for n, update in both.updates.items():
        want = sum(f.updates[n].dense() for f in (a, b) if n in f.updates)
        torch.testing.assert_close(update.dense(), want, rtol=1e-5, atol=1e-5)
    with both.applied(of):
        got = logits(of.model)
    with a.applied(of), Fold(b.updates, Card()).applied(of):
        torch.testing.assert_close(got, logits(of.model), rtol=1e-3, atol=1e-3)


def test_at_a_small_rank_the_error_is_that_of_the_best_cut() -> None:
    of = model()
    a, b = fold(of, 1), fold(of, 2)
    both, error = a.combined(b)
    assert both.rank == 3
    lost = total = 0.0
    for n, update in both.updates.items():
        want = (a.updates[n].dense() + b.updates[n].dense()).double()
        s = torch.linalg.svdvals(want)
        lost, total = lost + float(s[3:].square().sum()), total + float(s.square().sum())
        torch.testing.assert_close(float((update.dense() - want).square().sum()), float(s[3:].square().sum()))
    assert 0.1 < error == pytest.approx(math.sqrt(lost / total), rel=1e-4)
    assert a.combined(b, rank=1)[1] > error > a.combined(b, rank=5)[1]
    assert both.card.rank == 3
    assert both.card.fidelity is None


def test_a_fold_and_its_opposite_leave_nothing() -> None:
    of = model()
    a = fold(of)
    nothing, error = a.combined(-1 * a)
    assert math.isfinite(error)
    assert all(float(u.frobenius()) < 1e-4 for u in nothing.updates.values())


def test_more_columns_than_rows_are_cut_all_the_same() -> None:
    update = Update(torch.randn(4, 9).double(), torch.randn(6, 9).double())
    cut, kept, dropped = _cut(update, 9)
    torch.testing.assert_close(cut.dense(), update.dense())
    assert cut.columns == 4
    assert dropped == 0 < kept


def test_what_cannot_be_added() -> None:
    of, other = model(), as_model(tiny("llama", 1).float())
    with pytest.raises(InputError, match="different weights"):
        fold(of).combined(fold(other))
    with pytest.raises(InputError, match="`rank` is 0"):
        fold(of).combined(fold(of), rank=0)


# --- the card ----------------------------------------------------------------------------------------


def test_trimming_keeps_the_energy_it_says() -> None:
    """Ranks fall, the squared norm stays above the share; all of it changes nothing (float64, 1e-12)."""
    of = model()
    made = fold(of, rank=6)
    least = made.trimmed(0.6)
    assert least.rank < made.rank
    for name, update in made.updates.items():
        share = float(least.updates[name].frobenius() ** 2 / update.frobenius() ** 2)
        one_less = update.singular_values().square()[: least.updates[name].columns - 1].sum() / update.frobenius() ** 2
        assert 0.6 - 1e-6 <= share < 1
        assert float(one_less) < 0.6
        assert float((made.trimmed(1.0).updates[name].dense() - update.dense()).abs().max()) < 1e-5
    with pytest.raises(InputError, match="energy"):
        made.trimmed(0.0)


def test_a_fold_knows_the_model_it_was_made_for(tmp_path: Path) -> None:
    of = model()
    made = fold(of)
    with pytest.raises(InputError, match="pass the `model`"):
        made.save_pretrained(tmp_path / "a")
    kept = replace(made, model=of) * 0.5
    assert kept.save_pretrained(tmp_path / "a").is_dir()
