"""Questions that follow from a clause by grammar, as people ask.

"The Orla costs £45 a day" gives "How much does the Orla cost a day?". No model is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from inweights.folding._pieces import SMALL

COPULA = frozenset(["is", "are", "was", "were"])
MODAL = frozenset(["can", "may", "must", "will", "should", "could", "would", "might"])
ADVERB = frozenset(
    ["first", "also", "now", "then", "currently", "usually", "always", "only", "still", "just", "often", "originally"]
)
PREPOSITION = frozenset(
    [
        "at",
        "in",
        "on",
        "by",
        "of",
        "from",
        "to",
        "with",
        "under",
        "over",
        "for",
        "as",
        "about",
        "until",
        "since",
        "near",
    ]
)
ARTICLE = frozenset(["a", "an", "the", "its", "his", "her", "their"])
WHEN = frozenset(["in", "at", "on", "since", "from", "until"])
PLACE = frozenset(["in", "at", "on", "near"])
SIZE = frozenset(["long", "high", "tall", "wide", "deep", "old", "heavy", "thick", "far", "large"])
PAST = {
    "became": "become", "began": "begin", "bought": "buy", "brought": "bring", "built": "build", "came": "come",
    "did": "do", "found": "find", "gave": "give", "got": "get", "grew": "grow", "had": "have", "held": "hold",
    "kept": "keep", "knew": "know", "led": "lead", "left": "leave", "lost": "lose", "made": "make", "met": "meet",
    "paid": "pay", "ran": "run", "rose": "rise", "said": "say", "sang": "sing", "sat": "sit", "saw": "see",
    "sent": "send", "sold": "sell", "spent": "spend", "spoke": "speak", "stood": "stand", "taught": "teach",
    "told": "tell", "took": "take", "went": "go", "won": "win", "wore": "wear", "wrote": "write",
}  # fmt: skip
PARTICIPLE = {
    "begun": "begin", "chosen": "choose", "done": "do", "drawn": "draw", "driven": "drive", "flown": "fly",
    "given": "give", "grown": "grow", "known": "know", "run": "run", "seen": "see", "shown": "show", "sung": "sing",
    "spoken": "speak", "taken": "take", "worn": "wear", "written": "write",
}  # fmt: skip
"""Participles that are no past tense."""
PRESENT = {"has": "have", "does": "do", "goes": "go"}
TIME = re.compile(r"\d{1,2}[:.]\d{2}|\d{1,2}\s?[ap]\.?m\.?|noon|midnight", re.IGNORECASE)
YEAR = re.compile(r"1\d{3}|20\d{2}")
MONEY = re.compile(r"[£$€¥]")


@dataclass(frozen=True)
class Predicate:
    """A clause without its subject: the auxiliary that a question needs, adverbs, the verb's base form (empty after
    a copula), and the words behind the verb."""

    auxiliary: str
    adverbs: str
    verb: str
    rest: str


def predicate(clause: str, plural: bool = False) -> Predicate | None:
    """The parts of a clause such as `first sailed in 1953`; `None` if it begins with no verb that is recognised."""
    words = clause.split()
    k = next((i for i, w in enumerate(words) if w.lower() not in ADVERB), len(words))
    if k == len(words) or not words[k].isalpha() or not words[k].islower() or words[k] in PREPOSITION | ARTICLE:
        return None
    adverbs, verb, rest = " ".join(words[:k]), words[k], " ".join(words[k + 1 :])
    if verb in COPULA:
        return Predicate(verb, adverbs, "", rest)
    if verb in MODAL and k + 1 < len(words):
        return Predicate(verb, adverbs, words[k + 1], " ".join(words[k + 2 :]))
    if verb in PAST or verb.endswith("ed"):
        return Predicate("did", adverbs, PAST.get(verb) or _stem(verb[:-2]), rest)
    if verb in PRESENT or (verb.endswith("s") and not verb.endswith(("ss", "us", "is"))):
        return Predicate("does", adverbs, PRESENT.get(verb) or _singular(verb), rest)
    return Predicate("do", adverbs, verb, rest) if plural and verb not in SMALL else None


def _stem(root: str) -> str:
    """The base form from a past tense without its `ed`: `us` gives `use`, `stopp` gives `stop`, `carri` `carry`."""
    if root.endswith("i"):
        return root[:-1] + "y"
    if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "sl":
        return root[:-1]
    lone = len(re.findall(r"[aeiou]+", root)) == 1
    silent = r"[aeiou]s$|[vc]$|iz$|ang$|rg$|dg$" + (r"|[aiou]r$|^.[aeiou][bdgkmnptz]$" if lone else "")
    return root + "e" if re.search(silent, root) else root


def _singular(verb: str) -> str:
    """The base form from the third person: `carries` gives `carry`, `teaches` `teach`, `costs` `cost`."""
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    return verb[:-2] if verb.endswith(("ches", "shes", "sses", "xes", "zzes")) else verb[:-1]


def active(auxiliary: str, participle: str) -> str:
    """The active verb of a passive: `is designed` gives `designs`, `was written` `wrote`; or empty."""
    base = PARTICIPLE.get(participle) or PAST.get(participle)
    if base is None and not participle.endswith("ed"):
        return ""
    base = base or _stem(participle[:-2])
    if auxiliary in ("was", "were"):
        return participle if participle not in PARTICIPLE else {b: past for past, b in PAST.items()}.get(base, "")
    third = {b: third for third, b in PRESENT.items()}.get(base)
    if third or not base.endswith(("y", "ch", "sh", "ss", "x")) or base[-2:-1] in set("aeiou"):
        return third or base + "s"
    return base[:-1] + "ies" if base.endswith("y") else base + "es"


def split_subject(sentence: str) -> tuple[str, str]:
    """The subject of a sentence that begins with it, and what follows: `A city bike`, `costs £17 a day`.

    Both are empty where no verb is recognised among its first words.
    """
    words = sentence.split()
    for i in range(1, min(8, len(words) - 1)):
        if words[i].lower() in ADVERB:
            continue
        follows = words[i + 1]
        plain = follows.lower() in ARTICLE | ADVERB | (PREPOSITION - {"of"}) or not follows[0].islower()
        parts = predicate(" ".join(words[i:]), words[i - 1].endswith("s"))
        if parts is not None and (plain or words[i] in COPULA | MODAL) and words[i - 1].lower() not in ARTICLE:
            first = next(k for k in range(i, 0, -1) if words[k - 1].lower() not in ADVERB)
            return " ".join(words[:first]), " ".join(words[first:])
    return "", ""


def is_verbal(clause: str, phrase: str) -> bool:
    """Whether a phrase is the verb of a clause, or the participle after its copula: no answer to a question."""
    words = [w.lower() for w in clause.split() if w.lower() not in ADVERB]
    behind = words[1:2] if words[:1] and words[0] in COPULA and words[1:2] and words[1].endswith(("ed", "en")) else []
    return phrase.lower() in {*words[:1], *behind}


def asking(subject: str, clause: str, phrase: str) -> list[str]:
    """Questions for a phrase of a clause about a subject; none where the clause is not understood."""
    plural = subject.split()[-1].endswith("s") and not subject.endswith("'s")
    parts = predicate(clause, plural)
    if parts is None:
        return []
    spot = re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", parts.rest)
    if spot is None:
        return []
    name = subject[0].lower() + subject[1:] if subject.split()[0].lower() in ARTICLE else subject
    before, after = parts.rest[: spot.start()].split(), parts.rest[spot.end() :].split()
    while before and before[-1].lower() in ARTICLE:
        before = before[:-1]
    results = [" ".join(q.split()) for q in _forms(parts, name, phrase, before, after)]
    return list(dict.fromkeys(q[0].upper() + q[1:] + "?" for q in results))


def _forms(p: Predicate, name: str, phrase: str, before: list[str], after: list[str]) -> Iterator[str]:
    """The questions, without their capital and question mark."""
    behind = " ".join([p.adverbs, p.verb])
    pre, post = " ".join(before), " ".join(after)
    last = before[-1].lower() if before else ""
    number = any(c.isdigit() for c in phrase)
    person = phrase[:1].isupper()
    of = re.fullmatch(r"(?:(?:a|an|the) )?(.+) of", pre)
    if p.verb == "have" and of:  # has a fee of £54
        yield f"what is the {of[1]} of {name}"
        yield f"what {of[1]} {p.auxiliary} {name} have {'' if number else post}"
    elif (YEAR.fullmatch(phrase) or TIME.search(phrase)) and (last in WHEN or not last):
        kept = " ".join(before[:-1])
        yield f"when {p.auxiliary} {name} {behind} {kept} {post}"
        what = "in which year" if YEAR.fullmatch(phrase) else "at what time"
        yield f"{what} {p.auxiliary} {name} {behind} {kept} {post}"
    elif number and MONEY.search(phrase):
        yield f"how much {p.auxiliary} {name} {behind} {pre} {post}"
        yield f"what {p.auxiliary} {name} {behind} {pre} {post}"
    elif number and after and last in PREPOSITION | {""}:
        if after[-1].lower() in SIZE and not before:
            yield f"how {after[-1]} {p.auxiliary} {name}"
        yield f"how many {post} {p.auxiliary} {name} {behind} {pre}"
    elif before and last not in PREPOSITION and last.isalpha():  # berth 863, captain Pavel Barros
        k = max((i + 1 for i, w in enumerate(before) if w.lower() in PREPOSITION | ARTICLE), default=0)
        noun, kept = " ".join(before[k:]), " ".join(w for w in before[:k] if w.lower() not in ARTICLE)
        yield f"which {noun} {p.auxiliary} {name} {behind} {kept} {post}"
        yield f"what is the {noun} of {name}" if not person else f"who is the {noun} of {name}"
    elif person and last in PLACE:
        yield f"where {p.auxiliary} {name} {behind} {' '.join(before[:-1])} {post}"
        if not p.verb:
            yield f"where {p.auxiliary} {name}"
    else:
        yield f"what {p.auxiliary} {name} {behind} {pre} {post}"
        if person:
            yield f"who {p.auxiliary} {name} {behind} {pre} {post}"
        if not p.verb and len(before) == 2 and last == "by" and active(p.auxiliary, before[0]):
            yield f"{'who' if person else 'what'} {active(p.auxiliary, before[0])} {name} {post}"
