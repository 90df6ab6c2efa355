"""Writes a trained demo model as GGUF: Q4_0 experts, Q8_0 dense matrices, F32 norms and routers.

Needs numpy only. The block formats are ggml's (ggml-quants.c), the file is GGUF version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

ALIGNMENT = 32
BLOCK = 32  # elements that share a scale in Q4_0 and Q8_0
# Types of metadata values.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
# Types of tensors.
F32, Q4_0, Q8_0 = 0, 2, 8
NORMAL_TOKEN, CONTROL_TOKEN = 1, 3
MOSTLY_Q4_0 = 2  # general.file_type

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# Tensors of a layer: name in the file, type. The trainer hands them over under the same names.
LAYER_TENSORS = {
    "attn_norm": F32,
    "attn_q": Q8_0,
    "attn_k": Q8_0,
    "attn_v": Q8_0,
    "attn_output": Q8_0,
    "attn_q_norm": F32,
    "attn_k_norm": F32,
    "ffn_norm": F32,
    "ffn_gate_inp": F32,
    "ffn_gate_exps": Q4_0,
    "ffn_up_exps": Q4_0,
    "ffn_down_exps": Q4_0,
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
    F32: lambda weights: weights.astype(np.float32).tobytes(),
    Q4_0: quantise_q4_0,
    Q8_0: quantise_q8_0,
}


class GgufFile:
    """Collects metadata and tensors, then writes one GGUF file."""

    def __init__(self) -> None:
        self._metadata: list[bytes] = []
        self._tensors: list[tuple[str, tuple[int, ...], int, bytes]] = []

    def add(self, key: str, kind: int, value) -> None:
        self._metadata.append(_text(key) + struct.pack("<i", kind) + _value(kind, value))

    def add_array(self, key: str, kind: int, values: Iterable) -> None:
        items = [_value(kind, value) for value in values]
        head = struct.pack("<iiQ", ARRAY, kind, len(items))
        self._metadata.append(_text(key) + head + b"".join(items))

    def add_tensor(self, name: str, weights: np.ndarray, kind: int) -> None:
        """weights: row-major; GGUF names the dimensions from the innermost outwards."""
        self._tensors.append((name, weights.shape[::-1], kind, ENCODERS[kind](weights)))

    def write(self, path: Path) -> None:
        table, offset = b"", 0
        for name, shape, kind, data in self._tensors:
            table += _text(name) + struct.pack("<I", len(shape))
            table += b"".join(struct.pack("<Q", size) for size in shape)
            table += struct.pack("<iQ", kind, offset)
            offset += len(data) + _padding(len(data))
        counts = struct.pack("<IQQ", 3, len(self._tensors), len(self._metadata))
        head = b"GGUF" + counts + b"".join(self._metadata) + table
        with open(path, "wb") as out:
            out.write(head + bytes(_padding(len(head))))
            for *_, data in self._tensors:
                out.write(data + bytes(_padding(len(data))))


def _padding(size: int) -> int:
    return -size % ALIGNMENT


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind: int, value) -> bytes:
    if kind == STRING:
        return _text(value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<B"}[kind], value)


def export(path: Path, config: dict, vocabulary: dict, tensors: dict[str, np.ndarray]) -> None:
    """Writes the model.

    config: the hyper-parameters of network.CONFIG. vocabulary: "tokens" in order of id, "merges",
    "special" (their texts) and the ids "bos", "eos" and "padding". tensors: float32 by GGUF name
    without ".weight".
    """
    gguf = GgufFile()
    gguf.add("general.architecture", STRING, "qwen3moe")
    gguf.add("general.name", STRING, "Strata Demo 42M MoE")
    gguf.add("general.file_type", UINT32, MOSTLY_Q4_0)
    gguf.add("general.quantization_version", UINT32, 2)
    _add_hyperparameters(gguf, config)
    _add_vocabulary(gguf, vocabulary)
    gguf.add_tensor("token_embd.weight", tensors["token_embd"], Q8_0)
    gguf.add_tensor("output_norm.weight", tensors["output_norm"], F32)
    for layer in range(config["n_layer"]):
        for name, kind in LAYER_TENSORS.items():
            gguf.add_tensor(f"blk.{layer}.{name}.weight", tensors[f"blk.{layer}.{name}"], kind)
    gguf.write(path)


def _add_hyperparameters(gguf: GgufFile, config: dict) -> None:
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
        gguf.add(f"qwen3moe.{key}", UINT32, value)
    gguf.add("qwen3moe.attention.layer_norm_rms_epsilon", FLOAT32, config["eps"])
    gguf.add("qwen3moe.rope.freq_base", FLOAT32, config["base"])


def _add_vocabulary(gguf: GgufFile, vocabulary: dict) -> None:
    tokens, special = vocabulary["tokens"], set(vocabulary["special"])
    kinds = [CONTROL_TOKEN if token in special else NORMAL_TOKEN for token in tokens]
    gguf.add("tokenizer.ggml.model", STRING, "gpt2")
    gguf.add("tokenizer.ggml.pre", STRING, "qwen2")
    gguf.add_array("tokenizer.ggml.tokens", STRING, tokens)
    gguf.add_array("tokenizer.ggml.token_type", INT32, kinds)
    gguf.add_array("tokenizer.ggml.merges", STRING, vocabulary["merges"])
    for name in ("bos", "eos", "padding"):
        gguf.add(f"tokenizer.ggml.{name}_token_id", UINT32, vocabulary[name])
    gguf.add("tokenizer.ggml.add_bos_token", BOOL, 0)
    gguf.add("tokenizer.chat_template", STRING, CHAT_TEMPLATE)
