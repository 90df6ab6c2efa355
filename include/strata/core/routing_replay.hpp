// A routing trace in the router's place: speed and hit rates of a model whose weights are random
// become those of the text that the trace was recorded or made up for.
#pragma once

#include "strata/core/profile.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace strata::core {

// Immutable once loaded; may be read by any number of threads.
class RoutingReplay {
 public:
  // Reads the trace, which must hold `used` experts, below geometry.experts, for every token at
  // every layer of the model. Error(kInput) names the first token where it does not, and as
  // TraceReader for a file that is cut off or no trace.
  RoutingReplay(const std::filesystem::path& path, ExpertGeometry geometry, int used);

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }

  // What the trace's token chose at the layer, [used]; past its end the trace begins anew. Weights
  // are the trace's; where a record has only zeros, each expert's is 1 / used.
  [[nodiscard]] std::span<const std::int32_t> experts(int layer,
                                                      std::int64_t token) const noexcept {
    return std::span(experts_).subspan(at(layer, token), used_);
  }
  [[nodiscard]] std::span<const float> weights(int layer, std::int64_t token) const noexcept {
    return std::span(weights_).subspan(at(layer, token), used_);
  }

 private:
  [[nodiscard]] std::size_t at(int layer, std::int64_t token) const noexcept {
    return (static_cast<std::size_t>(token % tokens_) * layers_ + static_cast<std::size_t>(layer)) *
           used_;
  }

  std::size_t layers_;
  std::size_t used_;
  std::int64_t tokens_ = 0;
  std::vector<std::int32_t> experts_;  // [tokens][layers][used]
  std::vector<float> weights_;         // the same
};

}  // namespace strata::core
