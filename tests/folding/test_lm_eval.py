"""A fold in lm-eval, by the command and the task that docs/serving.md shows: its scores are those of the folded model.

Skipped where lm-eval is not installed; the set-up leaves it out, as it brings 250 MB of packages.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from inweights.folding import make
from inweights.models import Model, load

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed: pip install -e '.[eval,peft]'"
)

GUIDE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text().split("\n## lm-eval\n")[1].split("\n## ")[0]
ROWS: list[dict[str, Any]] = [
    {"question": "The capital of France is", "choices": ["Paris", "Rome", "Oslo"], "answer": 0},
    {"question": "Two and two make", "choices": ["three", "four"], "answer": 1},
    {"question": "Water is", "choices": ["dry", "wet", "made of wood", "a bird"], "answer": 1},
    {"question": "The sun rises in the", "choices": ["west", "east"], "answer": 1},
]
BOTH = """
import json, sys
from lm_eval.__main__ import cli_evaluate

for line in json.loads(sys.argv[1]):
    sys.argv = line
    cli_evaluate()
"""
Scores = list[list[float]]


def shown(kind: str) -> str:
    """The one block of a kind that the guide shows; the commands' block has no kind."""
    (result,) = re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return result


def run(home: Path, base: str, adapter: Path) -> None:
    """The guide's command on the guide's task, and once more without `peft=`, into the folders `with` and `without`.

    In a process of its own, as its packages settle when they are imported whether they may ask the hub; one for both
    commands, as starting takes most of the time. Nothing listens at the proxy: what asks the network still, fails.
    """
    (home / "tasks").mkdir()
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    task = shown("yaml")
    assert "/full/path/to/rows.jsonl" in task
    (home / "tasks" / "mine.yaml").write_text(task.replace("/full/path/to/rows.jsonl", str(home / "rows.jsonl")))

    line = next(s for s in shown("").splitlines() if s.startswith("lm_eval "))
    lines = []
    for out, given in (("with", f"pretrained={base},peft={adapter} "), ("without", f"pretrained={base} ")):
        assert "pretrained=BASE,peft=ADAPTER " in line
        filled = line.replace("pretrained=BASE,peft=ADAPTER ", given)
        lines.append([*shlex.split(filled), "--log_samples", "--output_path", out])
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(home / "hf")}
    env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    command = [sys.executable, "-c", BOTH, json.dumps(lines)]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def logged(out: Path) -> tuple[Scores, float]:
    """The log-likelihoods of all choices, and the accuracy."""
    (samples,) = out.rglob("samples_mine_*.jsonl")
    (results,) = out.rglob("results_*.json")
    rows = sorted(map(json.loads, samples.read_text().splitlines()), key=lambda row: row["doc_id"])
    assert [row["doc"] for row in rows] == ROWS
    scores = [[float(score) for ((score, _),) in row["resps"]] for row in rows]
    return scores, json.loads(results.read_text())["results"]["mine"]["acc,none"]


def ours(of: Model) -> Scores:
    """The log-likelihood of each choice after its question, by one plain forward pass for each."""
    net: Any = of.model

    def score(question: str, choice: str) -> float:
        before, output = (
            of.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (question, " " + choice)
        )
        with torch.no_grad():
            logp = net(input_ids=torch.tensor([before + output])).logits[0, len(before) - 1 : -1].log_softmax(-1)
        return float(logp.gather(1, torch.tensor(output)[:, None]).sum())

    return [[score(row["question"], choice) for choice in row["choices"]] for row in ROWS]


def accuracy(scores: Scores) -> float:
    return sum(s.index(max(s)) == row["answer"] for s, row in zip(scores, ROWS, strict=True)) / len(ROWS)


def apart(these: Scores, those: Scores) -> list[float]:
    return [abs(p - q) for a, b in zip(these, those, strict=True) for p, q in zip(a, b, strict=True)]


def test_lm_eval_scores_the_adapter_as_the_folded_model(folder: str, tmp_path: Path) -> None:
    """float32, log-likelihoods of -26 to -82: equal to 1e-4, where the fold moves them by 0.4 on average."""
    of = load(folder)
    assert of.model.dtype == torch.float32
    made = make(of, "Speak like a pirate.", calibration=8, new=6, report=False).fold
    run(tmp_path, folder, made.save_pretrained(tmp_path / "adapter", of))

    bare = ours(of)
    with made.applied(of):
        folded = ours(of)
    with_it, right = logged(tmp_path / "with")
    without, right_bare = logged(tmp_path / "without")
    assert max(apart(with_it, folded)) < 1e-4
    assert max(apart(without, bare)) < 1e-4
    assert statistics.mean(apart(with_it, without)) > 0.1, "without `peft=` the scores must be others"
    assert (right, right_bare) == (accuracy(folded), accuracy(bare))
