"""Tests of tools/make_synthetic.py and tools/gguf_io.py.

python3 -m unittest discover -s tests/tools -p '*_test.py'
"""

import contextlib
import io
import math
import random
import struct
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import gguf_io  # noqa: E402
import make_synthetic  # noqa: E402

TINY = ["--layers", "2", "--embd", "64", "--experts", "4", "--used", "2", "--ff", "32",
        "--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--context", "128", "--vocab", "300"]


def make(out, *options):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        make_synthetic.make(make_synthetic.parse_arguments([str(out), *options]))
    return printed.getvalue()


# ---- weights of a block, written from the format's description alone ----


def half(block, at):
    return struct.unpack_from("<e", block, at)[0]


def nibbles(data):
    return [b & 15 for b in data] + [b >> 4 for b in data]


def k_scale(s, j):
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return s[j + 4] & 15 | (s[j - 4] >> 6) << 4, s[j + 4] >> 4 | (s[j] >> 6) << 4


def weights_of(name, b):
    d = half(b, 0) if len(b) > 2 else 0
    if name == "F32":
        return list(struct.unpack("<f", b))
    if name == "F16":
        return [half(b, 0)]
    if name == "BF16":
        return list(struct.unpack("<f", b"\0\0" + b))
    if name == "Q8_0":
        return [d * q for q in struct.unpack_from("<32b", b, 2)]
    if name == "Q4_0":
        return [d * (q - 8) for q in nibbles(b[2:])]
    if name == "Q4_1":
        return [d * q + half(b, 2) for q in nibbles(b[4:])]
    if name in ("Q5_0", "Q5_1"):
        start = 2 if name == "Q5_0" else 4
        (high,) = struct.unpack_from("<I", b, start)
        codes = [q | (high >> j & 1) << 4 for j, q in enumerate(nibbles(b[start + 4:]))]
        return [d * (q - 16) for q in codes] if start == 2 else [d * q + half(b, 2) for q in codes]
    if name in ("Q4_K", "Q5_K"):
        high = b[16:48] if name == "Q5_K" else bytes(32)
        codes = b[-128:]
        out = []
        for j in range(8):
            sc, m = k_scale(b[4:16], j)
            for i in range(32):
                q = codes[32 * (j // 2) + i] >> 4 * (j % 2) & 15 | (high[i] >> j & 1) << 4
                out.append(d * sc * q - half(b, 2) * m)
        return out
    if name == "Q6_K":
        d, scales = half(b, 208), struct.unpack_from("<16b", b, 192)
        out = []
        for i in range(256):
            n, quarter, l = i // 128, i // 32 % 4, i % 32
            low = b[64 * n + 32 * (quarter % 2) + l] >> 4 * (quarter // 2) & 15
            q = low | (b[128 + 32 * n + l] >> 2 * quarter & 3) << 4
            out.append(d * scales[8 * n + l // 16 + 2 * quarter] * (q - 32))
        return out
    raise AssertionError(name)


class Blocks(unittest.TestCase):
    def test_have_the_size_and_the_spread_asked_for(self):
        rng = random.Random(7)
        sigma = 0.0255
        for name, block in make_synthetic.BLOCKS.items():
            with self.subTest(name):
                _, elems, size = gguf_io.TENSOR_TYPES[name]
                values = []
                while len(values) < 20000:
                    data = block(rng, sigma)
                    self.assertEqual(len(data), size)
                    values += weights_of(name, data)
                    self.assertEqual(len(values) % elems, 0)
                mean = sum(values) / len(values)
                spread = math.sqrt(sum(v * v for v in values) / len(values))
                self.assertLess(abs(mean), sigma / 5)
                self.assertAlmostEqual(spread / sigma, 1, delta=0.1)

    def test_of_k_types_use_all_bits_of_scales_and_minimums(self):
        rng = random.Random(3)
        packed = [make_synthetic.packed_scales(rng) for _ in range(500)]
        for j in range(8):
            scales, mins = zip(*(k_scale(s, j) for s in packed))
            self.assertEqual((min(scales), max(scales)), (32, 63))
            self.assertTrue(any(s != m for s, m in zip(scales, mins)))
            self.assertTrue(all(abs(s - m) <= 3 for s, m in zip(scales, mins)))


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "m.gguf"

    def test_has_the_geometry_asked_for(self):
        printed = make(self.out, *TINY)
        header = gguf_io.read_header(self.out)
        self.assertEqual(header.value("general.architecture"), "qwen3moe")
        self.assertEqual(header.value("qwen3moe.block_count"), 2)
        self.assertEqual(header.value("qwen3moe.expert_used_count"), 2)
        self.assertEqual(header.value("qwen3moe.context_length"), 128)
        shapes = {t.name: (t.ne, t.type_name) for t in header.tensors}
        self.assertEqual(len(shapes), 2 + 2 * 12)
        self.assertEqual(shapes["token_embd.weight"], ([64, 300], "Q8_0"))
        self.assertEqual(shapes["blk.1.attn_k.weight"], ([64, 32], "Q8_0"))
        self.assertEqual(shapes["blk.1.attn_q_norm.weight"], ([16], "F32"))
        self.assertEqual(shapes["blk.1.ffn_gate_inp.weight"], ([64, 4], "F32"))
        self.assertEqual(shapes["blk.1.ffn_down_exps.weight"], ([32, 64, 4], "Q4_0"))
        dense = 64 * 300 + 2 * (64 * 64 * 2 + 64 * 32 * 2)
        experts = 2 * 3 * 2 * 64 * 32
        floats = 64 + 2 * (64 * 4 + 2 * 64 + 2 * 16)
        read = (dense * 34 + experts * 18) / 32 + floats * 4
        self.assertIn(f"one token reads {read / 1e6:.1f} MB", printed)

    def test_is_the_same_for_the_same_seed_only(self):
        make(self.out, *TINY)
        first = self.out.read_bytes()
        make(self.out, *TINY)
        self.assertEqual(self.out.read_bytes(), first)
        make(self.out, *TINY, "--seed", "2")
        self.assertNotEqual(self.out.read_bytes(), first)

    def test_no_two_tensors_are_alike(self):
        make(self.out, *TINY)
        data = self.out.read_bytes()
        tensors = gguf_io.read_header(self.out).tensors
        contents = {data[t.offset:t.offset + t.bytes] for t in tensors}
        self.assertEqual(len(contents), len(tensors))

    def test_types_by_role(self):
        make(self.out, *TINY, "--untied", "--expert-type", "q4_1", "--down-type", "Q5_0",
             "--dense-type", "F16", "--head-type", "BF16")
        types = {t.name: t.type_name for t in gguf_io.read_header(self.out).tensors}
        self.assertEqual(types["blk.0.ffn_up_exps.weight"], "Q4_1")
        self.assertEqual(types["blk.0.ffn_down_exps.weight"], "Q5_0")
        self.assertEqual(types["blk.0.attn_output.weight"], "F16")
        self.assertEqual(types["token_embd.weight"], "F16")
        self.assertEqual(types["output.weight"], "BF16")

    def test_mixed_uses_every_type_that_fits(self):
        make(self.out, *TINY, "--mixed", "--embd", "256", "--ff", "256", "--layers", "4")
        used = {t.type_name for t in gguf_io.read_header(self.out).tensors}
        self.assertEqual(used, set(make_synthetic.BLOCKS))
        make(self.out, *TINY, "--mixed")  # rows of 32 and 64: no K types
        used = {t.type_name for t in gguf_io.read_header(self.out).tensors}
        self.assertEqual(used, {t for t in make_synthetic.BLOCKS if not t.endswith("_K")})

    def test_own_vocabulary_merges_to_its_words(self):
        make(self.out, *TINY)
        header = gguf_io.read_header(self.out)
        tokens = header.value("tokenizer.ggml.tokens")
        self.assertEqual(len(set(tokens)), 300)
        known = set(make_synthetic.byte_alphabet())
        self.assertEqual(len(known), 256)
        for merge in header.value("tokenizer.ggml.merges"):
            left, right = merge.split(" ")
            self.assertIn(left, known)
            self.assertIn(right, known)
            known.add(left + right)
        self.assertEqual(known | set(make_synthetic.SPECIAL_TOKENS), set(tokens))
        self.assertEqual(tokens[header.value("tokenizer.ggml.eos_token_id")], "<|im_end|>")
        self.assertEqual(header.value("tokenizer.ggml.token_type").count(3), 3)

    def test_copies_a_vocabulary_byte_for_byte(self):
        make(self.out, *TINY[:-2])
        demo = ROOT / "data" / "strata-demo.gguf"
        copied, original = ([e for e in gguf_io.read_header(path).metadata
                             if e.key.startswith("tokenizer.")] for path in (self.out, demo))
        self.assertEqual(copied, original)

    def test_splits(self):
        make(self.out, *TINY)
        whole = self.out.read_bytes()
        names = [t.name for t in gguf_io.read_header(self.out).tensors]
        make(self.out, *TINY, "--split-bytes", "32K")
        shards = sorted(self.folder.glob("m-*-of-*.gguf"))
        self.assertGreater(len(shards), 2)
        found, data = [], b""
        for number, shard in enumerate(shards):
            self.assertLessEqual(shard.stat().st_size, 32 << 10)
            header = gguf_io.read_header(shard)
            self.assertEqual(header.value("split.no"), number)
            self.assertEqual(header.value("split.count"), len(shards))
            self.assertEqual(header.value("split.tensors.count"), len(names))
            found += [t.name for t in header.tensors]
            data += shard.read_bytes()[header.tensors[0].offset:]
        self.assertEqual(found, names)
        start = gguf_io.read_header(self.out).tensors[0].offset
        self.assertEqual(data, whole[start:])

    def test_refuses_what_makes_no_sense(self):
        for options, complaint in [
            (["--used", "5"], "--used 5 is more than --experts 4"),
            (["--heads", "3"], "no multiple of --kv-heads"),
            (["--head-dim", "15"], "is odd"),
            (["--vocab", "258"], "is too small"),
            (["--layers", "0"], "0 is not positive"),
            (["--expert-type", "Q9_9"], "invalid choice"),
        ]:
            with self.subTest(options), contextlib.redirect_stderr(io.StringIO()) as errors:
                with self.assertRaises(SystemExit):
                    make_synthetic.parse_arguments([str(self.out), *TINY, *options])
                self.assertIn(complaint, errors.getvalue())
        with self.assertRaisesRegex(gguf_io.GgufError, "blk.0.ffn_down_exps.weight: a row of 32"):
            make(self.out, *TINY, "--down-type", "Q4_K")
        with self.assertRaisesRegex(gguf_io.GgufError, "has no room for its header"):
            make(self.out, *TINY, "--split-bytes", "9000")
        self.assertEqual(list(self.folder.iterdir()), [])


class Reading(unittest.TestCase):
    def test_a_broken_file_is_a_gguf_error(self):
        data = (ROOT / "tests/fuzz/corpus/gguf_file_fuzz/valid-model").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.gguf"
            header_end = data.index(b"four") + len("four") + 4 + 4 * 8 + 4 + 8
            for size in range(header_end):
                path.write_bytes(data[:size])
                with self.assertRaises(gguf_io.GgufError):
                    gguf_io.read_header(path)
            with self.assertRaises(gguf_io.GgufError):
                gguf_io.read_header(Path(folder) / "none.gguf")


if __name__ == "__main__":
    unittest.main()
