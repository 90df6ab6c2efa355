// The CPU kernels as a table of functions, one table an instruction set. The generic table defines
// the bits; every other gives the same ones (docs/exactness.md, tests/kernels). All functions are
// thread-safe and allocate nothing.
#pragma once

#include "kernels/cpu/panel.hpp"
#include "strata/base/isa.hpp"
#include "strata/quant/packed_matrix.hpp"

#include <cstddef>
#include <cstdint>

namespace strata::kernels {

// Panels exist in these widths; any number of tokens is cut into them, widest first.
inline constexpr int kTiles[] = {1, 2, 4, 8, 16};
inline constexpr int kTileCount = 5;

[[nodiscard]] constexpr int tile_index(int tokens) noexcept {
  return tokens >= 16 ? 4 : tokens >= 8 ? 3 : tokens >= 4 ? 2 : tokens >= 2 ? 1 : 0;
}

// The widest panel not wider than `tokens` (>= 1).
[[nodiscard]] constexpr int tile_width(int tokens) noexcept { return kTiles[tile_index(tokens)]; }

// out[t * out_stride + 16 * i + r] = (or +=) dot(row r of group i, token t) for `groups`
// consecutive packed groups.
struct DotArgs {
  const std::byte* weights;  // the first group
  std::size_t group_bytes;
  int groups;
  std::int64_t cols;
  const std::byte*
      panel;  // int8 panel for quantised types, float panel for float ones or float activations
  float* out;
  std::int64_t out_stride;  // floats from one token's row to the next
  bool accumulate;
  // Weights of the same shape that are read after these, or null: a hint to bring them near, which
  // costs time when they would come in time by themselves.
  const std::byte* next = nullptr;
};
using DotFunction = void (*)(const DotArgs&);

// Attention of `queries` query rows that share one KV head over one chunk of positions; see
// attention_inl.hpp.
struct AttentionChunkArgs {
  const float* const* q;  // [queries] rows of head_dim floats, RoPE applied
  const int* visible;     // [queries] positions of the chunk each may see, 1..positions
  int queries;            // 1..kMaxQueries
  int positions;          // max of visible; at most kAttentionChunk
  int head_dim;           // a multiple of 16
  const void* k;          // as device::KvLayer has them, from the chunk's first position on
  const void* v;
  float scale;
  float* scores;  // scratch: queries * kAttentionChunk floats
  float* max;     // [queries] out: the chunk's largest score
  float* sum;     // [queries] out: sum of exp(score - max)
  float* out;     // [queries][head_dim] out: sum of exp(score - max) * v
};
inline constexpr int kAttentionChunk = 256;
inline constexpr int kMaxQueries = 16;

struct Kernels {
  Isa isa;

  // dot[type][tile]: int8 activations for quantised types, f32 for F32, F16, BF16.
  DotFunction dot[64][kTileCount];
  // The same with f32 activations for every type (`--activations f32`).
  DotFunction dot_f32[64][kTileCount];

  // Quantises n = multiple of 32 floats into token `token` of a panel of `tokens`.
  void (*quantize)(const float* x, std::int64_t n, std::byte* panel, int tokens, int token);
  // y = x * w / sqrt(mean(x^2) + eps)
  void (*rms_norm)(const float* x, const float* weight, std::int64_t n, float eps, float* y);
  // Rotates the first n_rot of a head's dimensions in place. cos_sin: n_rot/2 cosines, then n_rot/2
  // sines. neox: pairs (j, j + n_rot/2); otherwise pairs (2j, 2j+1).
  void (*rope)(float* head, const float* cos_sin, int n_rot, bool neox);
  // SwiGLU of 32 hidden units of `tokens` tokens, quantised into block `block` of their panel:
  // silu(gate) * up. gate, up: [tokens] rows of 32, `stride` floats apart.
  void (*swiglu_quantize)(const float* gate, const float* up, std::int64_t stride, int tokens,
                          std::byte* panel, std::int64_t block);
  // The same, kept as floats in a float panel.
  void (*swiglu_f32)(const float* gate, const float* up, std::int64_t stride, int tokens,
                     float* panel, std::int64_t block);
  // probabilities[i] = exp(x[i] - max) / sum; n need not be a multiple of 16.
  void (*softmax)(const float* x, int n, float* probabilities);
  // x[i] += sum over r of weight[r] * parts[r * n + i], r in order.
  void (*combine)(const float* parts, const float* weights, int ranks, std::int64_t n, float* x);
  void (*to_half)(const float* x, std::int64_t n, std::uint16_t* y);
  // n, a multiple of 16, floats to codes and, for each block of 32, a scale in f16; the last block
  // may have 16.
  void (*to_q8)(const float* x, std::int64_t n, std::int8_t* codes, std::uint16_t* scales);
  void (*attention_chunk_f16)(const AttentionChunkArgs&);  // cells of the cache are f16
  void (*attention_chunk_f32)(const AttentionChunkArgs&);
  void (*attention_chunk_q8)(const AttentionChunkArgs&);
  // Joins a later chunk's (max, sum, out) into the running one.
  void (*attention_merge)(float* max, float* sum, float* out, float chunk_max, float chunk_sum,
                          const float* chunk_out, int head_dim);
  // y = x / divisor
  void (*divide)(const float* x, float divisor, std::int64_t n, float* y);
};

// The table of one instruction set; the caller has made sure that the machine runs it
// (base/isa.hpp).
[[nodiscard]] const Kernels& kernels_for(Isa isa) noexcept;

}  // namespace strata::kernels
