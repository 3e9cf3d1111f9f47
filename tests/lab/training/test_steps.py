"""A training step: its rate, its direction, and the average of the weights."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch

from inweights import InputError
from inweights.lab import Draw
from inweights.lab.models import MODELS
from inweights.lab.tasks import TASKS
from inweights.lab.training import Recipe, changed, parse, train
from inweights.lab.training._optimiser import orthogonal
from inweights.lab.training._processes import Processes
from inweights.lab.training._run import Run, point_losses
from inweights.lab.training._schedule import active, rate
from inweights.lab.training._seeds import SeededRun

SETTINGS = ["steps=1000", "rate=0.5", "warmup=0.1", "cooldown=0.2"]


@pytest.mark.parametrize(
    ("schedule", "at"),
    [
        ("constant", {500: 1.0, 999: 1.0}),
        ("linear", {100: 1.0, 550: 0.5, 999: 1 - 899 / 900}),
        ("cosine", {100: 1.0, 325: (1 + math.sqrt(0.5)) / 2, 550: 0.5, 999: (1 + math.cos(math.pi * 899 / 900)) / 2}),
        ("trapezoid", {500: 1.0, 800: 1.0, 900: 0.5, 999: 1 / 200}),
    ],
)
def test_rates_have_their_closed_forms(small: Recipe, schedule: str, at: dict[int, float]) -> None:
    recipe = changed(small, [*SETTINGS, f"schedule={schedule}"])
    for step, share in ({0: 0.01, 49: 0.5, 99: 1.0} | at).items():
        assert rate(recipe, torch.tensor(step)).item() == pytest.approx(0.5 * share, rel=1e-9), step


def test_a_long_warm_up_is_linear_under_every_schedule(small: Recipe) -> None:
    for schedule in ("constant", "linear", "cosine"):
        recipe = changed(small, ["steps=1000", "rate=1.0", "warmup=0.6", f"schedule={schedule}"])
        assert rate(recipe, torch.tensor(59)).item() == pytest.approx(0.1)


def test_a_curriculum_goes_from_few_to_all(small: Recipe) -> None:
    recipe = changed(small, ["steps=1000", "curriculum.dims=2", "curriculum.points=3", "curriculum.share=0.4"])
    result = [tuple(int(v) for v in active(recipe, 5, torch.tensor(s))) for s in (0, 99, 100, 250, 399, 400, 999)]
    # Four sizes each, a hundred steps for each of them.
    assert result == [(2, 3), (2, 3), (3, 4), (4, 5), (5, 6), (5, 6), (5, 6)]
    assert tuple(int(v) for v in active(small, 5, torch.tensor(0))) == (5, 6)


@pytest.mark.parametrize("shape", [(3, 16, 48), (3, 48, 16), (1, 64, 16)])
def test_orthogonal_makes_singular_values_near_one(shape: tuple[int, ...]) -> None:
    G = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    result = torch.linalg.svdvals(orthogonal(G))
    assert 0.6 < result.min() <= result.max() < 1.3
    # The control: dividing by the norm alone leaves them small. The directions stay: UᵀXV is a positive diagonal.
    plain = torch.linalg.svdvals(G / G.norm(dim=(-2, -1), keepdim=True))
    assert plain.max() < 0.6
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    inner = U.mT @ orthogonal(G) @ Vh.mT
    assert (inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))).abs().max() < 1e-4
    assert inner.diagonal(dim1=-2, dim2=-1).min() > 0.6


def test_averaged_weights_are_those_of_a_plain_loop(small: Recipe, tmp_path: Path) -> None:
    run = Run(small, Processes("cpu"))
    mean = {n: p.detach().clone() for n, p in run.model.named_parameters()}
    for step in range(small.steps):
        run.advance()
        share = 1 / min(step + 1, 10)
        mean = {n: mean[n] + (p.detach() - mean[n]) * share for n, p in run.model.named_parameters()}
    trained = train(changed(small, ["average=10"]), tmp_path).model
    for name, p in trained.named_parameters():
        torch.testing.assert_close(p.detach(), mean[name], rtol=1e-5, atol=1e-6)
    # The control: the last weights are not the average.
    assert any((p - mean[n]).abs().max() > 1e-4 for n, p in run.model.named_parameters())


def made(model: str, *settings: str) -> Run:
    values = {
        "task": {"kind": "linear", "dims": 3}, "model": {"kind": model}, "points": 5, "steps": 10, "batch": 4,
        "rate": 1e-3,
    }  # fmt: skip
    return Run(changed(parse(values, "test"), list(settings)) if settings else parse(values, "test"), Processes("cpu"))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("model", [name for name in MODELS if name != "attention-only"])
def test_every_model_takes_a_step_in_low_precision(model: str, precision: str) -> None:
    if model == "lstm" and precision == "float16":
        with pytest.raises(InputError, match=r"`precision` is float16, but an LSTM has none on a CPU: take bfloat16."):
            made(model, "precision=float16")
        return
    run = made(model, f"precision={precision}")
    before = [p.clone() for p in run.model.parameters()]
    run.advance()
    run.advance()
    assert math.isfinite(run.mean_loss(2))
    assert any(not torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True))
    assert all(bool(p.isfinite().all()) for p in run.model.parameters())


def test_float16_has_the_gradient_of_float32() -> None:
    """Direction and size to 1%, whatever its objective was scaled by; bfloat16 is farther off."""
    grads = {}
    for precision in ("float32", "float16", "bfloat16"):
        run = made("decoder", f"precision={precision}", "clip=0", "objective=log")
        run.advance()
        grads[precision] = torch.cat([p.grad.flatten() for p in run.model.parameters() if p.grad is not None])
    off = {p: ((g - grads["float32"]).norm() / grads["float32"].norm()).item() for p, g in grads.items()}
    assert 0 < off["float16"] < 0.01
    assert off["bfloat16"] > 2 * off["float16"]


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_a_step_with_overflowing_gradients_changes_nothing(optimiser: str) -> None:
    run = made("decoder", "precision=float16", f"optimiser={optimiser}", "decay=0.1")
    assert run.scaler is not None
    run.advance()
    state = {n: t.clone() for n, t in run.state().items() if n not in ("step", "scaler.scale", "scaler.good")}
    run.scaler.scale.fill_(2.0**40)
    run.advance()
    assert run.scaler.scale == 2.0**39
    assert all(torch.equal(run.state()[n], t) for n, t in state.items())
    # The control: a scale that fits.
    run.scaler.scale.fill_(2.0**10)
    run.advance()
    assert not any(torch.equal(run.state()[n], t) for n, t in state.items() if n.startswith(("muon", "adam")))


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_a_compiled_step_is_the_same_step(small: Recipe) -> None:
    """To rounding, float32, after three steps; a control: another rate is not. Also that of two seeds, the first of
    which is this model."""
    runs = [Run(small, Processes("cpu"), compiled=c) for c in (False, True)]
    runs.append(SeededRun(small, (small.seed, 5), Processes("cpu"), compiled=True))
    other = Run(changed(small, ["rate=0.02"]), Processes("cpu"))
    for run in (*runs, other):
        for _ in range(3):
            run.advance()
    firsts = [run.finished(Path())[0][1] for run in (*runs, other)]
    plain, *others, wrong = (torch.cat([p.flatten() for p in model.parameters()]) for model in firsts)
    for weights in others:
        torch.testing.assert_close(weights, plain, rtol=1e-3, atol=1e-4)
    assert (wrong - plain).abs().max() > 1e-2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("optimiser", ["adam", "muon"])
@pytest.mark.parametrize("begun", [0, 3])
def test_a_captured_step_is_the_same_step(small: Recipe, optimiser: str, begun: int) -> None:
    """Capturing a CUDA graph changes no state, in a new training and in a resumed one."""
    recipe = changed(small, [f"optimiser={optimiser}", "average=3", "schedule=constant"])
    plain, graph = (Run(recipe, Processes("cuda"), compiled=False) for _ in range(2))
    plain._advance = plain._one_step
    for _ in range(begun):
        plain.advance()
    graph.load({name: t.clone() for name, t in plain.state().items()})
    for run in (plain, graph):
        for _ in range(4):
            run.advance()
    assert int(graph.step) == int(plain.step) == begun + 4
    for a, b in zip(graph._tensors(), plain._tensors(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_a_captured_step_of_several_seeds_is_the_step_of_each(small: Recipe) -> None:
    recipe = changed(small, ["schedule=constant"])
    alone, together = Run(recipe, Processes("cpu")), SeededRun(recipe, (recipe.seed, 5), Processes("cuda"))
    for run in (alone, together):
        for _ in range(4):
            run.advance()
    (_, first, _), (_, second, _) = together.finished(Path())
    pairs = list(zip(alone.model.parameters(), first.parameters(), second.parameters(), strict=True))
    for own, same, _ in pairs:
        torch.testing.assert_close(same.cpu(), own, rtol=1e-3, atol=1e-4)
    assert max((other.cpu() - own).abs().max().item() for own, _, other in pairs) > 1e-2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_the_compiled_and_captured_step_of_several_seeds_is_the_plain_one(small: Recipe, optimiser: str) -> None:
    recipe = changed(small, [f"optimiser={optimiser}", "schedule=constant"])
    plain, graph = (SeededRun(recipe, (0, 5), Processes("cuda"), compiled=compiled) for compiled in (False, True))
    plain._advance = plain._one_step
    for run in (plain, graph):
        for _ in range(4):
            run.advance()
    assert graph._advance != graph._one_step
    for a, b in zip(graph._tensors(), plain._tensors(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(graph.total, plain.total, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_a_step_that_cannot_be_captured_is_taken_as_it_is(small: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """First without compilation, then without a graph; each attempt that fails is told."""
    run, plain = (SeededRun(small, (0, 5), Processes("cpu"), compiled=False) for _ in range(2))
    run._compile(True)
    run._advance, tried = None, []

    def fails() -> None:
        tried.append(run._compiled)
        raise RuntimeError("operation not permitted\nwhen a stream is captured")

    monkeypatch.setattr(run, "_captured", fails)
    with pytest.warns(RuntimeWarning, match=r"No CUDA graph of the .*step \(RuntimeError: operation not permitted\): "):
        run.advance()
    plain.advance()
    assert tried == [True, False]
    for a, b in zip(run._tensors(), plain._tensors(), strict=True):
        assert torch.equal(a, b)


def test_unpredictable_points_are_not_trained_on() -> None:
    """Outliers are left out of the loss: other labels of theirs change nothing."""
    task = TASKS.make("many-outliers", dims=3)
    sample = task.sample(Draw(0, 0, 16), 9)
    recipe = made("decoder").recipe
    answers = torch.zeros(16, 9)
    other = sample._replace(ys=sample.ys.where(sample.hidden["outlier"].logical_not(), 99.0))
    for a, b in zip(*(point_losses(recipe, "squared", answers, s) for s in (sample, other)), strict=True):
        assert torch.equal(a, b)
    assert point_losses(recipe, "squared", answers, other._replace(scored=None))[0].max() > 99


def test_an_average_begins_with_what_was_trained(small: Recipe) -> None:
    run = Run(changed(small, ["average=1000", "rate=0.05", "warmup=0.0"]), Processes("cpu"))
    seen = []
    for _ in range(3):
        run.advance()
        seen.append([p.detach().clone() for p in run.model.parameters()])
    assert run.averaged is not None
    for mean, *each in zip(run.averaged.parameters(), *seen, strict=True):
        torch.testing.assert_close(mean, torch.stack(each).mean(0), rtol=1e-4, atol=1e-6)


def test_muon_needs_matrices() -> None:
    with pytest.raises(InputError, match="has no matrices for it: take adam"):
        made("lsa", "optimiser=muon")


def test_points_of_a_curriculum_need_answers_for_all_points() -> None:
    with pytest.raises(InputError, match=r"`curriculum.points` needs a model that answers for all points"):
        made("encoder", "curriculum.dims=2", "curriculum.points=3")


def test_what_does_not_fit_is_refused_before_work() -> None:
    with pytest.raises(InputError, match="reads vectors, but the task gives tokens"):
        made("decoder", "task={kind='repeats'}")
    with pytest.raises(InputError, match="`points` is 5, but must be above `pairs`"):
        made("decoder", "task={kind='retrieval'}")
