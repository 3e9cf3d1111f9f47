"""Judging answers about a document: by the value that they must contain, and the values that they must not."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question about a document, with the value of a right answer.

    - `text`: the question.
    - `value`: what a right answer contains; empty where the document does not state it.
    - `others`: other values of the same attribute, which a right answer does not contain.
    - `passage`: the part of the document that contains the answer.
    - `kind`: how it asks, such as `"paraphrase"` or `"reversed"`.
    - `entity`, `attribute`: what it asks about, where that is known; `sampled` draws evenly from both.
    """

    text: str
    value: str
    others: tuple[str, ...] = ()
    passage: str = ""
    kind: str = "fact"
    entity: str = ""
    attribute: str = ""


_SAME = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "‐": "-", "‑": "-", "−": "-", "\u00ad": None})
_THOUSANDS = re.compile(r"(?<=\d)[,'’_\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_TOKEN = re.compile(
    r"(?P<number>(?:(?<![\w.,)%])-)?(?:\d+(?:[.:]\d+)*|(?<![\w.])\.\d+))"
    r"|(?P<one>[\u3040-\u30ff\u3400-\u9fff])"  # Chinese and Japanese put no spaces between words
    r"|(?P<word>[^\W\d_](?:[^\W_\u3040-\u30ff\u3400-\u9fff])*(?:'[^\W_]+)*)"
)


def words(text: str) -> list[str]:
    """The words and numbers of a text as they are compared: `"It's £1,200.00/day"` gives `it`, `1200`, `day`.

    Letters lose their case and compatibility forms; hyphens part words; an apostrophe is left out of a word, and a
    possessive `'s` too. A number is one word with its sign and decimals, without separators of thousands and zeros
    at its end; letters right after a number are a word of their own (`45kg`), but `B14` is one word, as is `9:30`.
    """
    text = unicodedata.normalize("NFKC", _THOUSANDS.sub("", text)).translate(_SAME).casefold()
    return [_number(m[0]) if m["number"] else _word(m[0]) for m in _TOKEN.finditer(text)]


def _number(text: str) -> str:
    if text.count(".") == 1 and ":" not in text:
        text = text.rstrip("0").removesuffix(".")
        return re.sub(r"^(-?)\.", r"\g<1>0.", text)
    return text


def _word(text: str) -> str:
    return text.removesuffix("'s").replace("'", "")


def contains(text: str, value: str) -> bool:
    """Whether a text contains a value as whole words, whatever its case and however its numbers are written.

    `14` is not in `140`, nor `4.5` in `14.5`; `4.50` is in `£4.5`, and `1200` in `1,200.00 dollars`. Signs of
    currencies and other punctuation do not matter. An empty value is in no text.
    """
    wanted = words(value)
    return bool(wanted) and _within(wanted, words(text))


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    n = len(part)
    return any(whole[i : i + n] == part for i in range(len(whole) - n + 1) if whole[i] == part[0])


DEFINITION = {
    False: "right if the answer contains the given one as whole words, whatever its case",
    True: "right only if the answer begins with the given one",
}
"""When an answer counts as right, by whether that is judged strictly."""


def is_right(text: str, wanted: str, *, strict: bool = True) -> bool:
    """Whether an answer is the wanted one: strictly, if it begins with it, as whole words; else if it contains it.

    What has no letters or digits, such as an emoji, is contained as it is.
    """
    if not strict:
        return contains(text, wanted) if words(wanted) else wanted.strip() in text
    text, wanted = text.strip(), wanted.strip()
    rest = text[len(wanted) : len(wanted) + 1]
    return text.startswith(wanted) and not rest.isalnum()


def answers_right(answer: str, question: Question) -> bool:
    """Whether an answer contains the question's value, and no other value of that attribute.

    Others that are part of the value (`green` of `sea green`) do not count. Where the document does not state it
    (the value is empty), an answer is right if it abstains and contains none of the others.
    """
    given, wanted = words(answer), words(question.value)
    others = [w for w in map(words, question.others) if w and not _within(w, wanted)]
    right = _within(wanted, given) if wanted else abstains(answer)
    return right and not any(_within(other, given) for other in others)


_TEXT = r"(?:text|passage|document|register|context|information|list|table|page|source|record|catalogue|prompt)s?"
_CANNOT = r"(?:cannot|can't|can\ not|could\ not|couldn't)"
_NO = r"(?:\ not|n't)\ (?:\w+ly\ )?"
_KNOWS = re.compile(
    rf"""
    \b(?:i|we)\ (?:really\ |honestly\ )?(?:do\ not|don't|did\ not|didn't)\ (?:actually\ |currently\ )?
        (?:know|have\ (?:(?:any|enough|that|this|the|access|specific|sufficient|details|data|information)\b))
    | \b(?:i|we)(?:'m|\ am|'re|\ are)\ (?:not\ (?:sure|certain|aware|able\ to)|unable\ to|unsure|unaware)\b
    | \b(?:i|we)\ {_CANNOT}\ (?:find|determine|tell|say|answer|provide|confirm|see)\b
    | \b(?:i|we)\ have\ no\ (?:idea|information|knowledge|record|data|details)\b
    | \b(?:is|was|are|were){_NO}(?:mentioned|specified|stated|listed|recorded|indicated|disclosed|described|noted)\b
    | \b(?:is|was|are|were){_NO}(?:given|provided|included)(?=\W*$|\ (?:in|by|here)\b)
    | \bnot\ (?:\w+ly\ )?(?:mentioned|specified|stated|listed|recorded|disclosed|given|provided)\ (?:in|by|here)\b
    | ^\W*not\ (?:\w+ly\ )?(?:mentioned|specified|stated|given|provided|listed|recorded|known|available)\W*$
    | \b(?:does|do|did){_NO}(?:mention|specify|state|indicate|disclose)\b
    | \b{_TEXT}\ (?:does|do|did){_NO}(?:say|give|provide|list|include|contain|tell|show|describe)\b
    | \bno\ (?:\w+\ )?(?:information|mention|record|data|details|indication|entry)\b
    | \b(?:insufficient|not\ enough)\ (?:information|data|context|details)\b
    | \b{_CANNOT}\ be\ (?:determined|answered|found|known|inferred)\b
    | \b(?:not\ possible|impossible)\ to\ (?:determine|say|tell|answer|know)\b
    | \b(?:is|was|are|were|remains?)\ (?:not\ known|unknown)\b(?!\ (?:for|as|to))
    | ^\W*(?:unknown|n/a|none\ given)\W*$
    | \bthere\ is\ no\ (?:such|one|person|entry|product|ship|course)\b
    | \bnot\ (?:in|part\ of)\ the\ (?:\w+\ )?{_TEXT}\b
    """,
    re.VERBOSE,
)


def abstains(answer: str) -> bool:
    """Whether an answer abstains: it states that the answer is not known, or not in the document."""
    text = unicodedata.normalize("NFKC", answer).translate(_SAME).casefold()
    return _KNOWS.search(" ".join(text.split())) is not None


_PUNCTUATION = str.maketrans("", "", string.punctuation)


def f1(answer: str, references: Sequence[str]) -> float:
    """The overlap of an answer's words with those of the best reference, from 0 to 1, as SQuAD defines it.

    The harmonic mean of precision and recall over the multiset of words, without case, punctuation and the articles
    a, an, the. If an answer or a reference has no words, 1 where both have none, else 0.
    """
    return max((_overlap(_plain(answer), _plain(reference)) for reference in references), default=0.0)


def _plain(text: str) -> list[str]:
    return re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION)).split()


def _overlap(answer: list[str], reference: list[str]) -> float:
    if not answer or not reference:
        return float(answer == reference)
    same = sum((Counter(answer) & Counter(reference)).values())
    return 2 * same / (len(answer) + len(reference))
