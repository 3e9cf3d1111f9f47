"""`write_report`: one page of the files that commands left in a folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inweights import __version__
from inweights._errors import InputError, Problems
from inweights._files import require_writable, write_atomic, write_csv
from inweights._read import CACHE_LIMIT, read_json, read_text
from inweights.ledger import RESULTS
from inweights.report._page import page
from inweights.report._parts import Part
from inweights.report._run_claims import claims_part, results_part
from inweights.report._run_compare import compare_part
from inweights.report._run_fold import card_part, fold_part
from inweights.report._run_prompt import read_trace_table, trace_part, verify_part

PAGE = "report.html"
CARD = "inweights.json"
OWN = "report-"
"""The beginning of the names of tables that a report writes."""
Make = Callable[[str, dict[str, Any], str], Part]
KINDS: list[tuple[set[str], Make]] = [
    ({"max_abs_logit_error", "bare_max_abs_logit_error", "top1_match", "verdict"}, verify_part),
    ({"tokens", "layers", "norms", "totals"}, trace_part),
    ({"fidelity", "adapter"}, fold_part),
    ({"setting", "token_overlap", "curves", "verdicts"}, compare_part),
    ({"claims", "counts"}, claims_part),
]
"""By the keys of its JSON: the part that shows what a command printed."""
KNOWN = (
    "the JSON of verify, trace, fold, evaluate, compare or claims (`inweights verify … --json > DIR/verify.json`), the "
    "table of trace --out, the folder of fold --out or of compare --out, or the results.jsonl of claims run --out"
)


def write_report(folder: Path) -> tuple[Path, list[str]]:
    """Writes `report.html` into a folder with results of commands, and the tables of its figures beside it.

    Everything is read and checked before anything is written. Files that cannot be used are left out: the page comes
    with a sentence about each. If no file can be used, that is an error.
    """
    if not folder.is_dir():
        raise InputError(f"DIR is {str(folder)!r}, which is not a folder: name one that has {KNOWN}.")
    require_writable("DIR", folder)
    parts, left_out = _parts(folder)
    if not parts:
        problems = Problems()
        for sentence in left_out:
            problems.unless(False, sentence)
        problems.stop()
        raise InputError(f"There is nothing to report on in {str(folder)!r}: it needs {KNOWN}.")
    for name, (header, rows) in {n: t for part in parts for n, t in part.tables.items()}.items():
        write_csv(folder / name, header, rows)
    text = page(
        f"Report: {folder.resolve().name}",
        "Results of inweights: measured values with their controls. The data of each figure are beside this page.",
        [section for part in parts for section in part.sections],
        f"Made by inweights {__version__}, torch {version('torch')}.",
    )
    return write_atomic(folder / PAGE, text), left_out


def _parts(folder: Path) -> tuple[list[Part], list[str]]:
    """The parts of the files of a folder, and of the cards of adapters in it, in the order of `KINDS`; and a sentence
    about each file that cannot be read, or has values that do not match its keys."""
    left_out, parts, shown = list[str](), list[tuple[int, Part]](), set[str]()
    paths = [*sorted(folder.glob("*.json")), *sorted(folder.glob("*/" + CARD)), *sorted(folder.glob("*.csv"))]
    for path in paths:
        if path.suffix == ".csv" and (path.name.startswith(OWN) or path.stem in shown):
            continue  # ours, or the table of a trajectory that is shown already
        try:
            ordered = _part(path)
        except InputError as error:
            left_out.append(str(error))
            continue
        if ordered is not None:
            shown.add(path.stem)
            parts.append(ordered)
    if (folder / RESULTS).is_file():
        try:
            parts.append((len(KINDS), results_part(folder.resolve().name, folder)))
        except InputError as error:
            left_out.append(str(error))
    return [part for _, part in sorted(parts, key=lambda each: each[0])], left_out


def _part(path: Path) -> tuple[int, Part] | None:
    """The part of a report on one file, with its place among `KINDS`; None for a file of something else."""
    name = f"The file {str(path)!r}"
    if path.suffix == ".csv":
        with suppress(InputError):
            values = read_trace_table(read_text(path, "The file", limit=CACHE_LIMIT), name)
            return (1, trace_part(path.stem, values, name)) if values else None
        return None
    values = read_json(path, "The file", limit=CACHE_LIMIT)
    if path.name == CARD:
        return 2, card_part(path.resolve().parent.name, values, name)
    for place, (keys, make) in enumerate(KINDS):
        if keys <= values.keys():
            return place, make(path.stem, values, name)
    return None
