// Random weights of any supported type and of a chosen size, for tests that compute with them.
#pragma once

#include "strata/quant/dequantize.hpp"
#include "tests/support/random_blocks.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace strata::testing {

// Rows of the file's layout as floats.
inline std::vector<float> dequantize(gguf::Type type, std::span<const std::byte> rows,
                                     std::int64_t cols) {
  const gguf::TypeTraits& t = gguf::traits(type);
  const std::size_t row_bytes = static_cast<std::size_t>(cols) / t.block_elems * t.block_bytes;
  std::vector<float> values(rows.size() / row_bytes * static_cast<std::size_t>(cols));
  float* out = values.data();
  for (std::size_t at = 0; at < rows.size(); at += row_bytes, out += cols)
    quant::dequantize_row(type, rows.subspan(at, row_bytes), cols, out);
  return values;
}

// Rows whose values have about this root mean square: every code and scale bit appears, and
// activations keep their size from layer to layer.
inline std::vector<std::byte> random_weights(gguf::Type type, std::int64_t rows, std::int64_t cols,
                                             unsigned seed, double rms) {
  const std::vector<std::byte> sample = random_rows(type, rows, cols, seed, 1.0f);
  double squares = 0;
  const std::vector<float> values = dequantize(type, sample, cols);
  for (const float v : values) squares += static_cast<double>(v) * v;
  const double found = std::sqrt(squares / static_cast<double>(values.size()));
  return random_rows(type, rows, cols, seed, static_cast<float>(rms / found));
}

}  // namespace strata::testing
