#!/usr/bin/env python3
"""Writes the seeds of the GGUF fuzzer: small files, valid and broken, that reach every field.

    python3 tools/make_gguf_corpus.py tests/fuzz/corpus/gguf_file_fuzz

The names start with "valid" or "broken"; a test holds the reader to that.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gguf_io import SCALARS, TENSOR_TYPES, Writer, tensor_bytes  # noqa: E402

SEPARATOR = b"\n--shard--\n"  # between the shards of one input


def zeros(type_name: str, ne: list[int]):
    return lambda: [bytes(tensor_bytes(type_name, ne))]


def written(writer: Writer) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return SEPARATOR.join(p.read_bytes() for p in writer.write(Path(folder) / "seed.gguf"))


def every_value() -> Writer:
    writer = Writer()
    for name in SCALARS:
        writer.add(f"v.{name}", name, 1)
        writer.add(f"a.{name}", f"arr[{name}]", [0, 1])
    writer.add("v.str", "str", "text")
    writer.add("a.str", "arr[str]", ["", "a", "\u20ac"])
    writer.add("a.empty", "arr[str]", [])
    return writer


def every_type() -> Writer:
    writer = Writer()
    for name, (_, elems, _) in TENSOR_TYPES.items():
        writer.add_tensor(name, name, [elems], zeros(name, [elems]))
    return writer


def small_model() -> Writer:
    writer = Writer()
    writer.add("general.architecture", "str", "qwen3moe")
    writer.add("tokenizer.ggml.tokens", "arr[str]", ["a", "b"])
    writer.add_tensor("output_norm.weight", "F32", [8], zeros("F32", [8]))
    writer.add_tensor("blk.0.ffn_gate_exps.weight", "Q4_0", [32, 2, 3], zeros("Q4_0", [32, 2, 3]))
    writer.add_tensor("four", "I8", [2, 1, 3, 2], zeros("I8", [2, 1, 3, 2]))
    return writer


def split_model() -> Writer:
    writer = small_model()
    writer.max_shard_bytes = 320
    return writer


def aligned(alignment: int) -> Writer:
    writer = small_model()
    writer.add("general.alignment", "u32", alignment)
    return writer


def seeds() -> dict[str, bytes]:
    model, split = written(small_model()), written(split_model())
    # In the model: 24 bytes of fixed header, then the key of the first entry.
    patched = {
        "broken-magic": b"GGML" + model[4:],
        "broken-version-1": model[:4] + struct.pack("<I", 1) + model[8:],
        "broken-big-endian": model[:4] + struct.pack(">I", 3) + model[8:],
        "broken-tensor-count": model[:8] + b"\xff" * 8 + model[16:],
        "broken-metadata-count": model[:16] + struct.pack("<Q", 1 << 32) + model[24:],
        "broken-key-length": model[:24] + b"\xff" * 8 + model[32:],
        "broken-key-twice": written(twice()),
        "broken-cut-header": model[:100],
        "broken-cut-data": model[:-64],
        "broken-alignment": written(aligned(33)),
        "broken-shard-missing": split.split(SEPARATOR)[0],
        "broken-shards-swapped": SEPARATOR.join(reversed(split.split(SEPARATOR))),
    }
    return {
        "valid-empty": written(Writer()),
        "valid-values": written(every_value()),
        "valid-types": written(every_type()),
        "valid-model": model,
        "valid-version-2": model[:4] + struct.pack("<I", 2) + model[8:],
        "valid-alignment": written(aligned(32)),
        "valid-split": split,
        **patched,
    }


def twice() -> Writer:
    writer = Writer()
    for _ in range(2):
        writer.add("k", "u8", 1)
    return writer


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds().items():
        (folder / name).write_bytes(data)
    print(f"{len(seeds())} seeds in {folder}")


if __name__ == "__main__":
    main()
