"""The claims of *Transmuting prompts into weights* on random tokens, and the measurements of those on a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from talking import talker

from inweights.folding import Examples, Frame, answered
from inweights.folding._ridge import RidgeFit
from inweights.ledger import CLAIMS, Trial, Verdict, criteria
from inweights.ledger._judge import Judged
from inweights.ledger._trial import NotHereError, UnmetError
from inweights.models import Model
from inweights.models._patch import full_precision
from inweights.papers.transmuting import _algorithm
from inweights.papers.transmuting import smollm2 as on_model
from inweights.papers.transmuting._algorithm import Convention, transmuted
from inweights.papers.transmuting._thoughts import Few, fitted, randomised, recovered, right, share
from inweights.papers.transmuting._words import PAST, Task, arithmetic, by_examples, instruction_to, numbers
from inweights.papers.transmuting.claims import mean_of_patches, thought_matrix, tokens


@pytest.mark.parametrize("id", ["mazzawi-closed-form", "mazzawi-one-token", "mazzawi-optimal"])
def test_what_is_exact_holds(id: str, exact_verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]) -> None:
    """Two seeds, float64, by the ledger's own criteria and controls."""
    assert CLAIMS[id].exact
    result, judged = exact_verdict(id)
    assert result is Verdict.PASS, judged


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
    result = CLAIMS["mazzawi-spherical"].measure(Trial(0))
    value, control = result.quantities["error"]
    assert float(torch.as_tensor(value).max()) < 0.1
    assert float(torch.as_tensor(control).min()) > 0.3


def test_tasks_have_disjoint_parts_and_correct_answers() -> None:
    assert len(dict(PAST)) == len(PAST) >= 8 + 16 + 50
    task = by_examples("past tense", 0, calibration=16, tests=50)
    asked = {query for query, _ in task.tests}
    assert len(asked) == 50
    assert asked.isdisjoint(task.calibration)
    assert not any(query in task.context for query in (*asked, *task.calibration))
    assert task.context.count("Input:") == 8
    assert by_examples("past tense", 1, calibration=16, tests=50).tests != task.tests
    for name, result in (("multiply", lambda n: n[0] * n[1] * n[2]), ("sum", sum)):
        pairs = numbers(name, 40)
        for query, answer in pairs:
            assert int(answer) == result([int(n) for n in query.removesuffix(" ->").split(", ")])
        sums = arithmetic(name, 0, pairs[:30], calibration=10, tests=20)
        assert {q for q, _ in sums.tests} | set(sums.calibration) == {q for q, _ in pairs[:30]}


def test_recovered() -> None:
    columns = {"prompted": 0.9, "bare": 0.1, "patched": 0.5, "other": 0.1}
    assert recovered(columns) == pytest.approx(0.5)
    assert recovered(columns, "other") == 0


@pytest.fixture(scope="module")
def model() -> Model:
    return talker("llama", torch.float64)


@pytest.fixture(scope="module")
def echo(model: Model) -> Task:
    """Queries with the first two letters of the prompted model's answer as the correct answers."""
    context, queries = "A context that matters.\n", tuple(f"Query {i}:" for i in range(12))
    heard = answered(Frame.of(model, context, chat=False), queries, new=8, temperature=0.0)
    answers = [model.tokenizer.decode(ids[:2]) for ids in heard.answers]
    return Task("echo", context, queries, tuple(zip(queries, answers, strict=True)))


@pytest.fixture(scope="module")
def examples(model: Model, echo: Task) -> Examples:
    return answered(Frame.of(model, echo.context, chat=False), echo.calibration, new=8, temperature=0.0)


def test_shares_distinguish_prompted_bare_and_patched(model: Model, echo: Task, examples: Examples) -> None:
    """A tiny model, float64, asked again what the patch was made with: the patch answers as the prompt does more often
    than the bare model, and leaves the model as it was."""
    frame = Frame.of(model, echo.context, chat=False)
    before = {name: p.clone() for name, p in model.model.named_parameters()}
    bare = share(frame, frame.before, echo)
    assert bare == sum(right(frame, frame.before, echo.tests)) / len(echo.tests)
    with fitted(model, examples).applied(model):
        assert share(frame, frame.before, echo) > bare
    assert all(torch.equal(p, before[name]) for name, p in model.model.named_parameters())


def test_few_tokens_make_the_same_ridge_as_many_would() -> None:
    """float64, 1e-10: against `Ridge`, with tokens of weight 0 left out, and with a matrix in front."""
    random = torch.Generator().manual_seed(0)
    x, y, W = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in ((9, 20), (9, 5), (7, 5)))
    weight = torch.tensor([1.0] * 6 + [0.0] * 3)
    few, many = Few(0.3), RidgeFit(0.3)
    for fit in (few, many):
        fit.add(x[:4], y[:4], weight[:4])
        fit.add(x[4:], y[4:], weight[4:])
    for matrix in (None, W):
        assert torch.allclose(few.update(matrix).dense(), many.update(matrix).dense(), atol=1e-10)
    assert few.update().columns == 6


@pytest.mark.parametrize("convention", ["stream", "attention"])
def test_one_token_in_one_whole_step_is_served_exactly(model: Model, convention: Convention) -> None:
    """One example of one token beyond the first, in one step of size 1: its logits are those with the context (float64,
    1e-9), by either convention; in a step of a tenth they are not."""
    frame = Frame.of(model, "A context that matters.\n", chat=False)
    examples = answered(frame, ("ab",), new=1, temperature=0.0)
    batch = examples.batch([0])
    prefix = torch.tensor([[*frame.before, *frame.folded]])
    with torch.no_grad(), full_precision(model.model):
        wanted = model.model(input_ids=torch.cat([prefix, batch.ids[:, len(frame.before) :]], 1)).logits[0, -1]
        bare = model.model(input_ids=batch.ids).logits[0, -1]
        for step, exact in ((1.0, True), (0.1, False)):
            with transmuted(model, examples, convention, step).applied(model):
                output = model.model(input_ids=batch.ids).logits[0, -1]
            assert (float((output - wanted).abs().max()) < 1e-9) is exact
        assert torch.equal(model.model(input_ids=batch.ids).logits[0, -1], bare), "the model is as it was"
    assert float((bare - wanted).abs().max()) > 0.1


def test_steps_accumulate_over_examples(model: Model, examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second example starts from the patches of the first: in the first block, W₂ = W₁ + step · W₁ M₂, with the
    example's own M₂, as nothing before the block is patched (float64, 1e-9)."""
    name = "model.layers.0.mlp.gate_proj.weight"
    W = model.model.get_parameter(name).detach()
    one, two = {}, {}
    for count, into in ((1, one), (2, two)):
        monkeypatch.setattr(_algorithm, "EXAMPLES", count)
        into.update(transmuted(model, examples, "stream").matrices)
    second = replace(examples, asked=examples.asked[1:], answers=examples.answers[1:])
    monkeypatch.setattr(_algorithm, "EXAMPLES", 1)
    alone = transmuted(model, second, "stream").matrices[name]
    M = torch.linalg.lstsq(W, alone - W).solution  # step · M₂, as W has full rank
    assert torch.allclose(two[name], one[name] + one[name] @ M, atol=1e-9)
    assert not torch.allclose(two[name], one[name] + (alone - W), atol=1e-9)
    assert set(one) == set(two)


def test_without_thought_matrices_the_last_ones_alone_are_changed(model: Model, examples: Examples) -> None:
    """Every last matrix, and no other; not as with thought matrices, which change what it reads (float64, 1e-9)."""
    whole, alone = (transmuted(model, examples, "stream", matrices=each).matrices for each in (True, False))
    last = {name for name in whole if name.endswith("down_proj.weight")}
    assert set(alone) == last < set(whole)
    for name in last:
        assert (alone[name] - model.model.get_parameter(name)).abs().max() > 1e-6
        assert not torch.allclose(alone[name], whole[name], atol=1e-9)


def test_parts_change_what_is_theirs(model: Model, examples: Examples) -> None:
    made = {part: fitted(model, examples, part).updates for part in ("both", "vector", "matrix")}
    assert all("down_proj" in name for name in made["vector"])
    still = {name for name, update in made["matrix"].items() if float(update.frobenius()) == 0}
    assert still == {name for name in made["matrix"] if "down_proj" in name}
    assert set(made["both"]) == set(made["matrix"])
    assert all(float(update.frobenius()) > 0 for update in made["both"].values())


def test_a_random_part_has_equal_norm_and_no_information(model: Model, examples: Examples) -> None:
    """Norms to 1e-9; the other part is the very same, and the random one has next to nothing in common with it."""
    both = fitted(model, examples)
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


def test_an_instruction_without_gain_is_reported(echo: Task) -> None:
    with pytest.raises(UnmetError, match="gains too little by the instruction to echo"):
        on_model.required(Trial(0), echo, {"prompted": 0.3, "bare": 0.2})
    on_model.required(Trial(0), echo, {"prompted": 0.9, "bare": 0.2})


@pytest.fixture
def instructed(model: Model, echo: Task, monkeypatch: pytest.MonkeyPatch) -> on_model.Instructed:
    """A task used by the claims on words in place of theirs, with the prompted model's answers as correct ones."""
    other = replace(echo, context="Something else, of no use.\n")
    instructed = on_model.Instructed.of(model, echo, other)
    columns = instructed.unpatched()
    monkeypatch.setattr(on_model, "_words", lambda trial: (instructed, columns))
    return instructed


def test_claims_on_words_measure_the_quantities_of_their_criteria(instructed: on_model.Instructed) -> None:
    """A tiny model, asked again what its patches were made with: fitted ones recover more than those of another
    context; both parts do more than one, and than one and noise."""
    result = {id: CLAIMS[id].measure(Trial(0)) for id in ("mazzawi-as-written", "mazzawi-words", "mazzawi-both-parts")}
    for id, each in result.items():
        assert set(each.quantities) == set(criteria()[id].quantities)
    value, control = result["mazzawi-words"].quantities["recovered"]
    assert isinstance(value, float)
    assert isinstance(control, float)
    assert value > control
    for more, none in result["mazzawi-both-parts"].quantities.values():
        assert isinstance(more, float)
        assert isinstance(none, float)
        assert none < more
    shares = result["mazzawi-words"].reported
    assert shares["patched, of prompted"] == shares["patched"] / shares["prompted"]


def test_the_convention_is_chosen_on_words_that_are_not_judged(
    instructed: on_model.Instructed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that are not used favour the attention, those of the verdict the stream: the attention is taken, for the
    control and for the rival too."""

    def made(
        model: Model, source: Examples, convention: Convention, *, matrices: bool = True
    ) -> tuple[str, bool, bool]:
        return convention, source is instructed.examples, matrices

    def without(self: on_model.Instructed, patch: tuple[str, bool, bool]) -> float:
        if self.task != instructed.task:
            assert [query for query, _ in self.task.tests] == list(self.examples.queries[10:])
            return {"stream": 0.5, "attention": 0.6}[patch[0]]
        return {("stream", True, True): 0.9, ("attention", True, True): 0.3, ("attention", False, True): 0.1}.get(
            patch, 0.2
        )

    monkeypatch.setattr(on_model, "transmuted", made)
    monkeypatch.setattr(on_model.Instructed, "without", without)
    shares = instructed.unpatched()
    result = CLAIMS["mazzawi-as-written"].measure(Trial(0))
    wanted = [recovered({**shares, "patched": share}) for share in (0.3, 0.1, 0.2)]
    assert [*result.quantities["recovered"], result.rivals["recovered"]] == wanted


def test_arithmetic_is_not_run_where_the_model_cannot(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model adds nothing up: the verdict would be about the model. Where it can, its filtered queries alone are
    asked, so that prompted is all and bare is nothing."""
    monkeypatch.setattr(Trial, "language_model", lambda trial, dtype="float32": model)
    nothing = r"0 of 150 times \(0.0% right with the instruction, 0.0% without\)"
    output = (
        rf"multiply {nothing} and sum {nothing}, asked 150 of the 729 queries that there are: 30 times .* Gemma 3 1B"
    )
    with pytest.raises(NotHereError, match=output):
        CLAIMS["mazzawi-arithmetic"].measure(Trial(0))
    assert len(numbers("sum", on_model.QUERIES)) == on_model.QUERIES  # all that can be drawn
    with pytest.raises(ValueError, match="larger than population"):
        numbers("sum", on_model.QUERIES + 1)
    context = instruction_to("sum")
    assert context == "Sum numbers.\n"
    monkeypatch.setattr(on_model, "gained", lambda model, name: tuple(numbers(name, 30)))
    result = CLAIMS["mazzawi-arithmetic"].measure(Trial(0))
    assert (result.reported["prompted"], result.reported["bare"]) == (1.0, 0.0)
    assert result.quantities["recovered"] == (result.reported["patched"], result.reported["other"])


def test_the_filter_keeps_what_is_right_with_the_instruction_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {True: [True, True, True, False], False: [True, False, True, False]}
    monkeypatch.setattr(on_model, "right", lambda frame, before, asked: answers[len(before) > len(frame.before)])
    monkeypatch.setattr(on_model, "POOL", 4)
    monkeypatch.setattr(on_model, "answers", on_model.answers.__wrapped__)  # nothing of other tests
    assert on_model.gained(model, "sum") == (numbers("sum", 4)[1],)
    assert on_model.shares(model, "sum") == "sum 1 of 4 times (75.0% right with the instruction, 50.0% without)"
