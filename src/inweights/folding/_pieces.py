"""Pieces of a context: its sentences, list items and table rows, each with a window of its neighbours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

HEADING = re.compile(r"^\s{0,3}(#{1,6}\s+\S.*|\S.{0,78}:|={3,}|-{3,})\s*$")
ITEM = re.compile(r"^\s*(?:[-*•+]|\(?\d{1,3}[.)])\s+")
ROW = re.compile(r"^\s*\|.*\|\s*$")
RULE = re.compile(r"^[\s|:+-]+$")
SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9À-Þ])")
SHORT = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|No|vs|etc|e\.g|i\.e|approx|Prof|Jr|Sr|Inc|Ltd|Co)|\b[A-Z])\.$")
BACK = frozenset(
    ["he", "she", "it", "they", "this", "that", "these", "those", "his", "her", "its", "their", "there", "such", "both"]
)
"""Words at the beginning of a sentence that refer to the one before it."""
DIRECTION = re.compile(
    r"\b(?:you|your|yourself|yours)\b|^\W*(?:always|never|answer|reply|respond|use|be|do not|don't|speak|write|explain|"
    r"end|keep|make sure|please)\b",
    re.IGNORECASE,
)
"""Sentences that direct the model how to answer, and state nothing."""
WINDOW = 90
"""Words of a window: the piece, its heading and as many of its neighbours."""


@dataclass(frozen=True)
class Piece:
    """A part of a context that states something by itself.

    - `text`: the sentence, list item, table row (with the header of its table) or question with its answer.
    - `alone`: the piece below its headings.
    - `window`: the same with its neighbours in the same section, up to `WINDOW` words.
    """

    text: str
    alone: str
    window: str

    @property
    def reads(self) -> str:
        """The text for its teacher: the piece below its headings, or the window if it names nothing or refers back."""
        first = (self.body.split() or [""])[0].strip("\"'(").lower()
        named = any(not m[0].isdigit() for m in self.marked)
        return self.window if first in BACK or not named else self.alone

    @property
    def directs(self) -> bool:
        """Whether it directs the model how to answer, and states nothing."""
        return DIRECTION.search(self.body) is not None

    @property
    def body(self) -> str:
        """Its own text: of a table its row, of an item the text behind the mark."""
        last = self.text.rpartition("\n")[2]
        return last if ROW.match(last) else ITEM.sub("", self.text)

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Of the row of a table: a question for each cell but the first, which names the row, and the cell."""
        lines = self.text.split("\n")
        if len(lines) != 2 or not all(ROW.match(line) for line in lines):
            return []
        header, row = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
        pairs = list(zip(header, row, strict=False))
        return [(f"What is the {h} of {row[0]}?", cell) for h, cell in pairs[1:] if h and cell and row[0]]

    @cached_property
    def marked(self) -> tuple[str, ...]:
        """Its names and numbers: every one of them should be asked for."""
        return marked(self.body)

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """What it may be asked for: names, numbers, and other runs of content words, which end at a name."""
        apart = self.body
        for name in self.marked:
            if not any(c.isdigit() for c in name):
                apart = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ; ", apart)
        return tuple(dict.fromkeys((*self.marked, *_runs(apart))))


def pieces(context: str) -> list[Piece]:
    """The pieces of a context, in order."""
    results: list[Piece] = []
    for headings, texts in _sections(context):
        head = "".join(f"{h}\n" for h in headings)
        for i, text in enumerate(texts):
            results.append(Piece(text, head + text, head + _around(texts, i)))
    return results


def _around(texts: Sequence[str], i: int) -> str:
    """A piece with its neighbours on both sides, as far as `WINDOW` words reach."""
    first, last, words = i, i, len(texts[i].split())
    while True:
        sides = [k for k in (first - 1, last + 1) if 0 <= k < len(texts)]
        fitting = [k for k in sides if words + len(texts[k].split()) <= WINDOW]
        if not fitting:
            joint = "\n" if any("\n" in t or ITEM.match(t) for t in texts[first : last + 1]) else " "
            return joint.join(texts[first : last + 1])
        words += len(texts[fitting[0]].split())
        first, last = min(first, fitting[0]), max(last, fitting[0])


def _sections(context: str) -> Iterator[tuple[list[str], list[str]]]:
    """Headings in force, and the texts below them, section by section."""
    headings: list[str] = []
    texts: list[str] = []
    for block in re.split(r"\n\s*\n", context):
        for kind, value in _blocks(block.split("\n")):
            if kind == "heading":
                if texts:
                    yield list(headings), texts
                    texts = []
                headings = [*_above(headings, value), value]
            else:
                texts.append(value)
        if texts and len(texts) > 1:  # a paragraph is a section of its own
            yield list(headings), texts
            texts = []
    if texts:
        yield list(headings), texts


def _above(headings: list[str], new: str) -> list[str]:
    """The headings that stay in force under a new one: those of a higher level."""

    def level(text: str) -> int:
        return len(text) - len(text.lstrip("#")) or 7

    return [h for h in headings if level(h) < level(new)]


def _blocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Headings and pieces of lines that no empty line parts."""
    k, prose = 0, list[str]()
    while k < len(lines):
        line = lines[k].strip()
        follows = lines[k + 1].strip() if k + 1 < len(lines) else ""
        special = not line or HEADING.match(line) or ITEM.match(line) or ROW.match(line) or line.endswith("?")
        if prose and special:
            yield from (("piece", s) for s in _sentences(" ".join(prose)))
            prose = []
        if ROW.match(line):
            header = line
            k += 1
            while k < len(lines) and ROW.match(lines[k]):
                if not RULE.match(lines[k]):
                    yield "piece", f"{header}\n{lines[k].strip()}"
                k += 1
            continue
        if line.endswith("?") and follows and not HEADING.match(follows):
            yield "piece", f"{line}\n{follows}"
            k += 2
            continue
        if HEADING.match(line) and not RULE.match(line):
            yield "heading", line
        elif ITEM.match(line):
            yield "piece", line
        elif line and not RULE.match(line):
            prose.append(line)
        k += 1
    yield from (("piece", s) for s in _sentences(" ".join(prose)))


def _sentences(text: str) -> list[str]:
    """The sentences of a paragraph; a full stop after a title or an initial ends none."""
    results: list[str] = []
    for part in SENTENCE.split(text.strip()):
        if results and SHORT.search(results[-1]):
            results[-1] += " " + part
        elif part:
            results.append(part)
    return results


WORD = re.compile(r"[^\W\d_][\w'’-]*|[£$€¥]?\d[\d.,:/-]*\d|[£$€¥]?\d", re.UNICODE)
UNIT = r"%|°[CF]?|[ap]\.?m\.?\b|[kmcµ]?[mglWVA]\b|[A-Z]{2,4}\b"
NUMBER = re.compile(rf"[£$€¥]?\d+(?:[.,:/-]\d+)*(?:\s?(?:{UNIT}))?", re.UNICODE)
NAME = re.compile(
    r"[A-ZÀ-Þ][\w'’-]*(?:\s+(?:of|the|de|la|van|von|and|&)(?=\s+[A-ZÀ-Þ])|\s+[A-ZÀ-Þ][\w'’-]*|\s+\d+\b)*", re.UNICODE
)
SMALL = frozenset((files("inweights.folding") / "small_words.txt").read_text(encoding="utf-8").split())
"""Words that state nothing by themselves."""


def marked(text: str) -> tuple[str, ...]:
    """The names and numbers of a text: capitalised words in a row, except an ordinary word at its beginning."""
    results: dict[str, None] = {}
    for result in NAME.finditer(text):
        words = result.group().split()
        while words and words[0].lower() in SMALL:
            words = words[1:]
        starts = not text[: result.start()].strip() or text[: result.start()].rstrip()[-1:] in ".!?\n-*•|:"
        lone = len(words) == 1 and starts and "|" not in text
        if words and not (lone and words[0].lower() in SMALL):
            results[" ".join(words)] = None
    for result in NUMBER.finditer(text):
        results[result.group().strip()] = None
    return tuple(results)


def _runs(text: str) -> Iterator[str]:
    """Runs of content words without a break: what remains when small words and punctuation are taken out."""
    run: list[str] = []
    end = 0
    for result in [*WORD.finditer(text), None]:
        word = result.group() if result else ""
        gap = text[end : result.start()] if result else "."
        if run and (gap.strip() or not word or word.lower() in SMALL):
            yield " ".join(run[-4:])
            run = []
        if result:
            end = result.end()
            if word.lower() not in SMALL:
                run.append(word)
