#include "strata/quant/packed_matrix.hpp"

#include <algorithm>
#include <array>

namespace strata::quant {

using gguf::Type;

namespace {

constexpr std::array kSupported{Type::kF32,  Type::kF16,  Type::kBF16, Type::kQ4_0,
                                Type::kQ4_1, Type::kQ5_0, Type::kQ5_1, Type::kQ8_0,
                                Type::kQ4_K, Type::kQ5_K, Type::kQ6_K};

}  // namespace

bool is_supported(Type type) noexcept {
  return std::ranges::find(kSupported, type) != kSupported.end();
}

std::span<const Type> supported_types() noexcept { return kSupported; }

bool is_float(Type type) noexcept {
  return type == Type::kF32 || type == Type::kF16 || type == Type::kBF16;
}

std::size_t packed_group_bytes(Type type, std::int64_t cols) noexcept {
  const gguf::TypeTraits& t = gguf::traits(type);
  return static_cast<std::size_t>(cols) / t.block_elems * t.block_bytes * kGroupRows;
}

std::size_t packed_bytes(Type type, std::int64_t rows, std::int64_t cols) noexcept {
  return packed_group_bytes(type, cols) *
         static_cast<std::size_t>((rows + kGroupRows - 1) / kGroupRows);
}

}  // namespace strata::quant
