"""`sweep`: runs the cells that have no result yet by an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

from inweights._files import folder_for, locked
from inweights.engines import choose
from inweights.lab._own import Own
from inweights.lab.sweep import _store as store
from inweights.lab.sweep._cell import Cell, Result, Training


def sweep(
    cells: list[Cell],
    out: Path,
    *,
    engine: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    prompts: int = 1280,
    own: tuple[Own, ...] = (),
    after: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """The results of the cells, in order. `after` is called with the number of results after each new one. `own`: the
    user's own files, which are run first.

    A sweep that was killed can be resumed: cells with a result are not trained again, failed ones are. On CPUs of one
    kind results are the same bit for bit with any engine. Only one sweep at a time can run in a folder.
    """
    run = choose(engine, address)
    folder_for("--out", out)
    with locked(out):
        results = {cell.key: done for cell in cells if (done := store.read(out, cell, prompts))}
        missing = {cell.key: cell for cell in cells if cell.key not in results}
        works = [Training(cell, key, store.folder_of(out, cell), prompts, own) for key, cell in missing.items()]
        after(len(results))
        with closing(run(works, jobs, address)) if works else nullcontext(()) as answers:
            for key, result in answers:
                if result.status == "done":
                    store.write(out, missing[key], prompts, result)
                results[key] = result
                after(len(results))
    return [results[cell.key] for cell in cells]
