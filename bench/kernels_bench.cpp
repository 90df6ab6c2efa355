// The dot kernels by instruction set, type and tile: weights streamed from memory (tile 1, the
// decode case) or met again in cache by many tokens (tile 16, the prompt case). One thread; GB/s of
// weights and G multiply-adds a second.
#include "kernels/cpu/kernels.hpp"
#include "strata/base/memory.hpp"

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

namespace strata::kernels {
namespace {

constexpr std::int64_t kCols = 2048;

void run_dot(benchmark::State& state, Isa isa, gguf::Type type, int tokens, std::int64_t groups) {
  const std::size_t group_bytes = quant::packed_group_bytes(type, kCols);
  // Zero bytes are valid blocks of every type, and no kernel here is faster on them.
  Buffer weights(group_bytes * static_cast<std::size_t>(groups));
  std::memset(weights.data(), 0, weights.size());
  std::vector<std::byte> panel(panel_bytes(kCols, tokens) +
                               sizeof(float) * kCols * static_cast<std::size_t>(tokens));
  std::vector<float> out(static_cast<std::size_t>(16 * groups) * static_cast<std::size_t>(tokens));
  const DotFunction dot = kernels_for(isa).dot[static_cast<std::size_t>(type)][tile_index(tokens)];
  for (auto _ : state) {
    dot({weights.data(), group_bytes, static_cast<int>(groups), kCols, panel.data(), out.data(),
         16 * groups, false});
    benchmark::ClobberMemory();
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(runs * static_cast<double>(weights.size()) / 1e9,
                                              benchmark::Counter::kIsRate);
  state.counters["GMAC/s"] = benchmark::Counter(
      runs * static_cast<double>(16 * groups * kCols) * tokens / 1e9, benchmark::Counter::kIsRate);
}

void register_all() {
  for (const IsaSupport& s : detect_isas()) {
    if (!s.usable || s.isa == Isa::kGeneric) continue;
    for (const gguf::Type type : quant::supported_types()) {
      const std::string name =
          std::string(isa_name(s.isa)) + "/" + std::string(gguf::traits(type).name);
      const auto memory_groups =
          static_cast<std::int64_t>((96u << 20) / quant::packed_group_bytes(type, kCols));
      const auto add = [&](const std::string& what, int tokens, std::int64_t groups) {
        benchmark::RegisterBenchmark((name + what).c_str(), [=,
                                                             isa = s.isa](benchmark::State& state) {
          run_dot(state, isa, type, tokens, groups);
        })->Unit(benchmark::kMicrosecond);
      };
      add("/memory/1", 1, memory_groups);
      add("/cache/1", 1, 4);
      add("/cache/16", 16, 4);
    }
  }
}

}  // namespace
}  // namespace strata::kernels

int main(int argc, char** argv) {
  strata::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
