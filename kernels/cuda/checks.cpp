// Checks of what kernels are asked for. Not in the .cu files, where fmt does not compile.
#include "kernels/cuda/runtime.hpp"
#include "strata/base/error.hpp"

#include <limits>

namespace strata::cuda {

void check_grid(const char* kernel, std::int64_t blocks) {
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorKind::kInternal, "kernel {} would take {} blocks", kernel, blocks);
  }
}

void refuse(const char* kernel, const char* what, std::int64_t value) {
  fail(ErrorKind::kUnsupported, "the CUDA kernel {} has no version for {} {}: use the CPU", kernel,
       what, value);
}

}  // namespace strata::cuda
