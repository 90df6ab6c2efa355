#define STRATA_ISA generic
#define STRATA_SIMD "kernels/cpu/simd/generic.hpp"
#include "kernels/cpu/table_inl.hpp"

namespace strata::kernels {

extern const Kernels k_generic;
constinit const Kernels k_generic = generic::make_table(Isa::kGeneric);

}  // namespace strata::kernels
