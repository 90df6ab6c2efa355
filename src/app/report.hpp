// What commands tell about an engine and its speed, as text and as JSON. Sizes are decimal: 1 MB is
// 10^6 bytes, as in GB/s.
#pragma once

#include "strata/runtime/engine.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace strata::app {

// One line of JSON with its line break. Strings of a model's file may hold any bytes: what is not
// UTF-8 becomes U+FFFD.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& json);

// A stretch of work: tokens computed, the time it took, and where time and bytes went.
struct Phase {
  std::size_t tokens = 0;
  double seconds = 0;
  runtime::Stats stats;

  [[nodiscard]] double tokens_per_second() const noexcept;
  [[nodiscard]] double bytes_per_token() const noexcept;
  [[nodiscard]] double bytes_per_second() const noexcept;
  Phase& operator+=(const Phase& other) noexcept;
};

[[nodiscard]] std::string format_bytes(double bytes);      // "17.7 MB"
[[nodiscard]] std::string format_seconds(double seconds);  // "1.10 ms", "2.4 s"

// The instruction set in use and, where a faster one does not run here, why.
[[nodiscard]] std::string describe_isa(const LoadReport& report);
// Model, device, threads, memory by tier, context: a line each.
[[nodiscard]] std::string start_report(const Engine& engine);
[[nodiscard]] nlohmann::ordered_json load_json(const Engine& engine);

// The time of each part, the longest first: "experts 0.52 ms 13.3 GB/s, dense ...", for a token.
[[nodiscard]] std::string parts_of_token(const Phase& phase);
// {"dense": {"ms": ..., "bytes": ..., "gb_per_s": ...}, ...}, for a token.
[[nodiscard]] nlohmann::ordered_json parts_json(const Phase& phase);
// Of the bandwidth `peak`, bytes a second.
[[nodiscard]] std::string share_of_peak(const Phase& phase, double peak);

}  // namespace strata::app
