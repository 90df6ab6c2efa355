// cuda_device.hpp in a build without CUDA: there is no device, and the reason says so.
#include "strata/base/error.hpp"
#include "strata/device/cuda_device.hpp"

namespace strata::device {

CudaStatus cuda_status(int) {
  return {.usable = false,
          .reason = "this build has no CUDA: configure it with -DSTRATA_CUDA=ON",
          .driver = {},
          .gpus = {}};
}

std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options) {
  fail(ErrorKind::kUnsupported, "no CUDA device: {}", cuda_status(options.gpu).reason);
}

std::size_t cuda_free_bytes(int) { return 0; }

}  // namespace strata::device
