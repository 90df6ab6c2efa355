#include "strata/gguf/types.hpp"

#include <array>

namespace strata::gguf {
namespace {

// Indexed by id. A hole (no name) is an id the format retired (4, 5, 31-33, 36-38) or that only
// exists in memory, never in a file (9, 15).
constexpr std::array<TypeTraits, 43> kTypes = [] {
  std::array<TypeTraits, 43> table{};
  const auto set = [&](Type type, std::string_view name, std::uint32_t elems, std::uint32_t bytes) {
    table[static_cast<std::size_t>(type)] = {type, name, elems, bytes};
  };
  set(Type::kF32, "F32", 1, 4);
  set(Type::kF16, "F16", 1, 2);
  set(Type::kQ4_0, "Q4_0", 32, 18);
  set(Type::kQ4_1, "Q4_1", 32, 20);
  set(Type::kQ5_0, "Q5_0", 32, 22);
  set(Type::kQ5_1, "Q5_1", 32, 24);
  set(Type::kQ8_0, "Q8_0", 32, 34);
  set(Type::kQ2_K, "Q2_K", 256, 84);
  set(Type::kQ3_K, "Q3_K", 256, 110);
  set(Type::kQ4_K, "Q4_K", 256, 144);
  set(Type::kQ5_K, "Q5_K", 256, 176);
  set(Type::kQ6_K, "Q6_K", 256, 210);
  set(Type::kIQ2_XXS, "IQ2_XXS", 256, 66);
  set(Type::kIQ2_XS, "IQ2_XS", 256, 74);
  set(Type::kIQ3_XXS, "IQ3_XXS", 256, 98);
  set(Type::kIQ1_S, "IQ1_S", 256, 50);
  set(Type::kIQ4_NL, "IQ4_NL", 32, 18);
  set(Type::kIQ3_S, "IQ3_S", 256, 110);
  set(Type::kIQ2_S, "IQ2_S", 256, 82);
  set(Type::kIQ4_XS, "IQ4_XS", 256, 136);
  set(Type::kI8, "I8", 1, 1);
  set(Type::kI16, "I16", 1, 2);
  set(Type::kI32, "I32", 1, 4);
  set(Type::kI64, "I64", 1, 8);
  set(Type::kF64, "F64", 1, 8);
  set(Type::kIQ1_M, "IQ1_M", 256, 56);
  set(Type::kBF16, "BF16", 1, 2);
  set(Type::kTQ1_0, "TQ1_0", 256, 54);
  set(Type::kTQ2_0, "TQ2_0", 256, 66);
  set(Type::kMXFP4, "MXFP4", 32, 17);
  set(Type::kNVFP4, "NVFP4", 64, 36);
  set(Type::kQ1_0, "Q1_0", 128, 18);
  set(Type::kQ2_0, "Q2_0", 64, 18);
  return table;
}();

}  // namespace

const TypeTraits* find_type(std::uint32_t id) noexcept {
  if (id >= kTypes.size() || kTypes[id].name.empty()) return nullptr;
  return &kTypes[id];
}

const TypeTraits& traits(Type type) noexcept { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace strata::gguf
