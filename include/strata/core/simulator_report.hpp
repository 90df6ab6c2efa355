// Results of the simulator as text for people, JSON for programs, and a plot.
#pragma once

#include "strata/core/simulator.hpp"

#include <span>
#include <string>
#include <string_view>

namespace strata::core {

// One line a result, in the order given; ends with a newline.
[[nodiscard]] std::string format_table(std::span<const SimulationResult> results);

// {"results": [{"policy", "quota", "mode", "capacity", "slots", "tokens", "picks", "hits",
//   "hit_rate", "copies", "copies_used", "copies_wasted", "copied_hits", "bytes_moved",
//   "bytes_missed", "layers": [{"slots", "picks", "hits"}]}]}
[[nodiscard]] std::string format_json(std::span<const SimulationResult> results);

// Hit rate over capacity as an SVG file: one line for each policy, quota and mode.
[[nodiscard]] std::string format_svg(std::span<const SimulationResult> results,
                                     std::string_view title);

}  // namespace strata::core
