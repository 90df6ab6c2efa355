#include <immintrin.h>
#define STRATA_ISA avx2
#define STRATA_SIMD "kernels/cpu/simd/avx2.hpp"
#include "kernels/cpu/table_inl.hpp"

namespace strata::kernels {

extern const Kernels k_avx2;
constinit const Kernels k_avx2 = avx2::make_table(Isa::kAvx2);

}  // namespace strata::kernels
