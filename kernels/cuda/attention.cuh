// Attention of few rows in the CPU's order (docs/exactness.md): chunks of 256 positions from
// position 0; in a chunk a score is one sum over the head's dimensions, an output one sum over the
// positions, both in order in one thread; chunks are joined in order. A block takes some queries
// that share a KV head, and either walks all chunks or computes one, which attention's second
// kernel joins.
//
// What costs is waiting: a block has all keys and values of its chunk brought to the GPU's cache at
// once, and threads have the next dimensions or positions under way as they add the ones before.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/place.cuh"

namespace strata::cuda {

inline constexpr int kAttentionHeadDim = 512;  // device::kMaxHeadDim

STRATA_DEVICE float half_of(std::uint32_t halves, int i) {
  return half_value(static_cast<std::uint16_t>(halves >> (16 * i)));
}

struct Q8 {};  // codes and scales: device::KvType::kQ8_0

// Two neighbouring cells: of a key the positions 2i and 2i + 1, of a value the dimensions.
template <class Cell>
struct CellPair;
template <>
struct CellPair<std::uint16_t> {
  static constexpr int kBytes = 2;  // of a cell
  std::uint32_t halves;
  STRATA_DEVICE void load_at(const std::byte* p) { halves = load<std::uint32_t>(p); }
  STRATA_DEVICE float value(int i, std::uint32_t /*scales*/) const { return half_of(halves, i); }
};
template <>
struct CellPair<float> {
  static constexpr int kBytes = 4;
  Int2 bits;
  STRATA_DEVICE void load_at(const std::byte* p) { bits = load<Int2>(p); }
  STRATA_DEVICE float value(int i, std::uint32_t /*scales*/) const {
    return bits_to_float(static_cast<std::uint32_t>(bits.v[i]));
  }
};
template <>
struct CellPair<Q8> {
  static constexpr int kBytes = 1;
  std::uint16_t codes;
  STRATA_DEVICE void load_at(const std::byte* p) { codes = load<std::uint16_t>(p); }
  STRATA_DEVICE float value(int i, std::uint32_t scales) const {
    const auto code = static_cast<std::int8_t>(codes >> (8 * i));
    return mul_rn(static_cast<float>(code), half_of(scales, i));
  }
};

// Dimensions of the keys of two positions.
template <class Cell>
struct KeyBatch {
  static constexpr int kDims = CellPair<Cell>::kBytes == 4 ? 16 : kQ8Block;
  CellPair<Cell> pair[kDims];
  std::uint32_t scales;  // of Q8, the two positions'
};
template <class Cell>
struct KeyReader {
  const std::byte* group;  // of 16 positions
  int lane;                // of the first position
  int head_dim;
  STRATA_DEVICE KeyReader(const Place& p, int kv, int dims, std::int64_t position)
      : group(p.keys +
              (static_cast<std::int64_t>(kv) * p.capacity + position / 16 * 16) * row_bytes(dims)),
        lane(static_cast<int>(position % 16)),
        head_dim(dims) {}
  STRATA_DEVICE static std::int64_t row_bytes(int dims) {
    if constexpr (std::is_same_v<Cell, Q8>) {
      return q8_row_bytes(dims);
    } else {
      return static_cast<std::int64_t>(dims) * CellPair<Cell>::kBytes;
    }
  }
  STRATA_DEVICE void read(int first, KeyBatch<Cell>& batch) const {
    const std::byte* cells = group;
    if constexpr (std::is_same_v<Cell, Q8>) {
      batch.scales = load<std::uint32_t>(group + first + 2 * lane);  // 32 bytes a block of 32
      cells += 32 * q8_blocks(head_dim);
    }
    const std::byte* p = cells + (16 * first + lane) * CellPair<Cell>::kBytes;
    STRATA_UNROLL(2)
    for (int half = 0; half < KeyBatch<Cell>::kDims; half += 16) {
      if (first + half >= head_dim) return;
      STRATA_UNROLL(16)
      for (int d = half; d < half + 16; ++d) {
        batch.pair[d].load_at(p + 16 * d * CellPair<Cell>::kBytes);
      }
    }
  }
};

// Two dimensions of the values of 16 positions.
template <class Cell>
struct ValueBatch {
  static constexpr int kPositions = CellPair<Cell>::kBytes == 2 ? 32 : 16;
  CellPair<Cell> pair[kPositions];
  std::uint32_t scales[kPositions];  // of Q8
};
template <class Cell>
struct ValueReader {
  const std::byte* cell;  // of position 0 of the chunk
  const std::byte* scale;
  std::int64_t row_bytes;
  STRATA_DEVICE ValueReader(const Place& p, int kv, int dims, std::int64_t begin, int dim)
      : row_bytes(KeyReader<Cell>::row_bytes(dims)) {
    const std::byte* row =
        p.values + (static_cast<std::int64_t>(kv) * p.capacity + begin) * row_bytes;
    scale = row + 2 * (dim / kQ8Block);
    cell = row + dim * CellPair<Cell>::kBytes;
    if constexpr (std::is_same_v<Cell, Q8>) cell += 2 * q8_blocks(dims);
  }
  // Positions from `first` on, of which there are `left`; past them the last one's.
  STRATA_DEVICE void read(int first, int left, ValueBatch<Cell>& batch) const {
    STRATA_UNROLL(32)
    for (int j = 0; j < ValueBatch<Cell>::kPositions; ++j) {
      const std::int64_t at = (first + (j < left ? j : left - 1)) * row_bytes;
      batch.pair[j].load_at(cell + at);
      if constexpr (std::is_same_v<Cell, Q8>) {
        batch.scales[j] = load<std::uint16_t>(scale + at) * 0x10001U;
      }
    }
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

STRATA_DEVICE int chunks_of(const Place& p) { return p.position / kAttentionSpan + 1; }

// Joins the chunks of one row and head, some chunks at a time: first what scales their outputs,
// then every thread its dimensions. Rows of one chunk have their output already.
template <int kThreads>
struct ChunkJoin {
  static constexpr int kChunks = 64;  // at a time
  static constexpr int kDims = (kAttentionHeadDim + kThreads - 1) / kThreads;
  struct Shared {
    Join step[kChunks];
    Join last;
  };
  struct Outputs {
    float of[kDims];
  };

  STRATA_DEVICE static void run(const Block<kThreads>& block, const AttentionArgs& a,
                                std::int64_t row, std::int64_t head, Shared& shared) {
    const int chunks = chunks_of(a.places[row]);
    if (chunks == 1) return;
    const Partials first(a, row, head, 0);
    const std::int64_t stride = a.heads;  // of max and sum, from chunk to chunk
    PerThread<Outputs, kThreads> out;
    for (int base = 0; base < chunks; base += kChunks) {
      const int count = chunks - base < kChunks ? chunks - base : kChunks;
      block.each([&](int thread) {
        for (int c = thread; c < count; c += kThreads) {
          shared.step[c].max = first.max[(base + c) * stride];
          shared.step[c].sum = first.sum[(base + c) * stride];
        }
      });
      // The largest so far is the same in whatever order it is found: each chunk finds its own.
      PerThread<Join, kThreads> mine;
      block.each([&](int thread) {
        for (int c = thread; c < count; c += kThreads) {
          float before = base == 0 ? -kInfinity : shared.last.max;
          for (int i = 0; i < c; ++i) before = max_of(before, shared.step[i].max);
          mine[thread] = join_of(before, 0.0f, shared.step[c].max, shared.step[c].sum);
        }
      });
      block.each([&](int thread) {
        if (thread < count) {
          shared.step[thread].keep = mine[thread].keep;
          shared.step[thread].join = mine[thread].join;
        }
      });
      block.each([&](int thread) {
        if (thread == 0) {
          float sum = base == 0 ? 0.0f : shared.last.sum;
          float max = base == 0 ? -kInfinity : shared.last.max;
          for (int c = 0; c < count; ++c) {
            const Join& j = shared.step[c];
            sum = base + c == 0 ? j.sum : fma_rn(j.sum, j.join, mul_rn(sum, j.keep));
            max = max_of(max, j.max);
          }
          shared.last.sum = sum;
          shared.last.max = max;
        }
        for (int k = 0; k < kDims; ++k) {
          const int dim = thread + k * kThreads;
          if (dim >= a.head_dim) continue;
          const float* partial = first.out + dim;
          float y = base == 0 ? 0.0f : out[thread].of[k];
          STRATA_UNROLL(8)
          for (int c = 0; c < count; ++c) {
            const float next = partial[(base + c) * stride * a.head_dim];
            const Join& j = shared.step[c];
            y = base + c == 0 ? next : fma_rn(next, j.join, mul_rn(y, j.keep));
          }
          out[thread].of[k] = y;
        }
      });
    }
    block.each([&](int thread) {
      for (int k = 0; k < kDims; ++k) {
        const int dim = thread + k * kThreads;
        if (dim >= a.head_dim) continue;
        a.out[(row * a.heads + head) * a.head_dim + dim] =
            div_rn(out[thread].of[k], shared.last.sum);
      }
    });
  }
};

template <int kQueries>
struct AttentionKernel {
  static constexpr const char* kName = "attention";
  static constexpr int kThreads = 256;
  static constexpr int kResident = 1;
  static constexpr int kPairs = kAttentionSpan / 2;     // scores: a thread two positions
  static constexpr int kParts = kQueries == 1 ? 1 : 2;  // of the queries
  static constexpr int kEach = kQueries / kParts;       // queries of a thread
  struct Shared {
    alignas(16) float q[kQueries][kAttentionHeadDim];
    alignas(16) float scores[kQueries][kAttentionSpan];
    float lanes[kQueries][16];
    float top[kQueries];
    Join running[kQueries];
    int positions[kQueries];  // that a query sees
  };
  struct Outputs {
    float running[kQueries][2];  // of a thread's queries and its two dimensions
  };
  AttentionArgs a;

  // What a block computes.
  struct Work {
    QueryRows rows;
    int kv;
    int first;    // query of all rows' heads
    int queries;  // none past the last part
    int group;    // heads of a KV head
    int chunk;    // first
    STRATA_DEVICE int row(int query) const { return rows.first + (first + query) / group; }
    STRATA_DEVICE int head(int query) const { return kv * group + (first + query) % group; }
  };
  STRATA_DEVICE static int parts_of(int group) {
    const int rows = kAttentionQueries / group > 1 ? kAttentionQueries / group : 1;
    return (rows * group + kQueries - 1) / kQueries;
  }
  STRATA_DEVICE Work work_of(std::int64_t index) const {
    Work w;
    w.group = a.heads / a.kv_heads;
    const int parts = parts_of(w.group);
    const auto sets = static_cast<int>(parts * a.kv_heads * a.tile_count);
    auto i = static_cast<int>(index);
    w.chunk = i / sets;
    i %= sets;
    w.first = i % parts * kQueries;
    i /= parts;
    w.kv = i % a.kv_heads;
    w.rows = a.tiles[i / a.kv_heads];
    const int left = w.rows.count * w.group - w.first;
    w.queries = left < kQueries ? left : kQueries;
    return w;
  }
  // Positions of a chunk that a query sees, none or fewer when it ends before.
  STRATA_DEVICE static int visible(const Shared& shared, int query, int chunk) {
    const int n = shared.positions[query] - chunk * kAttentionSpan;
    return n < kAttentionSpan ? n : kAttentionSpan;
  }

  // Has the cache's lines of a chunk brought to the GPU's cache.
  STRATA_DEVICE static void prefetch_chunk(const Work& w, const Place& p, int end,
                                           std::int64_t row_bytes, int thread) {
    const std::int64_t first = static_cast<std::int64_t>(w.kv) * p.capacity +
                               static_cast<std::int64_t>(w.chunk) * kAttentionSpan;
    const int left = end - w.chunk * kAttentionSpan;
    const int positions = left < kAttentionSpan ? (left + 15) / 16 * 16 : kAttentionSpan;
    const int bytes = positions * static_cast<int>(row_bytes);
    for (int i = 128 * thread; i < bytes; i += 128 * kThreads) {
      prefetch(p.keys + first * row_bytes + i);
      prefetch(p.values + first * row_bytes + i);
    }
  }

  template <class Cell>
  STRATA_DEVICE void score(const Work& w, const Place& p, int chunk, int thread,
                           Shared& shared) const {
    const int pair = thread % kPairs;
    const int part = thread / kPairs;
    if (part >= kParts) return;
    const int longest = visible(shared, w.queries - 1, chunk);  // rows rise
    float acc[kEach][2] = {};
    if (2 * pair < longest) {
      const KeyReader<Cell> keys(p, w.kv, a.head_dim,
                                 static_cast<std::int64_t>(chunk) * kAttentionSpan + 2 * pair);
      KeyBatch<Cell> now;
      KeyBatch<Cell> next;
      keys.read(0, now);
      constexpr int kDims = KeyBatch<Cell>::kDims;
      STRATA_UNROLL(1)
      for (int first = 0; first < a.head_dim; first += kDims) {
        if (first + kDims < a.head_dim) keys.read(first + kDims, next);
        STRATA_UNROLL(8)
        for (int d = 0; d < kDims; d += 4) {
          if (d >= 16 && first + 16 >= a.head_dim) break;
          STRATA_UNROLL(8)
          for (int i = 0; i < kEach; ++i) {
            const auto q = *reinterpret_cast<const Float4*>(&shared.q[kEach * part + i][first + d]);
            STRATA_UNROLL(4)
            for (int j = 0; j < 4; ++j) {
              acc[i][0] = fma_rn(now.pair[d + j].value(0, now.scales), q.v[j], acc[i][0]);
              acc[i][1] = fma_rn(now.pair[d + j].value(1, now.scales), q.v[j], acc[i][1]);
            }
          }
        }
        now = next;
      }
    }
    STRATA_UNROLL(8)
    for (int i = 0; i < kEach; ++i) {
      const int query = kEach * part + i;
      if (query >= w.queries) continue;
      const int sees = visible(shared, query, chunk);
      for (int j = 0; j < 2; ++j) {
        shared.scores[query][2 * pair + j] =
            2 * pair + j < sees ? mul_rn(acc[i][j], a.scale) : -kInfinity;
      }
    }
  }

  // Scores to exp(score - max); fills top and the lanes' sums.
  STRATA_DEVICE void exponentiate(const Block<kThreads>& block, const Work& w,
                                  Shared& shared) const {
    const auto by_lane = [&](int thread, const auto& step) {
      if (thread / 16 < w.queries) step(thread / 16, thread % 16);
    };
    block.each([&](int thread) {
      by_lane(thread, [&](int i, int lane) {
        float m = shared.scores[i][lane];
        STRATA_UNROLL(16)
        for (int g = 1; g < 16; ++g) m = max_of(shared.scores[i][16 * g + lane], m);
        shared.lanes[i][lane] = m;
      });
    });
    block.each([&](int thread) {
      if (thread >= w.queries) return;
      float m = shared.lanes[thread][0];
      STRATA_UNROLL(16)
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
        STRATA_UNROLL(16)
        for (int g = 0; g < 16; ++g) sum = add_rn(sum, shared.scores[i][16 * g + lane]);
        shared.lanes[i][lane] = sum;
      });
    });
  }

  // The outputs of a thread: two dimensions of every `parts`-th query.
  struct Slice {
    int parts;
    int part;
    int dim;
    STRATA_DEVICE Slice(int head_dim, int thread)
        : parts(2 * kThreads / head_dim < kQueries ? 2 * kThreads / head_dim : kQueries),
          part(thread / (head_dim / 2)),
          dim(2 * (thread % (head_dim / 2))) {}
    STRATA_DEVICE int query(int i) const { return part + i * parts; }
  };

  // Adds a batch of positions, all of which every query sees, or not.
  template <class Cell, int kMine, bool kAll>
  STRATA_DEVICE static void add_values(const ValueBatch<Cell>& v, int first,
                                       const int (&sees)[kMine], const Slice& slice,
                                       const Shared& shared, float (&acc)[kMine][2]) {
    STRATA_UNROLL(8)
    for (int i = 0; i < kMine; ++i) {
      const int query = slice.query(i) < kQueries ? slice.query(i) : 0;
      STRATA_UNROLL(8)
      for (int j = 0; j < ValueBatch<Cell>::kPositions; j += 4) {
        const auto e = *reinterpret_cast<const Float4*>(&shared.scores[query][first + j]);
        STRATA_UNROLL(4)
        for (int k = 0; k < 4; ++k) {
          if (!kAll && first + j + k >= sees[i]) continue;
          const CellPair<Cell>& pair = v.pair[j + k];
          acc[i][0] = fma_rn(e.v[k], pair.value(0, v.scales[j + k]), acc[i][0]);
          acc[i][1] = fma_rn(e.v[k], pair.value(1, v.scales[j + k]), acc[i][1]);
        }
      }
    }
  }

  template <class Cell, int kMine>
  STRATA_DEVICE void weigh(const Work& w, const Place& p, int chunk, int thread,
                           const Shared& shared, Outputs& out) const {
    constexpr int kBatch = ValueBatch<Cell>::kPositions;
    const Slice slice(a.head_dim, thread);
    if (slice.part >= slice.parts) return;
    int sees[kMine];
    int shortest = kAttentionSpan;
    int longest = 0;
    STRATA_UNROLL(8)
    for (int i = 0; i < kMine; ++i) {
      sees[i] = slice.query(i) < w.queries ? visible(shared, slice.query(i), chunk) : 0;
      if (slice.query(i) >= w.queries) continue;
      shortest = sees[i] < shortest ? sees[i] : shortest;
      longest = sees[i] > longest ? sees[i] : longest;
    }
    const ValueReader<Cell> values(p, w.kv, a.head_dim,
                                   static_cast<std::int64_t>(chunk) * kAttentionSpan, slice.dim);
    float acc[kMine][2] = {};
    ValueBatch<Cell> now;
    ValueBatch<Cell> next;
    if (longest > 0) values.read(0, longest, now);
    STRATA_UNROLL(1)
    for (int first = 0; first < longest; first += kBatch) {
      if (first + kBatch < longest) values.read(first + kBatch, longest - first - kBatch, next);
      if (first + kBatch <= shortest) {
        add_values<Cell, kMine, true>(now, first, sees, slice, shared, acc);
      } else {
        add_values<Cell, kMine, false>(now, first, sees, slice, shared, acc);
      }
      now = next;
    }
    STRATA_UNROLL(8)
    for (int i = 0; i < kMine; ++i) {
      if (sees[i] <= 0) continue;
      const Join& join = shared.running[slice.query(i)];
      STRATA_UNROLL(2)
      for (int k = 0; k < 2; ++k) {
        out.running[i][k] =
            chunk == w.chunk ? acc[i][k]
                             : fma_rn(acc[i][k], join.join, mul_rn(out.running[i][k], join.keep));
      }
    }
  }

  template <class Cell>
  STRATA_DEVICE void weigh_all(const Work& w, const Place& p, int chunk, int thread,
                               const Shared& shared, Outputs& out) const {
    const int parts = Slice(a.head_dim, 0).parts;
    const int mine = (kQueries + parts - 1) / parts;
    if constexpr (kQueries > 4) {
      if (mine > 4) return weigh<Cell, kQueries>(w, p, chunk, thread, shared, out);
    }
    if constexpr (kQueries > 2) {
      if (mine > 2) return weigh<Cell, 4>(w, p, chunk, thread, shared, out);
    }
    if constexpr (kQueries > 1) {
      if (mine > 1) return weigh<Cell, 2>(w, p, chunk, thread, shared, out);
    }
    weigh<Cell, 1>(w, p, chunk, thread, shared, out);
  }

  template <class Cell>
  STRATA_DEVICE void walk(const Block<kThreads>& block, const Work& w, const Place& p, int end,
                          int chunks, Shared& shared, PerThread<Outputs, kThreads>& out) const {
    block.each([&](int thread) {
      prefetch_chunk(w, p, end, KeyReader<Cell>::row_bytes(a.head_dim), thread);
      if (thread < w.queries) shared.positions[thread] = a.places[w.row(thread)].position + 1;
      for (int i = 0; i < w.queries; ++i) {
        const std::int64_t at =
            (static_cast<std::int64_t>(w.row(i)) * a.heads + w.head(i)) * a.head_dim;
        STRATA_UNROLL(1)
        for (int d = thread; d < a.head_dim; d += kThreads) shared.q[i][d] = a.q[at + d];
      }
    });
    for (int chunk = w.chunk; chunk < chunks; ++chunk) {
      block.each([&](int thread) { score<Cell>(w, p, chunk, thread, shared); });
      exponentiate(block, w, shared);
      block.each([&](int thread) {
        if (thread >= w.queries || visible(shared, thread, chunk) <= 0) return;
        const float sum = sum_lanes(shared.lanes[thread]);
        const float top = shared.top[thread];
        Join& running = shared.running[thread];
        running = chunk == w.chunk ? Join{top, sum, 0.0f, 0.0f}
                                   : join_of(running.max, running.sum, top, sum);
      });
      block.each([&](int thread) { weigh_all<Cell>(w, p, chunk, thread, shared, out[thread]); });
    }
  }

  STRATA_DEVICE void write(const Work& w, int thread, const Shared& shared,
                           const Outputs& out) const {
    const Slice slice(a.head_dim, thread);
    if (slice.part >= slice.parts) return;
    STRATA_UNROLL(8)
    for (int i = 0; i < kQueries; ++i) {
      const int query = slice.query(i);
      if (query >= w.queries || visible(shared, query, w.chunk) <= 0) continue;
      const std::int64_t row = w.row(query);
      const Join& result = shared.running[query];
      if (a.chunks == 0 || shared.positions[query] <= kAttentionSpan) {
        float* to = a.out + (row * a.heads + w.head(query)) * a.head_dim + slice.dim;
        to[0] = div_rn(out.running[i][0], result.sum);
        to[1] = div_rn(out.running[i][1], result.sum);
        continue;
      }
      const Partials partial(a, row, w.head(query), w.chunk);
      partial.out[slice.dim] = out.running[i][0];
      partial.out[slice.dim + 1] = out.running[i][1];
      if (slice.dim == 0) {
        *partial.max = result.max;
        *partial.sum = result.sum;
      }
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const Work w = work_of(block.index);
    if (w.queries <= 0) return;
    const Place p = at_layer(a.places[w.rows.first], a.layer);
    const int end = a.places[w.row(w.queries - 1)].position + 1;
    const int last = (end - 1) / kAttentionSpan;
    const int chunks = a.chunks == 0 ? last + 1 : w.chunk + 1;
    if (w.chunk > last) return;
    PerThread<Outputs, kThreads> out;
    if (p.cells == Cells::kF16) {
      walk<std::uint16_t>(block, w, p, end, chunks, shared, out);
    } else if (p.cells == Cells::kF32) {
      walk<float>(block, w, p, end, chunks, shared, out);
    } else {
      walk<Q8>(block, w, p, end, chunks, shared, out);
    }
    block.lanes([&](int thread) { write(w, thread, shared, out[thread]); });
  }
};

// Joins a split's chunks: a block a row and head.
struct AttentionJoinKernel {
  static constexpr const char* kName = "attention_join";
  static constexpr int kThreads = 128;
  using Shared = ChunkJoin<kThreads>::Shared;
  AttentionArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    ChunkJoin<kThreads>::run(block, a, block.index / a.heads, block.index % a.heads, shared);
  }
};

}  // namespace strata::cuda
