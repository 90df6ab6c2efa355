"""Reference values for the engine's tests: float32 over the exactly dequantised weights."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from .network import CONFIG, EXPERT_BITS, MATRIX_BITS, DemoModel, fake_quantise, rotate
from .text import Vocabulary

PROMPTS = (  # text, whether it goes through the chat template
    ("Once upon a time, there was a little", False),
    ("The king looked at the sea and said", False),
    ("Tell me a story about a brave rabbit.", True),
)
GREEDY_TOKENS = 40
HELD_OUT_ROWS, ROW_LENGTH = 16, 512


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["eps"]) * weight.float()


def reference_forward(model: DemoModel, ids: torch.Tensor, routing: list) -> torch.Tensor:
    """Logits [length, vocabulary] of one sequence, written out plainly, experts one by one.

    routing gets, for each layer, the chosen ids and weights [length, top_k].
    """
    embedding = fake_quantise(model.embedding, MATRIX_BITS).float()
    x, length = embedding[ids], len(ids)
    cos, sin = model.cos[:length].float(), model.sin[:length].float()
    future = torch.full((length, length), float("-inf"), device=x.device).triu(1)
    for layer in model.layers:
        x = x + _attention(layer, rms_norm(x, layer.attn_norm.w), cos, sin, future)
        x = x + _experts(layer, rms_norm(x, layer.ffn_norm.w), routing)
    return rms_norm(x, model.norm.w) @ embedding.T


def _attention(layer, y, cos, sin, future):
    length, hd = len(y), CONFIG["hd"]
    q, k, v, o = (
        fake_quantise(matrix, MATRIX_BITS).float()
        for matrix in (layer.q, layer.k, layer.v, layer.o)
    )
    q, k, v = ((y @ matrix.T).view(length, -1, hd) for matrix in (q, k, v))
    q = rotate(rms_norm(q, layer.q_norm.w), cos, sin)
    k = rotate(rms_norm(k, layer.k_norm.w), cos, sin)
    shared_by = CONFIG["n_head"] // CONFIG["n_kv"]
    k, v = k.repeat_interleave(shared_by, 1), v.repeat_interleave(shared_by, 1)
    scores = torch.einsum("thd,shd->hts", q, k) / math.sqrt(hd) + future
    return torch.einsum("hts,shd->thd", scores.softmax(-1), v).reshape(length, -1) @ o.T


def _experts(layer, y, routing: list):
    probabilities = (y @ layer.router.float().T).softmax(-1)
    weights, ids = probabilities.topk(CONFIG["top_k"], -1)
    weights = weights / weights.sum(-1, keepdim=True)
    gate, up, down = (
        fake_quantise(matrix, EXPERT_BITS).float() for matrix in (layer.gate, layer.up, layer.down)
    )
    out = torch.zeros_like(y)
    for expert in range(CONFIG["n_exp"]):
        tokens, ranks = (ids == expert).nonzero(as_tuple=True)
        if len(tokens):
            inner = F.silu(y[tokens] @ gate[expert].T) * (y[tokens] @ up[expert].T)
            out[tokens] += weights[tokens, ranks, None] * (inner @ down[expert].T)
    routing.append((ids, weights))
    return out


def prompt_values(model: DemoModel, vocabulary: Vocabulary, prompt: str, chat: bool) -> dict:
    device = model.embedding.device
    ids = vocabulary.question_ids(prompt) if chat else vocabulary.ids(prompt)
    logits = reference_forward(model, torch.tensor(ids, device=device), [])[-1]
    current = list(ids)
    for _ in range(GREEDY_TOKENS):
        following = reference_forward(model, torch.tensor(current, device=device), [])[-1]
        current.append(int(following.argmax()))
    top = logits.topk(20)
    return {
        "prompt": prompt,
        "chat": chat,
        "ids": ids,
        "last_logits_top20": [[int(i), float(x)] for i, x in zip(top.indices, top.values)],
        "last_logits": [round(float(x), 5) for x in logits],
        "greedy": current[len(ids) :],
        "text": vocabulary.text(current),
    }


def write_routing(out, routing: list) -> None:
    """Token by token, layer by layer: i32 layer, i32 k, k x i32 expert, k x f32 weight."""
    rows = [(ids.to(torch.int32).cpu().numpy(), w.float().cpu().numpy()) for ids, w in routing]
    for token in range(len(rows[0][0])):
        for layer, (ids, weights) in enumerate(rows):
            head = struct.pack("<ii", layer, CONFIG["top_k"])
            out.write(head + ids[token].tobytes() + weights[token].tobytes())


def write_golden(
    folder: Path, model: DemoModel, vocabulary: Vocabulary, held_out: torch.Tensor
) -> float:
    """golden.json, heldout.txt, heldout_ids.npy and routing.bin; the held-out perplexity."""
    torch.backends.cuda.matmul.allow_tf32 = False
    rows = held_out[: HELD_OUT_ROWS * ROW_LENGTH].view(HELD_OUT_ROWS, ROW_LENGTH)
    loss = 0.0
    with torch.no_grad(), open(folder / "routing.bin", "wb") as routing_file:
        prompts = [prompt_values(model, vocabulary, *prompt) for prompt in PROMPTS]
        for row in rows.to(model.embedding.device):
            routing: list = []
            logits = reference_forward(model, row, routing)
            loss += F.cross_entropy(logits[:-1], row[1:], reduction="sum").item()
            write_routing(routing_file, routing)
    perplexity = math.exp(loss / (HELD_OUT_ROWS * (ROW_LENGTH - 1)))
    texts = [vocabulary.text(row.tolist()) for row in rows]
    (folder / "heldout.txt").write_text("\n<|row|>\n".join(texts), encoding="utf8")
    np.save(folder / "heldout_ids.npy", rows.numpy().astype(np.int32))
    golden = {
        "config": CONFIG,
        "vocab": vocabulary.size,
        "heldout_ppl": perplexity,
        "prompts": prompts,
    }
    (folder / "golden.json").write_text(json.dumps(golden), encoding="utf8")
    return perplexity
