"""A tiny model that can be talked to: every byte a token, turns as in SmolLM2."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from inweights.models import Model

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|im_end|>", "<|im_start|>", "<s>"]


def tokenizer(bos: bool = False) -> Any:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({c: i for i, c in enumerate([*SPECIAL, *alphabet])}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>" if bos else "<|im_start|>", eos_token="<|im_end|>"
    )
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = ("<s>" if bos else "") + TEMPLATE
    return made


def talker(family: str = "llama", dtype: torch.dtype = torch.float32, bos: bool = False, seed: int = 0) -> Model:
    """A tiny model with random weights, strong enough that a context matters."""
    torch.manual_seed(seed)
    if family == "gpt2":
        config: Any = transformers.GPT2Config(
            n_embd=32, n_layer=2, n_head=4, vocab_size=259, n_positions=1024, initializer_range=0.2,
            bos_token_id=1, eos_token_id=0,
        )  # fmt: skip
    else:
        config = transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=259, max_position_embeddings=2048, initializer_range=0.2, bos_token_id=1, eos_token_id=0,
        )  # fmt: skip
    net = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    net.requires_grad_(False)
    return Model(net, tokenizer(bos), family)
