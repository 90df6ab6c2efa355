#!/usr/bin/env python3
"""Trains a small SentencePiece-like vocabulary of our own for the tests.

    make_spm_vocab.py data/heldout.txt tests/data/tokenizer/spm.tokenizer.json

BPE over characters with byte fallback and spaces as U+2581, its merges listed the way Hugging Face
converts SentencePiece models: for each token, in the order they were learnt, every pair of tokens
that makes it. Needs: pip install tokenizers.
"""

import json
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

OTHER_SCRIPTS = (
    "猫は木の下で眠っている。 小猫从窗台上跳下来。 Über die Brücke läuft ein Mädchen. "
    "L'été où naît la forêt. Привет, мир! Как дела? "
) * 20


def main(text_path, out_path):
    with open(text_path, encoding="utf-8") as file:
        text = file.read()
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    fixed = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=fixed, show_progress=False, max_token_length=16
    )
    tokenizer.train_from_iterator([text, OTHER_SCRIPTS], trainer)

    spec = json.loads(tokenizer.to_str())
    spec["pre_tokenizer"] = None  # a converted SentencePiece model has none
    spec["added_tokens"] = [token for token in spec["added_tokens"] if token["id"] < 3]
    vocab = spec["model"]["vocab"]
    learnt = dict.fromkeys(left + right for left, right in spec["model"]["merges"])
    spec["model"]["merges"] = [
        [token[:cut], token[cut:]]
        for token in learnt
        for cut in range(1, len(token))
        if token[:cut] in vocab and token[cut:] in vocab
    ]
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(spec, file, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
