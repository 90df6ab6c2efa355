// Windows of a few sequences with a token each, as continuous batching makes them, on the demo
// model. Microseconds a token, by part:
//   windows_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
//
// Names: Window/SEQUENCES/THREADS. An iteration is 96 windows; every sequence reads a text of its
// own from position 32 on.
#include "strata/runtime/engine.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kSteps = 96;
constexpr int kBefore = 32;

std::vector<std::int32_t> text_ids(const strata::Engine& engine) {
  std::ifstream file(STRATA_SOURCE_DIR "/data/heldout.txt", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return engine.tokenizer().encode(text);
}

double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }

void Window(benchmark::State& state) {
  const auto sequences = static_cast<std::size_t>(state.range(0));
  strata::EngineOptions options;
  options.model = STRATA_SOURCE_DIR "/data/strata-demo.gguf";
  options.threads = static_cast<int>(state.range(1));
  options.pin_threads = false;
  options.device = strata::DeviceChoice::kCpu;
  const std::unique_ptr<strata::Engine> engine = strata::Engine::load(options);
  const std::vector<std::int32_t> ids = text_ids(*engine);
  std::vector<std::unique_ptr<strata::Session>> sessions;
  const auto token_of = [&](std::size_t sequence, int position) {
    return ids[sequence * (kBefore + kSteps) + static_cast<std::size_t>(position)];
  };
  for (std::size_t s = 0; s < sequences; ++s) {
    sessions.push_back(engine->new_session());
    sessions[s]->feed(std::span(ids).subspan(s * (kBefore + kSteps), kBefore));
  }
  const strata::Stats before = engine->stats();
  std::vector<strata::runtime::WindowToken> window(sequences);
  for (auto _ : state) {
    for (int position = kBefore; position < kBefore + kSteps; ++position) {
      for (std::size_t s = 0; s < sequences; ++s) {
        window[s] = {token_of(s, position), position, &sessions[s]->state(), true};
      }
      benchmark::DoNotOptimize(engine->run(window).data);
    }
  }
  const strata::Stats done = engine->stats() - before;
  const double tokens = static_cast<double>(done.tokens) / 1e6;
  state.counters["us"] = done.seconds / tokens;
  for (std::size_t p = 0; p < strata::runtime::kParts; ++p) {
    const auto part = static_cast<strata::runtime::Part>(p);
    state.counters[std::string(strata::runtime::part_name(part))] = done.of(part).seconds / tokens;
  }
}
BENCHMARK(Window)
    ->ArgsProduct({{1, 2, 4, 8}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->ComputeStatistics("min", least);

}  // namespace

BENCHMARK_MAIN();
