#include "kernels/cuda/runtime.hpp"
#include "strata/device/cuda_device.hpp"

#include <fmt/format.h>

namespace strata::device {

CudaStatus cuda_status(int index) {
  const cuda::RuntimeStatus found = cuda::runtime_status(index);
  CudaStatus status{.usable = found.usable, .reason = found.reason, .driver = {}, .gpus = {}};
  if (found.driver != 0) {
    status.driver = fmt::format("{}.{}", found.driver / 1000, found.driver % 1000 / 10);
  }
  for (const cuda::Gpu& g : found.gpus) {
    status.gpus.push_back({g.index, g.name, g.major, g.minor, g.multiprocessors, g.memory});
  }
  return status;
}

}  // namespace strata::device
