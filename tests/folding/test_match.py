"""Fitting by gradient: the right gradient, the same fold for the same seed, and less divergence than before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from talking import talker

from inweights import InputError
from inweights.folding import (
    Examples,
    Fold,
    Frame,
    Steps,
    _methods,
    answered,
    made_up,
    make,
    measure,
    solve_updates,
    working,
)
from inweights.folding._card import Card
from inweights.folding._draw import Draws
from inweights.folding._fidelity import Distance, distance, recovered
from inweights.folding._lessons import steps_for_facts
from inweights.folding._lora import Lora, linear_modules
from inweights.folding._match import Fit, fit
from inweights.folding._methods import METHODS, steps_for
from inweights.folding._steps import Divergence, with_truth
from inweights.folding._teacher import prompted
from inweights.models import Model
from inweights.theory import Changes, Update

CONTEXT = "Speak like a pirate."
FEW = Steps(count=12, rate=5e-3, batch=4, match=1.0)


def some(model: Model, n: int = 8, seed: int = 0) -> Examples:
    frame = Frame.of(model, CONTEXT)
    return answered(frame, made_up(frame, n, seed, new=4), seed, new=6)


def test_the_divergence_has_the_gradient_of_its_definition() -> None:
    """float64, 1e-12; with other weights the gradient is another."""
    torch.manual_seed(0)
    student = torch.randn(7, 11, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(7, 11, dtype=torch.float64)
    weights = torch.tensor([1.0, 1, 0, 1, 0.5, 1, 1], dtype=torch.float64)
    lt, ls = teacher.float().log_softmax(-1), student.float().log_softmax(-1)
    plain = ((lt.exp() * (lt - ls)).sum(-1) * weights).sum() / weights.sum()
    ours = Divergence.apply(student, teacher, weights, 1.0)
    assert torch.allclose(plain.double(), ours.double(), atol=1e-6)
    g = torch.autograd.grad(ours, student)[0]
    assert torch.allclose(g, torch.autograd.grad(plain, student)[0].double(), atol=1e-6)
    other = torch.autograd.grad(Divergence.apply(student, teacher, weights.flip(0), 1.0), student)[0]
    assert float((g - other).abs().max()) > 1e-3


def test_a_sure_token_has_at_least_half_of_the_target() -> None:
    """float32, 1e-6, against the definition; rows that are not sure stay as the teacher has them."""
    torch.manual_seed(0)
    teacher, tokens = 3 * torch.randn(6, 11), torch.tensor([0, 3, 5, 5, 10, 2])
    sure = torch.tensor([1.0, 0, 1, 0, 1, 1])
    p = with_truth(teacher, tokens, sure).exp()
    plain = teacher.softmax(-1)
    for row in range(6):
        wanted = plain[row].clone()
        if sure[row]:
            wanted = wanted / 2
            wanted[tokens[row]] += 0.5
        assert torch.allclose(p[row], wanted, atol=1e-6)
    assert not torch.allclose(p[0], plain[0], atol=1e-2)


def test_sure_answers_are_learned_where_the_teacher_would_not_give_them() -> None:
    """Answers that no model with random weights would give: fitted as sure, each of their tokens becomes the likeliest;
    the control, the same answers left to their teacher, do not."""
    model = talker()
    frame = Frame.of(model, CONTEXT)
    queries = ("What is it?", "Who is there?")
    answers = tuple(tuple(model.tokenizer(a, add_special_tokens=False)["input_ids"]) for a in ("owls", "Fenn"))
    plain = Examples(frame, queries, tuple(map(frame.asked, queries)), answers)
    right = []
    for examples in (replace(plain, sure=(True, True)), plain):
        updates = solve_updates(model, examples, steps=Steps(count=60, rate=1e-2, batch=2, match=0.0)).updates
        whole, index = plain.batch([0, 1]), plain.answer_rows()[0]
        with Fold(updates, Card(), model).applied(model) as net, torch.no_grad():
            best = net(input_ids=whole.ids).logits.argmax(-1).gather(1, index)
        right.append(float((best == torch.tensor(answers)).double().mean()))
    assert right[0] == 1.0
    assert right[1] < 0.5


def test_both_ways_to_apply_the_factors_agree(model: Model) -> None:
    """float64, 1e-10: `W + B A` merged, and `B A x` beside; random factors change the logits by far more."""
    lora = Lora(model, 3, seed=1, merged=True)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in lora.parameters:
            p.copy_(torch.randn(p.shape, generator=generator) * 0.1)
    ids = (torch.arange(20) * 7 % 250).unsqueeze(0)
    with torch.no_grad():
        merged, beside = (f(input_ids=ids, use_cache=False).logits for f in (lora.merged, lora.beside))
        plain = model.model(input_ids=ids, use_cache=False).logits
        with Fold(lora.updates(), Card()).applied(model) as net:
            folded = net(input_ids=ids, use_cache=False).logits
    assert float((merged - beside).abs().max()) < 1e-6  # the factors are float32
    assert float((merged - folded).abs().max()) < 1e-6
    assert float((merged - plain).abs().max()) > 0.1


def test_a_share_of_the_update_is_kept() -> None:
    """float32, exact for one half; an update that is gone on from is kept whole."""
    model = talker()
    examples = some(model)

    def solved(keep: float, start: Mapping[str, Update] | None = None) -> dict[str, Update]:
        how = replace(FEW, count=2, match=0.0, keep=keep)
        return solve_updates(model, examples, rank=2, steps=how, low=model, start=start).updates

    whole, half = solved(1.0), solved(0.5)
    assert any(float(update.u.abs().max()) > 0 for update in whole.values())
    for name, update in whole.items():
        assert torch.equal(half[name].u, 0.5 * update.u)
        assert torch.equal(half[name].v, update.v)
    again, kept = solved(1.0, whole), solved(0.5, whole)
    assert all(torch.equal(kept[name].u, again[name].u) for name in again)


def test_examples_are_drawn_as_often_as_they_are_worth() -> None:
    """In one pass over all, and without a number for each, once."""
    lengths, times = [5, 9, 7, 3], (3, 1, 2, 2)
    for given, wanted in ((times, times), ((), (2, 2, 2, 2))):
        seen = Counter(i for chosen in Draws(lengths, 1, 0, given).next(8) for i in chosen)
        assert tuple(seen[i] for i in range(4)) == wanted


def test_a_start_is_where_fitting_starts(model: Model) -> None:
    lora = Lora(model, 4, seed=0)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in lora.parameters:
            p.copy_(torch.randn(p.shape, generator=generator))
    again = Lora(model, 4, seed=1, start=lora.updates()).updates()
    for name, update in lora.updates().items():
        assert torch.allclose(update.dense(), again[name].dense(), atol=1e-4)
    assert all(float(u.frobenius()) == 0 for u in Lora(model, 4, seed=1).updates().values())


def test_every_matrix_of_the_blocks_is_fitted(model: Model) -> None:
    names = linear_modules(model)
    assert len(names) == (14 if model.name == "llama" else 8)
    assert not any("head" in n or "embed" in n for n in names)


@pytest.mark.parametrize("match", [0.0, 10.0])
def test_fitting_brings_the_model_closer_and_leaves_it_alone(match: float) -> None:
    model = talker()
    examples = some(model, 16)
    before = {k: v.clone() for k, v in model.model.state_dict().items()}
    teacher = prompted(model, examples, blocks=True)
    lora = Lora(model, 4)
    fit(model, examples, teacher, lora, replace(FEW, count=40, match=match))
    bare = distance(model, examples, teacher)
    folded = distance(model, examples, teacher, Changes(tuple(lora.updates().values())).applied(model.model))
    assert folded.mean_kl < 0.5 * bare.mean_kl
    assert all(torch.equal(v, before[k]) for k, v in model.model.state_dict().items())


def test_the_same_seed_gives_the_same_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_methods, "steps_for", lambda *_: FEW)  # a quarter of the steps
    model = talker()
    one, two = (make(model, CONTEXT, calibration=8, new=6, report=False).fold for _ in range(2))
    other = make(model, CONTEXT, calibration=8, new=6, report=False, seed=1).fold
    same = [torch.equal(u.u, two.updates[n].u) and torch.equal(u.v, two.updates[n].v) for n, u in one.updates.items()]
    assert all(same)
    assert not all(torch.equal(u.u, other.updates[n].u) for n, u in one.updates.items())


def test_distances_of_a_model_to_itself_and_to_others(model: Model) -> None:
    """A fold of nothing recovers 0; a model is at distance 0 of itself (logits float64, divergence float32, 1e-6)."""
    examples = some(model)
    teacher = prompted(model, examples)
    bare = distance(model, examples, teacher, batch_tokens=64)
    assert bare.mean_kl > 1e-3
    assert torch.allclose(bare.kl, distance(model, examples, teacher, batch_tokens=4096).kl, atol=1e-6)
    assert recovered(bare, bare).value == 0
    # With nothing folded, prompted and bare are one run.
    alone = replace(examples, frame=Frame(model, CONTEXT, True, (2,), ()))
    assert distance(model, alone, prompted(model, alone)).mean_kl < 1e-6


def test_an_interval_holds_its_value_and_shrinks_with_more_examples() -> None:
    generator = torch.Generator().manual_seed(0)

    def made(n: int, size: float) -> Distance:
        kl = torch.rand(n, generator=generator, dtype=torch.float64) * size
        return Distance(kl, kl * 0, torch.ones(n, dtype=torch.float64))

    assert recovered(made(7, 0.2), made(7, 1.0)).low is None
    few = recovered(made(10, 0.2), made(10, 1.0))
    many = recovered(made(1000, 0.2), made(1000, 1.0))
    for r in (few, many):
        assert r.low < r.value < r.high
    assert many.high - many.low < 0.3 * (few.high - few.low)
    assert abs(many.value - 0.8) < 0.03


def test_random_updates_of_equal_norms_recover_nothing() -> None:
    """The control must fail where the fold does well, on the same calibration tokens."""
    model = talker()
    examples = some(model, 16)
    fold = Fold(solve_updates(model, examples, steps=replace(FEW, count=40)).updates, Card())
    result = measure("calibration", examples, fold)
    assert result.recovered.value > 0.3
    assert result.controls["random updates of equal norms"].value < 0.1


@pytest.mark.parametrize("method", METHODS)
def test_every_method_folds_both_kinds_of_models(model: Model, method: str) -> None:
    model = Model(model.model.float(), model.tokenizer, model.name)
    examples = some(model)
    result = solve_updates(
        model, examples, method, rank=2, steps=FEW if method in ("match", "distil", "polish") else None
    )
    assert result.seconds > 0
    fold = Fold(result.updates, Card())
    assert fold.rank <= 2
    assert all(bool(u.u.isfinite().all() and u.v.isfinite().all()) for u in fold.updates.values())


@pytest.mark.parametrize("rank", [1, 4, 32])
def test_a_fold_of_any_rank_is_closer_than_the_bare_model(model: Model, rank: int) -> None:
    """With the package's own rates, up to the full rank of the matrices."""
    model = Model(model.model.float(), model.tokenizer, model.name)
    examples = some(model, 16)
    base = replace(FEW, count=40)
    for how in (base, replace(steps_for_facts(model, examples, rank), count=40, batch=base.batch)):
        fold = Fold(solve_updates(model, examples, rank=rank, steps=how).updates, Card())
        assert fold.rank == rank
        assert measure("calibration", examples, fold, control=False).recovered.value > 0


def test_bad_methods_and_ranks_are_refused() -> None:
    model = talker()
    with pytest.raises(InputError, match="match"):
        solve_updates(model, some(model, 2), "mach")
    with pytest.raises(InputError, match="rank"):
        solve_updates(model, some(model, 2), rank=0)


def test_steps_grow_with_the_examples() -> None:
    model = talker()
    assert [steps_for(model, n).count for n in (8, 64, 100, 1024)] == [48, 56, 88, 128]


def test_the_working_copy_is_another_model() -> None:
    model = talker()
    low = working(model)
    assert low is model or low.dtype == torch.bfloat16
    assert model.dtype == torch.float32


def test_a_huge_gradient_is_cut() -> None:
    """Adam divides by what it has seen: after one gradient a thousand times the usual it hardly moves for a while."""
    model = talker()
    examples = some(model, 4)
    teacher = prompted(model, examples, blocks=True)
    lengths = []
    for clip in (0.0, 1e-3):
        doing = Fit(model, examples, teacher, Lora(model, 2), Steps(count=4, rate=1e-3, batch=4, clip=clip))
        doing.load([0, 1, 2, 3])
        doing.step()
        lengths.append(torch.stack([p.grad.norm() for p in doing.lora.parameters if p.grad is not None]).norm().item())
    assert lengths[0] > 2e-3
    assert lengths[1] == pytest.approx(1e-3, rel=1e-3)
