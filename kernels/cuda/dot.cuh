// Dot products of packed groups with a tile of up to 8 rows of activations: every weight byte of a
// token passes through here. 16 rows x 8 segments are the 128 threads of a block: the 16 lanes of a
// half-warp take the rows, so no sum crosses lanes, and a segment's sum runs over its blocks in
// order (docs/exactness.md).
#pragma once

#include "kernels/cpu/panel.hpp"
#include "kernels/cuda/formats.cuh"
#include "kernels/cuda/kernels.hpp"

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
  const auto job = static_cast<std::int32_t>(index % a.jobs);
  std::int64_t g = index / a.jobs;
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
  return a.job_count == nullptr || index % a.jobs < *a.job_count;
}

// The activations of each column of a tile; columns past the end repeat the last.
template <int kTokens>
STRATA_DEVICE void find_rows(const DotArgs& a, const DotPlace& p, const std::byte* (&x)[kTokens]) {
  STRATA_UNROLL(8)
  for (int t = 0; t < kTokens; ++t) {
    const std::int32_t column = p.first + (t < p.count ? t : p.count - 1);
    const std::int32_t row = a.x_rows == nullptr ? column : a.x_rows[column];
    x[t] = a.x + a.x_row_bytes * static_cast<std::size_t>(row);
  }
}

// One block of one row with each token's 32 activations.
template <class Format, int kTokens>
STRATA_DEVICE void add_block(const LaneBlock& d, const std::byte* const (&x)[kTokens],
                             std::int64_t block, float (&acc)[kTokens]) {
  constexpr int kParts = 32 / Format::kPartElems;
  STRATA_UNROLL(8)
  for (int t = 0; t < kTokens; ++t) {
    const std::byte* p = x[t] + block * static_cast<std::int64_t>(kPanelBlockBytes);
    const Int4 codes[2] = {load<Int4>(p), load<Int4>(p + 16)};
    const auto meta = bytes_as<BlockMeta>(load<Int4>(p + 32));
    STRATA_UNROLL(2)
    for (int part = 0; part < kParts; ++part) {
      std::int32_t dot = 0;
      if constexpr (Format::kOffset != 0) {
        dot = -Format::kOffset * (kParts == 1 ? meta.sum
                                  : part == 0 ? meta.sum_low
                                              : meta.sum - meta.sum_low);
      }
      STRATA_UNROLL(8)
      for (int c = part * 8 / kParts; c < (part + 1) * 8 / kParts; ++c) {
        dot = dot4(dot, d.codes[c], codes[c / 4].v[c % 4]);
      }
      acc[t] = fma_rn(static_cast<float>(dot), mul_rn(d.scales.part[part], meta.scale), acc[t]);
    }
    if constexpr (Format::kHasMin) acc[t] = fma_rn(d.scales.min, meta.scaled_sum, acc[t]);
  }
}

// Quantised weights, activations as panels of one token (kernels/cpu/panel.hpp).
template <class Format>
struct QuantizedDot {
  template <int kTokens>
  STRATA_DEVICE static void segment(const DotArgs& a, const DotPlace& p, int segment, int row,
                                    float (&acc)[kTokens]) {
    const std::byte* x[kTokens];
    find_rows(a, p, x);
    const std::int64_t blocks = a.cols / 32;
    const std::int64_t end = (segment + 1) * blocks / 8;
    STRATA_UNROLL(2)
    for (std::int64_t b = segment * blocks / 8; b < end; ++b) {
      add_block<Format>(decode<Format>(p.group, b, row), x, b, acc);
    }
  }
};

// Weights of float types, activations as they are.
template <class Format>
struct FloatDot {
  template <int kTokens>
  STRATA_DEVICE static void segment(const DotArgs& a, const DotPlace& p, int segment, int row,
                                    float (&acc)[kTokens]) {
    const std::byte* x[kTokens];
    find_rows(a, p, x);
    const std::int64_t end = (segment + 1) * a.cols / 8;
    STRATA_UNROLL(8)
    for (std::int64_t k = segment * a.cols / 8; k < end; ++k) {
      const float w = Format::decode(p.group, k, row);
      STRATA_UNROLL(8)
      for (int t = 0; t < kTokens; ++t) acc[t] = fma_rn(w, load<float>(x[t] + 4 * k), acc[t]);
    }
  }
};

template <class Dot, int kTokens>
struct DotKernel {
  static constexpr const char* kName = "dot";
  static constexpr int kThreads = 128;
  struct Shared {
    float sums[8][kTokens][16];
  };
  DotArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    if (!has_job(a, block.index)) return;
    const DotPlace p = place_of(a, kTokens, block.index);
    block.each([&](int thread) {
      const int segment = thread / 16;
      const int row = thread % 16;
      float acc[kTokens] = {};
      Dot::segment(a, p, segment, row, acc);
      STRATA_UNROLL(8)
      for (int t = 0; t < kTokens; ++t) shared.sums[segment][t][row] = acc[t];
    });
    block.each([&](int thread) {
      const int token = thread / 16;
      const int row = thread % 16;
      if (token >= p.count) return;
      float y = sum_segments(&shared.sums[0][token][row], kTokens * 16);
      const std::int32_t column = p.first + token;
      const std::int32_t at = a.out_rows == nullptr ? column : a.out_rows[column];
      float* out = p.target->out + at * p.target->out_width + p.row + row;
      if (p.target->accumulate) y = add_rn(*out, y);
      *out = y;
    });
  }
};

}  // namespace strata::cuda
