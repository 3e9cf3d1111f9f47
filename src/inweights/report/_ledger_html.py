"""HTML of the ledger's site: the frame of a page, and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from inweights.report._page import STYLE

MORE = """
main { max-width: 64rem }
nav, dt { color: var(--soft) }
dt { font-weight: 600; margin-top: .4rem } dd { margin: 0 0 0 1rem }
#claims th { cursor: pointer } label { margin-right: 1rem }
th[aria-sort=ascending]::after { content: " ▲" } th[aria-sort=descending]::after { content: " ▼" }
figure { overflow-x: auto }
svg { max-width: 44rem; min-width: 34rem; width: 100%; background: #fff; border-radius: 6px;
  font: 12px system-ui, sans-serif }
svg .t { font-weight: 600; fill: #111827 } svg .n { fill: #4b5563 } svg .a { stroke: #111827 }
svg .b { fill: #e5e7eb } svg .e { stroke: #6b7280; stroke-dasharray: 4 3 }
blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line); font-size: 1.1rem }
"""


def prose(text: str) -> str:
    """A text as HTML, with what is between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def cells(*texts: str, bare: bool = False) -> str:
    """The cells of a row, as `prose`; as a whole row, unless `bare`."""
    inner = "".join(f"<td>{prose(text)}</td>" for text in texts)
    return inner if bare else f"<tr>{inner}</tr>"


def table(header: Sequence[str], rows: Sequence[str], *, name: str = "") -> str:
    """A table of rows that are HTML already."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    about = f' id="{name}"' if name else ""
    body = "\n".join(rows)
    return f'<div class="wide"><table{about}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def document(title: str, body: Sequence[str]) -> str:
    """A whole page; the parts of its body are HTML already."""
    inner = "\n".join(body)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}{MORE}</style>
</head>
<body><main>
<h1>{escape(title)}</h1>
{inner}
</main></body>
</html>
"""
