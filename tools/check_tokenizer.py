#!/usr/bin/env python3
"""Compares Strata's tokenizer with Hugging Face `tokenizers` on random Unicode strings.

    check_tokenizer.py ids NAME=TOKENIZER.json[.xz][,MODEL.gguf] ... [--strings N] [--seed S]
                           [--command CMD]
        Each string through both; without MODEL.gguf a GGUF with only a vocabulary is written from
        the tokenizer.json. CMD reads JSON strings on stdin, one a line, and prints a JSON array of
        ids for each. {model} stands for the GGUF's path and {nfc} for --nfc or --no-nfc, as the
        tokenizer.json normalises. Default:
        strata tokenize {model} --json-lines --special --no-bos {nfc}
    check_tokenizer.py splits [--program PROGRAM] [--strings N]
        Each row of the table of pre-tokenizers against Hugging Face's engine running the same
        expressions.
    check_tokenizer.py vectors FOLDER NAME=TOKENIZER.json[.xz] ...
        Writes the regression vectors of tests/data/tokenizer.

PROGRAM is tests/strata_tokenize_lines of a build. Needs: pip install tokenizers.

Characters that this Python's Unicode version does not assign are left out: what category they have
depends on the Unicode version of each engine (PCRE2 10.42 has 14, as Python 3.11; use that one for
a clean comparison). Strings that Hugging Face's normaliser, which has Unicode 9, brings to another
form C than this Python does are left out for the same reason: they have two combining marks of
which Unicode 9 does not know one.
"""

import argparse
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

import gguf_io

ASCII_WORDS = (
    "the quick brown fox's don't I'LL we've Hello WORLD camelCase snake_case e.g. 3.14 x86_64"
).split()
CODE = [
    "def f(x):\n    return x**2\n",
    "#include <vector>\r\n",
    "for (int i=0;i<n;++i) {\n\t",
    "</div>",
    "a->b != c;",
    "SELECT * FROM t WHERE id=10;\n\n",
    '{"k": [1, 2.5e-3, null]}',
    "    \t    ",
    "// ----====----\n",
]
SPACES = (
    " \t\n\r\x0b\x0c\x85\xa0\u1680\u180e\u2000\u2003\u200a\u200b"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
EMOJI = [
    "\U0001f600",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\u270c\U0001f3fd",
    "\U0001f1e9\U0001f1ea",
    "1\ufe0f\u20e3",
    "\u2705",
    "\u263a\ufe0f",
    "\U0001f636\u200d\U0001f32b\ufe0f",
]
BASES = "aeAnoq\u0627\u05d0\u0915\uac00\u304b"
MARKS = (
    "\u0300\u0301\u0308\u0327\u0323\u0345\u0591\u05b4\u064b\u0670"
    "\u093c\u094d\u09be\u0e34\u0f71\u1dc4\u20d0\u3099"
)
DEFAULT_COMMAND = "strata tokenize {model} --json-lines --special --no-bos {nfc}"
# What a ByteLevel pre-tokenizer does when it is told to use its regex.
GPT2_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type
SPECIALS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<think>",
    "</think>",
    "<|start|>",
    "<|channel|>",
    "<|im_",
    "<tool_call>",
    "<|end|>",
    "<s>",
    "</s>",
    "<unk>",
]


def assigned(draw, count):
    out = []
    while len(out) < count:
        char = chr(draw())
        if unicodedata.category(char) not in ("Cn", "Cs"):
            out.append(char)
    return "".join(out)


def chars(rng, first, last, count):
    return assigned(lambda: rng.randint(first, last), count)


def any_chars(rng, count):
    return assigned(lambda: rng.randint(0, rng.choice((0x2FFF, 0xFFFF, 0x1FFFF, 0x10FFFF))), count)


ALPHABETS = [
    lambda rng: rng.choice(ASCII_WORDS),
    lambda rng: " " + rng.choice(ASCII_WORDS),
    lambda rng: chars(rng, 0x20, 0x7E, rng.randint(1, 8)),
    lambda rng: chars(rng, 0xA0, 0x24F, rng.randint(1, 6)),
    lambda rng: chars(rng, 0x370, 0x52F, rng.randint(1, 6)),
    lambda rng: chars(rng, 0x590, 0x6FF, rng.randint(1, 6)),
    lambda rng: chars(rng, 0x900, 0xDFF, rng.randint(1, 6)),
    lambda rng: chars(rng, 0xE00, 0x10FF, rng.randint(1, 6)),
    lambda rng: chars(rng, 0x1100, 0x11FF, rng.randint(1, 4)),
    lambda rng: chars(rng, 0x1E00, 0x1FFF, rng.randint(1, 4)),
    lambda rng: chars(rng, 0x2000, 0x2BFF, rng.randint(1, 4)),
    lambda rng: chars(rng, 0x3000, 0x30FF, rng.randint(1, 6)),
    lambda rng: chars(rng, 0x4E00, 0x9FFF, rng.randint(1, 6)),
    lambda rng: chars(rng, 0xAC00, 0xD7A3, rng.randint(1, 6)),
    lambda rng: chars(rng, 0xF900, 0xFFEF, rng.randint(1, 3)),
    lambda rng: chars(rng, 0x1D400, 0x1D7FF, rng.randint(1, 3)),
    lambda rng: rng.choice(EMOJI),
    lambda rng: rng.choice(BASES) + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 4))),
    lambda rng: chars(rng, 0x30, 0x39, rng.randint(1, 9)),
    lambda rng: rng.choice("\u00bd\u2163\u0664\u096a\uff13\u3007\u00b2"),
    lambda rng: chars(rng, 0x00, 0x1F, rng.randint(1, 4)),
    lambda rng: "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6))),
    lambda rng: rng.choice(" \n") * rng.randint(1, 12),
    lambda rng: rng.choice(CODE),
    lambda rng: rng.choice(SPECIALS),
    lambda rng: rng.choice("'\u2019")
    + rng.choice(["s", "S", "t", "RE", "ve", "m", "Ll", "d", "\u017f", "x"]),
    lambda rng: any_chars(rng, rng.randint(1, 4)),
]


def make_strings(count, seed, most_parts=12):
    rng = random.Random(seed)
    strings = []
    for _ in range(count):
        parts = rng.randint(1, most_parts)
        # Half of the strings stay with few alphabets, so that long runs of one script occur.
        pool = ALPHABETS if rng.random() < 0.5 else rng.sample(ALPHABETS, 2)
        strings.append("".join(rng.choice(pool)(rng) for _ in range(parts)))
    return strings


def load_json(path):
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rb") as file:
        return json.loads(file.read())


def split_regexes(spec):
    """The Split and ByteLevel expressions of a tokenizer.json's pre_tokenizer, in order."""
    parts = spec["pretokenizers"] if spec["type"] == "Sequence" else [spec]
    regexes = [part["pattern"]["Regex"] for part in parts if part["type"] == "Split"]
    if any(part["type"] == "ByteLevel" and part.get("use_regex", True) for part in parts):
        regexes.append(GPT2_REGEX)
    return regexes


def bpe_entries(tokenizer, rows):
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    regexes = split_regexes(tokenizer["pre_tokenizer"])
    names = [row["names"][0] for row in rows if row["patterns"] == regexes]
    if not names:
        sys.exit(f"no pre-tokenizer of the table has {regexes}")
    return [("model", "str", "gpt2"), ("pre", "str", names[0]), ("merges", "arr[str]", merges)]


def spm_entries(tokenizer, tokens):
    """Scores in the order of the merges; characters, which nothing merges into, score lowest."""
    rank = {}
    for merge in tokenizer["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        rank.setdefault(left + right, len(rank))
    scores = [-float(rank.get(token, len(rank))) for token in tokens]
    prefix = "Prepend" in json.dumps(tokenizer["normalizer"])
    return [
        ("model", "str", "llama"),
        ("scores", "arr[f32]", scores),
        ("add_space_prefix", "bool", prefix),
        ("add_bos_token", "bool", False),
    ]


def write_vocab_gguf(tokenizer, rows, path):
    """A GGUF without tensors: what a converter would make of a BPE tokenizer.json."""
    model = tokenizer["model"]
    vocab = dict(model["vocab"])
    types = {}
    for token in tokenizer["added_tokens"]:
        vocab[token["content"]] = token["id"]
        types[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    tokens = [f"[PAD{i}]" for i in range(max(vocab.values()) + 1)]
    for text, index in vocab.items():
        tokens[index] = text
    known = set(vocab.values())
    if model["byte_fallback"]:
        types.update({vocab[f"<0x{byte:02X}>"]: BYTE for byte in range(256)})
        types[vocab[model["unk_token"]]] = UNKNOWN
        entries = spm_entries(tokenizer, tokens)
    else:
        entries = bpe_entries(tokenizer, rows)
    entries.append(("tokens", "arr[str]", tokens))
    entries.append(
        (
            "token_type",
            "arr[i32]",
            [types.get(i, NORMAL if i in known else UNUSED) for i in range(len(tokens))],
        )
    )
    writer = gguf_io.Writer()
    writer.add("general.architecture", "str", "vocabulary")
    for key, type_name, value in entries:
        writer.add("tokenizer.ggml." + key, type_name, value)
    writer.write(path)


def ask(command, strings):
    text = "".join(json.dumps(string) + "\n" for string in strings)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(answers) != len(strings):
        got = f"{len(answers)} answers to {len(strings)} strings"
        sys.exit(f"{command}: exit code {done.returncode}, {got}")
    return answers


def table_rows(program):
    done = subprocess.run([program, "--rows"], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def report(name, strings, expected, found):
    wrong = [i for i in range(len(strings)) if expected[i] != found[i]]
    print(f"{name}: {len(strings) - len(wrong)} of {len(strings)} strings equal")
    for i in wrong[:2]:
        print(f"  {strings[i]!r}\n    expected {expected[i]}\n    found    {found[i]}")
    return not wrong


def hf_tokenizer(tokenizer):
    import tokenizers  # pylint: disable=import-outside-toplevel

    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer))


def hf_ids(tokenizer, strings):
    reference = hf_tokenizer(tokenizer)
    return [reference.encode(string, add_special_tokens=False).ids for string in strings]


def parse_named(spec):
    name, _, paths = spec.partition("=")
    path, _, model = paths.partition(",")
    return name, path, model


def same_nfc(strings):
    from tokenizers import normalizers  # pylint: disable=import-outside-toplevel

    nfc = normalizers.NFC()
    same = [s for s in strings if nfc.normalize_str(s) == unicodedata.normalize("NFC", s)]
    if len(same) != len(strings):
        print(f"{len(strings) - len(same)} strings left out: form C differs by Unicode version")
    return same


def check_ids(args):
    strings = same_nfc(make_strings(args.strings, args.seed))
    good = True
    for spec in args.tokenizers:
        name, path, model = parse_named(spec)
        tokenizer = load_json(path)
        with tempfile.TemporaryDirectory() as folder:
            if not model:
                model = os.path.join(folder, name + ".gguf")
                write_vocab_gguf(tokenizer, table_rows(args.program), model)
            nfc = "--nfc" if "NFC" in json.dumps(tokenizer["normalizer"]) else "--no-nfc"
            command = [part.format(model=model, nfc=nfc) for part in args.command.split()]
            good &= report(name, strings, hf_ids(tokenizer, strings), ask(command, strings))
    return good


# Expressions that the table writes in another way than the models do: ours -> theirs.
REWRITTEN = {
    r"(?<!\s)\s++\z": r"\s+$",
    r"[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]": r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]",
    r"[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]": r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]",
    r"\p{sc:Han}": r"\p{Han}",
}


def hf_pieces(patterns, strings):
    from tokenizers import Regex, pre_tokenizers  # pylint: disable=import-outside-toplevel

    splits = []
    for pattern in patterns:
        for ours, theirs in REWRITTEN.items():
            pattern = pattern.replace(ours, theirs)
        splits.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    sequence = pre_tokenizers.Sequence(splits)
    return [[piece for piece, _ in sequence.pre_tokenize_str(string)] for string in strings]


def check_splits(args):
    strings = make_strings(args.strings, args.seed)
    good = True
    for row in table_rows(args.program):
        name = row["names"][0]
        found = ask([args.program, "--splits", name], strings)
        good &= report(name, strings, hf_pieces(row["patterns"], strings), found)
    return good


def write_lines(path, items):
    with open(path, "w", encoding="utf-8") as file:
        for item in items:
            file.write(json.dumps(item, ensure_ascii=True, separators=(",", ":")) + "\n")


def write_vectors(args):
    strings = same_nfc(make_strings(args.strings, args.seed, most_parts=6))
    write_lines(os.path.join(args.folder, "random.strings.jsonl"), strings)
    for spec in args.tokenizers:
        name, path, _ = parse_named(spec)
        ids = hf_ids(load_json(path), strings)
        write_lines(os.path.join(args.folder, f"random.{name}.ids.jsonl"), ids)
    with open(os.path.join(args.folder, "qwen2.inp"), encoding="utf-8", newline="") as file:
        few = strings[:150] + file.read().split("\n__ggml_vocab_test__\n")
    rows = []
    for row in table_rows(args.program):
        pieces = hf_pieces(row["patterns"], few)
        sizes = [[len(piece.encode()) for piece in string] for string in pieces]
        rows.append({"pre": row["names"][0], "sizes": sizes})
    write_lines(os.path.join(args.folder, "random.splits.jsonl"), rows)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="what", required=True)
    for what, run in (("ids", check_ids), ("splits", check_splits), ("vectors", write_vectors)):
        sub = commands.add_parser(what)
        sub.set_defaults(run=run)
        if what == "vectors":
            sub.add_argument("folder")
        if what != "splits":
            sub.add_argument("tokenizers", nargs="+", metavar="NAME=TOKENIZER.json[,MODEL.gguf]")
        if what == "ids":
            sub.add_argument("--command", default=DEFAULT_COMMAND)
        sub.add_argument("--program", default="build/release/tests/strata_tokenize_lines")
        sub.add_argument("--strings", type=int, default=1000 if what == "vectors" else 10000)
        sub.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    return 0 if args.run(args) else 1


if __name__ == "__main__":
    sys.exit(main())
