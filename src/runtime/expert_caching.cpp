#include "strata/runtime/expert_caching.hpp"

#include "strata/base/error.hpp"
#include "strata/core/quota.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace strata::runtime {
namespace {

core::ExpertGeometry geometry_of(const model::HParams& h) { return {h.layers, h.experts}; }

std::optional<core::Profile> read_profile(const CacheOptions& options, const model::HParams& h) {
  if (options.profile.empty()) {
    if (options.policy.kind == core::PolicyKind::kStatic) {
      fail(ErrorKind::kUsage,
           "--cache-policy static keeps what a profile names: give one with --expert-profile");
    }
    return std::nullopt;
  }
  return core::read_profile(options.profile, geometry_of(h));
}

}  // namespace

ExpertCaching::ExpertCaching(const CacheOptions& options, const model::HParams& h,
                             device::Device* gpu, const device::CpuDeviceOptions& stand_in)
    : options_(options),
      geometry_(geometry_of(h)),
      profile_(read_profile(options, h)),
      stand_in_(gpu != nullptr ? nullptr
                               : std::make_unique<StandIn>(options.accelerator_threads, stand_in)),
      accelerator_(gpu != nullptr ? *gpu : stand_in_->device),
      copies_(accelerator_.make_copier(), options.link_bytes_per_second),
      record_(geometry_, h.experts_used, kRecordedTokens) {}

ExpertCaching::~ExpertCaching() {
  if (saving_.valid()) saving_.wait();
}

std::string ExpertCaching::accelerator() const {
  if (!stand_in_) return accelerator_.description();
  const int threads = stand_in_->threads.size();
  return fmt::format("stand-in with {} thread{} and an arena in RAM", threads,
                     threads == 1 ? "" : "s");
}

// In bytes where layers differ in size or the user named bytes, in slots where he named slots.
std::vector<int> ExpertCaching::choose_quotas(const core::ExpertStore& store) const {
  const bool slots = options_.size.kind == core::CacheRequest::Kind::kSlots;
  std::vector<std::int64_t> cost;
  for (int layer = 0; layer < geometry_.layers; ++layer) {
    const std::size_t bytes = core::ExpertCache::slot_bytes(store.layout(layer));
    cost.push_back(slots ? 1 : static_cast<std::int64_t>(bytes));
  }
  const auto budget =
      slots ? std::min<std::uint64_t>(options_.size.amount, geometry_.pairs()) : plan_.cache_bytes;
  if (!profile_ || options_.equal_quotas) {
    return core::equal_quotas(static_cast<std::int64_t>(budget), cost, geometry_.experts);
  }
  core::Heat heat(geometry_, std::array{64.0F});
  heat.seed(*profile_, 64);
  std::vector<double> rates;
  std::vector<float> of_layer(static_cast<std::size_t>(geometry_.experts));
  for (int layer = 0; layer < geometry_.layers; ++layer) {
    heat.rates(layer, std::array{1.0F}, of_layer);
    rates.insert(rates.end(), of_layer.begin(), of_layer.end());
  }
  return core::marginal_quotas(static_cast<std::int64_t>(budget), cost, rates, geometry_);
}

void ExpertCaching::attach(const Model& model, Forward& forward, const core::Plan& plan,
                           const core::Progress& progress) {
  plan_ = plan;
  if (const std::optional<std::size_t> free = accelerator_.free_bytes()) {
    core::refit_cache(plan_, options_.size, *free);
  }
  planned_bytes_ = plan.cache_bytes;
  forward_ = &forward;
  make_cache(model.experts);
  control_ = std::make_unique<core::CacheControl>(
      *cache_, model.experts, copies_, profile_ ? &*profile_ : nullptr,
      core::CacheControlOptions{options_.policy, options_.adapt_every, options_.adapt_swaps});
  if (profile_) {
    control_->warm_start(*profile_, progress);
  } else if (!stand_in_) {
    control_->fill_evenly(progress);
  }
  forward.tiers().attach(*cache_, accelerator_, forward.max_window() * model.h.experts_used);
  forward.tiers().fetch(*options_.fetch, options_.link_bytes_per_second);
}

// What is free need not be had in one piece: a cache of all that fits becomes as small as it must.
void ExpertCaching::make_cache(const core::ExpertStore& store) {
  const std::uint64_t step = std::max<std::uint64_t>(plan_.cache_bytes / 16, 1);
  while (!cache_) {
    try {
      cache_ = std::make_unique<core::ExpertCache>(accelerator_, store, geometry_.experts,
                                                   choose_quotas(store),
                                                   options_.fetch->off() ? 0 : core::kFetchStaging);
    } catch (const Error& error) {
      const bool smaller = options_.size.kind == core::CacheRequest::Kind::kAuto &&
                           error.kind() == ErrorKind::kResource && plan_.cache_bytes > step;
      if (!smaller) throw;
      plan_.cache_bytes -= step;
    }
  }
}

void ExpertCaching::after_window(const core::WindowRouting& routing) {
  record_.add(routing, *cache_);
  const core::TierCounts total = forward_->tiers().total();
  const auto speed = [](std::uint64_t bytes, double seconds) {
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  };
  control_->after_window(routing, speed(total.miss_bytes, total.miss_seconds),
                         speed(total.hit_bytes, total.hit_seconds));
  save_when_due();
}

// Beside the forward pass: a disk takes its time. An error is told at the end, by save().
void ExpertCaching::save_when_due() {
  if (options_.save_profile.empty() || options_.save_every_minutes <= 0) return;
  if (since_save_.seconds() < 60 * options_.save_every_minutes) return;
  if (saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return;
  since_save_.restart();
  saving_ = std::async(std::launch::async,
                       [path = options_.save_profile, profile = control_->learned_profile()] {
                         core::write_profile(path, profile);
                       });
}

void ExpertCaching::save() {
  if (options_.save_profile.empty()) return;
  if (saving_.valid()) saving_.wait();
  core::write_profile(options_.save_profile, control_->learned_profile());
}

}  // namespace strata::runtime
