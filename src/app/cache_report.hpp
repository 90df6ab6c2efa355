// What the expert cache did, as text and JSON.
#pragma once

#include "strata/runtime/engine.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace strata::app {

// For the start report: "cache    ..." with its size, share of the experts and policy. Empty
// without a cache.
[[nodiscard]] std::string describe_cache(const Engine& engine);

// For the end: hit rate by tier and by layer beside the optimum for the same text, copies and their
// use. Empty without a cache or before the first token.
[[nodiscard]] std::string cache_summary(const Engine& engine);

// Both, with every layer's numbers; null without a cache.
[[nodiscard]] nlohmann::ordered_json cache_json(const Engine& engine);

}  // namespace strata::app
