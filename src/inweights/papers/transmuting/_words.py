"""Tasks for a language model, given by examples or by an instruction, on hand-written words and on numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

VERBS = """
add added, agree agreed, bake baked, bark barked, beg begged, blink blinked, boil boiled, borrow borrowed,
break broke, build built, buy bought, catch caught, chase chased, choose chose, collect collected, cough coughed,
count counted, cover covered, dig dug, drag dragged, draw drew, drink drank, drive drove, earn earned,
eat ate, enjoy enjoyed, explain explained, fail failed, fall fell, feed fed, feel felt, fight fought,
fill filled, find found, fix fixed, fold folded, give gave, glow glowed, grow grew, guess guessed,
hope hoped, hunt hunted, invite invited, join joined, keep kept, kick kicked, kiss kissed, know knew,
land landed, learn learned, leave left, lose lost, mix mixed, nod nodded, notice noticed, offer offered,
pack packed, pay paid, pick picked, pour poured, press pressed, promise promised, rain rained, reach reached,
rest rested, ride rode, ring rang, rush rushed, sell sold, send sent, shake shook, share shared,
shout shouted, sing sang, sleep slept, smell smelled, speak spoke, spell spelled, stand stood, stare stared,
steal stole, swim swam, take took, taste tasted, teach taught, tell told, thank thanked, throw threw,
touch touched, trade traded, trust trusted, use used, wake woke, warn warned, whisper whispered, write wrote
"""
PAST = tuple((a, b) for a, b in (pair.split() for pair in VERBS.split(",")))


@dataclass(frozen=True)
class Task:
    """A context that states the task, queries for the patch, and test queries with the expected answers."""

    name: str
    context: str
    calibration: tuple[str, ...]
    tests: tuple[tuple[str, str], ...]


def by_examples(name: str, seed: int, *, calibration: int, tests: int, shots: int = 8) -> Task:
    """The task "past tense" or "capital letters", given by examples. No word occurs in two of the three parts."""
    pairs: Sequence[tuple[str, str]] = PAST if name == "past tense" else [(a, a.capitalize()) for a, _ in PAST]
    drawn = Random(seed).sample(pairs, shots + calibration + tests)
    asked = [(f"Input: {a}\nOutput:", f" {b}") for a, b in drawn]
    context = "".join(f"{query}{answer}\n\n" for query, answer in asked[:shots])
    rest = asked[shots:]
    return Task(name, context, tuple(q for q, _ in rest[:calibration]), tuple(rest[calibration:]))


def numbers(name: str, count: int) -> list[tuple[str, str]]:
    """Queries of three one-digit numbers, always the same ones, with the answers for "multiply" or "sum"."""
    drawn = Random(0).sample([(a, b, c) for a in range(1, 10) for b in range(1, 10) for c in range(1, 10)], count)
    return [(f"{a}, {b}, {c} ->", f" {a * b * c if name == 'multiply' else a + b + c}") for a, b, c in drawn]


def arithmetic(name: str, seed: int, asked: Sequence[tuple[str, str]], *, calibration: int, tests: int) -> Task:
    """The task "multiply" or "sum", given by an instruction: some of the queries for the patch, and others for
    tests."""
    drawn = Random(seed).sample(list(asked), calibration + tests)
    return Task(name, instruction_to(name), tuple(q for q, _ in drawn[:calibration]), tuple(drawn[calibration:]))


def instruction_to(name: str) -> str:
    """The instruction of a task on numbers."""
    return f"{name.capitalize()} numbers.\n"
