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
  std::int32_t count;  // columns, 1..kTokens
};

// Tiles of a group follow one another: they meet its bytes in the cache.
STRATA_DEVICE DotPlace place_of(const DotArgs& a, int tile_width, std::int64_t index) {
  DotPlace p{};
  const auto i = static_cast<std::uint32_t>(index);  // 64-bit divisions are slow
  const auto jobs = static_cast<std::uint32_t>(a.jobs);
  const auto job = static_cast<std::int32_t>(i % jobs);
  std::int64_t g = i / jobs;
  p.target = a.targets;
  while (g >= p.target->groups) g -= (p.target++)->groups;
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

// Whether the block has a job: a grid is made for the most there can be.
STRATA_DEVICE bool has_job(const DotArgs& a, std::int64_t index) {
  return a.job_count == nullptr ||
         static_cast<std::int32_t>(static_cast<std::uint32_t>(index) %
                                   static_cast<std::uint32_t>(a.jobs)) < *a.job_count;
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

// Adds the segments and writes the outputs, a thread each.
template <int kThreads, int kTokens>
STRATA_DEVICE void write_sums(const Block<kThreads>& block, const DotArgs& a, const DotPlace& p,
                              const SegmentSums<kTokens>& sums) {
  block.lanes([&](int thread) {
    const int token = thread / 16;
    const int row = thread % 16;
    if (token >= p.count) return;
    float y = sum_segments(&sums.of[0][token][row], kTokens * 16);
    const std::int32_t column = p.first + token;
    const std::int32_t at = a.out_rows == nullptr ? column : a.out_rows[column];
    float* out = p.target->out + at * p.target->out_width + p.row + row;
    if (p.target->accumulate) y = add_rn(*out, y);
    *out = y;
  });
}

// Quantised weights, activations as panels of one token (kernels/cpu/panel.hpp). The int32 products
// of 16 rows, up to 8 tokens and a block are one instruction's (tensor.cuh); the lane that has a
// product adds it to its sum.
template <class Format, int kTokens, int kBatch, int kWarps, int kResidentBlocks>
struct DotKernel {
  static constexpr int kResident = kResidentBlocks;
  static_assert(kTokens == 1 || kTokens == 8);
  static constexpr const char* kName = "dot";
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kParts = 32 / Format::kPartElems;
  static constexpr int kPair = kTokens == 1 ? 1 : 2;  // tokens of a lane: 2t and 2t + 1
  using Shared = SegmentSums<kTokens>;
  DotArgs a;

  struct Weights {  // loaded together
    typename Format::Words block[kBatch];
  };
  struct Lane {
    const std::byte* codes;        // of token g: chunk t of block 0
    const std::byte* meta[kPair];  // of the lane's tokens and block 0
    float acc[2][kPair];           // of rows 2g and 2g + 1
    LaneBlock weights;
    BlockMeta of_block[kPair];
  };

  STRATA_DEVICE void start(const DotPlace& p, int lane, Lane& l) const {
    const int t = lane % 4;
    l.codes = find_row(a, p, kTokens == 1 ? 0 : lane / 4) + 4 * t;
    STRATA_UNROLL(2)
    for (int j = 0; j < kPair; ++j) {
      l.meta[j] = find_row(a, p, kTokens == 1 ? 0 : 2 * t + j) + 32;
      l.acc[0][j] = l.acc[1][j] = 0.0f;
    }
  }

  // What the codes' offset takes away.
  STRATA_DEVICE static std::int32_t offset(const BlockMeta& m, int part) {
    if constexpr (Format::kOffset == 0) return 0;
    return -Format::kOffset * (kParts == 1 ? m.sum : part == 0 ? m.sum_low : m.sum - m.sum_low);
  }

  STRATA_DEVICE static void accumulate(const DotFragment& dot, int part, Lane& l) {
    STRATA_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      const Scales& s = l.weights.scales[r];
      STRATA_UNROLL(2)
      for (int j = 0; j < kPair; ++j) {
        const BlockMeta& m = l.of_block[j];
        float& acc = l.acc[r][j];
        acc = fma_rn(static_cast<float>(dot.c[2 * r + j]), mul_rn(s.part[part], m.scale), acc);
        if (Format::kHasMin && part == kParts - 1) acc = fma_rn(s.min, m.scaled_sum, acc);
      }
    }
  }

  // Block b of K. Past a segment's end it is computed, and not added.
  STRATA_DEVICE void add_block(const Block<kThreads>& block, int i, int base,
                               PerThread<Segment, kThreads>& segment,
                               PerThread<Weights, kThreads>& words,
                               PerThread<Lane, kThreads>& lane) const {
    PerThread<WeightFragment, kThreads> weights;
    PerThread<TokenFragment, kThreads> tokens;
    PerThread<DotFragment, kThreads> dots;
    block.lanes([&](int thread) {
      Lane& l = lane[thread];
      l.weights = Format::unpack(words[thread].block[i], thread % 32 / 4, thread % 4);
      weights[thread] = l.weights.codes;
      const std::int64_t at =
          block_at(segment[thread], base + i) * static_cast<std::int64_t>(kPanelBlockBytes);
      tokens[thread] = {
          {load<std::uint32_t>(l.codes + at), load<std::uint32_t>(l.codes + at + 16)}};
      STRATA_UNROLL(2)
      for (int j = 0; j < kPair; ++j) {
        l.of_block[j] = bytes_as<BlockMeta>(load<Int4>(l.meta[j] + at));
      }
    });
    STRATA_UNROLL(2)
    for (int part = 0; part < kParts; ++part) {
      block.lanes([&](int thread) {
        const Lane& l = lane[thread];
        const std::int32_t c0 = offset(l.of_block[0], part);
        const std::int32_t c1 = offset(l.of_block[kPair - 1], part);
        dots[thread] = {{c0, c1, c0, c1}};
      });
      multiply(block, dots, weights, tokens, kParts == 1 ? -1 : part);
      block.lanes([&](int thread) {
        if (base + i < segment[thread].count) accumulate(dots[thread], part, lane[thread]);
      });
    }
  }

  // The i-th block of a segment, or its last.
  STRATA_DEVICE static std::int64_t block_at(const Segment& s, int i) {
    return s.first + (i < s.count ? i : s.count > 0 ? s.count - 1 : 0);
  }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    const DotPlace p = place_of(a, kTokens, block.index);
    const std::int64_t blocks = a.cols / 32;
    const auto longest = static_cast<int>((blocks + 7) / 8);
    for (int s = 0; s < 8; s += kWarps) {
      PerThread<Segment, kThreads> segment;
      PerThread<Weights, kThreads> words;
      PerThread<Lane, kThreads> lane;
      block.lanes([&](int thread) {
        segment[thread] = segment_of(blocks, s + thread / 32);
        start(p, thread % 32, lane[thread]);
      });
      for (int base = 0; base < longest; base += kBatch) {
        block.lanes([&](int thread) {
          STRATA_UNROLL(16)
          for (int i = 0; i < kBatch; ++i) {
            words[thread].block[i] = Format::fetch(p.group, block_at(segment[thread], base + i),
                                                   thread % 32 / 4, thread % 4);
          }
        });
        STRATA_UNROLL(16)
        for (int i = 0; i < kBatch; ++i) add_block(block, i, base, segment, words, lane);
      }
      block.lanes([&](int thread) {
        const int g = thread % 32 / 4;
        const int t = thread % 4;
        if (kTokens == 1 && t != 0) return;
        STRATA_UNROLL(2)
        for (int r = 0; r < 2; ++r) {
          STRATA_UNROLL(2)
          for (int j = 0; j < kPair; ++j) {
            shared.of[s + thread / 32][2 * t + j][2 * g + r] = lane[thread].acc[r][j];
          }
        }
      });
    }
    block.each([](int) {});
    write_sums(block, a, p, shared);
  }
};

// Weights of float types, activations as they are. A warp stages kBatch elements of K of its
// segment in shared memory, as it has the next ones under way; then 16 lanes are the rows, and half
// of the warp takes the even tokens, the other the odd ones.
template <class Format, int kTokens, int kBatch>
struct FloatDotKernel {
  static_assert(kTokens == 1 || kTokens == 8);
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
    const DotPlace p = place_of(a, kTokens, block.index);
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
    write_sums(block, a, p, shared.sums);
  }
};

}  // namespace strata::cuda
