"""fold, evaluate, combine, export and generate, as the command line does them; on a tiny model of random weights."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inweights.bench._suite import CHAT, DEVELOPMENT, PAST, capitals, past_tense, suite
from inweights.cli import main

CONTEXT = "Speak like a pirate."
Run = Callable[..., dict]


@pytest.fixture
def inweights(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process: what it printed as JSON; or, for bad input, the one sentence."""

    def run(*args: str | Path, code: int = 0) -> dict | str:
        monkeypatch.setattr(sys, "argv", ["inweights", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        ended = capsys.readouterr()
        assert (end.value.code or 0) == code, ended.err
        if code == 2:
            assert ended.out == ""
            assert "Traceback" not in ended.err
            return " ".join(ended.err.replace("│", " ").split())
        return json.loads(ended.out) if "--json" in args else ended.out

    return run


@pytest.fixture(scope="module")
def adapters(folder: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two folds, made once."""
    from inweights.folding import make
    from inweights.models import load

    home = tmp_path_factory.mktemp("adapters")
    model = load(folder)
    return {
        name: make(model, context, calibration=8, new=6, report=False, embed_prompt=name == "b").fold.save_pretrained(
            home / name, model
        )
        for name, context in (("a", CONTEXT), ("b", "Speak like a judge."))
    }


def test_folding_writes_an_adapter_and_an_honest_report(inweights: Run, folder: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "adapter"
    queries = tmp_path / "q.txt"
    queries.write_text("\n".join(f"What is {i}?" for i in range(10)))
    args = ("fold", "--context", CONTEXT, "--model", folder, "--calibration", queries, "--rank", "2", "--out", out)
    result = inweights(*args, "--json")
    keys = "recovered kl_bare kl_folded agree_bare agree_folded rank seconds_solve seconds_total adapter base_path"
    assert set(keys.split()) <= set(result)
    assert result["rank"] == 2
    assert (result["calibration_queries"], result["calibration_source"]) == (8, "file q.txt")
    assert result["warnings"] == []
    assert result["base_path"] == folder
    assert result["seconds_solve"] < result["seconds_total"]
    assert {p.name for p in out.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors", "README.md"}
    card = json.loads((out / "inweights.json").read_text())
    assert card["prompt"] is None
    assert CONTEXT not in (out / "README.md").read_text()
    assert card["calibration"]["queries"] == 8
    assert "control: random updates of equal norms" in json.dumps(card["fidelity"])
    assert "not empty" in inweights(*args, code=2)
    results = inweights(
        "evaluate", "--adapter", out, "--context", CONTEXT, "--model", folder, "--queries", queries, "--json"
    )
    assert {"recovered", "kl_bare", "kl_folded", "agree_folded"} <= set(results)
    assert results["kl_bare"] > 0
    assert results["calibrated_on"] == 8
    assert results["same_prompt"] is True
    assert not any("system" in token for token in ["".join(results["tokens"]["bare"])])


def test_evaluating_with_answers_and_another_fold(
    inweights: Run, folder: str, adapters: dict[str, Path], tmp_path: Path
) -> None:
    queries = tmp_path / "q.jsonl"
    queries.write_text("\n".join(json.dumps({"query": f"What is {i}?", "answer": "x"}) for i in range(4)))
    common = ("--context", CONTEXT, "--model", folder, "--queries", queries, "--new-tokens", "6", "--json")
    result = inweights("evaluate", "--adapter", adapters["a"], "--other", adapters["b"], *common)
    assert {"accuracy_prompted", "accuracy_bare", "accuracy_folded"} <= set(result)
    controls = result["fidelity"]["sets"][0]["controls"]
    assert set(controls) == {"random updates of equal norms", "another prompt's fold"}
    assert result["calibrated_on"] == 0
    nothing = inweights("evaluate", "--adapter", adapters["a"], "--strength", "0", *common)
    assert nothing["recovered"] == pytest.approx(0, abs=1e-6)
    assert abs(result["recovered"]) > 1e-3


def test_accuracy_counts_answers_that_contain_the_given_one(
    inweights: Run, folder: str, adapters: dict[str, Path], tmp_path: Path
) -> None:
    """With a word from the middle of what the prompted model answers: contained, but not at the beginning."""
    from inweights.folding import Frame, answered
    from inweights.folding._answers import words
    from inweights.models import load

    asked = [f"What is {i}?" for i in range(8)]
    frame = Frame.of(load(folder), CONTEXT)
    texts = frame.model.tokenizer.batch_decode(answered(frame, asked, new=64, temperature=0.0).answers)
    rows = [{"query": q, "answer": words(t)[2]} for q, t in zip(asked, texts, strict=True) if len(words(t)) > 2]
    assert rows
    queries = tmp_path / "q.json"
    queries.write_text(json.dumps(rows))
    args = ("evaluate", "--adapter", adapters["a"], "--context", CONTEXT, "--model", folder, "--queries", queries)
    loose, strict = (inweights(*args, "--new-tokens", "4", *more, "--json") for more in ((), ("--strict",)))
    assert loose["accuracy_prompted"] == 1.0
    assert strict["accuracy_prompted"] < 1.0
    assert "contains the given one as whole words" in loose["accuracy_definition"]
    assert "begins with the given one" in strict["accuracy_definition"]
    output = inweights(*args, "--new-tokens", "4")
    assert "Accuracy: prompted 100.0%" in output
    assert "(right if the answer contains the given one as whole words" in output
    assert output.count("Q: ") == min(3, len(rows))


def test_combining_measures_each_where_its_prompt_is_known(
    inweights: Run, folder: str, adapters: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "both"
    args = ("combine", adapters["a"], adapters["b"], "--model", folder, "--questions", "2")
    result = inweights(*args, "--out", out, "--json")
    assert result["adapter"] == str(out)
    assert result["recovered_each"][0] is None  # its prompt is not in the adapter
    assert isinstance(result["recovered_each"][1], float)
    assert result["truncation_error"] < 1e-6
    assert "twice" in inweights(*args, "--context", "x", "--out", tmp_path / "c", code=2)


def test_generating_and_exporting_with_an_adapter(
    inweights: Run, folder: str, adapters: dict[str, Path], tmp_path: Path
) -> None:
    common = (
        "generate",
        "--context",
        CONTEXT,
        "--query",
        "Hi?",
        "--chat",
        "--model",
        folder,
        "--new-tokens",
        "6",
        "--json",
    )
    result = inweights(*common, "--adapter", adapters["a"])
    assert isinstance(result["folded"], str)
    nothing = inweights(*common, "--adapter", adapters["a"], "--strength", "0")
    # Positions from 0 and not in place: the bare model of a server.
    bare = inweights(*common, "--shifted")["bare"]
    assert nothing["folded"] == bare
    assert inweights(*common)["folded"] is None
    plain = [a for a in common if a != "--chat"]
    assert inweights(*plain, "--adapter", adapters["a"])["folded"] == result["folded"]  # turns, as it was folded
    merged = inweights(
        "export", adapters["a"], "--format", "merged", "--model", folder, "--out", tmp_path / "m", "--json"
    )
    assert (Path(merged["path"]) / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("fold", "--out", "X"), "either --context or --data"),
        (("fold", "--context", "a", "--data", "b", "--out", "X"), "either --context or --data"),
        (("fold", "--context", "a", "--calibration", "3", "--out", "X"), "at least 8"),
        (("fold", "--context", "a", "--calibration", "none.txt", "--out", "X"), "neither a number nor a file"),
        (("fold", "--context", "a", "--method", "mach", "--out", "X"), "did you mean match"),
        (("fold", "--context", "a", "--strength", "nan", "--out", "X"), "--strength is nan"),
        (("fold", "--context", "a", "--energy", "2", "--out", "X"), "--energy is 2"),
        (("bench", "update", "--only", "pirate"), "--only is for the benchmarks fold and knowledge"),
        (("bench", "fold", "--only", "pirat"), "did you mean pirate"),
        (("fold", "--context", "a", "--dtype", "bfloat16", "--out", "X"), "float32"),
        (("fold", "--context", "@none.txt", "--out", "X"), "cannot be read"),
        (("fold", "--data", "nonsense", "--out", "X"), "no data set 'nonsense'"),
        (
            ("evaluate", "--adapter", "none", "--context", "a", "--queries", "none.txt"),
            "The file of --queries 'none.txt' cannot be read, there is no such file",
        ),
    ],
)
def test_bad_input_is_told_in_a_sentence(inweights: Run, args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    args = tuple(str(tmp_path / "x") if a == "X" else a for a in args)
    assert words in inweights(*args, code=2)
    assert not (tmp_path / "x").exists()


def test_an_adapter_of_another_model_is_refused(
    inweights: Run, folder: str, adapters: dict[str, Path], tmp_path: Path
) -> None:
    from talking import talker

    other = talker(seed=5)
    other.model.save_pretrained(tmp_path / "other")
    other.tokenizer.save_pretrained(tmp_path / "other")
    args = ("evaluate", "--adapter", adapters["a"], "--context", CONTEXT, "--model", tmp_path / "other")
    assert "other weights" in inweights(*args, code=2)
    broken = tmp_path / "broken"
    shutil.copytree(adapters["a"], broken)
    (broken / "adapter_model.safetensors").write_bytes(b"nonsense")
    assert "adapter" in inweights("evaluate", "--adapter", broken, "--context", CONTEXT, "--model", folder, code=2)


def test_the_suite_is_large_mixed_and_disjoint() -> None:
    """At least eight prompts; few-shot tasks calibrate on unlabelled inputs that no test or shot uses."""
    tasks = suite()
    assert len(tasks) >= 8
    assert {"pirate", "french", "brief", "facts"} <= set(CHAT)
    assert not set(CHAT.values()) & set(DEVELOPMENT.values())
    assert len(PAST) == len({a for a, _ in PAST}) >= 100
    for task in (past_tense(), capitals()):
        shots = {line.removeprefix("Input: ") for line in task.context.split("\n") if line.startswith("Input: ")}
        calibrated = {q.split("\n")[0].removeprefix("Input: ") for q in task.calibration}
        tested = {q.split("\n")[0].removeprefix("Input: ") for q, _ in task.tests}
        assert not shots & calibrated
        assert not shots & tested
        assert not calibrated & tested
        assert len(tested) == 40
        assert all(q.endswith("Output:") for q in task.calibration)  # no label is in it
