"""The passages of a document that match a question best, as retrieval would put them into the prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import log

from inweights.folding._answers import words

K1, B = 1.2, 0.75


def bm25(passages: Sequence[str], query: str) -> list[float]:
    """Okapi BM25 of every passage for a query, with k1 = 1.2 and b = 0.75: higher is better, 0 without a common word.

    The weight of a word that n of N passages contain is `log(1 + (N - n + ½) / (n + ½))`, which is never negative.
    """
    counts = [Counter(words(passage)) for passage in passages]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / max(1, len(lengths))
    within = Counter(word for count in counts for word in count)
    wanted = [(word, log(1 + (len(counts) - within[word] + 0.5) / (within[word] + 0.5))) for word in words(query)]

    def score(count: Counter[str], length: int) -> float:
        damped = K1 * (1 - B + B * length / mean) if mean else K1
        return sum(weight * count[word] * (K1 + 1) / (count[word] + damped) for word, weight in wanted)

    return [score(count, length) for count, length in zip(counts, lengths, strict=True)]


def retrieved(passages: Sequence[str], query: str, count: Callable[[str], int], budget: int = 512) -> str:
    """The passages that fit a query best, in the order of the document, one on each line.

    The best ones are taken first, earlier ones before later ones of equal score; one that no longer fits is passed
    over.

    **Arguments:**

    - `count`: how many tokens a text has.
    - `budget`: how many tokens the result may have.
    """
    scores, chosen, used = bm25(passages, query), list[int](), 0
    for i in sorted(range(len(passages)), key=lambda i: -scores[i]):
        if used + count(passages[i]) > budget:
            continue
        text = "\n".join(passages[j] for j in sorted([*chosen, i]))
        if (total := count(text)) <= budget:
            chosen, used = [*chosen, i], total
    return "\n".join(passages[j] for j in sorted(chosen))
