// Block formats as a lane of a warp's product sees them (tensor.cuh). Lane (g, t), g = lane / 4 and
// t = lane % 4, has rows 2g and 2g + 1 of a packed group (strata/quant/packed_matrix.hpp draws the
// layout) and of a block's 32 elements chunks t and t + 4, of 4 each: a warp loads its codes in
// whole lines, and two rows' scales in one word.
#pragma once

#include "kernels/cuda/tensor.cuh"

namespace strata::cuda {

// value = (code - kOffset) * scale[part] + min, part = element / kPartElems. Codes are signed
// bytes: those of Q8_0 stand without the 128 that the layout adds. kAddsZero: as a value a block
// without a minimum still adds one of 0, which makes -0 to 0.
struct Scales {
  float part[2];  // the second only where kPartElems is 16
  float min;      // 0 where not kHasMin
};
// Of a lane's two rows.
struct LaneBlock {
  WeightFragment codes;
  Scales scales[2];
};

// A format has Words, what a lane loads of a block; fetch(), which loads them; and unpack().
// Loading stands apart so that many blocks can be under way.
struct RowPair {
  std::uint32_t row[2];
};

STRATA_DEVICE RowPair load_pair(const std::byte* vector, int g) {
  return bytes_as<RowPair>(load_once<Int2>(vector + 8 * g));
}
STRATA_DEVICE float half_of(std::uint32_t halves, int row) {
  return half_value(static_cast<std::uint16_t>(halves >> (16 * row)));
}
STRATA_DEVICE int byte_of(std::uint32_t bytes, int row) { return bytes >> (8 * row) & 255U; }

// Chunks t and t + 4 of nibbles.
STRATA_DEVICE WeightFragment unpack_nibbles(const RowPair& v) {
  constexpr std::uint32_t kLow = 0x0f0f0f0fU;
  return {{v.row[0] & kLow, v.row[1] & kLow, v.row[0] >> 4 & kLow, v.row[1] >> 4 & kLow}};
}
// Adds 16 to the codes whose bit, t or t + 4, is set in the vector of high bits.
STRATA_DEVICE void add_high_bits(WeightFragment& codes, const RowPair& v, int t) {
  STRATA_UNROLL(2)
  for (int r = 0; r < 2; ++r) {
    codes.a[r] |= v.row[r] << (4 - t) & 0x10101010U;
    codes.a[r + 2] |= v.row[r] >> t & 0x10101010U;
  }
}

template <bool kMin, bool kHigh, int kCodeOffset>
struct LegacyFormat {
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = kCodeOffset;
  static constexpr bool kHasMin = kMin;
  static constexpr bool kAddsZero = true;
  static constexpr std::size_t kBytes = 16 * (2 + (kMin ? 2 : 0) + (kHigh ? 4 : 0) + 16);
  static constexpr int kCodes = 32 + (kMin ? 32 : 0);  // where codes begin in a block
  struct Words {
    std::uint32_t d;
    std::uint32_t m;  // where kMin
    RowPair high;     // where kHigh
    RowPair nibbles;
  };
  STRATA_DEVICE static Words fetch(const std::byte* group, std::int64_t block, int g, int t) {
    const std::byte* p = group + block * kBytes;
    Words w{};
    w.d = load_once<std::uint32_t>(p + 4 * g);
    if constexpr (kMin) w.m = load_once<std::uint32_t>(p + 32 + 4 * g);
    if constexpr (kHigh) w.high = load_pair(p + kCodes, g);
    w.nibbles = load_pair(p + kCodes + (kHigh ? 64 : 0) + 64 * t, g);
    return w;
  }
  STRATA_DEVICE static LaneBlock unpack(const Words& w, int /*g*/, int t) {
    LaneBlock b;
    b.codes = unpack_nibbles(w.nibbles);
    if constexpr (kHigh) add_high_bits(b.codes, w.high, t);
    STRATA_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      b.scales[r] = {{half_of(w.d, r), 0.0f}, kMin ? half_of(w.m, r) : 0.0f};
    }
    return b;
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
  struct Words {
    std::uint32_t d;
    RowPair low;
    RowPair high;
  };
  STRATA_DEVICE static Words fetch(const std::byte* group, std::int64_t block, int g, int t) {
    const std::byte* p = group + block * kBytes;
    return {load_once<std::uint32_t>(p + 4 * g), load_pair(p + 32 + 64 * t, g),
            load_pair(p + 32 + 256 + 64 * t, g)};
  }
  STRATA_DEVICE static LaneBlock unpack(const Words& w, int /*g*/, int /*t*/) {
    LaneBlock b;
    STRATA_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      b.codes.a[r] = w.low.row[r] ^ 0x80808080U;
      b.codes.a[r + 2] = w.high.row[r] ^ 0x80808080U;
      b.scales[r] = {{half_of(w.d, r), 0.0f}, 0.0f};
    }
    return b;
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
  struct Words {
    std::uint32_t d;
    std::uint32_t m;
    std::uint16_t low;   // bits of scales and minima: a byte a row
    std::uint16_t rest;  // and their high ones: a nibble a row
    RowPair high;        // where kHigh
    RowPair nibbles;
  };
  STRATA_DEVICE static Words fetch(const std::byte* group, std::int64_t block, int g, int t) {
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 64 + (block & 7) * kSubBytes;
    Words w{};
    w.d = load_once<std::uint32_t>(unit + 4 * g);
    w.m = load_once<std::uint32_t>(unit + 32 + 4 * g);
    w.low = load_once<std::uint16_t>(p + 2 * g);
    w.rest = load_once<std::uint16_t>(p + 16 + 2 * (g % 4));
    if constexpr (kHigh) w.high = load_pair(p + 24, g);
    w.nibbles = load_pair(p + 24 + (kHigh ? 64 : 0) + 64 * t, g);
    return w;
  }
  STRATA_DEVICE static LaneBlock unpack(const Words& w, int g, int t) {
    LaneBlock b;
    b.codes = unpack_nibbles(w.nibbles);
    if constexpr (kHigh) add_high_bits(b.codes, w.high, t);
    STRATA_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      const int low = byte_of(w.low, r);
      const int high = byte_of(w.rest, r) >> (4 * (g / 4)) & 15;
      const int scale = (low & 15) | (high & 3) << 4;
      const int min = low >> 4 | (high >> 2) << 4;
      b.scales[r] = {{mul_rn(half_of(w.d, r), static_cast<float>(scale)), 0.0f},       // exact
                     mul_rn(sub_rn(0.0f, half_of(w.m, r)), static_cast<float>(min))};  // exact
    }
    return b;
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
  struct Words {
    std::uint32_t d;
    std::uint16_t scales[2];  // of the first 16 elements and of the others: a byte a row
    RowPair low;              // bit pairs of chunks 0..3
    RowPair high;             // of 4..7
    RowPair nibbles;
  };
  STRATA_DEVICE static Words fetch(const std::byte* group, std::int64_t block, int g, int t) {
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 32 + (block & 7) * kSubBytes;
    return {load_once<std::uint32_t>(unit + 4 * g),
            {load_once<std::uint16_t>(p + 2 * g), load_once<std::uint16_t>(p + 16 + 2 * g)},
            load_pair(p + 32, g),
            load_pair(p + 96, g),
            load_pair(p + 160 + 64 * t, g)};
  }
  STRATA_DEVICE static LaneBlock unpack(const Words& w, int /*g*/, int t) {
    LaneBlock b;
    b.codes = unpack_nibbles(w.nibbles);
    STRATA_UNROLL(2)
    for (int r = 0; r < 2; ++r) {
      b.codes.a[r] |= w.low.row[r] >> (2 * t) << 4 & 0x30303030U;
      b.codes.a[r + 2] |= w.high.row[r] >> (2 * t) << 4 & 0x30303030U;
      STRATA_UNROLL(2)
      for (int i = 0; i < 2; ++i) {  // exact: 11 + 8 bits
        const auto scale = static_cast<std::int8_t>(byte_of(w.scales[i], r));
        b.scales[r].part[i] = mul_rn(half_of(w.d, r), static_cast<float>(scale));
      }
      b.scales[r].min = 0.0f;
    }
    return b;
  }
};

// Float types: element i of an array, 16 * k + row in a group.
struct F32 {
  static constexpr int kBytes = 4;
  STRATA_DEVICE static float value(const void* array, std::int64_t i) {
    return static_cast<const float*>(array)[i];
  }
};
struct F16 {
  static constexpr int kBytes = 2;
  STRATA_DEVICE static float value(const void* array, std::int64_t i) {
    return half_value(static_cast<const std::uint16_t*>(array)[i]);
  }
};
struct BF16 {
  static constexpr int kBytes = 2;
  STRATA_DEVICE static float value(const void* array, std::int64_t i) {
    return bf16_value(static_cast<const std::uint16_t*>(array)[i]);
  }
};

}  // namespace strata::cuda
