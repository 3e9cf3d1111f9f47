"""The process that reads one document, from standard input to JSON on standard output, within fixed limits."""

from __future__ import annotations

import io
import json
import sys
import unicodedata

MEMORY, PROCESSOR = 1 << 30, 10
PAGES = 200


def limit() -> None:
    """So much memory and time of the processor, no new files, no new processes: whatever the document does."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def plain(text: str) -> str:
    """Text without characters that control a terminal or turn the direction of what follows."""
    kept = (c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))
    return "".join(kept)


def read(kind: str, data: bytes) -> str:
    """The text of a document."""
    if kind == "text":
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    from pypdf import PdfReader

    pages = PdfReader(io.BytesIO(data), strict=False).pages
    if len(pages) > PAGES:
        raise ValueError(f"The document has more than {PAGES} pages.")
    return "\n\n".join(page.extract_text() for page in pages)


if __name__ == "__main__":
    limit()
    try:
        answer = {"text": plain(read(sys.argv[1], sys.stdin.buffer.read())).strip()}
        if not answer["text"]:
            answer = {"error": "The document has no text."}
    except UnicodeDecodeError:
        answer = {"error": "The document is not UTF-8 text."}
    except Exception as error:
        answer = {"error": f"The document could not be read ({type(error).__name__})."}
    sys.stdout.write(json.dumps(answer))
