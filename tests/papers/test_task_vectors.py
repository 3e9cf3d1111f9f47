"""Claims about task and function vectors, thought vectors and stages: what they measure on a tiny model, and verdicts
where the outputs of runs are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from worded import ROWS, reader

from inweights.ledger import CLAIMS, Trial, UnmetError, Verdict, criteria
from inweights.ledger._cache import Kept
from inweights.ledger._judge import Judged
from inweights.models import Model
from inweights.papers import _vectors, load_all
from inweights.papers.function_vectors import _effects
from inweights.papers.function_vectors import claims as function_vectors
from inweights.papers.notes import stages
from inweights.papers.notes import vectors as note_vectors
from inweights.papers.task_vectors import claims as task_vectors
from inweights.papers.transmuting import steering

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
load_all()
VECTORS = ("note-vectors-thought", "note-vectors-function", "note-vectors-exact")
OTHERS = ("mazzawi-steering", "note-stages-order", "note-stages-places", *VECTORS)
IDS = [id for id in CLAIMS if id.startswith(("hendel-", "todd-")) or id in OTHERS]
CACHES = (task_vectors.given, _effects.function, stages.both, note_vectors.of_both)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """A tiny model in place of SmolLM2, and made-up reviews in place of words."""
    model = reader(dtype=torch.float32)
    monkeypatch.setattr(Trial, "language_model", lambda trial, dtype="float32": model)
    monkeypatch.setattr(_vectors, "pairs", lambda name: ROWS)
    monkeypatch.setattr(_vectors, "source", lambda name: _vectors_source)
    monkeypatch.setattr("inweights.papers.induction_heads.smollm2.LENGTH", 6)
    monkeypatch.setattr(task_vectors, "STEP", 1)
    monkeypatch.setattr(note_vectors, "AWAY", 1)
    for module in (_effects, function_vectors):
        monkeypatch.setattr(module, "HEADS", 4)
    for cached in CACHES:
        cached.cache_clear()
    yield model
    for cached in CACHES:
        cached.cache_clear()


_vectors_source = _vectors.source("sst2")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("id", IDS)
def test_a_claim_measures_what_its_criteria_are_about(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a random model gives says nothing about the claims."""
    monkeypatch.setattr(Trial, "require", lambda trial, holds, what: None)
    for module in (task_vectors, function_vectors, note_vectors):
        monkeypatch.setattr(module, "gained", lambda with_, bare, prompted: with_ - bare)
    monkeypatch.setattr(steering, "alike", lambda a, b: torch.cosine_similarity(a[-len(b) :], b, dim=-1))
    made = Kept.of(CLAIMS[id].measure(Trial(0)), "found", "", 0.0)
    assert set(made.quantities) == set(criteria()[id].quantities)
    assert set(made.rivals) == {name for name, c in criteria()[id].quantities.items() if c.rival}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("id", ["hendel-restores", "hendel-middle-layers", "todd-zero-shot"])
def test_a_model_that_cannot_do_the_task_is_not_judged(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_vectors, "LEAST", 1.1)
    monkeypatch.setattr(function_vectors, "LEAST", 1.1)
    with pytest.raises(UnmetError, match="gain too little"):
        CLAIMS[id].measure(Trial(0))


class Known(SimpleNamespace):
    """A task whose accuracy by layer is known: `own[layer]` with its vector, 0.1 with any other."""

    dev, tests = range(2, 6), range(6, 10)

    def replaced(self, vectors: Tensor, layers: Sequence[int], queries: range) -> list[float]:
        return [self.own[layer] if vectors is self.vector else 0.1 for layer in layers]

    def prompted(self, queries: range) -> float:
        return 0.9

    def bare(self, queries: range) -> float:
        return 0.1


def known(own: Sequence[float]) -> Callable[[Trial], tuple[Any, Any]]:
    model = SimpleNamespace(anatomy=SimpleNamespace(names=range(30)))
    tasks = [Known(model=model, name="known", own=own, vector=torch.ones(30, 4)) for _ in range(2)]
    return lambda trial: (tasks[0], tasks[1])


MIDDLE = [0.8 if 10 <= layer <= 18 else 0.1 for layer in range(30)]
LATE = [0.8 if layer >= 20 else 0.1 for layer in range(30)]
NOWHERE = [0.1] * 30


@pytest.mark.parametrize(
    ("id", "own", "wanted"),
    [
        ("hendel-restores", MIDDLE, Verdict.PASS),
        ("hendel-restores", NOWHERE, Verdict.FAIL),
        ("hendel-middle-layers", MIDDLE, Verdict.PASS),
        ("hendel-middle-layers", LATE, Verdict.FAIL),
    ],
)
def test_task_vectors_of_known_accuracy(
    id: str, own: list[float], wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    monkeypatch.setattr(task_vectors, "pair", known(own))
    result, judged = verdict(id, 5)
    assert result is wanted, judged


def test_clusters_are_told_from_queries() -> None:
    """Vectors are a task plus a query. Without the task they tie, and without the query they are all right."""
    generator = torch.Generator().manual_seed(0)
    tasks, queries = torch.randn(3, 1, 8, generator=generator), torch.randn(1, 4, 8, generator=generator)
    assert task_vectors.assigned(tasks + 0.1 * queries) == [1] * 12
    assert task_vectors.assigned((0 * tasks + queries).expand(3, 4, 8)) == [0] * 12


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("by_task", "shuffled_too", "wanted"),
    [(True, False, Verdict.PASS), (True, True, Verdict.HOLDS_NOT_DIAGNOSTIC), (False, False, Verdict.FAIL)],
)
def test_clusters(
    by_task: bool, shuffled_too: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    calls: list[int] = []

    def known_states(model: Model, texts: Sequence[Sequence[int]]) -> Tensor:
        kind = ("own", "shuffled", "bare")[len(calls) % 3]
        calls.append(len(texts))
        apart = (kind == "own" and by_task) or (kind == "shuffled" and shuffled_too)
        groups = torch.eye(3).repeat_interleave(len(texts) // 3, 0) if apart else torch.ones(len(texts), 3)
        return groups.expand(4, -1, -1)

    monkeypatch.setattr(task_vectors, "states", known_states)
    result, judged = verdict("hendel-clusters", 10)
    assert result is wanted, judged


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("obeys", "wanted"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
def test_override(obeys: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    """Logits that follow the vector, whose answer is token 1, or the demonstrations, whose answer is another one."""
    monkeypatch.setattr(Trial, "require", lambda trial, holds, what: None)
    monkeypatch.setattr(task_vectors, "begins", lambda model, answer: 1)
    answer = torch.nn.functional.one_hot(torch.tensor([1 if obeys else 0]), 50).float()
    monkeypatch.setattr(
        task_vectors, "run_with", lambda model, texts, layers, v, past=None: answer.expand(len(texts), -1)
    )
    monkeypatch.setattr(
        task_vectors, "run_last", lambda model, texts, past=None: torch.eye(50)[:1].expand(len(texts), -1)
    )
    result, judged = verdict("hendel-override", 10)
    assert result is wanted, judged


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("works", "wanted"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
@pytest.mark.parametrize("id", ["todd-zero-shot", "todd-shuffled"])
def test_function_vectors(
    id: str, works: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    """Demonstrations are worth 0.8; the vector as much, or nothing, and that of other heads nothing."""
    right = iter([0.9, 0.1] * 100)
    monkeypatch.setattr(function_vectors, "accuracy", lambda logits, answers: next(right))
    monkeypatch.setattr(function_vectors, "added", lambda task, texts, v, past=None, layer=None: float(v))
    monkeypatch.setattr(_effects.Function, "vector", lambda task, heads: torch.tensor(0.8 if works else 0.1))
    monkeypatch.setattr(_effects.Function, "random", lambda task, generator: torch.tensor(0.1))
    result, judged = verdict(id, 5)
    assert result is wanted, judged


@pytest.mark.parametrize(("first", "wanted"), [(10, Verdict.PASS), (0, Verdict.FAIL)])
def test_heads_in_the_middle(first: int, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    effects = torch.zeros(30, 9)
    effects[first : first + 3] = 0.5
    task = SimpleNamespace(model=None, effects=effects, heads=[(first + k // 9, k % 9) for k in range(10)])
    monkeypatch.setattr(function_vectors, "function", lambda trial: task)
    monkeypatch.setattr(function_vectors, "shape", lambda model: (30, 9))
    monkeypatch.setattr(function_vectors, "all_heads", lambda model: [(k // 9, k % 9) for k in range(270)])
    result, judged = verdict("todd-middle-layers", 10)
    assert result is wanted, judged


def test_an_effect_is_that_of_one_head(tiny: Model) -> None:
    """float32, 1e-6: a head that has its own output changes nothing, and one with another output what a run says."""
    shown = _vectors.words(tiny, "sst2", 4, 1, 0)
    text = (*shown.prefix(range(4)), *shown.queries[0])
    own = _effects.mean_outputs(tiny, [text])
    assert _effects.effect(tiny, shown, own).abs().max() < 1e-6
    other = own.clone()
    other[1, 2] += 3.0
    effects = _effects.effect(tiny, shown, other)
    assert effects[1, 2].abs() > 1e-4
    assert effects.abs().sum() - effects[1, 2].abs() < 1e-5


def test_a_vector_is_what_its_heads_add(tiny: Model) -> None:
    means = torch.randn(4, 4, 8, generator=torch.Generator().manual_seed(0))
    task: Any = _effects.Function(tiny, "", None, None, means, torch.zeros(4, 4))  # type: ignore[arg-type]
    weight = [tiny.model.get_submodule(name).self_attn.o_proj.weight for name in tiny.anatomy.names]
    wanted = weight[1][:, 8:16] @ means[1, 1] + weight[3][:, :8] @ means[3, 0]
    torch.testing.assert_close(task.vector([(1, 1), (3, 0)]), wanted)
    assert not torch.allclose(task.vector([(1, 1)]), wanted)
