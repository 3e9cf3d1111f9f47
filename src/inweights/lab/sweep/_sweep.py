"""The sweep itself: what is done is kept, the rest is given to an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from inweights._errors import InputError, unknown
from inweights._files import folder_for, write_atomic
from inweights.lab.sweep import _store as store
from inweights.lab.sweep._cell import Cell, Result
from inweights.lab.sweep._engine import Engine, Work
from inweights.lab.sweep._local import local
from inweights.lab.sweep._ray import ray

ENGINES: dict[str, Engine] = {"local": local, "ray": ray}


def sweep(
    cells: list[Cell],
    out: Path,
    *,
    engine: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    prompts: int = 1280,
    after: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """The results of the cells, in their order; `after` is told how many there are, whenever there is one more.

    Killed at any moment it can be called again: cells with a result are not trained again. Failed ones are. On CPUs of
    one kind the results are the same bit for bit, whatever the engine.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if address is not None and engine != "ray":
        raise InputError(f"--address is {address!r}, but only --engine ray connects to one.")
    folder_for("--out", out)
    found = {cell.key: done for cell in cells if (done := store.read(out, cell, prompts))}
    works = [Work(cell, store.folder_of(out, cell), prompts) for cell in cells if cell.key not in found]
    after(len(found))
    if works:
        with closing(ENGINES[engine](works, jobs, address)) as answers:
            for work, answer in answers:
                work.folder.mkdir(parents=True, exist_ok=True)
                for name, content in answer.files.items():
                    write_atomic(work.folder / name, content)
                if answer.result.status == "done":
                    store.write(out, work.cell, prompts, answer.result)
                found[work.cell.key] = answer.result
                after(len(found))
    return [found[cell.key] for cell in cells]
