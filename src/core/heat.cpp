#include "strata/core/heat.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>

namespace strata::core {
namespace {

constexpr float kRescaleAt = 0x1p50F;  // far below float's 2^127, with room for a sum of uses
constexpr float kForget = 0x1p-40F;    // of a use of now: smaller counts become 0, never denormal

struct Term {
  float factor;
  const float* counts;  // [experts]
};

// out = sum of factor * counts, a block at a time so that sums stay in registers.
void add_up(std::span<const Term> terms, std::span<float> out) {
  constexpr std::size_t kBlock = 16;
  std::size_t e = 0;
  for (; e + kBlock <= out.size(); e += kBlock) {
    std::array<float, kBlock> sums{};
    for (const Term& term : terms) {
      for (std::size_t i = 0; i < kBlock; ++i) sums[i] += term.factor * term.counts[e + i];
    }
    std::copy(sums.begin(), sums.end(), out.begin() + static_cast<std::ptrdiff_t>(e));
  }
  for (; e < out.size(); ++e) {
    out[e] = 0;
    for (const Term& term : terms) out[e] += term.factor * term.counts[e];
  }
}

}  // namespace

Heat::Heat(ExpertGeometry geometry, std::span<const float> half_lives)
    : geometry_(geometry),
      counts_(geometry.pairs() * half_lives.size()),
      last_use_(geometry.pairs(), -1) {
  assert(half_lives.size() <= kMaxScales);
  for (const float half_life : half_lives) {
    assert(half_life >= 1);
    const float decay = std::exp2(-1 / half_life);
    scales_.push_back({decay, 1 / decay, 1, 1});
  }
}

void Heat::observe(std::int32_t layer, std::span<const std::int32_t> experts,
                   std::span<const float> weights, float weight_power) noexcept {
  const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
  const bool weighted = weight_power > 0 && sum > 0;
  const float to_mean = weighted ? static_cast<float>(experts.size()) / sum : 0;
  const std::size_t row = geometry_.index(layer, 0);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const std::size_t at = row + static_cast<std::size_t>(experts[i]);
    const float use = weighted ? std::pow(std::max(weights[i] * to_mean, 0.0F), weight_power) : 1;
    for (std::size_t s = 0; s < scales_.size(); ++s) {
      counts_[s * geometry_.pairs() + at] += use * scales_[s].now;
    }
    last_use_[at] = picks_++;
  }
}

void Heat::end_token() noexcept {
  ++tokens_;
  for (std::size_t s = 0; s < scales_.size(); ++s) {
    Scale& scale = scales_[s];
    scale.now *= scale.growth;
    scale.remaining *= scale.decay;
    if (scale.now > kRescaleAt) rescale(s);
  }
}

void Heat::rescale(std::size_t scale) noexcept {
  const float factor = 1 / scales_[scale].now;
  scales_[scale].now = 1;
  for (float& count : std::span(counts_).subspan(scale * geometry_.pairs(), geometry_.pairs())) {
    count *= factor;
    if (count < kForget) count = 0;
  }
}

void Heat::seed(std::int32_t layer, std::int32_t expert, float rate, float tokens) noexcept {
  for (std::size_t s = 0; s < scales_.size(); ++s) {
    const Scale& scale = scales_[s];
    const float share = 1 - std::pow(scale.decay, tokens);
    counts_[s * geometry_.pairs() + geometry_.index(layer, expert)] +=
        rate * share * scale.now / (scale.growth - 1);
  }
}

void Heat::seed_tokens(float tokens) noexcept {
  for (Scale& scale : scales_) scale.remaining *= std::pow(scale.decay, tokens);
}

void Heat::seed(const Profile& profile, float tokens) {
  const float bend = static_cast<float>(geometry_.experts) / 8;
  std::vector<std::int32_t> place(static_cast<std::size_t>(geometry_.layers), 0);
  for (const RankedExpert id : profile.ranked) {
    const auto i = static_cast<float>(place[id.layer]++);
    seed(id.layer, id.expert, bend / (i + bend) / 4, tokens);
  }
  seed_tokens(tokens);
}

void Heat::rates(std::int32_t layer, std::span<const float> mix,
                 std::span<float> out) const noexcept {
  assert(mix.size() == scales_.size());
  std::array<Term, kMaxScales> terms;
  std::size_t count = 0;
  for (std::size_t s = 0; s < scales_.size(); ++s) {
    const Scale& scale = scales_[s];
    const float filled = 1 - scale.remaining;
    if (mix[s] == 0 || filled <= 0) continue;
    // A use at every token has the count now / (growth - 1) after infinitely many.
    terms[count++] = {mix[s] * (scale.growth - 1) / (scale.now * filled),
                      counts_.data() + s * geometry_.pairs() + geometry_.index(layer, 0)};
  }
  add_up(std::span(terms).first(count), out);
}

}  // namespace strata::core
