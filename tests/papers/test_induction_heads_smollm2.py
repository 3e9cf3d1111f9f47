"""Claims about induction heads of a language model, on a tiny model: known attention passes, random attention fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from worded import ROWS, reader

from inweights.compare import Shots
from inweights.ledger import CLAIMS, Trial, UnmetError, Verdict
from inweights.ledger._judge import Judged
from inweights.models import Model
from inweights.papers import _heads
from inweights.papers._heads import Head, all_heads, changed_heads, others, patterns, through, top, without
from inweights.papers.induction_heads import smollm2
from inweights.papers.induction_heads._scores import after_copies

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
IDS = [f"olsson-smollm2-{name}" for name in ("heads", "copying", "ablation", "composition", "few-shot")]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """A tiny model of 16 heads in place of SmolLM2, sequences of 6 tokens, and made-up reviews."""
    model = reader(dtype=torch.float32)
    monkeypatch.setattr(Trial, "language_model", lambda trial, dtype="float32": model)
    monkeypatch.setattr("inweights.compare._shots.pairs", lambda name: ROWS)
    monkeypatch.setattr(smollm2, "TASKS", ("sst2", "sst2"))
    monkeypatch.setattr(smollm2, "LENGTH", 6)
    monkeypatch.setattr(smollm2, "HEADS", 3)
    smollm2.measured.cache_clear()
    yield model
    smollm2.measured.cache_clear()


def attending(model: Model, tokens: Tensor) -> Tensor:
    """Attention of an induction head in the last layer, of a head of the previous token in the first, else even."""
    n = tokens.shape[1]
    seen = torch.ones(len(tokens), 4, 4, n, n).tril() / torch.arange(1, n + 1).unsqueeze(1)
    where = after_copies(tokens).float()
    where[:, 1:, 0] += where[:, 1:].sum(-1) == 0
    seen[:, 3, :3] = (where / where.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(1)
    seen[:, 0, :3] = torch.eye(n).roll(-1, 1).tril()
    return seen


def test_known_attention_passes_and_random_attention_fails(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    assert verdict("olsson-smollm2-heads")[0] in (Verdict.FAIL, Verdict.INCONCLUSIVE)
    smollm2.measured.cache_clear()
    monkeypatch.setattr(smollm2, "patterns", attending)
    found, judged = verdict("olsson-smollm2-heads", 8)
    assert found is Verdict.PASS, judged


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("id", IDS[1:])
def test_a_model_without_such_heads_is_not_judged(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    even = torch.ones(1, 4, 4, 25, 25).tril() / torch.arange(1, 26).unsqueeze(1)
    monkeypatch.setattr(smollm2, "patterns", lambda model, tokens: even.expand(len(tokens), -1, -1, -1, -1))
    with pytest.raises(UnmetError, match="no induction head"):
        CLAIMS[id].measure(Trial(0))


OFF: list[Head] = []


@contextmanager
def noted(model: Model, heads: list[Head]) -> Iterator[None]:
    OFF[:] = heads
    yield
    OFF.clear()


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("needed", "wanted"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
def test_ablation(needed: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    """A gain that depends on the heads of the last layer that match, or on none."""
    monkeypatch.setattr(smollm2, "patterns", attending)
    monkeypatch.setattr(smollm2, "without", noted)
    monkeypatch.setattr(smollm2, "copied", lambda *_: 0.5 if needed and (3, 0) in OFF else 4.0)
    found, judged = verdict("olsson-smollm2-ablation")
    assert found is wanted, judged


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("needed", "wanted"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
def test_composition(needed: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    def seen(model: Model, tokens: Tensor) -> Tensor:
        whole = attending(model, tokens)
        return 0.1 * whole if needed and (0, 0) in OFF else whole

    monkeypatch.setattr(smollm2, "patterns", seen)
    monkeypatch.setattr(smollm2, "without", noted)
    found, judged = verdict("olsson-smollm2-composition")
    assert found is wanted, judged


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("needed", "wanted"), [(True, Verdict.PASS), (False, Verdict.FAIL)])
def test_few_shot(needed: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    def sure(shown: Shots, by: float) -> Tensor:
        logp = torch.zeros(len(shown.queries), 64)
        return logp.scatter(1, shown.right.unsqueeze(1), by)

    monkeypatch.setattr(smollm2, "patterns", attending)
    monkeypatch.setattr(smollm2, "without", noted)
    monkeypatch.setattr(
        smollm2, "in_context", lambda model, shown, order: sure(shown, 1.0 if needed and (3, 0) in OFF else 5.0)[None]
    )
    monkeypatch.setattr(smollm2, "zero_shot", lambda model, shown: sure(shown, -1.0))
    found, judged = verdict("olsson-smollm2-few-shot")
    assert found is wanted, judged


@pytest.mark.parametrize(("all_copy", "wanted"), [(False, Verdict.PASS), (True, Verdict.INCONCLUSIVE)])
def test_copying(all_copy: bool, wanted: Verdict, tiny: Model, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    """Heads of the last layer that add the vectors of the tokens which they read; if all heads do, no control is
    left."""
    net = tiny.model

    def added(model: Model, tokens: Tensor) -> Tensor:
        own = net.get_output_embeddings().weight[tokens]  # type: ignore[operator]
        each = torch.zeros(len(tokens), 4, 4, *own.shape[1:])
        each[:, 0 if all_copy else 3, :] = own.unsqueeze(1) if all_copy else 0
        each[:, 3, : 4 if all_copy else 3] = own.unsqueeze(1)
        return each

    monkeypatch.setattr(smollm2, "patterns", attending)
    monkeypatch.setattr(smollm2, "through", added)
    found, judged = verdict("olsson-smollm2-copying")
    assert found is wanted, judged
    monkeypatch.setattr(smollm2, "through", lambda model, tokens: -added(model, tokens))
    assert verdict("olsson-smollm2-copying")[0] is Verdict.FAIL


def test_patterns_and_what_heads_add_are_those_of_the_model(tiny: Model) -> None:
    """float32, tolerance 1e-5: weighted by attention and summed over heads, single tokens give what attention adds."""
    tokens = torch.randint(2, 20, (2, 9))
    seen, each = patterns(tiny, tokens), through(tiny, tokens)
    torch.testing.assert_close(seen.sum(-1), torch.ones(seen.shape[:-1]))
    outputs: list[Tensor] = []
    hook = _heads.blocks(tiny)[2].self_attn.register_forward_hook(lambda _, __, out: outputs.append(out[0]))
    with torch.no_grad():
        tiny.model(tokens)
    hook.remove()
    added = torch.einsum("bhij,bhjw->biw", seen[:, 2], each[:, 2])
    torch.testing.assert_close(added, outputs[0], rtol=0, atol=1e-5)
    assert (added - each[:, 2].sum(1)).abs().max() > 1e-2


def test_a_run_without_heads(tiny: Model) -> None:
    tokens = torch.randint(2, 20, (2, 9))
    with torch.no_grad():
        whole = tiny.model(tokens).logits
        with without(tiny, [(1, 0), (1, 3), (2, 2)]):
            some = tiny.model(tokens).logits
        with changed_heads(tiny, lambda layer, read: read, range(4)):
            same = tiny.model(tokens).logits
        after = tiny.model(tokens).logits
        for layer, head in ((1, 0), (1, 3), (2, 2)):
            weight = _heads.blocks(tiny)[layer].self_attn.o_proj.weight
            weight[:, 8 * head : 8 * head + 8] = 0
        torch.testing.assert_close(tiny.model(tokens).logits, some)
    assert torch.equal(whole, after)
    torch.testing.assert_close(whole, same)
    assert (whole - some).abs().max() > 1e-2


def test_other_heads_are_of_the_same_layers(tiny: Model) -> None:
    chosen = [(0, 1), (0, 2), (3, 0)]
    drawn = others(tiny, chosen, torch.Generator().manual_seed(0), spared=[(3, 1), (3, 2)])
    assert sorted(layer for layer, _ in drawn) == [0, 0, 3]
    assert (3, 3) in drawn
    assert not {*drawn} & {*chosen}
    assert len({*drawn}) == 3
    assert len(all_heads(tiny)) == 16
    assert top(torch.tensor([[0.1, 0.5], [0.9, 0.2]]), 2) == [(1, 0), (0, 1)]
