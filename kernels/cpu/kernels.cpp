#include "kernels/cpu/kernels.hpp"

namespace strata::kernels {

extern const Kernels k_generic;
extern const Kernels k_avx2;
extern const Kernels k_avxvnni;
extern const Kernels k_avx512;
extern const Kernels k_amx;

const Kernels& kernels_for(Isa isa) noexcept {
  switch (isa) {
    case Isa::kGeneric:
      return k_generic;
    case Isa::kAvx2:
      return k_avx2;
    case Isa::kAvxVnni:
      return k_avxvnni;
    case Isa::kAvx512:
      return k_avx512;
    case Isa::kAmx:
      return k_amx;
  }
  return k_generic;
}

}  // namespace strata::kernels
