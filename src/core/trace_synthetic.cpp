#include "strata/core/trace_synthetic.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>
#include <vector>

namespace strata::core {
namespace {

// splitmix64: the standard's distributions differ from library to library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // In (0, 1).
  double uniform() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    return (static_cast<double>(z >> 11) + 0.5) * 0x1p-53;
  }
  double gaussian() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }
  double gumbel() { return -std::log(-std::log(uniform())); }

 private:
  std::uint64_t state_;
};

struct Layer {
  std::vector<double> base;   // log popularity
  std::vector<double> topic;  // what the topic adds
  std::vector<double> walk;   // what the moment adds
};

}  // namespace

SyntheticOptions scaled_to_experts(SyntheticOptions options) noexcept {
  options.zipf_bend *= options.experts / static_cast<double>(SyntheticOptions{}.experts);
  return options;
}

Trace synthetic_trace(const SyntheticOptions& options) {
  Trace trace;
  make_synthetic_trace(options, [&trace](const RoutingEvent& event) { trace.add(event); });
  return trace;
}

void make_synthetic_trace(const SyntheticOptions& o,
                          const std::function<void(const RoutingEvent&)>& event) {
  assert(o.layers > 0 && o.used > 0 && o.used <= o.experts && o.topic_tokens >= 1);
  Random random(o.seed);
  const auto experts = static_cast<std::size_t>(o.experts);
  const auto used = static_cast<std::size_t>(o.used);
  std::vector<Layer> layers(static_cast<std::size_t>(o.layers));
  for (Layer& layer : layers) {
    for (std::size_t e = 0; e < experts; ++e) {
      layer.base.push_back(-o.zipf * std::log(static_cast<double>(e + 1) + o.zipf_bend));
      layer.walk.push_back(o.walk_spread * random.gaussian());
    }
    for (std::size_t e = experts; e > 1; --e) {  // Fisher-Yates
      const auto other = static_cast<std::size_t>(random.uniform() * static_cast<double>(e));
      std::swap(layer.base[e - 1], layer.base[other]);
    }
    layer.topic.resize(experts);
  }
  const double fresh = o.walk_spread * std::sqrt(1 - o.persistence * o.persistence);
  std::vector<std::pair<double, std::int32_t>> keys(experts);
  std::vector<std::int32_t> ids(used);
  std::vector<float> weights(used);
  for (std::int64_t token = 0; token < o.tokens; ++token) {
    const bool new_topic = token == 0 || random.uniform() < 1 / o.topic_tokens;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      Layer& layer = layers[l];
      for (std::size_t e = 0; e < experts; ++e) {
        if (new_topic) layer.topic[e] = o.topic_spread * random.gaussian();
        layer.walk[e] = o.persistence * layer.walk[e] + fresh * random.gaussian();
        keys[e] = {layer.base[e] + layer.topic[e] + layer.walk[e] + random.gumbel(),
                   static_cast<std::int32_t>(e)};
      }
      std::partial_sort(keys.begin(), keys.begin() + o.used, keys.end(), std::greater<>());
      double sum = 0;
      for (std::size_t j = 0; j < used; ++j) sum += std::exp(keys[j].first - keys[0].first);
      for (std::size_t j = 0; j < used; ++j) {
        ids[j] = keys[j].second;
        weights[j] = static_cast<float>(std::exp(keys[j].first - keys[0].first) / sum);
      }
      event({token, static_cast<std::int32_t>(l), ids, weights});
    }
  }
}

}  // namespace strata::core
