"""The model card of an adapter folder: README.md as the Hub and people read it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from inweights.folding._card import Card

_ORIGIN = {"smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Names of this package, and the Hub's names of the same models."""


def page(card: Card) -> str:
    """README.md: YAML front matter, then a description, a warning, how to load it, and its fidelity."""
    parts = [_front(card), _what(card), _leak(card), _use(card), _made(card), _measured(card)]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _front(card: Card) -> str:
    # The Hub accepts ids only here: the path of a folder would be refused, and disclosed.
    base = _ORIGIN.get(card.base, card.base if re.fullmatch(r"[\w.-]+/[\w.-]+", card.base) else "")
    lines = ["---", "library_name: peft"]
    # Strings of JSON are strings of YAML, whatever is in them.
    lines += [f"base_model: {json.dumps(base)}", "base_model_relation: adapter"] if base else []
    lines += ["pipeline_tag: text-generation", "tags:", "- lora", "- peft", "- inweights", "- folded-prompt", "---"]
    return "\n".join(lines)


def _what(card: Card) -> str:
    how = "a system prompt" if card.chat else "a text before the query"
    rows = [
        ("base model", _code(card.base) if card.base else "not known"),
        ("hash of the base weights", _code(card.base_fingerprint) if card.base_fingerprint else "not known"),
        ("sha256 of the prompt", _code(card.prompt_sha256) if card.prompt_sha256 else "not known"),
        ("tokens of the prompt", str(card.prompt_tokens)),
        ("method", _code(card.method) if card.method else "not known"),
        ("rank", str(card.rank)),
        ("strength", f"{card.strength:g}"),
    ]
    return (
        "# A folded prompt\n\n"
        f"This LoRA adapter replaces {how}: with it, the base model answers bare queries about as it did "
        "with the prompt before them. Made with `inweights fold`. It fits the weights named here and no others.\n\n"
        + _table(("", ""), rows)
    )


def _leak(card: Card) -> str:
    text = (
        "## It leaks its prompt\n\n"
        "**A folded adapter is not a safe place for a secret.** The weights have the effect of the prompt, and the "
        "prompt can be extracted by asking the model. Whoever has this folder can learn the prompt."
    )
    if card.prompt is None:
        return text + " Its text is not in this folder; its hash is."
    # A fence longer than any in the prompt: no prompt can end it.
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", card.prompt)), default=0))
    return f"{text} Its text was put in on purpose:\n\n{fence}text\n{card.prompt}\n{fence}"


def _use(card: Card) -> str:
    base = json.dumps(card.base or "BASE")
    turn = "Send the query alone."
    if card.chat:
        turn = (
            "Send the user's turn with no system turn before it. Some chat templates put one of their own in when "
            "there is none: then send the text without it, to a completion endpoint."
        )
    return f"""## How to load it

{turn} `ADAPTER` is this folder, `BASE` the folder or id of the base model.

PEFT:

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("BASE"), "ADAPTER")
```

A checkpoint with the adapter merged in, and an adapter for llama.cpp (`--strength` scales either):

```
inweights export ADAPTER --model {base} --format merged --out MERGED
inweights export ADAPTER --model {base} --format gguf --out adapter.gguf
llama-server -m base.gguf --lora adapter.gguf
```

vLLM:

```python
from vllm import LLM
from vllm.lora.request import LoRARequest

llm = LLM("BASE", enable_lora=True, max_lora_rank={served_rank(card.rank)})
llm.generate("QUERY", lora_request=LoRARequest("folded", 1, "ADAPTER"))
```"""


def served_rank(rank: int) -> int:
    """The smallest `max_lora_rank` that vLLM knows and that holds the adapter."""
    return next((r for r in (1, 8, 16, 32, 64, 128, 256, 320, 512) if r >= rank), rank)


def _made(card: Card) -> str:
    rows = [(_cell(k), _cell(v)) for k, v in card.calibration.items() if k != "seen"]
    rows += [("seed", str(card.seed))]
    rows += [(_cell(k), _cell(v)) for k, v in card.versions.items()]
    return "## How it was made\n\n" + _table(("", ""), rows)


def _measured(card: Card) -> str:
    if not card.fidelity:
        return "## How well it does\n\nNot measured."
    text = "## How well it does\n\nBrackets are bootstrap intervals."
    tables = {k: v for k, v in card.fidelity.items() if isinstance(v, dict) and not _is_interval(v)}
    alone = [(_cell(k), _number(v)) for k, v in card.fidelity.items() if k not in tables]
    for group in _alike(tables):
        measures = list(dict.fromkeys(m for v in group.values() for m in v))
        rows = [(_cell(who), *(_number(v.get(m)) for m in measures)) for who, v in group.items()]
        text += "\n\n" + _table(("", *map(_cell, measures)), rows)
    return text + ("\n\n" + _table(("measure", "value"), alone) if alone else "")


def _alike(tables: dict[str, dict[str, Any]]) -> list[dict[str, dict[str, Any]]]:
    """Rows that share a measure, together: one table for each such group."""
    groups: list[dict[str, dict[str, Any]]] = []
    for who, row in tables.items():
        home = next((g for g in groups if any(not row.keys().isdisjoint(r) for r in g.values())), None)
        if home is None:
            groups.append({who: row})
        else:
            home[who] = row
    return groups


def _is_interval(value: Any) -> bool:
    return isinstance(value, dict) and "low" in value and "high" in value


def _number(value: Any) -> str:
    if _is_interval(value):
        value = [value.get("value", value.get("mean")), value["low"], value["high"]]
    if isinstance(value, list | tuple) and len(value) == 3:
        return "{} [{}, {}]".format(*map(_number, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else _cell(value)


def _cell(value: Any) -> str:
    """Text for one cell: no line break, bar or tag can leave it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    for char, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|")):
        text = text.replace(char, safe)
    return text


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', '').split())}`".replace("|", "\\|")


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
