"""Texts as tokens, with the context and without it; sampling and the prompted pass over a shared context."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from talking import talker

from inweights import InputError
from inweights.folding import Frame, answered, made_up, questions, read_queries
from inweights.folding._calibrate import openers
from inweights.folding._teacher import prompted
from inweights.models import Model
from inweights.models._tiny import tiny
from inweights.running._hidden import run
from inweights.running._sample import sample

CONTEXT = "Speak like a pirate."


def test_bare_is_the_user_turn_with_no_system_turn() -> None:
    frame = Frame.of(talker(), CONTEXT)
    tok = frame.model.tokenizer
    assert tok.decode(frame.folded) == f"<|im_start|>system\n{CONTEXT}<|im_end|>\n"
    assert tok.decode(frame.asked("Hi?")) == "<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\n"
    assert frame.before == ()
    assert "".join(frame.describe("Hi?")["bare"]).count("system") == 0
    assert frame.ends == {0}


def test_a_beginning_of_text_stays() -> None:
    model = talker(bos=True)
    chat, plain = Frame.of(model, CONTEXT), Frame.of(model, CONTEXT, chat=False)
    assert chat.before == (2,)
    assert model.tokenizer.decode(chat.folded).startswith("<|im_start|>system")
    assert plain.before == ()  # this tokenizer adds none by itself
    assert model.tokenizer.decode(plain.folded) == CONTEXT


@pytest.mark.parametrize("context", ["", " \n"])
def test_an_empty_context_is_refused(context: str) -> None:
    with pytest.raises(InputError, match="nothing to fold"):
        Frame.of(talker(), context)


def test_a_model_without_a_tokenizer_is_refused() -> None:
    model = talker()
    with pytest.raises(InputError, match="no tokenizer"):
        Frame.of(Model(model.model), CONTEXT)


def greedy(model: Model, ids: list[int], new: int) -> tuple[int, ...]:
    """Greedy tokens by whole forwards, one text at a time."""
    output: list[int] = []
    while len(output) < new and (not output or output[-1] != 0):
        with torch.no_grad():
            output.append(int(run(model.model, torch.tensor([[*ids, *output]]))[0, -1].argmax()))
    return tuple(output)


def test_sampling_over_a_shared_context_is_what_plain_forwards_say(model: Model) -> None:
    """Greedy, float64: padding, positions and the shared cache change nothing; another context does."""
    frame = Frame.of(model, CONTEXT)
    texts = [frame.asked(q) for q in ("Hi?", "What is the capital of Italy?", "Why", "And so on and on")]
    shared = list(frame.folded)
    result = sample(model.model, shared, texts, new=12, temperature=0.0, seed=0, ends=lambda i: i == 0, batch=3)
    assert result == [greedy(model, [*shared, *t], 12) for t in texts]
    other = sample(model.model, [], texts, new=12, temperature=0.0, seed=0, ends=lambda i: i == 0)
    assert other == [greedy(model, list(t), 12) for t in texts]
    assert other != result


def test_samples_follow_the_distribution_and_the_seed() -> None:
    model = talker()
    text = Frame.of(model, CONTEXT).asked("Hi?")

    def first(seed: int, n: int = 400) -> list[int]:
        output = sample(model.model, [], [text] * n, new=1, temperature=1.0, seed=seed, ends=lambda i: False, batch=n)
        return [s[0] for s in output]

    assert first(1) == first(1)
    assert first(1) != first(2)
    with torch.no_grad():
        p = run(model.model, torch.tensor([text]))[0, -1].softmax(-1)
    counts = torch.bincount(torch.tensor(first(3, 4000)), minlength=len(p)) / 4000
    assert float((counts - p).abs().sum()) < 0.5  # total variation of 4,000 draws from 259 outcomes is about 0.2
    wrong = p.roll(1)
    assert float((counts - wrong).abs().sum()) > 0.8


def test_made_up_queries_are_different_and_the_seed_s_own() -> None:
    frame = Frame.of(talker(), CONTEXT)
    result = made_up(frame, 12, seed=0, new=6)
    assert len(result) == len(set(result)) >= 12
    assert result == made_up(frame, 12, seed=0, new=6)
    assert result != made_up(frame, 12, seed=1, new=6)
    assert all(any(q.startswith(o) for o in openers()) for q in result)
    with pytest.raises(InputError, match="this fold is of plain text: give a file of queries"):
        made_up(Frame.of(talker(), CONTEXT, chat=False), 4)


def test_there_are_enough_questions_and_none_is_an_opener() -> None:
    assert len(questions()) == len(set(questions())) >= 64
    assert not set(questions()) & set(openers())


def test_what_does_not_fit_into_the_window_is_refused() -> None:
    frame = Frame.of(talker(), CONTEXT)
    with pytest.raises(InputError, match="the model reads 2048"):
        answered(frame, ["Hi?"], new=3000)
    with pytest.raises(InputError, match="no queries"):
        answered(frame, [])


def test_plain_answers_end_with_their_line() -> None:
    frame = Frame.of(talker(), "Input: a\nOutput: b\n\n", chat=False)
    made = answered(frame, ["Input: c\nOutput:"] * 40, seed=0, new=60)
    newline = frame.model.tokenizer("\n")["input_ids"][0]
    ended = [output for output in made.answers if newline in output]
    assert ended
    assert all(output.index(newline) == len(output) - 1 for output in ended)


def test_queries_come_from_lines_or_json_lines(tmp_path: Path) -> None:
    plain, lines = tmp_path / "plain.txt", tmp_path / "lines.jsonl"
    plain.write_text("One?\n\nTwo?\n")
    assert read_queries(plain) == [("One?", None), ("Two?", None)]
    lines.write_text(json.dumps({"query": "One?", "answer": "1"}) + "\n" + json.dumps({"query": "Two?"}))
    assert read_queries(lines) == [("One?", "1"), ("Two?", None)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "holds no queries"),
        ('{"question": "a"}', "Line 1"),
        ('{"query": 3}', "Line 1"),
        ('{"query": "a", "answer": " "}', "Line 1"),
        ("{", "Line 1"),
    ],
)
def test_bad_query_files_are_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=said):
        read_queries(path)
    with pytest.raises(InputError, match="cannot be read, there is no such file"):
        read_queries(tmp_path / "none")


@pytest.mark.parametrize("bos", [False, True])
def test_the_prompted_pass_is_the_plain_forward_over_everything(model: Model, bos: bool) -> None:
    """float64, 1e-9; the bare model is far off."""
    frame = Frame.of(model, CONTEXT, chat=not bos)
    if bos:
        frame = Frame(model, CONTEXT, False, (2,), frame.folded)
    made = answered(frame, ["Hi?", "What is it that you want?", "Why"], seed=3, new=9)
    teacher = prompted(model, made, blocks=True, batch_tokens=64)
    net = model.model
    for i, (asked, output) in enumerate(zip(made.asked, made.answers, strict=True)):
        for ahead, near in (((*frame.before, *frame.folded), True), (frame.before, False)):
            ids = torch.tensor([[*ahead, *asked, *output[:-1]]])
            with torch.no_grad():
                states = net(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
            last = states[-1][0, -len(output) :]
            error = float((teacher.last[i, : len(output)] - last).abs().max())
            first = float((teacher.blocks[i, : len(output), 0] - states[1][0, -len(output) :]).abs().max())
            assert (max(error, first) < 1e-9) if near else (min(error, first) > 1e-3)


def test_a_template_that_puts_the_system_into_the_user_turn_is_folded_there() -> None:
    """As Gemma's does: what bare and prompted turn begin with is kept, and the context alone is folded."""
    model = talker()
    model.tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{% set s = messages[0]['content'] + '\n\n' %}"
        "{% set rest = messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}{% endif %}<s>"
        "{% for m in rest %}<|im_start|>{{ m['role'] }}\n{{ s if loop.first else '' }}{{ m['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>model\n{% endif %}"
    )
    frame = Frame.of(model, CONTEXT)
    tok = model.tokenizer
    assert tok.decode(frame.before) == "<s><|im_start|>user\n"
    assert tok.decode(frame.folded) == CONTEXT + "\n\n"
    assert tok.decode(frame.asked("Hi?")) == "Hi?<|im_end|>\n<|im_start|>model\n"
    model.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}"
    with pytest.raises(InputError, match="chat template"):
        Frame.of(model, CONTEXT)


@pytest.mark.parametrize("family", ["mistral", "gemma2"])
def test_windows_do_not_see_padding(family: str) -> None:
    """Greedy, float64: with a window of 16, texts of different lengths in one call say what each says alone."""
    net = tiny(family, 0).double()
    model = Model(net, None, family)
    shared = [3 + i % 80 for i in range(20)]
    texts = [[5 + (7 * i + n) % 80 for i in range(n)] for n in (2, 9, 5, 9)]
    result = sample(model.model, shared, texts, new=6, temperature=0.0, seed=0, ends=lambda i: False)
    alone = [sample(model.model, shared, [t], new=6, temperature=0.0, seed=0, ends=lambda i: False)[0] for t in texts]
    assert result == alone


def test_a_model_that_keeps_no_keys_is_refused_in_a_sentence() -> None:
    with pytest.raises(InputError, match="keeps no keys"):
        sample(tiny("mamba", 0), [3, 4], [[5]], new=2, temperature=0.0, seed=0, ends=bool)


def test_a_model_that_makes_nothing_up_does_not_loop_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = Frame.of(talker(), CONTEXT)
    monkeypatch.setattr("inweights.folding._calibrate.sample", lambda *a, **k: [(0,)] * len(a[2]))
    with pytest.raises(InputError, match="made up only 0"):
        made_up(frame, 4)


def test_a_byte_order_mark_is_no_part_of_a_query(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"query": "One\u2028line?"}, ensure_ascii=False), encoding="utf-8-sig")
    assert read_queries(path) == [("One\u2028line?", None)]
    with pytest.raises(InputError, match="empty"):
        answered(Frame.of(talker(), "a", chat=False), ["", "abc"])
