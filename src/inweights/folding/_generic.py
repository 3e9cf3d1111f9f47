"""Generic queries: queries that are not about the context, to fold its style and to measure on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from inweights._errors import InputError
from inweights.folding._calibrate import made_up, questions, read_queries
from inweights.folding._fidelity import ENOUGH
from inweights.folding._frame import Frame
from inweights.folding._lessons import FEW, LEAST, only_facts
from inweights.folding._study import Study

Generic = tuple[list[str], dict[str, list[str]], str]
"""The queries that are not about the context, those to measure on by the name of their set, and where the former
come from."""
Calibration = int | str | Path | Sequence[str]
After = Callable[[str, int, int], None]


def generic_queries(
    frame: Frame, calibration: Calibration | None, studied: Study, seed: int, held_out: int, new: int, after: After
) -> Generic:
    """The queries that are not about the context, those to measure on, and where the former come from.

    A context that only states facts needs few of them; of one that the model cannot read whole there are none.
    """
    longest = len(frame.before) + len(frame.folded) + 64 + new
    if longest > frame.model.window and len(studied.asked) >= LEAST:
        return [], {}, "none: the context is longer than the model's window"
    if calibration is None and only_facts(studied):
        calibration = FEW["cuda" if frame.model.device.type == "cuda" else "cpu"]
    return _queries(frame, calibration, seed, held_out, after)


def _queries(frame: Frame, calibration: Calibration | None, seed: int, held_out: int, after: After) -> Generic:
    """The queries to calibrate on, those to measure on (by the name of their set), and where the former come from."""
    if calibration is None:
        calibration = 1024 if frame.model.device.type == "cuda" else 128
    by_hand = questions()[:: max(1, len(questions()) // held_out)][:held_out] if held_out and frame.chat else ()
    if isinstance(calibration, int):
        if calibration < 1:
            raise InputError(f"`calibration` is {calibration}, but must be at least 1 query.")
        after("queries", 0, calibration)
        asked = made_up(frame, calibration + held_out // 3, seed)
        sets: dict[str, list[str]] = {"hand-written questions": list(by_hand), "made-up questions": asked[calibration:]}
        return asked[:calibration], {k: v for k, v in sets.items() if v}, "made up by the bare model"
    if isinstance(calibration, str | Path):
        given, source = [q for q, _ in read_queries(Path(calibration))], f"file {Path(calibration).name}"
    else:
        given, source = list(calibration), "given"
    given = list(dict.fromkeys(given))
    apart = given[::5][:held_out] if len(given) >= 5 else []
    asked = [q for q in given if q not in set(apart)]
    own: tuple[str, list[str]] = ("queries held out", apart)
    hand: tuple[str, list[str]] = ("hand-written questions", [q for q in by_hand if q not in set(given)])
    order = (own, hand) if len(apart) >= ENOUGH else (hand, own)
    return asked, {name: some for name, some in order if some}, source
