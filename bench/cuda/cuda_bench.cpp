// How fast the CUDA device reads weights: linear layers and experts of every format, in GB/s and as
// a share of what a copy on the same GPU moves. Calls go through device::Device as the forward pass
// makes them, queued one behind the other over weights that no cache of the GPU holds.
//
//   strata_cuda_bench [GPU]
#include "kernels/cuda/runtime.hpp"
#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/device/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace strata::cuda {
void run_variants();
}

namespace strata::device {
namespace {

constexpr std::size_t kWorkingSet = std::size_t{512} << 20;  // weights of a measurement
constexpr int kRepeats = 5;                                  // the best counts

// Zeros are as good as any weights: nothing in the kernels depends on the values.
std::unique_ptr<Memory> weights(Device& gpu, std::size_t bytes) { return gpu.allocate(bytes); }

std::unique_ptr<Memory> random_floats(Device& gpu, std::int64_t count) {
  Buffer host(sizeof(float) * static_cast<std::size_t>(count));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < count; ++i) host.as<float>()[i] = normal(random);
  return gpu.upload(std::move(host));
}

Rows rows_in(const std::unique_ptr<Memory>& memory, int count, std::int64_t width) {
  return {reinterpret_cast<float*>(memory->data()), count, width};
}

// Seconds of one call of `call(i)`, i from 0 to count - 1, queued together.
template <class Call>
double seconds_a_call(Device& gpu, int count, const Call& call) {
  double best = 1e9;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    gpu.synchronize();
    const Stopwatch watch;
    for (int i = 0; i < count; ++i) call(i);
    gpu.synchronize();
    if (repeat > 0) best = std::min(best, watch.seconds() / count);
  }
  return best;
}

// Bytes read and written a second by a copy on the device.
double copy_bandwidth(Device& gpu) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const auto from = gpu.allocate(kBytes);
  const auto to = gpu.allocate(kBytes);
  gpu.synchronize();
  const cuda::Stream stream = cuda::create_stream();
  const cuda::Event begin = cuda::create_event();
  const cuda::Event end = cuda::create_event();
  double best = 0;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    cuda::record(begin, stream);
    for (int i = 0; i < 4; ++i) cuda::copy(stream, to->data(), from->data(), kBytes);
    cuda::record(end, stream);
    cuda::synchronize(stream);
    best = std::max(best, 4 * 2.0 * kBytes / (cuda::elapsed_ms(begin, end) * 1e-3));
  }
  cuda::destroy_event(begin);
  cuda::destroy_event(end);
  cuda::destroy_stream(stream);
  return best;
}

void print(const char* what, gguf::Type type, int tokens, double seconds, double bytes,
           double copy) {
  fmt::print("{:<22} {:<5} {:>7} {:>10.2f} {:>9.1f} {:>6.1f} %\n", what, gguf::traits(type).name,
             tokens, seconds * 1e6, bytes / seconds / 1e9, 100 * bytes / seconds / copy);
}

void bench_linear(Device& gpu, gguf::Type type, int tokens, double copy) {
  constexpr std::int64_t kSize = 4096;
  const std::size_t bytes = quant::packed_bytes(type, kSize, kSize);
  const int matrices = static_cast<int>(kWorkingSet / bytes);
  const auto memory = weights(gpu, bytes * static_cast<std::size_t>(matrices));
  const auto x = random_floats(gpu, tokens * kSize);
  const auto y = gpu.allocate(sizeof(float) * static_cast<std::size_t>(tokens * kSize));
  const double s = seconds_a_call(gpu, matrices, [&](int i) {
    Linear w;
    w.matrix = {type, kSize, kSize, memory->data() + bytes * static_cast<std::size_t>(i),
                quant::packed_group_bytes(type, kSize)};
    const LinearOutput output[] = {{&w, rows_in(y, tokens, kSize)}};
    gpu.linear(rows_in(x, tokens, kSize), output);
  });
  print("linear 4096 x 4096", type, tokens, s, static_cast<double>(bytes), copy);
}

// `active` experts of Qwen3-30B-A3B's geometry, `tokens` tokens each.
void bench_experts(Device& gpu, gguf::Type type, int active, int tokens, double copy) {
  const quant::ExpertLayout layout{type, type, type, 2048, 768};
  const std::size_t bytes = layout.bytes();
  const int experts = std::max(active, static_cast<int>(kWorkingSet / bytes));
  const auto memory = weights(gpu, bytes * static_cast<std::size_t>(experts));
  const auto x = random_floats(gpu, tokens * layout.embd);
  const auto parts =
      gpu.allocate(sizeof(float) * static_cast<std::size_t>(active * tokens * layout.embd));
  std::vector<std::int32_t> token(static_cast<std::size_t>(tokens));
  std::vector<std::vector<std::int32_t>> row(static_cast<std::size_t>(active));
  for (int t = 0; t < tokens; ++t) token[static_cast<std::size_t>(t)] = t;
  for (int e = 0; e < active; ++e) {
    for (int t = 0; t < tokens; ++t) row[static_cast<std::size_t>(e)].push_back(e * tokens + t);
  }
  std::vector<ExpertWork> work(static_cast<std::size_t>(active));
  const double s = seconds_a_call(gpu, std::max(8, experts / active), [&](int i) {
    for (int e = 0; e < active; ++e) {
      const int expert = (i * active + e) % experts;
      work[static_cast<std::size_t>(e)] = {
          memory->data() + bytes * static_cast<std::size_t>(expert), token,
          row[static_cast<std::size_t>(e)]};
    }
    gpu.experts(rows_in(x, tokens, layout.embd), layout, work,
                rows_in(parts, active * tokens, layout.embd));
  });
  print(fmt::format("{} experts 2048 x 768", active).c_str(), type, tokens, s,
        static_cast<double>(bytes) * active, copy);
}

int run(int index) {
  const CudaStatus status = cuda_status(index);
  if (!status.usable) {
    fmt::print("skipped: {}\n", status.reason);
    return 0;
  }
  const std::unique_ptr<Device> gpu = make_cuda_device({.gpu = index});
  const double copy = copy_bandwidth(*gpu);
  fmt::print("{}\ncopy: {:.1f} GB/s, reads and writes\n\n", gpu->description(), copy / 1e9);
  cuda::run_variants();
  fmt::print("{:<22} {:<5} {:>7} {:>10} {:>9} {:>8}\n", "", "type", "tokens", "us/call", "GB/s",
             "of copy");
  for (const gguf::Type type : quant::supported_types()) {
    for (const int tokens : {1, 2, 4, 8}) bench_linear(*gpu, type, tokens, copy);
  }
  for (const gguf::Type type : quant::supported_types()) {
    for (const int active : {8, 40}) bench_experts(*gpu, type, active, 1, copy);
  }
  for (const gguf::Type type : {gguf::Type::kQ4_0, gguf::Type::kQ4_K, gguf::Type::kQ8_0}) {
    for (const int tokens : {2, 4, 8, 64, 256}) bench_experts(*gpu, type, 40, tokens, copy);
  }
  return 0;
}

}  // namespace
}  // namespace strata::device

int main(int argc, char** argv) {
  try {
    return strata::device::run(argc > 1 ? std::atoi(argv[1]) : 0);
  } catch (const strata::Error& e) {
    fmt::print(stderr, "strata_cuda_bench: {}\n", e.what());
    return e.exit_code();
  }
}
