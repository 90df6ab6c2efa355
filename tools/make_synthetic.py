#!/usr/bin/env python3
"""Writes a random-weight MoE model of any geometry and type as GGUF, for speed runs and tests.

    python3 tools/make_synthetic.py OUT.gguf
        4 layers of Qwen3-30B-A3B's geometry, Q4_0 experts and Q8_0 elsewhere: 1.4 GB
    python3 tools/make_synthetic.py OUT.gguf --layers 2 --embd 64 --experts 8 --used 2 --ff 32 \\
            --heads 4 --kv-heads 2 --head-dim 16 --context 256 --vocab 320 --mixed
        a tiny model with another type in every matrix and a vocabulary of its own

The architecture is qwen3moe. The text such a model writes is noise, but its arithmetic is that of
a real one: weights are spread so that activations keep their size from layer to layer. The same
arguments give the same bytes. Needs Python's standard library only.
"""

from __future__ import annotations

import argparse
import math
import random
import struct
import sys
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gguf_io import TENSOR_TYPES, GgufError, Writer, read_header, tensor_bytes  # noqa: E402

DEMO_MODEL = Path(__file__).resolve().parent.parent / "data" / "strata-demo.gguf"
MIXED_TYPES = ["Q4_0", "Q8_0", "F16", "Q5_1", "Q4_K", "BF16", "Q6_K", "Q4_1", "F32", "Q5_0", "Q5_K"]

# The spread of weights at width 2048; others scale with 1/sqrt(width), so that a row's product
# with a normalised vector stays near 1.
SIGMA_AT_2048 = 0.0255
ROUTER_SIGMA_AT_2048 = 0.05

# ---- random blocks ----
#
# One function a type: a valid block whose weights have mean 0 (nearly, for the symmetric types)
# and the given spread. A block's scale varies by 30 % either way, as trained ones do.


def half(value: float) -> bytes:
    return struct.pack("<e", value)


def scale(rng: random.Random, mean: float) -> float:
    return mean * (0.7 + 0.6 * rng.random())


def spread(levels: int) -> float:
    """Standard deviation of an integer drawn evenly from `levels` neighbours."""
    return math.sqrt((levels * levels - 1) / 12)


def block_f32(rng: random.Random, sigma: float) -> bytes:
    return struct.pack("<f", rng.gauss(0, sigma))


def block_f16(rng: random.Random, sigma: float) -> bytes:
    return half(rng.gauss(0, sigma))


def block_bf16(rng: random.Random, sigma: float) -> bytes:
    return block_f32(rng, sigma)[2:]


def block_q4_0(rng: random.Random, sigma: float) -> bytes:
    return half(scale(rng, sigma / spread(16))) + rng.randbytes(16)


def block_q4_1(rng: random.Random, sigma: float) -> bytes:
    d = scale(rng, sigma / spread(16))
    return half(d) + half(-7.5 * d) + rng.randbytes(16)


def block_q5_0(rng: random.Random, sigma: float) -> bytes:
    return half(scale(rng, sigma / spread(32))) + rng.randbytes(20)


def block_q5_1(rng: random.Random, sigma: float) -> bytes:
    d = scale(rng, sigma / spread(32))
    return half(d) + half(-15.5 * d) + rng.randbytes(20)


def block_q8_0(rng: random.Random, sigma: float) -> bytes:
    return half(scale(rng, sigma / spread(256))) + rng.randbytes(32)


def packed_scales(rng: random.Random) -> bytes:
    """The 12 bytes of Q4_K and Q5_K: 8 scales of 6 bits and 8 minimums close to them."""
    scales = [rng.randint(32, 63) for _ in range(8)]
    mins = [min(63, max(0, s + rng.randint(-3, 3))) for s in scales]
    low = bytes(scales[j] | (scales[j + 4] >> 4) << 6 for j in range(4))
    middle = bytes(mins[j] | (mins[j + 4] >> 4) << 6 for j in range(4))
    high = bytes(scales[j + 4] & 15 | (mins[j + 4] & 15) << 4 for j in range(4))
    return low + middle + high


MEAN_SCALE = 48.4  # root of the mean square of the scales above


def block_q4_k(rng: random.Random, sigma: float) -> bytes:
    d = scale(rng, sigma / (MEAN_SCALE * spread(16)))
    return half(d) + half(7.5 * d) + packed_scales(rng) + rng.randbytes(128)


def block_q5_k(rng: random.Random, sigma: float) -> bytes:
    d = scale(rng, sigma / (MEAN_SCALE * spread(32)))
    return half(d) + half(15.5 * d) + packed_scales(rng) + rng.randbytes(160)


def block_q6_k(rng: random.Random, sigma: float) -> bytes:
    scales = [rng.choice((-1, 1)) * rng.randint(40, 127) for _ in range(16)]
    d = scale(rng, sigma / (87.2 * spread(64)))  # 87.2: root of the mean square of these scales
    return rng.randbytes(192) + struct.pack("<16b", *scales) + half(d)


BLOCKS: dict[str, Callable[[random.Random, float], bytes]] = {
    "F32": block_f32, "F16": block_f16, "BF16": block_bf16, "Q4_0": block_q4_0,
    "Q4_1": block_q4_1, "Q5_0": block_q5_0, "Q5_1": block_q5_1, "Q8_0": block_q8_0,
    "Q4_K": block_q4_k, "Q5_K": block_q5_k, "Q6_K": block_q6_k,
}


class Pool:
    """Random blocks of one type, used round and round: drawing gigabytes afresh takes minutes.

    The number of blocks is prime, so no two rows of a matrix are alike, and every tensor goes on
    where the one before stopped, so no two tensors are alike either.
    """

    def __init__(self, type_name: str, sigma: float, rng: random.Random) -> None:
        elems = TENSOR_TYPES[type_name][1]
        count = {1: 65521, 32: 8191, 256: 2039}[elems]
        self.size = count * TENSOR_TYPES[type_name][2]
        data = b"".join(BLOCKS[type_name](rng, sigma) for _ in range(count))
        self.data = memoryview(data * (1 + (4 << 20) // self.size))  # fewer, larger writes
        self.at = 0

    def take(self, size: int) -> Iterator[memoryview]:
        while size > 0:
            piece = self.data[self.at:self.at + size]
            yield piece
            size -= len(piece)
            self.at = (self.at + len(piece)) % self.size


# ---- vocabularies ----


def byte_alphabet() -> list[str]:
    """The printable characters that stand for the bytes 0..255 in byte-level BPE vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def letter_words(count: int) -> list[str]:
    """aa, ab .. zz, aaa, ...: each is an earlier word, or a letter, and one more letter."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words: list[str] = []
    stems = letters
    while len(words) < count:
        stems = [stem + letter for stem in stems for letter in letters][:count - len(words)]
        words += stems
    return words


SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SMALLEST_VOCABULARY = 256 + len(SPECIAL_TOKENS)


def add_own_vocabulary(writer: Writer, size: int) -> None:
    """The bytes, words that merge letter by letter, and the special tokens."""
    words = letter_words(size - SMALLEST_VOCABULARY)
    tokens = byte_alphabet() + words + SPECIAL_TOKENS
    writer.add("tokenizer.ggml.model", "str", "gpt2")
    writer.add("tokenizer.ggml.pre", "str", "qwen2")
    writer.add("tokenizer.ggml.tokens", "arr[str]", tokens)
    kinds = [1] * (size - len(SPECIAL_TOKENS)) + [3] * len(SPECIAL_TOKENS)
    writer.add("tokenizer.ggml.token_type", "arr[i32]", kinds)
    writer.add("tokenizer.ggml.merges", "arr[str]", [f"{word[:-1]} {word[-1]}" for word in words])
    writer.add("tokenizer.ggml.bos_token_id", "u32", tokens.index("<|endoftext|>"))
    writer.add("tokenizer.ggml.eos_token_id", "u32", tokens.index("<|im_end|>"))
    writer.add("tokenizer.ggml.padding_token_id", "u32", tokens.index("<|endoftext|>"))
    writer.add("tokenizer.ggml.add_bos_token", "bool", False)


def copy_vocabulary(writer: Writer, path: Path) -> int:
    """Every tokenizer.* entry of another model; the size of its vocabulary."""
    header = read_header(path)
    tokens = header.value("tokenizer.ggml.tokens")
    if tokens is None:
        raise GgufError(f"{path}: it has no tokenizer.ggml.tokens to copy")
    for entry in header.metadata:
        if entry.key.startswith("tokenizer."):
            writer.add_raw(entry)
    return len(tokens)


# ---- the model ----


class Tensor(NamedTuple):
    name: str
    ne: list[int]
    role: str  # norm, router, dense, experts, down, embedding, head


def tensors_of(args: argparse.Namespace, vocabulary: int) -> list[Tensor]:
    """All tensors of a qwen3moe model, in the order of the file."""
    embd, head_dim = args.embd, args.head_dim
    q, kv = args.heads * head_dim, args.kv_heads * head_dim
    tensors = [Tensor("token_embd.weight", [embd, vocabulary], "embedding"),
               Tensor("output_norm.weight", [embd], "norm")]
    if args.untied:
        tensors.append(Tensor("output.weight", [embd, vocabulary], "head"))
    layer_tensors = [
        ("attn_norm", [embd], "norm"),
        ("attn_q", [embd, q], "dense"),
        ("attn_k", [embd, kv], "dense"),
        ("attn_v", [embd, kv], "dense"),
        ("attn_output", [q, embd], "dense"),
        ("attn_q_norm", [head_dim], "norm"),
        ("attn_k_norm", [head_dim], "norm"),
        ("ffn_norm", [embd], "norm"),
        ("ffn_gate_inp", [embd, args.experts], "router"),
        ("ffn_gate_exps", [embd, args.ff, args.experts], "experts"),
        ("ffn_up_exps", [embd, args.ff, args.experts], "experts"),
        ("ffn_down_exps", [args.ff, embd, args.experts], "down"),
    ]
    for layer in range(args.layers):
        tensors += [Tensor(f"blk.{layer}.{name}.weight", ne, role)
                    for name, ne, role in layer_tensors]
    return tensors


def type_of(tensor: Tensor, matrix: int, args: argparse.Namespace) -> str:
    """The type the arguments ask for; with --mixed, that of the matrix of this number."""
    if tensor.role in ("norm", "router"):
        return "F32"
    if args.mixed:
        fitting = [t for t in MIXED_TYPES if tensor.ne[0] % TENSOR_TYPES[t][1] == 0]
        return fitting[matrix % len(fitting)]
    return {"dense": args.dense_type, "experts": args.expert_type,
            "down": args.down_type or args.expert_type, "head": args.head_type,
            "embedding": args.dense_type if args.untied else args.head_type}[tensor.role]


class Weights:
    """Data for tensors of any role and type."""

    def __init__(self, width: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.narrowing = math.sqrt(2048 / width)
        self.pools: dict[tuple[str, float], Pool] = {}

    def chunks(self, tensor: Tensor, type_name: str) -> Iterator[bytes | memoryview]:
        if tensor.role == "norm":
            values = [1 + self.rng.gauss(0, 0.1) for _ in range(tensor.ne[0])]
            yield struct.pack(f"<{len(values)}f", *values)
            return
        sigma = ROUTER_SIGMA_AT_2048 if tensor.role == "router" else SIGMA_AT_2048
        kind = (type_name, sigma * self.narrowing)
        if kind not in self.pools:
            self.pools[kind] = Pool(*kind, self.rng)
        yield from self.pools[kind].take(tensor_bytes(type_name, tensor.ne))


def add_geometry(writer: Writer, args: argparse.Namespace) -> None:
    writer.add("general.architecture", "str", "qwen3moe")
    writer.add("general.name", "str", "synthetic")
    for key, value in {
        "block_count": args.layers,
        "context_length": args.context,
        "embedding_length": args.embd,
        "feed_forward_length": args.ff,
        "expert_feed_forward_length": args.ff,
        "expert_count": args.experts,
        "expert_used_count": args.used,
        "attention.head_count": args.heads,
        "attention.head_count_kv": args.kv_heads,
        "attention.key_length": args.head_dim,
        "attention.value_length": args.head_dim,
    }.items():
        writer.add(f"qwen3moe.{key}", "u32", value)
    writer.add("qwen3moe.attention.layer_norm_rms_epsilon", "f32", 1e-6)
    writer.add("qwen3moe.rope.freq_base", "f32", 1e6)


def token_bytes(tensor: Tensor, size: int, args: argparse.Namespace) -> int:
    """How much of a tensor the decoding of one token reads."""
    if tensor.role in ("experts", "down"):
        return size * args.used // args.experts
    return 0 if tensor.role == "embedding" and args.untied else size


def make(args: argparse.Namespace) -> None:
    writer = Writer(args.split_bytes)
    add_geometry(writer, args)
    vocabulary = args.vocab
    if vocabulary:
        add_own_vocabulary(writer, vocabulary)
    else:
        vocabulary = copy_vocabulary(writer, args.vocab_from)
    weights = Weights(args.embd, args.seed)
    read_per_token = 0
    matrices = 0
    for tensor in tensors_of(args, vocabulary):
        type_name = type_of(tensor, matrices, args)
        matrices += tensor.role not in ("norm", "router")
        try:
            size = tensor_bytes(type_name, tensor.ne)
        except GgufError as error:
            raise GgufError(f"{tensor.name}: {error}; choose another type for it") from error
        read_per_token += token_bytes(tensor, size, args)
        writer.add_tensor(tensor.name, type_name, tensor.ne,
                          lambda t=tensor, n=type_name: weights.chunks(t, n))
    for path in writer.write(args.out):
        print(f"{path}: {path.stat().st_size / 1e9:.3f} GB")
    print(f"one token reads {read_per_token / 1e6:.1f} MB of weights")


# ---- arguments ----


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def byte_count(text: str) -> int:
    """A number with K, M or G (powers of 1024) behind it if you like."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper())
    return positive(text[:-1]) * unit if unit else positive(text)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    shape = parser.add_argument_group("geometry (defaults: Qwen3-30B-A3B with 4 layers)")
    for name, default, meaning in [
        ("layers", 4, "layers"),
        ("embd", 2048, "width of the residual stream"),
        ("experts", 128, "experts in a layer"),
        ("used", 8, "experts a token goes through"),
        ("ff", 768, "width of an expert"),
        ("heads", 32, "query heads"),
        ("kv-heads", 4, "key and value heads"),
        ("head-dim", 128, "width of a head"),
        ("context", 4096, "longest context the metadata states"),
    ]:
        shape.add_argument(f"--{name}", type=positive, default=default, metavar="N",
                           help=f"{meaning} ({default})")
    tied = shape.add_mutually_exclusive_group()
    tied.add_argument("--tied", dest="untied", action="store_false",
                      help="the embedding matrix is also the head (default)")
    tied.add_argument("--untied", dest="untied", action="store_true",
                      help="the head is a matrix of its own, output.weight")
    parser.set_defaults(untied=False)
    types = parser.add_argument_group("types: " + " ".join(BLOCKS))
    for name, default, meaning in [
        ("expert", "Q4_0", "gate and up of the experts (Q4_0)"),
        ("down", None, "down of the experts (as --expert-type)"),
        ("dense", "Q8_0", "attention, and with --untied the embedding (Q8_0)"),
        ("head", "Q8_0", "the matrix the logits come from (Q8_0)"),
    ]:
        types.add_argument(f"--{name}-type", type=str.upper, choices=list(BLOCKS), default=default,
                           metavar="TYPE", help=meaning)
    types.add_argument("--mixed", action="store_true",
                       help="another type in every matrix, whatever the options above say: "
                            "for tests")
    vocabulary = parser.add_argument_group("vocabulary").add_mutually_exclusive_group()
    vocabulary.add_argument("--vocab-from", type=Path, default=DEMO_MODEL, metavar="FILE",
                            help="copy the tokenizer of this GGUF file (the demo model)")
    vocabulary.add_argument("--vocab", type=positive, metavar="N",
                            help="make a byte-level BPE vocabulary of N tokens: 256 bytes, "
                                 f"{len(SPECIAL_TOKENS)} special tokens, the rest words of letters")
    parser.add_argument("--seed", type=int, default=1, help="of the random weights (1)")
    parser.add_argument("--split-bytes", type=byte_count, default=0, metavar="N",
                        help="split into files of at most N bytes; N may end in K, M or G")
    args = parser.parse_args(argv)
    if args.used > args.experts:
        parser.error(f"--used {args.used} is more than --experts {args.experts}")
    if args.heads % args.kv_heads:
        parser.error(f"--heads {args.heads} is no multiple of --kv-heads {args.kv_heads}")
    if args.head_dim % 2:
        parser.error(f"--head-dim {args.head_dim} is odd: positions rotate pairs")
    if args.vocab and args.vocab < SMALLEST_VOCABULARY:
        parser.error(f"--vocab {args.vocab} is too small: the bytes and the special tokens "
                     f"alone are {SMALLEST_VOCABULARY}")
    return args


def main() -> int:
    try:
        make(parse_arguments())
    except (GgufError, OSError) as error:
        print(f"make_synthetic.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
