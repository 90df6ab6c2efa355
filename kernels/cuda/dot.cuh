// Dot products of packed groups with up to 8 rows of activations: every weight byte of a token
// passes through here. A block takes a group of 16 rows. Its warps take the 8 segments of K, so
// that a segment's sum runs over its blocks in order within one lane, and no sum crosses lanes
// (docs/exactness.md). Reading is what costs: a lane has many blocks of weights under way.
#pragma once

#include "kernels/cpu/panel.hpp"
#include "kernels/cuda/formats.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/tensor.cuh"

namespace strata::cuda {

using kernels::BlockMeta;
using kernels::kPanelBlockBytes;

// A tile of one job at one group of one matrix.
struct DotPlace {
  const std::byte* group;
  const DotTarget* target;
  std::int64_t row;    // of the group's first row in the output
  std::int32_t first;  // column of the launch
  std::int32_t count;  // columns, 1..tile_width
  bool exists;         // else there are fewer groups, and this is the last one again
};

// The job of a block of a launch. Jobs of the same groups follow one another: without blobs they
// meet the groups' bytes in the cache.
STRATA_DEVICE std::int32_t job_of(const DotArgs& a, std::int64_t index) {
  return static_cast<std::int32_t>(index) % a.jobs;
}
// Whether there is such a job: a grid is made for the most there can be.
STRATA_DEVICE bool has_job(const DotArgs& a, std::int64_t index) {
  return a.job_count == nullptr || job_of(a, index) < *a.job_count;
}

// Group `k` of a block that takes `groups` of a job; the targets' groups are counted on.
STRATA_DEVICE DotPlace place_of(const DotArgs& a, int tile_width, std::int64_t index, int groups,
                                int k) {
  DotPlace p{};
  const std::int32_t job = job_of(a, index);
  auto g = static_cast<std::int32_t>(index) / a.jobs * groups + k;
  int t = 0;
  STRATA_UNROLL(4)
  for (int i = 0; i + 1 < kMaxTargets; ++i) {
    const auto count = static_cast<std::int32_t>(a.targets[i].groups);
    const bool later = t == i && i + 1 < a.target_count && g >= count;
    g -= later ? count : 0;
    t += later ? 1 : 0;
  }
  p.target = a.targets + t;
  const auto count = static_cast<std::int32_t>(p.target->groups);
  p.exists = g < count;
  g = p.exists ? g : count - 1;
  p.row = 16 * g;
  const std::byte* matrix = p.target->weights;
  if (a.job == nullptr) {
    p.first = job * tile_width;
    p.count = a.columns - p.first < tile_width ? a.columns - p.first : tile_width;
  } else {
    matrix = a.job[job].blob + p.target->offset;
    p.first = a.job[job].first;
    p.count = a.job[job].count;
  }
  p.group = matrix + a.group_bytes * static_cast<std::size_t>(g);
  return p;
}

// The activations of a column of a tile; columns past the end repeat the last.
STRATA_DEVICE const std::byte* find_row(const DotArgs& a, const DotPlace& p, int token) {
  const std::int32_t column = p.first + (token < p.count ? token : p.count - 1);
  const std::int32_t row = a.x_rows == nullptr ? column : a.x_rows[column];
  return a.x + a.x_row_bytes * static_cast<std::size_t>(row);
}

// The elements or blocks of K, `n` in all, that a segment has.
struct Segment {
  std::int32_t first;
  std::int32_t count;
};
STRATA_DEVICE Segment segment_of(std::int64_t n, int segment) {
  const auto first = static_cast<std::int32_t>(segment * n / 8);
  return {first, static_cast<std::int32_t>((segment + 1) * n / 8) - first};
}

template <int kTokens>
struct SegmentSums {
  float of[8][kTokens][16];  // [segment][token][row]
};

// Output `i` of a group: adds the segments.
template <int kTokens>
STRATA_DEVICE void write_sum(const DotArgs& a, const DotPlace& p, const SegmentSums<kTokens>& sums,
                             int i) {
  const int token = i / 16;
  const int row = i % 16;
  if (token >= p.count) return;
  float y = sum_segments(&sums.of[0][token][row], kTokens * 16);
  const std::int32_t column = p.first + token;
  const std::int32_t at = a.out_rows == nullptr ? column : a.out_rows[column];
  float* out = p.target->out + at * p.target->out_width + p.row + row;
  if (p.target->accumulate) y = add_rn(*out, y);
  *out = y;
}

// What the offset of a format's codes takes from a dot product.
template <class Format>
STRATA_DEVICE std::int32_t offset_of(const BlockMeta& m, int part) {
  if constexpr (Format::kOffset == 0) return 0;
  return -Format::kOffset * (Format::kPartElems == 32 ? m.sum
                             : part == 0              ? m.sum_low
                                                      : m.sum - m.sum_low);
}

// The i-th block of a segment; past its end, where that can be, the last.
template <bool kFull>
STRATA_DEVICE std::int64_t block_at(const Segment& s, int i) {
  if constexpr (kFull) return s.first + i;
  return s.first + (i < s.count ? i : s.count > 0 ? s.count - 1 : 0);
}

// Quantised weights with up to 4 tokens, whose activations are panels of one token
// (kernels/cpu/panel.hpp). A thread takes kRows neighbouring rows of a segment, so that 128 threads
// take kRows groups: with more rows it reads wider and uses the activations more often, with fewer
// there are more threads to read at a time.
template <class Format, int kTokens, int kRows, int kBatch, int kResidentBlocks>
struct DotKernel {
  static constexpr const char* kName = "dot";
  static constexpr int kThreads = 128;
  static constexpr int kResident = kResidentBlocks;
  static constexpr int kGroups = kRows;                     // of a block
  static constexpr int kGroupThreads = kThreads / kGroups;  // of a group
  static constexpr int kSegmentThreads = 16 / kRows;
  static constexpr int kParts = 32 / Format::kPartElems;
  using Words = typename Format::template Words<kRows, 4>;
  struct Shared {
    SegmentSums<kTokens> sums[kGroups];
  };
  DotArgs a;

  struct Lane {
    const std::byte* group;
    const std::byte* x[kTokens];
    Segment segment;
    int row;  // first of the thread's
    float acc[kRows][kTokens];
  };

  STRATA_DEVICE static void add_block(const Words& w, std::int64_t block, bool counts, Lane& l) {
    Int4 x[kTokens][2];
    BlockMeta meta[kTokens];
    STRATA_UNROLL(4)
    for (int t = 0; t < kTokens; ++t) {
      const std::byte* p = l.x[t] + block * static_cast<std::int64_t>(kPanelBlockBytes);
      x[t][0] = load<Int4>(p);
      x[t][1] = load<Int4>(p + 16);
      meta[t] = bytes_as<BlockMeta>(load<Int4>(p + 32));
    }
    STRATA_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      CodePair codes[4];
      STRATA_UNROLL(4)
      for (int c = 0; c < 4; ++c) codes[c] = Format::codes(w, r, c, 0);
      const Scales scales = Format::scales(w, r, l.row);
      STRATA_UNROLL(4)
      for (int t = 0; t < kTokens; ++t) {
        std::int32_t low = offset_of<Format>(meta[t], 0);
        std::int32_t high = kParts == 1 ? 0 : offset_of<Format>(meta[t], 1);
        STRATA_UNROLL(4)
        for (int c = 0; c < 4; ++c) {
          low = dot4(low, codes[c].low, x[t][0].v[c]);
          std::int32_t& sum = kParts == 1 ? low : high;
          sum = dot4(sum, codes[c].high, x[t][1].v[c]);
        }
        float acc = l.acc[r][t];
        acc = fma_rn(static_cast<float>(low), mul_rn(scales.part[0], meta[t].scale), acc);
        if constexpr (kParts == 2) {
          acc = fma_rn(static_cast<float>(high), mul_rn(scales.part[1], meta[t].scale), acc);
        }
        if constexpr (Format::kHasMin) acc = fma_rn(scales.min, meta[t].scaled_sum, acc);
        if (counts) l.acc[r][t] = acc;
      }
    }
  }

  // Blocks `base` to base + kBatch - 1 of the segments, of which the longest has `longest`.
  template <bool kFull>
  STRATA_DEVICE static void add_batch(int base, int longest, Lane& l) {
    Words words[kBatch];
    STRATA_UNROLL(8)
    for (int i = 0; i < kBatch; ++i) {
      if (!kFull && base + i >= longest) break;
      words[i] =
          Format::template fetch<kRows, 4>(l.group, block_at<kFull>(l.segment, base + i), l.row, 0);
    }
    STRATA_UNROLL(8)
    for (int i = 0; i < kBatch; ++i) {
      if (!kFull && base + i >= longest) break;
      add_block(words[i], block_at<kFull>(l.segment, base + i), kFull || base + i < l.segment.count,
                l);
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    PerThread<DotPlace, kThreads> place;
    block.each([&](int thread) {
      const DotPlace p = place_of(a, kTokens, block.index, kGroups, thread / kGroupThreads);
      place[thread] = p;
      const int i = thread % kGroupThreads;
      const int segment = i / kSegmentThreads;
      const auto blocks = static_cast<int>(a.cols / 32);
      Lane l;
      l.group = p.group;
      l.row = i % kSegmentThreads * kRows;
      l.segment = segment_of(blocks, segment);
      STRATA_UNROLL(4)
      for (int t = 0; t < kTokens; ++t) {
        l.x[t] = find_row(a, p, t);
        STRATA_UNROLL(4)
        for (int r = 0; r < kRows; ++r) l.acc[r][t] = 0.0f;
      }
      const int shortest = blocks / 8;
      const int longest = (blocks + 7) / 8;
      int base = 0;
      STRATA_UNROLL(1)
      for (; base + kBatch <= shortest; base += kBatch) add_batch<true>(base, longest, l);
      STRATA_UNROLL(1)
      for (; base < longest; base += kBatch) add_batch<false>(base, longest, l);
      SegmentSums<kTokens>& sums = shared.sums[thread / kGroupThreads];
      STRATA_UNROLL(4)
      for (int t = 0; t < kTokens; ++t) {
        STRATA_UNROLL(4)
        for (int r = 0; r < kRows; ++r) sums.of[segment][t][l.row + r] = l.acc[r][t];
      }
    });
    block.lanes([&](int thread) {
      if (!place[thread].exists) return;
      for (int i = thread % kGroupThreads; i < 16 * kTokens; i += kGroupThreads) {
        write_sum(a, place[thread], shared.sums[thread / kGroupThreads], i);
      }
    });
  }
};

// The same with up to 8 tokens. The int32 products of 16 rows, 8 tokens and a block are one
// instruction's (tensor.cuh); a warp takes a segment of kGroups groups.
template <class Format, int kGroups, int kBatch, int kResidentBlocks>
struct DotEightKernel {
  static constexpr const char* kName = "dot_eight";
  static constexpr int kTokens = 8;
  static constexpr int kThreads = 256;
  static constexpr int kResident = kResidentBlocks;
  static constexpr int kParts = 32 / Format::kPartElems;
  struct Shared {
    SegmentSums<kTokens> sums[kGroups];
  };
  DotArgs a;

  struct Weights {  // loaded together
    typename Format::template Words<2, 1> block[kBatch][kGroups];
  };
  struct Lane {
    const std::byte* group[kGroups];
    const std::byte* codes;    // of token g: chunk t of block 0
    const std::byte* meta[2];  // of tokens 2t and 2t + 1, of block 0
    float acc[kGroups][2][2];  // of rows 2g and 2g + 1
    BlockMeta of_block[2];
    Scales scales[2];
  };
  using Segments = PerThread<Segment, kThreads>;
  using Lanes = PerThread<Lane, kThreads>;

  STRATA_DEVICE void start(const DotPlace& p, int lane, Lane& l) const {
    const int t = lane % 4;
    l.codes = find_row(a, p, lane / 4) + 4 * t;
    STRATA_UNROLL(2)
    for (int j = 0; j < 2; ++j) l.meta[j] = find_row(a, p, 2 * t + j) + 32;
    STRATA_UNROLL(4)
    for (int k = 0; k < kGroups; ++k) {
      l.acc[k][0][0] = l.acc[k][0][1] = l.acc[k][1][0] = l.acc[k][1][1] = 0.0f;
    }
  }

  STRATA_DEVICE static void accumulate(const DotFragment& dot, int part, int k, Lane& l) {
    STRATA_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      STRATA_UNROLL(2)
      for (int j = 0; j < 2; ++j) {
        const BlockMeta& m = l.of_block[j];
        float& acc = l.acc[k][r][j];
        acc = fma_rn(static_cast<float>(dot.c[2 * r + j]), mul_rn(l.scales[r].part[part], m.scale),
                     acc);
        if (Format::kHasMin && part == kParts - 1) {
          acc = fma_rn(l.scales[r].min, m.scaled_sum, acc);
        }
      }
    }
  }

  template <bool kFull>
  STRATA_DEVICE static void add_block(const Block<kThreads>& block, int i, int base,
                                      Segments& segment, PerThread<Weights, kThreads>& words,
                                      Lanes& lane) {
    PerThread<WeightFragment, kThreads> weights;
    PerThread<TokenFragment, kThreads> tokens;
    PerThread<DotFragment, kThreads> dots;
    block.lanes([&](int thread) {
      Lane& l = lane[thread];
      const std::int64_t at =
          block_at<kFull>(segment[thread], base + i) * static_cast<std::int64_t>(kPanelBlockBytes);
      tokens[thread] = {
          {load<std::uint32_t>(l.codes + at), load<std::uint32_t>(l.codes + at + 16)}};
      STRATA_UNROLL(2)
      for (int j = 0; j < 2; ++j) l.of_block[j] = bytes_as<BlockMeta>(load<Int4>(l.meta[j] + at));
    });
    STRATA_UNROLL(4)
    for (int k = 0; k < kGroups; ++k) {
      block.lanes([&](int thread) {
        const WeightBlock b =
            unpack<Format>(words[thread].block[i][k], thread % 32 / 4, thread % 4);
        weights[thread] = b.codes;
        lane[thread].scales[0] = b.scales[0];
        lane[thread].scales[1] = b.scales[1];
      });
      STRATA_UNROLL(2)
      for (int part = 0; part < kParts; ++part) {
        block.lanes([&](int thread) {
          const Lane& l = lane[thread];
          const std::int32_t c0 = offset_of<Format>(l.of_block[0], part);
          const std::int32_t c1 = offset_of<Format>(l.of_block[1], part);
          dots[thread] = {{c0, c1, c0, c1}};
        });
        multiply(block, dots, weights, tokens, kParts == 1 ? -1 : part);
        block.lanes([&](int thread) {
          if (kFull || base + i < segment[thread].count) {
            accumulate(dots[thread], part, k, lane[thread]);
          }
        });
      }
    }
  }

  template <bool kFull>
  STRATA_DEVICE static void add_batch(const Block<kThreads>& block, int base, int longest,
                                      Segments& segment, Lanes& lane) {
    PerThread<Weights, kThreads> words;
    block.lanes([&](int thread) {
      STRATA_UNROLL(8)
      for (int i = 0; i < kBatch; ++i) {
        if (!kFull && base + i >= longest) break;
        STRATA_UNROLL(4)
        for (int k = 0; k < kGroups; ++k) {
          words[thread].block[i][k] = Format::template fetch<2, 1>(
              lane[thread].group[k], block_at<kFull>(segment[thread], base + i),
              2 * (thread % 32 / 4), thread % 4);
        }
      }
    });
    STRATA_UNROLL(8)
    for (int i = 0; i < kBatch; ++i) {
      if (!kFull && base + i >= longest) break;
      add_block<kFull>(block, i, base, segment, words, lane);
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    const auto blocks = static_cast<int>(a.cols / 32);
    const int shortest = blocks / 8;
    const int longest = (blocks + 7) / 8;
    Segments segment;
    Lanes lane;
    block.lanes([&](int thread) {
      segment[thread] = segment_of(blocks, thread / 32);
      STRATA_UNROLL(4)
      for (int k = 0; k < kGroups; ++k) {
        const DotPlace p = place_of(a, kTokens, block.index, kGroups, k);
        lane[thread].group[k] = p.group;
        if (k == 0) start(p, thread % 32, lane[thread]);
      }
    });
    int base = 0;
    STRATA_UNROLL(1)
    for (; base + kBatch <= shortest; base += kBatch) {
      add_batch<true>(block, base, longest, segment, lane);
    }
    STRATA_UNROLL(1)
    for (; base < longest; base += kBatch) {
      add_batch<false>(block, base, longest, segment, lane);
    }
    block.each([&](int thread) {
      const int g = thread % 32 / 4;
      const int t = thread % 4;
      STRATA_UNROLL(4)
      for (int k = 0; k < kGroups; ++k) {
        STRATA_UNROLL(2)
        for (int r = 0; r < 2; ++r) {
          STRATA_UNROLL(2)
          for (int j = 0; j < 2; ++j) {
            shared.sums[k].of[thread / 32][2 * t + j][2 * g + r] = lane[thread].acc[k][r][j];
          }
        }
      }
    });
    block.lanes([&](int thread) {
      for (int i = thread; i < kGroups * 16 * kTokens; i += kThreads) {
        const int k = i / (16 * kTokens);
        const DotPlace p = place_of(a, kTokens, block.index, kGroups, k);
        if (p.exists) write_sum(a, p, shared.sums[k], i % (16 * kTokens));
      }
    });
  }
};

// Weights of float types, activations as they are. A warp stages kBatch elements of K of its
// segment in shared memory, as it has the next ones under way; then 16 lanes are the rows, and half
// of the warp takes the even tokens, the other the odd ones.
template <class Format, int kTokens, int kBatch>
struct FloatDotKernel {
  static constexpr const char* kName = "dot_float";
  static constexpr int kThreads = 256;
  static constexpr int kHalf = kTokens == 1 ? 1 : kTokens / 2;  // tokens of a lane
  static constexpr int kElemBytes = 16 * Format::kBytes;        // of 16 rows
  static constexpr int kPieces = kBatch * kElemBytes / 512;     // 16-byte loads of a lane
  static constexpr int kXs = kBatch / 32;                       // activations of a lane and token
  struct Stage {
    Int4 weights[kBatch * kElemBytes / 16];
    float x[kTokens][kBatch];
  };
  struct Shared {
    Stage stage[8];
    SegmentSums<kTokens> sums;
  };
  struct Loaded {
    Int4 weights[kPieces];
    float x[kTokens][kXs];
  };
  DotArgs a;

  STRATA_DEVICE void fetch(const DotPlace& p, const Segment& s, int base, int lane,
                           Loaded& l) const {
    const int left = s.count - base;
    const std::byte* w = p.group + static_cast<std::int64_t>(s.first + base) * kElemBytes;
    STRATA_UNROLL(16)
    for (int i = 0; i < kPieces; ++i) {
      const int piece = 32 * i + lane;
      if (piece * 16 < left * kElemBytes) l.weights[i] = load_once<Int4>(w + 16 * piece);
    }
    STRATA_UNROLL(8)
    for (int t = 0; t < kTokens; ++t) {
      const std::byte* x = find_row(a, p, t) + 4 * static_cast<std::int64_t>(s.first + base);
      STRATA_UNROLL(4)
      for (int i = 0; i < kXs; ++i) {
        if (32 * i + lane < left) l.x[t][i] = load<float>(x + 4 * (32 * i + lane));
      }
    }
  }

  STRATA_DEVICE static void put(const Loaded& l, int lane, Stage& stage) {
    STRATA_UNROLL(16)
    for (int i = 0; i < kPieces; ++i) stage.weights[32 * i + lane] = l.weights[i];
    STRATA_UNROLL(8)
    for (int t = 0; t < kTokens; ++t) {
      STRATA_UNROLL(4)
      for (int i = 0; i < kXs; ++i) stage.x[t][32 * i + lane] = l.x[t][i];
    }
  }

  STRATA_DEVICE static void add(const Stage& stage, int k, int lane, float (&acc)[kHalf]) {
    const float w = Format::value(stage.weights, 16 * k + lane % 16);
    STRATA_UNROLL(4)
    for (int j = 0; j < kHalf; ++j) {
      const int token = kTokens == 1 ? 0 : 2 * j + lane / 16;
      acc[j] = fma_rn(w, stage.x[token][k], acc[j]);
    }
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    struct Sums {
      float of[kHalf];
    };
    const DotPlace p = place_of(a, kTokens, block.index, 1, 0);
    const auto longest = static_cast<int>((a.cols + 7) / 8);
    PerThread<Loaded, kThreads> loaded;
    PerThread<Sums, kThreads> sums;
    block.lanes([&](int thread) {
      sums[thread] = Sums{};
      fetch(p, segment_of(a.cols, thread / 32), 0, thread % 32, loaded[thread]);
    });
    for (int base = 0; base < longest; base += kBatch) {
      block.warps([&](int thread) { put(loaded[thread], thread % 32, shared.stage[thread / 32]); });
      block.warps([&](int thread) {
        const int lane = thread % 32;
        const Segment s = segment_of(a.cols, thread / 32);
        const Stage& stage = shared.stage[thread / 32];
        fetch(p, s, base + kBatch, lane, loaded[thread]);
        const int count = s.count - base;
        if (count >= kBatch) {
          STRATA_UNROLL(64)
          for (int k = 0; k < kBatch; ++k) add(stage, k, lane, sums[thread].of);
        } else {
          for (int k = 0; k < count; ++k) add(stage, k, lane, sums[thread].of);
        }
      });
    }
    block.each([&](int thread) {
      STRATA_UNROLL(4)
      for (int j = 0; j < kHalf; ++j) {
        if (kTokens == 1 && thread % 32 >= 16) continue;
        const int token = kTokens == 1 ? 0 : 2 * j + thread % 32 / 16;
        shared.sums.of[thread / 32][token][thread % 16] = sums[thread].of[j];
      }
    });
    block.lanes([&](int thread) {
      if (thread < 16 * kTokens) write_sum(a, p, shared.sums, thread);
    });
  }
};

}  // namespace strata::cuda
