"""A self-contained HTML page: embedded pictures, no scripts, no external resources."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from urllib.parse import quote

from inweights._draw import html_table

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may load for the page: nothing but what is in it; and no script."""
STYLE = """
:root { color-scheme: light dark; --ink: #111827; --soft: #4b5563; --line: #e5e7eb; --paper: #fff; --tint: #f9fafb }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --soft: #9ca3af; --line: #374151; --paper: #111827; --tint: #1f2937 } }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.6 system-ui, sans-serif; color: var(--ink); background: var(--paper) }
main { max-width: 46rem; margin: 0 auto; padding: 3rem 1.25rem 5rem }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem }
h2 { font-size: 1.25rem; margin: 3rem 0 .5rem }
.lead { font-size: 1.1rem; color: var(--soft); margin: 0 0 1.5rem }
figure { margin: 1rem 0 }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; background: #fff }
figcaption, footer { color: var(--soft); font-size: .9rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; margin: 1rem 0 }
th, td { text-align: left; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
figure svg { max-width: 100%; height: auto }
@media (max-width: 40rem) { figure { overflow-x: auto } figure svg { min-width: 24rem } main { padding-top: 1.5rem } }
.verdict { display: inline-block; font-weight: 700; padding: .1rem .7rem; border-radius: 6px; border: 2px solid }
.good { color: #0072B2 } .bad { color: #D55E00 } .open { color: var(--soft) }
@media (prefers-color-scheme: dark) { .good { color: #56B4E9 } .bad { color: #E69F00 } a { color: #93c5fd } }
td { overflow-wrap: break-word; min-width: 5rem }
code { background: var(--tint); padding: .1em .3em; border-radius: 4px }
footer { margin-top: 4rem; border-top: 1px solid var(--line); padding-top: 1rem }
"""


GOOD, BAD = ("PASS", "GOOD"), ("FAIL", "FAILED")
"""Verdicts that are emphasised; all others are shown in grey."""


@dataclass(frozen=True)
class Section:
    """A heading, and optionally a verdict, paragraphs, a picture (`png`, or an `svg` made by this package) with the
    name of its data file, and a table."""

    title: str
    paragraphs: Sequence[str] = field(default_factory=tuple)
    png: bytes | None = None
    alt: str = ""
    data_file: str = ""
    header: Sequence[str] = field(default_factory=tuple)
    rows: Sequence[Sequence[str]] = field(default_factory=tuple)
    svg: str = ""
    verdict: str = ""

    def html(self) -> str:
        parts = [f"<h2>{escape(self.title)}</h2>"]
        if self.verdict:
            kind = "good" if self.verdict in GOOD else "bad" if self.verdict in BAD else "open"
            parts.append(f'<p class="verdict {kind}">{escape(self.verdict)}</p>')
        parts += [f"<p>{escape(p)}</p>" for p in self.paragraphs]
        picture = self.svg
        if self.png is not None:
            data = base64.b64encode(self.png).decode()
            picture = f'<img alt="{escape(self.alt)}" src="data:image/png;base64,{data}">'
        link = f'Data: <a href="{quote(self.data_file)}">{escape(self.data_file)}</a>' if self.data_file else ""
        if picture:
            parts.append(f"<figure>{picture}{link and f'<figcaption>{link}</figcaption>'}</figure>")
        if self.rows:
            parts.append(html_table(self.header, self.rows))
        return "\n".join(parts)


def page(title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """The page as HTML. All texts are escaped."""
    body = "\n".join(section.html() for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body><main>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
{body}
<footer>{escape(footer)}</footer>
</main></body>
</html>
"""
