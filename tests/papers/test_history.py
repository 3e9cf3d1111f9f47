"""What the history of commits has: claims were registered before they were run, and the register only grows.

The history is that of git, so that these tests are skipped in a copy without it; those of the functions are not.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from inweights.ledger import Entry, Registered, Verdict, facts, registered, registration
from inweights.papers import load_all, recorded

FOLDER = Path(__file__).parents[2] / "docs" / "registration"
Git = Callable[..., str]


@pytest.fixture(scope="module")
def commits() -> ModuleType:
    spec = spec_from_file_location("commits", FOLDER / "commits.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def whole(commits: ModuleType) -> ModuleType:
    """The module, if the whole history is here."""
    try:
        shallow = commits.git("rev-parse", "--is-shallow-repository").strip()
        commits.git("ls-files", "--error-unmatch", "commits.py")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no history of commits here")
    if shallow == "true":
        pytest.skip("only a part of the history is here")
    return commits


def test_no_result_is_of_a_commit_where_its_claim_was_not_registered(whole: ModuleType) -> None:
    """Some are of commits from before there was a register; the page of changes counts them."""
    states = {id: [state for _, state in runs] for id, runs in whole.runs().items()}
    assert [id for id, own in states.items() if "not" in own] == []
    assert sum("registered" in own for own in states.values()) > 100
    stated = json.loads((FOLDER / "commits.json").read_text(encoding="utf-8"))
    wanted = {id: [list(run) for run in runs] for id, runs in whole.runs().items()}
    assert {id: stated[id]["run"] for id in wanted} == wanted, "run docs/registration/commits.py"


def test_every_line_of_the_register_that_is_gone_is_stated(whole: ModuleType) -> None:
    stated = [json.loads(line) for line in (FOLDER / "rewritten.jsonl").read_text(encoding="utf-8").splitlines()]
    assert whole.rewritten() == stated, "run docs/registration/commits.py"
    last = whole.entries(whole.git("cat-file", "blob", f"HEAD:{whole.REGISTER}"))
    now = whole.entries((FOLDER / "registered.jsonl").read_text(encoding="utf-8"))
    assert whole.lost(last, now) == [], "the register only grows: append an entry"


def test_results_are_of_the_claims_as_registered() -> None:
    """Each was made under a hash that the register has; a control: a hash that it has not."""
    known = {(e.claim, digest(e.parts)) for e in registered(FOLDER)}
    made = {(e.id, e.registered) for e in recorded().values() if e.verdict is not Verdict.NOT_RUN}
    assert made - known == set()
    assert ("dherin-theorem", "0" * 16) not in known
    claim = load_all()["dherin-theorem"]
    assert (claim.id, registration(claim)) in known


def outdated(entry: Entry, history: Sequence[Registered]) -> bool:
    """Whether the claim was changed after the registration of a result, and not only in words or in form."""
    hashes = [digest(each.parts) for each in history]
    last = len(hashes) - 1 - hashes[::-1].index(entry.registered)
    return any(each.kind == "change" for each in history[last + 1 :])


def test_a_result_of_an_earlier_registration_is_named() -> None:
    """A decided claim that was changed since is to be run again, and its page says so; a change in words is none."""
    history: dict[str, list[Registered]] = {}
    for each in registered(FOLDER):
        history.setdefault(each.claim, []).append(each)
    decided = [e for e in recorded().values() if e.verdict not in (Verdict.NOT_RUN, Verdict.INCONCLUSIVE)]
    assert [e.id for e in decided if outdated(e, history[e.id]) and not facts()[e.id].pending] == []
    for entry in decided:
        text = (FOLDER.parent / "ledger" / f"{entry.id}.html").read_text(encoding="utf-8")
        stated = "The result is of the registration before" in text
        assert stated == (entry.registered != registration(entry.claim)), entry.id
    entry = next(e for e in decided if e.id == "dherin-theorem")
    now = history[entry.id][-1]
    other = {"parts": {"program": "0"}}
    assert not outdated(entry, [now, now.model_copy(update={"kind": "wording", **other})])
    assert outdated(entry, [now, now.model_copy(update={"kind": "change", **other})])


def digest(parts: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@pytest.fixture
def small(tmp_path: Path, commits: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Git:
    """A repository of its own, with a function that commits a text as its register."""
    path = tmp_path / commits.REGISTER
    path.parent.mkdir(parents=True)

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], capture_output=True, text=True, check=True
        ).stdout

    git("init", "-q")
    monkeypatch.setattr(commits, "git", git)
    commits.register_at.cache_clear()

    def commit(*made: dict[str, object]) -> str:
        path.write_text("".join(f"{json.dumps(each)}\n" for each in made))
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", "x")
        return git("rev-parse", "HEAD").strip()

    return commit


def test_a_register_that_was_changed_is_noticed(small: Git, commits: ModuleType) -> None:
    """A line that is added is no loss; one that is changed or removed is, with what differs. A result is of a commit
    where its claim was registered by its hash, by another one, or of no commit at all."""
    one = {"claim": "a", "kind": "first", "parts": {"program": "1"}}
    two = {"claim": "b", "kind": "first", "parts": {"program": "2"}, "seen": "nothing"}
    small(one)
    second = small(one, two)
    assert commits.rewritten() == []
    changed = small(one, two | {"seen": "a number"})
    small(two | {"seen": "a number"})
    found = commits.rewritten()
    assert (found[0]["commit"], found[0]["claim"], found[0]["differs"]) == (changed[:12], "b", ["seen"])
    assert [(f["claim"], f["differs"]) for f in found[1:]] == [("a", [])]
    right = digest({"program": "2"})
    assert commits.run_at(second, "b", right) == "registered"
    assert commits.run_at(second, "b", digest({"program": "3"})) == "not"
    assert commits.run_at("0" * 12, "b", right) == "unknown"
