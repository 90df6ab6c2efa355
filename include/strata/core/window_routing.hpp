// What the router chose in one window. The forward pass adds it layer by layer; who learns from it
// reads it token by token once the window is over.
#pragma once

#include "strata/core/profile.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace strata::core {

// Not thread-safe. No allocation after construction.
class WindowRouting {
 public:
  // `used`: experts a token and layer. `max_tokens`: rows of the largest window.
  WindowRouting(ExpertGeometry geometry, int used, int max_tokens);

  void clear() noexcept;
  // Token path, once a layer. ids, weights: [rows][used].
  void add(int layer, std::span<const std::int32_t> ids, std::span<const float> weights) noexcept;

  // Tokens of the window: the most rows that any layer has.
  [[nodiscard]] int tokens() const noexcept { return tokens_; }
  // The choice of the window's token `token` at `layer`, or empty where that layer has no row of
  // it: the last layer computes only the rows whose logits are wanted, which are taken for the
  // window's last tokens.
  [[nodiscard]] std::span<const std::int32_t> ids(int layer, int token) const noexcept;
  [[nodiscard]] std::span<const float> weights(int layer, int token) const noexcept;
  // All rows of a layer, [rows][used].
  [[nodiscard]] std::span<const std::int32_t> ids(int layer) const noexcept;
  [[nodiscard]] std::span<const float> weights(int layer) const noexcept;
  [[nodiscard]] int used() const noexcept { return used_; }
  [[nodiscard]] const ExpertGeometry& geometry() const noexcept { return geometry_; }

 private:
  [[nodiscard]] std::size_t begin(int layer) const noexcept;
  [[nodiscard]] std::size_t picks(int layer) const noexcept;  // rows times used
  // Place of a token's choice in ids_ and weights_, and whether there is one.
  [[nodiscard]] bool find(int layer, int token, std::size_t& at) const noexcept;

  ExpertGeometry geometry_;
  int used_;
  int max_tokens_;
  int tokens_ = 0;
  std::vector<int> rows_;          // [layers]
  std::vector<std::int32_t> ids_;  // [layers][max_tokens][used]
  std::vector<float> weights_;     // the same
};

}  // namespace strata::core
