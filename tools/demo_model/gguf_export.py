"""Writes a trained demo model as GGUF: Q4_0 experts, Q8_0 dense matrices, F32 norms and routers.

Needs numpy only. The block formats are ggml's (ggml-quants.c).
"""

from __future__ import annotations

from pathlib import Path

import gguf_io
import numpy as np

BLOCK = 32  # elements that share a scale in Q4_0 and Q8_0
NORMAL_TOKEN, CONTROL_TOKEN = 1, 3
MOSTLY_Q4_0 = 2  # general.file_type

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# The tensors of a layer and their formats.
LAYER_TENSORS = {
    "attn_norm": "F32",
    "attn_q": "Q8_0",
    "attn_k": "Q8_0",
    "attn_v": "Q8_0",
    "attn_output": "Q8_0",
    "attn_q_norm": "F32",
    "attn_k_norm": "F32",
    "ffn_norm": "F32",
    "ffn_gate_inp": "F32",
    "ffn_gate_exps": "Q4_0",
    "ffn_up_exps": "Q4_0",
    "ffn_down_exps": "Q4_0",
}


def quantise_q8_0(weights: np.ndarray) -> bytes:
    """Blocks of 32: f16 scale = largest magnitude / 127, then 32 signed bytes."""
    x = weights.astype(np.float32).reshape(-1, BLOCK)
    scale = (np.abs(x).max(1) / 127).astype(np.float16)
    wide = scale.astype(np.float32)[:, None]
    codes = np.clip(np.rint(x / np.maximum(wide, 1e-12)), -127, 127)
    codes = np.where(wide > 0, codes, 0).astype(np.int8)
    return np.concatenate([scale.view(np.uint8).reshape(-1, 2), codes.view(np.uint8)], 1).tobytes()


def quantise_q4_0(weights: np.ndarray) -> bytes:
    """Blocks of 32: f16 scale = the value of largest magnitude / -8, then 32 codes of 4 bits.

    Byte i holds element i in its low half and i + 16 in its high half; 8 stands for 0.
    """
    x = weights.astype(np.float32).reshape(-1, BLOCK)
    largest = np.abs(x).argmax(1)
    scale = (x[np.arange(len(x)), largest] / -8).astype(np.float16)
    wide = scale.astype(np.float32)[:, None]
    codes = np.clip(np.rint(x / np.where(wide == 0, 1, wide)), -8, 7)
    codes = (np.where(wide == 0, 0, codes).astype(np.int8) + 8).astype(np.uint8)
    packed = codes[:, :16] | (codes[:, 16:] << 4)
    return np.concatenate([scale.view(np.uint8).reshape(-1, 2), packed], 1).tobytes()


ENCODERS = {
    "F32": lambda weights: weights.astype(np.float32).tobytes(),
    "Q4_0": quantise_q4_0,
    "Q8_0": quantise_q8_0,
}


def export(path: Path, config: dict, vocabulary: dict, tensors: dict[str, np.ndarray]) -> None:
    """Writes the model.

    config: the hyper-parameters of network.CONFIG. vocabulary: "tokens" in order of id, "merges",
    "special" (their texts) and the ids "bos", "eos" and "padding". tensors: float32 by GGUF name
    without ".weight", row-major.
    """
    writer = gguf_io.Writer()
    writer.add("general.architecture", "str", "qwen3moe")
    writer.add("general.name", "str", "Strata Demo 42M MoE")
    writer.add("general.file_type", "u32", MOSTLY_Q4_0)
    writer.add("general.quantization_version", "u32", 2)
    _add_hyperparameters(writer, config)
    _add_vocabulary(writer, vocabulary)
    kinds = {"token_embd": "Q8_0", "output_norm": "F32"}
    for layer in range(config["n_layer"]):
        kinds.update({f"blk.{layer}.{name}": kind for name, kind in LAYER_TENSORS.items()})
    for name, kind in kinds.items():
        weights = tensors[name]
        # GGUF names the dimensions from the innermost outwards.
        writer.add_tensor(
            f"{name}.weight", kind, weights.shape[::-1], lambda w=weights, k=kind: [ENCODERS[k](w)]
        )
    writer.write(path)


def _add_hyperparameters(writer: gguf_io.Writer, config: dict) -> None:
    counts = {
        "block_count": config["n_layer"],
        "context_length": config["ctx"],
        "embedding_length": config["d"],
        "feed_forward_length": config["ff"],
        "expert_feed_forward_length": config["ff"],
        "expert_count": config["n_exp"],
        "expert_used_count": config["top_k"],
        "attention.head_count": config["n_head"],
        "attention.head_count_kv": config["n_kv"],
        "attention.key_length": config["hd"],
        "attention.value_length": config["hd"],
    }
    for key, value in counts.items():
        writer.add(f"qwen3moe.{key}", "u32", value)
    writer.add("qwen3moe.attention.layer_norm_rms_epsilon", "f32", config["eps"])
    writer.add("qwen3moe.rope.freq_base", "f32", config["base"])


def _add_vocabulary(writer: gguf_io.Writer, vocabulary: dict) -> None:
    tokens, special = vocabulary["tokens"], set(vocabulary["special"])
    kinds = [CONTROL_TOKEN if token in special else NORMAL_TOKEN for token in tokens]
    writer.add("tokenizer.ggml.model", "str", "gpt2")
    writer.add("tokenizer.ggml.pre", "str", "qwen2")
    writer.add("tokenizer.ggml.tokens", "arr[str]", tokens)
    writer.add("tokenizer.ggml.token_type", "arr[i32]", kinds)
    writer.add("tokenizer.ggml.merges", "arr[str]", vocabulary["merges"])
    for name in ("bos", "eos", "padding"):
        writer.add(f"tokenizer.ggml.{name}_token_id", "u32", vocabulary[name])
    writer.add("tokenizer.ggml.add_bos_token", "bool", False)
    writer.add("tokenizer.chat_template", "str", CHAT_TEMPLATE)
