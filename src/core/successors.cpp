#include "strata/core/successors.hpp"

#include <cstddef>

namespace strata::core {
namespace {

// A row's counts are halved at so many uses: it then forgets, with a half-life of as many.
constexpr float kHalveAt = 4096;

}  // namespace

Successors::Successors(ExpertGeometry geometry, float prior)
    : geometry_(geometry),
      prior_(prior),
      uses_(geometry.pairs()),
      followed_(geometry.pairs() * static_cast<std::size_t>(geometry.experts)),
      last_(static_cast<std::size_t>(geometry.layers)) {}

std::span<float> Successors::row(std::int32_t layer, std::int32_t expert) noexcept {
  const auto experts = static_cast<std::size_t>(geometry_.experts);
  return std::span(followed_).subspan(geometry_.index(layer, expert) * experts, experts);
}

void Successors::observe(std::int32_t layer, std::span<const std::int32_t> experts) noexcept {
  std::vector<std::int32_t>& last = last_[static_cast<std::size_t>(layer)];
  for (const std::int32_t before : last) {
    const std::span<float> counts = row(layer, before);
    for (const std::int32_t expert : experts) counts[static_cast<std::size_t>(expert)] += 1;
    float& uses = uses_[geometry_.index(layer, before)];
    uses += 1;
    if (uses < kHalveAt) continue;
    uses /= 2;
    for (float& count : counts) count /= 2;
  }
  last.assign(experts.begin(), experts.end());
}

void Successors::add_lift(std::int32_t layer, float weight, std::span<const float> rates,
                          std::span<float> out) const noexcept {
  const std::vector<std::int32_t>& last = last_[static_cast<std::size_t>(layer)];
  const auto experts = static_cast<std::size_t>(geometry_.experts);
  float known = 0;  // share of the rows that is no prior
  for (const std::int32_t expert : last) {
    const std::size_t at = geometry_.index(layer, expert);
    const float scale = weight / (static_cast<float>(last.size()) * (uses_[at] + prior_));
    known += scale * uses_[at];
    const float* counts = followed_.data() + at * experts;
    for (std::size_t e = 0; e < experts; ++e) out[e] += scale * counts[e];
  }
  for (std::size_t e = 0; e < experts; ++e) out[e] -= known * rates[e];
}

}  // namespace strata::core
