#include "strata/core/optimum_record.hpp"

#include "strata/core/simulator.hpp"

#include <algorithm>

namespace strata::core {
namespace {

constexpr std::uint16_t kMissing = 0xFFFF;

}  // namespace

OptimumRecord::OptimumRecord(ExpertGeometry geometry, int used, std::int64_t max_tokens)
    : geometry_(geometry), used_(used), max_tokens_(max_tokens) {
  ids_.reserve(static_cast<std::size_t>(max_tokens) * static_cast<std::size_t>(geometry.layers) *
               static_cast<std::size_t>(used));
}

void OptimumRecord::add(const WindowRouting& routing, const ExpertCache& cache) noexcept {
  for (int token = 0; token < routing.tokens() && tokens_ < max_tokens_; ++token, ++tokens_) {
    for (int layer = 0; layer < geometry_.layers; ++layer) {
      const std::span<const std::int32_t> experts = routing.ids(layer, token);
      if (experts.empty()) ids_.insert(ids_.end(), static_cast<std::size_t>(used_), kMissing);
      for (const std::int32_t expert : experts) {
        ids_.push_back(static_cast<std::uint16_t>(expert));
        ++picks_;
        hits_ += cache.slot_of({layer, expert}) == kNotResident ? 0 : 1;
      }
    }
  }
}

OptimumRecord::Result OptimumRecord::compare(const ExpertCache& cache) const {
  Result result{tokens_, 0, 0};
  if (picks_ == 0) return result;
  result.hit_rate = static_cast<double>(hits_) / static_cast<double>(picks_);

  Trace trace;
  std::vector<std::int32_t> experts;
  const std::vector<float> weights(static_cast<std::size_t>(used_));
  for (std::size_t i = 0; i < ids_.size(); i += static_cast<std::size_t>(used_)) {
    if (ids_[i] == kMissing) continue;
    const auto row = static_cast<std::int64_t>(i / static_cast<std::size_t>(used_));
    experts.assign(ids_.begin() + static_cast<std::ptrdiff_t>(i),
                   ids_.begin() + static_cast<std::ptrdiff_t>(i) + used_);
    trace.add({row / geometry_.layers, static_cast<std::int32_t>(row % geometry_.layers), experts,
               weights});
  }
  SimulationOptions options;
  options.policy.kind = PolicyKind::kOptimum;
  options.instant = true;
  options.experts = geometry_.experts;
  options.slots.assign(cache.quotas().begin(), cache.quotas().end());
  result.optimum = simulate(trace, options).hit_rate();
  return result;
}

}  // namespace strata::core
