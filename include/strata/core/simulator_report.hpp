// Results of the simulator as text for people, JSON for programs, and plots.
#pragma once

#include "strata/core/simulator.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::core {

// "lru", "lfu:32": a policy with the half-life that tells it apart from others of its kind.
[[nodiscard]] std::string policy_label(PolicyKind kind, float half_life);

// One line a result, in the order given; ends with a newline.
[[nodiscard]] std::string format_table(std::span<const SimulationResult> results);

// One line a layer that has experts: slots and hit rate under each result, in the order given.
[[nodiscard]] std::string format_layers(std::span<const SimulationResult> results);

// {"results": [{"policy", "quota", "mode", "capacity", "slots", "half_life", "tokens", "picks",
//   "hits", "hit_rate", "copies", "copies_used", "copies_wasted", "copied_hits", "bytes_moved",
//   "bytes_missed", "layers": [{"slots", "picks", "hits"}]}]}
[[nodiscard]] std::string format_json(std::span<const SimulationResult> results);

// Hit rate over capacity as an SVG file: one line for each policy, quota and mode.
[[nodiscard]] std::string format_svg(std::span<const SimulationResult> results,
                                     std::string_view title);

// Hit rates of one simulation in windows of as many tokens as its neighbours'.
struct RatesOverTime {
  std::string name;
  std::vector<double> rates;
};

// The mean of each place in a period of `period` rates; what is left of a last period counts too.
[[nodiscard]] std::vector<double> mean_of_periods(std::span<const double> rates,
                                                  std::size_t period);

// A line a window: its first token and the rate of each simulation. `window` is in tokens.
[[nodiscard]] std::string format_over_time(std::span<const RatesOverTime> all, std::int32_t window);
[[nodiscard]] std::string format_over_time_svg(std::span<const RatesOverTime> all,
                                               std::int32_t window, std::string_view title);

}  // namespace strata::core
