// How activations lie in memory for the matmul kernels: tiles of up to 16 tokens, interleaved block
// by block so that a kernel walks one pointer.
//
// Int8 panel of T tokens and n blocks of 32 elements: for block b, first T x 32 signed codes, then
// T x BlockMeta. A panel of one token is therefore also the row format tokens are quantised into,
// from which wider panels are gathered. Float panel: element k of all T tokens, then element k+1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::kernels {

inline constexpr int kMaxTile = 16;  // tokens a panel can hold

// What a weight block of 32 elements needs to know of a token's 32 activations x = q * scale.
struct BlockMeta {
  float scale;           // amax / 127
  std::int32_t sum;      // of the 32 codes: takes out the weights' code offset
  float scaled_sum;      // float(sum) * scale: meets the weights' minimum
  std::int32_t sum_low;  // of the first 16 codes, for formats with a scale every 16 elements
};
static_assert(sizeof(BlockMeta) == 16);

inline constexpr std::size_t kPanelBlockBytes = 32 + sizeof(BlockMeta);  // of one token

[[nodiscard]] constexpr std::size_t panel_bytes(std::int64_t cols, int tokens) noexcept {
  return static_cast<std::size_t>(cols) / 32 * kPanelBlockBytes * static_cast<std::size_t>(tokens);
}

}  // namespace strata::kernels
