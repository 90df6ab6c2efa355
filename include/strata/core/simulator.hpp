// What a cache of given size and policy would have done on a recorded routing trace. The policies
// and the adaptive pass are the engine's own; only arena and link are simulated.
#pragma once

#include "strata/core/policy.hpp"
#include "strata/core/policy_pass.hpp"
#include "strata/core/quota.hpp"
#include "strata/core/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace strata::core {

enum class QuotaKind {
  kEqual,      // the same slots for every layer
  kMarginal,   // by marginal gain, from the profile's trace
  kFirstCome,  // one pool for all layers: the historical way, for comparison
};
[[nodiscard]] std::string_view quota_name(QuotaKind kind) noexcept;

struct SimulationOptions {
  PolicyOptions policy;
  double capacity = 0.25;  // share of all experts' bytes that the cache holds, 0 to 1
  QuotaKind quota = QuotaKind::kEqual;
  std::vector<std::int32_t> slots;  // [layers] of a cache that exists; replaces capacity and quota
  // Instant: a miss is admitted at its own token and costs no time, as published studies count.
  // Otherwise the engine's way: a pass every `adapt_every` tokens, copies one after the other over
  // the link, a victim gone at once, its newcomer there when its copy has landed.
  bool instant = false;
  std::int32_t adapt_every = kDefaultAdaptEvery;
  PassOptions pass;
  LinkModel link;
  double token_seconds = 0.01;           // what a token takes, which is time for copies
  std::int32_t experts = 0;              // a layer's; 0: the trace's highest expert + 1
  std::vector<std::int64_t> blob_bytes;  // [layers]; empty: kExampleBlob for every layer
  // What is known beforehand, at most one of the two: warm start, static policy, marginal quotas.
  const Trace* training = nullptr;
  const Profile* profile = nullptr;  // says the geometry too
  std::int64_t first_token = 0;      // hits and copies count from here; what was before is warm up
};

// Bytes of an expert where the options name none: the 2-bit expert of a 125 B model.
inline constexpr std::int64_t kExampleBlob = 1'382'400;

struct LayerResult {
  std::int32_t slots = 0;
  std::int64_t picks = 0;
  std::int64_t hits = 0;
};

struct SimulationResult {
  PolicyKind policy{};
  float half_life = 0;  // as asked
  QuotaKind quota{};
  bool instant = false;
  double capacity = 0;  // as asked
  std::vector<LayerResult> layers;
  std::int64_t tokens = 0;  // counted ones
  std::int64_t picks = 0;
  std::int64_t hits = 0;
  std::int64_t copies = 0;         // without the warm start
  std::int64_t bytes_moved = 0;    // by those copies
  std::int64_t bytes_missed = 0;   // that the slow tier read
  std::int64_t copies_used = 0;    // served at least one hit before they left or the trace ended
  std::int64_t copies_wasted = 0;  // left, or are still there, without a hit
  std::int64_t copied_hits = 0;    // hits that copies served

  [[nodiscard]] double hit_rate() const noexcept {
    return picks == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(picks);
  }
};

// Error(kUsage) for options that make no sense: a capacity outside 0..1, fewer experts than the
// trace has, a static policy without training trace or profile, both of them, adapt_every below 1.
// Error(kInput) for a training trace or a profile of another model than the trace's.
[[nodiscard]] SimulationResult simulate(const Trace& trace, const SimulationOptions& options);

// Hit rate of each window of `window` tokens, to see how fast a policy follows a change of topic.
[[nodiscard]] std::vector<double> hit_rate_over_time(const Trace& trace,
                                                     const SimulationOptions& options,
                                                     std::int32_t window);

// A policy, capacity and quota in all combinations, with the optimum of each capacity and quota,
// which starts from the same contents.
struct GridOptions {
  std::vector<PolicyOptions> policies;
  std::vector<double> capacities;
  std::vector<QuotaKind> quotas = {QuotaKind::kEqual};
  SimulationOptions common;  // its policy, capacity and quota are replaced
};
[[nodiscard]] std::vector<SimulationResult> simulate_grid(const Trace& trace,
                                                          const GridOptions& options);

}  // namespace strata::core
