// 16 lanes in AVX-512 registers (F, BW, VL, DQ, VNNI).
// Included inside namespace strata::kernels::STRATA_ISA by kernels/cpu/table_inl.hpp.

// How far loops over the tokens of a tile are unrolled. All running sums of a tile stay in
// registers.
constexpr int kUnrollTokens = 16;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct U8x64 {
  __m512i v;
};

STRATA_INLINE F32x16 zero() { return {_mm512_setzero_ps()}; }
STRATA_INLINE F32x16 set1(float v) { return {_mm512_set1_ps(v)}; }
STRATA_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
STRATA_INLINE void store(float* p, F32x16 v) { _mm512_storeu_ps(p, v.v); }
STRATA_INLINE F32x16 load_half(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
STRATA_INLINE F32x16 set1_half(const void* p) {
  std::int16_t h;
  __builtin_memcpy(&h, p, sizeof h);
  return {_mm512_cvtph_ps(_mm256_set1_epi16(h))};
}
STRATA_INLINE void store_half(void* p, F32x16 v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT));
}
STRATA_INLINE F32x16 load_bf16(const void* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
STRATA_INLINE F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
STRATA_INLINE F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
STRATA_INLINE F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
STRATA_INLINE F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
STRATA_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
STRATA_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
STRATA_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
STRATA_INLINE F32x16 abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
STRATA_INLINE F32x16 round_even(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
STRATA_INLINE F32x16 zero_where_less(F32x16 x, float bound, F32x16 v) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_set1_ps(bound), _CMP_NLT_UQ), v.v)};
}
STRATA_INLINE F32x16 mask_from(F32x16 v, int n) {
  const __mmask16 keep = n >= 16 ? 0xffff : n <= 0 ? 0 : static_cast<__mmask16>((1u << n) - 1);
  return {_mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), keep, v.v)};
}
STRATA_INLINE F32x16 scale_by_power(F32x16 v, F32x16 n) {
  const __m512i power =
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23);
  return {_mm512_mul_ps(v.v, _mm512_castsi512_ps(power))};
}
STRATA_INLINE F32x16 to_float(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
STRATA_INLINE I32x16 to_int(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
STRATA_INLINE I32x16 set1_int(std::int32_t v) { return {_mm512_set1_epi32(v)}; }
STRATA_INLINE I32x16 load_int(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
STRATA_INLINE void store_int(std::int32_t* p, I32x16 v) { _mm512_storeu_si512(p, v.v); }
STRATA_INLINE I32x16 add(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
template <int kBits>
STRATA_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
STRATA_INLINE I32x16 shift_right(I32x16 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
STRATA_INLINE I32x16 bit_and(I32x16 a, std::int32_t mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi32(mask))};
}
STRATA_INLINE I32x16 bit_or(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
STRATA_INLINE I32x16 load_u8_as_int(const std::byte* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
STRATA_INLINE I32x16 load_i8_as_int(const std::byte* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
STRATA_INLINE I32x16 load_split_nibbles(const std::byte* p) {
  const __m128i both = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m512i wide = _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(both, _mm_srli_epi16(both, 4)));
  return {_mm512_and_si512(wide, _mm512_set1_epi32(15))};
}
STRATA_INLINE void store_as_i8(std::int8_t* p, I32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v.v));
}

STRATA_INLINE U8x64 load_bytes(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
STRATA_INLINE void store_bytes(std::byte* p, U8x64 v) { _mm512_storeu_si512(p, v.v); }
template <int kBits, unsigned kMask>
STRATA_INLINE U8x64 shift_right_and(U8x64 v) {
  return {
      _mm512_and_si512(_mm512_srli_epi16(v.v, kBits), _mm512_set1_epi8(static_cast<char>(kMask)))};
}
template <int kBits, unsigned kMask>
STRATA_INLINE U8x64 shift_left_and(U8x64 v) {
  return {
      _mm512_and_si512(_mm512_slli_epi16(v.v, kBits), _mm512_set1_epi8(static_cast<char>(kMask)))};
}
STRATA_INLINE U8x64 bit_or(U8x64 a, U8x64 b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int kByte>
STRATA_INLINE I32x16 byte_of_lane(U8x64 v) {
  return {_mm512_and_si512(_mm512_srli_epi32(v.v, 8 * kByte), _mm512_set1_epi32(255))};
}

template <bool kWide>
STRATA_INLINE I32x16 dot4(I32x16 acc, U8x64 codes, const std::int8_t* a) {
  std::int32_t four;
  __builtin_memcpy(&four, a, 4);
  return {_mm512_dpbusd_epi32(acc.v, codes.v, _mm512_set1_epi32(four))};
}

STRATA_INLINE float sum_quad(__m128 v) {
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}
STRATA_INLINE float sum_lanes(F32x16 v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v.v), _mm512_extractf32x8_ps(v.v, 1));
  return sum_quad(_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
STRATA_INLINE float max_lanes(F32x16 v) { return _mm512_reduce_max_ps(v.v); }
STRATA_INLINE std::int32_t sum_lanes(I32x16 v) { return _mm512_reduce_add_epi32(v.v); }
