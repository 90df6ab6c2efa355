#include <immintrin.h>
#define STRATA_ISA avx512
#define STRATA_SIMD "kernels/cpu/simd/avx512.hpp"
#include "kernels/cpu/table_inl.hpp"

namespace strata::kernels {

extern const Kernels k_avx512;
constinit const Kernels k_avx512 = avx512::make_table(Isa::kAvx512);

}  // namespace strata::kernels
