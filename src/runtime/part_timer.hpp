// What the parts of a forward pass take.
#pragma once

#include "strata/runtime/forward.hpp"

#include <exception>

namespace strata::runtime {

// Adds what the device does until its end to a part; not when an error ends it.
class Forward::PartTimer {
 public:
  PartTimer(Forward& forward, Part part)
      : forward_(forward), part_(part), from_(forward.timed_ ? forward.device_.mark() : 0) {}
  ~PartTimer() noexcept(false) {  // a lost device fails here too
    if (forward_.timed_ && std::uncaught_exceptions() == exceptions_) {
      forward_.spans_.push_back({part_, from_, forward_.device_.mark()});
    }
  }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

 private:
  Forward& forward_;
  Part part_;
  int from_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace strata::runtime
