// Block formats as a thread reads them: of a packed group (strata/quant/packed_matrix.hpp draws the
// layout) kRows neighbouring rows, 1 or 2, and of a block's 32 elements kChunks neighbouring
// chunks c, of 4 elements each, together with chunks c + 4. A chunk of the rows is one load.
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

// Chunks c and c + 4 of a row.
struct CodePair {
  std::uint32_t low;
  std::uint32_t high;
};

// A word, or half a word, of each row.
template <int kRows>
struct RowWords {
  std::uint32_t v[kRows];
};
template <int kRows>
struct RowHalves {
  std::uint32_t v;
  STRATA_DEVICE float value(int r) const {
    return half_value(static_cast<std::uint16_t>(v >> (16 * r)));
  }
};

// What rows from `row` on have in a vector of words, halves or bytes of all 16.
template <int kRows>
STRATA_DEVICE RowWords<kRows> load_words(const std::byte* vector, int row) {
  const std::byte* p = vector + 4 * row;
  if constexpr (kRows == 2) return bytes_as<RowWords<2>>(load_once<Int2>(p));
  if constexpr (kRows == 1) return {{load_once<std::uint32_t>(p)}};
}
template <int kRows>
STRATA_DEVICE RowHalves<kRows> load_halves(const std::byte* vector, int row) {
  const std::byte* p = vector + 2 * row;
  if constexpr (kRows == 2) return {load_once<std::uint32_t>(p)};
  if constexpr (kRows == 1) return {load_once<std::uint16_t>(p)};
}
template <int kRows>
STRATA_DEVICE std::uint32_t load_bytes(const std::byte* vector, int row) {
  const std::byte* p = vector + row;
  if constexpr (kRows == 2) return load_once<std::uint16_t>(p);
  if constexpr (kRows == 1) return load<std::uint8_t>(p);
}

STRATA_DEVICE CodePair unpack_nibbles(std::uint32_t v) {
  return {v & 0x0f0f0f0fU, v >> 4 & 0x0f0f0f0fU};
}
// Adds 16 to the codes whose bit, c or c + 4, is set in the word of high bits.
STRATA_DEVICE CodePair with_high_bits(CodePair codes, std::uint32_t bits, int c) {
  return {codes.low | (bits << (4 - c) & 0x10101010U), codes.high | (bits >> c & 0x10101010U)};
}
STRATA_DEVICE float unsigned_byte(std::uint32_t bytes, int r) {
  return static_cast<float>(bytes >> (8 * r) & 255U);
}

// A format has Words, what a thread loads of a block; fetch(), which loads them, apart from their
// use so that many can be under way; and then the codes of rows r and chunks `first` + c, and the
// rows' scales.
template <bool kMin, bool kHigh, int kCodeOffset>
struct LegacyFormat {
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = kCodeOffset;
  static constexpr bool kHasMin = kMin;
  static constexpr bool kAddsZero = true;
  static constexpr std::size_t kBytes = 16 * (2 + (kMin ? 2 : 0) + (kHigh ? 4 : 0) + 16);
  template <int kRows, int kChunks>
  struct Words {
    RowHalves<kRows> d;
    RowHalves<kRows> m;    // where kMin
    RowWords<kRows> high;  // where kHigh
    RowWords<kRows> nibbles[kChunks];
  };
  template <int kRows, int kChunks>
  STRATA_DEVICE static Words<kRows, kChunks> fetch(const std::byte* group, std::int64_t block,
                                                   int row, int first) {
    const std::byte* p = group + block * kBytes;
    Words<kRows, kChunks> w{};
    w.d = load_halves<kRows>(p, row);
    p += 32;
    if constexpr (kMin) {
      w.m = load_halves<kRows>(p, row);
      p += 32;
    }
    if constexpr (kHigh) {
      w.high = load_words<kRows>(p, row);
      p += 64;
    }
    STRATA_UNROLL(4)
    for (int c = 0; c < kChunks; ++c) w.nibbles[c] = load_words<kRows>(p + 64 * (first + c), row);
    return w;
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static CodePair codes(const Words<kRows, kChunks>& w, int r, int c, int first) {
    const CodePair pair = unpack_nibbles(w.nibbles[c].v[r]);
    return kHigh ? with_high_bits(pair, w.high.v[r], first + c) : pair;
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static Scales scales(const Words<kRows, kChunks>& w, int r, int /*row*/) {
    return {{w.d.value(r), 0.0f}, kMin ? w.m.value(r) : 0.0f};
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
  template <int kRows, int kChunks>
  struct Words {
    RowHalves<kRows> d;
    RowWords<kRows> low[kChunks];
    RowWords<kRows> high[kChunks];
  };
  template <int kRows, int kChunks>
  STRATA_DEVICE static Words<kRows, kChunks> fetch(const std::byte* group, std::int64_t block,
                                                   int row, int first) {
    const std::byte* p = group + block * kBytes;
    Words<kRows, kChunks> w;
    w.d = load_halves<kRows>(p, row);
    STRATA_UNROLL(4)
    for (int c = 0; c < kChunks; ++c) {
      w.low[c] = load_words<kRows>(p + 32 + 64 * (first + c), row);
      w.high[c] = load_words<kRows>(p + 32 + 64 * (first + c + 4), row);
    }
    return w;
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static CodePair codes(const Words<kRows, kChunks>& w, int r, int c, int /*first*/) {
    return {w.low[c].v[r] ^ 0x80808080U, w.high[c].v[r] ^ 0x80808080U};
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static Scales scales(const Words<kRows, kChunks>& w, int r, int /*row*/) {
    return {{w.d.value(r), 0.0f}, 0.0f};
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
  template <int kRows, int kChunks>
  struct Words {
    RowHalves<kRows> d;
    RowHalves<kRows> m;
    std::uint32_t low;     // bits of scales and minima: a byte a row
    std::uint32_t rest;    // and their high ones: a nibble a row
    RowWords<kRows> high;  // where kHigh
    RowWords<kRows> nibbles[kChunks];
  };
  template <int kRows, int kChunks>
  STRATA_DEVICE static Words<kRows, kChunks> fetch(const std::byte* group, std::int64_t block,
                                                   int row, int first) {
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 64 + (block & 7) * kSubBytes;
    Words<kRows, kChunks> w{};
    w.d = load_halves<kRows>(unit, row);
    w.m = load_halves<kRows>(unit + 32, row);
    w.low = load_bytes<kRows>(p, row);
    w.rest = load_bytes<kRows>(p + 16, row % 8);
    p += 24;
    if constexpr (kHigh) {
      w.high = load_words<kRows>(p, row);
      p += 64;
    }
    STRATA_UNROLL(4)
    for (int c = 0; c < kChunks; ++c) w.nibbles[c] = load_words<kRows>(p + 64 * (first + c), row);
    return w;
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static CodePair codes(const Words<kRows, kChunks>& w, int r, int c, int first) {
    const CodePair pair = unpack_nibbles(w.nibbles[c].v[r]);
    return kHigh ? with_high_bits(pair, w.high.v[r], first + c) : pair;
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static Scales scales(const Words<kRows, kChunks>& w, int r, int row) {
    const std::uint32_t rest = w.rest >> (4 * (row / 8));
    const std::uint32_t scales = (w.low & 0x0f0f0f0fU) | (rest << 4 & 0x30303030U);
    const std::uint32_t mins = (w.low >> 4 & 0x0f0f0f0fU) | (rest << 2 & 0x30303030U);
    return {{mul_rn(w.d.value(r), unsigned_byte(scales, r)), 0.0f},       // exact
            mul_rn(sub_rn(0.0f, w.m.value(r)), unsigned_byte(mins, r))};  // exact
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
  template <int kRows, int kChunks>
  struct Words {
    RowHalves<kRows> d;
    std::uint32_t scales[2];  // of the first 16 elements and of the others: a byte a row
    RowWords<kRows> low;      // bit pairs of chunks 0..3
    RowWords<kRows> high;     // of 4..7
    RowWords<kRows> nibbles[kChunks];
  };
  template <int kRows, int kChunks>
  STRATA_DEVICE static Words<kRows, kChunks> fetch(const std::byte* group, std::int64_t block,
                                                   int row, int first) {
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 32 + (block & 7) * kSubBytes;
    Words<kRows, kChunks> w;
    w.d = load_halves<kRows>(unit, row);
    w.scales[0] = load_bytes<kRows>(p, row);
    w.scales[1] = load_bytes<kRows>(p + 16, row);
    w.low = load_words<kRows>(p + 32, row);
    w.high = load_words<kRows>(p + 96, row);
    STRATA_UNROLL(4)
    for (int c = 0; c < kChunks; ++c) {
      w.nibbles[c] = load_words<kRows>(p + 160 + 64 * (first + c), row);
    }
    return w;
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static CodePair codes(const Words<kRows, kChunks>& w, int r, int c, int first) {
    const CodePair pair = unpack_nibbles(w.nibbles[c].v[r]);
    const int shift = 2 * (first + c);
    return {pair.low | (w.low.v[r] >> shift << 4 & 0x30303030U),
            pair.high | (w.high.v[r] >> shift << 4 & 0x30303030U)};
  }
  template <int kRows, int kChunks>
  STRATA_DEVICE static Scales scales(const Words<kRows, kChunks>& w, int r, int /*row*/) {
    const float d = w.d.value(r);
    Scales s{};
    STRATA_UNROLL(2)
    for (int i = 0; i < 2; ++i) {  // exact: 11 + 8 bits
      s.part[i] = mul_rn(d, static_cast<float>(static_cast<std::int8_t>(w.scales[i] >> (8 * r))));
    }
    return s;
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
