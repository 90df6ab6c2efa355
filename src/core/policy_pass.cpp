#include "strata/core/policy_pass.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

namespace strata::core {

AdaptivePass::AdaptivePass(ExpertGeometry geometry)
    : geometry_(geometry), scores_(static_cast<std::size_t>(geometry.experts)) {
  candidates_.reserve(scores_.size());
  residents_.reserve(scores_.size());
  swaps_.reserve(geometry.pairs());
}

std::span<const Swap> AdaptivePass::plan(const Policy& policy, std::span<const ExpertState> states,
                                         std::span<const std::int32_t> quota,
                                         const PassOptions& options) {
  assert(states.size() == geometry_.pairs());
  assert(quota.size() == static_cast<std::size_t>(geometry_.layers));
  swaps_.clear();
  if (policy.admission() == Admission::kNever) return {};
  float margin = 0;
  if (policy.scores_are_rates()) margin = static_cast<float>(options.swap_cost / options.horizon);
  // A victim without a use has the rate 0, whatever marks it as never used.
  const float worthless = policy.scores_are_rates() ? 0 : kNeverUsed;
  if (policy.admission() == Admission::kFreeSlots) margin = std::numeric_limits<float>::infinity();
  for (std::int32_t layer = 0; layer < geometry_.layers; ++layer) {
    const std::int32_t slots = quota[static_cast<std::size_t>(layer)];
    if (slots <= 0) continue;
    policy.scores(layer, scores_);
    plan_layer(layer, states.subspan(geometry_.index(layer, 0), scores_.size()), slots, margin,
               worthless);
  }
  const auto better = [](const Swap& a, const Swap& b) {
    const bool free_a = a.victim < 0;
    const bool free_b = b.victim < 0;
    if (free_a != free_b) return free_a;
    if (a.gain != b.gain) return a.gain > b.gain;
    return a.layer != b.layer ? a.layer < b.layer : a.newcomer < b.newcomer;
  };
  const auto most = static_cast<std::size_t>(std::max(options.max_swaps, 0));
  if (swaps_.size() > most) {
    std::nth_element(swaps_.begin(), swaps_.begin() + static_cast<std::ptrdiff_t>(most),
                     swaps_.end(), better);
    swaps_.resize(most);
  }
  std::sort(swaps_.begin(), swaps_.end(), better);
  return swaps_;
}

void AdaptivePass::plan_layer(std::int32_t layer, std::span<const ExpertState> states,
                              std::int32_t quota, float margin, float worthless) {
  // First the extremes alone: most passes change few layers.
  std::int32_t taken = 0;
  float coldest = std::numeric_limits<float>::infinity();
  for (std::size_t e = 0; e < states.size(); ++e) {
    if (states[e] == ExpertState::kAbsent) continue;
    ++taken;
    if (states[e] == ExpertState::kResident)
      coldest = std::min(coldest, std::max(scores_[e], worthless));
  }
  const std::int32_t free = std::max(quota - taken, 0);
  const float enough = free > 0 ? kNeverUsed : coldest + margin;
  candidates_.clear();
  float hottest = kNeverUsed;
  for (std::size_t e = 0; e < states.size(); ++e) {
    if (scores_[e] <= enough || states[e] != ExpertState::kAbsent) continue;
    candidates_.push_back({scores_[e], static_cast<std::int32_t>(e)});
    hottest = std::max(hottest, scores_[e]);
  }
  if (candidates_.empty()) return;
  residents_.clear();
  for (std::size_t e = 0; e < states.size(); ++e) {
    const float score = std::max(scores_[e], worthless);
    if (states[e] != ExpertState::kResident || score + margin >= hottest) continue;
    residents_.push_back({score, static_cast<std::int32_t>(e)});
  }
  const auto lower_id = [](const Scored& a, const Scored& b) { return a.expert < b.expert; };
  std::sort(candidates_.begin(), candidates_.end(), [&](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : lower_id(a, b);
  });
  std::sort(residents_.begin(), residents_.end(), [&](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score < b.score : lower_id(a, b);
  });
  std::size_t next = 0;
  for (; next < candidates_.size() && next < static_cast<std::size_t>(free); ++next) {
    swaps_.push_back({layer, candidates_[next].expert, -1, candidates_[next].score});
  }
  for (std::size_t i = 0; i < residents_.size() && next < candidates_.size(); ++i, ++next) {
    const float gain = candidates_[next].score - residents_[i].score;
    if (!(gain > margin)) break;
    swaps_.push_back({layer, candidates_[next].expert, residents_[i].expert, gain});
  }
}

}  // namespace strata::core
