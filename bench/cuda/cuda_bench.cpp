// How fast the CUDA device reads weights: linear layers and experts of every format, in GB/s and as
// a share of what a copy on the same GPU moves. Calls go through device::Device as the forward pass
// makes them, queued one behind the other over weights that no cache of the GPU holds.
//
//   strata_cuda_bench [GPU]
#include "kernels/cpu/panel.hpp"
#include "kernels/cuda/kernels.hpp"
#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/device/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

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

void print_operations(const char* what, gguf::Type type, int tokens, double seconds,
                      double operations) {
  fmt::print("{:<22} {:<5} {:>7} {:>10.2f} {:>9.1f} TOP/s\n", what, gguf::traits(type).name, tokens,
             seconds * 1e6, operations / seconds / 1e12);
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
  if (tokens > 8) {
    print_operations("linear 4096 x 4096", type, tokens, s, 2.0 * kSize * kSize * tokens);
  } else {
    print("linear 4096 x 4096", type, tokens, s, static_cast<double>(bytes), copy);
  }
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
  const std::string what = fmt::format("{} experts 2048 x 768", active);
  if (tokens > 8) {
    print_operations(what.c_str(), type, tokens, s, 3 * 2.0 * 2048 * 768 * active * tokens);
  } else {
    print(what.c_str(), type, tokens, s, static_cast<double>(bytes) * active, copy);
  }
}

// Seconds a call of `call(stream)`, on the GPU.
template <class Call>
double gpu_seconds(const Call& call) {
  const cuda::Stream stream = cuda::create_stream();
  const cuda::Event begin = cuda::create_event();
  const cuda::Event end = cuda::create_event();
  double best = 1e9;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    constexpr int kCalls = 4;
    cuda::record(begin, stream);
    for (int i = 0; i < kCalls; ++i) call(stream);
    cuda::record(end, stream);
    cuda::synchronize(stream);
    if (repeat > 0) best = std::min(best, cuda::elapsed_ms(begin, end) * 1e-3 / kCalls);
  }
  cuda::destroy_event(begin);
  cuda::destroy_event(end);
  cuda::destroy_stream(stream);
  return best;
}

// The cache of one sequence, and its last `rows` positions as a window.
class Sequence {
 public:
  Sequence(Device& gpu, KvType type, int kv_heads, int head_dim, int positions, int rows) {
    const std::size_t bytes = static_cast<std::size_t>(kv_heads) *
                              static_cast<std::size_t>(positions) * kv_row_bytes(type, head_dim);
    cells_ = gpu.allocate(2 * bytes);
    for (int i = positions - rows; i < positions; ++i) {
      rows_.push_back({0, i, {cells_->data(), bytes, type, positions}});
    }
  }
  [[nodiscard]] std::span<const WindowRow> rows() const { return rows_; }

 private:
  std::unique_ptr<Memory> cells_;
  std::vector<WindowRow> rows_;
};

void bench_attention(Device& gpu, int kv_heads, int heads_per_kv, int head_dim, int positions,
                     int rows, KvType type) {
  const AttentionShape shape{kv_heads * heads_per_kv, kv_heads, head_dim, 0.1f};
  const std::int64_t width = static_cast<std::int64_t>(shape.heads) * head_dim;
  const Sequence sequence(gpu, type, kv_heads, head_dim, positions, rows);
  const auto q = random_floats(gpu, rows * width);
  const auto out = gpu.allocate(sizeof(float) * static_cast<std::size_t>(rows * width));
  gpu.begin_window(sequence.rows());
  const double s = seconds_a_call(gpu, 2, [&](int) {
    gpu.attention(rows_in(q, rows, width), 0, shape, rows_in(out, rows, width));
  });
  double seen = 0;  // positions, by all rows
  for (const WindowRow& row : sequence.rows()) seen += row.position + 1;
  fmt::print(
      "attention {:>2} x {} heads of {:<3} {} {:>5} rows at {:>5} {:>10.1f} us {:>6.2f} "
      "TFLOP/s\n",
      kv_heads, heads_per_kv, head_dim, type == KvType::kF16 ? "f16 " : "q8_0", rows, positions,
      s * 1e6, 4 * seen * static_cast<double>(width) / s / 1e12);
}

// What a prompt's rows take beside products and attention, with Qwen3-30B-A3B's geometry.
void bench_rows(Device& gpu, int rows, double copy) {
  constexpr int kWidth = 2048;
  constexpr int kRanks = 8;
  constexpr int kHidden = 768;
  constexpr int kHeads = 32;
  constexpr int kKvHeads = 4;
  constexpr int kDim = 128;
  const auto x = random_floats(gpu, std::int64_t{rows} * kWidth * kRanks);
  const auto y = random_floats(gpu, std::int64_t{rows} * kWidth * kRanks);
  const auto weight = random_floats(gpu, kWidth * 16);
  const auto table = random_floats(gpu, std::int64_t{rows} * kDim);
  const Sequence sequence(gpu, KvType::kF16, kKvHeads, kDim, rows, rows);
  std::vector<cuda::Place> places;
  for (const WindowRow& row : sequence.rows()) {
    const KvLayer cache = row.cache.layer(0);
    places.push_back({cache.keys, cache.values, 0, cuda::Cells::kF16, rows, row.position, 0});
  }
  const auto there = gpu.allocate(sizeof(cuda::Place) * places.size());
  gpu.copy_from_host(there->data(), reinterpret_cast<const std::byte*>(places.data()),
                     sizeof(cuda::Place) * places.size());
  auto* a = reinterpret_cast<float*>(x->data());
  auto* b = reinterpret_cast<float*>(y->data());
  const auto* w = reinterpret_cast<const float*>(weight->data());
  const auto* at = reinterpret_cast<const cuda::Place*>(there->data());
  const auto show = [&](const char* what, double floats, const auto& call) {
    const double s = gpu_seconds(call);
    fmt::print("{:<16} {:>5} rows {:>10.1f} us {:>8.1f} GB/s {:>6.1f} %\n", what, rows, s * 1e6,
               4 * floats * rows / s / 1e9, 400 * floats * rows / s / copy);
  };
  const std::int64_t n = rows;
  show("quantize", kWidth * 1.375,
       [&](cuda::Stream s) { cuda::quantize(s, a, n * kWidth / 32, y->data()); });
  show("swiglu_quantize", kRanks * kHidden * 2.375, [&](cuda::Stream s) {
    cuda::swiglu_quantize(s, a, a + n * kRanks * kHidden, n * kRanks * kHidden / 32, y->data());
  });
  show("rms_norm", kWidth * 2,
       [&](cuda::Stream s) { cuda::rms_norm(s, a, w, kWidth, rows, 1e-6f, b); });
  show("rms_norm heads", kHeads * kDim * 2,
       [&](cuda::Stream s) { cuda::rms_norm(s, a, w, kDim, rows * kHeads, 1e-6f, a); });
  show("rope", kHeads * kDim * 2, [&](cuda::Stream s) {
    cuda::rope(
        s, {a, at, rows, kHeads, kDim, reinterpret_cast<const float*>(table->data()), kDim, true});
  });
  show("kv_append", kKvHeads * kDim * 3,
       [&](cuda::Stream s) { cuda::kv_append(s, a, b, at, 0, rows, kKvHeads, kDim); });
  show("combine", kWidth * (kRanks + 2),
       [&](cuda::Stream s) { cuda::combine(s, a, w, kRanks, kWidth, rows, b); });
}

int run(int index, bool prompts_only) {
  const CudaStatus status = cuda_status(index);
  if (!status.usable) {
    fmt::print("skipped: {}\n", status.reason);
    return 0;
  }
  const std::unique_ptr<Device> gpu = make_cuda_device({.gpu = index});
  const double copy = copy_bandwidth(*gpu);
  fmt::print("{}\ncopy: {:.1f} GB/s, reads and writes\n\n", gpu->description(), copy / 1e9);
  fmt::print("{:<22} {:<5} {:>7} {:>10} {:>9} {:>8}\n", "", "type", "tokens", "us/call", "GB/s",
             "of copy");
  using gguf::Type;
  for (const Type type : {Type::kQ4_0, Type::kQ4_K, Type::kQ8_0}) {
    for (const int tokens : {16, 32, 64, 512, 4096}) bench_linear(*gpu, type, tokens, copy);
    for (const int tokens : {16, 32, 48, 64, 256, 512}) bench_experts(*gpu, type, 40, tokens, copy);
  }
  for (const int dim : {64, 128, 256}) {
    bench_attention(*gpu, 4, 8, dim, 2048, 2048, KvType::kF16);
  }
  bench_attention(*gpu, 4, 8, 128, 2048, 2048, KvType::kQ8_0);
  bench_attention(*gpu, 4, 8, 128, 8192, 512, KvType::kF16);
  bench_attention(*gpu, 8, 4, 128, 4096, 4096, KvType::kF16);
  bench_attention(*gpu, 16, 1, 128, 2048, 2048, KvType::kF16);
  for (const int rows : {512, 4096}) bench_rows(*gpu, rows, copy);
  if (prompts_only) return 0;
  for (const gguf::Type type : quant::supported_types()) {
    for (const int tokens : {1, 2, 4, 8}) bench_linear(*gpu, type, tokens, copy);
  }
  for (const gguf::Type type : quant::supported_types()) {
    for (const int active : {8, 40}) bench_experts(*gpu, type, active, 1, copy);
  }
  for (const gguf::Type type : {gguf::Type::kQ4_0, gguf::Type::kQ4_K, gguf::Type::kQ8_0}) {
    for (const int tokens : {2, 4, 8}) bench_experts(*gpu, type, 40, tokens, copy);
  }
  return 0;
}

}  // namespace
}  // namespace strata::device

int main(int argc, char** argv) {
  try {
    return strata::device::run(argc > 1 ? std::atoi(argv[1]) : 0,
                               argc > 2 && std::string_view(argv[2]) == "prompts");
  } catch (const strata::Error& e) {
    fmt::print(stderr, "strata_cuda_bench: {}\n", e.what());
    return e.exit_code();
  }
}
