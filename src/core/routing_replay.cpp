#include "strata/core/routing_replay.hpp"

#include "strata/base/error.hpp"
#include "strata/core/trace.hpp"

#include <algorithm>

namespace strata::core {

RoutingReplay::RoutingReplay(const std::filesystem::path& path, ExpertGeometry geometry, int used)
    : layers_(static_cast<std::size_t>(geometry.layers)), used_(static_cast<std::size_t>(used)) {
  TraceReader reader(path);
  const std::string name = path.string();
  std::int32_t next = 0;  // the layer whose record is due
  for (RoutingEvent event; reader.next(event);) {
    if (event.layer >= geometry.layers || event.experts.size() != used_) {
      fail(
          ErrorKind::kInput,
          "{}: token {} has {} experts at layer {}; the model has {} layers and uses {} experts in "
          "each: give a trace of this model, or make one with strata trace --model",
          name, event.token, event.experts.size(), event.layer, geometry.layers, used);
    }
    if (event.layer != next || event.token != tokens_) {
      fail(ErrorKind::kInput,
           "{}: token {} has no record of layer {}; a trace that is replayed has every layer of "
           "every token",
           name, tokens_, next);
    }
    const std::int32_t highest = std::ranges::max(event.experts);
    if (highest >= geometry.experts) {
      fail(ErrorKind::kInput, "{}: token {} uses expert {} at layer {}; the model has {} a layer",
           name, event.token, highest, event.layer, geometry.experts);
    }
    experts_.insert(experts_.end(), event.experts.begin(), event.experts.end());
    const bool known = std::ranges::any_of(event.weights, [](float w) { return w != 0; });
    if (known) {
      weights_.insert(weights_.end(), event.weights.begin(), event.weights.end());
    } else {
      weights_.insert(weights_.end(), used_, 1.0F / static_cast<float>(used));
    }
    next = (next + 1) % geometry.layers;
    if (next == 0) ++tokens_;
  }
  if (next != 0) {
    fail(ErrorKind::kInput,
         "{}: the last token, {}, has no record of layer {}; was the trace "
         "copied whole?",
         name, tokens_, next);
  }
  if (tokens_ == 0) fail(ErrorKind::kInput, "{}: the trace is empty", name);
}

}  // namespace strata::core
