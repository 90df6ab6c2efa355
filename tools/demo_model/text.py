"""The training text: reading the corpus, training the tokenizer, documents to token ids."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SEPARATOR = "<|doc|>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# The pre-tokenizer that GGUF calls "qwen2".
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MIN_DOCUMENT = 80  # characters
HELD_OUT_SHARE = 150  # one document in so many, four at least, of each file
HELD_OUT_TOKENS = 512 * 400

Dialogue = list  # of (speaker, text), speaker "U" or "A"


@dataclass
class Corpus:
    """Documents and dialogues, each repeated as often as its file's weight says."""

    documents: list[str]
    dialogues: list[Dialogue]
    held_documents: list[str]
    held_dialogues: list[Dialogue]


def read_corpus(folder: Path) -> Corpus:
    """Reads NAME.wN.txt (documents) and NAME.wN.chat (dialogues); N is the sampling weight.

    Both separate their entries by <|doc|>. A dialogue has lines "U: " and "A: ", the user first.
    """
    corpus = Corpus([], [], [], [])
    for path in sorted(folder.iterdir()):
        weight = int(path.name.split(".w")[1].split(".")[0])
        entries = path.read_text(encoding="utf8", errors="ignore").split(SEPARATOR)
        if path.suffix == ".txt":
            new = [entry.strip() for entry in entries if len(entry.strip()) > MIN_DOCUMENT]
            held, kept = corpus.held_documents, corpus.documents
        else:
            new = [dialogue for dialogue in map(parse_dialogue, entries) if dialogue]
            held, kept = corpus.held_dialogues, corpus.dialogues
        random.shuffle(new)
        count = max(4, len(new) // HELD_OUT_SHARE)
        held += new[:count]
        kept += new[count:] * weight
    return corpus


def parse_dialogue(entry: str) -> Dialogue:
    """The turns of a dialogue; none if it has no answer or does not begin with the user."""
    lines = entry.strip().split("\n")
    turns = [(line[0], line[3:].strip()) for line in lines if line[:3] in ("U: ", "A: ")]
    return turns if len(turns) >= 2 and turns[0][0] == "U" else []


class Vocabulary:
    """Byte-level BPE trained on a sample of the corpus, and ChatML around dialogues."""

    def __init__(self, corpus: Corpus, size: int):
        self.tokenizer = Tokenizer(models.BPE())
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self.tokenizer.decoder = decoders.ByteLevel()
        sample = random.sample(corpus.documents, min(len(corpus.documents), 30000))
        dialogues = random.sample(corpus.dialogues, min(len(corpus.dialogues), 12000))
        sample += [text for dialogue in dialogues for _, text in dialogue]
        trainer = trainers.BpeTrainer(
            vocab_size=size - len(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self.tokenizer.train_from_iterator(sample, trainer)
        self.tokenizer.add_special_tokens(
            [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
        )
        self.end, self.turn_start, self.turn_end = map(self.tokenizer.token_to_id, SPECIAL)
        self.newline = self.ids("\n")

    @property
    def size(self) -> int:
        return self.tokenizer.get_vocab_size()

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def dialogue_ids(self, dialogue: Dialogue) -> list[int]:
        ids = []
        for speaker, text in dialogue:
            role = "user" if speaker == "U" else "assistant"
            ids += [self.turn_start, *self.ids(f"{role}\n{text}"), self.turn_end, *self.newline]
        return [*ids, self.end]

    def question_ids(self, question: str) -> list[int]:
        """A dialogue of one question, up to where the answer begins."""
        asked = self.dialogue_ids([("U", question)])[:-1]
        return [*asked, self.turn_start, *self.ids("assistant\n")]

    def stream(self, documents: list[str], dialogues: list[Dialogue]) -> torch.Tensor:
        """All texts in random order as one row of ids, each ended by <|endoftext|>."""
        rows = [[*row.ids, self.end] for row in self.tokenizer.encode_batch(documents)]
        rows += [self.dialogue_ids(dialogue) for dialogue in dialogues]
        random.shuffle(rows)
        return torch.tensor(np.concatenate([np.array(row, dtype=np.int64) for row in rows]))

    def for_gguf(self) -> dict:
        by_id = {i: token for token, i in self.tokenizer.get_vocab().items()}
        merges = json.loads(self.tokenizer.to_str())["model"]["merges"]
        return {
            "tokens": [by_id[i] for i in range(self.size)],
            # Older releases of tokenizers write a merge as one string, newer ones as a pair.
            "merges": [" ".join(m) if isinstance(m, list) else m for m in merges],
            "special": SPECIAL,
            "bos": self.end,
            "eos": self.turn_end,
            "padding": self.end,
        }
