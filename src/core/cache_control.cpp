#include "strata/core/cache_control.hpp"

#include "strata/base/error.hpp"

#include <algorithm>
#include <array>

namespace strata::core {
namespace {

// Half-life in tokens of what a saved profile remembers, and how many tokens the profile it began
// with counts for: a short run must not undo a long one's knowledge.
constexpr std::array<float, 1> kLearnedHalfLife = {8192};
constexpr float kLearnedPrior = 1024;

}  // namespace

CacheControl::CacheControl(ExpertCache& cache, const ExpertStore& store, CopyEngine& copies,
                           const Profile* profile, const CacheControlOptions& options)
    : cache_(cache),
      store_(store),
      options_(options),
      geometry_{cache.layers(), cache.experts()},
      policy_(make_policy(options.policy, geometry_, profile, cache.quotas())),
      learned_(geometry_, kLearnedHalfLife),
      planner_(geometry_),
      copies_(copies),
      states_(geometry_.pairs(), ExpertState::kAbsent),
      residences_(geometry_.pairs()),
      scores_(static_cast<std::size_t>(geometry_.experts)),
      arriving_(static_cast<std::size_t>(cache.all_slots())),
      read_back_(static_cast<std::size_t>(geometry_.layers)),
      hits_profile_(static_cast<std::size_t>(geometry_.layers)) {
  landed_.reserve(arriving_.size());
  fetched_.reserve(arriving_.size());
  if (profile != nullptr) learned_.seed(*profile, kLearnedPrior);
}

CacheControl::~CacheControl() { copies_.stop(); }

void CacheControl::warm_start(const Profile& profile, const Progress& progress) {
  if (options_.policy.kind == PolicyKind::kNone) return;
  from_profile_ = true;
  fill(profile, progress);
}

void CacheControl::fill_evenly(const Progress& progress) {
  using enum PolicyKind;
  const PolicyKind kind = options_.policy.kind;
  const bool swaps = options_.adapt_every > 0 && kind != kNone && kind != kFill && kind != kStatic;
  const bool all = cache_.slots() == static_cast<int>(geometry_.pairs());
  if (!swaps && !(all && kind == kFill)) return;
  fill(profile_from_counts(std::vector<double>(geometry_.pairs(), 1.0), geometry_), progress);
}

void CacheControl::fill(const Profile& profile, const Progress& progress) {
  for (const RankedExpert ranked : profile.ranked) {
    if (cache_.held(ranked.layer) == cache_.quota(ranked.layer)) continue;
    start(cache_.begin({ranked.layer, ranked.expert}), true);
    ++swaps_.prefilled;
    land();
    if (progress) {
      progress("cache", static_cast<double>(swaps_.prefilled) / std::max(cache_.slots(), 1));
    }
  }
  drain();
}

void CacheControl::drain() {
  copies_.drain();
  land();
}

void CacheControl::start(const ExpertCache::Fill& fill, bool from_start) {
  arriving_[static_cast<std::size_t>(fill.slot)] = fill.id;
  states_[at(fill.id)] = ExpertState::kArriving;
  residences_[at(fill.id)] = {
      .from_start = from_start, .admitted = false, .served = false, .window = window_};
  copies_.submit(fill);
}

void CacheControl::land() {
  landed_.clear();
  copies_.collect(landed_);
  for (const std::int32_t slot : landed_) {
    const ExpertId id = arriving_[static_cast<std::size_t>(slot)];
    cache_.finish(slot);
    states_[at(id)] = ExpertState::kResident;
    std::uint8_t& checked = read_back_[static_cast<std::size_t>(id.layer)];
    if (checked != 0) continue;
    checked = 1;
    if (!cache_.verify(store_, slot)) {
      fail(
          ErrorKind::kInternal,
          "expert cache: slot {} does not hold the bytes of expert {} of layer {} that were copied "
          "to it: the accelerator's memory or link is faulty",
          slot, id.expert, id.layer);
    }
  }
}

void CacheControl::after_window(const WindowRouting& routing, double slow, double fast) {
  const Stopwatch watch;
  learn(routing);
  land();
  admit_fetched();
  if (options_.adapt_every > 0 && since_pass_ >= options_.adapt_every) pass(slow, fast);
  swaps_.bookkeeping_seconds += watch.seconds();
}

// Before anything lands: what is a hit depends on what was resident while the window ran.
void CacheControl::learn(const WindowRouting& routing) {
  ++window_;
  for (int token = 0; token < routing.tokens(); ++token) {
    for (int layer = 0; layer < geometry_.layers; ++layer) {
      const std::span<const std::int32_t> experts = routing.ids(layer, token);
      if (experts.empty()) continue;
      const std::span<const float> weights = routing.weights(layer, token);
      policy_->observe({tokens_, layer, experts, weights});
      learned_.observe(layer, experts, weights);
      count_hits(layer, experts);
    }
    policy_->end_token();
    learned_.end_token();
    ++tokens_;
  }
  since_pass_ += routing.tokens();
}

void CacheControl::count_hits(int layer, std::span<const std::int32_t> experts) {
  for (const std::int32_t expert : experts) {
    const std::size_t i = at({layer, expert});
    if (states_[i] != ExpertState::kResident || residences_[i].window == window_) continue;
    Residence& residence = residences_[i];
    residence.window = window_;
    if (residence.from_start) {
      if (from_profile_) ++hits_profile_[static_cast<std::size_t>(layer)];
    } else if (!residence.served) {
      ++(residence.admitted ? swaps_.admitted_useful : swaps_.useful);
    }
    residence.served = true;
  }
}

// The resident of the layer with the lowest of scores_, -1 without one.
std::int32_t CacheControl::coldest(int layer) const {
  std::int32_t lowest = -1;
  for (std::int32_t e = 0; e < geometry_.experts; ++e) {
    if (states_[at({layer, e})] != ExpertState::kResident) continue;
    const auto score = [this](std::int32_t i) { return scores_[static_cast<std::size_t>(i)]; };
    if (lowest < 0 || score(e) < score(lowest)) lowest = e;
  }
  return lowest;
}

void CacheControl::admit_fetched() {
  fetched_.clear();
  cache_.staged(fetched_);
  if (fetched_.empty()) return;
  const Admission admission = policy_->admission();
  const bool swaps = options_.adapt_every > 0;
  const float worthless = policy_->scores_are_rates() ? 0 : kNeverUsed;
  for (const auto& [slot, id] : fetched_) {
    if (admission == Admission::kNever || states_[at(id)] != ExpertState::kAbsent) continue;
    policy_->scores(id.layer, scores_);
    const float score = scores_[static_cast<std::size_t>(id.expert)];
    if (score <= worthless) continue;
    if (cache_.held(id.layer) < cache_.quota(id.layer)) {
      cache_.adopt(slot);
    } else {
      if (!swaps || admission == Admission::kFreeSlots) continue;
      const std::int32_t victim = coldest(id.layer);
      if (victim < 0 || score <= scores_[static_cast<std::size_t>(victim)]) continue;
      leave({id.layer, victim});
      cache_.adopt(slot, {id.layer, victim});
    }
    states_[at(id)] = ExpertState::kResident;
    residences_[at(id)] = {
        .from_start = false, .admitted = true, .served = false, .window = window_};
    ++swaps_.admitted;
  }
  cache_.forget_staged();
}

void CacheControl::pass(double slow, double fast) {
  const Stopwatch watch;
  LinkModel link;
  if (copies_.speed() > 0) link.link = copies_.speed();
  if (slow > 0) link.slow = slow;
  // An accelerator is taken to be four times the pool at least: the stand-in, which shares the
  // pool's cores, would otherwise never be worth a copy.
  link.fast = std::max(fast, 4 * link.slow);
  // A prompt's window is many tokens, with the passes of all of them due at once.
  const std::int64_t due = since_pass_ / options_.adapt_every;
  const auto most = std::min<std::int64_t>(due * options_.max_swaps, cache_.slots());
  const PassOptions options{.max_swaps = static_cast<std::int32_t>(most),
                            .swap_cost = link.swap_cost()};
  // No more than the link carries until the next pass: a victim has left long before a newcomer
  // arrives that waits behind others.
  const double budget = std::max(link.link * pass_watch_.restart(), 1.0);
  since_pass_ = 0;
  for (const Swap& swap : planner_.plan(*policy_, states_, cache_.quotas(), options)) {
    if (static_cast<double>(copies_.bytes_under_way()) >= budget) break;
    const ExpertId newcomer{swap.layer, swap.newcomer};
    ExpertCache::Fill fill{};
    if (swap.victim < 0) {
      fill = cache_.begin(newcomer);
    } else {
      const ExpertId victim{swap.layer, swap.victim};
      leave(victim);
      fill = cache_.begin(newcomer, victim);
      ++swaps_.replaced;
    }
    ++swaps_.copies;
    swaps_.bytes_copied += fill.bytes;
    start(fill, false);
  }
  ++swaps_.passes;
  swaps_.pass_seconds += watch.seconds();
}

void CacheControl::leave(ExpertId victim) {
  states_[at(victim)] = ExpertState::kAbsent;
  const Residence& residence = residences_[at(victim)];
  if (!residence.from_start && !residence.admitted && !residence.served) ++swaps_.wasted;
}

Profile CacheControl::learned_profile() const {
  std::vector<double> counts(geometry_.pairs());
  std::vector<float> rates(static_cast<std::size_t>(geometry_.experts));
  constexpr std::array<float, 1> kAll = {1};
  for (int layer = 0; layer < geometry_.layers; ++layer) {
    learned_.rates(layer, kAll, rates);
    std::ranges::copy(rates,
                      counts.begin() + static_cast<std::ptrdiff_t>(geometry_.index(layer, 0)));
  }
  return profile_from_counts(counts, geometry_, static_cast<std::uint32_t>(cache_.slots()));
}

}  // namespace strata::core
