"""Every command that reads a file is given every kind of malformed one: exit code 2, a sentence, no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from talking import talker

import inweights.models
from inweights.folding._card import Card
from inweights.folding._fold import Fold
from inweights.ledger import Entry, Verdict
from inweights.theory import Update

LOAD = cache(inweights.models.load)


@pytest.fixture(autouse=True)
def _models_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inweights.models, "load", LOAD)


Run = Callable[..., Any]


class Home(NamedTuple):
    """Sound files: a model, a patch, an adapter, a trained model of the lab and a folder of results."""

    model: str
    patch: Path
    adapter: Path
    trained: Path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    from inweights.lab.training import changed, read, train

    where = tmp_path_factory.mktemp("home")
    made = talker()
    made.model.save_pretrained(where / "model")
    made.tokenizer.save_pretrained(where / "model")
    model = LOAD(str(where / "model"))
    prompt = inweights.models.Prompt(model, "My name is Bob.", "Who?")
    inweights.models.patch(prompt, "static").save(where / "patch")
    names = [f"model.layers.{i}.mlp.up_proj.weight" for i in range(2)]
    updates = {name: Update(torch.randn(64, 3), torch.randn(32, 3)) for name in names}
    card = Card(base="tiny", base_fingerprint=model.fingerprint, method="random", rank=3)
    Fold(updates, card).save_pretrained(where / "adapter", model)
    small = ("model.layers=1", "model.width=16", "model.heads=2", "batch=8", "points=6", "steps=2")
    train(changed(read("linear-5"), list(small)), where / "trained")
    return Home(str(where / "model"), where / "patch", where / "adapter", where / "trained")


DEEP, BOM = b"[" * 10**5, b"\xef\xbb\xbf"
JSON = {
    "deep": DEEP, "10^400": b'{"a": 1' + b"0" * 400 + b"}", "NaN": b'{"a": NaN}', "a list": b"[]", "empty": b"",
    "not UTF-8": b"\xff\xfe{}", "cut off": b'{"a": ', "a byte order mark": BOM + b"{}",
}  # fmt: skip
TEXT = {"not UTF-8": b"caf\xe9", "binary": b"\0\0"}
LINES = {
    "deep": b'{"query": ' + DEEP, "10^400": b'{"query": "a"}\n{"a": 1' + b"0" * 400 + b"}", "cut off": b'{"query": "a',
    "wrong types": b'{"query": 5}', "no query": b'{"answer": "a"}', "half a character": b'{"query": "\\ud800"}',
    "empty": b"", "not UTF-8": b"\xff", "too many": b"a\n" * 60_000,
}  # fmt: skip
TOML = {
    "deep": b"steps = " + b"[" * 60_000, "a long key": b"a." * 30_000 + b"a = 1", "10^400": b"steps = 1" + b"0" * 400,
    "1e400": b"rate = 1e400", "many digits": b"steps = " + b"9" * 50_000, "wrong types": b"steps = 'x'\ntask = 3",
    "a date": b"steps = 1979-05-27", "empty": b"", "not UTF-8": b"steps = '\xff'", "cut off": b"steps = [",
    "a byte order mark": BOM + b"steps = 1",
}  # fmt: skip
TENSORS = {
    "empty": b"", "noise": b"\0" * 100, "a petabyte of header": (10**15).to_bytes(8, "little") + b"{}",
    "deep": len(DEEP).to_bytes(8, "little") + DEEP, "of others": save({"a": torch.ones(2)}, {"inweights": "[" * 10**5}),
    "of lists": save({"a": torch.ones(2)}, {"inweights": "[]", "recipe": "[]", "about": "[]"}),
    "of wrong types": save(
        {"a": torch.ones(2)},
        {"inweights": '{"format": 3}', "recipe": '{"task": 3, "model": [], "steps": "x"}', "about": '{"own": 3}'},
    ),
}  # fmt: skip

TEXTS = ("--context", "a", "--query", "b")
# Each with MODEL for the model, OUT for a new folder, FILE for the malformed file.
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, bytes]]] = {
    "verify a context": (("verify", "--context", "@FILE", "--query", "b", "--model", "MODEL"), TEXT),
    "verify a query": (("verify", "--context", "a", "--query", "@FILE", "--model", "MODEL", "--json"), TEXT),
    "trace a context": (("trace", "--context", "@FILE", "--query", "b", "--model", "MODEL"), TEXT),
    "patch a context": (("patch", "--context", "@FILE", "--query", "b", "--model", "MODEL", "--out", "OUT"), TEXT),
    "generate from a context": (("generate", "--context", "@FILE", "--query", "b", "--model", "MODEL"), TEXT),
    "fold a context": (("fold", "--context", "@FILE", "--model", "MODEL", "--out", "OUT"), TEXT),
    "fold for queries": (
        ("fold", "--context", "a", "--calibration", "FILE", "--model", "MODEL", "--out", "OUT"),
        LINES,
    ),
    "evaluate on queries": (("evaluate", "--adapter", "x", "--context", "a", "--queries", "FILE", "--json"), LINES),
    "verify a patch": (("verify", *TEXTS, "--patch", "FILE", "--model", "MODEL"), TENSORS),
    "export a patch": (("export", "FILE", "--out", "OUT", "--model", "MODEL", "--json"), TENSORS),
    "train a recipe": (("lab", "train", "FILE.toml", "--out", "OUT"), TOML),
    "sweep a recipe": (("lab", "sweep", "FILE.toml", "--grid", "seed=0,1", "--out", "OUT", "--json"), TOML),
    "show a recipe": (("lab", "show", "FILE.toml"), TOML),
    "measure a model": (("lab", "eval", "FILE"), TENSORS),
    "draw a model": (("lab", "plot", "FILE", "--out", "OUT"), TENSORS),
    "show a model": (("lab", "show", "FILE", "--json"), TENSORS),
    "load a file": (("lab", "list", "--load", "FILE"), TEXT),
}


def cases(commands: dict[str, Any]) -> list[tuple[str, str]]:
    return [(command, kind) for command, (_, kinds) in commands.items() for kind in kinds]


def assert_refused(ended: Any) -> None:
    assert ended.code == 2, ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert ended.err.strip()
    assert len(ended.err) < 2000


@pytest.mark.parametrize(("command", "kind"), cases(COMMANDS))
def test_commands_refuse_malformed_files(command: str, kind: str, run: Run, home: Home, tmp_path: Path) -> None:
    template, kinds = COMMANDS[command]
    file = tmp_path / ("f.toml" if "FILE.toml" in template else "f")
    file.write_bytes(kinds[kind])
    words = {"MODEL": home.model, "OUT": str(tmp_path / "out"), "FILE": str(file), "FILE.toml": str(file)}
    ended = run(*(words.get(a, a.replace("@FILE", f"@{file}")) for a in template))
    assert_refused(ended)
    assert str(file) in ended.err
    if kind != "wrong types":  # which has a sentence for each of them
        lines = [line for line in ended.err.splitlines() if not line.startswith(INFORMATION)]
        assert len(lines) == 1


INFORMATION = ("Device: ", "Context and query are read as ")
"""How lines begin that a command prints before its work, and that are no errors."""


FOLDERS: dict[str, tuple[tuple[str, ...], dict[str, bytes]]] = {
    "adapter_config.json": (("export", "FOLDER", "--out", "OUT", "--model", "MODEL"), JSON),
    "inweights.json": (("generate", *TEXTS, "--adapter", "FOLDER", "--model", "MODEL", "--json"), JSON),
    "adapter_model.safetensors": (("combine", "FOLDER", "FOLDER", "--out", "OUT", "--model", "MODEL"), TENSORS),
    "checkpoint.safetensors": (("lab", "train", "linear-5", "--out", "FOLDER"), TENSORS),
    "model.safetensors": (("lab", "eval", "FOLDER"), TENSORS),
    "results.jsonl": (("claims", "run", "dherin-scalar", "--quick", "--out", "FOLDER"), JSON | {"types": b'{"id": 3}'}),
}


@pytest.mark.parametrize(("name", "kind"), cases(FOLDERS))
def test_commands_refuse_folders_with_malformed_files(
    name: str, kind: str, run: Run, home: Home, tmp_path: Path
) -> None:
    template, kinds = FOLDERS[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (home.adapter if "adapter" in name or name == "inweights.json" else home.trained).iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / name).write_bytes(kinds[kind] + (b"\n" if name == "results.jsonl" else b""))
    words = {"MODEL": home.model, "OUT": str(tmp_path / "out"), "FOLDER": str(folder)}
    ended = run(*(words.get(a, a) for a in template))
    assert_refused(ended)
    assert str(folder) in ended.err or name in ended.err


def test_the_sound_files_are_read(run: Run, home: Home, tmp_path: Path) -> None:
    """The control: without the defects, the same commands do not refuse."""
    (tmp_path / "text").write_text("My name is Bob.")
    texts = ("--context", f"@{tmp_path / 'text'}", "--query", "Who?", "--model", home.model)
    assert run("verify", *texts, "--patch", home.patch, "--json").code == 0
    assert run("generate", *texts, "--adapter", home.adapter, "--json").code == 0
    assert run("export", home.adapter, "--model", home.model, "--out", tmp_path / "out").code == 0
    assert run("lab", "show", home.trained).code == 0
    entry = Entry("dherin-theorem", Verdict.PASS)
    (tmp_path / "results.jsonl").write_text(entry.line() + "\n")
    assert run("claims", "run", "dherin-scalar", "--quick", "--out", tmp_path, "--json").code == 0


PATCHES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a mode": lambda v: v.update(mode="both"),
    "tokens of text": lambda v: v.update(tokens="4"),
    "negative tokens": lambda v: v.update(tokens=-1),
    "blocks of text": lambda v: v.update(blocks="abc"),
    "blocks of lists": lambda v: v.update(blocks=[[1]]),
    "a block of another model": lambda v: v["blocks"][0]["block"].update(norm="os.system"),
    "an input of text": lambda v: v["blocks"][0]["block"].update(inputs="abc"),
    "no slots": lambda v: v["blocks"][0].pop("slots"),
    "a rank of text": lambda v: v["blocks"][0].update(rank="x"),
    "a residual of a list": lambda v: v["blocks"][0].update(residual=[]),
    "a foreign parameter": lambda v: v["blocks"][0].update(moved=["lm_head.weight"]),
}


@pytest.mark.parametrize("what", PATCHES)
def test_a_patch_with_wrong_metadata_is_refused(what: str, run: Run, home: Home, tmp_path: Path) -> None:
    from safetensors import safe_open

    with safe_open(home.patch, "pt") as file:
        values = json.loads(file.metadata()["inweights"])
    PATCHES[what](values)
    tensors = load_file(home.patch) | {"0.moved.0": torch.zeros(259, 32)}
    save_file(tensors, tmp_path / "patch", {"inweights": json.dumps(values)})
    ended = run("verify", *TEXTS, "--patch", tmp_path / "patch", "--model", home.model)
    assert_refused(ended)
    assert "does not fit the model" in ended.err


ABOUTS: dict[str, str] = {
    "own": '{"own": 3}', "loss": '{"loss": "x"}', "seconds": '{"seconds": []}', "quality": '{"quality": [[1]]}',
    "curve.0": '{"curve": [[1]]}',
}  # fmt: skip


@pytest.mark.parametrize("what", ABOUTS)
def test_a_trained_model_with_wrong_metadata_is_refused(what: str, run: Run, home: Home, tmp_path: Path) -> None:
    from safetensors import safe_open

    path = home.trained / "model.safetensors"
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file(load_file(path), tmp_path / "m.safetensors", metadata | {"about": ABOUTS[what]})
    ended = run("lab", "show", tmp_path / "m.safetensors")
    assert_refused(ended)
    assert f"has a wrong `{what}" in ended.err


@pytest.mark.parametrize("value", ["[" * 10**5, "9" * 10**5, "1e400", "{a = " * 10**4, "1979-05-27", "x" * 10**5])
def test_settings_of_a_command_are_bounded_too(value: str, run: Run, tmp_path: Path) -> None:
    for option, command in (("--set", ("train", "linear-5")), ("--grid", ("sweep", "linear-5"))):
        assert_refused(run("lab", *command, option, f"steps={value}", "--out", tmp_path / "out"))
    assert_refused(run("lab", "eval", "linear-5", "--shift", f"scaled-inputs:factor={value}"))


def test_arguments_that_are_no_text_or_no_number(run: Run, home: Home, tmp_path: Path) -> None:
    ended = run("verify", "--context", "\udcff", "--query", "b", "--model", home.model)
    assert_refused(ended)
    assert ended.err == "The argument '\\udcff' is not UTF-8 text: write it so, or use @FILE.\n"
    for count in ("²", "+-9", "9" * 5000):
        assert_refused(run("fold", "--context", "a", "--calibration", count, "--out", tmp_path / "out"))
    assert run("verify").code == 2
    assert run("verify", "--nonsense").code == 2
