// Conversions between float and the two 16-bit formats of GGUF files: IEEE binary16 ("half", 1+5+10
// bits) and bfloat16 (the upper half of a binary32). Exact in integer arithmetic, so the result
// depends neither on the rounding mode nor on flush-to-zero, and equals F16C's bit for bit: to the
// nearest, ties to even; a signalling NaN becomes quiet and keeps its sign and upper payload bits.
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

[[nodiscard]] constexpr float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {
    // Zero or subnormal: mantissa * 2^-24, which is a normal float.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 0x1F) {
    const std::uint32_t quiet = mantissa == 0 ? 0 : 0x400000U;
    return std::bit_cast<float>(sign | 0x7F800000U | quiet | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

[[nodiscard]] constexpr std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) {  // NaN
    half = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  } else if (magnitude >= 0x477FF000U) {  // from 65520 on the nearest half is infinity
    half = 0x7C00U;
  } else if (magnitude >=
             0x38800000U) {  // from 2^-14 on a normal half; a carry out of the mantissa is right
    const std::uint32_t to_even = (magnitude >> 13) & 1U;
    half = (magnitude - (112U << 23) + 0xFFFU + to_even) >> 13;
  } else if (magnitude >= 0x33000000U) {  // from 2^-25 on it rounds to a multiple of 2^-24
    const std::uint32_t shift = 126 - (magnitude >> 23);  // 14..24
    const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t to_even = (mantissa >> shift) & 1U;
    half = (mantissa + (1U << (shift - 1)) - 1 + to_even) >> shift;
  }
  return static_cast<std::uint16_t>(sign | half);
}

[[nodiscard]] constexpr float bf16_to_float(std::uint16_t bf16) noexcept {
  const bool is_nan = (bf16 & 0x7FFFU) > 0x7F80U;
  const std::uint32_t quiet = is_nan ? 0x400000U : 0;
  return std::bit_cast<float>((static_cast<std::uint32_t>(bf16) << 16) | quiet);
}

[[nodiscard]] constexpr std::uint16_t float_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t to_even = (bits >> 16) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + to_even) >> 16);
}

}  // namespace strata
