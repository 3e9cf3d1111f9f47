"""Documents: read in a process of their own, with limits of memory and time, and returned as plain text."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import PurePosixPath

KINDS = {".txt": "text", ".md": "text", ".markdown": "text", ".pdf": "pdf"}
SECONDS = 20
LETTERS = 60_000
"""Characters of a text that is returned."""


def parsed(name: str, data: bytes) -> tuple[int, str]:
    """`(200, text)`, or a status and why the document was refused."""
    kind = KINDS.get(PurePosixPath(name).suffix.lower())
    if kind is None:
        return 415, "Only .txt, .md and .pdf documents are read."
    if kind == "pdf" and find_spec("pypdf") is None:
        return 415, "PDF documents need the package pypdf on the server: pip install pypdf, or give the text."
    if not data.strip():
        return 422, "The document is empty."
    command = [sys.executable, "-m", "inweights.app._parse", kind]
    try:
        ended = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return 422, f"The document could not be read within {SECONDS} s."
    if ended.returncode != 0:
        return 422, "The document is damaged, or needs more memory or time than one may take."
    answer = json.loads(ended.stdout)
    if "error" in answer:
        return 422, str(answer["error"])
    text = str(answer["text"])
    return (200, text) if len(text) <= LETTERS else (413, f"The text has more than {LETTERS:,} characters.")
