"""`Patch`: the updates of all layers that replace a context, for given query tokens."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args, overload

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models._block_patch import BlockPatch
from inweights.models._branch_norm import Inversion
from inweights.models._estimate import memory_fixes, patch_memory
from inweights.models._load import Model, as_model
from inweights.models._prompt import Prompt
from inweights.models._run import Mode, goals, solve_patches
from inweights.running import full_precision
from inweights.theory import Changes, exchanged

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}
"""Largest logit errors that a proof allows; nothing is promised in lower precision."""


@dataclass(frozen=True, eq=False)
class Patch:
    """The effect of a context on some query tokens, as changes of the model's weights.

    - `mode`: `"token"`: each query token has its own rank-1 updates; `"static"`: one change for the whole query;
      `"output"`: each token its own, all of it in the output controls.
    - `blocks`: the changes of each block, in factors.
    - `tokens`: how many query tokens it was made for.
    - `base`: the fingerprint of the model it belongs to.
    """

    mode: Mode
    blocks: tuple[BlockPatch, ...]
    tokens: int
    base: str

    def __repr__(self) -> str:
        exact = "exact" if self.exact else "not exact"
        return (
            f"Patch({self.mode}, {len(self.blocks)} blocks, {self.tokens} query tokens, {exact}, {self.nbytes} bytes)"
        )

    @property
    def exact(self) -> bool:
        """Whether the last block could be solved exactly: it corrects the errors of those before it."""
        return self.blocks[-1].exact

    @property
    def nbytes(self) -> int:
        """Bytes of the factors."""
        parts = [u for b in self.blocks for u in (b.read, *b.added.values()) if u is not None]
        return sum(u.nbytes for u in parts) + sum(t.nbytes for b in self.blocks for t in b.moved.values())

    def parameters(self, model: Model | nn.Module, token: int | None = None) -> dict[str, Tensor]:
        """The changed parameters, dense: for one query token, or for all of them in static mode."""
        if isinstance(model, Model) and not model.is_base(self.base):
            raise InputError(f"This patch was made for other weights, or another dtype, than those of {model.name!r}.")
        net = as_model(model).model
        new: dict[str, Tensor] = {}
        for b in self.blocks:
            new.update(self._at(b, token).parameters(net))
        return new

    def changes(self, model: Model | nn.Module, token: int | None = None) -> Changes:
        """The changes by parameter, in factors of the mathematical shape `(out, in)`: for one query token, or for all
        of them in static mode. Experts that are stored together in one tensor are left out."""
        net = as_model(model).model
        return Changes(tuple(item for b in self.blocks for item in self._at(b, token).changes(net).items))

    @contextmanager
    def applied(self, model: Model | nn.Module, token: int | None = None) -> Iterator[nn.Module]:
        """`with patch.applied(model): model.model(...)`: the model's own forward with changed parameters.

        On leaving, also by an exception, the model holds the very same tensors as before. A patch in token mode is
        applied for one query token: `patch.applied(model, token=3)`.
        """
        net = as_model(model).model
        with exchanged(net, self.parameters(model, token)):
            yield net

    def report(self) -> list[dict[str, Any]]:
        """For each block: the size, rank, condition and residual of its changes."""
        return [
            {
                "block": b.block.name,
                "inputs": [c.name for c in b.block.inputs] if b.read is not None else [],
                "outputs": sorted({name for name, _ in b.added} | set(b.moved)),
                "rank": b.rank,
                "condition": b.condition,
                "residual": b.residual,
                "exact": b.exact,
                "amplification": b.amplification,
                "inversion": b.inversion,
                "read_norm": 0.0 if b.read is None else float(b.read.frobenius().max()),
                "added_norm": max(
                    (
                        *(float(u.frobenius().max()) for u in b.added.values()),
                        *(float(t.norm(dim=-1).max()) for t in b.moved.values()),
                    ),
                    default=0.0,
                ),
            }
            for b in self.blocks
        ]

    @property
    def warnings(self) -> list[str]:
        """Warnings, one sentence each: blocks that together amplify rounding beyond the tolerance."""
        gains = [1.0 if b.amplification is None else b.amplification for b in self.blocks]
        if not gains:
            return []
        # An error that rounding makes in block i is amplified by all blocks behind it.
        behind = list(accumulate(reversed(gains[1:]), operator.mul, initial=1.0))[::-1]
        worst = max(range(len(behind)), key=lambda i: behind[i])
        dtypes = [t.dtype for b in self.blocks for t in (*b.moved.values(), *(u.u for u in b.added.values()))]
        if not dtypes or torch.finfo(dtypes[0]).eps * behind[worst] <= TOLERANCE.get(dtypes[0], 1.0):
            return []
        return [
            f"The patched blocks behind {self.blocks[worst].block.name} amplify rounding errors {behind[worst]:.0e} "
            "times: the patch is exact here, but on another device or in larger batches logits may differ; float64 "
            "avoids that."
        ]

    def save(self, path: str | Path) -> Path:
        """Writes the patch to a file (safetensors)."""
        from inweights.models._patch_file import save

        return save(self, Path(path))

    @staticmethod
    def load(path: str | Path, model: Model | nn.Module) -> Patch:
        """Reads a patch that was made for this model."""
        from inweights.models._patch_file import load_patch

        return load_patch(Path(path), as_model(model))

    def to_peft(self, model: Model | nn.Module, folder: str | Path, strength: float = 1.0) -> Path:
        """Writes a LoRA adapter, where the patch can be one; otherwise the error has the reason."""
        from inweights.models._export import to_peft

        return to_peft(self, as_model(model), Path(folder), strength)

    def _at(self, block: BlockPatch, token: int | None) -> BlockPatch:
        if self.mode == "static":
            if token is not None:
                raise InputError("A static patch serves all query tokens at once: leave `token` out.")
            return block
        if token is None:
            if self.tokens != 1:
                raise InputError(f"This patch has changes for {self.tokens} query tokens: say which, as in `token=0`.")
            token = 0
        if not 0 <= token < self.tokens:
            raise InputError(f"`token` is {token}, but this patch was made for {self.tokens} query tokens.")
        return block.at(token)


@overload
def patch(prompt: Prompt, mode: Mode = "token", *, inversion: Inversion = "best") -> Patch: ...
@overload
def patch(prompt: Sequence[Prompt], mode: Mode = "token", *, inversion: Inversion = "best") -> list[Patch]: ...
def patch(
    prompt: Prompt | Sequence[Prompt], mode: Mode = "token", *, inversion: Inversion = "best"
) -> Patch | list[Patch]:
    """The patch that replaces the folded tokens of a prompt.

    **Arguments:**

    - `prompt`: an `iw.Prompt`; a list of them gives a list of patches.
    - `mode`: `"token"`, `"static"` or `"output"`; see `Patch`.
    - `inversion`: in token mode, how a norm on the branch (as in Gemma) is inverted: `"naive"`, `"stable"` or
      `"balanced"` (see `_branch_norm.py`), or `"best"`: whichever has the smallest error in each block.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2", dtype="float64")
    prompt = iw.Prompt(m, context="My name is Bob. ", query="I am")
    patch = iw.patch(prompt, mode="static")  # one change for all query tokens
    print(patch.mode, len(patch.blocks), patch.exact)
    # prints static 30 True
    ```
    """
    if not isinstance(prompt, Prompt):
        return [patch(p, mode, inversion=inversion) for p in prompt]
    if mode not in ("token", "static", "output"):
        raise InputError(f"`mode` is {mode!r}, but must be 'token', 'static' or 'output'.")
    if inversion not in get_args(Inversion):
        raise InputError(f"`inversion` is {inversion!r}, but must be one of {', '.join(get_args(Inversion))}.")
    model, fixes = prompt.model, ("a shorter --context or --query",)
    needed = patch_memory(model, prompt.ids.shape[1], len(prompt.left), prompt.asked)
    needed.require(memory_fixes(model.device, *fixes, dtype=model.dtype))
    return Patch(mode, solved(prompt, mode, inversion), prompt.asked, model.fingerprint)


def solved(
    prompt: Prompt, mode: Mode, inversion: Inversion = "best", *, measure: bool = True
) -> tuple[BlockPatch, ...]:
    """The changes of each block; with the amplification of each, if `measure`."""
    model = prompt.model
    require_supported(model)
    with full_precision(model.model):
        wanted, _ = goals(model.model, model.anatomy, prompt.ids, prompt.query_rows)
        blocks = solve_patches(
            model.model,
            model.anatomy,
            wanted,
            prompt.reduced_ids,
            prompt.reduced_positions,
            prompt.reduced_rows,
            mode,
            inversion,
            measure=measure,
        )
    return tuple(blocks)


def require_supported(model: Model) -> None:
    """Raises an error before any work if the model cannot be patched."""
    if not model.anatomy.supported:
        reasons = "; ".join(f"{b.name}: {b.reason}" for b in model.anatomy.blocks if b.reason)
        raise InputError(f"The last block of this model cannot be patched ({reasons}).")
