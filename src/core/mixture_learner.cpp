#include "strata/core/mixture_learner.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>

namespace strata::core {
namespace {

// Of the constant term, in units of the bar: next to nothing is known about it.
constexpr double kConstantVariance = 1;
// Rates below are those of a cache that has room for what was hardly ever used.
constexpr float kLeastBar = 1e-5F;
// Steps of the solver a token; it goes on where it stopped at the last one.
constexpr int kSweeps = 2;

// In lanes, so that an addition need not wait for the one before.
double dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

MixtureLearner::MixtureLearner(ExpertGeometry geometry, std::span<const float> start,
                               std::span<const std::int32_t> slots)
    : geometry_(geometry),
      start_(start.begin(), start.end()),
      weights_(start_),
      slots_(slots.begin(), slots.end()),
      scratch_(static_cast<std::size_t>(geometry.experts)) {
  assert(geometry.experts > 0 && start.size() <= Heat::kMaxScales);
  assert(slots.size() == static_cast<std::size_t>(geometry.layers));
  const int layers = std::clamp(kExpertsAToken / geometry.experts, 1, geometry.layers);
  samples_.resize(std::size_t{kLag} * static_cast<std::size_t>(layers));
  for (Sample& sample : samples_) {
    sample.terms.resize((start.size() + 1) * scratch_.size());
    sample.weighted.resize(sample.terms.size());
  }
  std::copy(start.begin(), start.end(), solution_.begin());
}

std::span<float> MixtureLearner::row(std::vector<float>& of, std::size_t term) const noexcept {
  return std::span(of).subspan(term * scratch_.size(), scratch_.size());
}

void MixtureLearner::observe(std::int32_t layer, std::span<const std::int32_t> experts) noexcept {
  for (Sample& sample : samples_) {
    if (sample.layer == layer && sample.due == token_) add(sample, experts);
  }
}

void MixtureLearner::end_token(const Heat& heat) noexcept {
  static const double decay = std::exp2(-1.0 / kHalfLife);
  for (auto& products : products_) {
    for (double& product : products) product *= decay;
  }
  for (double& target : targets_) target *= decay;
  solve();
  ++token_;
  const std::size_t layers = samples_.size() / kLag;
  const std::size_t first = static_cast<std::size_t>(token_ % kLag) * layers;
  for (Sample& sample : std::span(samples_).subspan(first, layers)) {
    take(sample, heat, next_layer_);
    next_layer_ = next_layer_ + 1 == geometry_.layers ? 0 : next_layer_ + 1;
  }
}

void MixtureLearner::take(Sample& sample, const Heat& heat, std::int32_t layer) noexcept {
  const std::int32_t slots = slots_[static_cast<std::size_t>(layer)];
  sample.layer = -1;
  if (slots <= 0 || slots >= geometry_.experts) return;
  heat.rates(layer, weights_, scratch_);
  const std::span<float> importance = row(sample.weighted, start_.size());
  std::copy(scratch_.begin(), scratch_.end(), importance.begin());
  const auto last = scratch_.begin() + slots - 1;
  std::nth_element(scratch_.begin(), last, scratch_.end(), std::greater<>());
  sample.bar = *last;
  if (!(sample.bar > kLeastBar)) return;
  for (float& rate : importance) {
    const float x = rate / sample.bar;
    const float nearness = 2 * x / (1 + x * x);
    rate = nearness * nearness * nearness * nearness;
  }
  std::array<float, Heat::kMaxScales> one{};
  for (std::size_t term = 0; term < start_.size(); ++term) {
    const std::span<float> rates = row(sample.terms, term);
    one[term] = 1;
    heat.rates(layer, std::span(one).first(start_.size()), rates);
    one[term] = 0;
    std::transform(rates.begin(), rates.end(), importance.begin(),
                   row(sample.weighted, term).begin(), std::multiplies<>());
  }
  std::ranges::fill(row(sample.terms, start_.size()), sample.bar);
  for (float& weight : importance) weight *= sample.bar;
  sample.layer = layer;
  sample.due = token_ + kLag - 1;
}

void MixtureLearner::add(Sample& sample, std::span<const std::int32_t> experts) noexcept {
  const double precision = 1 / static_cast<double>(sample.bar);
  for (std::size_t i = 0; i <= start_.size(); ++i) {
    const std::span<const float> weighted = row(sample.weighted, i);
    for (std::size_t j = 0; j <= i; ++j) {
      products_[i][j] += precision * dot(weighted, row(sample.terms, j));
    }
    for (const std::int32_t expert : experts) {
      targets_[i] += precision * static_cast<double>(weighted[static_cast<std::size_t>(expert)]);
    }
  }
  sample.layer = -1;
}

// Coordinate descent: each weight in turn is set to the best one, given the others.
void MixtureLearner::solve() noexcept {
  const std::size_t scales = start_.size();
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i <= scales; ++i) {
      const bool constant = i == scales;
      const double prior = 1 / (constant ? kConstantVariance : double{kPriorVariance});
      double rest = targets_[i] + (constant ? 0 : prior * double{start_[i]});
      for (std::size_t j = 0; j <= scales; ++j) {
        if (j != i) rest -= (j < i ? products_[i][j] : products_[j][i]) * solution_[j];
      }
      const double best = rest / (products_[i][i] + prior);
      solution_[i] = constant ? best : std::max(best, 0.0);
    }
  }
  for (std::size_t i = 0; i < scales; ++i) weights_[i] = static_cast<float>(solution_[i]);
}

}  // namespace strata::core
