// The bit puzzles of the K formats, shared by dequantising and packing. Source: ggml's block_q4_K
// and block_q6_K.
#pragma once

#include <cstddef>

namespace strata::quant {

struct KScale {
  int scale;  // 0..63
  int min;    // 0..63
};

// Scale and minimum of sub-block `sub` (0..7) from the 12 packed bytes of Q4_K and Q5_K.
[[nodiscard]] constexpr KScale k_scale(const std::byte* packed, int sub) noexcept {
  const auto s = [packed](int i) { return static_cast<int>(packed[i]); };
  if (sub < 4) return {s(sub) & 63, s(sub + 4) & 63};
  return {(s(sub + 4) & 15) | (s(sub - 4) >> 6) << 4, (s(sub + 4) >> 4) | (s(sub) >> 6) << 4};
}

// The six-bit code (0..63, value is code - 32) of element i (0..255) of a Q6_K block.
[[nodiscard]] constexpr int q6_k_code(const std::byte* ql, const std::byte* qh, int i) noexcept {
  const int half = i / 128;  // 128 elements share 64 low bytes and 32 high bytes
  const int quarter = i / 32 % 4;
  const int l = i % 32;
  const int low = static_cast<int>(ql[64 * half + 32 * (quarter % 2) + l]);
  const int high = static_cast<int>(qh[32 * half + l]) >> (2 * quarter) & 3;
  return (quarter < 2 ? low & 15 : low >> 4) | high << 4;
}

}  // namespace strata::quant
