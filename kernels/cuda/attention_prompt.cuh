// Attention of a prompt's rows, in the order of attention.cuh, as two products of matrices: scores
// of up to 64 queries with the 256 positions of a chunk, then their exponentials with the chunk's
// values. A thread has 8 queries x 8 positions, then 8 queries x 4 dimensions (as many queries as
// dimensions where heads are small), each output one sum in order; keys and values come as slabs of
// 2048 cells, converted once to floats in shared memory, the next under way while one is used.
//
// Exponentials of a chunk pass through shared memory in two halves of 128 positions.
#pragma once

#include "kernels/cuda/attention.cuh"

namespace strata::cuda {

// 8 cells as they lie: of neighbouring positions of a dimension of keys, or of neighbouring
// dimensions of a position of values.
template <class Cell>
struct EightCells;
template <>
struct EightCells<std::uint16_t> {
  static constexpr bool kScaled = false;
  Int4 halves;
  STRATA_DEVICE void load_from(const std::byte* cells, std::int64_t index) {
    halves = load<Int4>(cells + 2 * index);
  }
  STRATA_DEVICE float at(int i) const {
    const auto pair = static_cast<std::uint32_t>(halves.v[i / 2]);
    return half_value(static_cast<std::uint16_t>(i % 2 == 0 ? pair : pair >> 16));
  }
};
template <>
struct EightCells<float> {
  static constexpr bool kScaled = false;
  Float4 floats[2];
  STRATA_DEVICE void load_from(const std::byte* cells, std::int64_t index) {
    floats[0] = bytes_as<Float4>(load<Int4>(cells + 4 * index));
    floats[1] = bytes_as<Float4>(load<Int4>(cells + 4 * index + 16));
  }
  STRATA_DEVICE float at(int i) const { return floats[i / 4].v[i % 4]; }
};
template <>
struct EightCells<Q8> {
  static constexpr bool kScaled = true;
  std::uint16_t codes[4];
  std::uint16_t scales[8];
  STRATA_DEVICE float at(int i) const {
    const auto code = static_cast<std::int8_t>(codes[i / 2] >> (8 * (i % 2)));
    return mul_rn(static_cast<float>(code), half_value(scales[i]));
  }
  STRATA_DEVICE void load_codes(const std::byte* p) {
    STRATA_UNROLL(4)
    for (int i = 0; i < 4; ++i) codes[i] = load<std::uint16_t>(p + 2 * i);
  }
};

// Positions position .. position + 7, in one group of 16.
template <class Cell>
STRATA_DEVICE EightCells<Cell> load_keys(const Place& p, int kv, int head_dim, int position,
                                         int dim) {
  EightCells<Cell> cells;
  const std::int64_t group = static_cast<std::int64_t>(kv) * (p.capacity / 16) + position / 16;
  if constexpr (!EightCells<Cell>::kScaled) {
    cells.load_from(p.keys, (group * head_dim + dim) * 16 + position % 16);
  } else {
    const std::byte* at = p.keys + group * 16 * q8_row_bytes(head_dim);
    cells.load_codes(at + 32 * q8_blocks(head_dim) + 16 * dim + position % 16);
    STRATA_UNROLL(8)
    for (int i = 0; i < 8; ++i) {
      cells.scales[i] = load<std::uint16_t>(at + 32 * (dim / kQ8Block) + 2 * (position % 16 + i));
    }
  }
  return cells;
}
// Dimensions dim .. dim + 7, in one block.
template <class Cell>
STRATA_DEVICE EightCells<Cell> load_values(const Place& p, int kv, int head_dim, int position,
                                           int dim) {
  EightCells<Cell> cells;
  const std::int64_t row = static_cast<std::int64_t>(kv) * p.capacity + position;
  if constexpr (!EightCells<Cell>::kScaled) {
    cells.load_from(p.values, row * head_dim + dim);
  } else {
    const std::byte* at = p.values + row * q8_row_bytes(head_dim);
    cells.load_codes(at + 2 * q8_blocks(head_dim) + dim);
    const auto scale = load<std::uint16_t>(at + 2 * (dim / kQ8Block));
    STRATA_UNROLL(8)
    for (int i = 0; i < 8; ++i) cells.scales[i] = scale;
  }
  return cells;
}

// kDims: the head's dimensions, rounded up to 64, 128 or 256.
template <int kDims>
struct AttentionPromptKernel {
  static constexpr const char* kName = "attention_prompt";
  static constexpr int kThreads = 256;
  static constexpr int kResident = 1;
  static constexpr int kQueries = wide_attention_queries(kDims);
  static constexpr int kHalf = kAttentionSpan / 2;
  // Scores of a thread: 8 queries with kQuads x 4 positions.
  static constexpr int kQueryWarps = kQueries / 32;
  static constexpr int kKeyWarps = 8 / kQueryWarps;
  static constexpr int kQuads = kQueries / 32;
  static constexpr int kTopSlots = 8 * kKeyWarps;
  // Outputs of a thread: kOutQueries with 4 dimensions.
  static constexpr int kOutQueries = kDims == 64 ? 4 : 8;
  static constexpr int kOutQueryWarps = kQueries / (4 * kOutQueries);
  static_assert(8 / kOutQueryWarps * 32 == kDims);
  // Slabs.
  static constexpr int kKeyDims = 8;                       // of all positions of a chunk
  static constexpr int kKeyStride = kAttentionSpan + 4;    // floats: dimensions lie in other banks
  static constexpr int kPositions = 8 * kThreads / kDims;  // of all dimensions
  static constexpr int kSlab = kKeyDims * kKeyStride;
  static_assert(kSlab >= kPositions * kDims);

  struct Shared {
    alignas(16) float q[kDims][kQueries];
    alignas(16) float slab[2][kSlab];
    // Exponentials of half a chunk, [position][query], every fourth position set apart by 4 floats;
    // before that the largest scores of each thread, [slot][query].
    alignas(16) float e[kHalf * kQueries + kHalf];
    float lanes[16][kQueries];
    alignas(16) float top[kQueries];
    Join running[kQueries];
    std::int32_t position[kQueries];
  };
  struct Scores {
    float s[kQuads][8][4];  // [quad][query][position]
  };
  struct Outputs {
    float chunk[kOutQueries][4];
    float running[kOutQueries][4];
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
    int chunks;   // past the last
    STRATA_DEVICE int row(int query) const { return rows.first + query / heads; }
    STRATA_DEVICE int head(int query) const { return first_head + query % heads; }
  };
  // Late rows, which see most, come first.
  STRATA_DEVICE Work work_of(std::int64_t index) const {
    const int group = a.heads / a.kv_heads;
    const int parts = (group + kQueries - 1) / kQueries;
    Work w;
    const int part = static_cast<int>(index % parts);
    index /= parts;
    w.kv = static_cast<int>(index % a.kv_heads);
    index /= a.kv_heads;
    w.rows = a.tiles[a.tile_count - 1 - index % a.tile_count];
    w.chunk = static_cast<int>(index / a.tile_count);
    w.first_head = w.kv * group + part * kQueries;
    w.heads = group - part * kQueries < kQueries ? group - part * kQueries : kQueries;
    w.queries = w.rows.count * w.heads;
    const int last = a.places[w.rows.first + w.rows.count - 1].position / kAttentionSpan;
    w.chunks = a.chunks == 0 || w.chunk > last ? last + 1 : w.chunk + 1;
    return w;
  }

  // Where a thread's queries and positions lie in the product of scores.
  struct ScoreTile {
    int query;
    int position;  // of the first quad
    int slot;
    STRATA_DEVICE explicit ScoreTile(int thread)
        : query(thread / 32 / kKeyWarps * 32 + thread % 32 / 8 * 8),
          position(thread / 32 % kKeyWarps * 32 + thread % 8 * 4),
          slot(thread / 32 % kKeyWarps * 8 + thread % 8) {}
    STRATA_DEVICE int of_quad(int quad) const { return position + quad * kHalf; }
  };
  struct OutTile {
    int query;
    int dim;
    STRATA_DEVICE explicit OutTile(int thread)
        : query((thread / 32 % kOutQueryWarps * 4 + thread % 32 / 8) * kOutQueries),
          dim(thread / 32 / kOutQueryWarps * 32 + thread % 8 * 4) {}
  };
  STRATA_DEVICE static int e_at(int position) { return position * kQueries + position / 4 * 4; }

  // Positions of a chunk that a query sees, none or fewer when it ends before.
  STRATA_DEVICE static int visible(const Shared& shared, int query, int chunk) {
    const int n = shared.position[query] + 1 - chunk * kAttentionSpan;
    return n < kAttentionSpan ? n : kAttentionSpan;
  }

  STRATA_DEVICE void load_queries(const Work& w, int thread, Shared& shared) const {
    if (thread < kQueries) {
      const int query = thread < w.queries ? thread : w.queries - 1;
      shared.position[thread] = a.places[w.row(query)].position;
    }
    for (int i = thread; i < kQueries * kDims / 4; i += kThreads) {
      const int query = i % kQueries;
      const int dim = i / kQueries * 4;
      Float4 x{};
      if (query < w.queries && dim < a.head_dim) {
        const std::int64_t at = static_cast<std::int64_t>(w.row(query)) * a.heads + w.head(query);
        x = bytes_as<Float4>(load<Int4>(a.q + at * a.head_dim + dim));
      }
      STRATA_UNROLL(4)
      for (int j = 0; j < 4; ++j) shared.q[dim + j][query] = x.v[j];
    }
  }

  // A thread's part of a slab: 8 positions of a dimension of keys. Past the end: zeros.
  template <class Cell>
  STRATA_DEVICE EightCells<Cell> fetch_keys(const Work& w, const Place& p, int chunk, int longest,
                                            int slab, int thread) const {
    const int position = thread / 16 * 16 + thread / 8 % 2 * 8;
    if (thread / 16 * 16 >= longest) return {};
    return load_keys<Cell>(p, w.kv, a.head_dim, chunk * kAttentionSpan + position,
                           slab * kKeyDims + thread % 8);
  }
  template <class Cell>
  STRATA_DEVICE static void put_keys(const EightCells<Cell>& cells, int thread, float* slab) {
    float* to = slab + thread % 8 * kKeyStride + thread / 16 * 16 + thread / 8 % 2 * 8;
    put(cells, to);
  }
  template <class Cell>
  STRATA_DEVICE static void put(const EightCells<Cell>& cells, float* to) {
    STRATA_UNROLL(2)
    for (int i = 0; i < 8; i += 4) {
      store(to + i, Float4{{cells.at(i), cells.at(i + 1), cells.at(i + 2), cells.at(i + 3)}});
    }
  }
  // 8 dimensions of a position of values, counted from the chunk's first.
  template <class Cell>
  STRATA_DEVICE EightCells<Cell> fetch_values(const Work& w, const Place& p, int chunk, int longest,
                                              int first, int thread) const {
    const int position = first + thread / (kDims / 8);
    const int dim = thread % (kDims / 8) * 8;
    if (position >= longest || dim >= a.head_dim) return {};
    return load_values<Cell>(p, w.kv, a.head_dim, chunk * kAttentionSpan + position, dim);
  }
  template <class Cell>
  STRATA_DEVICE static void put_values(const EightCells<Cell>& cells, int thread, float* slab) {
    put(cells, slab + 8 * thread);  // [position][kDims]
  }

  STRATA_DEVICE static Float4 four(const float* p) { return *reinterpret_cast<const Float4*>(p); }

  // A slab of keys meets kUsed quads of a thread's positions.
  template <int kUsed>
  STRATA_DEVICE static void score(const Shared& shared, const float* slab, int first, int thread,
                                  Scores& scores) {
    const ScoreTile tile(thread);
    STRATA_UNROLL(8)
    for (int d = 0; d < kKeyDims; ++d) {
      const Float4 q[2] = {four(&shared.q[first + d][tile.query]),
                           four(&shared.q[first + d][tile.query + 4])};
      STRATA_UNROLL(2)
      for (int quad = 0; quad < kUsed; ++quad) {
        const Float4 key = four(slab + d * kKeyStride + tile.of_quad(quad));
        STRATA_UNROLL(8)
        for (int i = 0; i < 8; ++i) {
          STRATA_UNROLL(4)
          for (int j = 0; j < 4; ++j) {
            float& s = scores.s[quad][i][j];
            s = fma_rn(key.v[j], q[i / 4].v[i % 4], s);
          }
        }
      }
    }
  }

  // Scales the scores, hides what a query does not see, and leaves each query's largest.
  STRATA_DEVICE void mask(int chunk, int thread, Scores& scores, Shared& shared) const {
    const ScoreTile tile(thread);
    STRATA_UNROLL(8)
    for (int i = 0; i < 8; ++i) {
      const int sees = visible(shared, tile.query + i, chunk);
      float top = -kInfinity;
      STRATA_UNROLL(2)
      for (int quad = 0; quad < kQuads; ++quad) {
        STRATA_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          float& s = scores.s[quad][i][j];
          s = tile.of_quad(quad) + j < sees ? mul_rn(s, a.scale) : -kInfinity;
          top = max_of(s, top);
        }
      }
      shared.e[tile.slot * kQueries + tile.query + i] = top;
    }
  }

  // Exponentials of half a chunk.
  STRATA_DEVICE static void exponentiate(int half, int thread, const Scores& scores,
                                         Shared& shared) {
    const ScoreTile tile(thread);
    STRATA_UNROLL(2)
    for (int quad = 0; quad < kQuads; ++quad) {
      if (tile.of_quad(quad) / kHalf != half) continue;
      const int first = tile.of_quad(quad) % kHalf;
      STRATA_UNROLL(2)
      for (int part = 0; part < 8; part += 4) {
        const Float4 top = four(&shared.top[tile.query + part]);
        STRATA_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          Float4 e;
          STRATA_UNROLL(4)
          for (int i = 0; i < 4; ++i) {
            e.v[i] = exp_of(sub_rn(scores.s[quad][part + i][j], top.v[i]));
          }
          store(&shared.e[e_at(first + j) + tile.query + part], e);
        }
      }
    }
  }

  // Adds half a chunk's exponentials to the sums of 16 lanes.
  STRATA_DEVICE static void sum_half(int half, int thread, Shared& shared) {
    const int query = thread % kQueries;
    for (int lane = thread / kQueries; lane < 16; lane += kThreads / kQueries) {
      float sum = half == 0 ? 0.0f : shared.lanes[lane][query];
      STRATA_UNROLL(8)
      for (int g = 0; g < kHalf / 16; ++g) {
        sum = add_rn(sum, shared.e[e_at(16 * g + lane) + query]);
      }
      shared.lanes[lane][query] = sum;
    }
  }

  // A slab of values, from position `first` of half a chunk on. kAll: all queries see all of it.
  template <bool kAll>
  STRATA_DEVICE static void weigh(const Shared& shared, const float* slab, int chunk, int half,
                                  int first, int thread, Outputs& out) {
    const OutTile tile(thread);
    int sees[kOutQueries];
    if constexpr (!kAll) {
      STRATA_UNROLL(8)
      for (int i = 0; i < kOutQueries; ++i) {
        sees[i] = visible(shared, tile.query + i, chunk) - half * kHalf - first;
      }
    }
    STRATA_UNROLL(8)
    for (int j = 0; j < kPositions; ++j) {
      const Float4 value = four(slab + j * kDims + tile.dim);
      STRATA_UNROLL(2)
      for (int part = 0; part < kOutQueries; part += 4) {
        const Float4 e = four(&shared.e[e_at(first + j) + tile.query + part]);
        STRATA_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          if (!kAll && j >= sees[part + i]) continue;
          STRATA_UNROLL(4)
          for (int d = 0; d < 4; ++d) {
            float& acc = out.chunk[part + i][d];
            acc = fma_rn(e.v[i], value.v[d], acc);
          }
        }
      }
    }
  }

  // A chunk's outputs join those before it.
  STRATA_DEVICE static void join(const Work& w, const Shared& shared, int chunk, int thread,
                                 Outputs& out) {
    const OutTile tile(thread);
    STRATA_UNROLL(8)
    for (int i = 0; i < kOutQueries; ++i) {
      const bool sees = visible(shared, tile.query + i, chunk) > 0;
      const Join& j = shared.running[tile.query + i];
      STRATA_UNROLL(4)
      for (int d = 0; d < 4; ++d) {
        float& acc = out.chunk[i][d];
        if (sees) {
          out.running[i][d] =
              chunk == w.chunk ? acc : fma_rn(acc, j.join, mul_rn(out.running[i][d], j.keep));
        }
        acc = 0.0f;
      }
    }
  }

  template <class Cell>
  STRATA_DEVICE void walk(const Block<kThreads>& block, const Work& w, const Place& p,
                          Shared& shared, PerThread<Outputs, kThreads>& out) const {
    PerThread<EightCells<Cell>, kThreads> next;
    PerThread<Scores, kThreads> scores;
    const int least_position = a.places[w.rows.first].position;
    const int most_position = a.places[w.rows.first + w.rows.count - 1].position;
    const auto seen = [](int position, int chunk) {
      const int n = position + 1 - chunk * kAttentionSpan;
      return n < kAttentionSpan ? n : kAttentionSpan;
    };
    int buffer = 0;
    block.lanes([&](int thread) {
      out[thread] = Outputs{};
      next[thread] = fetch_keys<Cell>(w, p, w.chunk, seen(most_position, w.chunk), 0, thread);
    });
    for (int chunk = w.chunk; chunk < w.chunks; ++chunk) {
      const int longest = seen(most_position, chunk);
      const int quads = block.repeats([&](int thread) {
        const int first = ScoreTile(thread).position / 32 * 32;
        return first >= longest ? 0 : kQuads > 1 && first + kHalf >= longest ? 1 : kQuads;
      });
      block.each([&](int thread) {
        scores[thread] = Scores{};
        put_keys(next[thread], thread, shared.slab[buffer]);
      });
      const int slabs = a.head_dim / kKeyDims;
      for (int s = 0; s < slabs; ++s) {
        block.lanes([&](int thread) {
          next[thread] = s + 1 < slabs ? fetch_keys<Cell>(w, p, chunk, longest, s + 1, thread)
                                       : fetch_values<Cell>(w, p, chunk, longest, 0, thread);
          const float* slab = shared.slab[buffer];
          if (quads == kQuads) {
            score<kQuads>(shared, slab, s * kKeyDims, thread, scores[thread]);
          } else if (quads == 1) {
            score<1>(shared, slab, s * kKeyDims, thread, scores[thread]);
          }
        });
        if (s + 1 == slabs) break;
        buffer ^= 1;
        block.each([&](int thread) { put_keys(next[thread], thread, shared.slab[buffer]); });
      }
      block.each([&](int thread) { mask(chunk, thread, scores[thread], shared); });
      block.each([&](int thread) {
        if (thread >= kQueries) return;
        float top = -kInfinity;
        STRATA_UNROLL(16)
        for (int i = 0; i < kTopSlots; ++i) top = max_of(shared.e[i * kQueries + thread], top);
        shared.top[thread] = top;
      });
      for (int half = 0; half * kHalf < longest; ++half) {
        const int end = longest - half * kHalf < kHalf ? longest - half * kHalf : kHalf;
        const int all = seen(least_position, chunk) - half * kHalf;  // see that many
        buffer ^= 1;
        block.each([&](int thread) {
          exponentiate(half, thread, scores[thread], shared);
          put_values(next[thread], thread, shared.slab[buffer]);
        });
        block.lanes([&](int thread) { sum_half(half, thread, shared); });
        for (int first = 0; first < end; first += kPositions) {
          const bool more = first + kPositions < end;
          block.lanes([&](int thread) {
            if (more || half * kHalf + kHalf < longest) {
              const int at = half * kHalf + (more ? first + kPositions : kHalf);
              next[thread] = fetch_values<Cell>(w, p, chunk, longest, at, thread);
            } else if (chunk + 1 < w.chunks) {
              next[thread] =
                  fetch_keys<Cell>(w, p, chunk + 1, seen(most_position, chunk + 1), 0, thread);
            }
            if (first + kPositions <= all) {
              weigh<true>(shared, shared.slab[buffer], chunk, half, first, thread, out[thread]);
            } else {
              weigh<false>(shared, shared.slab[buffer], chunk, half, first, thread, out[thread]);
            }
          });
          if (more) buffer ^= 1;
          block.each([&](int thread) {
            if (more) put_values(next[thread], thread, shared.slab[buffer]);
          });
        }
      }
      block.each([&](int thread) {
        if (thread >= w.queries || visible(shared, thread, chunk) <= 0) return;
        float lanes[16];
        STRATA_UNROLL(16)
        for (int i = 0; i < 16; ++i) lanes[i] = shared.lanes[i][thread];
        const float sum = sum_lanes(lanes);
        Join& running = shared.running[thread];
        running = chunk == w.chunk ? Join{shared.top[thread], sum, 0.0f, 0.0f}
                                   : join_of(running.max, running.sum, shared.top[thread], sum);
      });
      buffer ^= 1;
      block.lanes([&](int thread) { join(w, shared, chunk, thread, out[thread]); });
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const Work w = work_of(block.index);
    if (w.chunk >= w.chunks) return;
    const Place p = at_layer(a.places[w.rows.first], a.layer);
    PerThread<Outputs, kThreads> out;
    block.each([&](int thread) { load_queries(w, thread, shared); });
    if (p.cells == Cells::kF16) {
      walk<std::uint16_t>(block, w, p, shared, out);
    } else if (p.cells == Cells::kF32) {
      walk<float>(block, w, p, shared, out);
    } else {
      walk<Q8>(block, w, p, shared, out);
    }
    block.lanes([&](int thread) { write(w, thread, shared, out[thread]); });
  }

  STRATA_DEVICE void write(const Work& w, int thread, const Shared& shared,
                           const Outputs& out) const {
    const OutTile tile(thread);
    if (tile.dim >= a.head_dim) return;
    STRATA_UNROLL(8)
    for (int i = 0; i < kOutQueries; ++i) {
      const int query = tile.query + i;
      if (query >= w.queries || visible(shared, query, w.chunk) <= 0) continue;
      const std::int64_t row = w.row(query);
      const Join& result = shared.running[query];
      if (a.chunks == 0 || shared.position[query] < kAttentionSpan) {  // or the only chunk
        float* to = a.out + (row * a.heads + w.head(query)) * a.head_dim + tile.dim;
        STRATA_UNROLL(4)
        for (int d = 0; d < 4; ++d) to[d] = div_rn(out.running[i][d], result.sum);
        continue;
      }
      const Partials partial(a, row, w.head(query), w.chunk);
      STRATA_UNROLL(4)
      for (int d = 0; d < 4; ++d) partial.out[tile.dim + d] = out.running[i][d];
      if (tile.dim == 0) {
        *partial.max = result.max;
        *partial.sum = result.sum;
      }
    }
  }
};

}  // namespace strata::cuda
