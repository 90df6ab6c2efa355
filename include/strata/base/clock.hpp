// Elapsed time for measurements, and the time of day for logs.
#pragma once

#include <chrono>
#include <string>

namespace strata {

// Seconds since construction or the last restart, by the monotonic clock.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const noexcept {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  // Returns the seconds so far and starts again; laps follow each other without a gap.
  double restart() noexcept {
    const Clock::time_point now = Clock::now();
    const double lap = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return lap;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// "2026-08-31T12:00:00.123Z", RFC 3339.
[[nodiscard]] std::string utc_now();

}  // namespace strata
