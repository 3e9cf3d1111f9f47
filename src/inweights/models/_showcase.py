"""The measurements of the demo: one prompt on the default model, proved, generated and traced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from inweights.models._generate import generate
from inweights.models._load import load
from inweights.models._patch import patch
from inweights.models._prompt import Prompt
from inweights.models._trace import Trace, trace
from inweights.models._verify import Proof, verify
from inweights.running import inputs, run

CONTEXT = "You are a pirate captain. Always answer in rough pirate speech, say Arrr and call the user matey. "
QUERY = "Hello! My name is"


@dataclass(frozen=True)
class Showcase:
    """The measurements.
    - `proofs`: by name, token and static mode in float64 and float32.
    - `words`: the continuations, prompted, bare and patched; `matching` the fraction of equal tokens.
    - `next_tokens`: the three most likely next tokens and their probabilities, prompted, bare and patched.
    """

    context: str
    query: str
    proofs: dict[str, Proof]
    words: dict[str, str]
    matching: float
    next_tokens: dict[str, list[tuple[str, float]]]
    trajectory: Trace

    @property
    def holds(self) -> bool:
        return all(p.verdict == "PASS" for p in self.proofs.values()) and self.matching == 1.0


def showcase(
    spec: str = "smollm2",
    context: str = CONTEXT,
    query: str = QUERY,
    *,
    device: str = "auto",
    after: Callable[[str], None] = lambda _: None,
) -> Showcase:
    """Proves, generates and traces; `after` is called with the name of each stage before it begins."""
    proofs: dict[str, Proof] = {}
    for dtype in ("float64", "float32"):
        after(f"loading {spec} in {dtype}")
        model = load(spec, dtype=dtype, device=device)
        prompt = Prompt(model, context, query)
        for mode in ("token", "static"):
            after(f"proving {mode} mode in {dtype}")
            proofs[f"{mode}, {dtype}"] = verify(prompt, patch(prompt, mode))
    after("generating")
    result = generate(prompt, 20)
    words = {name: model.tokenizer.decode(getattr(result, name)) for name in ("prompted", "bare", "patched")}
    after("following the weights through the context")
    return Showcase(context, query, proofs, words, result.matching, _next(prompt), trace(prompt))


def _next(prompt: Prompt) -> dict[str, list[tuple[str, float]]]:
    """The three most likely tokens after the query; patched by one change for the whole query."""
    net, left = prompt.model.model, prompt.reduced_ids
    again = inputs(net, left, prompt.reduced_positions)

    def top(logits: torch.Tensor) -> list[tuple[str, float]]:
        best = logits[0, -1].softmax(-1).topk(3)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [(prompt.model.tokenizer.decode([i]), p) for i, p in pairs]

    with torch.no_grad():
        generated = {"prompted": top(run(net, prompt.ids)), "bare": top(run(net, left, **again))}
        with patch(prompt, "static").applied(prompt.model):
            generated["patched"] = top(run(net, left, **again))
    return generated
