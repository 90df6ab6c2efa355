// What a forward pass is made of besides its equations: the times of its parts, and programs.
#pragma once

#include "strata/runtime/forward.hpp"

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

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

// A few layers as one program; the first has the embedding, the last the head. In pieces, because a
// driver's queue is finite: a whole pass might not fit, its launch would wait for the device, and
// the device for the host, which is launching.
struct Forward::Segment {
  std::unique_ptr<device::Program> program;
  std::vector<Span> spans;  // where its parts are timed
};

// All windows of as many rows and the same kind. Events between calls keep the device from running
// them back to back: segments with them tell now and then what the parts take.
struct Forward::Recorded {
  int rows = 0;
  int kind = 0;
  std::vector<Segment> plain, timed;
  std::uint64_t runs = 0;
  std::array<std::uint64_t, kParts> bytes{};  // of weights
  std::array<double, kParts> seconds{};       // of the last timed run

  static constexpr std::uint64_t kTimedEvery = 32;
  // The first runs warm up.
  [[nodiscard]] bool is_timed() const noexcept { return runs < 3 || runs % kTimedEvery == 0; }
};

}  // namespace strata::runtime
