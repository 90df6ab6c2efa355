#include "strata/core/policy_pass.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

namespace strata::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Keyed = AdaptivePass::Keyed;

// Free slots first, then the largest gains; of equal ones the lower layer's and expert's.
bool better(const Swap& a, const Swap& b) {
  const bool free_a = a.victim < 0;
  const bool free_b = b.victim < 0;
  if (free_a != free_b) return free_a;
  if (a.gain != b.gain) return a.gain > b.gain;
  return a.layer != b.layer ? a.layer < b.layer : a.newcomer < b.newcomer;
}

bool hotter(const Keyed& a, const Keyed& b) {
  return a.key != b.key ? a.key > b.key : a.expert < b.expert;
}

// The lowest score of a resident, at least `worthless`; infinity when there is none. In lanes, so
// that one minimum need not wait for the one before.
float coldest_resident(std::span<const float> scores, std::span<const ExpertState> states,
                       float worthless) {
  constexpr std::size_t kLanes = 8;
  std::array<float, kLanes> lowest;
  lowest.fill(kInfinity);
  const auto look = [&](std::size_t e, std::size_t lane) {
    const float score = std::max(scores[e], worthless);
    lowest[lane] = std::min(lowest[lane], states[e] == ExpertState::kResident ? score : kInfinity);
  };
  std::size_t e = 0;
  for (; e + kLanes <= states.size(); e += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) look(e + lane, lane);
  }
  for (; e < states.size(); ++e) look(e, 0);
  return *std::min_element(lowest.begin(), lowest.end());
}

// Keeps the `most` highest keys in no order, and returns the lowest of them.
float keep_highest(std::vector<Keyed>& all, std::size_t most) {
  const auto last = all.begin() + static_cast<std::ptrdiff_t>(most) - 1;
  std::nth_element(all.begin(), last, all.end(), hotter);
  all.resize(most);
  return all.back().key;
}

// The experts in `wanted` state with the `most` highest keys above `bar`, highest first. Chosen
// without a branch, which random states would have mispredicted at every second expert; now and
// then the bar is raised to what can still be among the highest.
template <class Key>
void gather(std::vector<Keyed>& out, std::span<const ExpertState> states, ExpertState wanted,
            std::size_t most, float bar, const Key& key) {
  constexpr std::size_t kStretch = 64;
  if (most == 0) return out.clear();
  std::size_t count = 0;
  for (std::size_t first = 0; first < states.size(); first += kStretch) {
    const std::size_t end = std::min(first + kStretch, states.size());
    out.resize(count + end - first);
    for (std::size_t e = first; e < end; ++e) {
      out[count] = {key(e), static_cast<std::int32_t>(e)};
      // Both are worked out always: no branch that is guessed wrong.
      count += static_cast<std::size_t>(out[count].key > bar) &
               static_cast<std::size_t>(states[e] == wanted);
    }
    out.resize(count);
    if (count < most + kStretch) continue;
    bar = keep_highest(out, most);
    count = most;
  }
  if (count > most) keep_highest(out, most);
  std::sort(out.begin(), out.end(), hotter);
}

}  // namespace

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
  if (policy.admission() == Admission::kNever || options.max_swaps <= 0) return {};
  const bool rates = policy.scores_are_rates();
  const double horizon = options.horizon > 0 ? options.horizon : policy.horizon();
  Bar bar{.most = static_cast<std::size_t>(options.max_swaps),
          .margin = rates ? static_cast<float>(options.swap_cost / horizon) : 0,
          // A victim without a use has the rate 0, whatever marks it as never used.
          .worthless = rates ? 0 : kNeverUsed,
          .free_gain = kNeverUsed,
          .swap_gain = kNeverUsed};
  if (policy.admission() == Admission::kFreeSlots) bar.margin = kInfinity;
  for (std::int32_t layer = 0; layer < geometry_.layers; ++layer) {
    const std::int32_t slots = quota[static_cast<std::size_t>(layer)];
    if (slots <= 0) continue;
    policy.scores(layer, scores_);
    plan_layer(layer, states.subspan(geometry_.index(layer, 0), scores_.size()), slots, bar);
    drop_what_cannot_make_it(bar);
  }
  std::sort(swaps_.begin(), swaps_.end(), better);
  return swaps_;
}

// Keeps the best swaps so far. The worst of them is what later layers must beat, which spares them
// most of the sorting.
void AdaptivePass::drop_what_cannot_make_it(Bar& bar) {
  if (swaps_.size() < bar.most) return;
  std::nth_element(swaps_.begin(), swaps_.begin() + static_cast<std::ptrdiff_t>(bar.most) - 1,
                   swaps_.end(), better);
  swaps_.resize(bar.most);
  const Swap& worst = swaps_.back();
  (worst.victim < 0 ? bar.free_gain : bar.swap_gain) = worst.gain;
  if (worst.victim < 0) bar.swap_gain = kInfinity;
}

void AdaptivePass::plan_layer(std::int32_t layer, std::span<const ExpertState> states,
                              std::int32_t quota, const Bar& bar) {
  std::int32_t taken = 0;
  std::size_t residents = 0;
  for (const ExpertState state : states) {
    taken += state == ExpertState::kAbsent ? 0 : 1;
    residents += state == ExpertState::kResident ? 1 : 0;
  }
  // What a newcomer must beat at least: the coldest resident, unless a slot is free.
  const float coldest = coldest_resident(scores_, states, bar.worthless);
  const auto free = static_cast<std::size_t>(std::max(quota - taken, 0));
  const float least_gain = std::max(bar.margin, bar.swap_gain);
  gather(candidates_, states, ExpertState::kAbsent, std::min(bar.most, free + residents),
         free > 0 ? bar.free_gain : coldest + least_gain,
         [&](std::size_t e) { return scores_[e]; });
  std::size_t next = 0;
  for (; next < candidates_.size() && next < free; ++next) {
    swaps_.push_back({layer, candidates_[next].expert, -1, candidates_[next].key});
  }
  if (next == candidates_.size() || least_gain == kInfinity) return;
  gather(residents_, states, ExpertState::kResident, candidates_.size() - next,
         least_gain - candidates_[next].key,
         [&](std::size_t e) { return -std::max(scores_[e], bar.worthless); });
  for (const Keyed& victim : residents_) {
    const float gain = candidates_[next].key + victim.key;
    if (!(gain > bar.margin)) break;
    swaps_.push_back({layer, candidates_[next++].expert, victim.expert, gain});
  }
}

}  // namespace strata::core
