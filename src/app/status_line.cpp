#include "src/app/status_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace strata::app {

void StatusLine::show(std::string_view what, double fraction) {
  constexpr int kWidth = 30;
  constexpr double kInterval = 0.1;  // s
  if (!enabled_ || (!shown_.empty() && since_drawn_.seconds() < kInterval)) return;
  const double part = std::clamp(fraction, 0.0, 1.0);
  const int done = static_cast<int>(part * kWidth);
  std::string line =
      fmt::format("{}  [{:#<{}}{: <{}}] {:3.0f} %", what, "", done, "", kWidth - done, 100 * part);
  if (line == shown_) return;
  // Back to the line's start, the text, and the rest of the line erased (ECMA-48: EL).
  fmt::print(stderr, "\r{}\x1b[K", line);
  std::fflush(stderr);
  shown_ = std::move(line);
  since_drawn_.restart();
}

void StatusLine::clear() {
  if (shown_.empty()) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_.clear();
}

}  // namespace strata::app
