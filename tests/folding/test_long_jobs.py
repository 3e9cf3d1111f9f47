"""Long jobs as users meet them: progress in a log, a second job for the same folder, Ctrl-C; and what README says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inweights import folding

Run = Callable[..., Any]
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def args(folder: str, tmp_path: Path) -> tuple[str, ...]:
    queries = tmp_path / "q.txt"
    queries.write_text("\n".join(f"What is {i}?" for i in range(10)))
    return (
        "fold", "--context", "Speak like a pirate.", "--model", folder, "--calibration", str(queries), "--rank", "1",
        "--out", str(tmp_path / "adapter"),
    )  # fmt: skip


def test_stages_are_plain_lines_where_there_is_no_terminal(run: Run, args: tuple[str, ...]) -> None:
    ended = run(*args)
    err = ended.err
    assert ended.out.count("\nQ: ") == 3  # the report has three questions with their answers
    assert "\x1b" not in err
    for stage in ("reading the prompt …\n", "fitting the adapter …\n", "looking at unrelated text …\n"):
        assert stage in err


def test_a_second_job_with_the_same_out_is_refused_at_once(
    run: Run, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one starts where the first has begun its work."""
    ends = list[Any]()

    def second(*_: object, **__: object) -> None:
        if not ends:
            ends.append(None)  # a third one would be no news
            ends[0] = run(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(folding, "make", second)
    run(*args)
    assert ends[0].code == 2
    assert "is at work in" in ends[0].err


def test_ctrl_c_prints_one_line(run: Run, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folding, "make", interrupted)
    ended = run(*args)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.splitlines()[-1] == "Interrupted. The same command resumes."
    assert "Traceback" not in ended.err


def test_the_readme_says_what_the_sum_of_two_folds_does() -> None:
    text = README.read_text()
    assert "the sum of two folds, in which the stronger prompt wins" in text
    assert "does not follow both prompts" in text


def test_commands_state_whether_texts_are_turns(run: Run, args: tuple[str, ...], folder: str) -> None:
    assert "the system and user turns of a chat; --plain makes them plain text, as in verify" in run(*args).err
    texts = ("verify", "--context", "My name is Bob. ", "--query", "I am", "--model", folder)
    assert "read as plain text; --chat makes them turns, as in fold and evaluate." in run(*texts).err
    assert "read as the system and user turns of a chat.\n" in run(*texts, "--chat").err
    assert "read as" not in run(*texts, "--json").err
