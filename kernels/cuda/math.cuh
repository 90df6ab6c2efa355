// Arithmetic whose every bit is fixed (docs/exactness.md): single IEEE operations, the elementary
// functions of kernels/cpu/math_inl.hpp made of them, and loads.
#pragma once

#include "kernels/cuda/simt.cuh"

#ifndef STRATA_GPU
#include "strata/base/half.hpp"

#include <bit>
#endif

namespace strata::cuda {

#ifdef STRATA_GPU
STRATA_DEVICE float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
STRATA_DEVICE float add_rn(float a, float b) { return __fadd_rn(a, b); }
STRATA_DEVICE float sub_rn(float a, float b) { return __fsub_rn(a, b); }
STRATA_DEVICE float mul_rn(float a, float b) { return __fmul_rn(a, b); }
STRATA_DEVICE float div_rn(float a, float b) { return __fdiv_rn(a, b); }
STRATA_DEVICE float sqrt_rn(float a) { return __fsqrt_rn(a); }
STRATA_DEVICE float round_even(float a) { return rintf(a); }
STRATA_DEVICE float bits_to_float(std::uint32_t bits) { return __uint_as_float(bits); }
STRATA_DEVICE std::uint32_t float_to_bits(float f) { return __float_as_uint(f); }
STRATA_DEVICE float half_value(std::uint16_t h) { return __half2float(__ushort_as_half(h)); }
STRATA_DEVICE std::uint16_t half_bits(float f) { return __half_as_ushort(__float2half_rn(f)); }
#else
STRATA_DEVICE float fma_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
STRATA_DEVICE float add_rn(float a, float b) { return a + b; }
STRATA_DEVICE float sub_rn(float a, float b) { return a - b; }
STRATA_DEVICE float mul_rn(float a, float b) { return a * b; }
STRATA_DEVICE float div_rn(float a, float b) { return a / b; }
STRATA_DEVICE float sqrt_rn(float a) { return __builtin_sqrtf(a); }
STRATA_DEVICE float round_even(float a) { return __builtin_rintf(a); }
STRATA_DEVICE float bits_to_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
STRATA_DEVICE std::uint32_t float_to_bits(float f) { return std::bit_cast<std::uint32_t>(f); }
STRATA_DEVICE float half_value(std::uint16_t h) { return half_to_float(h); }
STRATA_DEVICE std::uint16_t half_bits(float f) { return float_to_half(f); }
#endif

// acc + the sum of four products of signed bytes.
STRATA_DEVICE std::int32_t dot4(std::int32_t acc, std::uint32_t a, std::int32_t b) {
#ifdef __CUDACC__
  return __dp4a(static_cast<int>(a), b, acc);
#else
  for (int i = 0; i < 4; ++i) {
    acc += static_cast<std::int8_t>(a >> (8 * i)) *
           static_cast<std::int8_t>(static_cast<std::uint32_t>(b) >> (8 * i));
  }
  return acc;
#endif
}

STRATA_DEVICE float bf16_value(std::uint16_t b) {
  const bool is_nan = (b & 0x7fffU) > 0x7f80U;
  return bits_to_float(static_cast<std::uint32_t>(b) << 16 | (is_nan ? 0x400000U : 0));
}

inline constexpr float kInfinity = __builtin_huge_valf();

// The larger; b when either is NaN.
STRATA_DEVICE float max_of(float a, float b) { return a > b ? a : b; }

STRATA_DEVICE float abs_of(float x) { return bits_to_float(float_to_bits(x) & 0x7fffffffU); }

// The smaller and the larger; the bound when x is NaN.
STRATA_DEVICE float at_most(float x, float bound) {
#ifdef STRATA_GPU
  return fminf(x, bound);
#else
  return x < bound ? x : bound;
#endif
}
STRATA_DEVICE float at_least(float x, float bound) {
#ifdef STRATA_GPU
  return fmaxf(x, bound);
#else
  return x > bound ? x : bound;
#endif
}

// Of a whole number, or 0 of NaN, as a GPU converts: columns that no job fills are quantised too.
STRATA_DEVICE std::int32_t to_int(float x) {
#ifdef STRATA_GPU
  return static_cast<std::int32_t>(x);
#else
  return x == x ? static_cast<std::int32_t>(x) : 0;
#endif
}

STRATA_DEVICE float exp_of(float x) {
  const float clamped = at_least(at_most(x, 88.0f), -87.0f);
  // Beside 1.5 * 2^23 a float has no place for fractions: the sum's low bits are the product,
  // rounded half to even.
  constexpr float kRounder = 12582912.0f;
  const float rounded = add_rn(mul_rn(clamped, 1.44269504f), kRounder);
  const float n = sub_rn(rounded, kRounder);
  float r = fma_rn(n, -0.693359375f, clamped);
  r = fma_rn(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fma_rn(p, r, 1.3981999507e-3f);
  p = fma_rn(p, r, 8.3334519073e-3f);
  p = fma_rn(p, r, 4.1665795894e-2f);
  p = fma_rn(p, r, 1.6666665459e-1f);
  p = fma_rn(p, r, 5.0000001201e-1f);
  p = add_rn(fma_rn(p, mul_rn(r, r), r), 1.0f);
  const std::uint32_t power = x < -87.0f ? 0U : (float_to_bits(rounded) + 127U) << 23;
  return mul_rn(p, bits_to_float(power));
}

STRATA_DEVICE float silu(float x) { return div_rn(x, add_rn(1.0f, exp_of(sub_rn(0.0f, x)))); }

// The sum of 16 lanes: i with i + 8, then i + 4, i + 2, i + 1.
STRATA_DEVICE float sum_lanes(const float* lanes) {
  float v[16];
  for (int i = 0; i < 16; ++i) v[i] = lanes[i];
  STRATA_UNROLL(4)
  for (int width = 8; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] = add_rn(v[i], v[i + width]);
  }
  return v[0];
}

// The 8 segments of a dot product: neighbours first. `stride`: from one segment's sum to the next.
STRATA_DEVICE float sum_segments(const float* s, int stride) {
  const float a = add_rn(add_rn(s[0], s[stride]), add_rn(s[2 * stride], s[3 * stride]));
  const float b =
      add_rn(add_rn(s[4 * stride], s[5 * stride]), add_rn(s[6 * stride], s[7 * stride]));
  return add_rn(a, b);
}

// The value whose bytes those of another value are.
template <class To, class From>
STRATA_DEVICE To bytes_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
#ifdef __HIP__
  __builtin_memcpy(&to, &from, sizeof to);  // std::memcpy is the host's there
#else
  std::memcpy(&to, &from, sizeof to);
#endif
  return to;
}

struct alignas(16) Int4 {
  std::int32_t v[4];
};
struct alignas(16) Float4 {
  float v[4];
};
struct alignas(8) Float2 {
  float v[2];
};
struct alignas(8) Int2 {
  std::int32_t v[2];
};

// Reads what no thread of the kernel writes; `p` is aligned to the value's size.
template <class T>
STRATA_DEVICE T load(const void* p) {
#ifdef STRATA_GPU
  return __ldg(static_cast<const T*>(p));
#else
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
#endif
}
#ifdef STRATA_GPU
template <>
STRATA_DEVICE Int4 load<Int4>(const void* p) {
  const int4 q = __ldg(static_cast<const int4*>(p));
  return {{q.x, q.y, q.z, q.w}};
}
template <>
STRATA_DEVICE Int2 load<Int2>(const void* p) {
  const int2 q = __ldg(static_cast<const int2*>(p));
  return {{q.x, q.y}};
}
#endif

// p, of which the compiler knows no more how it was computed: it stays in registers, where it would
// be computed again before every load.
STRATA_DEVICE const std::byte* kept(const std::byte* p) {
#ifdef __CUDACC__
  asm("" : "+l"(p));
#endif
  return p;
}
// The same of what is read once, past the L1 cache.
template <class T>
STRATA_DEVICE T load_once(const void* p) {
#ifdef __CUDACC__
  T value;
  if constexpr (sizeof(T) == 2) {
    asm("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(value) : "l"(p));
  } else if constexpr (sizeof(T) == 4) {
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(p));
  } else if constexpr (sizeof(T) == 8) {
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
        : "=r"(value.v[0]), "=r"(value.v[1])
        : "l"(p));
  } else {
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(value.v[0]), "=r"(value.v[1]), "=r"(value.v[2]), "=r"(value.v[3])
        : "l"(p));
  }
  return value;
#else
  return load<T>(p);
#endif
}

// `p` is aligned to the value's size.
template <class T>
STRATA_DEVICE void store(void* p, const T& value) {
#ifdef STRATA_GPU
  *static_cast<T*>(p) = value;
#else
  std::memcpy(p, &value, sizeof value);
#endif
}

// Has a line brought to the GPU's cache for later.
STRATA_DEVICE void prefetch(const void* p) {
#ifdef __CUDACC__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
  static_cast<void>(p);
#endif
}

// Of 8-bit cells of the KV cache: device::kKvBlock and device::kv_row_bytes.
inline constexpr int kQ8Block = 32;
STRATA_DEVICE std::int64_t q8_blocks(int head_dim) { return (head_dim + kQ8Block - 1) / kQ8Block; }
STRATA_DEVICE std::int64_t q8_row_bytes(int head_dim) { return head_dim + 2 * q8_blocks(head_dim); }

STRATA_DEVICE float load_half(const void* p) { return half_value(load<std::uint16_t>(p)); }

}  // namespace strata::cuda
