// The cache's bookkeeping: what a token and an adaptive pass cost at 48 layers x 512 experts. With
// --study FILE instead: tables of policies from a recorded routing trace. With --quotas FILE: what
// quotas that fit the text would be worth.
#include "strata/core/policy.hpp"
#include "strata/core/policy_pass.hpp"
#include "strata/core/quota.hpp"
#include "strata/core/simulator.hpp"
#include "strata/core/simulator_report.hpp"
#include "strata/core/trace_synthetic.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

constexpr ExpertGeometry kGeometry{48, 512};

const Trace& bench_trace() {
  static const Trace trace = synthetic_trace({.tokens = 256});
  return trace;
}

// A policy that observes the trace token by token, over and over.
struct Observer {
  Observer(PolicyKind kind, std::int32_t slots)
      : quota(static_cast<std::size_t>(kGeometry.layers), slots),
        policy(make_policy({.kind = kind}, kGeometry, nullptr, quota)) {}

  void token() {
    const Trace& trace = bench_trace();
    for (std::int32_t layer = 0; layer < kGeometry.layers; ++layer) {
      policy->observe(trace[next]);
      next = next + 1 == trace.size() ? 0 : next + 1;
    }
    policy->end_token();
  }

  std::vector<std::int32_t> quota;  // [layers]
  std::unique_ptr<Policy> policy;
  std::size_t next = 0;
};

// What the token path pays: the router's choices of one token in all layers.
void token(benchmark::State& state, PolicyKind kind) {
  Observer observer(kind, 128);
  observer.token();  // makes the trace
  for (auto _ : state) observer.token();
}
BENCHMARK_CAPTURE(token, mixture, PolicyKind::kMixture)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(token, default, PolicyKind::kDefault)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(token, pairs, PolicyKind::kPairs)->Unit(benchmark::kMicrosecond);

// Where a pass finds the cache.
enum Situation {
  kSteady,   // full and adapted: the engine's way, its swaps are made
  kFilling,  // empty
  kChanged,  // full of the coldest experts: everything else is hotter
};

struct Cache {
  void make(std::span<const Swap> plan) {
    for (const Swap& swap : plan) {
      states[kGeometry.index(swap.layer, swap.newcomer)] = ExpertState::kResident;
      if (swap.victim < 0) continue;
      states[kGeometry.index(swap.layer, swap.victim)] = ExpertState::kAbsent;
    }
  }
  void fill_with_coldest(const Policy& policy, std::int32_t slots) {
    std::vector<float> scores(static_cast<std::size_t>(kGeometry.experts));
    std::vector<std::size_t> order(scores.size());
    for (std::int32_t layer = 0; layer < kGeometry.layers; ++layer) {
      policy.scores(layer, scores);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
      for (std::int32_t i = 0; i < slots; ++i) {
        states[kGeometry.index(layer, 0) + order[static_cast<std::size_t>(i)]] =
            ExpertState::kResident;
      }
    }
  }

  std::vector<ExpertState> states =
      std::vector<ExpertState>(kGeometry.pairs(), ExpertState::kAbsent);
};

// A pass after every token, which is not timed.
void pass(benchmark::State& state, PolicyKind kind, Situation situation) {
  const auto slots = static_cast<std::int32_t>(state.range(0));
  Observer observer(kind, slots);
  AdaptivePass pass(kGeometry);
  Cache cache;
  for (int i = 0; i < 512; ++i) {
    observer.token();
    if (situation == kSteady)
      cache.make(pass.plan(*observer.policy, cache.states, observer.quota, {}));
  }
  if (situation == kChanged) cache.fill_with_coldest(*observer.policy, slots);
  std::int64_t swaps = 0;
  for (auto _ : state) {
    state.PauseTiming();
    observer.token();
    state.ResumeTiming();
    const auto plan = pass.plan(*observer.policy, cache.states, observer.quota, {});
    if (situation == kSteady) cache.make(plan);
    swaps += static_cast<std::int64_t>(plan.size());
  }
  state.counters["swaps"] =
      benchmark::Counter(static_cast<double>(swaps), benchmark::Counter::kAvgIterations);
}
#define STRATA_PASS(name, kind, situation)                   \
  BENCHMARK_CAPTURE(pass, name, PolicyKind::kind, situation) \
      ->Arg(8)                                               \
      ->Arg(64)                                              \
      ->Arg(128)                                             \
      ->Arg(256)                                             \
      ->Arg(504)                                             \
      ->Unit(benchmark::kMicrosecond)
STRATA_PASS(mixture_steady, kMixture, kSteady);
STRATA_PASS(steady, kDefault, kSteady);
STRATA_PASS(filling, kDefault, kFilling);
STRATA_PASS(changed, kDefault, kChanged);
STRATA_PASS(lru_steady, kLru, kSteady);
STRATA_PASS(lru_changed, kLru, kChanged);
STRATA_PASS(pairs_steady, kPairs, kSteady);
STRATA_PASS(pairs_changed, kPairs, kChanged);

PolicyOptions lfu(float half_life) { return {.kind = PolicyKind::kLfu, .half_life = half_life}; }

void tables(const char* what, const Trace& trace, const std::vector<double>& capacities,
            const SimulationOptions& common) {
  GridOptions grid;
  grid.capacities = capacities;
  grid.common = common;
  grid.common.instant = true;
  grid.policies = {{.kind = PolicyKind::kFill},
                   {.kind = PolicyKind::kLru},
                   {.kind = PolicyKind::kLfru},
                   lfu(8),
                   lfu(16),
                   lfu(32),
                   lfu(64),
                   lfu(350),
                   {}};
  std::printf("\n%s, admission at once (lfu: half-lives of 8, 16, 32, 64, 350 tokens)\n%s", what,
              format_table(simulate_grid(trace, grid)).c_str());
  grid.common.instant = false;
  grid.policies = {lfu(32), {}};
  std::printf("\n%s, passes with the cost of copies\n%s", what,
              format_table(simulate_grid(trace, grid)).c_str());
}

int study(const char* file) {
  const Trace trace = Trace::load(file);
  const std::vector<double> capacities = {8.0 / 64, 16.0 / 64, 26.0 / 64, 38.0 / 64};
  std::vector<bool> four(static_cast<std::size_t>(trace.layers()));
  for (std::size_t layer = 0; layer < four.size(); layer += 3) four[layer] = true;
  const std::int64_t half = trace.tokens() / 2;
  tables("every third layer", trace.slice(0, trace.tokens(), four), capacities, {});
  tables("all layers", trace, capacities, {});
  tables("all layers, second half", trace.slice(half, trace.tokens()), capacities, {});

  const Trace training = trace.slice(0, half);
  GridOptions warm;
  warm.capacities = capacities;
  warm.quotas = {QuotaKind::kEqual, QuotaKind::kMarginal, QuotaKind::kFirstCome};
  warm.policies = {{.kind = PolicyKind::kStatic}, {}};
  warm.common.training = &training;
  std::printf("\nsecond half, started from a profile of the first\n%s",
              format_table(simulate_grid(trace.slice(half, trace.tokens()), warm)).c_str());

  const Trace fitted = synthetic_trace({.layers = 8, .tokens = 3000});
  SimulationOptions common;
  common.experts = 512;
  common.first_token = 200;
  tables("fitted to 512 experts", fitted,
         {8.0 / 512, 31.0 / 512, 62.0 / 512, 128.0 / 512, 171.0 / 512, 256.0 / 512}, common);
  return 0;
}

// What quotas that fit the text would be worth, were it known beforehand: slots where the layer's
// own hit rate by size rises fastest, and by the marginal gain of the whole text's counts.
int quotas(const char* file) {
  const Trace trace = Trace::load(file);
  const auto layers = static_cast<std::size_t>(trace.layers());
  const auto experts = static_cast<std::size_t>(trace.experts());
  const auto simulated = [&](std::vector<std::int32_t> slots) {
    SimulationOptions options;
    options.slots = std::move(slots);
    return simulate(trace, options);
  };
  std::vector<std::vector<std::int64_t>> hits = {std::vector<std::int64_t>(layers)};  // by slots
  for (std::size_t slots = 1; slots <= experts; ++slots) {
    hits.emplace_back();
    for (const LayerResult& layer :
         simulated(std::vector<std::int32_t>(layers, static_cast<std::int32_t>(slots))).layers) {
      hits.back().push_back(layer.hits);
    }
  }
  std::printf("%7s %7s %13s %10s %9s\n", "slots", "equal", "by hit curves", "by counts", "range");
  for (const std::size_t share : {experts / 8, experts / 4, 13 * experts / 32, 19 * experts / 32}) {
    std::vector<std::int32_t> best(layers);
    for (std::size_t i = 0; i < share * layers; ++i) {
      const auto gain = [&](std::int32_t& slots) {
        const auto layer = static_cast<std::size_t>(&slots - best.data());
        const auto now = static_cast<std::size_t>(slots);
        return now == experts ? -1 : hits[now + 1][layer] - hits[now][layer];
      };
      ++*std::ranges::max_element(best, {}, gain);
    }
    const std::vector<std::int64_t> alike(layers, 1);
    const std::vector<double> counts = trace.counts(trace.experts());
    const auto budget = static_cast<std::int64_t>(share * layers);
    const auto percent = [](const SimulationResult& result) { return 100 * result.hit_rate(); };
    const auto [least, most] = std::ranges::minmax(best);
    std::printf(
        "%7zu %7.2f %13.2f %10.2f %4d..%d\n", share,
        percent(simulated(equal_quotas(budget, alike, trace.experts()))), percent(simulated(best)),
        percent(
            simulated(marginal_quotas(budget, alike, counts, {trace.layers(), trace.experts()}))),
        least, most);
  }
  return 0;
}

}  // namespace
}  // namespace strata::core

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--study") return strata::core::study(argv[2]);
  if (argc == 3 && std::string_view(argv[1]) == "--quotas") return strata::core::quotas(argv[2]);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
