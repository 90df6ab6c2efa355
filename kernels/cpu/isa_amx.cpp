#include <immintrin.h>

#define STRATA_ISA amx
#define STRATA_SIMD "kernels/cpu/simd/avx512.hpp"
#include "kernels/cpu/table_inl.hpp"

namespace strata::kernels {
namespace amx {
namespace {

#include "kernels/cpu/amx_inl.hpp"

template <class Format>
constexpr void use_tiles(Kernels& k, gguf::Type type) {
  static_assert(Format::kPartElems == 32, "a tile product spans the 32 elements of one scale");
  k.dot[static_cast<std::size_t>(type)][tile_index(16)] = dot_tiles<Format>;
}

constexpr Kernels make_amx_table() {
  Kernels k = make_table(Isa::kAmx);
  use_tiles<Q4_0>(k, gguf::Type::kQ4_0);
  use_tiles<Q4_1>(k, gguf::Type::kQ4_1);
  use_tiles<Q5_0>(k, gguf::Type::kQ5_0);
  use_tiles<Q5_1>(k, gguf::Type::kQ5_1);
  use_tiles<Q8_0>(k, gguf::Type::kQ8_0);
  use_tiles<Q4_K>(k, gguf::Type::kQ4_K);
  use_tiles<Q5_K>(k, gguf::Type::kQ5_K);
  return k;
}

}  // namespace
}  // namespace amx

extern const Kernels k_amx;
constinit const Kernels k_amx = amx::make_amx_table();

}  // namespace strata::kernels
