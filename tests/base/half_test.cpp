#include "strata/base/half.hpp"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace strata {
namespace {

static_assert(half_to_float(0x3C00) == 1.0F);
static_assert(float_to_half(-2.0F) == 0xC000);
static_assert(bf16_to_float(0x3F80) == 1.0F);
static_assert(float_to_bf16(1.0F) == 0x3F80);

bool is_half_nan(std::uint16_t half) { return (half & 0x7FFF) > 0x7C00; }
bool is_bf16_nan(std::uint16_t value) { return (value & 0x7FFF) > 0x7F80; }
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// The value by its definition, in double, where all of it is exact.
double half_by_definition(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1F;
  const int mantissa = half & 0x3FF;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0x1F) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryValueIsTheDefinitionAndRoundTrips) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float value = half_to_float(half);
    if (is_half_nan(half)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_EQ(float_to_half(value), half | 0x200) << i;
    } else {
      ASSERT_EQ(static_cast<double>(value), half_by_definition(half)) << i;
      ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << i;
      ASSERT_EQ(float_to_half(value), half) << i;
    }
  }
}

// Around each boundary between two neighbouring halves: below it, on it (the even one) and above
// it.
TEST(Half, RoundsToNearestTiesToEven) {
  for (std::uint16_t half = 0; half < 0x7BFF; ++half) {
    const auto next = static_cast<std::uint16_t>(half + 1);
    const float middle = (half_to_float(half) + half_to_float(next)) / 2;  // exact: 12 bits
    const std::uint16_t even = (half & 1) == 0 ? half : next;
    ASSERT_EQ(float_to_half(middle), even) << half;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), half) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9F)), next) << half;
  }
  EXPECT_EQ(float_to_half(65519.996F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_half(-0.0F), 0x8000);
}

__attribute__((target("f16c"))) std::uint32_t f16c_to_float(std::uint16_t half) {
  const __m128 wide = _mm_cvtph_ps(_mm_cvtsi32_si128(half));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_castps_si128(wide)));
}

__attribute__((target("f16c"))) std::uint16_t f16c_to_half(std::uint32_t bits) {
  const __m128 wide = _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits)));
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(wide, kNearest)));
}

TEST(Half, AgreesWithF16cBitForBit) {
  // Every processor with AVX2 has F16C, a name that not every compiler's detection knows.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no F16C";
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    ASSERT_EQ(bits_of(half_to_float(half)), f16c_to_float(half)) << i;
  }
  // Every sign and exponent with mantissas spread over the range and close to each rounding
  // boundary.
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low :
         {0x0U, 0x1U, 0xFFFU, 0x1000U, 0x1001U, 0x7FFFU, 0x8000U, 0xFFFFU}) {
      const std::uint32_t bits = (high << 16) | low;
      ASSERT_EQ(float_to_half(std::bit_cast<float>(bits)), f16c_to_half(bits)) << std::hex << bits;
    }
  }
}

TEST(Bf16, EveryValueRoundTrips) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bf16 = static_cast<std::uint16_t>(i);
    const float value = bf16_to_float(bf16);
    if (is_bf16_nan(bf16)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_EQ(float_to_bf16(value), bf16 | 0x40) << i;
    } else {
      ASSERT_EQ(bits_of(value), i << 16) << i;
      ASSERT_EQ(float_to_bf16(value), bf16) << i;
    }
  }
}

TEST(Bf16, RoundsToNearestTiesToEven) {
  for (std::uint32_t i = 0; i < 0x7F80; ++i) {
    const std::uint32_t middle = (i << 16) | 0x8000U;
    const std::uint32_t even = (i & 1U) == 0 ? i : i + 1;  // 0x7F80, infinity, after the largest
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(middle)), even) << i;
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(middle - 1)), i) << i;
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(middle + 1)), i + 1) << i;
  }
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7F800001U)),
            0x7FC0);  // its payload is below bit 16
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xFF80);
}

}  // namespace
}  // namespace strata
