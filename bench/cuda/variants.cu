// Temporary: times the candidates of a kernel in graphs.
#include "bench/cuda/variants.hpp"
#include "kernels/cuda/dot.cuh"

#include <cstdio>
#include <vector>

namespace strata::cuda {
namespace {

// Programmatic dependent launch: the next kernel's blocks start as this one's have all started.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, resident<Kernel>()) run_early(const Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  kernel(Block<Kernel::kThreads>{static_cast<std::int64_t>(blockIdx.x)}, shared);
}
template <class Kernel>
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
  cudaLaunchKernelEx(&c, run_early<Kernel>, kernel);
}

struct Empty {
  static constexpr const char* kName = "empty";
  static constexpr int kThreads = 256;
  struct Shared {};
  float* out;
  STRATA_DEVICE void operator()(Block<kThreads> block, Shared&) const {
    if (out == nullptr) return;
    block.each([&](int thread) { out[thread] = 1.0f; });
  }
};

std::size_t group_bytes(std::size_t unit_bytes, int unit, int cols) { return unit_bytes * (cols / unit); }

template <class Kernel, bool kEarly = false>
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
    show(b.timer.us(n, [&](int i) {
      a.targets[0].weights = b.weights + bytes * i;
      if (kEarly) launch_early(b.timer.stream, a.jobs * a.targets[0].groups, Kernel{a});
      else launch(b.timer.stream, a.jobs * a.targets[0].groups, Kernel{a});
    }), bytes);
  };
  const auto experts = [&](int active, int rows, int cols, int matrices) {
    const std::size_t gb = group_bytes(unit_bytes, unit, cols);
    const std::size_t bytes = gb * (rows / 16) * matrices;  // an expert
    const int count = static_cast<int>(std::min<std::size_t>(Bench::kMostJobs, Bench::kBytes / bytes)) / active * active;
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
    show(b.timer.us(std::min(100, count / active), [&](int i) {
      a.job = b.jobs + i * active;
      if (kEarly) launch_early(b.timer.stream, a.jobs * a.targets[0].groups * matrices, Kernel{a});
      else launch(b.timer.stream, a.jobs * a.targets[0].groups * matrices, Kernel{a});
    }), static_cast<double>(bytes) * active);
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

template <class Format, int kTokens, int kBatch, int kWarps, int kResident>
void one(Bench& b, const char* format, std::size_t unit_bytes, int unit) {
  char name[64];
  std::snprintf(name, sizeof name, "%s t%d b%d w%d r%d", format, kTokens, kBatch, kWarps, kResident);
  if (kTokens == 1) {
    time_kernel<DotKernel<Format, kTokens, kBatch, kWarps, kResident>>(b, name, 1, unit_bytes, unit);
  } else {
    for (const int t : {2, 8}) {
      time_kernel<DotKernel<Format, kTokens, kBatch, kWarps, kResident>>(b, name, t, unit_bytes, unit);
    }
  }
}

template <class Format>
void format(Bench& b, const char* name, int unit) {
  one<Format, 1, 4, 8, 2>(b, name, Format::kBytes, unit);
  one<Format, 1, 4, 8, 4>(b, name, Format::kBytes, unit);
  one<Format, 1, 8, 8, 2>(b, name, Format::kBytes, unit);
  one<Format, 1, 8, 8, 3>(b, name, Format::kBytes, unit);
  one<Format, 1, 8, 8, 4>(b, name, Format::kBytes, unit);
  one<Format, 1, 16, 8, 2>(b, name, Format::kBytes, unit);
  one<Format, 1, 8, 4, 4>(b, name, Format::kBytes, unit);
  one<Format, 1, 4, 4, 6>(b, name, Format::kBytes, unit);
  one<Format, 8, 2, 8, 4>(b, name, Format::kBytes, unit);
  one<Format, 8, 4, 8, 2>(b, name, Format::kBytes, unit);
  one<Format, 8, 4, 8, 3>(b, name, Format::kBytes, unit);
  one<Format, 8, 8, 8, 2>(b, name, Format::kBytes, unit);
}

void time_rows(Bench& b) {
  const auto show = [&](const char* what, const auto& call) { std::printf("%-30s %6.2f us\n", what, b.timer.us(100, call)); };
  float* x = reinterpret_cast<float*>(b.x);
  const auto s = b.timer.stream;
  show("rms_norm 2048", [&](int) { rms_norm(s, x, x + 65536, 2048, 1, 1e-6f, x); });
  show("rms_norm 32 x 128", [&](int) { rms_norm(s, x, x + 65536, 128, 32, 1e-6f, x); });
  show("quantize 2048", [&](int) { quantize(s, x, 64, b.x + (8 << 20)); });
  show("swiglu_quantize 8 x 768", [&](int) { swiglu_quantize(s, x, x + 65536, 8 * 24, b.x + (8 << 20)); });
  show("combine 8 x 2048", [&](int) { combine(s, x + 65536, x, 8, 2048, 1, b.out); });
  for (const int experts : {128, 512}) {
    RouteArgs r;
    r.logits = x;
    r.width = experts;
    r.rows = 1;
    r.experts = experts;
    r.used = 8;
    r.renormalize = true;
    r.ids = reinterpret_cast<std::int32_t*>(b.x + (8 << 20));
    r.weights = x + (4 << 20);
    show(experts == 128 ? "route 128" : "route 512", [&](int) { route(s, r); });
  }
}

}  // namespace

void run_attention(Bench& b);

void run_variants() {
  Bench b;
  run_attention(b);
  time_rows(b);
  std::printf("%-30s %18s %18s %18s %18s %18s %18s\n", "", "4096x4096", "2048x2048", "40 gate+up", "40 down", "8 gate+up", "8 down");
  for (const int blocks : {1, 128, 256, 1024, 5120}) {
    std::printf("empty, %d blocks: %.2f us, early %.2f us\n", blocks,
                b.timer.us(100, [&](int) { launch(b.timer.stream, blocks, Empty{b.out}); }),
                b.timer.us(100, [&](int) { launch_early(b.timer.stream, blocks, Empty{b.out}); }));
  }
  time_kernel<DotKernel<Q4_0, 1, 8, 8, 2>, true>(b, "Q4_0 t1 b8 w8 r2 early", 1, Q4_0::kBytes, 32);
  time_kernel<DotKernel<Q4_0, 1, 8, 8, 4>, true>(b, "Q4_0 t1 b8 w8 r4 early", 1, Q4_0::kBytes, 32);
  time_kernel<DotKernel<Q4_K, 1, 8, 8, 2>, true>(b, "Q4_K t1 b8 w8 r2 early", 1, Q4_K::kBytes, 256);
  format<Q4_0>(b, "Q4_0", 32);
  format<Q8_0>(b, "Q8_0", 32);
  format<Q4_K>(b, "Q4_K", 256);
  format<Q6_K>(b, "Q6_K", 256);
  time_kernel<FloatDotKernel<F32, 1, 64>>(b, "F32 64", 1, 64, 1);
  time_kernel<FloatDotKernel<F32, 1, 32>>(b, "F32 32", 1, 64, 1);
  time_kernel<FloatDotKernel<F16, 1, 64>>(b, "F16 64", 1, 32, 1);
  time_kernel<FloatDotKernel<F16, 1, 128>>(b, "F16 128", 1, 32, 1);
  time_kernel<FloatDotKernel<F32, 8, 32>>(b, "F32 32", 8, 64, 1);
  time_kernel<FloatDotKernel<F16, 8, 32>>(b, "F16 32", 8, 32, 1);
}

}  // namespace strata::cuda
