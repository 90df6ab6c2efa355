// Attention over one chunk of positions for query rows that share a KV head.
// Included inside namespace strata::kernels::STRATA_ISA by kernels/cpu/table_inl.hpp.
//
// Keys are interleaved by 16 positions, so that a score is one lane's running sum over the head's
// dimensions in order; values are rows, so that an output is one lane's running sum over the
// positions in order. Chunks of kAttentionChunk positions start at position 0 whatever the window,
// and are joined in order: a token's result depends neither on the rows computed beside it nor on
// how chunks are spread over threads.

// How cells lie in the cache (device::KvLayer). A scale is loaded once for a block of dimensions.
constexpr int kKvBlock = 32;
struct NoScale {};

template <class Cell>
struct PlainCells {
  STRATA_INLINE F32x16 load_cells(const std::uint16_t* p) { return load_half(p); }
  STRATA_INLINE F32x16 load_cells(const float* p) { return load(p); }
  STRATA_INLINE std::size_t row_bytes(int head_dim) {
    return sizeof(Cell) * static_cast<std::size_t>(head_dim);
  }
  // Of a group of 16 keys, and of a row of values.
  STRATA_INLINE NoScale key_scale(const std::byte*, int) { return {}; }
  STRATA_INLINE NoScale value_scale(const std::byte*, int) { return {}; }
  STRATA_INLINE F32x16 key(const std::byte* group, int, int d, NoScale) {
    return load_cells(reinterpret_cast<const Cell*>(group) + 16 * d);
  }
  STRATA_INLINE F32x16 value(const std::byte* row, int, int d, NoScale) {
    return load_cells(reinterpret_cast<const Cell*>(row) + d);
  }
};

struct Q8Cells {
  STRATA_INLINE int blocks(int head_dim) { return (head_dim + kKvBlock - 1) / kKvBlock; }
  STRATA_INLINE std::size_t row_bytes(int head_dim) {
    return static_cast<std::size_t>(head_dim + 2 * blocks(head_dim));
  }
  STRATA_INLINE F32x16 key_scale(const std::byte* group, int block) {
    return load_half(group + 32 * block);
  }
  STRATA_INLINE F32x16 value_scale(const std::byte* row, int block) {
    return set1_half(row + 2 * block);
  }
  STRATA_INLINE F32x16 key(const std::byte* group, int head_dim, int d, F32x16 scale) {
    return mul(to_float(load_i8_as_int(group + 32 * blocks(head_dim) + 16 * d)), scale);
  }
  STRATA_INLINE F32x16 value(const std::byte* row, int head_dim, int d, F32x16 scale) {
    return mul(to_float(load_i8_as_int(row + 2 * blocks(head_dim) + d)), scale);
  }
};

// Scores of kQ queries with kP groups of 16 positions. Few groups at once: keys that come from
// memory come fastest as one stream. The values of the same positions are asked for meanwhile: with
// many sequences in a window neither lies in a near cache, and values would only be asked for once
// all scores are known (measured on Zen 4: a quarter to two fifths less time at 165 positions).
template <class Cells, int kQ, int kP>
STRATA_INLINE void score_groups(const AttentionChunkArgs& a, const float* q, int first, int group) {
  F32x16 acc[kP][kQ];
  for (auto& row : acc) {
    for (F32x16& x : row) x = zero();
  }
  const std::size_t group_bytes = 16 * Cells::row_bytes(a.head_dim);
  const std::size_t from = static_cast<std::size_t>(group) * group_bytes;
  const std::byte* k = static_cast<const std::byte*>(a.k) + from;
  const std::byte* v = static_cast<const std::byte*>(a.v) + from;  // as large as the keys
  const std::size_t values_a_step = group_bytes / static_cast<std::size_t>(a.head_dim);
  for (int first_dim = 0; first_dim < a.head_dim; first_dim += kKvBlock) {
    decltype(Cells::key_scale(k, 0)) scale[kP];
    for (int p = 0; p < kP; ++p) {
      scale[p] =
          Cells::key_scale(k + static_cast<std::size_t>(p) * group_bytes, first_dim / kKvBlock);
    }
    const int end = first_dim + kKvBlock < a.head_dim ? first_dim + kKvBlock : a.head_dim;
    for (int d = first_dim; d < end; ++d) {
      for (int p = 0; p < kP; ++p) {
        __builtin_prefetch(v + static_cast<std::size_t>(p) * group_bytes +
                           static_cast<std::size_t>(d) * values_a_step);
      }
#pragma GCC unroll kUnrollTokens
      for (int p = 0; p < kP; ++p) {
        const F32x16 key =
            Cells::key(k + static_cast<std::size_t>(p) * group_bytes, a.head_dim, d, scale[p]);
#pragma GCC unroll kUnrollTokens
        for (int i = 0; i < kQ; ++i) acc[p][i] = fma(key, set1(q[d * kQ + i]), acc[p][i]);
      }
    }
  }
  for (int p = 0; p < kP; ++p) {
    for (int i = 0; i < kQ; ++i) {
      const int position = 16 * (group + p);
      const F32x16 score =
          mask_from(mul(acc[p][i], set1(a.scale)), a.visible[first + i] - position);
      store(a.scores + (first + i) * kAttentionChunk + position, score);
    }
  }
}

// Turns a query's scores into exp(score - max) over `groups` groups; fills max and sum.
STRATA_INLINE void exponentiate(const AttentionChunkArgs& a, int query, int groups) {
  float* s = a.scores + query * kAttentionChunk;
  F32x16 m = load(s);
  for (int g = 1; g < groups; ++g) m = max(load(s + 16 * g), m);
  a.max[query] = max_lanes(m);
  const F32x16 top = set1(a.max[query]);
  F32x16 sum = zero();
  for (int g = 0; g < groups; ++g) {
    const F32x16 e = exp_(sub(load(s + 16 * g), top));
    store(s + 16 * g, e);
    sum = add(sum, e);
  }
  a.sum[query] = sum_lanes(sum);
}

template <class Cells>
STRATA_INLINE const std::byte* value_row(const AttentionChunkArgs& a, int position) {
  return static_cast<const std::byte*>(a.v) +
         static_cast<std::size_t>(position) * Cells::row_bytes(a.head_dim);
}

// Adds exp * value over positions [0, positions) for kQ queries and 16 * kD dimensions from `dim`.
template <class Cells, int kQ, int kD>
STRATA_INLINE void weigh_values(const AttentionChunkArgs& a, int first, int positions, int dim) {
  F32x16 acc[kQ][kD];
  for (auto& row : acc) {
    for (F32x16& x : row) x = zero();
  }
  for (int j = 0; j < positions; ++j) {
    F32x16 value[kD];
    const std::byte* v = value_row<Cells>(a, j);
    for (int d = 0; d < kD; ++d) {
      const int at = dim + 16 * d;
      value[d] = Cells::value(v, a.head_dim, at, Cells::value_scale(v, at / kKvBlock));
    }
#pragma GCC unroll kUnrollTokens
    for (int i = 0; i < kQ; ++i) {
      const F32x16 e = set1(a.scores[(first + i) * kAttentionChunk + j]);
#pragma GCC unroll kUnrollTokens
      for (int d = 0; d < kD; ++d) acc[i][d] = fma(e, value[d], acc[i][d]);
    }
  }
  for (int i = 0; i < kQ; ++i) {
    for (int d = 0; d < kD; ++d) store(a.out + (first + i) * a.head_dim + dim + 16 * d, acc[i][d]);
  }
}

// Positions [from, to) of one query, onto what is there.
template <class Cells>
STRATA_INLINE void weigh_tail(const AttentionChunkArgs& a, int query, int from, int to) {
  for (int dim = 0; dim < a.head_dim; dim += 16) {
    float* out = a.out + query * a.head_dim + dim;
    F32x16 acc = load(out);
    for (int j = from; j < to; ++j) {
      const std::byte* v = value_row<Cells>(a, j);
      const F32x16 value = Cells::value(v, a.head_dim, dim, Cells::value_scale(v, dim / kKvBlock));
      acc = fma(set1(a.scores[query * kAttentionChunk + j]), value, acc);
    }
    store(out, acc);
  }
}

template <class Cells, int kQ>
STRATA_INLINE void attend(const AttentionChunkArgs& a, int first) {
  constexpr int kMaxHead = 512;
  float q[kMaxHead * kQ];  // [dimension][query]: one pointer for the inner loop
  int shared = a.visible[first];
  int longest = 0;
  for (int i = 0; i < kQ; ++i) {
    for (int d = 0; d < a.head_dim; ++d) q[d * kQ + i] = a.q[first + i][d];
    shared = a.visible[first + i] < shared ? a.visible[first + i] : shared;
    longest = a.visible[first + i] > longest ? a.visible[first + i] : longest;
  }
  const int groups = (longest + 15) / 16;
  constexpr int kP = kQ == 1 ? 2 : 1;
  int g = 0;
  for (; g + kP <= groups; g += kP) score_groups<Cells, kQ, kP>(a, q, first, g);
  for (; g < groups; ++g) score_groups<Cells, kQ, 1>(a, q, first, g);
  for (int i = 0; i < kQ; ++i) exponentiate(a, first + i, groups);
  constexpr int kD = kQ <= 2 ? 4 : kQ <= 4 ? 2 : 1;
  int dim = 0;
  for (; dim + 16 * kD <= a.head_dim; dim += 16 * kD)
    weigh_values<Cells, kQ, kD>(a, first, shared, dim);
  for (; dim < a.head_dim; dim += 16) weigh_values<Cells, kQ, 1>(a, first, shared, dim);
  for (int i = 0; i < kQ; ++i) {
    if (a.visible[first + i] > shared)
      weigh_tail<Cells>(a, first + i, shared, a.visible[first + i]);
  }
}

template <class Cells>
void attention_chunk(const AttentionChunkArgs& a) {
  int i = 0;
  for (; i + 8 <= a.queries; i += 8) attend<Cells, 8>(a, i);
  for (; i + 4 <= a.queries; i += 4) attend<Cells, 4>(a, i);
  for (; i + 2 <= a.queries; i += 2) attend<Cells, 2>(a, i);
  for (; i < a.queries; ++i) attend<Cells, 1>(a, i);
}

void attention_merge(float* max_, float* sum, float* out, float chunk_max, float chunk_sum,
                     const float* chunk_out, int head_dim) {
  const float top = *max_ > chunk_max ? *max_ : chunk_max;
  float lane[16];
  store(lane, exp_(sub(set1(*max_), set1(top))));
  const float keep = lane[0];
  store(lane, exp_(sub(set1(chunk_max), set1(top))));
  const float join = lane[0];
  const float kept = *sum * keep;
  *max_ = top;
  *sum = __builtin_fmaf(chunk_sum, join, kept);
  for (int d = 0; d < head_dim; d += 16) {
    store(out + d, fma(load(chunk_out + d), set1(join), mul(load(out + d), set1(keep))));
  }
}
