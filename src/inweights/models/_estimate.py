"""How much memory patching, proving, generating and tracing take, from a model's sizes; and work that is refused.

Counted are tensors that live at the same time. What the interpreter, the libraries and the loaded weights take is
read off the process itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from inweights._errors import InputError
from inweights.models._device import present
from inweights.models._memory import available_memory, peak_memory, used_memory
from inweights.models._model import Model
from inweights.running import Block, vocabulary

GIB = 1 << 30
PIECE = 64
"""How many copies of the query `trace` packs into one forward."""

Terms = dict[str, int]
"""Bytes by what takes them."""


@dataclass(frozen=True)
class Estimate:
    """The memory of some work, in bytes.

    - `terms`: what is needed beyond what the process holds already, at the moment at which that is most.
    - `used`: bytes that it holds now, and `past`: the most that it has held (loading a model may take more than using
      it).
    - `device`: the device of this memory.
    """

    terms: Terms
    used: int
    past: int
    device: torch.device

    @property
    def extra(self) -> int:
        return sum(self.terms.values())

    @property
    def peak(self) -> int:
        """The most that the process will have held in the end."""
        return max(self.past, self.used + self.extra)

    def require(self, fixes: Iterable[str]) -> Estimate:
        """Refuses work that takes more than is available; `fixes` are the options that would help."""
        left = available_memory(self.device)
        if left is not None and self.extra > left:
            largest = sorted(self.terms, key=lambda name: -self.terms[name])[:2]
            listed = ", ".join(f"{name} {self.terms[name] / GIB:.1f}" for name in largest)
            raise InputError(
                f"This needs about {self.extra / GIB:.1f} GiB of memory more ({listed}), but {left / GIB:.1f} GiB are "
                f"available on {self.device}: try {', '.join(fixes)}."
            )
        return self


@dataclass(frozen=True)
class Sizes:
    """The sizes on which the memory of a forward depends, counted in numbers of `item` bytes.

    - `width`, `layers`, `heads`, `vocabulary`: as in the configuration.
    - `queries`: numbers in the queries of one token, all heads together; `keys`: in its keys and values, all layers.
    - `inner`: numbers that the widest MLP holds for one token at a time.
    - `factors`: numbers in the updates of one query token, all blocks.
    - `changed`: bytes of all parameters that a patch changes.
    - `scores`: whether attention forms its scores, heads × n², instead of going through them in tiles.
    - `masked`: from how many tokens on attention is given a mask, n × n.
    """

    item: int
    width: int
    layers: int
    heads: int
    vocabulary: int
    queries: int
    keys: int
    inner: int
    factors: int
    changed: int
    scores: bool
    masked: int

    def forward(self, tokens: int, batch: int = 1) -> Terms:
        """One forward without gradients, its logits apart: the MLP or the attention, whichever takes more."""
        mlp = 3 * self.width + self.inner
        attention = 2 * self.width + 6 * self.queries
        pairs = batch * tokens * tokens
        terms = {"activations": batch * tokens * max(mlp, attention) * self.item}
        if self.scores:
            # Scores and their softmax; the latter is computed in float32 at least, from a copy.
            low = 4 + self.item if self.item < 4 else self.item
            terms["attention scores"] = pairs * (self.heads * (self.item + low) + self.item)
        elif tokens > self.masked or batch > 1:
            terms["attention mask"] = pairs * (1 + self.item)
        return terms

    def logits(self, rows: int) -> int:
        return rows * self.vocabulary * self.item


def model_sizes(model: Model) -> Sizes:
    """The sizes of a loaded model, from its configuration and its anatomy."""
    net, config = model.model, _text_config(model)
    width = _number(config, "hidden_size") or next(net.parameters()).shape[-1]
    layers = _number(config, "num_hidden_layers") or len(model.anatomy.blocks)
    heads = _number(config, "num_attention_heads")
    head = _number(config, "head_dim") or (width // heads if heads else 0)
    shared = _number(config, "num_key_value_heads") or heads
    item = next(net.parameters()).element_size()
    blocks = [b for b in model.anatomy.blocks if b.supported]
    widths = [_widths(model, b) for b in blocks]
    names = {c.name for b in blocks for c in (*b.inputs, *b.outputs)}
    return Sizes(
        item, width, layers, heads, vocabulary(net), queries=heads * head, keys=2 * layers * shared * head,
        inner=max((read + last for read, last in widths), default=0),
        factors=sum(5 * width + last for _, last in widths),
        changed=sum(net.get_parameter(name).nbytes for name in names),
        scores=_forms_scores(model), masked=_number(config, "sliding_window") or model.window,
    )  # fmt: skip


def _number(config: Any, name: str) -> int:
    """A size of a configuration; 0 where it has none, or one for each layer (reading which fails for some)."""
    try:
        value = getattr(config, name, None)
    except Exception:
        return 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def patch_memory(model: Model, tokens: int, left: int, asked: int) -> Estimate:
    """The memory of a patch and its proof, in any mode.

    `tokens` are read with the context, `left` without it, and `asked` of them are the query. All changed matrices of
    all blocks are held at once in a proof; of the logits only those of the query are formed.
    """
    s = model_sizes(model)
    logits = s.logits(asked)
    phases: list[Terms] = [
        {**s.forward(tokens), "logits": 2 * logits},
        # Solving differentiates one block at a time, over what is left of the prompt.
        {**_times(3, s.forward(left)), "changed weights": 2 * s.changed // max(1, s.layers), "logits": logits},
        {**s.forward(left), "changed weights": s.changed, "logits": 3 * logits},
        {"logits": 5 * logits},  # three kinds of logits, a difference and its size
    ]
    return estimate(model, _largest(phases), {"updates": asked * s.factors * s.item})


def generate_memory(model: Model, tokens: int, new_tokens: int) -> Estimate:
    """The memory of generating: prompted and patched stream side by side, a batch of two, over keys and values."""
    s = model_sizes(model)
    total = tokens + new_tokens
    held = {"keys and values": 2 * total * s.keys * s.item, "logits": 2 * s.logits(2)}
    return estimate(model, s.forward(tokens, batch=2), held)


def trace_memory(model: Model, tokens: int, asked: int, folded: int) -> Estimate:
    """The memory of a trace: the factors of the updates of every prefix, joined in the end, dominate it."""
    s = model_sizes(model)
    copies = min(PIECE, folded + 1) * asked
    pairs = copies * (tokens + copies)
    blocks = [_widths(model, b) for b in model.anatomy.blocks if b.supported]
    factors = (folded + 1) * sum(read + last + 2 * s.width for read, last in blocks) * s.item
    packed = {**s.forward(copies), "attention mask": pairs * (2 * s.item + 1), "logits": s.logits(copies)}
    if s.scores:
        packed["attention scores"] = 2 * pairs * s.heads * s.item
    held = {"keys and values": tokens * s.keys * s.item, "updates of all prefixes": factors}
    joined = {"joined updates": factors}
    return estimate(model, _largest([s.forward(tokens), packed, joined]), held)


def require_weights_memory(count: int, dtype: torch.dtype, device: torch.device) -> None:
    """Refuses weights that do not fit, before they are read.

    (On their way to a GPU they are in the memory of the CPU first.)
    """
    for place in {torch.device("cpu"), device}:
        needed = Estimate({"weights": count * dtype.itemsize}, used_memory(place), peak_memory(place), place)
        needed.require(memory_fixes(place, "a smaller --model", dtype=dtype))


def memory_fixes(device: torch.device, *options: str, dtype: torch.dtype | None = None) -> list[str]:
    """Ways to need less memory: a shorter number format than `dtype`, options of the command, another device."""
    below = {torch.float64: "float32", torch.float32: "bfloat16"}
    shorter = [f"--dtype {below[dtype]}"] if dtype in below else []
    others = [name for name in present() if name.partition(":")[0] != device.type]
    elsewhere = f"--device {others[-1]}" if others else "a machine with more memory"
    return [*shorter, *options, f"or {elsewhere}"]


def estimate(model: Model, *terms: Mapping[str, int]) -> Estimate:
    """The estimate of work that holds all these terms at once, on top of what the process holds now."""
    summed: Terms = {}
    for some in terms:
        for name, size in some.items():
            summed[name] = summed.get(name, 0) + size
    return Estimate(summed, used_memory(model.device), peak_memory(model.device), model.device)


def _largest(phases: Iterable[Terms]) -> Terms:
    return max(phases, key=lambda terms: sum(terms.values()))


def _times(factor: int, terms: Terms) -> Terms:
    return {name: factor * size for name, size in terms.items()}


def _text_config(model: Model) -> Any:
    config: Any = model.model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _widths(model: Model, block: Block) -> tuple[int, int]:
    """How many numbers a token's MLP makes of its input, all input matrices together, and how many its last reads."""

    def shape(name: str, transposed: bool) -> tuple[int, int]:
        out, into = model.model.get_parameter(name).shape[-2:]
        return (into, out) if transposed else (out, into)

    read = sum(shape(c.name, c.transposed)[0] for c in block.inputs)
    last = max((shape(c.name, c.transposed)[1] for c in block.outputs), default=0)
    return read or last, last


def _forms_scores(model: Model) -> bool:
    """Whether attention forms all its scores: eagerly, or in float64 on a GPU, for which there is no other kernel."""
    kind = getattr(_text_config(model), "_attn_implementation", None)
    return kind in (None, "eager") or (model.device.type != "cpu" and model.dtype == torch.float64)
