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

// Quantises blocks of 32 values, 8 threads a block of 4 values each. `panel`: of a thread's block,
// null where there is none. Threads of a warp share with each other only.
template <int kThreads>
struct Quantizer {
  static constexpr float kMinScale = 1.17549435e-38f;  // below it a scale has no usable reciprocal
  struct Shared {
    float amax[kThreads];
    std::int32_t sum[kThreads];
  };
  using Quads = PerThread<Float4, kThreads>;
  using Panels = PerThread<std::byte*, kThreads>;

  STRATA_DEVICE static void run(const Block<kThreads>& block, Quads& x, Panels& panel,
                                Shared& shared) {
    PerThread<float, kThreads> scale;
    block.warps([&](int thread) {
      if (panel[thread] == nullptr) return;
      float amax = 0.0f;
      STRATA_UNROLL(4)
      for (int j = 0; j < 4; ++j) amax = max_of(abs_of(x[thread].v[j]), amax);
      shared.amax[thread] = amax;
    });
    block.warps([&](int thread) {
      if (panel[thread] == nullptr) return;
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
        const auto q = to_int(round_even(mul_rn(x[thread].v[j], inverse)));
        codes |= (static_cast<std::uint32_t>(q) & 255U) << (8 * j);
        sum += q;
      }
      shared.sum[thread] = sum;
      store(panel[thread] + 4 * (thread % 8), codes);
    });
    block.warps([&](int thread) {
      if (panel[thread] == nullptr || thread % 8 != 0) return;
      const std::int32_t* s = shared.sum + thread;
      const std::int32_t low = s[0] + s[1] + s[2] + s[3];
      const std::int32_t sum = low + s[4] + s[5] + s[6] + s[7];
      store(panel[thread] + 32,
            kernels::BlockMeta{scale[thread], sum, mul_rn(static_cast<float>(sum), scale[thread]),
                               low});
    });
  }
};

template <class Source>
struct QuantizeKernel {
  static constexpr const char* kName = "quantize";
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = kThreads / 8;
  using Shared = typename Quantizer<kThreads>::Shared;
  Source source;
  std::int64_t blocks;
  std::byte* panels;

  STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const {
    typename Quantizer<kThreads>::Quads x;
    typename Quantizer<kThreads>::Panels panel;
    block.lanes([&](int thread) {
      const std::int64_t i = block.index * kBlocks + thread / 8;
      panel[thread] = nullptr;
      if (i >= blocks) return;
      x[thread] = source.at(block.index * kThreads + thread);
      panel[thread] = panels + static_cast<std::size_t>(i) * kernels::kPanelBlockBytes;
    });
    Quantizer<kThreads>::run(block, x, panel, shared);
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
