// What follows what: of the tokens at which a layer's router chose expert a, the share at whose
// next token it chose expert b. Learned while running; it tells which experts the coming token
// wants beyond what their own history does (docs/cache-policies.md has what that is worth).
//
// A table of experts x experts floats a layer: 50 MB at 48 x 512, 0.2 MB at 12 x 64.
// Not thread-safe: one owner observes and reads between windows.
#pragma once

#include "strata/core/profile.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace strata::core {

class Successors {
 public:
  // `prior`: an expert's row counts like this many uses that were followed by nothing special.
  Successors(ExpertGeometry geometry, float prior);

  // What one takes of RAM, but for what grows with the layers and experts alone.
  [[nodiscard]] static std::uint64_t table_bytes(ExpertGeometry geometry) noexcept {
    return std::uint64_t{geometry.pairs()} * static_cast<std::uint64_t>(geometry.experts) *
           sizeof(float);
  }

  // Token path, one event a token and layer: no lock; allocates at a layer's first event only.
  void observe(std::int32_t layer, std::span<const std::int32_t> experts) noexcept;

  // Adds to out[expert] `weight` times how much more often than at its own rate it is chosen after
  // the experts that were chosen last: mean over these of (share after it - rate). rates: [experts]
  // uses a token in the long run.
  void add_lift(std::int32_t layer, float weight, std::span<const float> rates,
                std::span<float> out) const noexcept;

 private:
  [[nodiscard]] std::span<float> row(std::int32_t layer, std::int32_t expert) noexcept;

  ExpertGeometry geometry_;
  float prior_;
  std::vector<float> uses_;                      // [layers][experts] that have a next token
  std::vector<float> followed_;                  // [layers][experts][experts] by whom
  std::vector<std::vector<std::int32_t>> last_;  // [layers] the latest choice
};

}  // namespace strata::core
