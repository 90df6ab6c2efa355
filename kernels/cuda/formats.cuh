// Block formats as one lane sees them: the 32 elements of one row of a packed group
// (strata/quant/packed_matrix.hpp draws the layout). The 16 lanes of a half-warp take the 16 rows,
// so each of the loads below is one of 64 contiguous bytes.
#pragma once

#include "kernels/cuda/math.cuh"

namespace strata::cuda {

// value = (code - kOffset) * scale[part] + min, part = element / kPartElems. Codes are signed
// bytes: those of Q8_0 stand without the 128 that the layout adds. kAddsZero: as a value a block
// without a minimum still adds one of 0, which makes -0 to 0.
struct LaneBlock {
  std::uint32_t codes[8];  // [c]: elements 4c..4c+3
  float scale[2];          // one a part
  float min;               // only where kHasMin
};

STRATA_DEVICE void decode_nibbles(const std::byte* p, int row, LaneBlock& d) {
  STRATA_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    const auto v = load<std::uint32_t>(p + 64 * c + 4 * row);
    d.codes[c] = v & 0x0f0f0f0fU;
    d.codes[c + 4] = v >> 4 & 0x0f0f0f0fU;
  }
}

// Adds 16 to the codes whose bit c is set in the vector of high bits.
STRATA_DEVICE void decode_high_bits(const std::byte* p, int row, LaneBlock& d) {
  const auto v = load<std::uint32_t>(p + 4 * row);
  STRATA_UNROLL(8)
  for (int c = 0; c < 8; ++c) {
    d.codes[c] |= (c < 4 ? v << (4 - c) : v >> (c - 4)) & 0x10101010U;
  }
}

template <bool kMin, bool kHigh, int kCodeOffset>
struct LegacyFormat {
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = kCodeOffset;
  static constexpr bool kHasMin = kMin;
  static constexpr bool kAddsZero = true;
  static constexpr std::size_t kBytes = 16 * (2 + (kMin ? 2 : 0) + (kHigh ? 4 : 0) + 16);
  STRATA_DEVICE static LaneBlock decode(const std::byte* group, std::int64_t block, int row) {
    LaneBlock d;
    const std::byte* p = group + block * kBytes;
    d.scale[0] = load_half(p + 2 * row);
    p += 32;
    d.min = 0.0f;
    if constexpr (kMin) {
      d.min = load_half(p + 2 * row);
      p += 32;
    }
    decode_nibbles(kHigh ? p + 64 : p, row, d);
    if constexpr (kHigh) decode_high_bits(p, row, d);
    return d;
  }
};
using Q4_0 = LegacyFormat<false, false, 8>;
using Q4_1 = LegacyFormat<true, false, 0>;
using Q5_0 = LegacyFormat<false, true, 16>;
using Q5_1 = LegacyFormat<true, true, 0>;

struct Q8_0 {
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = false;
  static constexpr bool kAddsZero = false;
  static constexpr std::size_t kBytes = 16 * 34;
  STRATA_DEVICE static LaneBlock decode(const std::byte* group, std::int64_t block, int row) {
    LaneBlock d;
    const std::byte* p = group + block * kBytes;
    d.scale[0] = load_half(p + 2 * row);
    STRATA_UNROLL(8)
    for (int c = 0; c < 8; ++c) {
      d.codes[c] = load<std::uint32_t>(p + 32 + 64 * c + 4 * row) ^ 0x80808080U;
    }
    return d;
  }
};

template <bool kHigh>
struct KFormat {  // Q4_K, Q5_K
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static constexpr bool kAddsZero = false;
  static constexpr std::size_t kSubBytes = 24 + (kHigh ? 64 : 0) + 256;
  static constexpr std::size_t kBytes = 64 + 8 * kSubBytes;  // of a unit of 256 elements
  STRATA_DEVICE static LaneBlock decode(const std::byte* group, std::int64_t block, int row) {
    LaneBlock d;
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 64 + (block & 7) * kSubBytes;
    const int low = load<std::uint8_t>(p + row);
    const int high = load<std::uint8_t>(p + 16 + row % 8) >> (4 * (row / 8)) & 15;
    const int scale = (low & 15) | (high & 3) << 4;
    const int min = low >> 4 | (high >> 2) << 4;
    d.scale[0] = mul_rn(load_half(unit + 2 * row), static_cast<float>(scale));              // exact
    d.min = mul_rn(sub_rn(0.0f, load_half(unit + 32 + 2 * row)), static_cast<float>(min));  // exact
    p += 24;
    decode_nibbles(kHigh ? p + 64 : p, row, d);
    if constexpr (kHigh) decode_high_bits(p, row, d);
    return d;
  }
};
using Q4_K = KFormat<false>;
using Q5_K = KFormat<true>;

struct Q6_K {
  static constexpr int kPartElems = 16;
  static constexpr int kOffset = 32;
  static constexpr bool kHasMin = false;
  static constexpr bool kAddsZero = false;
  static constexpr std::size_t kSubBytes = 32 + 128 + 256;
  static constexpr std::size_t kBytes = 32 + 8 * kSubBytes;
  STRATA_DEVICE static LaneBlock decode(const std::byte* group, std::int64_t block, int row) {
    LaneBlock d;
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 32 + (block & 7) * kSubBytes;
    const float super = load_half(unit + 2 * row);
    STRATA_UNROLL(2)
    for (int part = 0; part < 2; ++part) {  // exact: 11 + 8 bits
      const auto scale = static_cast<std::int8_t>(load<std::uint8_t>(p + 16 * part + row));
      d.scale[part] = mul_rn(super, static_cast<float>(scale));
    }
    decode_nibbles(p + 32 + 128, row, d);
    STRATA_UNROLL(8)
    for (int c = 0; c < 8; ++c) {
      const auto pairs = load<std::uint32_t>(p + 32 + 64 * (c / 4) + 4 * row);
      const int bit = c % 4;
      d.codes[c] |= (bit == 0   ? pairs << 4
                     : bit == 1 ? pairs << 2
                     : bit == 2 ? pairs
                                : pairs >> 2) &
                    0x30303030U;
    }
    return d;
  }
};

// Float types: element k of a row.
struct F32 {
  STRATA_DEVICE static float decode(const std::byte* group, std::int64_t k, int row) {
    return load<float>(group + 64 * k + 4 * row);
  }
};
struct F16 {
  STRATA_DEVICE static float decode(const std::byte* group, std::int64_t k, int row) {
    return load_half(group + 32 * k + 2 * row);
  }
};
struct BF16 {
  STRATA_DEVICE static float decode(const std::byte* group, std::int64_t k, int row) {
    return bf16_value(load<std::uint16_t>(group + 32 * k + 2 * row));
  }
};

}  // namespace strata::cuda
