#pragma once
#include "bench/cuda/variants.hpp"
#include "kernels/cuda/dot.cuh"

namespace strata::cuda {

// Programmatic dependent launch: the next kernel's blocks start as this one's have all started.
template <class Kernel, int kGroupsABlock>
__global__ void __launch_bounds__(Kernel::kThreads, resident<Kernel>())
    run_early(const Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  asm volatile("griddepcontrol.launch_dependents;");
  if constexpr (requires { kernel.a.targets; }) {
    if (kernel.a.job == nullptr) {
      const std::byte* p =
          kernel.a.targets[0].weights + kernel.a.group_bytes * kGroupsABlock * blockIdx.x;
      for (std::size_t i = 128 * threadIdx.x; i < kernel.a.group_bytes * kGroupsABlock;
           i += 128 * blockDim.x)
        prefetch(p + i);
    }
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");
  kernel(Block<Kernel::kThreads>{static_cast<std::int64_t>(blockIdx.x)}, shared);
}
template <int kGroupsABlock, class Kernel>
void launch_early(cudaStream_t stream, std::int64_t blocks, const Kernel& kernel) {
  cudaLaunchConfig_t c{};
  c.gridDim = dim3(static_cast<unsigned>(blocks));
  c.blockDim = dim3(Kernel::kThreads);
  c.stream = stream;
  cudaLaunchAttribute at[1];
  at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  at[0].val.programmaticStreamSerializationAllowed = 1;
  c.attrs = at;
  c.numAttrs = 1;
  cudaLaunchKernelEx(&c, run_early<Kernel, kGroupsABlock>, kernel);
}

struct Empty {
  static constexpr const char* kName = "empty";
  static constexpr int kThreads = 256;
  struct Shared {};
  float* out;
  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    if (out != nullptr) return;
    block.each([&](int thread) { out[thread] = 1.0f; });
  }
};

inline std::size_t group_bytes(std::size_t unit_bytes, int unit, int cols) {
  return unit_bytes * (cols / unit);
}

template <class Kernel, int kGroupsABlock, bool kEarly = false>
void time_kernel(Bench& b, const char* name, int tokens, std::size_t unit_bytes, int unit) {
  std::printf("%-28s %d", name, tokens);
  const auto show = [&](double us, double bytes) {
    std::printf("  %7.2f us %5.1f %%", us, 100 * bytes / us / 1e-6 / b.copy);
  };
  const auto dense = [&](int rows, int cols) {
    const std::size_t gb = group_bytes(unit_bytes, unit, cols);
    const std::size_t bytes = gb * (rows / 16);
    const int n = static_cast<int>(std::min<std::size_t>(100, Bench::kBytes / bytes));
    DotArgs a;
    a.targets[0].groups = rows / 16;
    a.targets[0].out = b.out;
    a.targets[0].out_width = rows;
    a.target_count = 1;
    a.group_bytes = gb;
    a.cols = cols;
    a.x = b.x;
    a.x_row_bytes = unit == 1 ? 4 * cols : cols / 32 * 48;
    a.columns = tokens;
    a.jobs = 1;
    show(b.timer.us(n,
                    [&](int i) {
                      a.targets[0].weights = b.weights + bytes * i;
                      if (kEarly)
                        launch_early<kGroupsABlock>(
                            b.timer.stream, a.jobs * ceil_div(a.targets[0].groups, kGroupsABlock),
                            Kernel{a});
                      else
                        launch(b.timer.stream,
                               a.jobs * ceil_div(a.targets[0].groups, kGroupsABlock), Kernel{a});
                    }),
         bytes);
  };
  const auto experts = [&](int active, int rows, int cols, int matrices) {
    const std::size_t gb = group_bytes(unit_bytes, unit, cols);
    const std::size_t bytes = gb * (rows / 16) * matrices;  // an expert
    const int count =
        static_cast<int>(std::min<std::size_t>(Bench::kMostJobs, Bench::kBytes / bytes)) / active *
        active;
    b.set_jobs(tokens, bytes, count);
    DotArgs a;
    for (int m = 0; m < matrices; ++m) {
      a.targets[m].offset = gb * (rows / 16) * m;
      a.targets[m].groups = rows / 16;
      a.targets[m].out = b.out;
      a.targets[m].out_width = rows;
    }
    a.target_count = matrices;
    a.group_bytes = gb;
    a.cols = cols;
    a.x = b.x;
    a.x_row_bytes = unit == 1 ? 4 * cols : cols / 32 * 48;
    a.jobs = active;
    a.tile = tokens;
    show(b.timer.us(std::min(100, count / active),
                    [&](int i) {
                      a.job = b.jobs + i * active;
                      if (kEarly)
                        launch_early<kGroupsABlock>(
                            b.timer.stream,
                            a.jobs * ceil_div(a.targets[0].groups * matrices, kGroupsABlock),
                            Kernel{a});
                      else
                        launch(b.timer.stream,
                               a.jobs * ceil_div(a.targets[0].groups * matrices, kGroupsABlock),
                               Kernel{a});
                    }),
         static_cast<double>(bytes) * active);
  };
  dense(4096, 4096);
  dense(2048, 2048);
  experts(40, 768, 2048, 2);
  experts(40, 2048, 768, 1);
  experts(8, 768, 2048, 2);
  experts(8, 2048, 768, 1);
  std::printf("  %s\n", cudaGetErrorString(cudaGetLastError()));
  std::fflush(stdout);
}

template <class Format, int kTokens, int kRows, int kBatch, int kResident, bool kEarly = false>
void rows_of(Bench& b, const char* format, int unit) {
  char name[64];
  std::snprintf(name, sizeof name, "%s rows %d batch %d res %d%s", format, kRows, kBatch, kResident,
                kEarly ? " early" : "");
  time_kernel<DotKernel<Format, kTokens, kRows, kBatch, kResident>, kRows, kEarly>(
      b, name, kTokens, Format::kBytes, unit);
}
template <class Format, int kGroups, int kBatch, int kResident>
void eight(Bench& b, const char* format, int unit) {
  char name[64];
  std::snprintf(name, sizeof name, "%s eight groups %d batch %d res %d", format, kGroups, kBatch,
                kResident);
  for (const int tokens : {2, 4, 8}) {
    time_kernel<DotEightKernel<Format, kGroups, kBatch, kResident>, kGroups>(b, name, tokens,
                                                                             Format::kBytes, unit);
  }
}

template <class Format>
void format(Bench& b, const char* name, int unit) {
  rows_of<Format, 1, 1, 4, 4>(b, name, unit);
  rows_of<Format, 1, 1, 8, 4>(b, name, unit);
  rows_of<Format, 1, 1, 8, 4, true>(b, name, unit);
  rows_of<Format, 1, 1, 4, 6>(b, name, unit);
  rows_of<Format, 1, 2, 4, 4>(b, name, unit);
  rows_of<Format, 1, 2, 2, 6>(b, name, unit);
  rows_of<Format, 1, 2, 3, 5>(b, name, unit);
  rows_of<Format, 1, 4, 1, 6>(b, name, unit);
  rows_of<Format, 1, 4, 1, 8>(b, name, unit);
  rows_of<Format, 1, 4, 2, 4>(b, name, unit);
  rows_of<Format, 1, 4, 2, 5>(b, name, unit);
  rows_of<Format, 1, 4, 3, 4>(b, name, unit);
  rows_of<Format, 1, 4, 4, 3>(b, name, unit);
  rows_of<Format, 2, 1, 4, 4>(b, name, unit);
  rows_of<Format, 2, 2, 2, 5>(b, name, unit);
  rows_of<Format, 2, 4, 2, 4>(b, name, unit);
  rows_of<Format, 4, 1, 4, 4>(b, name, unit);
  rows_of<Format, 4, 2, 2, 4>(b, name, unit);
  rows_of<Format, 4, 4, 1, 4>(b, name, unit);
  rows_of<Format, 4, 4, 2, 3>(b, name, unit);
  eight<Format, 1, 4, 2>(b, name, unit);
  eight<Format, 1, 2, 3>(b, name, unit);
  eight<Format, 2, 2, 2>(b, name, unit);
  eight<Format, 2, 1, 3>(b, name, unit);
  eight<Format, 4, 1, 2>(b, name, unit);
}

}  // namespace strata::cuda
