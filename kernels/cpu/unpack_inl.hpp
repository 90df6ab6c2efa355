// Block formats, decoded 16 rows at a time: codes as unsigned bytes, scales as floats. All that a
// format needs to have kernels on every instruction set is a struct here. Included inside namespace
// strata::kernels::STRATA_ISA by kernels/cpu/table_inl.hpp.

// One block of 32 elements of 16 rows. value = (code - kOffset) * scale[part] + min, part = element
// / kPartElems.
struct Decoded {
  U8x64 codes[8];   // [c]: elements 4c..4c+3 of each row
  F32x16 scale[2];  // one a part
  F32x16 min;       // only where kHasMin
};

STRATA_INLINE void decode_nibbles(const std::byte* p, Decoded& d) {
  for (int c = 0; c < 4; ++c) {
    const U8x64 v = load_bytes(p + 64 * c);
    d.codes[c] = shift_right_and<0, 0x0f>(v);
    d.codes[c + 4] = shift_right_and<4, 0x0f>(v);
  }
}

// Adds 16 to the codes whose bit c is set in the vector of high bits.
STRATA_INLINE void decode_high_bits(const std::byte* p, Decoded& d) {
  const U8x64 v = load_bytes(p);
  d.codes[0] = bit_or(d.codes[0], shift_left_and<4, 0x10>(v));
  d.codes[1] = bit_or(d.codes[1], shift_left_and<3, 0x10>(v));
  d.codes[2] = bit_or(d.codes[2], shift_left_and<2, 0x10>(v));
  d.codes[3] = bit_or(d.codes[3], shift_left_and<1, 0x10>(v));
  d.codes[4] = bit_or(d.codes[4], shift_right_and<0, 0x10>(v));
  d.codes[5] = bit_or(d.codes[5], shift_right_and<1, 0x10>(v));
  d.codes[6] = bit_or(d.codes[6], shift_right_and<2, 0x10>(v));
  d.codes[7] = bit_or(d.codes[7], shift_right_and<3, 0x10>(v));
}

template <bool kMin, bool kHigh, int kCodeOffset>
struct LegacyFormat {
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = kCodeOffset;
  static constexpr bool kHasMin = kMin;
  static constexpr bool kWide = false;
  static constexpr std::size_t kBytes = 16 * (2 + (kMin ? 2 : 0) + (kHigh ? 4 : 0) + 16);
  static constexpr std::size_t kBlockBytes = kBytes;
  STRATA_INLINE void decode(const std::byte* group, std::int64_t block, Decoded& d) {
    const std::byte* p = group + block * kBytes;
    d.scale[0] = load_half(p);
    p += 32;
    if constexpr (kMin) {
      d.min = load_half(p);
      p += 32;
    }
    const std::byte* high = p;
    if constexpr (kHigh) p += 64;
    decode_nibbles(p, d);
    if constexpr (kHigh) decode_high_bits(high, d);
  }
};
using Q4_0 = LegacyFormat<false, false, 8>;
using Q4_1 = LegacyFormat<true, false, 0>;
using Q5_0 = LegacyFormat<false, true, 16>;
using Q5_1 = LegacyFormat<true, true, 0>;

struct Q8_0 {
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = 128;
  static constexpr bool kHasMin = false;
  static constexpr bool kWide = true;
  static constexpr std::size_t kBytes = 16 * 34;
  static constexpr std::size_t kBlockBytes = kBytes;
  STRATA_INLINE void decode(const std::byte* group, std::int64_t block, Decoded& d) {
    const std::byte* p = group + block * kBytes;
    d.scale[0] = load_half(p);
    for (int c = 0; c < 8; ++c) d.codes[c] = load_bytes(p + 32 + 64 * c);
  }
};

template <bool kHigh>
struct KFormat {  // Q4_K, Q5_K
  static constexpr int kPartElems = 32;
  static constexpr int kOffset = 0;
  static constexpr bool kHasMin = true;
  static constexpr bool kWide = false;
  static constexpr std::size_t kSubBytes = 24 + (kHigh ? 64 : 0) + 256;
  static constexpr std::size_t kBytes = 64 + 8 * kSubBytes;  // of a unit of 256 elements
  static constexpr std::size_t kBlockBytes = kBytes / 8;     // on average
  STRATA_INLINE void decode(const std::byte* group, std::int64_t block, Decoded& d) {
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 64 + (block & 7) * kSubBytes;
    const I32x16 low = load_u8_as_int(p);
    const I32x16 high = load_split_nibbles(p + 16);
    const I32x16 scale = bit_or(bit_and(low, 15), shift_left<4>(bit_and(high, 3)));
    const I32x16 min = bit_or(shift_right<4>(low), shift_left<2>(bit_and(high, 12)));
    d.scale[0] = mul(load_half(unit), to_float(scale));             // exact: 11 + 6 bits
    d.min = mul(sub(zero(), load_half(unit + 32)), to_float(min));  // exact
    p += 24;
    const std::byte* bits = p;
    if constexpr (kHigh) p += 64;
    decode_nibbles(p, d);
    if constexpr (kHigh) decode_high_bits(bits, d);
  }
};
using Q4_K = KFormat<false>;
using Q5_K = KFormat<true>;

struct Q6_K {
  static constexpr int kPartElems = 16;
  static constexpr int kOffset = 32;
  static constexpr bool kHasMin = false;
  static constexpr bool kWide = false;
  static constexpr std::size_t kSubBytes = 32 + 128 + 256;
  static constexpr std::size_t kBytes = 32 + 8 * kSubBytes;
  static constexpr std::size_t kBlockBytes = kBytes / 8;
  STRATA_INLINE void decode(const std::byte* group, std::int64_t block, Decoded& d) {
    const std::byte* unit = group + (block >> 3) * kBytes;
    const std::byte* p = unit + 32 + (block & 7) * kSubBytes;
    const F32x16 super = load_half(unit);
    d.scale[0] = mul(super, to_float(load_i8_as_int(p)));  // exact: 11 + 8 bits
    d.scale[1] = mul(super, to_float(load_i8_as_int(p + 16)));
    decode_nibbles(p + 32 + 128, d);
    for (int v = 0; v < 2; ++v) {
      const U8x64 pairs = load_bytes(p + 32 + 64 * v);
      d.codes[4 * v] = bit_or(d.codes[4 * v], shift_left_and<4, 0x30>(pairs));
      d.codes[4 * v + 1] = bit_or(d.codes[4 * v + 1], shift_left_and<2, 0x30>(pairs));
      d.codes[4 * v + 2] = bit_or(d.codes[4 * v + 2], shift_right_and<0, 0x30>(pairs));
      d.codes[4 * v + 3] = bit_or(d.codes[4 * v + 3], shift_right_and<2, 0x30>(pairs));
    }
  }
};

// Float types: one element of 16 rows.
struct F32 {
  static constexpr std::size_t kBytes = 64;
  STRATA_INLINE F32x16 decode(const std::byte* group, std::int64_t k) {
    return load(reinterpret_cast<const float*>(group + k * kBytes));
  }
};
struct F16 {
  static constexpr std::size_t kBytes = 32;
  STRATA_INLINE F32x16 decode(const std::byte* group, std::int64_t k) {
    return load_half(group + k * kBytes);
  }
};
struct BF16 {
  static constexpr std::size_t kBytes = 32;
  STRATA_INLINE F32x16 decode(const std::byte* group, std::int64_t k) {
    return load_bf16(group + k * kBytes);
  }
};
