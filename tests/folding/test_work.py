"""An interrupted fold resumes from what it kept, and ends as one that was not interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from talking import talker

from inweights import InputError
from inweights.folding import Frame, Steps, answered, made_up, make
from inweights.folding import _work as work_module
from inweights.folding._lora import Lora
from inweights.folding._match import fit
from inweights.folding._teacher import prompted
from inweights.folding._work import State, Work

PROMPT = "Speak like a pirate."


def test_a_stage_is_computed_once(tmp_path: Path) -> None:
    first = Work(tmp_path / "work", {"seed": 0})
    assert first.stage("numbers", tuple[int, ...], lambda: (1, 2)) == (1, 2)
    again = Work(tmp_path / "work", {"seed": 0})
    assert again.stage("numbers", tuple[int, ...], lambda: (3,)) == (1, 2)
    assert (first.resumed, again.resumed) == (False, True)
    assert Work(None, {}).stage("numbers", tuple[int, ...], lambda: (3,)) == (3,)


def test_work_of_another_setting_or_a_damaged_file_is_refused(tmp_path: Path) -> None:
    Work(tmp_path, {"seed": 0})
    with pytest.raises(InputError, match="unfinished fold of another prompt"):
        Work(tmp_path, {"seed": 1})
    work = Work(tmp_path, {"seed": 0})
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        work.stage("study", tuple[int, ...], lambda: (1,))
    (tmp_path / "facts.safetensors").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        work.state("facts").read()


def test_an_interrupted_fit_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """float32, two cores or more: the same operations, so the same bits; another seed gives others."""
    monkeypatch.setattr(work_module, "EVERY", 0.0)
    model = talker()
    frame = Frame.of(model, PROMPT)
    examples = answered(frame, made_up(frame, 12, 0, new=4), 0, new=6)
    teacher = prompted(model, examples, blocks=True)
    steps = Steps(count=40, rate=3e-3, batch=4)

    def fitted(state: State | None, stop: int = 0, seed: int = 0) -> list[torch.Tensor]:
        def after(k: int) -> None:
            if k == stop:
                raise KeyboardInterrupt

        lora = Lora(model, 4)
        fit(model, examples, teacher, lora, steps, seed=seed, state=state, after=after)
        return lora.parameters

    whole, other = fitted(None), fitted(None, seed=1)
    with pytest.raises(KeyboardInterrupt):
        fitted(State(tmp_path / "s.safetensors"), stop=21)
    resumed = fitted(State(tmp_path / "s.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(whole, other, strict=True))
    ended = fitted(State(tmp_path / "s.safetensors"), stop=1)  # no step is left
    assert all(torch.equal(a, b) for a, b in zip(whole, ended, strict=True))


def test_an_interrupted_fold_asks_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_module, "EVERY", 0.0)
    model, seen = talker(), list[str]()

    def run(folder: Path | None, stop: bool) -> dict[str, torch.Tensor]:
        def after(stage: str, done: int, total: int) -> None:
            seen.append(stage)
            if stop and stage == "fitting the adapter" and done == 20:
                raise KeyboardInterrupt

        made = make(model, PROMPT, calibration=12, report=False, new=6, folder=folder, after=after)
        return {name: update.u for name, update in made.fold.updates.items()}

    whole = run(None, stop=False)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "w", stop=True)
    seen.clear()
    resumed = run(tmp_path / "w", stop=False)
    assert set(seen) == {"fitting the adapter"}
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    with pytest.raises(InputError, match="unfinished"):
        make(model, "Speak French.", calibration=12, report=False, new=6, folder=tmp_path / "w")
