"""`fold`: a context becomes one adapter for all queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

from torch import nn

from inweights import __version__
from inweights.folding._answers import Question, answers_right
from inweights.folding._calibrate import answered
from inweights.folding._card import Card, seen
from inweights.folding._estimate import fold_memory, require_fold_memory
from inweights.folding._evaluate import Fidelity, fidelity_of, measure
from inweights.folding._examples import Examples
from inweights.folding._fold import Fold
from inweights.folding._frame import Frame
from inweights.folding._generic import Calibration, Generic, generic_queries
from inweights.folding._lessons import (
    Lessons,
    as_examples,
    as_questions,
    lessons,
    only_facts,
    steps_for_facts,
)
from inweights.folding._methods import RANK, Solved, require_rank, solve_updates, working
from inweights.folding._pieces import pieces
from inweights.folding._recall import Score, recall
from inweights.folding._study import Study, study
from inweights.folding._teach import Draft, Studied
from inweights.folding._work import Work
from inweights.models import Model, as_model

After = Callable[[str, int, int], None]
Asked = Callable[[Sequence[Draft | Studied]], None]


@dataclass(frozen=True)
class Made:
    """A fold with its report, and how long it took: the solve alone, and everything.

    `resumed`: the fold went on after an interruption; the times are those of the last run alone.
    """

    fold: Fold
    fidelity: Fidelity | None
    seconds_solve: float
    seconds_total: float
    study: Study
    resumed: bool = False


@overload
def fold(
    model: Model | nn.Module, context: str, *, calibration: Calibration | None = ..., method: str = ...,
    rank: int | None = ..., energy: float | None = ..., seed: int = ..., chat: bool | None = ...,
    tokenizer: Any = ..., embed_prompt: bool = ..., report: Literal[False] = ..., after: After = ...,
) -> Fold: ...  # fmt: skip
@overload
def fold(
    model: Model | nn.Module, context: str, *, calibration: Calibration | None = ..., method: str = ...,
    rank: int | None = ..., energy: float | None = ..., seed: int = ..., chat: bool | None = ...,
    tokenizer: Any = ..., embed_prompt: bool = ..., report: Literal[True], after: After = ...,
) -> tuple[Fold, Fidelity]: ...  # fmt: skip
def fold(
    model: Model | nn.Module,
    context: str,
    *,
    calibration: Calibration | None = None,
    method: str = "match",
    rank: int | None = None,
    energy: float | None = None,
    seed: int = 0,
    chat: bool | None = None,
    tokenizer: Any = None,
    embed_prompt: bool = False,
    report: bool = False,
    after: After = lambda stage, done, total: None,
) -> Fold | tuple[Fold, Fidelity]:
    """One adapter for all queries, that stands for a context.

    **Arguments:**

    - `context`: the prompt to fold, a system turn in a chat.
    - `calibration`: how many queries the model generates itself (128, or 1,024 on a GPU), or the queries, or a
      file of them. Labels are never read.
    - `method`: `"match"` (the best), `"closed"` (no gradient), `"polish"` (closed, then the steps of match),
      `"distil"` (distillation, the baseline), `"vector"` (one vector for each block, the fastest), `"mean"` (the mean
      of exact updates).
    - `rank`: of each matrix' update; 16 for `match`, 64 for `closed`. `energy` cuts each further, to the lowest rank
      that keeps this share of its squared norm.
    - `tokenizer`: of a transformers model that was not loaded by `iw.load`.
    - `chat`: whether context and query are turns; by default, if the model has a chat template.
    - `embed_prompt`: keep the prompt's text, and not only its hash, in the adapter.
    - `report`: also measure, as the command `inweights fold` does, and return `(fold, report)`; see `evaluate`.
    - `after`: called as the work goes on, with the name of the stage, how much of it is done, and how much there is;
      a fold takes minutes on a CPU. `after=print` shows it.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2")
    queries = ["Who are you?", "What is a cat?"]  # 128 of the model's own by default
    fold = iw.fold(m, "Answer in French.", calibration=queries, method="vector")  # "match" is better, but slower
    with fold.applied(m):
        pass  # the model's own forward with other weights; restored after the block, bit for bit
    print(fold.rank)
    # prints 1
    ```
    """
    made = make(
        model, context, calibration=calibration, method=method, rank=rank, energy=energy, seed=seed, chat=chat,
        tokenizer=tokenizer, embed_prompt=embed_prompt, report=report, after=after,
    )  # fmt: skip
    return made.fold if made.fidelity is None else (made.fold, made.fidelity)


def make(
    model: Model | nn.Module,
    context: str,
    *,
    calibration: Calibration | None = None,
    method: str = "match",
    rank: int | None = None,
    energy: float | None = None,
    strength: float = 1.0,
    seed: int = 0,
    chat: bool | None = None,
    tokenizer: Any = None,
    embed_prompt: bool = False,
    report: bool = True,
    held_out: int = 24,
    tests: Sequence[tuple[str, str]] = (),
    questions: Sequence[Question] = (),
    score: Score = answers_right,
    new: int = 48,
    folder: Path | None = None,
    after: After = lambda stage, done, total: None,
    asked_about: Asked = lambda some: None,
) -> Made:
    """Folds and, if `report`, measures on queries that were not calibrated on; `tests` have right answers.

    - `questions` about the context are asked in place of those that were studied and kept apart; they are never
      studied. `score` judges the answers.
    - `folder` keeps finished stages and the state of the steps: the same call resumes after an interruption. The
      caller removes it.
    - `asked_about` is called with the questions about the context as they are made; see `study`.
    """
    start = time.perf_counter()
    model = as_model(model, tokenizer)
    require_rank(model, rank)
    low = working(model)
    frame, quick = (_frame(m, context, chat, calibration) for m in (model, low))
    held_out = held_out if report else 0
    work = Work(folder, _setting(frame, calibration, method, rank, seed, questions, held_out, new))
    studied = work.stage("study", Study, lambda: _study(quick, method, seed, questions, after, asked_about))
    asked, kept_out, source = work.stage(
        "queries", Generic, lambda: generic_queries(quick, calibration, studied, seed, held_out, new, after)
    )
    style = _answered(quick, asked, method, rank, seed, new, report, work, after) if asked else None
    plan = lessons(quick, style, studied, seed)
    solved = _solved(model, low, frame, plan, studied, method, rank, seed, work, after)
    card = Card(
        base=model.name, base_fingerprint=model.fingerprint, prompt_sha256=frame.digest,
        prompt=context if embed_prompt else None, prompt_tokens=len(frame.folded), chat=frame.chat, method=method,
        rank=max(u.columns for u in solved.updates.values()), seed=seed, calibration=_about(source, studied, plan),
    )  # fmt: skip
    made = Fold(solved.updates, card, model) * strength
    if energy is not None:
        made = made.trimmed(energy)
    fidelity = None
    if report:
        fidelity = fidelity_of(frame, made, kept_out, answers=tests, new=new, seed=seed, after=lambda s: after(s, 0, 0))
        about = list(questions) or as_questions(studied, plan.held_out)
        fidelity = _on_facts(fidelity, frame, quick, made, plan, studied, about, score, seed, after)
        made = replace(made, card=replace(made.card, fidelity=fidelity.for_card()))
    return Made(made, fidelity, solved.seconds, time.perf_counter() - start, studied, work.resumed)


def _setting(
    frame: Frame, calibration: Calibration | None, method: str, rank: int | None, seed: int,
    questions: Sequence[Question], held_out: int, new: int,
) -> dict[str, Any]:  # fmt: skip
    """What decides about stages and steps: an unfinished fold goes on only where all of it is the same."""
    given = Path(calibration).read_text(encoding="utf-8") if isinstance(calibration, str | Path) else calibration
    return {
        "inweights": __version__, "model": frame.model.fingerprint, "device": frame.model.device.type,
        "prompt": frame.digest, "chat": frame.chat, "calibration": given if given is None else str(given),
        "method": method, "rank": rank, "seed": seed, "questions": [q.text for q in questions],
        "held_out": held_out, "new": new,
    }  # fmt: skip


def _answered(
    frame: Frame, asked: list[str], method: str, rank: int | None, seed: int, new: int, report: bool, work: Work,
    after: After,
) -> Examples:  # fmt: skip
    """The prompted model's answers to generic queries; refused if the fold would not fit into memory."""
    needed = fold_memory(
        frame.model, context=len(frame.folded), queries=len(asked), query=max(len(frame.asked(q)) for q in asked),
        new=new, method=method, rank=RANK.get(method, 0) if rank is None else rank, report=report,
    )  # fmt: skip
    require_fold_memory(needed)
    answers = work.stage(
        "answers", tuple[tuple[int, ...], ...],
        lambda: answered(frame, asked, seed + 1, new=new, after=lambda n: after("answers", n, len(asked))).answers,
    )  # fmt: skip
    return Examples(frame, tuple(asked), tuple(map(frame.asked, asked)), answers)


def _frame(model: Model, context: str, chat: bool | None, calibration: Calibration | None) -> Frame:
    """A model without turns is asked questions in plain text, unless the user has queries of another form."""
    frame = Frame.of(model, context, chat)
    own = calibration is not None and not isinstance(calibration, int)
    return frame if frame.chat or own or chat is False else Frame.of_questions(model, context)


def _study(frame: Frame, method: str, seed: int, questions: Sequence[Question], after: After, made: Asked) -> Study:
    """What the context says, if the method can learn it: gradient steps on questions."""
    if method != "match" or not frame.around[0]:
        return Study(tuple(pieces(frame.context)), (), ())
    fast = frame.model.device.type == "cuda"
    after("studying the prompt", 0, 0)
    return study(
        frame, forms=8 if fast else 4, rounds=2, seed=seed, avoid=[q.text for q in questions],
        after=lambda done, total: after("studying the prompt", done, total), made=made,
    )  # fmt: skip


def _solved(
    model: Model, low: Model, frame: Frame, plan: Lessons, studied: Study, method: str, rank: int | None, seed: int,
    work: Work, after: After,
) -> Solved:  # fmt: skip
    """The style first, then the facts from there; a context of facts alone has the second part only."""
    first: Solved | None = None
    if plan.style is not None and not (plan.facts is not None and only_facts(studied)):
        first = solve_updates(
            model, replace(plan.style, frame=frame), method, rank=rank, seed=seed, low=low,
            state=work.state("style"), after=lambda done, total: after("fitting the adapter", done, total),
        )  # fmt: skip
    if plan.facts is None:
        assert first is not None
        return first
    rank = RANK[method] if rank is None else rank
    second = solve_updates(
        model, replace(plan.facts, frame=frame), method, rank=rank, seed=seed, low=low,
        steps=steps_for_facts(low, plan.facts, rank), start=first.updates if first else None,
        state=work.state("facts"), after=lambda done, total: after("fitting the facts", done, total),
    )  # fmt: skip
    more = first.seconds if first else 0.0
    return replace(second, seconds=second.seconds + more)


def _on_facts(
    fidelity: Fidelity, frame: Frame, quick: Frame, made: Fold, plan: Lessons, studied: Study,
    about: Sequence[Question], score: Score, seed: int, after: After,
) -> Fidelity:  # fmt: skip
    """The report with right answers to questions about the context, and how far the fold is from the teachers of the
    studied questions that were kept apart."""
    fidelity = replace(
        fidelity, facts=len(studied.facts) if plan.facts else 0, directs=not (plan.facts and only_facts(studied))
    )
    if not about:
        return fidelity
    apart = None
    if plan.held_out:
        apart = measure("studied questions kept apart", as_examples(frame, plan.held_out), made, control=False)
    # On the working copy: hundreds of answers, all of them by the same weights.
    known = recall(
        quick, Fold(made.updates, Card(), quick.model), about, studied.pieces, score=score, seed=seed,
        after=lambda s: after(s, 0, 0),
    )  # fmt: skip
    return replace(fidelity, recall=known, studied=apart)


def _about(source: str, studied: Study, plan: Lessons) -> dict[str, Any]:
    """What the card says of the examples: where queries come from, counts, coverage, and what teachers read."""
    fitted = [e for e in (plan.style, plan.facts) if e is not None]
    result: dict[str, Any] = {
        "source": source, "queries": len(plan.style) if plan.style else 0,
        "answer_tokens": sum(e.tokens for e in fitted), "seen": seen(q for e in fitted for q in e.queries),
    }  # fmt: skip
    if plan.facts is None:
        return result
    return result | {
        "studied": len(studied.questions), "facts": len(studied.facts), "facts_asked": len(studied.asked),
        "coverage": studied.coverage, "named": studied.named, "held_out": len(plan.held_out),
        "taught_by_window": sum(q.taught is not None for q in studied.questions),
        "taught_by_context": sum(q.taught is None for q in studied.questions),
        "constructed": sum(q.known for q in studied.questions),
        "written": studied.written, "dropped": studied.dropped,
    }  # fmt: skip
