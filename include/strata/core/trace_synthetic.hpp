// Routing traces made up by a model of how routers choose: for sizes of model that no recorded
// trace is at hand for, and for tests. The default is fitted to published hit rates of LRU on a
// model of 48 layers x 512 experts (docs/cache-policies.md). Every layer on its own:
//   - experts have a base popularity, 1 / (place + zipf_bend)^zipf over a random order (the law of
//     Zipf and Mandelbrot: the bend keeps the head flat);
//   - a topic multiplies each expert's by a random factor, exp(topic_spread * gaussian), and lasts
//     a random number of tokens (geometric);
//   - what the text is about just now does the same on a shorter scale: a random walk of each
//     expert's logarithm that forgets at `persistence` a token;
//   - a token takes the `used` highest of log popularity + Gumbel noise: a draw without
//   replacement.
// The same options give the same trace on every machine with the same standard library functions.
#pragma once

#include "strata/core/trace.hpp"

#include <cstdint>
#include <functional>

namespace strata::core {

struct SyntheticOptions {
  std::int32_t layers = 48;
  std::int32_t experts = 512;
  std::int32_t used = 10;
  std::int64_t tokens = 1000;
  std::uint64_t seed = 1;
  double zipf = 4;            // exponent of the base popularity
  double zipf_bend = 150;     // places over which it is still flat
  double topic_spread = 0.5;  // standard deviation of a topic's log factors
  double topic_tokens = 400;  // mean length of a topic
  double walk_spread = 1.2;   // standard deviation of the short walk
  double persistence = 0.95;  // correlation of the walk from token to token
};

[[nodiscard]] Trace synthetic_trace(const SyntheticOptions& options);

// The same event by event, in constant memory. An event's spans live until `event` returns.
void make_synthetic_trace(const SyntheticOptions& options,
                          const std::function<void(const RoutingEvent&)>& event);

// The defaults are fitted to 512 experts: with another number the flat head is as large a part of
// them.
[[nodiscard]] SyntheticOptions scaled_to_experts(SyntheticOptions options) noexcept;

}  // namespace strata::core
