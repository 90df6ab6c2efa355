// The arithmetic under the sampler: a counter-based generator and an exponential whose bits depend
// on nothing but their arguments. Only IEEE additions, multiplications, a division and integer
// operations: no libm, no fma, no table, so a draw is the same with every C library, instruction
// set and optimisation level.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace strata::runtime {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011): 128 random bits as a pure function of a 128-bit counter and a 64-bit key.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox4x32(
    std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;  // golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// 64 uniform bits for the token at `position` of a sequence sampled with `seed`.
[[nodiscard]] constexpr std::uint64_t position_bits(std::uint64_t seed,
                                                    std::uint64_t position) noexcept {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto words = philox4x32({low(position), high(position), 0, 0}, {low(seed), high(seed)});
  return words[0] | static_cast<std::uint64_t>(words[1]) << 32;
}

// e^x * 2^Shift for x <= 0, to a few units in the last place; exactly 2^Shift at 0, and 0 from -600
// down. x = k ln2 + r with |r| <= ln2 / 2; e^r is its Taylor polynomial of degree 11 in Horner's
// form (truncation < 7e-15); 2^(k + Shift) is made in the exponent field. No comparison, which
// would keep GCC from vectorising loops over it.
template <int Shift>
[[nodiscard]] constexpr double exp_scaled(double x) noexcept {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 20 trailing zero bits: k * kLn2High is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  // Adding it rounds to an integer, which then stands in the low bits of the sum.
  constexpr double kRound = 0x1.8p52;
  const double rounded = x * kLog2E + kRound;
  const double k = rounded - kRound;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double y = 1.0 / 39916800;
  y = y * r + 1.0 / 3628800;
  y = y * r + 1.0 / 362880;
  y = y * r + 1.0 / 40320;
  y = y * r + 1.0 / 5040;
  y = y * r + 1.0 / 720;
  y = y * r + 1.0 / 120;
  y = y * r + 1.0 / 24;
  y = y * r + 1.0 / 6;
  y = y * r + 0.5;
  y = y * r + 1.0;
  y = y * r + 1.0;
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(rounded) << 52;
  const std::uint64_t bias = static_cast<std::uint64_t>(1023 + Shift) << 52;
  y *= std::bit_cast<double>(exponent + bias);
  // All ones where |x| < 600: IEEE magnitudes compare like integers, and a difference below 0 has
  // its top bit set.
  const std::uint64_t magnitude = std::bit_cast<std::uint64_t>(x) << 1 >> 1;
  const std::uint64_t in_range = 0 - ((magnitude - std::bit_cast<std::uint64_t>(600.0)) >> 63);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(y) & in_range);
}

// ln(x) for finite x >= 1, absolute error below 1e-13: x = 2^k m with m in [sqrt(1/2), sqrt(2)),
// ln m = 2 atanh((m - 1) / (m + 1)) as its series to the 21st power.
[[nodiscard]] constexpr double log_exact(double x) noexcept {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int k = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++k;
  }
  const double t = (m - 1.0) / (m + 1.0);
  const double t2 = t * t;
  double sum = 0.0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * t2 + 1.0 / n;
  return k * kLn2 + 2.0 * t * sum;
}

}  // namespace strata::runtime
