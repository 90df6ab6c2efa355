// How our kernels are written: a kernel is a struct with its arguments as members and one function
// of a block of threads. The function is a sequence of steps, block.each(step): every thread of the
// block does the step, and no thread goes on before all have. What a thread keeps from step to step
// is PerThread, what the block shares is the kernel's Shared.
//
//   struct Kernel {
//     static constexpr int kThreads = 128;
//     struct Shared { ... };
//     STRATA_DEVICE void operator()(Block<kThreads> block, Shared& shared) const;
//   };
//   launch(stream, blocks, Kernel{...});
//
// nvcc, or hipcc, makes each a kernel of its GPUs. Any other compiler makes it a loop over the
// blocks and threads, so that the same source runs, and is tested bit by bit, on machines without a
// GPU (tests/cuda).
#pragma once

#include "kernels/cuda/runtime.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_GPU 1
#include "kernels/cuda/gpu_runtime.hpp"
#define STRATA_DEVICE __device__ __forceinline__
#define STRATA_PRAGMA(text) _Pragma(#text)
#define STRATA_UNROLL(n) STRATA_PRAGMA(unroll n)
#else
#define STRATA_DEVICE inline
#define STRATA_UNROLL(n)
#endif

namespace strata::cuda {

template <int kThreads>
class Block {
 public:
  STRATA_DEVICE explicit Block(std::int64_t i) : index(i) {}
  const std::int64_t index;  // in the grid

  // step(thread) for every thread; then a barrier. All threads of a block must come here alike.
  template <class Step>
  STRATA_DEVICE void each(const Step& step) const {
#ifdef STRATA_GPU
    step(static_cast<int>(threadIdx.x));
    __syncthreads();
#else
    run(step);
#endif
  }

  // The same with a barrier of each warp alone: for steps that share with the threads of a warp.
  template <class Step>
  STRATA_DEVICE void warps(const Step& step) const {
#ifdef STRATA_GPU
    step(static_cast<int>(threadIdx.x));
#ifdef STRATA_HIP
    __builtin_amdgcn_wave_barrier();
#else
    __syncwarp();
#endif
#else
    run(step);
#endif
  }

  // The same without a barrier: for steps that share nothing with other threads.
  template <class Step>
  STRATA_DEVICE void lanes(const Step& step) const {
#ifdef STRATA_GPU
    step(static_cast<int>(threadIdx.x));
#else
    run(step);
#endif
  }

#ifndef STRATA_GPU
 private:
  // Every other block backwards: a step whose threads are not independent shows.
  template <class Step>
  void run(const Step& step) const {
    for (int i = 0; i < kThreads; ++i) step(index % 2 == 0 ? i : kThreads - 1 - i);
  }
#endif
};

// A variable of each thread: registers on a GPU.
template <class T, int kThreads>
class PerThread {
 public:
#ifdef STRATA_GPU
  STRATA_DEVICE T& operator[](int) { return value_; }

 private:
  T value_;
#else
  T& operator[](int thread) { return values_[thread]; }

 private:
  T values_[kThreads];
#endif
};

#ifdef STRATA_GPU
// Blocks that a multiprocessor is to hold, where a kernel says so (kResident): with the registers
// that this leaves, loads come first. Without it the compiler keeps few under way.
template <class Kernel>
[[nodiscard]] constexpr int resident() {
  if constexpr (requires { Kernel::kResident; }) {
    return Kernel::kResident;
  } else {
    return 0;
  }
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, resident<Kernel>())
    run_kernel(const Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(Block<Kernel::kThreads>{static_cast<std::int64_t>(blockIdx.x)}, shared);
}
#endif

// Error(kResource or kInternal), with the kernel's name, when the device refuses. `blocks` may be
// 0.
template <class Kernel>
void launch(Stream stream, std::int64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  check_grid(Kernel::kName, blocks);
#ifdef STRATA_GPU
  run_kernel<<<static_cast<unsigned>(blocks), Kernel::kThreads, 0, stream>>>(kernel);
  check_launch(Kernel::kName);
#else
  static_cast<void>(stream);
  typename Kernel::Shared shared;
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::memset(static_cast<void*>(&shared), 0xff, sizeof shared);  // NaN: a block inherits nothing
    kernel(Block<Kernel::kThreads>{b}, shared);
  }
#endif
}

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t d) noexcept {
  return (n + d - 1) / d;
}

}  // namespace strata::cuda
