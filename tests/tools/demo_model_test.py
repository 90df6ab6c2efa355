"""Tests of the demo model's tools that need neither torch nor a GPU.

python3 -m unittest discover -s tests/tools -p '*_test.py'
"""

import contextlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import build_corpus  # noqa: E402
import gguf_io  # noqa: E402
import train_demo  # noqa: E402

try:
    import numpy as np
    from demo_model import gguf_export
except ImportError:
    np = None

DEMO = ROOT / "data" / "strata-demo.gguf"


def dequantised(data, tensor):
    """A tensor of the file `data` as float32, row-major."""
    shape = tensor.ne[::-1]
    if tensor.type_name == "F32":
        count = tensor.bytes // 4
        return np.frombuffer(data, np.float32, count, tensor.offset).reshape(shape)
    bytes_of_codes = {"Q8_0": 32, "Q4_0": 16}[tensor.type_name]
    block = np.dtype([("scale", np.float16), ("codes", np.uint8, bytes_of_codes)])
    blocks = np.frombuffer(data, block, tensor.bytes // block.itemsize, tensor.offset)
    codes = blocks["codes"]
    if tensor.type_name == "Q8_0":
        codes = codes.view(np.int8).astype(np.float32)
    else:
        codes = np.concatenate([codes & 15, codes >> 4], 1).astype(np.float32) - 8
    return (codes * blocks["scale"].astype(np.float32)[:, None]).reshape(shape)


@unittest.skipIf(np is None, "needs numpy")
class ExportTest(unittest.TestCase):
    def test_quantisation_keeps_what_it_can_store(self):
        x = np.arange(-32, 32, dtype=np.float32).reshape(2, 32)
        x[1] = 0
        q8 = gguf_export.quantise_q8_0(x)
        self.assertEqual(len(q8), 2 * 34)
        self.assertEqual(q8[34:], bytes(34))
        codes = np.frombuffer(q8[2:34], np.int8)
        self.assertEqual(codes[0], -127)
        q4 = gguf_export.quantise_q4_0(x)
        self.assertEqual(len(q4), 2 * 18)
        self.assertEqual(np.frombuffer(q4[:2], np.float16)[0], 4)
        self.assertEqual(q4[2] & 15, 0)  # the first element, -32, is -8 scales
        self.assertEqual(q4[2] >> 4, 4)  # the 17th, -16, is -4 scales
        self.assertEqual(np.frombuffer(q4[18:20], np.float16)[0], 0)
        self.assertEqual(set(q4[20:]), {0x88})

    def test_writes_the_demo_model_again_byte_for_byte(self):
        data = DEMO.read_bytes()
        header = gguf_io.read_header(DEMO)
        get = header.value
        config = {
            "n_layer": get("qwen3moe.block_count"),
            "ctx": get("qwen3moe.context_length"),
            "d": get("qwen3moe.embedding_length"),
            "ff": get("qwen3moe.expert_feed_forward_length"),
            "n_exp": get("qwen3moe.expert_count"),
            "top_k": get("qwen3moe.expert_used_count"),
            "n_head": get("qwen3moe.attention.head_count"),
            "n_kv": get("qwen3moe.attention.head_count_kv"),
            "hd": get("qwen3moe.attention.key_length"),
            "eps": get("qwen3moe.attention.layer_norm_rms_epsilon"),
            "base": get("qwen3moe.rope.freq_base"),
        }
        tokens, kinds = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type")
        vocabulary = {
            "tokens": tokens,
            "merges": get("tokenizer.ggml.merges"),
            "special": [token for token, kind in zip(tokens, kinds) if kind == 3],
            "bos": get("tokenizer.ggml.bos_token_id"),
            "eos": get("tokenizer.ggml.eos_token_id"),
            "padding": get("tokenizer.ggml.padding_token_id"),
        }
        tensors = {t.name[: -len(".weight")]: dequantised(data, t) for t in header.tensors}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "again.gguf"
            gguf_export.export(path, config, vocabulary, tensors)
            self.assertEqual(path.read_bytes(), data)


class TrainTest(unittest.TestCase):
    def test_learning_rate_rises_holds_and_falls(self):
        self.assertAlmostEqual(train_demo.learning_rate(1.0, 0, 0.0), 1 / 200)
        self.assertEqual(train_demo.learning_rate(1.0, 500, 0.29), 1.0)
        self.assertAlmostEqual(train_demo.learning_rate(1.0, 500, 0.65), 0.51)
        self.assertAlmostEqual(train_demo.learning_rate(1.0, 9999, 1.0), 0.02)

    def test_says_what_is_missing(self):
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["train_demo.py", "in", "out"]), mock.patch.dict(
            sys.modules, {"torch": None}
        ), contextlib.redirect_stderr(printed):
            self.assertEqual(train_demo.main(), 1)
        self.assertIn("pip install numpy torch tokenizers", printed.getvalue())


@unittest.skipUnless(shutil.which("git"), "needs git")
class CorpusTest(unittest.TestCase):
    """On small repositories of the real ones' shape."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.snapshots = Path(folder.name)

    def repository(self, name, files):
        folder = self.snapshots / name.replace("/", "+") / "repo"
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf8")
        git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
            subprocess.run(git + command, check=True)
        return build_corpus.Snapshot(self.snapshots, name)

    def test_dialogues_begin_with_the_user(self):
        def entry(*speakers):
            return {"turns": [{"speaker": s, "utterance": f"{s}\nsays"} for s in speakers]}

        entries = [entry("USER", "SYSTEM"), entry("SYSTEM", "USER"), entry()]
        files = {"train/dialogues_1.json": json.dumps(entries), "train/schema.json": "[1]"}
        found = build_corpus.booking_dialogues(self.repository("a/b", files))
        self.assertEqual(found, ["U: USER says\nA: SYSTEM says"])

    def test_stories_are_cut_where_one_begins(self):
        long = "word " * 100
        text = f"Once upon\n{long}\n\nOne day\nOnce more\n{long}\nTom\nshort"
        stories = build_corpus.tiny_stories(
            self.repository("a/b", {"data/tinystories_val.txt": text})
        )
        self.assertEqual(stories[0].split("\n")[0], "Once upon")
        self.assertEqual(stories[1].split("\n")[:2], ["One day", "Once more"])
        self.assertEqual(len(stories), 2)  # the last one is too short

    def test_only_free_african_stories(self):
        body = "# A Title\n\n##\nOne line\nof text.\n\n" + "More. " * 50
        free, other = "\n\n* License: [CC-BY]\n", "\n\n* License: [CC-BY-NC]\n"
        repository = self.repository("a/b", {"en/1.md": body + free, "en/2.md": body + other})
        ((title, story),) = build_corpus.african_stories(repository)
        self.assertEqual(title, "A Title")
        self.assertTrue(story.startswith("One line of text.\nMore."), story)
        self.assertNotIn("License", story)

    def test_questions_go_with_their_section(self):
        files = {
            "data-by-origin/x/section-stories/fox-story.csv": "section,text\n1,First.\n2,Second.\n",
            "data-by-origin/x/questions/fox-questions.csv": "cor_section,question,answer1\n"
            "2,Who?,A fox\n9,Where?,Nowhere\n,When?,Then\n1,Why?,\n",
        }
        stories, questions = build_corpus.fairytale_qa(self.repository("a/b", files))
        self.assertEqual(stories, {"fox": ["First.", "Second."]})
        found = build_corpus.question_dialogues(stories, questions)
        self.assertEqual(found, ["U: Second. Question: Who?\nA: A fox"])

    def test_text_is_unwrapped_and_cut_between_paragraphs(self):
        self.assertEqual(build_corpus.paragraphs("a\nb\r\n\n \nc\n"), ["a b", "c"])
        parts = build_corpus.chunks(["x" * 3000, "y" * 1000, "z" * 3000])
        self.assertEqual([len(part) for part in parts], [4002, 3000])
        self.assertEqual(build_corpus.chunks([]), [])

    def test_a_missing_repository_is_empty(self):
        nothing = build_corpus.Snapshot(self.snapshots, "no/such")
        self.assertEqual((nothing.files("x"), nothing.read("y")), ([], ""))


if __name__ == "__main__":
    unittest.main()
