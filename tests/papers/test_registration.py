"""The claims are as they were registered, and a sabotaged control would be noticed."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import inweights
from inweights.ledger import Trial, _code, registered, unregistered
from inweights.ledger._package import Package
from inweights.ledger._reach import Reach
from inweights.papers import load_all

REGISTRATION = Path(__file__).parents[2] / "docs" / "registration"


def test_every_claim_is_as_it_was_registered() -> None:
    """A change needs an entry in docs/registration, by `inweights.ledger.register`, before the claim is run."""
    load_all()
    assert unregistered(REGISTRATION) == {}


def test_every_change_says_why_and_what_had_been_seen() -> None:
    """Also those from before claims were registered by hash."""
    before = tomllib.loads((REGISTRATION / "changes.toml").read_text())["change"]
    assert len(before) > 100
    assert all(change[part] for change in before for part in ("claim", "date", "was", "now", "reason", "seen"))
    changes = [entry for entry in registered(REGISTRATION) if entry.kind == "change"]
    assert all((e.old, e.was, e.now, e.reason, e.seen, e.seeds) for e in changes)
    assert set(load_all()) == {entry.claim for entry in registered(REGISTRATION)}


def test_a_sabotaged_control_has_another_hash(tmp_path: Path) -> None:
    """In a copy of the package, the control of a real claim is made the value itself; its program is no longer that
    which was registered. A renamed local variable alone changes nothing."""
    home = tmp_path / "inweights"
    shutil.copytree(
        Path(inweights.__file__).parent, home, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors")
    )
    claim = load_all()["dherin-theorem"]
    (last,) = (e.parts["program"] for e in registered(REGISTRATION) if e.claim == claim.id)

    def program() -> str:
        reach = Reach(Package(home, _code._place(Trial)))
        return _code._hash(reach.of(_code._place(claim.measure), _code._place(Trial)).ledger)

    assert program() == last
    file = home / "papers" / "learning_without_training" / "claims.py"
    text = file.read_text()
    file.write_text(text.replace("errors, controls", "misses, others").replace("errors.", "misses."))
    file.write_text(file.read_text().replace("controls.", "others.").replace("(errors)", "(misses)"))
    file.write_text(file.read_text().replace("(controls)", "(others)"))
    assert program() == last
    honest = "controls.append(each(changes.random_like(trial.seed).run(block, context, query, keep=keep), prompted))"
    assert text.count(honest) == 2  # of this claim, and of dherin-other-layers
    file.write_text(text.replace(honest, honest.replace(".random_like(trial.seed)", ""), 1))
    assert program() != last
