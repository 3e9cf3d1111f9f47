"""Code blocks of README and the guide: they are run, and commands everywhere have options that exist.

A comment directly above a block, `<!-- long: … -->` or `<!-- needs: … -->`, says why it is not run: it is then only
parsed. Models are replaced by a tiny one, except where a page states what SmolLM2 prints.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
import yaml
from matplotlib import pyplot
from talking import talker

from inweights.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDE = sorted((DOCS / "guide").glob("*.md"))
RUN = [ROOT / "README.md", DOCS / "index.md", DOCS / "python.md", DOCS / "notes.md", *GUIDE]
PAGES = [*RUN, DOCS / "serving.md", DOCS / "lab.md", DOCS / "benchmarks.md"]
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    page: Path
    mark: str
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.stem}: {self.text.strip().splitlines()[0][:60]}"


def blocks(pages: list[Path], *languages: str) -> list[Block]:
    result = [Block(p, m["mark"] or "", m["language"], m["text"]) for p in pages for m in BLOCK.finditer(p.read_text())]
    return [b for b in result if b.language in languages]


def commands(block: Block) -> list[list[str]]:
    """The `inweights` commands of a block, without prompts, comments, redirections and output."""
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    prompted = any(line.startswith("$ ") for line in lines)
    lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ") or not prompted]
    split = [shlex.split(line, comments=True) for line in lines if line.startswith("inweights ")]
    return [words[1 : words.index(">") if ">" in words else None] for words in split]


class UnknownCommandError(Exception):
    """A page names a command that does not exist."""


def parsed(words: list[str]) -> Any:
    """The context of a command with its options; an error if there is no such command or option. Commands are typer's
    own, which since its version 0.29 are no longer those of click."""
    command: Any = typer.main.get_command(app)
    parent = None
    while hasattr(command, "commands"):
        name, *words = words
        if name not in command.commands:
            raise UnknownCommandError(name)
        parent = typer.Context(command, parent=parent)
        command = command.commands[name]
    return command.make_context(command.name, list(words), parent=parent)


SHELL = ("", "console", "bash")
COMMANDS = [(b, words) for b in blocks(PAGES, *SHELL) for words in commands(b)]


@pytest.mark.parametrize(("block", "words"), COMMANDS, ids=lambda v: v.page.stem if isinstance(v, Block) else v[0])
def test_a_command_of_a_page_has_options_that_exist(block: Block, words: list[str]) -> None:
    assert parsed(words).command.callback is not None


def test_the_guard_of_commands_can_fail() -> None:
    assert len(COMMANDS) > 30
    with pytest.raises(UnknownCommandError):
        parsed(["nonsense"])
    for wrong in (["verify", "--contekst", "x"], ["report"], ["fold", "--out", "x", "--rank", "two"]):
        with pytest.raises(typer.BadParameter.__base__):
            parsed(wrong)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = tmp_path_factory.mktemp("tiny")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return str(where)


TO_RUN = [b for b in blocks(RUN, "") if not b.mark and commands(b)]


@pytest.mark.parametrize("block", TO_RUN, ids=lambda b: b.name)
def test_the_commands_of_the_guide_run(
    block: Block, run: Callable[..., Any], tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path / "cache"))
    Path("prompt.txt").write_text("Speak like a pirate.")
    Path("queries.jsonl").write_text("".join(json.dumps({"query": f"What is {i}?"}) + "\n" for i in range(8)))
    for line, words in zip(
        re.findall(r"^(?:\$ )?inweights .*", block.text, re.MULTILINE), commands(block), strict=True
    ):
        known = {p.name for p in parsed(words).command.params}
        words = ["FOLDER" if w == "smollm2" else w for w in words]
        more = ["--model", tiny] if "model" in known and "--model" not in words else []
        more += ["--calibration", "queries.jsonl", "--rank", "1"] if words[0] == "fold" else []
        ended = run(*(tiny if w == "FOLDER" else w for w in words), *more)
        assert ended.code == 0, (line, ended.err)
        if ">" in line:
            target = Path(line.rpartition(">")[2].strip())
            target.parent.mkdir(exist_ok=True)
            target.write_text(ended.out)


PYTHON = blocks(RUN, "python")


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize("block", [b for b in PYTHON if not b.mark], ids=lambda b: b.name)
def test_the_python_of_a_page_runs_and_prints_the_stated_output(block: Block, tiny: str) -> None:
    """`# prints …` is what it prints; in this process, as a new one takes seconds to load torch."""
    small = block.text.replace('"smollm2"', repr(tiny)) if block.page in GUIDE else block.text
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(small, block.page.name, "exec"), {"__name__": "__main__"})
    pyplot.close("all")
    promised = re.findall(r"# prints (.+)", block.text)
    assert promised
    assert out.getvalue().splitlines() == promised


@pytest.mark.parametrize("block", [*(b for b in PYTHON if b.mark), *blocks(PAGES, "py"),
                                   *blocks([DOCS / "serving.md"], "python")], ids=lambda b: b.name)  # fmt: skip
def test_other_python_is_python(block: Block) -> None:
    compile(block.text, block.page.name, "exec")


def test_marks_say_why() -> None:
    assert all(re.match(r"(long|needs): \w", b.mark) for b in blocks(RUN, *SHELL, "python") if b.mark)


def test_every_page_is_in_the_guide_and_its_links_lead_somewhere() -> None:
    """What `make docs` checks, without mkdocs."""

    def listed(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [p for each in (entry.values() if isinstance(entry, dict) else entry) for p in listed(each)]

    pages = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")}
    assert sorted(listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])) == sorted(pages)
    for name in pages:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", (DOCS / name).read_text()):
            assert (DOCS / name).parent.joinpath(link).exists(), (name, link)


def test_the_api_page_names_what_exists() -> None:
    names = re.findall(r"^::: (inweights[\w.]*)\.(\w+)$", (DOCS / "guide" / "api.md").read_text(), re.MULTILINE)
    assert len(names) > 40
    assert [name for home, name in names if not (getattr(import_module(home), name).__doc__ or "").strip()] == []
