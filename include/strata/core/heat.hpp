// How hot each expert is: uses per token, as exponentially decayed averages over several half-lives
// side by side, and the time of its last use.
//
// All counts of one half-life decay alike, so instead of shrinking 10,000s of them at every token
// the weight of a new use grows (forward decay); only their quotient matters. A use costs one
// addition per half-life; once in some 50 half-lives the counts are scaled down.
//
// Not thread-safe: one owner observes and reads between windows.
#pragma once

#include "strata/core/profile.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace strata::core {

class Heat {
 public:
  // Half-lives in tokens, each at least 1; at most kMaxScales of them.
  static constexpr std::size_t kMaxScales = 8;
  Heat(ExpertGeometry geometry, std::span<const float> half_lives);

  // Token path: no allocation, no lock. A use counts as its router weight relative to the mean
  // of its event, to the power `weight_power` (0: every use counts 1).
  void observe(std::int32_t layer, std::span<const std::int32_t> experts,
               std::span<const float> weights, float weight_power = 0) noexcept;
  void end_token() noexcept;

  // Prior knowledge: as if expert had been used `rate` times a token for `tokens` tokens that ended
  // just now. seed_tokens() must follow the last seed() with the same number.
  void seed(std::int32_t layer, std::int32_t expert, float rate, float tokens) noexcept;
  void seed_tokens(float tokens) noexcept;
  // A profile's order as a prior worth `tokens` tokens. Its list gives no frequencies, so each
  // layer gets the gently falling ones that routers show, bend / (place + bend) / 4 with bend =
  // experts/8.
  void seed(const Profile& profile, float tokens);

  // out[expert] = sum over half-lives of mix[scale] * rate[scale][layer][expert], uses per token;
  // of mixes that add up to 1 it is an estimate of the probability of use at the next token.
  void rates(std::int32_t layer, std::span<const float> mix, std::span<float> out) const noexcept;

  // -1 for never, else the number of picks of any layer that preceded its last use.
  [[nodiscard]] std::span<const std::int64_t> last_use(std::int32_t layer) const noexcept {
    return std::span(last_use_).subspan(geometry_.index(layer, 0),
                                        static_cast<std::size_t>(geometry_.experts));
  }
  [[nodiscard]] std::int64_t picks() const noexcept { return picks_; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] const ExpertGeometry& geometry() const noexcept { return geometry_; }
  [[nodiscard]] std::size_t scales() const noexcept { return scales_.size(); }

 private:
  struct Scale {
    float decay;      // of a count at one token
    float growth;     // 1 / decay
    float now;        // what a use counts at this token
    float remaining;  // decay^tokens: the part of the average that no token has filled yet
  };

  void rescale(std::size_t scale) noexcept;

  ExpertGeometry geometry_;
  std::vector<Scale> scales_;
  std::vector<float> counts_;           // [scales][layers][experts]
  std::vector<std::int64_t> last_use_;  // [layers][experts]
  std::int64_t picks_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace strata::core
