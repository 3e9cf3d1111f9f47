"""GGUF models as folders of safetensors, converted once and kept in the cache with their checksums."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from inweights._errors import InputError, out_of_memory
from inweights._fetch import cache, in_cache, intact_folder, seal_folder, sweep
from inweights._files import folder_for
from inweights.models._complete import load_complete
from inweights.models._quiet import first_line, quiet
from inweights.models._safe_folder import ADAPTERS, matching

HALF = ".half-"
"""How the names of unfinished conversions begin."""


def converted(gguf: Path, sha256: str) -> Path:
    """The folder of a GGUF model as safetensors, made once: opening GGUF itself takes half a minute each time.

    A folder of which a file is missing, damaged or without a checksum is made again.
    """
    adapters = matching([p.name for p in gguf.parent.iterdir()], ADAPTERS)
    if adapters:
        raise InputError(
            f"`model` is {str(gguf)!r}, beside which lies an adapter ({', '.join(adapters)}), which would change it: "
            "keep adapters in a folder of their own."
        )
    target = cache() / "models" / f"{gguf.stem}-{sha256[:16]}"
    if intact_folder(target):
        return target
    home = folder_for("The cache (INWEIGHTS_CACHE)", target.parent)
    with in_cache(f"{target.name!r}", home):
        sweep(home, HALF)
        with tempfile.TemporaryDirectory(dir=home, prefix=HALF, ignore_cleanup_errors=True) as name:
            work = Path(name)
            _convert(gguf, _alone(gguf, work / "alone"), work / "model")
            seal_folder(work / "model")
            if not intact_folder(target):  # another process may have been faster
                if target.exists():
                    target.rename(work / "damaged")
                (work / "model").rename(target)
    return target


def _alone(gguf: Path, folder: Path) -> Path:
    """The file in a folder of its own: transformers also reads configurations and adapters beside it."""
    folder.mkdir()
    file = folder / gguf.name
    try:
        file.symlink_to(gguf.resolve())
    except OSError:  # not every file system has links
        shutil.copyfile(gguf, file)
    return file


def _stored(gguf: Path) -> int:
    """How many values the weights of a file have; a file that holds an adapter is refused."""
    from gguf import GGUFReader

    reader = GGUFReader(gguf)
    kind = reader.fields.get("general.type")
    if kind is not None and kind.contents() != "model":
        raise InputError(f"`model` is {str(gguf)!r}, which holds no model, but is of type {kind.contents()!r}.")
    return sum(int(tensor.n_elements) for tensor in reader.tensors)


def _convert(named: Path, gguf: Path, folder: Path) -> None:
    """Writes the model and tokenizer of `gguf` into `folder`; messages call it `named`."""
    from transformers import AutoTokenizer

    file: dict[str, Any] = {"gguf_file": gguf.name}
    try:
        with quiet():
            model = load_complete(str(named), gguf.parent, _stored(named), dtype=torch.float32, **file)
            tokenizer = AutoTokenizer.from_pretrained(
                str(gguf.parent), trust_remote_code=False, local_files_only=True, **file
            )
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"GGUF models need the gguf package: pip install 'inweights[gguf]' ({error}).") from None
    except Exception as error:  # a damaged file can make it raise anything
        if out_of_memory(error):
            raise
        raise InputError(f"{str(named)!r} could not be read as a GGUF model: {first_line(error)}") from None
    # The weights are plain float32 now, but the model still calls itself quantised and would refuse to be saved.
    model.config.__dict__.pop("quantization_config", None)
    model.hf_quantizer, model.is_quantized = None, False
    with quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
