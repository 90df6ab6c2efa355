#!/usr/bin/env python3
"""Trains the demo model of data/ and exports it as GGUF, with reference values for the tests.

    python3 tools/train_demo.py CORPUS OUT --minutes 12.5

CORPUS is what tools/build_corpus.py makes. OUT gets demo.gguf, tokenizer.json, golden.json,
heldout.txt, heldout_ids.npy and routing.bin. Needs a CUDA GPU, numpy, torch 2.8 or later and
tokenizers.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

EVALUATED_AT_ONCE = 32  # rows
EVALUATED_LENGTH = 512


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=8, help="how long to train")
    parser.add_argument("--vocabulary", type=int, default=8192, help="tokens")
    parser.add_argument("--length", type=int, default=512, help="tokens in a training row")
    parser.add_argument("--batch", type=int, default=160, help="rows in a step")
    parser.add_argument("--learning-rate", type=float, default=2.5e-3, help="at its highest")
    parser.add_argument("--balance", type=float, default=2e-3, help="weight of the balancing loss")
    parser.add_argument(
        "--quantised",
        type=float,
        default=0.25,
        help="share of the run, at its end, with Q4_0 and Q8_0",
    )
    return parser.parse_args()


def learning_rate(highest: float, step: int, done: float) -> float:
    """200 steps of warm-up, level for 30 % of the run, then half a cosine down to 2 %."""
    warm = min(1.0, (step + 1) / 200)
    if done < 0.3:
        return highest * warm
    cosine = 0.5 * (1 + math.cos(math.pi * (done - 0.3) / 0.7))
    return highest * warm * (cosine * 0.98 + 0.02)


def evaluate(model, held_out, quantised: bool) -> float:
    """Perplexity of the held-out rows, in bfloat16."""
    import torch
    import torch.nn.functional as F

    total = count = 0
    chunk = EVALUATED_LENGTH * EVALUATED_AT_ONCE
    with torch.no_grad():
        for start in range(0, len(held_out) - EVALUATED_LENGTH - 1, chunk):
            ids = held_out[start : start + chunk]
            ids = ids[: len(ids) // EVALUATED_LENGTH * EVALUATED_LENGTH].view(-1, EVALUATED_LENGTH)
            ids = ids.to(model.embedding.device)
            logits = model(ids, quantised)[:, :-1].float().flatten(0, 1)
            total += F.cross_entropy(logits, ids[:, 1:].reshape(-1), reduction="sum").item()
            count += ids[:, 1:].numel()
    return math.exp(total / count)


def make_optimizer(model, rate: float):
    import torch

    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    norms = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": norms, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)


def train(model, tokens, held_out, options: argparse.Namespace) -> None:
    import torch
    import torch.nn.functional as F

    optimizer = make_optimizer(model, options.learning_rate)
    within = torch.arange(options.length + 1, device=tokens.device)
    start, step, seconds = time.time(), 0, options.minutes * 60
    while (done := (time.time() - start) / seconds) < 1:
        rate = learning_rate(options.learning_rate, step, done)
        for group in optimizer.param_groups:
            group["lr"] = rate
        last = len(tokens) - options.length - 1
        begins = torch.randint(0, last, (options.batch,), device=tokens.device)
        rows = tokens[begins[:, None] + within]
        quantised = done > 1 - options.quantised
        stats: list = []
        logits = model(rows[:, :-1], quantised, stats).float().flatten(0, 1)
        text_loss = F.cross_entropy(logits, rows[:, 1:].reshape(-1))
        balance = sum(layer[0] for layer in stats) / len(stats)
        router_size = sum(layer[1] for layer in stats) / len(stats)
        loss = text_loss + options.balance * balance + 1e-4 * router_size
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 250 == 0:
            seen = step * options.length * options.batch / 1e6
            line = f"step {step}, {seen:.0f} M tokens, {time.time() - start:.0f} s, "
            line += f"loss {text_loss.item():.3f}, balance {balance.item():.2f}, rate {rate:.2e}"
            if step % 1000 == 0:
                line += f", held-out perplexity {evaluate(model, held_out, quantised):.2f}"
            print(line, flush=True)


def sample(model, vocabulary, prompt: str, chat: bool, count: int = 120) -> str:
    """A continuation at temperature 0.8, to look at."""
    import torch

    ids = vocabulary.question_ids(prompt) if chat else vocabulary.ids(prompt)
    with torch.no_grad():
        for _ in range(count):
            row = torch.tensor([ids], device=model.embedding.device)
            probabilities = (model(row, True)[0, -1].float() / 0.8).softmax(-1)
            token = int(torch.multinomial(probabilities, 1))
            if token in (vocabulary.end, vocabulary.turn_end):
                break
            ids.append(token)
    return vocabulary.text(ids)


def main() -> int:
    options = parse_arguments()
    try:
        import torch
        from demo_model import gguf_export, golden, network, text
    except ImportError as error:
        print(f"error: {error}\nto do: pip install numpy torch tokenizers", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("error: torch finds no CUDA GPU; training takes one", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    random.seed(1)

    corpus = text.read_corpus(options.corpus)
    size = sum(map(len, corpus.documents)) / 1e6
    print(f"{len(corpus.documents)} documents, {size:.1f} MB; {len(corpus.dialogues)} dialogues")
    vocabulary = text.Vocabulary(corpus, options.vocabulary)
    tokens = vocabulary.stream(corpus.documents, corpus.dialogues)
    held_out = vocabulary.stream(corpus.held_documents, corpus.held_dialogues)
    held_out = held_out[: text.HELD_OUT_TOKENS]
    print(f"{len(tokens) / 1e6:.1f} M tokens to train on, {len(held_out)} held out", flush=True)

    model = network.DemoModel(vocabulary.size).to("cuda")
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{count / 1e6:.1f} M parameters", flush=True)
    train(model, tokens.to("cuda"), held_out, options)
    model.eval()
    plain, quantised = (evaluate(model, held_out, q) for q in (False, True))
    print(f"held-out perplexity: bfloat16 {plain:.3f}, quantised {quantised:.3f}", flush=True)

    vocabulary.tokenizer.save(str(options.out / "tokenizer.json"))
    path = options.out / "demo.gguf"
    gguf_export.export(path, network.CONFIG, vocabulary.for_gguf(), model.for_gguf())
    print(f"{path}: {path.stat().st_size} bytes", flush=True)
    perplexity = golden.write_golden(options.out, model, vocabulary, held_out)
    print(f"held-out perplexity, float32 over quantised weights: {perplexity:.4f}")
    for prompt, chat in (("Once upon a time", False), ("Tell me a story about a dog.", True)):
        print("---", sample(model, vocabulary, prompt, chat), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
