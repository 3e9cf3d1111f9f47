"""What had been seen before which criterion, from the history of commits: `python docs/registration/commits.py` in a
full clone writes `commits.json`.

For each claim: the commit and the date at which its criterion was first committed; the same of its first recorded
result; and each commit that changed the criterion, with whether a result had been recorded in its history by then.
"""

from __future__ import annotations

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
    return {id: found[id] for id in sorted(found)}


if __name__ == "__main__":
    lines = (f" {json.dumps(id)}: {json.dumps(value)}" for id, value in history().items())
    (HERE / "commits.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
