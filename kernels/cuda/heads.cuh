// Kernels of heads: RoPE, the KV cache, and all that a head's query or key goes through in one.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/place.cuh"

namespace strata::cuda {

inline constexpr float kLargestHalf = 65504.0f;
inline constexpr int kMostHeadDim = 512;  // device::kMaxHeadDim

// Turns pair `j` of a head's `n_rot` first dimensions.
STRATA_DEVICE void rotate(float* head, const float* table, int n_rot, bool neox, int j) {
  const int half = n_rot / 2;
  const float c = table[j];
  const float s = table[half + j];
  float* first = head + (neox ? j : 2 * j);
  float* second = head + (neox ? j + half : 2 * j + 1);
  const float x = *first;
  const float y = *second;
  // The sign of a zero is the CPU's: 0 - 0 where it works in whole vectors, else -0.
  const bool vector = neox && j < half / 16 * 16;
  const float ys = mul_rn(y, s);
  *first = fma_rn(x, c, vector ? sub_rn(0.0f, ys) : -ys);
  *second = fma_rn(y, c, mul_rn(x, s));
}

struct RopeKernel {
  static constexpr const char* kName = "rope";
  static constexpr int kThreads = 128;
  struct Shared {};
  RopeArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const int half = a.n_rot / 2;
      const std::int64_t i = block.index * kThreads + thread;
      const std::int64_t head = i / half;  // of all rows
      if (head >= static_cast<std::int64_t>(a.rows) * a.heads) return;
      const std::int64_t position = a.places[head / a.heads].position;
      rotate(a.x + head * a.head_dim, a.table + position * a.n_rot, a.n_rot, a.neox,
             static_cast<int>(i % half));
    });
  }
};

struct Q8Cell {
  std::uint16_t scale;
  std::int8_t code;
};
// The CPU's to_q8, of dimension d of a head's row: every thread finds its block's scale itself.
STRATA_DEVICE Q8Cell quantize_cell(const float* row, int head_dim, int d) {
  const int begin = d / kQ8Block * kQ8Block;
  const int end = begin + kQ8Block < head_dim ? begin + kQ8Block : head_dim;
  float top = 0.0f;
  for (int i = begin; i < end; ++i) top = max_of(abs_of(row[i]), top);
  const float exact = div_rn(top, 127.0f);
  Q8Cell cell;
  cell.scale = half_bits(exact < kLargestHalf ? exact : kLargestHalf);
  const float scale = half_value(cell.scale);
  const float code = round_even(mul_rn(row[d], scale > 0.0f ? div_rn(1.0f, scale) : 0.0f));
  const float below = code < 127.0f ? code : 127.0f;
  cell.code = static_cast<std::int8_t>(below > -127.0f ? below : -127.0f);
  return cell;
}

// Where the cells of a KV head go at a place. The layout: device::KvLayer.
struct CellWriter {
  const Place& p;
  std::int64_t head;
  int head_dim;

  STRATA_DEVICE std::int64_t first() const { return head * p.capacity + p.position; }
  STRATA_DEVICE std::int64_t lane() const { return p.position % 16; }

  // Cell `index` of keys or values that have no scales.
  STRATA_DEVICE void write(std::byte* cells, std::int64_t index, float value) const {
    if (p.cells == Cells::kF16) {
      reinterpret_cast<std::uint16_t*>(cells)[index] = half_bits(value);
    } else {
      reinterpret_cast<float*>(cells)[index] = value;
    }
  }

  // Dimension d of a head's key.
  STRATA_DEVICE void write_key(const float* key, int d) const {
    if (p.cells != Cells::kQ8) {
      write(p.keys, (first() - lane()) * head_dim + 16 * d + lane(), key[d]);
      return;
    }
    const Q8Cell cell = quantize_cell(key, head_dim, d);
    std::byte* group = p.keys + (first() - lane()) * q8_row_bytes(head_dim);
    store(group + 32 * q8_blocks(head_dim) + 16 * d + lane(), cell.code);
    if (d % kQ8Block == 0) store(group + d + 2 * lane(), cell.scale);  // 32 bytes a block of 32
  }

  STRATA_DEVICE void write_value(const float* value, int d) const {
    if (p.cells != Cells::kQ8) {
      write(p.values, first() * head_dim + d, value[d]);
      return;
    }
    const Q8Cell cell = quantize_cell(value, head_dim, d);
    std::byte* row = p.values + first() * q8_row_bytes(head_dim);
    store(row + 2 * q8_blocks(head_dim) + d, cell.code);
    if (d % kQ8Block == 0) store(row + 2 * (d / kQ8Block), cell.scale);
  }
};

// A thread a cell.
struct KvAppendKernel {
  static constexpr const char* kName = "kv_append";
  static constexpr int kThreads = 128;
  struct Shared {};
  const float* k;
  const float* v;
  const Place* places;
  int layer;
  int rows;
  int kv_heads;
  int head_dim;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t i = block.index * kThreads + thread;
      const std::int64_t width = static_cast<std::int64_t>(kv_heads) * head_dim;
      if (i >= rows * width) return;
      const Place place = at_layer(places[i / width], layer);
      const CellWriter cells{place, i % width / head_dim, head_dim};
      const int d = static_cast<int>(i % head_dim);
      cells.write_key(k + i - d, d);
      cells.write_value(v + i - d, d);
    });
  }
};

// Norm, RoPE and the KV cache: a block a row and head, those of queries first, then of keys and
// values.
struct HeadsKernel {
  static constexpr const char* kName = "heads";
  static constexpr int kThreads = 128;
  struct Shared {
    float x[kMostHeadDim];
    float lanes[16];
  };
  HeadsArgs a;

  // RMSNorm as rows have it (rows.cuh).
  STRATA_DEVICE void norm(const Block<kThreads>& block, const float* weight, Shared& shared) const {
    if (weight == nullptr) return;
    block.each([&](int thread) {
      if (thread >= 16) return;
      float sum = 0.0f;
      STRATA_UNROLL(8)
      for (int i = thread; i < a.head_dim; i += 16) sum = fma_rn(shared.x[i], shared.x[i], sum);
      shared.lanes[thread] = sum;
    });
    block.each([&](int thread) {
      const float mean = div_rn(sum_lanes(shared.lanes), static_cast<float>(a.head_dim));
      const float inverse = div_rn(1.0f, sqrt_rn(add_rn(mean, a.eps)));
      for (int i = thread; i < a.head_dim; i += kThreads) {
        shared.x[i] = mul_rn(mul_rn(shared.x[i], inverse), weight[i]);
      }
    });
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const auto index = static_cast<int>(block.index);
    const std::int64_t row = index / (a.heads + a.kv_heads);
    const int head = index % (a.heads + a.kv_heads);
    const bool is_key = head >= a.heads;
    const std::int64_t kv = is_key ? row * a.kv_heads + head - a.heads : 0;  // of all rows'
    float* q = a.q + (row * a.heads + head) * a.head_dim;
    const float* x = is_key ? a.k + kv * a.head_dim : q;
    block.each([&](int thread) {
      for (int i = thread; i < a.head_dim; i += kThreads) shared.x[i] = x[i];
    });
    norm(block, is_key ? a.k_norm : a.q_norm, shared);
    const Place p = at_layer(a.places[row], a.layer);
    block.each([&](int thread) {
      const float* table = a.table + static_cast<std::int64_t>(p.position) * a.n_rot;
      for (int j = thread; j < a.n_rot / 2; j += kThreads) {
        rotate(shared.x, table, a.n_rot, a.neox, j);
      }
    });
    block.lanes([&](int thread) {
      const CellWriter cells{p, head - a.heads, a.head_dim};
      for (int d = thread; d < a.head_dim; d += kThreads) {
        if (is_key) {
          cells.write_key(shared.x, d);
          cells.write_value(a.v + kv * a.head_dim, d);
        } else {
          q[d] = shared.x[d];
        }
      }
    });
  }
};

}  // namespace strata::cuda
