"""The claims of *Transmuting prompts into weights* on random tokens, and the measurements of those on a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from talking import talker

from inweights.claims import CLAIMS, Trial, Verdict, criteria, transmuting
from inweights.claims._judge import Judged
from inweights.claims._thoughts import patched, randomised, recovered, share
from inweights.claims._trial import UnmetError
from inweights.claims._words import PAST, Task, arithmetic, by_examples
from inweights.claims.transmuting import _columns, mean_of_patches, thought_matrix, tokens
from inweights.fold import Frame, answered
from inweights.models import Model


@pytest.mark.parametrize("id", ["mazzawi-closed-form", "mazzawi-one-token", "mazzawi-optimal"])
def test_what_is_exact_holds(id: str, verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]) -> None:
    """All seeds, float64, by the ledger's own criteria and controls."""
    assert CLAIMS[id].exact
    found, judged = verdict(id)
    assert found is Verdict.PASS, judged


def test_every_criterion_has_its_claim() -> None:
    wanted = {id for id in criteria() if id.startswith("mazzawi-")}
    assert wanted == {id for id, claim in CLAIMS.items() if claim.paper.key == "mazzawi"}


def test_a_linear_context_is_served_exactly_by_the_thought_matrix_alone() -> None:
    """Where δ = B a for all tokens, Δ(I) = W B (float64, 1e-9 of its norm); the mean of patches is something else."""
    W, a, _ = tokens(Trial(0), 20)
    B = torch.randn(16, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert float((thought_matrix(W, a, a @ B.mT) - W @ B).norm()) < 1e-9 * float((W @ B).norm())
    assert float((mean_of_patches(W, a, a @ B.mT) - W @ B).norm()) > 0.1 * float((W @ B).norm())


def test_even_tokens_make_the_sum_of_patches_a_thought_matrix() -> None:
    found = CLAIMS["mazzawi-spherical"].measure(Trial(0))
    value, control = found.quantities["error"]
    assert float(torch.as_tensor(value).max()) < 0.1
    assert float(torch.as_tensor(control).min()) > 0.3


def test_tasks_keep_their_parts_apart_and_know_their_answers() -> None:
    assert len(dict(PAST)) == len(PAST) >= 8 + 16 + 50
    task = by_examples("past tense", 0, calibration=16, tests=50)
    asked = {query for query, _ in task.tests}
    assert len(asked) == 50
    assert asked.isdisjoint(task.calibration)
    assert not any(query in task.context for query in (*asked, *task.calibration))
    assert task.context.count("Input:") == 8
    assert by_examples("past tense", 1, calibration=16, tests=50).tests != task.tests
    for name, result in (("multiply", lambda n: n[0] * n[1] * n[2]), ("sum", sum)):
        for query, answer in arithmetic(name, 0, calibration=10, tests=20).tests:
            assert int(answer) == result([int(n) for n in query.removesuffix(" ->").split(", ")])


def test_recovered() -> None:
    columns = {"prompted": 0.9, "bare": 0.1, "patched": 0.5, "other": 0.1}
    assert recovered(columns) == pytest.approx(0.5)
    assert recovered(columns, "other") == 0


@pytest.fixture(scope="module")
def model() -> Model:
    return talker("llama", torch.float64)


@pytest.fixture(scope="module")
def echo(model: Model) -> Task:
    """Queries whose right answers are the first two letters that the prompted model says."""
    context, queries = "A context that matters.\n", tuple(f"Query {i}:" for i in range(12))
    heard = answered(Frame.of(model, context, chat=False), queries, new=8, temperature=0.0)
    answers = [model.tokenizer.decode(ids[:2]) for ids in heard.said]
    return Task("echo", context, queries, tuple(zip(queries, answers, strict=True)))


def test_shares_tell_prompted_bare_and_patched_apart(model: Model, echo: Task) -> None:
    """A tiny model, float64, asked again what the patch was made with: the patch answers as the prompt does more often
    than the bare model, and leaves the model as it was."""
    frame = Frame.of(model, echo.context, chat=False)
    before = {name: p.clone() for name, p in model.model.named_parameters()}
    bare = share(frame, frame.before, echo)
    with patched(model, echo).applied(model):
        assert share(frame, frame.before, echo) > bare
    assert all(torch.equal(p, before[name]) for name, p in model.model.named_parameters())


def test_parts_change_what_is_theirs(model: Model, echo: Task) -> None:
    made = {part: patched(model, echo, part).updates for part in ("both", "vector", "matrix")}
    assert all("down_proj" in name for name in made["vector"])
    still = {name for name, update in made["matrix"].items() if float(update.frobenius()) == 0}
    assert still == {name for name in made["matrix"] if "down_proj" in name}
    assert set(made["both"]) == set(made["matrix"])
    assert all(float(update.frobenius()) > 0 for update in made["both"].values())


def test_a_random_part_is_as_large_and_says_nothing(model: Model, echo: Task) -> None:
    """Norms to 1e-9; the other part is the very same, and the random one has next to nothing in common with it."""
    both = patched(model, echo)
    last = {name for name in both.updates if "down_proj" in name}
    made = randomised(both, last, torch.Generator().manual_seed(0))
    for name, update in both.updates.items():
        other = made.updates[name]
        assert float(other.frobenius()) == pytest.approx(float(update.frobenius()), rel=1e-9)
        if name in last:
            assert abs(float(update.alignment(other))) < 0.2
        else:
            assert torch.equal(update.dense(), other.dense())
    assert 0 < len(last) < len(both.updates)


def test_an_instruction_that_gains_nothing_is_said(model: Model, echo: Task) -> None:
    nonsense = replace(echo, tests=tuple((query, "no such answer") for query, _ in echo.tests))
    with pytest.raises(UnmetError, match="gains too little by the instruction to echo"):
        _columns(Trial(0), model, nonsense, echo)


def test_random_parts_add_nothing_to_the_others(model: Model, echo: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model, asked again what its patch was made with: both parts against one, and against one and noise."""
    columns = _columns(Trial(0), model, echo, replace(echo, context="Something else, of no use.\n"))
    monkeypatch.setattr(transmuting, "_words", lambda trial: (model, echo, echo, columns))
    found = CLAIMS["mazzawi-both-parts"].measure(Trial(0))
    assert set(found.quantities) == set(criteria()["mazzawi-both-parts"].quantities)
    for value, control in found.quantities.values():
        assert isinstance(value, float)
        assert isinstance(control, float)
        assert control < value
    assert found.told["patched, of prompted"] == columns["patched"] / columns["prompted"]
