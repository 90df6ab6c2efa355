// Rows of GGUF blocks as f32, straight from the file's layout: the definition that packing and
// kernels are tested against. Formulas: docs/formats.md.
#pragma once

#include "strata/gguf/types.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::quant {

// `src` holds cols elements of a supported type; `out` has room for cols floats.
void dequantize_row(gguf::Type type, std::span<const std::byte> src, std::int64_t cols,
                    float* out) noexcept;

}  // namespace strata::quant
