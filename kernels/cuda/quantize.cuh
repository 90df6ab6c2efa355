// Activations as int8 panels of one token: 8 threads a block of 32, 4 values each.
#pragma once

#include "kernels/cpu/panel.hpp"
#include "kernels/cuda/math.cuh"

namespace strata::cuda {

// Values 4i..4i+3 of what is to be quantised.
struct PlainSource {
  const float* x;
  STRATA_DEVICE Float4 at(std::int64_t i) const { return bytes_as<Float4>(load<Int4>(x + 4 * i)); }
};
struct SwigluSource {
  PlainSource gate;
  PlainSource up;
  STRATA_DEVICE Float4 at(std::int64_t i) const {
    const Float4 g = gate.at(i);
    const Float4 u = up.at(i);
    Float4 h;
    STRATA_UNROLL(4)
    for (int j = 0; j < 4; ++j) h.v[j] = mul_rn(silu(g.v[j]), u.v[j]);
    return h;
  }
};

template <class Source>
struct QuantizeKernel {
  static constexpr const char* kName = "quantize";
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = kThreads / 8;
  static constexpr float kMinScale = 1.17549435e-38f;  // below it a scale has no usable reciprocal
  struct Shared {
    float amax[kThreads];
    std::int32_t sum[kThreads];
  };
  Source source;
  std::int64_t blocks;
  std::byte* panels;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    PerThread<Float4, kThreads> x;
    PerThread<float, kThreads> scale;
    const std::int64_t first = block.index * kBlocks;
    block.each([&](int thread) {
      if (first + thread / 8 >= blocks) return;
      x[thread] = source.at(first * 8 + thread);
      float amax = 0.0f;
      STRATA_UNROLL(4)
      for (int j = 0; j < 4; ++j) amax = max_of(abs_of(x[thread].v[j]), amax);
      shared.amax[thread] = amax;
    });
    block.each([&](int thread) {
      if (first + thread / 8 >= blocks) return;
      float amax = 0.0f;
      STRATA_UNROLL(8)
      for (int j = 0; j < 8; ++j) amax = max_of(shared.amax[thread / 8 * 8 + j], amax);
      const float s = div_rn(amax, 127.0f);
      const bool usable = s >= kMinScale;
      scale[thread] = usable ? s : 0.0f;
      const float inverse = usable ? div_rn(1.0f, s) : 0.0f;
      std::uint32_t codes = 0;
      std::int32_t sum = 0;
      STRATA_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        const auto q = static_cast<std::int32_t>(round_even(mul_rn(x[thread].v[j], inverse)));
        codes |= (static_cast<std::uint32_t>(q) & 255U) << (8 * j);
        sum += q;
      }
      shared.sum[thread] = sum;
      std::byte* panel =
          panels + static_cast<std::size_t>(first + thread / 8) * kernels::kPanelBlockBytes;
      store(panel + 4 * (thread % 8), codes);
    });
    block.each([&](int thread) {
      if (first + thread / 8 >= blocks || thread % 8 != 0) return;
      const std::int32_t* s = shared.sum + thread;
      const std::int32_t low = s[0] + s[1] + s[2] + s[3];
      const std::int32_t sum = low + s[4] + s[5] + s[6] + s[7];
      const kernels::BlockMeta meta{scale[thread], sum,
                                    mul_rn(static_cast<float>(sum), scale[thread]), low};
      store(panels + static_cast<std::size_t>(first + thread / 8) * kernels::kPanelBlockBytes + 32,
            meta);
    });
  }
};

struct SwigluKernel {
  static constexpr const char* kName = "swiglu";
  static constexpr int kThreads = 256;
  struct Shared {};
  SwigluSource source;
  std::int64_t quads;  // groups of 4 values
  float* hidden;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    block.each([&](int thread) {
      const std::int64_t i = block.index * kThreads + thread;
      if (i >= quads) return;
      const Float4 h = source.at(i);
      store(hidden + 4 * i, h);
    });
  }
};

}  // namespace strata::cuda
