"""Repositories of a model hub: checked first, then downloaded at one exact revision, then read as folders."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from inweights._errors import InputError
from inweights._fetch import announce
from inweights._files import write_atomic
from inweights.models._quiet import first_line, quiet
from inweights.models._safe_folder import (
    INDEX,
    SETTINGS,
    WEIGHTS,
    read_json,
    require_safe_names,
    require_safe_settings,
    shards,
)

PATIENCE = 3.0
"""Seconds to wait for the hub's answer: with the start of the program, an error comes within 5 s."""
BRANCH = "main"
BESIDE = ("tokenizer", "vocab", "merges", "spiece", "sentencepiece", "special_tokens", "added_tokens", "chat_template")
"""Prefixes of the names of a tokenizer's files."""


@dataclass(frozen=True)
class Snapshot:
    """The folder of a repository in the hub's cache, and the commit that it holds."""

    folder: Path
    revision: str


def snapshot(repo: str) -> Snapshot:
    """The newest revision of a repository, downloaded as far as it is not in the cache.

    The list of files and the configurations are checked before any weights are downloaded. Where the hub cannot be
    reached, the revision that the cache holds serves.
    """
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        info = _within(PATIENCE, lambda: _info(repo))
    except HFValidationError as error:
        raise InputError(f"`model` is {repo!r}, which is neither a folder nor a hub id: {first_line(error)}") from None
    except RepositoryNotFoundError:
        raise InputError(
            f"`model` is {repo!r}, but there is no such folder here, and no such repository on the hub that you may "
            "read: check the name, or log in with `hf auth login`."
        ) from None
    except Exception as error:  # whatever the network does
        return _cached(repo, first_line(error))
    return _download(repo, info)


def _info(repo: str) -> Any:
    from huggingface_hub import HfApi

    return HfApi().model_info(repo, revision=BRANCH, files_metadata=True, timeout=PATIENCE)


def _download(repo: str, info: Any) -> Snapshot:
    """Downloads the files that a model is loaded from, and no others."""
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    require_safe_names(f"`model` is the hub repository {repo!r}, which", sizes)
    fetch = _fetcher(repo, info.sha)
    for name in SETTINGS:
        if name in sizes:
            require_safe_settings(fetch(name))
    wanted = [name for name in sizes if name.startswith(BESIDE) and "/" not in name]
    wanted += _weights(repo, sizes, fetch)
    absent = [name for name in wanted if name not in sizes]
    if absent:
        raise InputError(f"`model` is {repo!r}, whose index names {absent[0]!r}, but the repository has no such file.")
    _announce(repo, info, {name: sizes[name] for name in wanted})
    with nullcontext() if sys.stderr.isatty() else quiet():
        folder = [fetch(name) for name in wanted][-1].parent
    # By this the cache knows the revision when the hub cannot be asked.
    references = folder.parents[1] / "refs"
    references.mkdir(exist_ok=True)
    write_atomic(references / BRANCH, info.sha)
    return Snapshot(folder, info.sha)


def _weights(repo: str, sizes: dict[str, int], fetch: Callable[[str], Path]) -> list[str]:
    """The files of the weights: the one that the configuration names, the usual one, or the shards of an index."""
    named = read_json(fetch(SETTINGS[0])).get("transformers_weights")
    first = named if isinstance(named, str) else WEIGHTS if WEIGHTS in sizes else INDEX
    if first not in sizes:
        raise InputError(f"`model` is {repo!r}, which has no {first}: its weights are in no form that is read here.")
    return [first, *shards(fetch(first))] if first.endswith(".index.json") else [first]


def _fetcher(repo: str, revision: str) -> Callable[[str], Path]:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import GatedRepoError

    def fetch(name: str) -> Path:
        try:
            return Path(hf_hub_download(repo, name, revision=revision, etag_timeout=PATIENCE))
        except GatedRepoError:
            raise InputError(
                f"`model` is {repo!r}, which asks for consent before a download: give it on the hub's page of the "
                "model, and log in with `hf auth login`."
            ) from None
        except Exception as error:  # whatever the network or the disk does
            raise InputError(
                f"{name!r} of {repo!r} could not be downloaded ({first_line(error)}): try again."
            ) from None

    return fetch


def _announce(repo: str, info: Any, sizes: dict[str, int]) -> None:
    from huggingface_hub import try_to_load_from_cache

    new = [n for name, n in sizes.items() if not isinstance(try_to_load_from_cache(repo, name, revision=info.sha), str)]
    card = info.card_data
    licence = (card.get("license") or card.get("license_name")) if card is not None else None
    if new:
        announce(f"{repo} at revision {info.sha[:12]} from the hub", sum(new), str(licence or "not stated"))


def _cached(repo: str, why: str) -> Snapshot:
    """The cached revision of a repository whose hub cannot be reached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repo, revision=BRANCH, local_files_only=True))
    except LocalEntryNotFoundError:
        raise InputError(
            f"`model` is {repo!r}: there is no such folder here, the cache does not hold that hub id, and the hub "
            f"could not be reached ({why}): check the network, or name a folder, a .gguf file or smollm2."
        ) from None
    return Snapshot(folder, folder.name)


def _within(seconds: float, ask: Callable[[], Any]) -> Any:
    """The answer of a call, or its error; `TimeoutError` if there is none in time (a name server may take minutes)."""
    answer: list[Any] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            answer.append(ask())
        except Exception as error:
            failed.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not answer:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return answer[0]
