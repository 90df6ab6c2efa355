// Random but valid GGUF rows of any supported type, shared by the tests of packing and of kernels.
#pragma once

#include "strata/base/half.hpp"
#include "strata/gguf/types.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace strata::testing {

// Byte offsets of the half-precision fields in a block of the type.
inline std::vector<std::size_t> half_fields(gguf::Type type) {
  using gguf::Type;
  switch (type) {
    case Type::kF32:
      return {};
    case Type::kQ6_K:
      return {208};
    case Type::kQ4_1:
    case Type::kQ5_1:
    case Type::kQ4_K:
    case Type::kQ5_K:
      return {0, 2};
    default:
      return {0};
  }
}

// Random bytes, so that every code and every scale bit appears; half-precision scales are drawn
// from [-range, range].
inline std::vector<std::byte> random_rows(gguf::Type type, std::int64_t rows, std::int64_t cols,
                                          unsigned seed, float range = 2.0f) {
  const gguf::TypeTraits& t = gguf::traits(type);
  const auto blocks = static_cast<std::size_t>(rows * cols / t.block_elems);
  std::vector<std::byte> bytes(blocks * t.block_bytes);
  std::mt19937 random(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  std::uniform_real_distribution<float> value(-range, range);
  const std::vector<std::size_t> fields = half_fields(type);
  for (std::size_t b = 0; b < blocks; ++b) {
    std::byte* p = bytes.data() + b * t.block_bytes;
    if (type == gguf::Type::kF32) {
      const float f = value(random);
      std::memcpy(p, &f, 4);
    }
    for (const std::size_t field : fields) {
      const float f = value(random);
      const std::uint16_t h = type == gguf::Type::kBF16 ? float_to_bf16(f) : float_to_half(f);
      std::memcpy(p + field, &h, 2);
    }
  }
  return bytes;
}

}  // namespace strata::testing
