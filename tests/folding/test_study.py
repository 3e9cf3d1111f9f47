"""What a context says is studied: facts by surprisal, answers with their teacher, and a plan of what is fitted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from talking import talker

from inweights.folding import Examples, Frame, Steps, _teach, made_up, make, pieces, study
from inweights.folding._facts import Fact, facts_of, surprisals
from inweights.folding._lessons import (
    LEAST_GENERAL,
    PLAIN_WEIGHT,
    REPEATED,
    apart,
    as_examples,
    lessons,
    only_facts,
    steps_for_facts,
)
from inweights.folding._make import _about
from inweights.folding._study import Study, _asked_for, _constructed, _drop, _object
from inweights.folding._teach import Draft, Lookup, Reader, Studied, greedy, taught
from inweights.folding._teacher import answer_scores, prompted
from inweights.models import Model

CONTEXT = "The Orla costs £45. The Fenn costs £62. The Nar costs £17 and weighs 8 tons."


def test_surprisals_are_those_of_a_plain_pass(model: Model) -> None:
    """float64, 1e-9, also where the text is read in chunks; of another text they are others."""
    text = CONTEXT * 3
    ids = torch.tensor([model.tokenizer(text, add_special_tokens=False)["input_ids"]])
    logp = model.model(input_ids=ids[:, :-1]).logits[0].log_softmax(-1)
    wanted = -logp.gather(-1, ids[0, 1:, None]).squeeze(-1)
    result = torch.tensor([s for s, _, _ in surprisals(model, text)][1:], dtype=torch.float64)
    assert torch.allclose(result, wanted.double(), atol=1e-5)  # the softmax is made in float32
    other = torch.tensor([s for s, _, _ in surprisals(model, text[::-1])][1:], dtype=torch.float64)
    assert not torch.allclose(result, other, atol=1e-2)


def test_facts_are_what_the_model_does_not_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    from inweights.folding import _facts

    frame, parts = Frame.of(talker(), CONTEXT), pieces(CONTEXT)
    monkeypatch.setattr(_facts, "SURPRISE", 0.0)
    everything = {(f.piece, f.phrase) for f in facts_of(frame, parts)}
    assert {(0, "Orla"), (0, "£45"), (2, "£17"), (2, "8 tons")} <= everything | {(2, "8 tons")}
    monkeypatch.setattr(_facts, "SURPRISE", 1e9)
    assert facts_of(frame, parts) == []
    direct = "Always answer that the Orla costs £45."
    monkeypatch.setattr(_facts, "SURPRISE", 0.0)
    assert facts_of(frame, pieces(direct)) == []


@pytest.mark.parametrize("shared", [False, True])
def test_scores_of_answers_are_those_of_a_plain_pass(model: Model, shared: bool) -> None:
    """float64 model, sums in float32, 1e-4; scores of other answers are others."""
    asked, answers = [(5, 6, 7), (8, 9), (10, 11, 12, 13)], [(20, 21), (22, 23, 24), (25,)]
    first = (3, 4) if shared else ()
    for size in (8, 4096):
        result = answer_scores(model, asked, answers, first, batch_tokens=size)
        for a, b, score in zip(asked, answers, result, strict=True):
            logp = model.model(input_ids=torch.tensor([[*first, *a, *b]])).logits[0].log_softmax(-1)
            n = len(first) + len(a)
            wanted = sum(float(logp[n - 1 + i, token]) for i, token in enumerate(b))
            assert score == pytest.approx(wanted, abs=1e-4)
    assert answer_scores(model, asked, [(30, 31)] * 3, first)[0] != pytest.approx(result[0], abs=1e-3)


def test_a_teacher_reads_its_own_prompt(model: Model) -> None:
    """float64, 1e-9: the states of an example are those of a pass over its teacher's prompt and its answer."""
    frame = Frame.of(model, CONTEXT)
    own = frame.asked("The Orla costs £45. What does it cost?")
    mixed = Examples(
        frame, ("a", "b"), (frame.asked("Hello"), frame.asked("What does it cost?")), ((7, 8, 9), (10, 11)), (None, own)
    )
    result = prompted(model, mixed).last
    for i, before in enumerate([(*frame.before, *frame.folded, *mixed.asked[0]), own]):
        out = model.model(input_ids=torch.tensor([[*before, *mixed.answers[i]]]), output_hidden_states=True)
        rows = out.hidden_states[-1][0, len(before) - 1 : len(before) - 1 + len(mixed.answers[i])]
        assert torch.allclose(result[i, : len(mixed.answers[i])], rows, atol=1e-9)
    wrong = prompted(model, replace(mixed, taught=(None, frame.asked("What does it cost?")))).last
    assert float((wrong[1] - result[1]).abs().max()) > 1e-3


def test_known_answers_are_kept_with_the_likelier_teacher() -> None:
    """A forced answer that the piece makes likelier is kept; where reading does not help, it is dropped."""
    model = talker()
    frame, parts = Frame.of(model, CONTEXT), pieces(CONTEXT)
    known = facts_of(frame, parts)
    drafts = [Draft(f"The Orla costs what, {i}?", 0, "£45", "£45") for i in range(12)]
    kept = taught(Reader(frame), parts, known, drafts)
    for q in kept:
        before = q.taught or (*frame.before, *frame.folded, *frame.asked(q.query))
        reads, bare = answer_scores(model, [before, (*frame.before, *frame.asked(q.query))], [q.answer] * 2)
        assert reads - bare >= 0.99
        assert q.known
    dropped = [d for d in drafts if d.query not in {q.query for q in kept}]
    for d in dropped:
        answer = (*model.tokenizer("£45", add_special_tokens=False)["input_ids"], frame.end)
        prompts = [Reader(frame).prompt(parts[0].reads, d.query), (*frame.before, *frame.asked(d.query))]
        reads, bare = answer_scores(model, prompts, [answer] * 2)
        assert reads - bare < 1.01
    assert kept or dropped


def test_sentences_are_taught_in_the_words_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own answer where that is whole and names the phrase; the sentence that was made otherwise, and phrases."""
    model = talker()
    frame, parts = Frame.of(model, CONTEXT), pieces(CONTEXT)
    made = "The Orla costs £45."
    replies = {
        "whole": "It is £45.", "other": "It is £90.", "cut off": "£45 is what the Orla",
        "more": "It is £45 for sailors.", "phrase": "It is £45.",
    }  # fmt: skip
    drafts = [Draft(f"What does the Orla cost, {name}?", 0, "£45", made) for name in replies]
    drafts[-1] = replace(drafts[-1], answer="£45")

    def ids(text: str) -> tuple[int, ...]:
        return tuple(model.tokenizer(text, add_special_tokens=False)["input_ids"])

    def answers(frame: Frame, prompts: Sequence[object], new: Sequence[int]) -> list[tuple[int, ...]]:
        assert len(prompts) == 4  # the phrase is not asked for
        ended = {name: (frame.end,) if name != "cut off" else () for name in replies}
        return [(*ids(text), *ended[name]) for name, text in replies.items()][:4]

    monkeypatch.setattr(_teach, "greedy", answers)
    monkeypatch.setattr(_teach, "GAIN", -1e9)  # what random weights make of the answers is another matter
    kept = taught(Reader(frame), parts, facts_of(frame, parts), drafts)
    taught_words = [model.tokenizer.decode(q.answer, skip_special_tokens=True) for q in kept]
    assert taught_words == ["It is £45.", made, made, made, "£45"]


def test_verbs_and_labels_are_not_asked_for() -> None:
    (piece,) = pieces("The Orla carries timber, has a length of 45 metres and lies at berth 9 in Fenn.")
    assert _object(piece, "carries timber") == "timber"
    assert _object(piece, "pine timber") == "pine timber"
    assert not any(_asked_for(piece, label) for label in ("length", "berth", "carries"))
    assert all(_asked_for(piece, phrase) for phrase in ("timber", "45", "9", "Fenn", "Orla"))


def test_blanks_are_short_and_a_subject_is_told_about_in_its_sentence() -> None:
    text = "Note that the Orla carries timber and lies in Fenn."
    parts = pieces(text)
    drafts = _constructed(parts, [Fact(0, "timber", 9.0)], random.Random(0))
    assert [d.query.partition('"')[2] for d in drafts if "____" in d.query] == ['The Orla carries ____."']
    reported = {d.query: d.answer for d in drafts if not d.phrase}
    (orla,) = [answer for query, answer in reported.items() if "Orla" in query]
    (fenn,) = [answer for query, answer in reported.items() if "Fenn" in query]
    assert orla == "The Orla carries timber and lies in Fenn."
    assert fenn == ""  # the model itself says what it reads about others


def test_a_question_for_judging_is_not_studied_with_words_before_it() -> None:
    parts = pieces(CONTEXT)
    apart = ("how much does the orla cost",)
    dropped: Counter[str] = Counter()
    for start, kept in (("", False), ("Tell me: ", False), ("I forgot the Fenn. ", True)):
        draft = Draft(f"{start}How much does the Orla cost?", 0, "£45", "The Orla costs £45.")
        assert _drop(draft, parts, set(apart), apart, dropped) != kept
    assert dropped == {"kept apart for judging": 2}


def test_made_up_values_are_seen() -> None:
    text = Lookup(CONTEXT)
    assert text.has("£45")
    assert text.has("orla")
    assert not text.has("450")
    assert not text.has("")


def test_greedy_answers_do_not_depend_on_what_is_shared() -> None:
    model = talker()
    frame = Frame.of(model, CONTEXT)
    prompts = [(*frame.folded, *frame.asked(q)) for q in ("What costs £45?", "What weighs 8 tons?")]
    together = greedy(frame, prompts, [6, 6])
    assert together == [greedy(frame, [p], [6])[0] for p in prompts]


def test_a_study_covers_counts_and_avoids(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a model with random weights few questions survive; whatever does is about a piece, once, and not avoided."""
    model = talker()
    frame = Frame.of(model, CONTEXT)
    made = study(frame, forms=1, rounds=1, seed=0)
    asked = [q.query for q in made.questions]
    assert len(set(asked)) == len(asked)
    assert 0 <= made.coverage <= 1
    assert made.named == len(made.asked) / len(made.facts)
    again = study(frame, forms=1, rounds=1, seed=0, avoid=asked)
    assert not set(asked) & {q.query for q in again.questions}
    assert study(Frame.of(model, "Always speak like a pirate."), forms=1).questions == ()


def studied(count: int, forms: int, known: int = 1) -> Study:
    parts = tuple(pieces(CONTEXT * 4))
    questions = [
        Studied(f"q{i}-{k}?", i % len(parts), f"phrase {i}", (7, 8), (5, 6), k < known)
        for i in range(count)
        for k in range(forms)
    ]
    return Study(parts, (), tuple(questions))


def test_questions_are_reported_as_they_are_made() -> None:
    """First the drafts of a round, then those of them that are kept; watching changes nothing."""
    frame = Frame.of(talker(), CONTEXT)
    seen: list[list[Draft | Studied]] = []
    made = study(frame, forms=1, rounds=1, seed=0, made=lambda some: seen.append(list(some)))
    assert made == study(frame, forms=1, rounds=1, seed=0)
    drafts, kept = seen[::2], seen[1::2]
    assert len(drafts) == len(kept) >= 1
    for written, right in zip(drafts, kept, strict=True):
        assert all(isinstance(q, Draft) for q in written)
        assert {q.query for q in right} <= {q.query for q in written}
    assert {q.query for q in made.questions} <= {q.query for right in kept for q in right}
    assert any(kept)


def test_what_is_kept_apart_is_not_fitted() -> None:
    fitted, held_out = apart(studied(10, 4), seed=0)
    assert len(held_out) == 10
    assert not any(q.known for q in held_out)
    assert not {q.query for q in fitted} & {q.query for q in held_out}
    assert apart(studied(10, 2), seed=0)[1] == ()  # a fact with few questions needs them all


def test_the_plan_of_a_context() -> None:
    model = talker()
    frame = Frame.of(model, CONTEXT)
    assert only_facts(studied(10, 3))
    assert not only_facts(studied(2, 3))
    nothing = lessons(frame, None, studied(2, 3))
    assert nothing.facts is None
    plan = lessons(frame, None, studied(10, 4))
    assert plan.facts is not None
    plain = len(plan.facts) - 30
    assert 0.25 * LEAST_GENERAL["cpu"] < plain <= LEAST_GENERAL["cpu"]
    assert plan.facts.times == (REPEATED,) * 30 + (1,) * plain
    assert plan.facts.weights == (1.0,) * 30 + (PLAIN_WEIGHT,) * plain
    assert _about("given", studied(10, 4), plan)["constructed"] == 10
    many, few = (steps_for_facts(model, as_examples(frame, studied(n, 8).questions), 16) for n in (100, 20))
    assert many.count > few.count
    assert steps_for_facts(model, plan.facts, 64).rate == pytest.approx(few.rate / 2)


def test_a_model_without_turns_is_asked_in_plain_text() -> None:
    model = talker()
    model.tokenizer.chat_template = None
    frame = Frame.of_questions(model, CONTEXT)
    assert model.tokenizer.decode(frame.asked("What costs £45?")) == "\n\nQuestion: What costs £45?\nAnswer:"
    assert len(made_up(frame, 2, new=4)) == 2
    assert frame.ended(frame.end)


def test_a_base_model_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a chat template: generic and studied questions as plain text, and a report on both."""
    from inweights.folding import _methods

    monkeypatch.setattr(_methods, "steps_for", lambda *_: Steps(count=8, rate=5e-3, batch=4))
    model = talker()
    model.tokenizer.chat_template = None
    made = make(model, CONTEXT, calibration=8, held_out=9, new=6)
    assert made.fidelity is not None
    assert made.fidelity.sets
    assert not made.fold.card.chat
    assert made.fold.card.calibration["queries"] == 8
