// An NVIDIA GPU as a Device. Needs no CUDA header. The functions are there in every build: one
// without CUDA (-DSTRATA_CUDA=OFF) answers that it has none.
//
// Results are the CPU's bit for bit, operation by operation (docs/exactness.md): the kernels follow
// the order of the generic CPU kernels.
#pragma once

#include "strata/device/device.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace strata::device {

struct CudaGpu {
  int index;
  std::string name;
  int major;  // compute capability
  int minor;
  int multiprocessors;
  std::size_t memory_bytes;
};

struct CudaStatus {
  bool usable;
  std::string reason;  // when not usable: what is missing and what to do about it
  std::string driver;  // the CUDA version that the driver supports, "13.0"; empty without a driver
  std::vector<CudaGpu> gpus;
};
// Whether GPU `index` can compute here: this build has CUDA, there is a driver and it is new
// enough, the GPU has compute capability 7.5 or newer, this build has kernels for it, and one has
// just run. Never throws for what it finds. Takes as long as the driver takes to start.
[[nodiscard]] CudaStatus cuda_status(int index = 0);

struct CudaDeviceOptions {
  int gpu = 0;
};

// The device. Its operations are put on one stream and return before they are done; upload(),
// synchronize() and the copies to and from the host wait. Pointers in the arguments (Rows, weights,
// caches, blobs, ids) are allocate()d or upload()ed memory; spans (tokens, places, work and what is
// in it) are the host's and have been read when a call returns.
//
// Errors: Error(kUnsupported) here, with cuda_status's reason. Later Error(kResource) when the
// GPU's memory is short, Error(kInternal) when the GPU fails, which may show in a later call than
// the one that caused it.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options = {});

// Bytes of a usable GPU's memory that no process holds; 0 in a build without CUDA.
[[nodiscard]] std::size_t cuda_free_bytes(int gpu = 0);

}  // namespace strata::device
