"""The sections of the demo page on folded prompts."""

from __future__ import annotations

from inweights.folding import FoldShown
from inweights.report._page import Section


def fold_summary(result: FoldShown) -> list[tuple[str, str, str]]:
    """Table rows: quantity, measured value, value to compare with."""
    made = result.made
    assert made.fidelity is not None
    rows = []
    for s in made.fidelity.sets:
        wrong = [f"{r.value:.2f} by random updates of equal norm" for r in s.controls.values()]
        rows.append((f"recovered of the prompt, {s.queries} {s.name}", str(s.recovered), "".join(wrong)))
        rows.append(
            ("same next token as with the prompt", f"{s.agree_folded:.1%}", f"{s.agree_bare:.1%} without the fold")
        )
    saved = made.fidelity.saved
    if saved:
        rows.append(("prompt tokens saved at every request", str(saved.tokens), ""))
    return rows


def fold_sections(result: FoldShown) -> list[Section]:
    """The sections of the page on a folded prompt."""
    rows = [(q, who, text) for q, answer in result.answers.items() for who, text in answer.items()]
    fold = result.made.fold
    return [
        Section(
            "6. One adapter for all questions",
            (
                f"The system prompt “{result.context}” is folded into a LoRA adapter of rank {fold.rank}, "
                f"{fold.nbytes / 2**20:.1f} MiB, fitted on {fold.card.calibration['queries']} questions that the model "
                "generated itself. On new questions it approximates the prompt; the table shows how closely.",
            ),
            header=("", "measured", "to compare"),
            rows=fold_summary(result),
        ),
        Section("The same questions, three ways", header=("question", "", "answer"), rows=rows),
    ]


def facts_summary(result: FoldShown) -> list[tuple[str, str, str]]:
    """Table rows on a folded prompt of facts: who answers, the share of right answers, value to compare with."""
    made = result.made
    assert made.fidelity is not None
    assert made.fidelity.recall is not None
    share = {who: "–" if s is None else f"{s:.0%}" for who, s in made.fidelity.recall.accuracy.items()}
    return [
        (
            f"right answers to {made.fidelity.recall.questions} questions, folded",
            share["folded"],
            f"{share['bare']} bare",
        ),
        ("with the whole prompt", share["prompted"], f"{share['window']} with the sentence that has the answer"),
        ("control: random updates of equal norm", share["random"], ""),
        ("verdict", made.fidelity.verdict, f"studied {len(made.study.questions)} questions of its own"),
    ]


def facts_sections(result: FoldShown) -> list[Section]:
    """The sections of the page on a folded prompt of facts."""
    rows = [(q, who, text) for q, answer in result.answers.items() for who, text in answer.items()]
    return [
        Section(
            "7. What the adapter knows",
            (
                f"The prompt “{result.context}” states facts. The model asks itself questions about each sentence, "
                "learns the answers that it gives when it reads that sentence, and is then asked other questions.",
            ),
            header=("", "measured", "to compare"),
            rows=facts_summary(result),
        ),
        Section("What it answers", header=("question", "", "answer"), rows=rows),
    ]
