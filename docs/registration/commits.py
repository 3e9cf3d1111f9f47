"""What had been seen before which criterion, from the history of commits: `python docs/registration/commits.py` in a
full clone writes `commits.json` and `rewritten.jsonl`.

For each claim: the commit and the date at which its criterion was first committed; the same of its first recorded
result; each commit that changed the criterion, with whether a result had been recorded in its history by then; and the
commit with which the result in the record was computed, with whether the claim was registered there as it is judged.

`registered.jsonl` should only grow. `rewritten.jsonl` lists each of its lines that a later commit changed or removed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Values = dict[str, Any]


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True, check=True).stdout


@cache
def content(blob: str, results: bool) -> Values:
    """Of a file of criteria, those of each claim; of a record, the verdict of each claim that was run."""
    text = git("cat-file", "blob", blob)
    if not results:
        return {id: value for id, value in tomllib.loads(text).items() if isinstance(value, dict)}
    entries = [json.loads(line) for line in text.splitlines()]
    return {e["id"]: e["verdict"] for e in entries if e["verdict"] != "NOT-RUN"}


def state(commit: str) -> tuple[Values, Values]:
    """The criteria and the recorded verdicts at a commit."""
    criteria: Values = {}
    verdicts: Values = {}
    for line in git("ls-tree", "-r", "--full-tree", commit, "--", "src/inweights").splitlines():
        (_, _, blob), path = line.split("\t")[0].split(), line.split("\t")[1]
        if path.endswith("/criteria.toml"):
            criteria |= content(blob, False)
        elif path.endswith("/recorded.jsonl"):
            verdicts |= content(blob, True)
    return criteria, verdicts


def history() -> dict[str, Values]:
    """The entries of `commits.json`. What a merge brings together is no change: it differs from no parent's."""
    states: dict[str, tuple[Values, Values]] = {}
    before: dict[str, set[str]] = {}  # claims with a recorded result in the history of a commit
    found: dict[str, Values] = {}
    for line in git("log", "--topo-order", "--reverse", "--date=short", "--format=%H %ad %P", "HEAD").splitlines():
        commit, date, *parents = line.split()
        criteria, verdicts = states[commit] = state(commit)
        before[commit] = set().union(*(before[p] for p in parents))
        for id, value in criteria.items():
            own = found.setdefault(id, {"criterion": [commit[:12], date], "result": None, "changed": []})
            then = [states[p][0][id] for p in parents if id in states[p][0]]
            if then and value not in then:
                own["changed"].append({"commit": commit[:12], "date": date, "after_a_result": id in before[commit]})
        for id in verdicts.keys() & found.keys():
            if found[id]["result"] is None:
                found[id]["result"] = [commit[:12], date]
        before[commit] |= verdicts.keys()
    ran = runs()
    return {id: found[id] | {"run": ran.get(id, [])} for id in sorted(found)}


REGISTER, RECORD = "docs/registration/registered.jsonl", "src/inweights/papers/recorded.jsonl"


def run_at(commit: str, claim: str, registration: str) -> str:
    """Whether a claim was registered by this hash at the commit with which its result was computed: `registered`;
    `before` there was a register; `unknown`, if the history has no such commit; `not`."""
    try:
        known = register_at(commit)
    except subprocess.CalledProcessError:
        return "unknown"
    return "before" if known is None else "registered" if (claim, registration) in known else "not"


@cache
def register_at(commit: str) -> set[tuple[str, str]] | None:
    """The claims registered at a commit, each with the hash of its parts; None before there was a register."""
    if not git("ls-tree", "--full-tree", commit, "--", REGISTER):
        return None
    known = entries(git("cat-file", "blob", f"{commit}:{REGISTER}"))
    return {(e["claim"], hashlib.sha256(json.dumps(e["parts"]).encode()).hexdigest()[:16]) for e in known}


def runs() -> dict[str, list[list[str]]]:
    """For each claim with a result in the record: the commits of its trials, and whether it was registered there."""
    results = entries((HERE.parents[1] / RECORD).read_text())
    return {
        e["id"]: [[m["commit"], run_at(m["commit"].rstrip("+"), e["id"], e["registered"])] for m in e["made_with"]]
        for e in results
        if e["verdict"] != "NOT-RUN"
    }


def entries(text: str) -> list[Values]:
    return [json.loads(line) for line in text.splitlines()]


def lost(old: list[Values], new: list[Values]) -> list[Values]:
    """Each registration of a file that its next version lacks: the claim, and the fields that differ in the entry of
    the same claim and kind that took its place; none if nothing did."""
    found = []
    for entry in (e for e in old if e not in new):
        own = [e for e in new if e not in old and (e["claim"], e["kind"]) == (entry["claim"], entry["kind"])]
        fields = [k for k in entry | own[-1] if entry.get(k) != own[-1].get(k)] if own else []
        found.append({"claim": entry["claim"], "kind": entry["kind"], "differs": fields})
    return found


def rewritten() -> list[Values]:
    """The entries of `rewritten.jsonl`, oldest first; in a merge, what differs from either parent."""
    found: list[Values] = []
    how = ("--topo-order", "--reverse", "--full-history", "--date=short", "--format=%H %ad %P")
    log = git("log", *how, "--", f":/{REGISTER}")
    for commit, date, *parents in map(str.split, log.splitlines()):
        new = entries(git("cat-file", "blob", f"{commit}:{REGISTER}"))
        for parent in parents:
            if git("ls-tree", "--full-tree", parent, "--", REGISTER):
                gone = lost(entries(git("cat-file", "blob", f"{parent}:{REGISTER}")), new)
                found += [{"commit": commit[:12], "date": date, **each} for each in gone]
    return found


if __name__ == "__main__":
    lines = (f" {json.dumps(id)}: {json.dumps(value)}" for id, value in history().items())
    (HERE / "commits.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    (HERE / "rewritten.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rewritten()))
