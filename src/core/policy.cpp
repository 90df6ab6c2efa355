#include "strata/core/policy.hpp"

#include "strata/base/error.hpp"
#include "strata/core/mixture_learner.hpp"
#include "strata/core/successors.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

struct Name {
  PolicyKind kind;
  std::string_view text;
};
constexpr Name kNames[] = {
    {PolicyKind::kNone, "none"},       {PolicyKind::kFill, "fill"},
    {PolicyKind::kStatic, "static"},   {PolicyKind::kLru, "lru"},
    {PolicyKind::kLfu, "lfu"},         {PolicyKind::kLfru, "lfru"},
    {PolicyKind::kMixture, "mixture"}, {PolicyKind::kDefault, "default"},
    {PolicyKind::kPairs, "pairs"},     {PolicyKind::kOptimum, "optimum"},
};

// none and static: scores that no observation changes.
class FixedPolicy final : public Policy {
 public:
  FixedPolicy(ExpertGeometry geometry, const Profile* profile)
      : geometry_(geometry), scores_(geometry.pairs(), kNeverUsed) {
    if (profile == nullptr) return;
    const auto count = static_cast<float>(profile->ranked.size());
    for (std::size_t i = 0; i < profile->ranked.size(); ++i) {
      const RankedExpert id = profile->ranked[i];
      scores_[geometry.index(id.layer, id.expert)] = (count - static_cast<float>(i)) / count;
    }
  }
  void observe(const RoutingEvent&) noexcept override {}
  void end_token() noexcept override {}
  void scores(std::int32_t layer, std::span<float> out) const noexcept override {
    std::copy_n(scores_.begin() + static_cast<std::ptrdiff_t>(geometry_.index(layer, 0)),
                geometry_.experts, out.begin());
  }
  [[nodiscard]] Admission admission() const noexcept override { return Admission::kNever; }

 private:
  ExpertGeometry geometry_;
  std::vector<float> scores_;  // [layers][experts]
};

// All policies that score by heat; `kind` selects the formula.
class HeatPolicy final : public Policy {
 public:
  HeatPolicy(const PolicyOptions& options, ExpertGeometry geometry,
             std::span<const float> half_lives, std::span<const float> mix, const Profile* profile,
             std::span<const std::int32_t> slots)
      : kind_(options.kind),
        weight_power_(options.weight_power),
        heat_(geometry, half_lives),
        mix_(mix.begin(), mix.end()),
        ages_alone_((options.kind == PolicyKind::kLru || options.kind == PolicyKind::kFill) &&
                    profile == nullptr) {
    if (profile != nullptr) heat_.seed(*profile, kProfileTokens);
    if (kind_ == PolicyKind::kDefault && !slots.empty()) learner_.emplace(geometry, mix, slots);
  }

  void observe(const RoutingEvent& event) noexcept override {
    heat_.observe(event.layer, event.experts, event.weights, weight_power_);
    if (learner_) learner_->observe(event.layer, event.experts);
  }
  void end_token() noexcept override {
    heat_.end_token();
    if (!learner_) return;
    learner_->end_token(heat_);
    std::ranges::copy(learner_->weights(), mix_.begin());
  }

  void scores(std::int32_t layer, std::span<float> out) const noexcept override {
    const auto last = heat_.last_use(layer);
    if (ages_alone_) {
      for (std::size_t e = 0; e < last.size(); ++e) {
        out[e] = last[e] < 0 ? kNeverUsed : static_cast<float>(last[e] - heat_.picks());
      }
      return;
    }
    heat_.rates(layer, mix_, out);
    if (scores_are_rates()) {
      for (float& score : out) score = score > 0 ? score : kNeverUsed;
      return;
    }
    const auto now = static_cast<float>(heat_.picks());
    for (std::size_t e = 0; e < last.size(); ++e) {
      const float age = now - static_cast<float>(last[e]);
      if (last[e] < 0) {
        // A profile's pairs precede every use, hottest first.
        out[e] = out[e] > 0 ? out[e] - now - 2 : kNeverUsed;
      } else if (kind_ == PolicyKind::kLfru) {
        out[e] = out[e] / age;
      } else {
        out[e] = -static_cast<float>(heat_.picks() - last[e]);
      }
    }
  }

  [[nodiscard]] Admission admission() const noexcept override {
    if (kind_ == PolicyKind::kFill) return Admission::kFreeSlots;
    return scores_are_rates() ? Admission::kIfBetter : Admission::kAlways;
  }
  [[nodiscard]] bool scores_are_rates() const noexcept override {
    return kind_ == PolicyKind::kLfu || kind_ == PolicyKind::kMixture ||
           kind_ == PolicyKind::kDefault;
  }
  // Learned weights look ahead already, and promise no more than they keep.
  [[nodiscard]] double horizon() const noexcept override {
    return kind_ == PolicyKind::kDefault ? 96 : Policy::horizon();
  }
  [[nodiscard]] const Heat& heat() const noexcept { return heat_; }
  [[nodiscard]] std::span<const float> mix() const noexcept { return mix_; }

 private:
  PolicyKind kind_;
  float weight_power_;
  Heat heat_;
  std::vector<float> mix_;  // [scales]
  bool ages_alone_;         // no heat is asked for
  std::optional<MixtureLearner> learner_;
};

// The default, and what the layer's latest choice says of the next one.
class PairPolicy final : public Policy {
 public:
  PairPolicy(const PolicyOptions& options, ExpertGeometry geometry, const Profile* profile,
             std::span<const std::int32_t> slots)
      : weight_(options.pairs.weight),
        history_({.kind = PolicyKind::kDefault}, geometry, options.mixture.half_lives,
                 options.mixture.weights, profile, slots),
        successors_(geometry, options.pairs.prior),
        long_run_(static_cast<std::size_t>(geometry.experts)),
        slowest_(options.mixture.weights.size()) {
    slowest_.back() = 1;
  }

  void observe(const RoutingEvent& event) noexcept override {
    history_.observe(event);
    successors_.observe(event.layer, event.experts);
  }
  void end_token() noexcept override { history_.end_token(); }

  void scores(std::int32_t layer, std::span<float> out) const noexcept override {
    history_.heat().rates(layer, slowest_, long_run_);
    history_.heat().rates(layer, history_.mix(), out);
    successors_.add_lift(layer, weight_, long_run_, out);
    // What has been used stays worth a free slot, whatever follows what.
    for (std::size_t e = 0; e < out.size(); ++e) {
      out[e] = long_run_[e] > 0 ? std::max(out[e], std::numeric_limits<float>::min()) : kNeverUsed;
    }
  }

  [[nodiscard]] Admission admission() const noexcept override { return Admission::kIfBetter; }
  [[nodiscard]] bool scores_are_rates() const noexcept override { return true; }
  // Less than the default's: what follows is soon over.
  [[nodiscard]] double horizon() const noexcept override { return 64; }

 private:
  float weight_;
  HeatPolicy history_;
  Successors successors_;
  mutable std::vector<float> long_run_;  // [experts] scratch
  std::vector<float> slowest_;           // [scales] the slowest half-life alone
};

// Belady: the score is minus the number of events of the layer until the next use.
class OptimumPolicy final : public Policy {
 public:
  OptimumPolicy(const Trace& trace, ExpertGeometry geometry)
      : geometry_(geometry),
        next_(geometry.pairs(), kNever),
        now_(static_cast<std::size_t>(geometry.layers)),
        uses_(static_cast<std::size_t>(geometry.layers)) {
    // Backwards through the trace: what is known as the next use is the one after this event.
    std::vector<std::int64_t> coming(geometry.pairs(), kNever);
    std::vector<std::int64_t> number(static_cast<std::size_t>(geometry.layers));
    for (std::size_t i = trace.size(); i-- > 0;) {
      const RoutingEvent event = trace[i];
      const auto layer = static_cast<std::size_t>(event.layer);
      const std::int64_t from_end = ++number[layer];
      for (std::size_t j = event.experts.size(); j-- > 0;) {
        std::int64_t& next = coming[geometry.index(event.layer, event.experts[j])];
        uses_[layer].push_back(std::exchange(next, from_end));
      }
    }
    // Numbers counted from the layer's end; `now_` counts down to match.
    for (std::size_t layer = 0; layer < now_.size(); ++layer) now_[layer] = number[layer] + 1;
    next_ = std::move(coming);
  }

  void observe(const RoutingEvent& event) noexcept override {
    const auto layer = static_cast<std::size_t>(event.layer);
    --now_[layer];
    for (const std::int32_t expert : event.experts) {
      assert(!uses_[layer].empty());
      next_[geometry_.index(event.layer, expert)] = uses_[layer].back();
      uses_[layer].pop_back();
    }
  }
  void end_token() noexcept override {}
  void scores(std::int32_t layer, std::span<float> out) const noexcept override {
    const std::int64_t now = now_[static_cast<std::size_t>(layer)];
    for (std::int32_t e = 0; e < geometry_.experts; ++e) {
      const std::int64_t next = next_[geometry_.index(layer, e)];
      out[static_cast<std::size_t>(e)] =
          next == kNever ? kNeverUsed : -static_cast<float>(now - next);
    }
  }
  [[nodiscard]] Admission admission() const noexcept override { return Admission::kIfBetter; }

 private:
  static constexpr std::int64_t kNever = 0;

  ExpertGeometry geometry_;
  std::vector<std::int64_t> next_;               // [layers][experts] event of the next use
  std::vector<std::int64_t> now_;                // [layers] event just observed
  std::vector<std::vector<std::int64_t>> uses_;  // [layers] next uses still to come, last first
};

}  // namespace

std::unique_ptr<Policy> make_policy(const PolicyOptions& options, ExpertGeometry geometry,
                                    const Profile* profile, std::span<const std::int32_t> slots) {
  assert(profile == nullptr || profile->geometry == geometry);
  constexpr std::array<float, 1> kOne = {1};
  const std::array<float, 1> half_life = {options.half_life};
  switch (options.kind) {
    case PolicyKind::kNone:
      return std::make_unique<FixedPolicy>(geometry, nullptr);
    case PolicyKind::kStatic:
      return std::make_unique<FixedPolicy>(geometry, profile);
    case PolicyKind::kMixture:
    case PolicyKind::kDefault:
      return std::make_unique<HeatPolicy>(options, geometry, options.mixture.half_lives,
                                          options.mixture.weights, profile, slots);
    case PolicyKind::kPairs:
      return std::make_unique<PairPolicy>(options, geometry, profile, slots);
    case PolicyKind::kFill:
    case PolicyKind::kLru:
    case PolicyKind::kLfu:
    case PolicyKind::kLfru:
      return std::make_unique<HeatPolicy>(options, geometry, half_life, kOne, profile, slots);
    case PolicyKind::kOptimum:
      break;
  }
  fail(ErrorKind::kInternal, "the optimum policy needs the trace to come: make_optimum");
}

std::unique_ptr<Policy> make_optimum(const Trace& trace, ExpertGeometry geometry) {
  return std::make_unique<OptimumPolicy>(trace, geometry);
}

std::string_view policy_name(PolicyKind kind) noexcept {
  const auto* found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](Name n) { return n.kind == kind; });
  return found->text;
}

std::optional<PolicyKind> policy_of(std::string_view name) noexcept {
  for (const Name& n : kNames) {
    if (n.text == name) return n.kind;
  }
  return std::nullopt;
}

}  // namespace strata::core
