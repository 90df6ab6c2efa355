// Attention in the CPU's order (docs/exactness.md): chunks of 256 positions from position 0; in a
// chunk a score is one thread's sum over the head's dimensions, an output one thread's sum over the
// positions, both in order; chunks are joined in order. A block takes up to 8 queries that share a
// KV head, and either walks all chunks or computes one, which attention's second kernel joins.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/place.cuh"

namespace strata::cuda {

inline constexpr int kAttentionHeadDim = 512;  // device::kMaxHeadDim

template <class Cell>
STRATA_DEVICE float load_cell(const std::byte* cells, std::int64_t index) {
  if constexpr (sizeof(Cell) == 2) {
    return load_half(cells + 2 * index);
  } else {
    return load<float>(cells + 4 * index);
  }
}

struct Q8 {};  // codes and scales: device::KvType::kQ8_0

STRATA_DEVICE float load_q8(const std::byte* code, float scale) {
  return mul_rn(static_cast<float>(load<std::int8_t>(code)), scale);
}

// The keys of one position and KV head, by dimension in order.
template <class Cell>
struct KeyReader {
  const std::byte* keys;
  std::int64_t first;
  STRATA_DEVICE KeyReader(const Place& p, int kv, int head_dim, std::int64_t position)
      : keys(p.keys),
        first((static_cast<std::int64_t>(kv) * (p.capacity / 16) + position / 16) * head_dim * 16 +
              position % 16) {}
  STRATA_DEVICE float at(int d) { return load_cell<Cell>(keys, first + 16 * d); }
};
template <>
struct KeyReader<Q8> {
  const std::byte* scales;
  const std::byte* codes;
  float scale = 0.0f;
  STRATA_DEVICE KeyReader(const Place& p, int kv, int head_dim, std::int64_t position) {
    const std::byte* group =
        p.keys + (static_cast<std::int64_t>(kv) * (p.capacity / 16) + position / 16) * 16 *
                     q8_row_bytes(head_dim);
    scales = group + 2 * (position % 16);
    codes = group + 32 * q8_blocks(head_dim) + position % 16;
  }
  STRATA_DEVICE float at(int d) {
    if (d % kQ8Block == 0) scale = load_half(scales + 32 * (d / kQ8Block));
    return load_q8(codes + 16 * d, scale);
  }
};

// One dimension of the values of a KV head, from position `begin` on.
template <class Cell>
struct ValueReader {
  const std::byte* values;
  std::int64_t first;
  std::int64_t head_dim;
  STRATA_DEVICE ValueReader(const Place& p, int kv, int dims, std::int64_t begin, int dim)
      : values(p.values),
        first((static_cast<std::int64_t>(kv) * p.capacity + begin) * dims + dim),
        head_dim(dims) {}
  STRATA_DEVICE float at(int j) const {
    return load_cell<Cell>(values, first + static_cast<std::int64_t>(j) * head_dim);
  }
};
template <>
struct ValueReader<Q8> {
  const std::byte* scale;
  const std::byte* code;
  std::int64_t row_bytes;
  STRATA_DEVICE ValueReader(const Place& p, int kv, int dims, std::int64_t begin, int dim)
      : row_bytes(q8_row_bytes(dims)) {
    const std::byte* row =
        p.values + (static_cast<std::int64_t>(kv) * p.capacity + begin) * row_bytes;
    scale = row + 2 * (dim / kQ8Block);
    code = row + 2 * q8_blocks(dims) + dim;
  }
  STRATA_DEVICE float at(int j) const {
    return load_q8(code + j * row_bytes, load_half(scale + j * row_bytes));
  }
};

// A later chunk's (max, sum) joins the running one; keep and join scale their outputs.
struct Join {
  float max, sum, keep, join;
};
STRATA_DEVICE Join join_of(float max, float sum, float chunk_max, float chunk_sum) {
  Join j;
  j.max = max > chunk_max ? max : chunk_max;
  j.keep = exp_of(sub_rn(max, j.max));
  j.join = exp_of(sub_rn(chunk_max, j.max));
  j.sum = fma_rn(chunk_sum, j.join, mul_rn(sum, j.keep));
  return j;
}

// Where the split's results of (row, head, chunk) lie.
struct Partials {
  float* max;
  float* sum;
  float* out;
  STRATA_DEVICE Partials(const AttentionArgs& a, std::int64_t row, std::int64_t head,
                         std::int64_t chunk) {
    const std::int64_t records = static_cast<std::int64_t>(a.rows) * a.chunks * a.heads;
    const std::int64_t record = (row * a.chunks + chunk) * a.heads + head;
    max = a.partials + record;
    sum = max + records;
    out = a.partials + 2 * records + record * a.head_dim;
  }
};

struct AttentionKernel {
  static constexpr const char* kName = "attention";
  static constexpr int kThreads = kAttentionSpan;  // scores: a thread a position
  static constexpr int kQueries = kAttentionQueries;
  static constexpr int kDims = kAttentionHeadDim / kThreads;  // outputs of a thread and query
  struct Shared {
    float q[kQueries][kAttentionHeadDim];
    float scores[kQueries][kAttentionSpan];
    float lanes[kQueries][16];
    float top[kQueries];
    float sum[kQueries];
    Join running[kQueries];
  };
  struct Outputs {
    float running[kQueries][kDims];
  };
  AttentionArgs a;

  // What a block computes.
  struct Work {
    QueryRows rows;
    int kv;
    int first_head;
    int heads;
    int queries;  // rows.count * heads
    int chunk;    // first
    STRATA_DEVICE int row(int query) const { return rows.first + query / heads; }
    STRATA_DEVICE int head(int query) const { return first_head + query % heads; }
  };
  STRATA_DEVICE Work work_of(std::int64_t index) const {
    const int group = a.heads / a.kv_heads;
    const int parts = (group + kQueries - 1) / kQueries;
    Work w;
    const int part = static_cast<int>(index % parts);
    index /= parts;
    w.kv = static_cast<int>(index % a.kv_heads);
    index /= a.kv_heads;
    w.rows = a.tiles[index % a.tile_count];
    w.chunk = static_cast<int>(index / a.tile_count);
    w.first_head = w.kv * group + part * kQueries;
    w.heads = group - part * kQueries < kQueries ? group - part * kQueries : kQueries;
    w.queries = w.rows.count * w.heads;
    return w;
  }
  // Positions of a chunk that a query sees, none or fewer when it ends before.
  STRATA_DEVICE int visible(const Work& w, int query, int chunk) const {
    const int n = a.places[w.row(query)].position + 1 - chunk * kAttentionSpan;
    return n < kAttentionSpan ? n : kAttentionSpan;
  }

  template <class Cell>
  STRATA_DEVICE void score(const Work& w, const Place& p, int chunk, int thread,
                           Shared& shared) const {
    const int longest = visible(w, w.queries - 1, chunk);  // rows rise
    if (thread >= (longest + 15) / 16 * 16) {
      for (int i = 0; i < w.queries; ++i) shared.scores[i][thread] = -kInfinity;
      return;
    }
    const std::int64_t position = static_cast<std::int64_t>(chunk) * kAttentionSpan + thread;
    KeyReader<Cell> keys(p, w.kv, a.head_dim, position);
    float acc[kQueries] = {};
    STRATA_UNROLL(8)
    for (int d = 0; d < a.head_dim; ++d) {
      const float key = keys.at(d);
      STRATA_UNROLL(8)
      for (int i = 0; i < kQueries; ++i) {
        if (i < w.queries) acc[i] = fma_rn(key, shared.q[i][d], acc[i]);
      }
    }
    STRATA_UNROLL(8)
    for (int i = 0; i < kQueries; ++i) {
      if (i >= w.queries) continue;
      const bool seen = thread < visible(w, i, chunk);
      shared.scores[i][thread] = seen ? mul_rn(acc[i], a.scale) : -kInfinity;
    }
  }

  // Scores to exp(score - max); fills top and sum.
  STRATA_DEVICE void exponentiate(const Block<kThreads>& block, const Work& w,
                                  Shared& shared) const {
    const auto by_lane = [&](int thread, const auto& step) {
      if (thread / 16 < w.queries) step(thread / 16, thread % 16);
    };
    block.each([&](int thread) {
      by_lane(thread, [&](int i, int lane) {
        float m = shared.scores[i][lane];
        for (int g = 1; g < 16; ++g) m = max_of(shared.scores[i][16 * g + lane], m);
        shared.lanes[i][lane] = m;
      });
    });
    block.each([&](int thread) {
      if (thread >= w.queries) return;
      float m = shared.lanes[thread][0];
      for (int lane = 1; lane < 16; ++lane) m = max_of(shared.lanes[thread][lane], m);
      shared.top[thread] = m;
    });
    block.each([&](int thread) {
      for (int i = 0; i < w.queries; ++i) {
        shared.scores[i][thread] = exp_of(sub_rn(shared.scores[i][thread], shared.top[i]));
      }
    });
    block.each([&](int thread) {
      by_lane(thread, [&](int i, int lane) {
        float sum = 0.0f;
        for (int g = 0; g < 16; ++g) sum = add_rn(sum, shared.scores[i][16 * g + lane]);
        shared.lanes[i][lane] = sum;
      });
    });
  }

  // The outputs of a thread: dimensions d, d + 256 of every `slices`-th query.
  struct Slice {
    int count;
    int index;
    int dim;
    STRATA_DEVICE Slice(int head_dim, int thread)
        : count(head_dim < kThreads ? kThreads / head_dim : 1),
          index(count == 1 ? 0 : thread / head_dim),
          dim(count == 1 ? thread : thread % head_dim) {}
    STRATA_DEVICE bool has(int query) const { return query % count == index; }
  };

  template <class Cell>
  STRATA_DEVICE void weigh(const Work& w, const Place& p, int chunk, int thread,
                           const Shared& shared, Outputs& out) const {
    const Slice slice(a.head_dim, thread);
    const int longest = visible(w, w.queries - 1, chunk);
    int sees[kQueries];
    STRATA_UNROLL(8)
    for (int i = 0; i < kQueries; ++i) {
      sees[i] = i < w.queries && slice.has(i) ? visible(w, i, chunk) : 0;
    }
    STRATA_UNROLL(2)
    for (int k = 0; k < kDims; ++k) {
      const int dim = slice.dim + k * kThreads;
      if (dim >= a.head_dim) continue;
      const ValueReader<Cell> values(p, w.kv, a.head_dim,
                                     static_cast<std::int64_t>(chunk) * kAttentionSpan, dim);
      float acc[kQueries] = {};
      STRATA_UNROLL(4)
      for (int j = 0; j < longest; ++j) {
        const float value = values.at(j);
        STRATA_UNROLL(8)
        for (int i = 0; i < kQueries; ++i) {
          if (j < sees[i]) acc[i] = fma_rn(shared.scores[i][j], value, acc[i]);
        }
      }
      STRATA_UNROLL(8)
      for (int i = 0; i < kQueries; ++i) {
        if (sees[i] <= 0) continue;
        const Join& join = shared.running[i];
        out.running[i][k] = chunk == w.chunk
                                ? acc[i]
                                : fma_rn(acc[i], join.join, mul_rn(out.running[i][k], join.keep));
      }
    }
  }

  template <class Cell>
  STRATA_DEVICE void walk(const Block<kThreads>& block, const Work& w, const Place& p, int chunks,
                          Shared& shared, PerThread<Outputs, kThreads>& out) const {
    for (int chunk = w.chunk; chunk < chunks; ++chunk) {
      block.each([&](int thread) { score<Cell>(w, p, chunk, thread, shared); });
      exponentiate(block, w, shared);
      block.each([&](int thread) {
        if (thread >= w.queries || visible(w, thread, chunk) <= 0) return;
        const float sum = sum_lanes(shared.lanes[thread]);
        const float top = shared.top[thread];
        Join& running = shared.running[thread];
        running = chunk == w.chunk ? Join{top, sum, 0.0f, 0.0f}
                                   : join_of(running.max, running.sum, top, sum);
      });
      block.each([&](int thread) { weigh<Cell>(w, p, chunk, thread, shared, out[thread]); });
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const Work w = work_of(block.index);
    const Place p = at_layer(a.places[w.rows.first], a.layer);
    const int last = a.places[w.rows.first + w.rows.count - 1].position / kAttentionSpan;
    const int chunks = a.chunks == 0 ? last + 1 : w.chunk + 1;
    if (w.chunk > last) return;
    PerThread<Outputs, kThreads> out;
    block.each([&](int thread) {
      for (int i = 0; i < w.queries; ++i) {
        const std::int64_t at =
            static_cast<std::int64_t>(w.row(i)) * a.heads * a.head_dim + w.head(i) * a.head_dim;
        for (int d = thread; d < a.head_dim; d += kThreads) shared.q[i][d] = a.q[at + d];
      }
    });
    if (p.cells == Cells::kF16) {
      walk<std::uint16_t>(block, w, p, chunks, shared, out);
    } else if (p.cells == Cells::kF32) {
      walk<float>(block, w, p, chunks, shared, out);
    } else {
      walk<Q8>(block, w, p, chunks, shared, out);
    }
    block.each([&](int thread) { write(w, thread, shared, out[thread]); });
  }

  STRATA_DEVICE void write(const Work& w, int thread, const Shared& shared,
                           const Outputs& out) const {
    const Slice slice(a.head_dim, thread);
    STRATA_UNROLL(8)
    for (int i = 0; i < kQueries; ++i) {
      if (i >= w.queries || !slice.has(i) || visible(w, i, w.chunk) <= 0) continue;
      const std::int64_t row = w.row(i);
      const Join& result = shared.running[i];
      STRATA_UNROLL(2)
      for (int k = 0; k < kDims; ++k) {
        const int dim = slice.dim + k * kThreads;
        if (dim >= a.head_dim) continue;
        if (a.chunks == 0) {
          a.out[(row * a.heads + w.head(i)) * a.head_dim + dim] =
              div_rn(out.running[i][k], result.sum);
          continue;
        }
        const Partials partial(a, row, w.head(i), w.chunk);
        partial.out[dim] = out.running[i][k];
        if (dim == 0) {
          *partial.max = result.max;
          *partial.sum = result.sum;
        }
      }
    }
  }
};

// Joins a split's chunks: a block a row and head.
struct AttentionJoinKernel {
  static constexpr const char* kName = "attention_join";
  static constexpr int kThreads = 128;
  struct Shared {};
  AttentionArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t row = block.index / a.heads;
      const std::int64_t head = block.index % a.heads;
      const int chunks = a.places[row].position / kAttentionSpan + 1;
      for (int dim = thread; dim < a.head_dim; dim += kThreads) {
        const Partials first(a, row, head, 0);
        float max = *first.max;
        float sum = *first.sum;
        float out = first.out[dim];
        for (int c = 1; c < chunks; ++c) {
          const Partials next(a, row, head, c);
          const Join j = join_of(max, sum, *next.max, *next.sum);
          max = j.max;
          sum = j.sum;
          out = fma_rn(next.out[dim], j.join, mul_rn(out, j.keep));
        }
        a.out[block.index * a.head_dim + dim] = div_rn(out, sum);
      }
    });
  }
};

}  // namespace strata::cuda
