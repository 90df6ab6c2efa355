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
#include <atomic>
#include <thread>
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
    step(self());
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
    step(self());
#else
    run(step);
#endif
  }

  // How often a warp repeats what follows: count(thread), alike in a warp. Where warps run as one
  // loop, the largest count, so that what a warp does beyond its own must not matter.
  template <class Count>
  STRATA_DEVICE int repeats(const Count& count) const {
#ifdef STRATA_GPU
    return count(self());
#else
    int most = 0;
    for (int i = 0; i < kThreads; ++i) most = count(i) > most ? count(i) : most;
    return most;
#endif
  }

 private:
#ifdef STRATA_GPU
  STRATA_DEVICE static int self() {
    const auto thread = static_cast<int>(threadIdx.x);
    __builtin_assume(thread >= 0 && thread < kThreads);  // so that / and % are shifts and masks
    return thread;
  }
#else
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

// kBytes from the GPU's memory to the block's: under way until copies_done(), which the thread that
// made the copy calls before the barrier that lets others read. 4, 8 or 16 bytes, aligned.
template <int kBytes>
STRATA_DEVICE void copy_async(void* shared, const void* global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes)
                 : "memory");
  }
#elif defined(STRATA_GPU)
  __builtin_memcpy(__builtin_assume_aligned(shared, kBytes),
                   __builtin_assume_aligned(global, kBytes), kBytes);
#else
  std::memcpy(shared, global, kBytes);
#endif
}
STRATA_DEVICE void copies_done() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

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

// More shared memory than this a kernel has to be allowed.
inline constexpr std::size_t kStaticShared = 48 << 10;

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, resident<Kernel>())
    run_kernel(const Kernel kernel) {
  const Block<Kernel::kThreads> block{static_cast<std::int64_t>(blockIdx.x)};
  if constexpr (sizeof(typename Kernel::Shared) > kStaticShared) {
    extern __shared__ uint4 dynamic_shared[];
    kernel(block, *reinterpret_cast<typename Kernel::Shared*>(dynamic_shared));
  } else {
    __shared__ typename Kernel::Shared shared;
    kernel(block, shared);
  }
}
#endif

// Words that the host and a running kernel hand to one another, in memory that both see. What a
// thread wrote before its fence and a barrier is there for who acquires the word released after.
STRATA_DEVICE void fence_system() {
#ifdef STRATA_GPU
  __threadfence_system();  // elsewhere a block is one thread, whose release is enough
#endif
}
STRATA_DEVICE void store_release_system(std::uint64_t* to, std::uint64_t value) {
#if defined(__HIP__)
  __hip_atomic_store(to, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
#elif defined(STRATA_GPU)
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
  std::atomic_ref(*to).store(value, std::memory_order_release);
#endif
}
STRATA_DEVICE std::uint64_t load_acquire_system(const std::uint64_t* from) {
#if defined(__HIP__)
  return __hip_atomic_load(from, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
#elif defined(STRATA_GPU)
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint64_t*>(from)).load(std::memory_order_acquire);
#endif
}
// Of host memory that has changed since an earlier kernel read it: past every cache.
STRATA_DEVICE float load_host(const float* from) {
#ifdef STRATA_GPU
  return *static_cast<const volatile float*>(from);
#else
  return *from;
#endif
}
// While waiting for such a word.
STRATA_DEVICE void pause() {
#ifdef STRATA_GPU
#else
  std::this_thread::yield();
#endif
}

// Error(kResource or kInternal), with the kernel's name, when the device refuses. `blocks` may be
// 0.
template <class Kernel>
void launch(Stream stream, std::int64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  check_grid(Kernel::kName, blocks);
#ifdef STRATA_GPU
  constexpr std::size_t kShared = sizeof(typename Kernel::Shared);
  constexpr std::size_t kDynamic = kShared > kStaticShared ? kShared : 0;
  if (kDynamic != 0) {
    static_cast<void>(cudaFuncSetAttribute(reinterpret_cast<const void*>(run_kernel<Kernel>),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(kDynamic)));
  }
  run_kernel<<<static_cast<unsigned>(blocks), Kernel::kThreads, kDynamic, stream>>>(kernel);
  check_launch(Kernel::kName);
#else
  emulate(stream, [blocks, kernel] {
    typename Kernel::Shared shared;
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::memset(static_cast<void*>(&shared), 0xff,
                  sizeof shared);  // NaN: a block inherits nothing
      kernel(Block<Kernel::kThreads>{b}, shared);
    }
  });
#endif
}

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t d) noexcept {
  return (n + d - 1) / d;
}

}  // namespace strata::cuda
