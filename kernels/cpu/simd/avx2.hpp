// 16 lanes in pairs of AVX2 registers (with FMA, F16C; VNNI's 256-bit form where __AVXVNNI__ is
// on). Included inside namespace strata::kernels::STRATA_ISA by kernels/cpu/table_inl.hpp.

// How far loops over the tokens of a tile are unrolled. With 16 registers only the code size would
// grow.
constexpr int kUnrollTokens = 2;

struct F32x16 {
  __m256 a, b;
};
struct I32x16 {
  __m256i a, b;
};
struct U8x64 {
  __m256i a, b;
};

STRATA_INLINE F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
STRATA_INLINE F32x16 set1(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
STRATA_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
STRATA_INLINE void store(float* p, F32x16 v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
STRATA_INLINE F32x16 load_half(const void* p) {
  const auto* h = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
STRATA_INLINE F32x16 set1_half(const void* p) {
  std::uint16_t h;
  __builtin_memcpy(&h, p, sizeof h);
  return set1(_cvtsh_ss(h));
}
STRATA_INLINE void store_half(void* p, F32x16 v) {
  auto* h = static_cast<__m128i*>(p);
  _mm_storeu_si128(h, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(h + 1, _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT));
}
STRATA_INLINE F32x16 load_bf16(const void* p) {
  const auto* h = static_cast<const __m128i*>(p);
  return {
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h)), 16)),
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1)), 16))};
}
STRATA_INLINE F32x16 add(F32x16 x, F32x16 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
STRATA_INLINE F32x16 sub(F32x16 x, F32x16 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
STRATA_INLINE F32x16 mul(F32x16 x, F32x16 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
STRATA_INLINE F32x16 div(F32x16 x, F32x16 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
STRATA_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
STRATA_INLINE F32x16 max(F32x16 x, F32x16 y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
STRATA_INLINE F32x16 min(F32x16 x, F32x16 y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
STRATA_INLINE F32x16 abs(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
STRATA_INLINE F32x16 round_even(F32x16 x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
}
STRATA_INLINE F32x16 zero_where_less(F32x16 x, float bound, F32x16 v) {
  const __m256 b = _mm256_set1_ps(bound);
  return {_mm256_and_ps(_mm256_cmp_ps(x.a, b, _CMP_NLT_UQ), v.a),
          _mm256_and_ps(_mm256_cmp_ps(x.b, b, _CMP_NLT_UQ), v.b)};
}
STRATA_INLINE F32x16 mask_from(F32x16 v, int n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 none = _mm256_set1_ps(-__builtin_inff());
  const auto half = [&](__m256 x, int m) {
    const __m256i keep = _mm256_cmpgt_epi32(_mm256_set1_epi32(m), lanes);
    return _mm256_blendv_ps(none, x, _mm256_castsi256_ps(keep));
  };
  return {half(v.a, n), half(v.b, n - 8)};
}
STRATA_INLINE F32x16 scale_by_power(F32x16 v, F32x16 n) {
  const auto power = [](__m256 x) {
    const __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
  };
  return {_mm256_mul_ps(v.a, power(n.a)), _mm256_mul_ps(v.b, power(n.b))};
}
STRATA_INLINE F32x16 to_float(I32x16 x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
STRATA_INLINE I32x16 to_int(F32x16 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
STRATA_INLINE I32x16 set1_int(std::int32_t v) {
  return {_mm256_set1_epi32(v), _mm256_set1_epi32(v)};
}
STRATA_INLINE I32x16 load_int(const std::int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
STRATA_INLINE void store_int(std::int32_t* p, I32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), v.b);
}
STRATA_INLINE I32x16 add(I32x16 x, I32x16 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
template <int kBits>
STRATA_INLINE I32x16 shift_left(I32x16 x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
STRATA_INLINE I32x16 shift_right(I32x16 x) {
  return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)};
}
STRATA_INLINE I32x16 bit_and(I32x16 x, std::int32_t mask) {
  const __m256i m = _mm256_set1_epi32(mask);
  return {_mm256_and_si256(x.a, m), _mm256_and_si256(x.b, m)};
}
STRATA_INLINE I32x16 bit_or(I32x16 x, I32x16 y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
STRATA_INLINE I32x16 load_u8_as_int(const std::byte* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
STRATA_INLINE I32x16 load_i8_as_int(const std::byte* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
STRATA_INLINE I32x16 load_split_nibbles(const std::byte* p) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_and_si256(wide, _mm256_set1_epi32(15)), _mm256_srli_epi32(wide, 4)};
}
STRATA_INLINE void store_as_i8(std::int8_t* p, I32x16 v) {
  // packs works inside 128-bit halves: the permutation puts the four quarters back in order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

STRATA_INLINE U8x64 load_bytes(const std::byte* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
STRATA_INLINE void store_bytes(std::byte* p, U8x64 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.b);
}
template <int kBits, unsigned kMask>
STRATA_INLINE U8x64 shift_right_and(U8x64 v) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(kMask));
  return {_mm256_and_si256(_mm256_srli_epi16(v.a, kBits), m),
          _mm256_and_si256(_mm256_srli_epi16(v.b, kBits), m)};
}
template <int kBits, unsigned kMask>
STRATA_INLINE U8x64 shift_left_and(U8x64 v) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(kMask));
  return {_mm256_and_si256(_mm256_slli_epi16(v.a, kBits), m),
          _mm256_and_si256(_mm256_slli_epi16(v.b, kBits), m)};
}
STRATA_INLINE U8x64 bit_or(U8x64 x, U8x64 y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
template <int kByte>
STRATA_INLINE I32x16 byte_of_lane(U8x64 v) {
  const __m256i m = _mm256_set1_epi32(255);
  return {_mm256_and_si256(_mm256_srli_epi32(v.a, 8 * kByte), m),
          _mm256_and_si256(_mm256_srli_epi32(v.b, 8 * kByte), m)};
}

template <bool kWide>
STRATA_INLINE __m256i dot4_half(__m256i acc, __m256i codes, __m256i a) {
#ifdef __AVXVNNI__
  return _mm256_dpbusd_avx_epi32(acc, codes, a);
#else
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (kWide) {
    // maddubs saturates at 16 bits: 255 * 127 * 2 would, 127 * 127 * 2 and 128 * 127 * 2 do not.
    const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
    const __m256i low = _mm256_maddubs_epi16(_mm256_andnot_si256(top, codes), a);
    const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(top, codes), a);
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(low, ones));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(high, ones));
  } else {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, a), ones));
  }
#endif
}

template <bool kWide>
STRATA_INLINE I32x16 dot4(I32x16 acc, U8x64 codes, const std::int8_t* a) {
  std::int32_t four;
  __builtin_memcpy(&four, a, 4);
  const __m256i broadcast = _mm256_set1_epi32(four);
  return {dot4_half<kWide>(acc.a, codes.a, broadcast), dot4_half<kWide>(acc.b, codes.b, broadcast)};
}

STRATA_INLINE float sum_quad(__m128 v) {
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}
STRATA_INLINE float sum_lanes(F32x16 v) {
  const __m256 half = _mm256_add_ps(v.a, v.b);
  return sum_quad(_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
STRATA_INLINE float max_lanes(F32x16 v) {
  const __m256 half = _mm256_max_ps(v.a, v.b);
  __m128 quad = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  quad = _mm_max_ps(quad, _mm_movehl_ps(quad, quad));
  return _mm_cvtss_f32(_mm_max_ss(quad, _mm_shuffle_ps(quad, quad, 1)));
}
STRATA_INLINE std::int32_t sum_lanes(I32x16 v) {
  const __m256i half = _mm256_add_epi32(v.a, v.b);
  __m128i quad = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  quad = _mm_add_epi32(quad, _mm_shuffle_epi32(quad, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(quad, _mm_shuffle_epi32(quad, 0xb1)));
}
