// Learns, while running, how much each of several half-lives says about what will be used.
//
// Experts of a layer are worth telling apart where the cache ends: those that are used much more or
// much less stay or leave whatever the weights. How long a history tells them apart depends on how
// hot they are, so on the size of the cache: at 8 of 512 some tokens, at 256 some hundreds. Hence a
// regression of what is used kLag tokens on, on the rates over each half-life now, in which an
// expert counts by how near its rate r is to that of the last one that has a slot, the bar b:
// (2x / (1 + x^2))^4 with x = r/b. A constant term takes what all experts have in common.
//
// Ridge regression: the weights one begins with are the mean of a normal prior; the noise of a use
// is taken to be the bar, as of a rare event. No weight falls below 0. Only the routing and the
// sizes of the cache have a say, so equal texts learn equal weights.
//
// One layer, or as many as have kExpertsAToken experts, is looked at a token, in turn.
// Not thread-safe: one owner observes and reads between windows.
#pragma once

#include "strata/core/heat.hpp"
#include "strata/core/profile.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace strata::core {

class MixtureLearner {
 public:
  static constexpr int kLag = 2;                  // tokens: a copy that starts now serves by then
  static constexpr int kExpertsAToken = 512;      // at least one layer
  static constexpr float kHalfLife = 1024;        // tokens until what was learned counts for half
  static constexpr float kPriorVariance = 0.04F;  // of a weight

  // `start`: [scales] the weights to begin with. `slots`: [layers] how many experts of each can be
  // resident; layers with none or with all of them teach nothing.
  MixtureLearner(ExpertGeometry geometry, std::span<const float> start,
                 std::span<const std::int32_t> slots);

  // Token path: no allocation, no lock. One event a token and layer, then end_token() with the heat
  // after the same token.
  void observe(std::int32_t layer, std::span<const std::int32_t> experts) noexcept;
  void end_token(const Heat& heat) noexcept;

  // [scales], none below 0.
  [[nodiscard]] std::span<const float> weights() const noexcept { return weights_; }

 private:
  // A layer's rates at some token, kept until it is seen what was used kLag tokens later.
  struct Sample {
    std::int32_t layer = -1;  // -1: none
    std::int64_t due = 0;     // token
    float bar = 0;
    std::vector<float> terms;     // [scales + 1][experts] rates by half-life, and the bar
    std::vector<float> weighted;  // the same times the expert's weight
  };
  static constexpr std::size_t kMostTerms = Heat::kMaxScales + 1;

  [[nodiscard]] std::span<float> row(std::vector<float>& of, std::size_t term) const noexcept;
  void take(Sample& sample, const Heat& heat, std::int32_t layer) noexcept;
  void add(Sample& sample, std::span<const std::int32_t> experts) noexcept;
  void solve() noexcept;

  ExpertGeometry geometry_;
  std::vector<float> start_;         // [scales]
  std::vector<float> weights_;       // [scales]
  std::vector<std::int32_t> slots_;  // [layers]
  std::vector<Sample> samples_;      // [kLag][layers a token]
  std::vector<float> scratch_;       // [experts]
  std::int32_t next_layer_ = 0;
  std::int64_t token_ = 0;
  // The normal equations, decayed sums: products of two terms, of which the lower triangle is kept,
  // products of a term and the use, and the solution.
  std::array<std::array<double, kMostTerms>, kMostTerms> products_{};
  std::array<double, kMostTerms> targets_{};
  std::array<double, kMostTerms> solution_{};
};

}  // namespace strata::core
