"""A tiny model that reads words: a task of made-up reviews, and weights strong enough that a context matters."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from inweights.compare import Shots
from inweights.compare._shots import tokenised
from inweights.data import DATA
from inweights.models import Model

NOUNS = ("film", "story", "cast", "score", "plot", "scene", "hero", "end")
VERBS = ("moves", "drags", "shines", "sinks", "sings", "stalls", "soars", "bores")
ROWS = [(f"{noun} {verb}", "positive" if k % 2 == 0 else "negative") for noun in NOUNS for k, verb in enumerate(VERBS)]


def tokenizer(texts: list[str]) -> Any:
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = sorted({word for text in texts for word, _ in cut.pre_tokenize_str(text)})
    raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<unk>", "<s>", *words])}, "<unk>"))
    raw.pre_tokenizer = cut
    raw.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", eos_token="<s>")


def reader(family: str = "llama", dtype: torch.dtype = torch.float64, seed: int = 0) -> Model:
    """Random weights; the tokenizer knows the words of `ROWS` in the form of reviews, digits and a comma."""
    data = DATA["sst2"]
    tok = tokenizer([*(data.shot(*row) + data.asks for row in ROWS), "0,1"])
    torch.manual_seed(seed)
    if family == "gpt2":
        config: Any = transformers.GPT2Config(
            n_embd=32, n_layer=4, n_head=4, vocab_size=len(tok), n_positions=512, initializer_range=0.2
        )
    else:
        config = transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=len(tok), max_position_embeddings=512, initializer_range=0.2, tie_word_embeddings=True,
        )  # fmt: skip
    net = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    return Model(net, tok, family)


def reviews(model: Model, demonstrations: int = 4, queries: int = 6, seed: int = 0) -> Shots:
    return tokenised(model.tokenizer, DATA["sst2"], ROWS, demonstrations, queries, seed)
