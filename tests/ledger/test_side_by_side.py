"""Trials in parallel give the same results as trials in sequence, bit for bit, and cache them for the caller."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import inweights
from inweights import InputError
from inweights.engines import Engine, Work, _local, no_beat
from inweights.engines._choose import ENGINES
from inweights.engines._work import attempt
from inweights.ledger import Entry, Trial, Verdict, criteria, run_claims
from inweights.ledger._cache import Kept
from inweights.ledger._run import Job, Results, do, one_by_one
from inweights.ledger._side_by_side import Measuring, accepted, longest_first, side_by_side
from inweights.papers import load_all

# Claims of the package: one that is entered here would not be known in a worker.
IDS = ("dherin-theorem", "dherin-rank-one")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As workers have, so that the sums are the same."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def entries(results: Results, ids: Sequence[str] = IDS, **more: Any) -> dict[str, Entry]:
    """By claim, without the time that they took."""
    known = load_all()
    return {e.id: replace(e, seconds=0.0) for e in run_claims([known[id] for id in ids], results=results, **more)}


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    """The results of the plain loop; the cache is empty again."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "plain"))
    found = entries(side_by_side("local", 1, None))
    assert [e.verdict for e in found.values()] == [Verdict.PASS] * 2
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    return found


def kept(tmp_path: Path, where: str) -> set[str]:
    return {p.name for p in (tmp_path / where / "claims").iterdir()}


def test_two_processes_find_what_one_finds(
    plain: dict[str, Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = side_by_side("local", 2, None)
    assert entries(two) == plain
    assert kept(tmp_path, "cache") == kept(tmp_path, "plain")

    def no_more(*_: object) -> None:
        raise AssertionError("nothing is left to do")

    monkeypatch.setattr(_local, "Worker", no_more)
    assert entries(two) == plain


def test_a_cluster_finds_what_one_process_finds(
    plain: dict[str, Entry], cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes that die, and work that does, are in tests/engines/test_ray.py."""
    seen: list[str] = []

    def after(job: Job, kept: Kept) -> None:
        seen.append(job.name)

    found = entries(side_by_side("ray", None, cluster.address), IDS[1:], after=after)
    assert capsys.readouterr().out == ""
    assert len(seen) == len(set(seen)) == 3
    assert found == {IDS[1]: plain[IDS[1]]}
    assert len(kept(tmp_path, "cache")) == 3
    assert kept(tmp_path, "cache") < kept(tmp_path, "plain")


def test_work_without_an_answer_is_a_broken_trial(tmp_path: Path) -> None:
    job = Job("nonsense", Trial(0))
    found = accepted(attempt(Measuring(job, tmp_path), tmp_path, no_beat), job)
    assert (found.outcome, found.message) == ("broken", "There is no claim 'nonsense'.")


WORKER = """
import pickle, sys
from pathlib import Path
from inweights.engines import no_beat
from inweights.engines._work import attempt
answers = [(w.key, attempt(w, Path(sys.argv[1]), no_beat)) for w in pickle.load(sys.stdin.buffer)]
sys.stdout.buffer.write(pickle.dumps(answers))
"""


def elsewhere(package: Path, folder: Path) -> Engine:
    """An engine with a worker process that uses the package of another folder."""

    def engine(works: Sequence[Work[Any]], jobs: int | None, address: str | None) -> Generator[tuple[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-c", WORKER, str(folder)], input=pickle.dumps(works), stdout=subprocess.PIPE, check=True,
            env=os.environ | {"PYTHONPATH": str(package)},
        )  # fmt: skip
        yield from pickle.loads(done.stdout)

    return engine


@pytest.mark.parametrize("changed", ["blocks/_block.py", "ledger/_intervals.py"])
def test_answers_of_other_code_are_refused(changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real worker with a copy of the package, in which one file was changed. The judging code affects no numbers."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    home = Path(inweights.__file__).parent
    left = shutil.ignore_patterns("__pycache__", "*.safetensors")
    shutil.copytree(home, tmp_path / "node" / "inweights", ignore=left)
    file = tmp_path / "node" / "inweights" / changed
    text = file.read_text()
    first = re.search(r"def \w+\((\w+)[^,)]*, ", text)  # a parameter that is given by position alone changes nothing
    assert first
    file.write_text(text[: first.end()] + "/, " + text[first.end() :])
    (tmp_path / "left").mkdir()
    monkeypatch.setitem(ENGINES, "ray", elsewhere(tmp_path / "node", tmp_path / "left"))
    (found,) = run_claims([load_all()[IDS[1]]], results=side_by_side("ray", None, None))
    assert len(list((tmp_path / "left").iterdir())) == 3  # it has worked
    if changed == "ledger/_intervals.py":
        assert (found.verdict, found.why) == (Verdict.PASS, "")
    else:
        assert (found.verdict, found.broken, found.trials) == (Verdict.NOT_RUN, True, 0)
        assert found.why.startswith("The answer of a worker with other code was refused")


def test_answers_without_a_hash_are_refused(tmp_path: Path) -> None:
    """As from nodes with a version before the hash was added."""
    job = Job.of(load_all()[IDS[1]], Trial(0))
    bare = do(job, tmp_path)
    assert bare.outcome == "found"
    assert accepted(bare, job).outcome == "broken"  # type: ignore[arg-type]


def test_a_trial_stops_when_its_caller_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))

    def nobody_is_left() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        Trial(999, quick=False, train=True, beat=nobody_is_left).trained("linear-5")


def test_long_trials_are_given_out_first(tmp_path: Path) -> None:
    """And trials of one claim stay in their order."""
    known = load_all()
    works = [Measuring(Job(id, Trial(seed)), tmp_path) for id in known for seed in (0, 1)]
    costs = [known[w.job.id].cost[0] / min(3, criteria()[w.job.id].seeds) for w in longest_first(works)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]
    first, second = longest_first(works)[:2]
    assert (first.job.id, first.job.trial.seed, second.job.trial.seed) == (second.job.id, 0, 1)


def test_one_process_is_this_one() -> None:
    assert side_by_side("local", None, None) is side_by_side("local", 1, None) is one_by_one


@pytest.mark.parametrize(
    ("engine", "address", "device", "said"),
    [
        ("rai", None, "cpu", "There is no engine 'rai'; did you mean ray"),
        ("local", "auto", "cpu", "only --engine ray connects to one"),
        ("ray", None, "cuda", "--engine ray runs trials on CPUs"),
    ],
)
def test_bad_input_is_one_sentence(engine: str, address: str | None, device: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(side_by_side(engine, 2, address)([Job(IDS[0], Trial(0, device=device))]))
