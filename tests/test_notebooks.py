"""The notebooks of docs/notebooks run from top to bottom, at small size, and show what they promise.

Cells run in this process, which has loaded torch already; a Jupyter kernel for each would take seconds. The cell with
the tag `parameters` is replaced, as papermill does.
"""

from __future__ import annotations

import ast
import json
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
import pytest
from talking import talker

from inweights.ledger import CLAIMS

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = tmp_path_factory.mktemp("tiny")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return str(where)


def cells(name: str) -> list[dict[str, Any]]:
    return [c for c in json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"] if c["cell_type"] == "code"]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """`notebook(name, **parameters)`: the value of the last expression of each cell, as a kernel would display it."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mpl.use("agg")
    module = ModuleType("notebook_under_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    before = set(CLAIMS)

    def run(name: str, **parameters: Any) -> list[Any]:
        shown = []
        for number, cell in enumerate(cells(name)):
            source = "".join(cell["source"])
            if "parameters" in cell["metadata"].get("tags", ()):
                declared = {t.id for s in ast.parse(source).body for t in getattr(s, "targets", ())}  # type: ignore[attr-defined]
                assert declared >= parameters.keys()
                exec(source, module.__dict__)
                module.__dict__.update(parameters)
                continue
            file = f"<{name} {number}>"
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            body = ast.parse(source, file).body
            last = body.pop() if isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
            exec(compile(ast.Module(body, []), file, "exec"), module.__dict__)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), file, "eval"), module.__dict__))
        return shown

    yield run
    for id in set(CLAIMS) - before:
        del CLAIMS[id]


def drawn(value: Any) -> str:
    """The HTML that a kernel would display; it has a figure."""
    html = str(value._repr_html_())
    assert "<svg" in html
    return html


def test_the_theorem(notebook: Any, tiny: str) -> None:
    tensors, block, proof, trajectory, texts = notebook("theorem", MODEL=tiny)
    assert tensors["difference"] < 1e-12 < 0.1 < tensors["without the update (control)"]
    assert tensors["rank"] == 1
    assert block["patched"] < 1e-10 < 0.1 < block["bare (control)"]
    assert proof.verdict == "PASS"
    assert "PASS" in drawn(proof)
    assert "context token" in drawn(trajectory)
    assert texts["patched"] == texts["prompted"] != texts["bare"]


def test_a_document_folded(notebook: Any, tiny: str) -> None:
    fold, report, files, served, answer = notebook(
        "folded", MODEL=tiny, CALIBRATION=[f"What is {i}?" for i in range(8)]
    )
    assert "adapter_model.safetensors" in files
    assert served["PEFT against the fold"] < 1e-4 < 1e-2 < served["base against the fold (control)"]
    assert isinstance(answer, str)
    assert report.verdict in drawn(report)
    assert "mlp.down_proj" in drawn(fold)


def test_a_claim_of_ones_own(notebook: Any) -> None:
    entry, stored = notebook("claim", QUICK=True)
    assert entry.verdict == stored["verdict"] == "PASS"
    assert entry.quantities["difference"].control.value > 1e-2
    assert "mine-order" in drawn(entry)
    assert len(entry.plot()) == 1


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_stored_output_is_that_of_a_whole_run(path: Path) -> None:
    counts = [c["execution_count"] for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not [o for c in cells(path.stem) for o in c["outputs"] if o["output_type"] == "error"]
