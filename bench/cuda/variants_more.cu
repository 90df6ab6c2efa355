#include "bench/cuda/variants_dot.hpp"

namespace strata::cuda {

void run_more(Bench& b) {
  format<Q8_0>(b, "Q8_0", 32);
  format<Q6_K>(b, "Q6_K", 256);
  time_kernel<FloatDotKernel<F32, 1, 64>, 1>(b, "F32 64", 1, 64, 1);
  time_kernel<FloatDotKernel<F16, 1, 64>, 1>(b, "F16 64", 1, 32, 1);
}

}  // namespace strata::cuda
