"""Claims of the notes: mistakes fail, corrected forms pass; models with known predictions replace trained ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inweights.lab import curves
from inweights.lab.models import Learner
from inweights.lab.predictors import OLS, Predictor, Ridge
from inweights.lab.tasks import Linear, Sample
from inweights.ledger import CLAIMS, Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.ledger._trial import UnmetError
from inweights.papers._random_blocks import block_and_prompts
from inweights.papers._smallest_changes import smallest
from inweights.papers.learning_without_training.dynamics import descent_error, peeling_error, token_factors
from inweights.papers.notes import claims as notes
from inweights.papers.notes import encoder as notes_encoder
from inweights.papers.notes import theorem as notes_theorem

MISTAKES = {
    "note-plus-is-newton": Verdict.FAIL,
    "note-factors": Verdict.ERRATUM,
    "note-index": Verdict.ERRATUM,
    "note-venue": Verdict.FAIL,
}
RIGHT = ["note-attention-demo", "note-plus-corrected", "note-order-stable", "note-underdetermined"]


@pytest.mark.parametrize(("id", "wanted"), MISTAKES.items())
def test_mistakes_fail(id: str, wanted: Verdict, verdict: Callable[..., tuple[Verdict, object]]) -> None:
    """Those of an index are errata, as the corrected sentence holds."""
    assert verdict(id)[0] is wanted


@pytest.mark.parametrize("id", RIGHT)
def test_what_is_right_passes(id: str, verdict: Callable[..., tuple[Verdict, object]]) -> None:
    assert verdict(id)[0] is Verdict.PASS


def test_least_squares_is_no_reference_at_as_many_examples_as_dimensions(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    assert verdict("note-ols-reference")[0] is Verdict.FAIL
    ratios = notes_encoder.ols_over_ridge(Trial(0), 0.1)
    assert ratios[notes_encoder.LENGTHS.index(10)] > 2
    # With plenty of examples it is one, unless there is much noise.
    monkeypatch.setattr(notes_encoder, "LENGTHS", [35, 40, 45, 50])
    assert max(notes_encoder.ols_over_ridge(Trial(0), 0.1)) < 1.01
    assert max(notes_encoder.ols_over_ridge(Trial(0), 1.0)) > 1.01


def test_a_step_would_pass() -> None:
    # float64
    sample = notes.regression(Trial(0), 20, 20)
    queries = torch.randn(20, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    summed, scores = notes.asked_after(sample, queries)
    assert notes.miss_at_best_rate(summed, notes.one_step(sample, queries)).max() < 1e-10
    assert notes.miss_at_best_rate(notes.softmax_answers(sample, scores), notes.one_step(sample, queries)).min() > 1e-3


def newton(sample: Sample, start: Tensor) -> Tensor:
    return 0.3 * notes.newton_step(sample, start)


def preconditioned(sample: Sample, start: Tensor) -> Tensor:
    matrix = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return notes.slope(sample, start) @ matrix


@pytest.mark.parametrize("step", [newton, preconditioned])
def test_the_notes_two_kinds_of_layers_would_pass(
    step: Callable[[Sample, Tensor], Tensor],
    monkeypatch: pytest.MonkeyPatch,
    verdict: Callable[..., tuple[Verdict, object]],
) -> None:
    def layers_of(sample: Sample, eta: float, gamma: float, layers: int = 2) -> Tensor:
        start = plus_plus(sample, eta, gamma, 1)
        return start if layers == 1 else start + step(sample, start)

    plus_plus = notes.plus_plus
    monkeypatch.setattr(notes, "plus_plus", layers_of)
    assert verdict("note-plus-is-newton", 2)[0] is Verdict.PASS


def test_factors_and_losses_in_their_right_places_would_pass(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]
) -> None:
    """The notes' sentences fail by their formulas, not by how they are measured."""
    monkeypatch.setattr(
        notes_theorem,
        "descent_error",
        lambda block, context, query, h, shift: descent_error(block, context, query, h, max(0, shift - 1)),
    )
    assert verdict("note-index", 2)[0] is Verdict.PASS
    block, contexts, queries = block_and_prompts(Trial(0), 1)
    W0 = block.get_parameter(block.input_controls[0]).detach()
    each = token_factors(block, contexts[0], queries[0])
    path = [W0]
    for factor in each:  # W_{i−1} where the note has W_{i−2}
        path.append(path[-1] + path[-1] @ factor - path[-1])
    assert peeling_error(block, contexts[0], queries[0], path[1:]) < 1e-10  # float64


def test_one_solution_would_not_be_underdetermined(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]
) -> None:
    whole = notes_theorem.beginnings
    monkeypatch.setattr(notes_theorem, "beginnings", lambda *args: (whole(*args)[0],) * 2)
    result, judged = verdict("note-underdetermined", 2)
    assert (result, judged["spread"].verdict) == (Verdict.FAIL, Verdict.FAIL)


def test_a_solution_that_is_not_the_least_is_seen(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]
) -> None:
    monkeypatch.setattr(notes_theorem, "smallest", lambda *args: 1.001 * smallest(*args))
    result, judged = verdict("note-underdetermined", 2)
    assert (result, judged["least"].verdict) == (Verdict.FAIL, Verdict.FAIL)


def test_a_training_that_fails_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_theorem, "trained", lambda block, query, wanted, start, seed: start)
    with pytest.raises(UnmetError, match=r"a training ends .* off"):
        CLAIMS["note-underdetermined"].measure(Trial(0))


class AsLearner(Learner):
    """A predictor in a model's place."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        return self.predictor.predict_prefixes(xs, ys)


def test_the_encoder_is_held_against_least_squares(stand_in: Callable[..., None]) -> None:
    stand_in(dict.fromkeys(("note-encoder", "seed-encoder-long"), lambda trial: AsLearner(OLS())))
    for id in ("note-encoder", "note-encoder-long"):
        result = CLAIMS[id].measure(Trial(0))
        (value, control), (by_ridge, _) = (result.quantities[f"against_{name}"] for name in ("ols", "ridge"))
        assert value == pytest.approx(1, abs=1e-5)  # float32
        assert by_ridge == pytest.approx(result.reported["OLS over ridge"], abs=1e-5)
        assert isinstance(control, float)
        assert control > 10  # the untrained encoder
        assert result.reported["squared error in contexts without noise, where OLS has none"] < 1e-6


def test_an_encoder_that_learned_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
    stand_in: Callable[..., None],
    untrained: Callable[[str], Callable[[Trial], Learner]],
    verdict: Callable[..., tuple[Verdict, object]],
) -> None:
    # Short contexts and few prompts: an encoder takes its time.
    monkeypatch.setattr(notes_encoder, "LENGTHS", list(range(2, 21, 2)))
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 100)

    def another(trial: Trial) -> Learner:
        return untrained("seed-encoder")(Trial(trial.seed + 10)).eval()

    def ridge(trial: Trial) -> Learner:
        return AsLearner(Ridge(penalty=0.01))

    ids = ["note-encoder", "note-encoder-long", "note-context-length"]
    names = ("note-encoder", "seed-encoder", "seed-encoder-long")
    stand_in(dict.fromkeys(names, another))
    assert {verdict(id)[0] for id in ids} == {Verdict.FAIL}
    stand_in(dict.fromkeys(names, ridge))
    assert {verdict(id)[0] for id in ids} == {Verdict.PASS}
    stand_in({"seed-encoder": ridge, "seed-encoder-long": another})
    assert verdict("note-context-length")[0] is Verdict.FAIL


def test_an_encoder_asked_sometimes_answers_as_ever(untrained: Callable[[str], Callable[[Trial], Learner]]) -> None:
    trial = Trial(0)
    models: dict[str, Predictor] = {"model": untrained("seed-encoder")(trial).eval(), "ols": OLS()}
    result = curves(Linear(dims=10, noise=0.1), 8, models, prompts=512, seed=0, clean=True)
    errors = notes_encoder.errors_of(models, trial, [3, 7])
    for name in models:
        assert errors[name] == pytest.approx(result[name].mean(0)[[3, 7]].tolist(), rel=1e-5)  # float32


def test_lengths_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    falling, rising = [1 / n for n in range(1, 11)], [float(n) for n in range(1, 11)]
    lines = {"short training": falling, "long training": falling[:4] + rising[:6], "untrained": rising}
    monkeypatch.setattr(notes_encoder, "errors_of", lambda *args, **kwargs: lines)
    result = notes_encoder.over_lengths(OLS(), OLS(), Trial(0))
    assert result.quantities["rank_correlation"] == pytest.approx((-1, 1))
    value, _ = result.quantities["rank_correlation_long"]
    assert isinstance(value, float)
    assert value > 0
    assert result.reported["long training, up to 20 examples"] == pytest.approx(-1)
    assert result.reported["long training, from 20 examples on"] == pytest.approx(1)
    assert result.reported["short training, error after the most examples over that after 20"] == pytest.approx(0.4)


def test_the_best_rate_makes_a_multiple_equal_and_nothing_else() -> None:
    random = torch.Generator().manual_seed(0)
    step = torch.randn(4, 6, generator=random, dtype=torch.float64)
    rates = torch.rand(4, 1, generator=random, dtype=torch.float64)
    assert notes.miss_at_best_rate(rates * step, step).max() < 1e-12
    assert notes.miss_at_best_rate(step.square(), step).min() > 1e-2
