"""`tiny`: a small random model of any causal language model family, for proofs without a download."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from inweights._errors import InputError, unknown

SHALLOW = 3
"""How many layers a tiny model has, where the family has fewer kinds of layers than that."""

_SIZES: dict[str, Any] = {
    size: value
    for value, sizes in (
        (99, "vocab_size decoder_vocab_size vocab_size_per_layer_input audio_vocab_size"),
        (64, "max_position_embeddings n_positions max_seq_len n_ctx max_target_positions context_length"),
        (32, "hidden_size n_embd d_model embedding_size emb_dim embedding_dim lru_width"),
        (32, "shared_intermediate_size ple_embed_dim hidden_size_global shape_embed_dim pronunciation_embed_dim"),
        (99, "shape_vocab_size pronunciation_vocab_size encoder_hash_byte_group_vocab"),
        (1, "encoder_layers num_encoder_layers depth num_residual_layers"),
        (4, "num_attention_heads n_head num_heads n_heads attention_heads linear_num_heads"),
        (4, "decoder_attention_heads encoder_attention_heads num_decoder_attention_heads num_encoder_attention_heads"),
        (4, "swa_num_attention_heads"),
        (2, "num_key_value_heads num_kv_heads kv_n_heads num_global_key_value_heads swa_num_key_value_heads"),
        (8, "head_dim d_kv d_head dim_head attention_head_size global_head_dim swa_head_dim"),
        (8, "kv_channels linear_head_dim hidden_size_per_layer_input laurel_rank adapter_rank gated_norm_rank"),
        (64, "intermediate_size n_inner ffn_dim decoder_ffn_dim encoder_ffn_dim ffn_hidden_size d_inner dff dim_ff"),
        (64, "feed_forward_size intermediate_size_mlp dense_intermediate_size prefix_dense_intermediate_size"),
        (16, "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size"),
        (16, "expert_ffn_hidden_size router_hidden_size hc_lowrank d_rel"),
        (16, "nemo_conv_channels ext_pw_out_channel output_channels mlp_dim"),
        (4, "num_experts num_local_experts n_routed_experts moe_num_experts zero_expert_num"),
        (2, "num_experts_per_tok moe_topk moe_top_k moe_k top_k_experts num_experts_per_token"),
        (1, "n_group topk_group num_expert_group n_shared_experts num_shared_experts moe_num_shared_experts"),
        (1, "first_k_dense_replace num_dense_layers moe_layer_start_index"),
        # Multi-head latent attention.
        (16, "q_lora_rank kv_lora_rank qk_head_dim o_lora_rank"),
        (8, "qk_rope_head_dim qk_nope_head_dim v_head_dim"),
        (2, "o_groups"),
        # State space models and linear attention.
        (8, "mamba_n_heads mamba_num_heads mamba_d_head mamba_head_dim mamba_d_state state_size"),
        (8, "ssm_state_size mamba_chunk_size chunk_size linear_key_head_dim linear_value_head_dim block_size"),
        (64, "mamba_d_ssm"),
        (4, "mamba_dt_rank time_step_rank linear_num_value_heads"),
        (2, "linear_num_key_heads n_mamba_heads"),
        (1, "mamba_n_groups mamba_ngroups n_groups"),
        # Windows and indexers: 16 is more than a short prompt, so take a longer one where they should bite.
        (16, "sliding_window sliding_window_size attention_window_size attention_chunk_size index_head_dim index_topk"),
        (2, "index_n_heads"),
        # Every how many layers another kind of layer comes.
        (2, "attn_layer_period expert_layer_period no_rope_layer_interval global_attn_every_n_layers"),
        (1, "attn_layer_offset expert_layer_offset"),
        (4, "rotary_dim"),
        (0, "pad_token_id num_kv_shared_layers"),
        (1, "bos_token_id"),
        (2, "eos_token_id"),
    )
    for size in sizes.split()
}

_DEPTHS = {
    "num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers", "num_decoder_layers", "num_blocks",
}  # fmt: skip
"""How configurations call the number of layers."""

_FILLED = {
    "head_dim",
    "num_key_value_heads",
    "pad_token_id",
    "num_experts_per_tok",
    "n_routed_experts",
    "n_shared_experts",
    "eos_token_id",
}
"""Sizes that a default configuration may leave open, but a model needs."""

_QSA = {
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 16,
    "indexer_compress_ratio": 2, "ple_layer_ids": [3], "ngram_vocab_size_base": 50, "split_ngram_parts": 1,
    "make_ngram_vocab_size_divisible_by": 1,
}  # fmt: skip
_REFUSED = dict.fromkeys(
    ("gemma4_assistant", "gemma4_unified_assistant"), "it drafts on the cache of another model and takes no tokens"
)
"""Families that cannot run on tokens alone, whatever their sizes."""

_BOTH = ["sliding_attention", "full_attention", "full_attention"]
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}

_OVERRIDES: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "cohere_compass_text": {
        "layer_types": _BOTH,
        "rope_parameters": {"sliding_attention": _ROPE, "full_attention": _ROPE},
    },
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_v4": {"compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}},
    "gemma3n_text": {"num_kv_shared_layers": 2},
    "gemma4": {"text_config": {"global_head_dim": 16}},
    "gemma4_text": {
        "global_head_dim": 16,
        "enable_moe_block": True,
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 16,
    },
    "gemma4_unified": {"text_config": {"global_head_dim": 16}},
    "gemma4_unified_text": {"global_head_dim": 16},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention", "linear_attention"]},
    "inkling_text": {"logits_mup_width_multiplier": 1.0},
    "laguna": {"layer_types": _BOTH, "num_attention_heads_per_layer": None},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"]},
    "llama4": {"interleave_moe_layer_step": 2},
    "llama4_text": {"interleave_moe_layer_step": 2},
    "mamba2": {"num_heads": 8},
    "mellum": {"layer_types": _BOTH},
    "minimax_m3_vl_text": {"layer_types": ["full_attention", "minimax_m3_sparse", "full_attention"]},
    "mllama": {"cross_attention_layers": [1]},
    "musicgen": {"num_codebooks": 1},
    "musicgen_melody": {"num_codebooks": 1},
    "qwen4_exp": _QSA,
    "qwen4_exp_text": _QSA,
    "reformer": {"attn_layers": ["local", "lsh", "local"], "axial_pos_shape": (8, 8), "axial_pos_embds_dim": (16, 16)},
    "xlm": {"causal": True},
    "xlnet": {"attn_type": "uni"},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "num_hidden_layers": 4},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "num_hidden_layers": 4},
    "zaya": {"num_experts_per_tok": 1},
}
"""Settings of single families: sizes that depend on each other, kinds of layers that are off by default."""


def probe() -> torch.Tensor:
    """The text of the proofs on small models: 20 token ids that are in every vocabulary, `(1, 20)`."""
    return ((torch.arange(20) * 5 + 35) % 90 + 3).unsqueeze(0)


def tiny(model_type: str, seed: int = 0) -> nn.Module:
    """A small random float64 model of a family of transformers' causal language models, in evaluation mode.

    Every parameter is random, also those that start as zeros or ones. The same family and seed give the same model.
    """
    model = build(model_type, seed)
    _randomise(model, seed)
    return model


def build(model_type: str, seed: int = 0, layers: int = SHALLOW, tied: bool | None = None) -> nn.Module:
    """A small float64 model of a family with at least `layers` layers, its parameters as transformers starts them.

    `tied` sets whether embedding and head share their matrix, where the family has that choice.
    """
    import transformers
    from transformers.models.auto import modeling_auto

    families = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if model_type not in families:
        raise unknown("model family", model_type, families)
    if model_type in _REFUSED:
        raise InputError(f"No tiny {model_type!r} model can be made: {_REFUSED[model_type]}.")
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            kind = getattr(transformers, families[model_type])
            config = _shrunk(kind.config_class, _repeated(_OVERRIDES.get(model_type, {}), layers), layers, tied)
            model = kind._from_config(config, attn_implementation="eager", experts_implementation="eager")
        except Exception as e:
            reason = " ".join(str(e).split()).split(". ")[0].rstrip(".")
            raise InputError(f"No tiny {model_type!r} model can be made: {reason}.") from e
        return model.double().eval()


def _repeated(overrides: dict[str, Any], layers: int) -> dict[str, Any]:
    """The same overrides for more layers: lists that name a kind for each layer are repeated."""
    if layers <= SHALLOW:
        return overrides

    def longer(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return _repeated(value, layers)
        if key in _DEPTHS:
            return -(-layers // value) * value
        if isinstance(value, list) and len(value) >= SHALLOW and all(isinstance(v, str) for v in value):
            return value * -(-layers // len(value))
        return value

    return {key: longer(key, value) for key, value in overrides.items()}


def _shrunk(kind: Any, overrides: dict[str, Any], depth: int, tied: bool | None) -> Any:
    """A configuration of this class with small sizes.

    The sizes go through its constructor, so that whatever it derives from them stays consistent.
    """
    from transformers import PreTrainedConfig

    default = vars(kind())
    own = {k: v for k, v in overrides.items() if not isinstance(default.get(k), PreTrainedConfig)}
    given: dict[str, Any] = {}
    for key, value in default.items():
        if isinstance(value, PreTrainedConfig):
            given[key] = _shrunk(type(value), overrides.get(key, {}), depth, tied)
        elif key in _DEPTHS and value is not None:
            given[key] = depth
        elif key in _SIZES and not isinstance(value, bool) and (value is not None or key in _FILLED):
            given[key] = _SIZES[key]
        elif key == "is_decoder":
            given[key] = True
        elif key == "tie_word_embeddings" and tied is not None:
            given[key] = tied
    if "kv_lora_rank" in given:  # latent attention has no groups of heads
        given["num_key_value_heads"] = _SIZES["num_attention_heads"]
    return kind(**given | _layers(default, depth) | own)


def _layers(default: dict[str, Any], depth: int) -> dict[str, Any]:
    """As few layers as show every kind of layer, and at least `depth`, where the configuration lists the kinds."""
    count = next((default[k] for k in ("num_hidden_layers", "num_layers") if isinstance(default.get(k), int)), 0)
    # A list in which nothing comes twice holds the numbers of some layers: the constructor sets it again.
    lists = {
        k: v
        for k, v in default.items()
        if isinstance(v, list) and len(v) == count and k not in _SIZES and 1 <= len(set(v)) < len(v)
    }
    if not lists:
        return {}
    kinds = list(dict.fromkeys(zip(*lists.values(), strict=True)))
    layers = (kinds * depth)[: max(depth, len(kinds))]
    return {"num_hidden_layers": len(layers), **dict(zip(lists, map(list, zip(*layers, strict=True)), strict=True))}


def _randomise(model: nn.Module, seed: int) -> None:
    """Gaussian parameters: matrices that keep the size of what they act on, vectors around their first values."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=p.dtype)
            p.copy_(noise / p.shape[-1] ** 0.5 if p.ndim > 1 else p + 0.3 * noise)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses transformers' warnings about such unusual models."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
