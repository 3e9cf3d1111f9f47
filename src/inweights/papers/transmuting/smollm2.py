"""*Transmuting prompts into weights* (arXiv 2510.08734): how much of a prompt thought vectors and matrices preserve.

The patches are in `_thoughts`, the tasks in `_words`. The model is
SmolLM2-135M; the paper's is Gemma 3 1B."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from inweights.folding import Examples, Frame, answered
from inweights.ledger import Measurement, NotHereError, Trial, claim
from inweights.models import Model
from inweights.papers._papers import MAZZAWI
from inweights.papers.transmuting._algorithm import EXAMPLES, Convention, transmuted
from inweights.papers.transmuting._thoughts import fitted, randomised, recovered, right, share
from inweights.papers.transmuting._words import Task, arithmetic, by_examples, instruction_to, numbers

WORDS, NUMBERS = ("past tense", "capital letters"), ("multiply", "sum")
LEAST = 0.2
"""The least gain in the share of correct answers by a prompt for a test to be meaningful."""
POOL, CALIBRATION, TESTS = 150, 10, 20
"""Numbers of arithmetic queries; the last two together are a fifth of the first, as for `LEAST`."""
QUERIES = 9**3
"""The number of possible queries of three one-digit numbers, of which `POOL` are used."""


@dataclass(frozen=True, eq=False)
class Instructed:
    """A task, its frame, the prompted model's answers to its calibration queries, and the same for another task."""

    model: Model
    task: Task
    frame: Frame
    examples: Examples
    other: Examples

    @staticmethod
    def of(model: Model, task: Task, other: Task) -> Instructed:
        frames = [Frame.of(model, each.context, chat=False) for each in (task, other)]
        mine, theirs = (
            answered(frame, each.calibration, new=8, temperature=0.0)
            for frame, each in zip(frames, (task, other), strict=True)
        )
        return Instructed(model, task, frames[0], mine, theirs)

    def unpatched(self) -> dict[str, float]:
        """The shares of correct answers with the prompt and without it."""
        frame = self.frame
        prompted = share(frame, [*frame.before, *frame.folded], self.task)
        return {"prompted": prompted, "bare": share(frame, frame.before, self.task)}

    def without(self, patch: Any) -> float:
        """The share of correct answers with a patch, without the prompt."""
        applied: AbstractContextManager[Any] = patch.applied(self.model)
        with applied:
            return share(self.frame, self.frame.before, self.task)

    def patched(self, make: Callable[[Model, Examples], Any]) -> dict[str, float]:
        """The same with the task's own patch and with that of the other task."""
        made = {"patched": self.examples, "other": self.other}
        return {name: self.without(make(self.model, source)) for name, source in made.items()}


@cache
def _words(trial: Trial) -> tuple[Instructed, dict[str, float]]:
    """The task of a trial, and its shares of correct answers without a patch."""
    sizes = {"calibration": 16, "tests": trial.size(10, 50)}
    task, other = (by_examples(WORDS[(trial.seed + i) % 2], trial.seed, **sizes) for i in range(2))
    reported = Instructed.of(trial.language_model("float32"), task, other)
    return reported, reported.unpatched()


def required(trial: Trial, task: Task, columns: dict[str, float]) -> None:
    output = f"{columns['prompted']:.0%} right with it, {columns['bare']:.0%} without"
    gap = columns["prompted"] - columns["bare"]
    trial.require(gap >= LEAST, f"SmolLM2 gains too little by the instruction to {task.name} ({output})")


def _measured(columns: dict[str, float], **more: float) -> Measurement:
    return Measurement(
        {"recovered": (recovered(columns), recovered(columns, "other"))},
        reported=columns | {"patched, of prompted": columns["patched"] / columns["prompted"]} | more,
    )


@cache
def answers(model: Model, name: str) -> tuple[list[bool], list[bool]]:
    """Which arithmetic queries are answered correctly with the instruction, and which without it."""
    asked = numbers(name, POOL)
    frame = Frame.of(model, instruction_to(name), chat=False)
    return right(frame, [*frame.before, *frame.folded], asked), right(frame, frame.before, asked)


def gained(model: Model, name: str) -> tuple[tuple[str, str], ...]:
    """The paper's filter: the arithmetic queries answered correctly with the instruction and not without it."""
    asked = zip(numbers(name, POOL), *answers(model, name), strict=True)
    return tuple(pair for pair, yes, no in asked if yes and not no)


def shares(model: Model, name: str) -> str:
    """How many queries of a task pass the filter, as text."""
    prompted, bare = (f"{sum(each) / POOL:.1%}" for each in answers(model, name))
    return f"{name} {len(gained(model, name))} of {POOL} times ({prompted} right with the instruction, {bare} without)"


@claim("mazzawi-arithmetic", MAZZAWI, "Table 1, Appendix B.1", cost=(12, 20), needs=("smollm2",))
def arithmetic_task(trial: Trial) -> Measurement:
    """An instruction to multiply or to add numbers can be moved into the weights: without it, the patched model answers
    correctly most queries that the model answers correctly only with it.

    Measured: the share of correct answers of the patched model to queries not used for the patch, all of which the
    model answers correctly with the instruction and incorrectly without it, which is the paper's filter.

    Control: the patch of the other instruction.

    Settings: SmolLM2, float32, plain text; "Multiply numbers." (even trials) or "Sum numbers." (odd ones), three
    one-digit numbers, 10 queries for the patch and 20 others, from those of 150 queries that pass the filter; the 150
    are drawn from all 729; greedy. The patch is that of mazzawi-words.

    Precondition: for both instructions, 30 of the 150 queries pass the filter. Otherwise a model is needed that can do
    the task: the paper's is Gemma 3 1B.
    """
    model = trial.language_model("float32")
    if any(len(gained(model, name)) < CALIBRATION + TESTS for name in NUMBERS):
        result = " and ".join(shares(model, name) for name in NUMBERS)
        needed = f"{CALIBRATION + TESTS} times each are needed, by a model such as the paper's, Gemma 3 1B"
        raise NotHereError(
            f"SmolLM2 can, if told to and only then, {result}, asked {POOL} of the {QUERIES} queries that there are: "
            f"{needed}"
        )
    task, other = (
        arithmetic(name, trial.seed, gained(model, name), calibration=CALIBRATION, tests=TESTS)
        for name in (NUMBERS[(trial.seed + i) % 2] for i in range(2))
    )
    reported = Instructed.of(model, task, other)
    return _measured({"prompted": 1.0, "bare": 0.0} | reported.patched(fitted), **{"paper: patched, Gemma 3": 1.0})


CONVENTIONS: tuple[Convention, ...] = ("stream", "attention")


def unused(instructed: Instructed) -> Instructed:
    """The same with other tests: the queries that Algorithm 1 leaves, with the prompted model's answers."""
    left = zip(instructed.examples.queries[EXAMPLES:], instructed.examples.answers[EXAMPLES:], strict=True)
    decode = instructed.model.tokenizer.decode
    tests = tuple((query, decode(answer, skip_special_tokens=True)) for query, answer in left)
    return replace(instructed, task=replace(instructed.task, tests=tests))


@claim("mazzawi-as-written", MAZZAWI, "Algorithm 1, Theorem 3.1, Appendix A", cost=(160, 350), needs=("smollm2",))
def written(trial: Trial) -> Measurement:
    """A thought vector and thought matrices in each block replace a prompt: without it, the patched model gives most of
    the correct answers that the model gives with it.

    Measured: the share of correct answers for words not used for the patch, patched minus bare, divided by prompted
    minus bare. Algorithm 1: for one example after the other, block by block, on the patches so far, a small step of the
    thought matrices and of the last matrix, which stands for the vector where there is no bias (Appendix A). δ is the
    difference of the stream after attention or of the attention's output: whichever gives more of the prompted model's
    answers to 6 words that are used neither for the patch nor for the verdict; the stream if both give as many.

    Control: the patch of the other task.

    Rival: the thought matrices are not needed: the last matrix alone, in the same accumulated steps.

    Settings: SmolLM2-135M, not the paper's Gemma 3 1B; float32, plain text; past tense (even trials) or capital letters
    (odd ones), given by 8 examples; 10 words for the patch, with the prompted model's answers, all tokens but the first
    of a text, and a step of 0.1 for each, so that they are about one whole step together; 10 others (full: 50), greedy.

    Precondition: the share of correct answers is at least 0.2 larger with the examples than without them.
    """
    reported, columns = _words(trial)
    required(trial, reported.task, columns)
    patch, left = partial(transmuted, reported.model), unused(reported)
    made = {name: patch(reported.examples, name) for name in CONVENTIONS}
    chosen = {name: left.without(each) for name, each in made.items()}
    convention = max(CONVENTIONS, key=lambda name: chosen[name])
    columns = columns | {
        "patched": reported.without(made[convention]),
        "other": reported.without(patch(reported.other, convention)),
        "last matrix alone": reported.without(patch(reported.examples, convention, matrices=False)),
    }
    result = _measured(columns, **{f"unused words, δ of the {name}": right for name, right in chosen.items()})
    return replace(result, rivals={"recovered": recovered(columns, "last matrix alone")})


@claim("mazzawi-words", MAZZAWI, "Appendix A: the last matrix by least squares", cost=(26, 100), needs=("smollm2",))
def words(trial: Trial) -> Measurement:
    """In models without a bias for a thought vector, the last matrix is also fitted, to the missing output of each
    token, and without the prompt the patched model gives most of the correct answers that the model gives with it.

    Measured: the share of correct answers for words not used for the patch, patched minus bare, divided by prompted
    minus bare. The matrices that read the MLP's input get thought matrices; the last matrix is fitted to the part of
    the block's output that is then still missing, token by token, and not in the mean as in Equation 8; block by block.

    Control: the patch of the other task.

    Rival: the thought matrices are not needed: the last matrix alone, fitted to the missing part of the stream after
    attention.

    Settings: SmolLM2, float32, plain text; past tense (even trials) or capital letters (odd ones), given by 8 examples;
    16 words for the patch, 10 others (full: 50), greedy. All fits have a ridge of 0.3 of the mean square, which is our
    choice.

    Precondition: the share of correct answers is at least 0.2 larger with the examples than without them.
    """
    reported, columns = _words(trial)
    required(trial, reported.task, columns)
    vector = reported.without(fitted(reported.model, reported.examples, "vector"))
    result = _measured(columns | reported.patched(fitted), vector=vector)
    return replace(result, rivals={"recovered": recovered(columns | {"vector": vector}, "vector")})


@claim(
    "mazzawi-both-parts",
    MAZZAWI,
    "Algorithm 1, Appendix A: an ablation, which the paper does not report",
    cost=(33, 170),
    needs=("smollm2",),
    repeats="mazzawi-words",
)
def both_parts(trial: Trial) -> Measurement:
    """The patch of mazzawi-words needs both parts: thought matrices, and the last matrix fitted to each token.

    Measured: how much more of the prompt's gain both parts recover than the substitute of the vector alone, and than
    the matrices alone.

    Control: the same with an added part that has no information about the prompt: random updates of the same ranks and
    norms in place of the thought matrices, or of the updates of the last matrices.

    Settings: those of mazzawi-words. Alone, the last matrix is fitted to the missing part of the stream after attention
    (the vector's part), or is unchanged (the matrices' part).

    Precondition: the share of correct answers is at least 0.2 larger with the examples than without them.
    """
    reported, columns = _words(trial)
    required(trial, reported.task, columns)
    both, vector, matrix = (fitted(reported.model, reported.examples, part) for part in ("both", "vector", "matrix"))
    last = set(vector.updates)
    columns = columns | {
        "patched": reported.without(both),
        "vector": reported.without(vector),
        "matrix": reported.without(matrix),
        "random matrices": reported.without(randomised(both, set(both.updates) - last, trial.generator())),
        "random vector": reported.without(randomised(both, last, trial.generator())),
    }

    def more(name: str, alone: str) -> float:
        return recovered(columns, name) - recovered(columns, alone)

    return Measurement(
        {
            "gained_on_vector": (more("patched", "vector"), more("random matrices", "vector")),
            "gained_on_matrix": (more("patched", "matrix"), more("random vector", "matrix")),
        },
        reported=columns,
    )
