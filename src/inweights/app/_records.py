"""Records that need no computation: the ledger, and recorded comparisons."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inweights import __version__
from inweights import _compared as compared
from inweights._errors import InputError
from inweights._files import write_atomic
from inweights._read import read_json
from inweights.app._settings import ServerSettings

PAPERS = Path(__file__).parents[1] / "papers"
RECORDED = Path(__file__).parent / "recorded"
LIMIT = 8 * 1024 * 1024


class Records:
    """Records as JSON. The ledger is read by a process of its own once: it loads every paper, and torch with them."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self._ledger, self._lock = settings, b"", threading.Lock()

    def ledger(self) -> bytes:
        """All claims, as `_ledger.listed` gives them."""
        with self._lock:
            path = self.settings.root / f"ledger-{fingerprint()}.json"
            if not self._ledger and path.is_file():
                self._ledger = path.read_bytes()
            if not self._ledger:
                command = [sys.executable, "-m", "inweights.app._ledger"]
                self._ledger = subprocess.run(command, capture_output=True, check=True).stdout
                write_atomic(path, self._ledger)
            return self._ledger

    def comparisons(self) -> list[dict[str, Any]]:
        """Comparisons of in-context learning and gradient descent: recorded ones, and those of the given folder."""
        folders = [RECORDED, *([self.settings.compare] if self.settings.compare else [])]
        results = []
        for path in (p for folder in folders for p in sorted(folder.glob("compare-*.json"))):
            try:
                value = read_json(path, "The comparison", limit=LIMIT)
            except InputError:
                continue
            if isinstance(value, dict) and "verdicts" in value:
                with suppress(AttributeError, KeyError, TypeError, ValueError):  # not what the command wrote
                    name = path.stem.removeprefix("compare-")
                    results.append({"name": name, "comparison": value, "shown": shown(value)})
        return results


def shown(record: dict[str, Any]) -> dict[str, Any]:
    """What the page draws of a comparison: the same tables as in a report."""
    return {
        "measures": {measure: heading for measure, (heading, _) in compared.MEASURES.items()},
        "along": compared.ALONG,
        "about": compared.ABOUT,
        "hypotheses": compared.HYPOTHESES,
        "setting": compared.setting(record),
        "sides": compared.sides(record),
        "measured": asdict(compared.measured(record)),
        "further": [asdict(table) for table in compared.further(record)],
        "orders": compared.orders_note(record),
    }


def fingerprint() -> str:
    """What the ledger is read from: its record and the files that state facts and criteria."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(PAPERS.rglob("*.toml")) + sorted(PAPERS.glob("*.jsonl")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
