// Compiles every kernel for one instruction set. Each kernels/cpu/isa_NAME.cpp defines STRATA_ISA
// (the namespace), STRATA_SIMD (the register layer's header) and includes this file.
//
// Nothing here may use a std:: function that is not inlined, nor anything else of external linkage
// outside our namespace: the linker could then take this file's AVX-512 copy for code that runs on
// every machine. (tests/kernels checks it.)
#pragma once

#include "kernels/cpu/kernels.hpp"
#include "strata/base/half.hpp"

#include <cstddef>
#include <cstdint>

#define STRATA_INLINE static inline __attribute__((always_inline))

namespace strata::kernels::STRATA_ISA {
namespace {

// No software prefetch of weights in a row: with tasks of a few pages the hardware's own is best
// (measured against distances of 512 to 16384 bytes). DotArgs::next is for those that jump.

// In this order: each builds on those before it.
// clang-format off
#include STRATA_SIMD
#include "kernels/cpu/math_inl.hpp"
#include "kernels/cpu/unpack_inl.hpp"
#include "kernels/cpu/matmul_inl.hpp"
#include "kernels/cpu/rows_inl.hpp"
#include "kernels/cpu/attention_inl.hpp"
// clang-format on

template <class Format>
constexpr void add_quantized(Kernels& k, gguf::Type type) {
  const auto i = static_cast<std::size_t>(type);
  DotFunction int8[] = {dot_int8<Format, 1>, dot_int8<Format, 2>, dot_int8<Format, 4>,
                        dot_int8<Format, 8>, dot_int8<Format, 16>};
  DotFunction f32[] = {dot_f32<Format, 1>, dot_f32<Format, 2>, dot_f32<Format, 4>,
                       dot_f32<Format, 8>, dot_f32<Format, 16>};
  for (int t = 0; t < kTileCount; ++t) {
    k.dot[i][t] = int8[t];
    k.dot_f32[i][t] = f32[t];
  }
}

template <class Format>
constexpr void add_float(Kernels& k, gguf::Type type) {
  const auto i = static_cast<std::size_t>(type);
  DotFunction f32[] = {dot_float<Format, 1>, dot_float<Format, 2>, dot_float<Format, 4>,
                       dot_float<Format, 8>, dot_float<Format, 16>};
  for (int t = 0; t < kTileCount; ++t) k.dot[i][t] = k.dot_f32[i][t] = f32[t];
}

constexpr Kernels make_table(Isa isa) {
  Kernels k{};
  k.isa = isa;
  add_float<F32>(k, gguf::Type::kF32);
  add_float<F16>(k, gguf::Type::kF16);
  add_float<BF16>(k, gguf::Type::kBF16);
  add_quantized<Q4_0>(k, gguf::Type::kQ4_0);
  add_quantized<Q4_1>(k, gguf::Type::kQ4_1);
  add_quantized<Q5_0>(k, gguf::Type::kQ5_0);
  add_quantized<Q5_1>(k, gguf::Type::kQ5_1);
  add_quantized<Q8_0>(k, gguf::Type::kQ8_0);
  add_quantized<Q4_K>(k, gguf::Type::kQ4_K);
  add_quantized<Q5_K>(k, gguf::Type::kQ5_K);
  add_quantized<Q6_K>(k, gguf::Type::kQ6_K);
  k.quantize = quantize;
  k.rms_norm = rms_norm;
  k.rope = rope;
  k.swiglu_quantize = swiglu_quantize;
  k.swiglu_f32 = swiglu_f32;
  k.softmax = softmax;
  k.combine = combine;
  k.to_half = to_half;
  k.to_q8 = to_q8;
  k.attention_chunk_f16 = attention_chunk<PlainCells<std::uint16_t>>;
  k.attention_chunk_f32 = attention_chunk<PlainCells<float>>;
  k.attention_chunk_q8 = attention_chunk<Q8Cells>;
  k.attention_merge = attention_merge;
  k.divide = divide;
  return k;
}

}  // namespace
}  // namespace strata::kernels::STRATA_ISA
