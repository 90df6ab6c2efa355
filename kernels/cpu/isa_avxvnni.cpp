#include <immintrin.h>
#define STRATA_ISA avxvnni
#define STRATA_SIMD "kernels/cpu/simd/avx2.hpp"
#include "kernels/cpu/table_inl.hpp"

namespace strata::kernels {

extern const Kernels k_avxvnni;
constinit const Kernels k_avxvnni = avxvnni::make_table(Isa::kAvxVnni);

}  // namespace strata::kernels
