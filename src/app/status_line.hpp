// A line on the terminal that tells how far a long step has come, then disappears.
#pragma once

#include "strata/base/clock.hpp"

#include <string>
#include <string_view>

namespace strata::app {

class StatusLine {
 public:
  // Disabled: nothing is written.
  explicit StatusLine(bool enabled) : enabled_(enabled) {}
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // "Loading experts  [######      ]  52 %"; fraction 0 to 1. Redrawn ten times a second at most.
  void show(std::string_view what, double fraction);
  // Takes the line away.
  void clear();

 private:
  bool enabled_;
  std::string shown_;
  Stopwatch since_drawn_;
};

}  // namespace strata::app
