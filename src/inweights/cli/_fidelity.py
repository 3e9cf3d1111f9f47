"""Output of a fidelity report: a table for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inweights.cli._output import say, table

if TYPE_CHECKING:
    from inweights.folding import Fidelity

MISSED = 5
"""The most facts without a right answer that are printed; JSON and the page have all of them."""


def fidelity_json(results: Fidelity) -> dict[str, Any]:
    """The values of the first set of queries as top-level keys, which scripts rely on, and the whole report."""
    result: dict[str, Any] = {}
    if results.sets:
        first = results.sets[0]
        result = {
            "recovered": first.recovered.value,
            "recovered_interval": [first.recovered.low, first.recovered.high],
            "kl_bare": first.kl_bare,
            "kl_folded": first.kl_folded,
            "agree_bare": first.agree_bare,
            "agree_folded": first.agree_folded,
        }
    result |= {f"accuracy_{who}": share for who, share in results.accuracy.items()}
    result |= {"accuracy_definition": results.definition} if results.accuracy else {}
    if results.recall:
        kept = results.recall.retained()
        result |= {f"accuracy_{who}": share for who, share in results.recall.accuracy.items()}
        result |= {"retained": kept[0] if kept else None, "retained_interval": list(kept[1:]) if kept else None}
    if results.turns:
        result["recovered_by_turn"] = [t.recovered.value for t in results.turns]
    if results.studied:
        result["recovered_studied"] = results.studied.recovered.value
    return result | {"fidelity": results.as_json()}


def show_fidelity(result: Fidelity) -> None:
    """Prints the report as tables."""
    rows = []
    for s in result.sets:
        wrong = "; ".join(f"{name} {r.value:.2f}" for name, r in s.controls.items())
        rows.append(
            (
                f"{s.name} ({s.queries})",
                str(s.recovered),
                f"{s.kl_bare:.4f} → {s.kl_folded:.4f}",
                f"{s.agree_bare:.1%} → {s.agree_folded:.1%}",
                wrong,
            )
        )
    if rows:
        table(("queries", "recovered [95%]", "KL to prompted, bare → folded", "same token", "controls"), rows)
    if result.turns:
        turns = [(t.name, str(t.recovered), f"{t.kl_bare:.4f} → {t.kl_folded:.4f}") for t in result.turns]
        many = result.turns[0].queries
        first = f"{many} conversation{'s' if many > 1 else ''}"
        table((first, "recovered [95%]", "KL to prompted, bare → folded"), turns)
    if result.recall:
        _show_recall(result)
    if result.accuracy:
        shares = ", ".join(f"{who} {share:.1%}" for who, share in result.accuracy.items())
        say(f"Accuracy: {shares} ({result.definition}).")
    if result.side:
        aside = result.side
        say(
            f"On unrelated text: KL {aside.kl_folded:.4f} a token (the prompt itself: {aside.kl_prompted:.4f}), "
            f"perplexity {aside.perplexity_base:.1f} → {aside.perplexity_folded:.1f}."
        )
    _show_answers(result.shown)
    if result.saved:
        v = result.saved
        say(
            f"Saved at every request: {v.tokens} prompt tokens, {v.kv_bytes / 2**20:.1f} MiB of keys and values, "
            f"{v.seconds_prompted * 1e3:.0f} → {v.seconds_bare * 1e3:.0f} ms to the first token."
        )


def _show_recall(result: Fidelity) -> None:
    """Right answers to questions about the prompt, and three questions with their answers."""
    from inweights.folding import ANSWERED_WITH

    known = result.recall
    assert known is not None
    kept = known.retained()
    rows = [(ANSWERED_WITH[who], "beyond the model's window" if share is None else f"{share:.1%}") for who, share in
            known.accuracy.items()]  # fmt: skip
    table((f"{known.questions} questions about the prompt, with", "right answers"), rows)
    if kept:
        say(f"Retained: {kept[0]:.2f} [{kept[1]:.2f}, {kept[2]:.2f}] of what the {known.reference} model gains.")
    if known.third_turn:
        say("Right in a third turn: " + ", ".join(f"{k} {v:.0%}" for k, v in sorted(known.third_turn.items())) + ".")
    if known.absent:
        header = ("questions about names that are not in the prompt", "says so", "invents an answer")
        table(header, [(who, f"{s['abstained']:.0%}", f"{s['invented']:.0%}") for who, s in known.absent.items()])
    missed = [each for each in known.each if each["folded"] == 0]
    if missed:
        some = "; ".join(f"{each['question']} ({each['value']})" for each in missed[:MISSED])
        say(f"Not answered by the fold, {len(missed)} of {known.questions}: {some}{'; …' if missed[MISSED:] else ''}")
    _show_answers(known.shown)


def _show_answers(rows: Sequence[dict[str, str]]) -> None:
    """Questions, each with the answers to it on one line each."""
    for each in rows:
        say(f"Q: {each['question']}")
        for who in ("prompted", "bare", "folded"):
            if who in each:
                say(f"   {who}: {' '.join(each[who].split())[:160]}")
