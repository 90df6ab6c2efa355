// What a server counts while it runs: the numbers behind /metrics and /v1/status.
#pragma once

#include "strata/runtime/stats.hpp"
#include "strata/serve/answer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace strata::serve {

// Counts of values by upper bound, as Prometheus has them.
class Histogram {
 public:
  // Seconds: 1 ms to 5 minutes in steps of 1, 2.5, 5.
  static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,   0.25, 0.5,
                                         1.0,   2.5,    5.0,   10.0, 25.0,  50.0, 100.0, 300.0};

  void observe(double seconds) noexcept;
  [[nodiscard]] const std::array<std::uint64_t, kBounds.size()>& counts() const noexcept {
    return counts_;  // of each bound alone
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }  // with those above all
  [[nodiscard]] double sum() const noexcept { return sum_; }

 private:
  std::array<std::uint64_t, kBounds.size()> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

inline constexpr std::size_t kFinishes = 7;

// Sums since the start.
struct Counters {
  std::array<std::uint64_t, kFinishes> ended{};  // requests, by Finish
  std::uint64_t refused = 0;                     // the queue was full
  std::uint64_t prompt_tokens = 0;               // computed
  std::uint64_t cached_tokens = 0;               // found in a slot
  std::uint64_t generated_tokens = 0;
  double prompt_seconds = 0;  // of all requests, side by side or not
  double answer_seconds = 0;
  std::uint64_t windows = 0;
  std::uint64_t window_slots = 0;  // slots that had a part in a window, over all windows
  Histogram queued, first_token, token, request;

  [[nodiscard]] std::uint64_t& of(Finish finish) noexcept {
    return ended[static_cast<std::size_t>(finish)];
  }
};

struct SlotView {
  std::string_view phase;         // "idle" "placed" "reading" "answering"
  std::size_t tokens = 0;         // held
  std::size_t prompt_tokens = 0;  // of the request
  std::size_t generated = 0;
};

// A consistent picture at one moment between windows.
struct Snapshot {
  Counters counters;
  runtime::Stats engine;
  std::size_t waiting = 0;
  std::size_t queue_limit = 0;
  std::vector<SlotView> slots;
  bool draining = false;
};

}  // namespace strata::serve
