// Work for the expert pool: one expert and the tokens of the window that chose it.
#pragma once

#include "strata/quant/expert_blob.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::device {

struct ExpertWork {
  const std::byte* blob;                 // in the layer's ExpertLayout
  std::span<const std::int32_t> tokens;  // rows of x
  std::span<const std::int32_t> rows;    // rows of parts, token * used + rank; same length
  std::int32_t expert = -1;              // its number in the layer, for who moves blobs
};

}  // namespace strata::device
