"""What a folder or repository must not hold to be loaded: code, pickled weights, adapters, files from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from inweights import _read
from inweights._errors import InputError, Problems

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
SETTINGS = (CONFIG, "tokenizer_config.json", "generation_config.json")
LARGEST = 1 << 24
"""Bytes of the largest JSON file that is read; an index of 100,000 tensors has about 10 MB."""

ADAPTERS = ("adapter_config.json", "adapter_model.*")
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
CODE_FILES = ("modeling_*.py", "configuration_*.py", "tokenization_*.py", "processing_*.py", "custom_generate/*.py")
"""Files that transformers runs for models with code of their own; other scripts in a folder are ignored."""
CODE_KEYS = ("auto_map", "trust_remote_code")
BUILT_IN = ("eager", "sdpa", "flex_attention", "batched_mm", "grouped_mm")
"""Implementations of attention and experts that come with torch and transformers."""


def require_safe_names(what: str, names: Collection[str]) -> None:
    """Refuses, by the names of its files alone, a folder or repository that no safe model can be loaded from."""
    problems = Problems()
    adapters = matching(names, ADAPTERS)
    problems.unless(
        not adapters,
        f"{what} holds an adapter ({', '.join(adapters)}), which would change the model or load another one in its "
        "place: keep adapters in a folder of their own.",
    )
    code = matching(names, CODE_FILES)
    problems.unless(not code, f"{what} brings code of its own ({', '.join(code)}): not run here.")
    if not adapters:
        _require_weights(what, names, problems)
    problems.stop()


def require_safe(folder: Path) -> None:
    """Refuses a folder that would run code or load something else than its own weights, before any of it is loaded."""
    what = f"`model` is the folder {str(folder)!r}, which"
    require_safe_names(what, names_in(folder))
    for name in SETTINGS:
        if (folder / name).is_file():
            require_safe_settings(folder / name)
    for index in folder.glob("*.safetensors.index.json"):
        absent = [name for name in shards(index) if not (folder / name).is_file()]
        if absent:
            raise InputError(f"{what} has an index that names {absent[0]!r}, but no such file: get it, too.")


def names_in(folder: Path) -> list[str]:
    """The names of the files that decide what is loaded: those of the folder, and of custom_generate/ in it."""
    return [p.relative_to(folder).as_posix() for p in (*folder.glob("*"), *folder.glob("custom_generate/*"))]


def matching(names: Collection[str], patterns: Collection[str]) -> list[str]:
    """The names that fit one of the patterns."""
    return sorted(name for name in names if any(fnmatch(name, pattern) for pattern in patterns))


def require_safe_settings(file: Path) -> None:
    """Refuses a configuration that asks for code, or for another configuration in its place."""
    settings = read_json(file)
    problems = Problems()
    code = sorted({key for key, _ in _settings(settings) if key in CODE_KEYS})
    problems.unless(not code, f"`model`: {str(file)!r} asks for code of its own ({', '.join(code)}): not run here.")
    for key, value in _settings(settings):
        if re.search(r"(^|_)implementation(_|$)", key):
            for name in _names(value):
                problems.unless(
                    name in BUILT_IN,
                    f"`model`: {str(file)!r} sets {key} to {name!r}, which would fetch or import code from elsewhere: "
                    f"leave it out, or set it to one of {', '.join(BUILT_IN)}.",
                )
    problems.unless(
        "configuration_files" not in dict(_settings(settings)),
        f"`model`: {str(file)!r} names other files to use instead of itself (configuration_files): keep the one that "
        f"applies as {CONFIG}.",
    )
    problems.stop()


def shards(index: Path) -> list[str]:
    """The files that an index of weights names: safetensors of the same folder, or it is refused."""
    content = read_json(index)
    table = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise InputError(f"`model`: {str(index)!r} has no table of tensors and files (weight_map): get it again.")
    names = sorted(set(table.values()))
    foreign = [name for name in names if not re.fullmatch(r"[\w.-]+\.safetensors", name)]
    if foreign:
        raise InputError(f"`model`: {str(index)!r} names {foreign[0]!r}, which is no safetensors file beside it.")
    return names


def read_json(file: Path) -> dict[str, Any]:
    """The content of a JSON file of a model; a configuration may hold infinite numbers, e.g. for a limit."""
    return _read.read_json(file, "The model's file", limit=LARGEST, fix="get the model again", finite=False)


def _require_weights(what: str, names: Collection[str], problems: Problems) -> None:
    if not problems.unless(CONFIG in names, f"{what} has no {CONFIG}."):
        return
    if not any(fnmatch(name, "*.safetensors") for name in names):
        pickles = any(PurePosixPath(name).suffix in PICKLES for name in names)
        why = "only pickled weights, which can run code when opened" if pickles else "no weights"
        problems.unless(False, f"{what} has {why}: convert them to safetensors first.")


def _settings(value: Any) -> Iterator[tuple[str, Any]]:
    """All keys with their values, at any depth."""
    if isinstance(value, dict):
        yield from value.items()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _settings(inner)


def _names(value: Any) -> list[str]:
    """The strings of a setting that may give one name, or one for each part of a model."""
    if isinstance(value, dict):
        return [name for inner in value.values() for name in _names(inner)]
    return [value] if isinstance(value, str) else []
