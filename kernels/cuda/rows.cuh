// Kernels of one row of activations: embedding, RMSNorm, combine.
#pragma once

#include "kernels/cuda/formats.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/quantize.cuh"

namespace strata::cuda {

// 32 elements of row `row` of a group, exactly the values the blocks say.
template <class Format>
STRATA_DEVICE void dequantize_block(const std::byte* group, std::int64_t block, int row,
                                    float* out) {
  const auto words = Format::template fetch<1, 4>(group, block, row, 0);
  const Scales scales = Format::scales(words, 0, row);
  STRATA_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    const CodePair pair = Format::codes(words, 0, c, 0);
    STRATA_UNROLL(8)
    for (int i = 0; i < 8; ++i) {  // elements 4c..4c+3 and 16 later
      const auto code = static_cast<std::int8_t>((i < 4 ? pair.low : pair.high) >> (8 * (i % 4)));
      const int element = 4 * c + i % 4 + i / 4 * 16;
      float w = mul_rn(static_cast<float>(code - Format::kOffset),
                       scales.part[element / Format::kPartElems]);
      if constexpr (Format::kHasMin || Format::kAddsZero) w = add_rn(w, scales.min);
      out[element] = w;
    }
  }
}

template <class Format>
struct EmbedBlocks {  // a thread's piece of a row: a block of 32
  static constexpr int kElems = 32;
  STRATA_DEVICE static void copy(const std::byte* group, std::int64_t piece, int row, float* out) {
    dequantize_block<Format>(group, piece, row, out);
  }
};
template <class Format>
struct EmbedFloats {
  static constexpr int kElems = 1;
  STRATA_DEVICE static void copy(const std::byte* group, std::int64_t piece, int row, float* out) {
    *out = Format::value(group, 16 * piece + row);
  }
};

template <class Pieces>
struct EmbedKernel {
  static constexpr const char* kName = "embed";
  static constexpr int kThreads = 64;
  struct Shared {};
  EmbedArgs a;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t pieces = a.cols / Pieces::kElems;
      const std::int64_t i = block.index * kThreads + thread;
      if (i >= pieces * a.count) return;
      const std::int64_t token = i / pieces;
      const std::int64_t piece = i % pieces;
      const std::int32_t row = a.tokens[token];
      Pieces::copy(a.table + a.group_bytes * static_cast<std::size_t>(row / 16), piece, row % 16,
                   a.out + token * a.out_width + piece * Pieces::kElems);
    });
  }
};

// A block a row: RMSNorm, and its result as floats, and as panels where these are wanted.
// The sum of squares is the CPU's: 16 lanes, each over its elements in order.
struct NormKernel {
  static constexpr const char* kName = "rms_norm";
  static constexpr int kThreads = 512;
  static constexpr int kStage = 8192;  // elements at a time
  struct Shared {
    alignas(16) float x[kStage];
    float lanes[16];
    Quantizer<kThreads>::Shared quantizer;
  };
  NormArgs a;

  STRATA_DEVICE static Float4 read(const float* p) { return *reinterpret_cast<const Float4*>(p); }

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    const std::int64_t row = block.index;
    const std::int64_t width = a.width;
    PerThread<float, kThreads> acc;
    for (std::int64_t base = 0; base < width; base += kStage) {
      const int n = static_cast<int>(width - base < kStage ? width - base : kStage);
      block.each([&](int thread) {
        for (int i = 4 * thread; i < n; i += 4 * kThreads)
          store(shared.x + i, read(a.x + row * width + base + i));
      });
      block.each([&](int thread) {
        if (thread >= 16) return;
        float sum = base == 0 ? 0.0f : acc[thread];
        STRATA_UNROLL(32)
        for (int i = thread; i < n; i += 16) sum = fma_rn(shared.x[i], shared.x[i], sum);
        acc[thread] = sum;
        shared.lanes[thread] = sum;
      });
    }
    PerThread<float, kThreads> inverse;
    block.lanes([&](int thread) {
      const float mean = div_rn(sum_lanes(shared.lanes), static_cast<float>(width));
      inverse[thread] = div_rn(1.0f, sqrt_rn(add_rn(mean, a.eps)));
    });
    Quantizer<kThreads>::Quads quad;
    Quantizer<kThreads>::Panels panel;
    for (std::int64_t base = 0; base < width; base += 4 * kThreads) {
      block.lanes([&](int thread) {
        const std::int64_t i = base + 4 * thread;
        panel[thread] = nullptr;
        if (i >= width) return;
        const Float4 x = width <= kStage ? read(shared.x + i) : read(a.x + row * width + i);
        const Float4 weight = read(a.weight + i);
        STRATA_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          quad[thread].v[j] = mul_rn(mul_rn(x.v[j], inverse[thread]), weight.v[j]);
        }
        store(a.y + row * width + i, quad[thread]);
        if (a.panels == nullptr) return;
        panel[thread] =
            a.panels + static_cast<std::size_t>((row * width + i) / 32) * kernels::kPanelBlockBytes;
      });
      if (a.panels != nullptr) Quantizer<kThreads>::run(block, quad, panel, shared.quantizer);
    }
  }
};

// Rows up to kWidth, as heads are: a half-warp a row, whose lanes are the CPU's.
struct RmsNormNarrowKernel {
  static constexpr const char* kName = "rms_norm";
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 256;
  static constexpr int kRows = kThreads / 16;
  static constexpr int kElems = kWidth / 16;  // of a lane
  struct Shared {
    float lanes[kRows][16];
  };
  struct Elems {
    float v[kElems];
  };
  const float* x;
  const float* weight;
  int width;
  int rows;
  float eps;
  float* y;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    PerThread<Elems, kThreads> elems;
    const auto each_element = [&](int thread, const auto& step) {
      const std::int64_t row = block.index * kRows + thread / 16;
      if (row >= rows) return;
      STRATA_UNROLL(16)
      for (int i = 0; i < kElems; ++i) {
        const int column = 16 * i + thread % 16;
        if (column < width) step(elems[thread].v[i], row * width + column, column);
      }
    };
    block.each([&](int thread) {
      each_element(thread, [&](float& v, std::int64_t at, int) { v = x[at]; });
      float sum = 0.0f;
      each_element(thread, [&](float& v, std::int64_t, int) { sum = fma_rn(v, v, sum); });
      shared.lanes[thread / 16][thread % 16] = sum;
    });
    block.lanes([&](int thread) {
      const float mean = div_rn(sum_lanes(shared.lanes[thread / 16]), static_cast<float>(width));
      const float inverse = div_rn(1.0f, sqrt_rn(add_rn(mean, eps)));
      each_element(thread, [&](float& v, std::int64_t at, int column) {
        y[at] = mul_rn(mul_rn(v, inverse), weight[column]);
      });
    });
  }
};

// A thread takes a column, so that rows move up one after the other.
struct KeepRowsKernel {
  static constexpr const char* kName = "keep_rows";
  static constexpr int kThreads = 64;
  struct Shared {};
  float* x;
  std::int64_t width;
  const std::int32_t* kept;
  int count;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t column = block.index * kThreads + thread;
      if (column >= width) return;
      for (std::int64_t i = 0; i < count; ++i) x[i * width + column] = x[kept[i] * width + column];
    });
  }
};

struct CombineKernel {
  static constexpr const char* kName = "combine";
  static constexpr int kThreads = 128;
  struct Shared {};
  const float* parts;
  const float* weights;
  int ranks;
  std::int64_t width;
  int rows;
  float* x;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t i = block.index * kThreads + thread;
      if (i >= rows * width) return;
      const std::int64_t row = i / width;
      const float* part = parts + row * ranks * width + i % width;
      const float* weight = weights + row * ranks;
      float acc = 0.0f;
      for (int r = 0; r < ranks; ++r) acc = fma_rn(weight[r], part[r * width], acc);
      x[i] = add_rn(x[i], acc);
    });
  }
};

}  // namespace strata::cuda
