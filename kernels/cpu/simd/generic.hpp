// 16 lanes in plain C++: the register layer that defines the bits. Every other layer gives the same
// results lane by lane, since each operation here is one IEEE operation or an exact integer one.
// Included inside namespace strata::kernels::STRATA_ISA by kernels/cpu/table_inl.hpp.

// How far loops over the tokens of a tile are unrolled. Plain loops: this layer is for being right.
constexpr int kUnrollTokens = 1;

struct F32x16 {
  float lane[16];
};
struct I32x16 {
  std::int32_t lane[16];
};
// 16 rows of 4 unsigned codes.
struct U8x64 {
  std::uint8_t byte[64];
};

template <class Op>
STRATA_INLINE F32x16 each_float(Op op) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = op(i);
  return r;
}
template <class Op>
STRATA_INLINE I32x16 each_int(Op op) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.lane[i] = op(i);
  return r;
}
template <class Op>
STRATA_INLINE U8x64 each_byte(Op op) {
  U8x64 r;
  for (int i = 0; i < 64; ++i) r.byte[i] = static_cast<std::uint8_t>(op(i));
  return r;
}

STRATA_INLINE F32x16 zero() {
  return each_float([](int) { return 0.0f; });
}
STRATA_INLINE F32x16 set1(float v) {
  return each_float([=](int) { return v; });
}
STRATA_INLINE F32x16 load(const float* p) {
  return each_float([=](int i) { return p[i]; });
}
STRATA_INLINE void store(float* p, F32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = v.lane[i];
}
STRATA_INLINE F32x16 load_half(const void* p) {
  std::uint16_t h[16];
  __builtin_memcpy(h, p, sizeof h);
  return each_float([&](int i) { return half_to_float(h[i]); });
}
// All lanes the half at p.
STRATA_INLINE F32x16 set1_half(const void* p) {
  std::uint16_t h;
  __builtin_memcpy(&h, p, sizeof h);
  return set1(half_to_float(h));
}
STRATA_INLINE void store_half(void* p, F32x16 v) {
  std::uint16_t h[16];
  for (int i = 0; i < 16; ++i) h[i] = float_to_half(v.lane[i]);
  __builtin_memcpy(p, h, sizeof h);
}
STRATA_INLINE F32x16 load_bf16(const void* p) {
  std::uint16_t h[16];
  __builtin_memcpy(h, p, sizeof h);
  return each_float([&](int i) { return bf16_to_float(h[i]); });
}
STRATA_INLINE F32x16 add(F32x16 a, F32x16 b) {
  return each_float([&](int i) { return a.lane[i] + b.lane[i]; });
}
STRATA_INLINE F32x16 sub(F32x16 a, F32x16 b) {
  return each_float([&](int i) { return a.lane[i] - b.lane[i]; });
}
STRATA_INLINE F32x16 mul(F32x16 a, F32x16 b) {
  return each_float([&](int i) { return a.lane[i] * b.lane[i]; });
}
STRATA_INLINE F32x16 div(F32x16 a, F32x16 b) {
  return each_float([&](int i) { return a.lane[i] / b.lane[i]; });
}
// a * b + c, rounded once.
STRATA_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return each_float([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
STRATA_INLINE F32x16 max(F32x16 a, F32x16 b) {  // as the x86 instruction: b when either is NaN
  return each_float([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
STRATA_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return each_float([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
STRATA_INLINE F32x16 abs(F32x16 a) {
  return each_float([&](int i) { return __builtin_fabsf(a.lane[i]); });
}
// To the nearest integer, halves to even.
STRATA_INLINE F32x16 round_even(F32x16 a) {
  return each_float([&](int i) { return __builtin_rintf(a.lane[i]); });
}
// Lanes below `bound` become zero, the others keep v.
STRATA_INLINE F32x16 zero_where_less(F32x16 x, float bound, F32x16 v) {
  return each_float([&](int i) { return x.lane[i] < bound ? 0.0f : v.lane[i]; });
}
// Lanes i >= n become -infinity.
STRATA_INLINE F32x16 mask_from(F32x16 v, int n) {
  return each_float([&](int i) { return i < n ? v.lane[i] : -__builtin_inff(); });
}
// v * 2^n for integral n in [-126, 127]; n comes as a float.
STRATA_INLINE F32x16 scale_by_power(F32x16 v, F32x16 n) {
  return each_float([&](int i) {
    const std::uint32_t bits =
        static_cast<std::uint32_t>(static_cast<std::int32_t>(n.lane[i]) + 127) << 23;
    float power;
    __builtin_memcpy(&power, &bits, 4);
    return v.lane[i] * power;
  });
}
STRATA_INLINE F32x16 to_float(I32x16 a) {
  return each_float([&](int i) { return static_cast<float>(a.lane[i]); });
}
STRATA_INLINE I32x16 to_int(F32x16 a) {  // of integral values
  return each_int([&](int i) { return static_cast<std::int32_t>(a.lane[i]); });
}
STRATA_INLINE I32x16 set1_int(std::int32_t v) {
  return each_int([=](int) { return v; });
}
STRATA_INLINE I32x16 load_int(const std::int32_t* p) {
  return each_int([=](int i) { return p[i]; });
}
STRATA_INLINE void store_int(std::int32_t* p, I32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = v.lane[i];
}
STRATA_INLINE I32x16 add(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return a.lane[i] + b.lane[i]; });
}
template <int kBits>
STRATA_INLINE I32x16 shift_left(I32x16 a) {
  return each_int([&](int i) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.lane[i]) << kBits);
  });
}
template <int kBits>
STRATA_INLINE I32x16 shift_right(I32x16 a) {  // of non-negative values
  return each_int([&](int i) { return a.lane[i] >> kBits; });
}
STRATA_INLINE I32x16 bit_and(I32x16 a, std::int32_t mask) {
  return each_int([&](int i) { return a.lane[i] & mask; });
}
STRATA_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return a.lane[i] | b.lane[i]; });
}
STRATA_INLINE I32x16 load_u8_as_int(const std::byte* p) {
  return each_int([=](int i) { return static_cast<std::int32_t>(p[i]); });
}
STRATA_INLINE I32x16 load_i8_as_int(const std::byte* p) {
  return each_int([=](int i) { return static_cast<std::int32_t>(static_cast<std::int8_t>(p[i])); });
}
// 16 nibbles from 8 bytes: lane i is nibble i/8 of byte i%8.
STRATA_INLINE I32x16 load_split_nibbles(const std::byte* p) {
  return each_int([=](int i) { return static_cast<std::int32_t>(p[i % 8]) >> (4 * (i / 8)) & 15; });
}
// Packs 16 integral values in [-128, 127] to bytes.
STRATA_INLINE void store_as_i8(std::int8_t* p, I32x16 v) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(v.lane[i]);
}

STRATA_INLINE U8x64 load_bytes(const std::byte* p) {
  return each_byte([=](int i) { return static_cast<unsigned>(p[i]); });
}
STRATA_INLINE void store_bytes(std::byte* p, U8x64 v) { __builtin_memcpy(p, v.byte, 64); }
// (v >> kBits) & kMask and (v << kBits) & kMask on bytes; kMask holds no bit that a neighbour byte
// could shift in.
template <int kBits, unsigned kMask>
STRATA_INLINE U8x64 shift_right_and(U8x64 v) {
  return each_byte([&](int i) { return (static_cast<unsigned>(v.byte[i]) >> kBits) & kMask; });
}
template <int kBits, unsigned kMask>
STRATA_INLINE U8x64 shift_left_and(U8x64 v) {
  return each_byte([&](int i) { return (static_cast<unsigned>(v.byte[i]) << kBits) & kMask; });
}
STRATA_INLINE U8x64 bit_or(U8x64 a, U8x64 b) {
  return each_byte([&](int i) { return static_cast<unsigned>(a.byte[i] | b.byte[i]); });
}
// The codes of row lane byte j (0..3) as integers.
template <int kByte>
STRATA_INLINE I32x16 byte_of_lane(U8x64 v) {
  return each_int([&](int i) { return static_cast<std::int32_t>(v.byte[4 * i + kByte]); });
}

// acc[r] += sum over j of codes[4r+j] * a[j], where `a` points at 4 signed bytes in [-127, 127].
// Exact. kWide: codes use all 8 bits; otherwise they stay below 64.
template <bool kWide>
STRATA_INLINE I32x16 dot4(I32x16 acc, U8x64 codes, const std::int8_t* a) {
  return each_int([&](int r) {
    std::int32_t sum = acc.lane[r];
    for (int j = 0; j < 4; ++j) sum += static_cast<std::int32_t>(codes.byte[4 * r + j]) * a[j];
    return sum;
  });
}

// The 16 lanes added as a fixed tree: i with i+8, then i+4, i+2, i+1.
STRATA_INLINE float sum_lanes(F32x16 v) {
  for (int width = 8; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) v.lane[i] = v.lane[i] + v.lane[i + width];
  }
  return v.lane[0];
}
STRATA_INLINE float max_lanes(F32x16 v) {
  float m = v.lane[0];
  for (int i = 1; i < 16; ++i) m = v.lane[i] > m ? v.lane[i] : m;
  return m;
}
STRATA_INLINE std::int32_t sum_lanes(I32x16 v) {
  std::int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += v.lane[i];
  return sum;
}
