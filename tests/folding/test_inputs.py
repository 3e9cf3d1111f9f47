"""What users type by mistake: refused before any work, with what to type instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from talking import talker

import inweights as iw
from inweights.cli._model import text as text_of
from inweights.folding import make, read_queries

Run = Callable[..., tuple[int, str, str]]
TEXT = ("--context", "Speak like a pirate.")


@pytest.mark.parametrize("command", ["fold", "verify", "patch", "trace", "generate", "evaluate"])
def test_a_forgotten_at_sign_is_asked_about(
    command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.txt").write_text("You are a pirate.")
    more = {"fold": ("--out", "x"), "patch": ("--query", "a", "--out", "x"), "evaluate": ("--adapter", "x")}
    end = run(command, "--context", "p.txt", *more.get(command, ("--query", "a")))
    assert end[0] == 2
    assert "did you mean @p.txt?" in end[2]


def test_the_name_of_a_file_that_is_not_there_is_no_prompt(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("p.txt", "prompts/pirate.md"):
        code, _, error = run("fold", "--context", name, "--out", "x")
        assert code == 2
        assert f"--context is {name!r}, which is a file name, but there is no such file here." in error


def test_the_last_line_break_of_a_file_is_not_part_of_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(b"Be brief.\r\n\nAnswer in French.\r\n")
    assert text_of("--context", f"@{tmp_path / 'p.txt'}").splitlines() == ["Be brief.", "", "Answer in French."]
    assert text_of("--context", f"@{tmp_path / 'p.txt'}").endswith("French.")
    assert text_of("--context", "Speak. \n") == "Speak. \n"  # what was typed stays
    assert text_of("--query", "p.txt") == "p.txt"


@pytest.mark.parametrize("command", ["fold", "verify", "patch", "trace", "generate", "evaluate"])
@pytest.mark.parametrize("context", ["", " \n", "@empty.txt"])
def test_an_empty_context_is_called_empty(
    command: str, context: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    more = {"fold": ("--out", "x"), "patch": ("--query", "a", "--out", "x"), "evaluate": ("--adapter", "x")}
    end = run(command, "--context", context, *more.get(command, ("--query", "a")))
    assert end[0] == 2
    assert "--context" in end[2]
    assert "is empty: give the text of the prompt, or @FILE." in end[2]


@pytest.mark.parametrize("value", ["1e9", "-11", "nan", "inf"])
@pytest.mark.parametrize("command", ["fold", "evaluate", "generate", "export"])
def test_an_impossible_strength_is_refused(command: str, value: str, run: Run, tmp_path: Path) -> None:
    more = {
        "fold": (*TEXT, "--out", "x"), "evaluate": (*TEXT, "--adapter", "x"), "generate": (*TEXT, "--query", "a"),
        "export": (str(tmp_path), "--out", "x"),
    }  # fmt: skip
    code, _, err = run(command, *more[command], "--strength", value)
    assert code == 2
    assert "but must be between -10 and 10" in err


def test_an_impossible_rank_is_refused(run: Run, folder: str, tmp_path: Path) -> None:
    args = ("fold", *TEXT, "--model", folder, "--calibration", "8", "--rank", "100000", "--out", str(tmp_path / "x"))
    code, _, err = run(*args)
    assert code == 2
    assert "--rank is 100000, but must be from 1 to 32" in err
    assert not (tmp_path / "x").exists()
    with pytest.raises(iw.InputError, match="`rank` is 33"):
        iw.fold(talker(), "Speak like a pirate.", calibration=["Who?"], rank=33)


def test_a_fold_that_is_worse_than_none_fails(run: Run, folder: str, tmp_path: Path) -> None:
    """The opposite of the prompt: what is measured decides, not what was intended."""
    queries = tmp_path / "q.txt"
    queries.write_text("\n".join(f"What is {i}?" for i in range(40)))
    args = ("fold", *TEXT, "--model", folder, "--calibration", str(queries), "--rank", "2", "--strength", "-3")
    code, out, _ = run(*args, "--out", str(tmp_path / "x"), "--json")
    output = json.loads(out)
    assert output["recovered"] < 0
    assert (output["verdict"], code) == ("FAILED", 1)


ARRAY = json.dumps(["What is a cat?", {"query": "And a dog?", "answer": "An animal"}], indent=1)


def test_the_forms_of_a_file_of_queries(tmp_path: Path) -> None:
    file = tmp_path / "q"
    for text, wanted in (
        (ARRAY, [("What is a cat?", None), ("And a dog?", "An animal")]),
        ('[INST] Hi\n["x', [("[INST] Hi", None), ('["x', None)]),
        ('{"query": "a"}\n\n{"query": "b", "answer": "c"}\n', [("a", None), ("b", "c")]),
    ):
        file.write_text(text)
        assert read_queries(file) == wanted
    for text, words in (
        (ARRAY[:-5], "is not JSON"),
        ("[]", "empty JSON array"),
        ('["a", 3]', "Entry 2 of the file of queries .* is no JSON object with a `query`"),
        ('["a", ""]', "Entry 2"),
    ):
        file.write_text(text)
        with pytest.raises(iw.InputError, match=words):
            read_queries(file)


def test_a_file_needs_as_many_queries_as_a_number(run: Run, folder: str, tmp_path: Path) -> None:
    queries = tmp_path / "q.txt"
    queries.write_text("\n".join([*(f"What is {i}?" for i in range(7)), "What is 3?"]))
    code, _, err = run("fold", *TEXT, "--model", folder, "--calibration", str(queries), "--out", str(tmp_path / "x"))
    assert code == 2
    assert "has 7 different queries, but at least 8 are needed" in err


def test_the_format_of_a_calibration_file_is_in_the_help(run: Run) -> None:
    code, out, _ = run("fold", "--help")
    assert code == 0
    output = " ".join(out.replace("│", " ").split())
    for words in ("one query a line", "JSON lines", "JSON array", "at least 8", "Every fifth query", "held out"):
        assert words in output
    assert "bfloat16" not in output  # which fold refuses


def test_plain_text_asks_for_a_file_of_queries() -> None:
    with pytest.raises(iw.InputError, match="this fold is of plain text: give a file of queries"):
        make(talker(), "Speak like a pirate.", calibration=8, chat=False)
