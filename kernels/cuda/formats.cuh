// Block formats as one lane sees them: the 32 elements of one row of a packed group
// (strata/quant/packed_matrix.hpp draws the layout). The 16 lanes of a half-warp take the 16 rows,
// so each of the loads below is one of 64 contiguous bytes.
//
// A format loads (load_codes, load_scales: bytes as they lie) and then decodes (codes, scales), so
// that a kernel can have loads in flight while it computes.
#pragma once

#include "kernels/cuda/math.cuh"

namespace strata::cuda {

// value = (code - kOffset) * scale[part] + min, part = element / kPartElems. Codes are signed
// bytes: those of Q8_0 stand without the 128 that the layout adds. kAddsZero: as a value a block
// without a minimum still adds one of 0, which makes -0 to 0.
struct Scales {
  float part[2];  // the second only where kPartElems is 16
  float min;      // 0 where not kHasMin
};
struct LaneBlock {
  std::uint32_t codes[8];  // [c]: elements 4c..4c+3
  Scales scales;
};

// Chunks c and c + 4 (c in 0..3) of a row: elements 4c..4c+3 and 16 later.
struct CodePair {
  std::uint32_t low;
  std::uint32_t high;
};

STRATA_DEVICE CodePair nibble_pair(std::uint32_t v) {
  return {v & 0x0f0f0f0fU, v >> 4 & 0x0f0f0f0fU};
}

// Of formats of four or five bits: nibbles of a chunk pair, and the high bits of all chunks.
struct NibbleCodes {
  std::uint32_t nibbles;
  std::uint32_t high;  // only of five bits
};
template <bool kHigh>
STRATA_DEVICE NibbleCodes load_nibbles(const std::byte* p, int row, int c) {
  if constexpr (!kHigh) return {load<std::uint32_t>(p + 64 * c + 4 * row), 0};
  return {load<std::uint32_t>(p + 64 + 64 * c + 4 * row), load<std::uint32_t>(p + 4 * row)};
}
// Adds 16 to the codes whose bit, c or c + 4, is set in the vector of high bits.
template <bool kHigh>
STRATA_DEVICE CodePair decode_nibbles(NibbleCodes raw, int c) {
  const CodePair codes = nibble_pair(raw.nibbles);
  if constexpr (!kHigh) return codes;
  return {codes.low | (raw.high << (4 - c) & 0x10101010U),
          codes.high | (raw.high >> c & 0x10101010U)};
}

template <bool kMin, bool kHigh, int kCodeOffset>
struct LegacyFormat {
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = kCodeOffset;
  static constexpr bool kHasMin = kMin;
  static constexpr bool kAddsZero = true;
  static constexpr std::size_t kBytes = 16 * (2 + (kMin ? 2 : 0) + (kHigh ? 4 : 0) + 16);
  static constexpr int kCodes = 32 + (kMin ? 32 : 0);  // where codes begin in a block
  using Codes = NibbleCodes;
  struct RawScales {
    std::uint16_t scale;
    std::uint16_t min;
  };
  STRATA_DEVICE static Codes load_codes(const std::byte* group, std::int64_t block, int row,
                                        int c) {
    return load_nibbles<kHigh>(group + block * kBytes + kCodes, row, c);
  }
  STRATA_DEVICE static CodePair codes(const Codes& raw, int c) {
    return decode_nibbles<kHigh>(raw, c);
  }
  STRATA_DEVICE static RawScales load_scales(const std::byte* group, std::int64_t block, int row) {
    const std::byte* p = group + block * kBytes + 2 * row;
    return {load<std::uint16_t>(p), kMin ? load<std::uint16_t>(p + 32) : std::uint16_t{0}};
  }
  STRATA_DEVICE static Scales scales(const RawScales& raw, int) {
    return {{half_value(raw.scale), 0.0f}, kMin ? half_value(raw.min) : 0.0f};
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
  using Codes = CodePair;
  struct RawScales {
    std::uint16_t scale;
  };
  STRATA_DEVICE static Codes load_codes(const std::byte* group, std::int64_t block, int row,
                                        int c) {
    const std::byte* p = group + block * kBytes + 32 + 64 * c + 4 * row;
    return {load<std::uint32_t>(p), load<std::uint32_t>(p + 256)};
  }
  STRATA_DEVICE static CodePair codes(const Codes& raw, int) {
    return {raw.low ^ 0x80808080U, raw.high ^ 0x80808080U};
  }
  STRATA_DEVICE static RawScales load_scales(const std::byte* group, std::int64_t block, int row) {
    return {load<std::uint16_t>(group + block * kBytes + 2 * row)};
  }
  STRATA_DEVICE static Scales scales(const RawScales& raw, int) {
    return {{half_value(raw.scale), 0.0f}, 0.0f};
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
  STRATA_DEVICE static const std::byte* part(const std::byte* group, std::int64_t block) {
    return group + (block >> 3) * kBytes + 64 + (block & 7) * kSubBytes;
  }
  using Codes = NibbleCodes;
  struct RawScales {
    std::uint16_t d;
    std::uint16_t dmin;
    std::uint8_t low;
    std::uint8_t high;
  };
  STRATA_DEVICE static Codes load_codes(const std::byte* group, std::int64_t block, int row,
                                        int c) {
    return load_nibbles<kHigh>(part(group, block) + 24, row, c);
  }
  STRATA_DEVICE static CodePair codes(const Codes& raw, int c) {
    return decode_nibbles<kHigh>(raw, c);
  }
  STRATA_DEVICE static RawScales load_scales(const std::byte* group, std::int64_t block, int row) {
    const std::byte* unit = group + (block >> 3) * kBytes + 2 * row;
    const std::byte* p = part(group, block);
    return {load<std::uint16_t>(unit), load<std::uint16_t>(unit + 32), load<std::uint8_t>(p + row),
            load<std::uint8_t>(p + 16 + row % 8)};
  }
  STRATA_DEVICE static Scales scales(const RawScales& raw, int row) {
    const int high = raw.high >> (4 * (row / 8)) & 15;
    const int scale = (raw.low & 15) | (high & 3) << 4;
    const int min = raw.low >> 4 | (high >> 2) << 4;
    return {{mul_rn(half_value(raw.d), static_cast<float>(scale)), 0.0f},          // exact
            mul_rn(sub_rn(0.0f, half_value(raw.dmin)), static_cast<float>(min))};  // exact
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
  STRATA_DEVICE static const std::byte* part(const std::byte* group, std::int64_t block) {
    return group + (block >> 3) * kBytes + 32 + (block & 7) * kSubBytes;
  }
  struct Codes {
    std::uint32_t nibbles;
    std::uint32_t low;  // bit pairs of all chunks
    std::uint32_t high;
  };
  struct RawScales {
    std::uint16_t d;
    std::uint8_t first;
    std::uint8_t second;
  };
  STRATA_DEVICE static Codes load_codes(const std::byte* group, std::int64_t block, int row,
                                        int c) {
    const std::byte* p = part(group, block) + 32 + 4 * row;
    return {load<std::uint32_t>(p + 128 + 64 * c), load<std::uint32_t>(p),
            load<std::uint32_t>(p + 64)};
  }
  STRATA_DEVICE static CodePair codes(const Codes& raw, int c) {
    const CodePair codes = nibble_pair(raw.nibbles);
    return {codes.low | (raw.low >> (2 * c) << 4 & 0x30303030U),
            codes.high | (raw.high >> (2 * c) << 4 & 0x30303030U)};
  }
  STRATA_DEVICE static RawScales load_scales(const std::byte* group, std::int64_t block, int row) {
    const std::byte* p = part(group, block) + row;
    return {load<std::uint16_t>(group + (block >> 3) * kBytes + 2 * row), load<std::uint8_t>(p),
            load<std::uint8_t>(p + 16)};
  }
  STRATA_DEVICE static Scales scales(const RawScales& raw, int) {
    const float super = half_value(raw.d);  // 11 bits: with 8 more the products are exact
    return {{mul_rn(super, static_cast<float>(static_cast<std::int8_t>(raw.first))),
             mul_rn(super, static_cast<float>(static_cast<std::int8_t>(raw.second)))},
            0.0f};
  }
};

// A whole block of a row.
template <class Format>
STRATA_DEVICE LaneBlock decode(const std::byte* group, std::int64_t block, int row) {
  LaneBlock d;
  d.scales = Format::scales(Format::load_scales(group, block, row), row);
  STRATA_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    const CodePair pair = Format::codes(Format::load_codes(group, block, row, c), c);
    d.codes[c] = pair.low;
    d.codes[c + 4] = pair.high;
  }
  return d;
}

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
