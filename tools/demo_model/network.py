"""The demo model in PyTorch: Qwen3-MoE's layers, small, with optional fake quantisation."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "n_layer": 12,
    "d": 256,  # width of the residual stream
    "n_head": 4,
    "n_kv": 2,
    "hd": 64,  # width of a head
    "n_exp": 64,
    "top_k": 8,
    "ff": 64,  # width of an expert
    "eps": 1e-6,
    "base": 10000.0,
    "ctx": 2048,
}
MATRIX_BITS, EXPERT_BITS = 8, 4


def fake_quantise(weights: torch.Tensor, bits: int) -> torch.Tensor:
    """What Q8_0 (bits 8) or Q4_0 (bits 4) would store; gradients pass straight through."""
    shape = weights.shape
    x = weights.float().reshape(*shape[:-1], shape[-1] // 32, 32)
    if bits == EXPERT_BITS:
        largest = x.gather(-1, x.abs().argmax(-1, keepdim=True))
        scale = (largest / -8).half().float()
        divisor = torch.where(scale == 0, torch.ones_like(scale), scale)
        codes = torch.where(scale == 0, torch.zeros_like(x), (x / divisor).round().clamp(-8, 7))
    else:
        scale = (x.abs().amax(-1, keepdim=True) / 127).half().float()
        codes = (x / scale.clamp_min(1e-12)).round().clamp(-127, 127)
    stored = (codes * scale).reshape(shape).to(weights.dtype)
    return weights + (stored - weights).detach()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions, halves paired as in NeoX."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class RmsNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.w = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.w.to(x.dtype), CONFIG["eps"])


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        d, heads, kv, hd = (CONFIG[name] for name in ("d", "n_head", "n_kv", "hd"))
        experts, ff, layers = (CONFIG[name] for name in ("n_exp", "ff", "n_layer"))

        def random_matrix(*shape: int, deviation: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape) * deviation)

        self.attn_norm, self.ffn_norm = RmsNorm(d), RmsNorm(d)
        self.q_norm, self.k_norm = RmsNorm(hd), RmsNorm(hd)
        self.q = random_matrix(heads * hd, d, deviation=0.04)
        self.k = random_matrix(kv * hd, d, deviation=0.04)
        self.v = random_matrix(kv * hd, d, deviation=0.04)
        self.o = random_matrix(d, heads * hd, deviation=0.04 / math.sqrt(2 * layers))
        self.router = random_matrix(experts, d, deviation=0.02)
        self.gate = random_matrix(experts, ff, d, deviation=0.05)
        self.up = random_matrix(experts, ff, d, deviation=0.05)
        self.down = random_matrix(experts, d, ff, deviation=0.05 / math.sqrt(layers))

    def forward(self, x, cos, sin, quantised: bool, stats: list | None):
        x = x + self.attention(self.attn_norm(x), cos, sin, quantised)
        return x + self.experts(self.ffn_norm(x), quantised, stats)

    @staticmethod
    def weights(matrix, bits: int, quantised: bool, dtype):
        return (fake_quantise(matrix, bits) if quantised else matrix).to(dtype)

    def attention(self, y, cos, sin, quantised: bool):
        batch, length, _ = y.shape
        q, k, v, o = (
            self.weights(matrix, MATRIX_BITS, quantised, y.dtype)
            for matrix in (self.q, self.k, self.v, self.o)
        )
        q, k, v = (F.linear(y, w).view(batch, length, -1, CONFIG["hd"]) for w in (q, k, v))
        q, k = rotate(self.q_norm(q), cos, sin), rotate(self.k_norm(k), cos, sin)
        mixed = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=True
        )
        return F.linear(mixed.transpose(1, 2).reshape(batch, length, -1), o)

    def experts(self, y, quantised: bool, stats: list | None):
        """Tokens sorted by expert, one grouped product a matrix, results added where they belong.

        stats gets the load-balancing loss, the router's z-loss, the chosen ids and their weights.
        """
        shape, n, k = y.shape, CONFIG["n_exp"], CONFIG["top_k"]
        y = y.reshape(-1, shape[-1])
        logits = F.linear(y.float(), self.router.float())
        probabilities = logits.softmax(-1)
        weights, ids = probabilities.topk(k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        flat = ids.reshape(-1)
        order = flat.sort()[1]
        counts = torch.bincount(flat, minlength=n)
        ends = counts.cumsum(0).to(torch.int32)
        gate, up, down = (
            self.weights(matrix, EXPERT_BITS, quantised, y.dtype)
            for matrix in (self.gate, self.up, self.down)
        )
        gate_up = torch.cat((gate, up), 1).transpose(1, 2)
        g, u = torch._grouped_mm(y[order // k], gate_up, offs=ends).chunk(2, -1)
        z = torch._grouped_mm(F.silu(g) * u, down.transpose(1, 2), offs=ends)
        z = z * weights.reshape(-1)[order, None].to(z.dtype)
        if stats is not None:
            balance = (counts.float() / flat.numel() * probabilities.mean(0)).sum() * n
            stats.append((balance, logits.logsumexp(-1).pow(2).mean(), ids, weights))
        return torch.zeros_like(y).index_add_(0, order // k, z).view(shape)


class DemoModel(nn.Module):
    def __init__(self, vocabulary: int):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(vocabulary, CONFIG["d"]) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["n_layer"]))
        self.norm = RmsNorm(CONFIG["d"])
        frequencies = CONFIG["base"] ** (-torch.arange(0, CONFIG["hd"], 2) / CONFIG["hd"])
        angles = torch.arange(CONFIG["ctx"])[:, None] * frequencies
        self.register_buffer("cos", angles.cos()[:, None])
        self.register_buffer("sin", angles.sin()[:, None])

    def forward(self, ids, quantised=False, stats=None, dtype=torch.bfloat16):
        """Logits [batch, length, vocabulary] of ids [batch, length]; the head is the embedding."""
        embedding = self.embedding
        embedding = (fake_quantise(embedding, MATRIX_BITS) if quantised else embedding).to(dtype)
        x = F.embedding(ids, embedding)
        length = ids.shape[1]
        cos, sin = self.cos[:length].to(dtype), self.sin[:length].to(dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, quantised, stats)
        return F.linear(self.norm(x), embedding)

    def for_gguf(self) -> dict:
        """Float32 numpy arrays by GGUF name without ".weight"."""
        named = {"token_embd": self.embedding, "output_norm": self.norm.w}
        for i, layer in enumerate(self.layers):
            parts = {
                "attn_norm": layer.attn_norm.w,
                "attn_q": layer.q,
                "attn_k": layer.k,
                "attn_v": layer.v,
                "attn_output": layer.o,
                "attn_q_norm": layer.q_norm.w,
                "attn_k_norm": layer.k_norm.w,
                "ffn_norm": layer.ffn_norm.w,
                "ffn_gate_inp": layer.router,
                "ffn_gate_exps": layer.gate,
                "ffn_up_exps": layer.up,
                "ffn_down_exps": layer.down,
            }
            named.update({f"blk.{i}.{name}": tensor for name, tensor in parts.items()})
        return {name: tensor.detach().float().cpu().numpy() for name, tensor in named.items()}
