#include "strata/core/simulator.hpp"

#include "strata/base/error.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

namespace strata::core {
namespace {

ExpertGeometry geometry_of(const Trace& trace, const SimulationOptions& options) {
  const std::int32_t experts = options.experts == 0 ? trace.experts() : options.experts;
  if (experts < trace.experts()) {
    fail(ErrorKind::kUsage, "the trace uses expert {}, but the model is said to have {} a layer",
         trace.experts() - 1, experts);
  }
  if (options.training != nullptr && options.profile != nullptr) {
    fail(ErrorKind::kUsage, "a training trace and a profile: give one of them");
  }
  if (!(options.capacity >= 0 && options.capacity <= 1)) {
    fail(ErrorKind::kUsage, "a cache of {} of all experts: give a share from 0 to 1",
         options.capacity);
  }
  if (!options.instant && options.adapt_every < 1) {
    fail(ErrorKind::kUsage, "an adaptive pass every {} tokens: give 1 or more",
         options.adapt_every);
  }
  if (options.policy.kind == PolicyKind::kStatic && options.training == nullptr &&
      options.profile == nullptr) {
    fail(ErrorKind::kUsage, "the static policy needs a profile, or a training trace to make one");
  }
  if (options.profile == nullptr) return {trace.layers(), experts};
  const ExpertGeometry model = options.profile->geometry;
  if (model.layers < trace.layers() || model.experts < trace.experts() ||
      (options.experts != 0 && model.experts != options.experts)) {
    fail(ErrorKind::kInput,
         "the profile is for a model of {} layers x {} experts, but the trace is of one of {} x {} "
         "or more",
         model.layers, model.experts, trace.layers(), experts);
  }
  return model;
}

// How often each expert was chosen, [layers][experts]; of a profile, which has no counts, numbers
// in its order.
std::vector<double> known_counts(const SimulationOptions& options, ExpertGeometry geometry) {
  std::vector<double> counts(geometry.pairs());
  if (options.training != nullptr) {
    const Trace& training = *options.training;
    if (training.layers() > geometry.layers || training.experts() > geometry.experts) {
      fail(ErrorKind::kInput,
           "the training trace is of a model of {} layers x {} experts or more, the trace of {} x "
           "{}",
           training.layers(), training.experts(), geometry.layers, geometry.experts);
    }
    const std::vector<double> counted = training.counts(geometry.experts);
    std::copy(counted.begin(), counted.end(), counts.begin());
  }
  if (options.profile != nullptr) {
    auto rest = static_cast<double>(options.profile->ranked.size());
    for (const RankedExpert id : options.profile->ranked) {
      counts[geometry.index(id.layer, id.expert)] = rest--;
    }
  }
  return counts;
}

class Simulation {
 public:
  Simulation(const Trace& trace, const SimulationOptions& options);

  void run();
  [[nodiscard]] SimulationResult finish();
  [[nodiscard]] const SimulationResult& result() const noexcept { return result_; }
  // Called with each token that is over.
  std::function<void(std::int64_t token)> on_token;

 private:
  struct Copy {
    std::int32_t layer;
    std::int32_t expert;
    double lands;  // seconds
  };
  struct Slot {
    bool copied = false;  // by a copy that counts, not by the warm start
    std::int64_t hits = 0;
  };

  void set_quotas(const std::vector<double>& counts);
  void choose_quotas(const std::vector<double>& counts);
  void warm_start(const Profile& profile);
  void serve(const RoutingEvent& event);
  void admit_misses(const RoutingEvent& event);
  void end_token(std::int64_t token);
  void pass();
  void land();
  void place(std::int32_t layer, std::int32_t expert, bool copied);
  void evict(std::int32_t layer, std::int32_t expert);
  [[nodiscard]] bool has_room(std::int32_t layer) const;

  const Trace& trace_;
  const SimulationOptions& options_;
  ExpertGeometry geometry_;
  std::vector<std::int64_t> blob_bytes_;  // [layers]
  std::unique_ptr<Policy> policy_;
  AdaptivePass planner_;
  PassOptions pass_options_;
  std::vector<std::int32_t> quota_;  // [layers]
  std::vector<ExpertState> states_;  // [layers][experts]
  std::vector<Slot> slots_;          // [layers][experts], of what is resident
  std::vector<std::int32_t> held_;   // [layers] resident or arriving
  std::vector<float> scores_;        // [experts]
  std::deque<Copy> in_flight_;       // in the order they land
  std::int64_t free_bytes_ = 0;      // of the budget, all layers together
  std::int64_t token_ = 0;
  double now_ = 0;        // seconds
  double link_free_ = 0;  // when the link has done what it was given
  SimulationResult result_;
};

Simulation::Simulation(const Trace& trace, const SimulationOptions& options)
    : trace_(trace),
      options_(options),
      geometry_(geometry_of(trace, options)),
      blob_bytes_(options.blob_bytes),
      planner_(geometry_),
      pass_options_(options.pass),
      states_(geometry_.pairs(), ExpertState::kAbsent),
      slots_(geometry_.pairs()),
      held_(static_cast<std::size_t>(geometry_.layers)),
      scores_(static_cast<std::size_t>(geometry_.experts)) {
  const std::vector<double> counts = known_counts(options, geometry_);
  set_quotas(counts);
  const bool prior = (options.training != nullptr || options.profile != nullptr) &&
                     options.policy.kind != PolicyKind::kNone;
  const Profile profile =
      options.profile != nullptr ? *options.profile : profile_from_counts(counts, geometry_);
  policy_ = options.policy.kind == PolicyKind::kOptimum
                ? make_optimum(trace, geometry_)
                : make_policy(options.policy, geometry_, prior ? &profile : nullptr, quota_);
  if (prior) warm_start(profile);
  result_.policy = options.policy.kind;
  result_.half_life = options.policy.half_life;
  result_.quota = options.quota;
  result_.instant = options.instant;
  result_.capacity = options.capacity;
}

void Simulation::set_quotas(const std::vector<double>& counts) {
  const auto layers = static_cast<std::size_t>(geometry_.layers);
  std::vector<bool> seen(layers);
  for (std::size_t i = 0; i < trace_.size(); ++i) {
    seen[static_cast<std::size_t>(trace_[i].layer)] = true;
  }
  if (blob_bytes_.empty()) blob_bytes_.assign(layers, kExampleBlob);
  blob_bytes_.resize(layers, 0);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (!seen[layer]) blob_bytes_[layer] = 0;
    if (seen[layer] && blob_bytes_[layer] <= 0) {
      fail(ErrorKind::kUsage, "layer {} has experts in the trace, but no blob size", layer);
    }
  }
  const std::int64_t all =
      std::accumulate(blob_bytes_.begin(), blob_bytes_.end(), std::int64_t{0}) * geometry_.experts;
  free_bytes_ = std::llround(options_.capacity * static_cast<double>(all));
  if (!options_.slots.empty()) {
    quota_ = options_.slots;
    quota_.resize(layers, 0);
    free_bytes_ = all;
  } else {
    choose_quotas(counts);
  }
  result_.layers.resize(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    result_.layers[layer].slots = options_.quota == QuotaKind::kFirstCome ? 0 : quota_[layer];
  }
}

void Simulation::choose_quotas(const std::vector<double>& counts) {
  switch (options_.quota) {
    case QuotaKind::kEqual:
      quota_ = equal_quotas(free_bytes_, blob_bytes_, geometry_.experts);
      break;
    case QuotaKind::kMarginal:
      quota_ = marginal_quotas(free_bytes_, blob_bytes_, counts, geometry_);
      break;
    case QuotaKind::kFirstCome:
      quota_.assign(blob_bytes_.size(), geometry_.experts);
      break;
  }
}

void Simulation::warm_start(const Profile& profile) {
  for (const RankedExpert id : profile.ranked) {
    if (has_room(id.layer)) place(id.layer, id.expert, false);
  }
}

bool Simulation::has_room(std::int32_t layer) const {
  const auto l = static_cast<std::size_t>(layer);
  return held_[l] < quota_[l] && blob_bytes_[l] <= free_bytes_;
}

void Simulation::place(std::int32_t layer, std::int32_t expert, bool copied) {
  const auto l = static_cast<std::size_t>(layer);
  const std::size_t at = geometry_.index(layer, expert);
  copied = copied && token_ >= options_.first_token;
  ++held_[l];
  free_bytes_ -= blob_bytes_[l];
  slots_[at] = {copied, 0};
  states_[at] = ExpertState::kResident;
  if (!copied) return;
  ++result_.copies;
  result_.bytes_moved += blob_bytes_[l];
}

void Simulation::evict(std::int32_t layer, std::int32_t expert) {
  const std::size_t at = geometry_.index(layer, expert);
  --held_[static_cast<std::size_t>(layer)];
  free_bytes_ += blob_bytes_[static_cast<std::size_t>(layer)];
  states_[at] = ExpertState::kAbsent;
  if (!slots_[at].copied) return;
  ++(slots_[at].hits > 0 ? result_.copies_used : result_.copies_wasted);
}

void Simulation::serve(const RoutingEvent& event) {
  land();
  LayerResult& layer = result_.layers[static_cast<std::size_t>(event.layer)];
  for (const std::int32_t expert : event.experts) {
    const std::size_t at = geometry_.index(event.layer, expert);
    const bool hit = states_[at] == ExpertState::kResident;
    if (hit) ++slots_[at].hits;
    if (token_ < options_.first_token) continue;
    ++layer.picks;
    if (hit) {
      ++layer.hits;
      result_.copied_hits += slots_[at].copied ? 1 : 0;
    } else {
      result_.bytes_missed += blob_bytes_[static_cast<std::size_t>(event.layer)];
    }
  }
}

void Simulation::admit_misses(const RoutingEvent& event) {
  const Admission admission = policy_->admission();
  if (admission == Admission::kNever) return;
  const std::size_t row = geometry_.index(event.layer, 0);
  policy_->scores(event.layer, scores_);
  for (const std::int32_t expert : event.experts) {
    if (states_[row + static_cast<std::size_t>(expert)] == ExpertState::kResident) continue;
    const float score = scores_[static_cast<std::size_t>(expert)];
    if (score <= kNeverUsed) continue;
    if (!has_room(event.layer)) {
      if (admission == Admission::kFreeSlots) continue;
      std::int32_t victim = -1;
      for (std::int32_t e = 0; e < geometry_.experts; ++e) {
        const auto i = static_cast<std::size_t>(e);
        if (states_[row + i] != ExpertState::kResident) continue;
        if (victim < 0 || scores_[i] < scores_[static_cast<std::size_t>(victim)]) victim = e;
      }
      if (victim < 0) continue;
      const bool better = score > scores_[static_cast<std::size_t>(victim)];
      if (admission == Admission::kIfBetter && !better) continue;
      evict(event.layer, victim);
    }
    place(event.layer, expert, true);
  }
}

void Simulation::pass() {
  // Copies still under way would be waited for by newer ones: the link's budget of a pass.
  const double busy = std::max(link_free_ - now_, 0.0);
  const double period = options_.adapt_every * options_.token_seconds;
  if (busy >= period) return;
  for (const Swap& swap : planner_.plan(*policy_, states_, quota_, pass_options_)) {
    if (link_free_ - now_ >= period) break;
    if (swap.victim >= 0) {
      evict(swap.layer, swap.victim);
    } else if (!has_room(swap.layer)) {
      continue;
    }
    place(swap.layer, swap.newcomer, true);
    states_[geometry_.index(swap.layer, swap.newcomer)] = ExpertState::kArriving;
    const auto bytes = static_cast<double>(blob_bytes_[static_cast<std::size_t>(swap.layer)]);
    link_free_ = std::max(link_free_, now_) + bytes / options_.link.link;
    in_flight_.push_back({swap.layer, swap.newcomer, link_free_});
  }
}

void Simulation::land() {
  while (!in_flight_.empty() && in_flight_.front().lands <= now_) {
    const Copy& copy = in_flight_.front();
    states_[geometry_.index(copy.layer, copy.expert)] = ExpertState::kResident;
    in_flight_.pop_front();
  }
}

void Simulation::end_token(std::int64_t token) {
  policy_->end_token();
  now_ = static_cast<double>(token + 1) * options_.token_seconds;
  if (!options_.instant && (token + 1) % options_.adapt_every == 0) pass();
  if (on_token) on_token(token);
}

void Simulation::run() {
  for (std::size_t i = 0; i < trace_.size(); ++i) {
    const RoutingEvent event = trace_[i];
    token_ = event.token;
    const double share = static_cast<double>(event.layer) / static_cast<double>(geometry_.layers);
    now_ = (static_cast<double>(event.token) + share) * options_.token_seconds;
    serve(event);
    policy_->observe(event);
    if (options_.instant) admit_misses(event);
    if (i + 1 == trace_.size() || trace_[i + 1].token != event.token) end_token(event.token);
  }
}

SimulationResult Simulation::finish() {
  for (std::size_t at = 0; at < states_.size(); ++at) {
    if (states_[at] == ExpertState::kAbsent || !slots_[at].copied) continue;
    ++(slots_[at].hits > 0 ? result_.copies_used : result_.copies_wasted);
  }
  result_.tokens = std::max<std::int64_t>(trace_.tokens() - options_.first_token, 0);
  for (const LayerResult& layer : result_.layers) {
    result_.picks += layer.picks;
    result_.hits += layer.hits;
  }
  return std::move(result_);
}

}  // namespace

std::string_view quota_name(QuotaKind kind) noexcept {
  switch (kind) {
    case QuotaKind::kEqual:
      return "equal";
    case QuotaKind::kMarginal:
      return "marginal";
    case QuotaKind::kFirstCome:
      break;
  }
  return "first-come";
}

SimulationResult simulate(const Trace& trace, const SimulationOptions& options) {
  Simulation simulation(trace, options);
  simulation.run();
  return simulation.finish();
}

std::vector<double> hit_rate_over_time(const Trace& trace, const SimulationOptions& options,
                                       std::int32_t window) {
  assert(window > 0);
  Simulation simulation(trace, options);
  std::vector<double> rates;
  std::int64_t hits_before = 0;
  std::int64_t picks_before = 0;
  simulation.on_token = [&](std::int64_t token) {
    if ((token + 1) % window != 0) return;
    std::int64_t hits = 0;
    std::int64_t picks = 0;
    for (const LayerResult& layer : simulation.result().layers) {
      hits += layer.hits;
      picks += layer.picks;
    }
    const auto served = static_cast<double>(picks - picks_before);
    rates.push_back(served == 0 ? 0 : static_cast<double>(hits - hits_before) / served);
    hits_before = hits;
    picks_before = picks;
  };
  simulation.run();
  return rates;
}

std::vector<SimulationResult> simulate_grid(const Trace& trace, const GridOptions& options) {
  std::vector<SimulationResult> results;
  for (const QuotaKind quota : options.quotas) {
    for (const double capacity : options.capacities) {
      SimulationOptions one = options.common;
      one.quota = quota;
      one.capacity = capacity;
      for (const PolicyOptions& policy : options.policies) {
        one.policy = policy;
        results.push_back(simulate(trace, one));
      }
      if (quota == QuotaKind::kFirstCome) continue;  // the optimum is per layer
      one.policy = {.kind = PolicyKind::kOptimum};
      one.instant = true;
      results.push_back(simulate(trace, one));
    }
  }
  return results;
}

}  // namespace strata::core
