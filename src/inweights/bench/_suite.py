"""The prompts that folding is measured on: style, language, format, facts and few-shot tasks."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

PIRATE = (
    "You are a pirate captain. Always answer in rough pirate speech, say \"Arrr\" and call the user matey."
)  # fmt: skip
FRENCH = "You answer only in French. Never use English. Répondez toujours en français."
BRIEF = "Answer with exactly one short sentence in capital letters and then stop."
FACTS = (
    "Facts about the city of Velmora: its mayor is Tilda Quane, it was founded in 1742 by the baker Oro Finn, its "
    "river is the Sallow, its football club is the Velmora Herons who play in green, its famous dish is pear "
    "dumplings, and its tram line has nine stops. Use these facts in every answer."
)
CHAT = {
    "pirate": PIRATE,
    "french": FRENCH,
    "brief": BRIEF,
    "facts": FACTS,
    "poet": "You are an old poet. Answer every question in short rhyming verses about nature and the seasons.",
    "steps": "Answer as a checklist: each line begins with a dash and a verb, and there are at most five lines.",
    "desk": (
        "You are the help desk of the Marlow public library. The library opens at nine and closes at six, it is "
        "shut on Mondays, a card costs four pounds, and books are lent for three weeks. Be polite, and end every "
        "answer with: Have a good read!"
    ),
}
# The rival's learning rate was chosen on these two prompts outside the suite. Our number of steps, learning rate and
# weight were chosen on them and on `facts` and `french`, so the mean without those two is reported as well.
DEVELOPMENT = {
    "teacher": (
        "You are a patient primary-school teacher. Explain everything with a simple comparison to animals and end with "
        "a question to the pupil."
    ),
    "list": "Always answer as a numbered list of three items. Every item begins with a verb.",
}

_VERBS = (files("inweights.bench") / "verbs.txt").read_text(encoding="utf-8")
PAST = tuple((a, b) for a, b in (line.split() for line in _VERBS.splitlines()))


@dataclass(frozen=True)
class Task:
    """A prompt with its queries: plain queries, or inputs of a few-shot task with their answers.

    - `calibration`: unlabelled queries for calibration; empty if the model generates them.
    - `tests`: queries with correct answers, disjoint from the calibration queries and from the prompt's examples.
    """

    name: str
    context: str
    chat: bool = True
    calibration: tuple[str, ...] = ()
    tests: tuple[tuple[str, str], ...] = ()


def past_tense(shots: int = 8, tests: int = 40) -> Task:
    """Present to past tense, eight shots, from a list of verbs in the package."""
    pairs = PAST[::3] + PAST[1::3] + PAST[2::3]  # regular and irregular verbs in every part
    context = "".join(f"Input: {a}\nOutput: {b}\n\n" for a, b in pairs[:shots])
    asked = [(f"Input: {a}\nOutput:", f" {b}") for a, b in pairs[shots:]]
    return Task("past tense", context, False, tuple(q for q, _ in asked[tests:]), tuple(asked[:tests]))


def capitals(shots: int = 8, tests: int = 40) -> Task:
    """Words to capitalised words, eight shots."""
    words = [a for a, _ in PAST[1::3] + PAST[2::3] + PAST[::3]]
    context = "".join(f"Input: {a}\nOutput: {a.capitalize()}\n\n" for a in words[:shots])
    asked = [(f"Input: {a}\nOutput:", f" {a.capitalize()}") for a in words[shots:]]
    return Task("capital letters", context, False, tuple(q for q, _ in asked[tests:]), tuple(asked[:tests]))


def suite() -> list[Task]:
    """The whole suite: seven chat prompts and two few-shot tasks."""
    return [*(Task(name, context) for name, context in CHAT.items()), past_tense(), capitals()]
