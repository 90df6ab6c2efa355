#include "strata/core/handover.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"

#include <cassert>
#include <chrono>
#include <thread>
#include <utility>

namespace strata::core {
namespace {

constexpr std::uint64_t kClosedBit = 1;

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Handover::Handover(int rows, double patience_s)
    : stamps_(static_cast<std::size_t>(rows)), patience_s_(patience_s) {}

bool Handover::wait_change(const std::atomic<std::uint64_t>& word, std::uint64_t seen,
                           double patience_s) {
  constexpr int kSpins = 4000;  // about 100 us: the gap between two layers of a running window
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != seen) return true;
    relax();
  }
  if (patience_s == 0) {
    word.wait(seen, std::memory_order_acquire);
    return true;
  }
  // A timed sleep: std::atomic::wait has no deadline. Doubling keeps both the delay and the
  // wake-ups small.
  const Stopwatch watch;
  auto nap = std::chrono::microseconds(20);
  while (word.load(std::memory_order_acquire) == seen) {
    if (watch.seconds() > patience_s) return false;
    std::this_thread::sleep_for(nap);
    if (nap < std::chrono::milliseconds(1)) nap *= 2;
  }
  return true;
}

std::uint64_t Handover::post(const HandoverRequest& request) {
  const std::uint64_t before = posted_.load(std::memory_order_relaxed);
  const std::uint64_t step = (before >> 1) + 1;
  request_ = request;
  // fetch_add keeps a closing bit that another thread may set meanwhile.
  posted_.fetch_add(2, std::memory_order_release);
  posted_.notify_one();
  return step;
}

void Handover::wait(std::uint64_t step) {
  for (;;) {
    const std::uint64_t seen = replied_.load(std::memory_order_acquire);
    if ((seen >> 1) >= step) break;
    if ((seen & kClosedBit) != 0) {
      const bool failed = closed_.load(std::memory_order_acquire) == Closed::kFailed;
      fail(ErrorKind::kInternal, "the CPU expert pool {} at step {}",
           failed ? "failed: " + reason_ : "was shut down", step);
    }
    if (!wait_change(replied_, seen, patience_s_)) {
      close(Closed::kShutDown);
      fail(ErrorKind::kInternal,
           "the CPU expert pool gave no answer for {:.1f} s at step {}, layer {}, {} experts",
           patience_s_, step, request_.layer, request_.misses.size());
    }
  }
  check_rows(step);
}

void Handover::check_rows(std::uint64_t step) const {
  for (const device::ExpertWork& w : request_.misses) {
    for (const std::int32_t row : w.rows) {
      if (stamps_[static_cast<std::size_t>(row)] != step) {
        fail(ErrorKind::kInternal, "layer {}: parts row {} was written at step {}, not at {}",
             request_.layer, row, stamps_[static_cast<std::size_t>(row)], step);
      }
    }
  }
}

bool Handover::next(HandoverRequest& request, std::uint64_t& step) {
  // The pool has answered everything up to replied_: anything newer is work.
  for (;;) {
    const std::uint64_t seen = posted_.load(std::memory_order_acquire);
    if ((seen & kClosedBit) != 0) return false;
    if ((seen >> 1) > (replied_.load(std::memory_order_relaxed) >> 1)) {
      request = request_;
      step = seen >> 1;
      return true;
    }
    static_cast<void>(wait_change(posted_, seen, 0));
  }
}

void Handover::reply(std::uint64_t step) {
  assert((replied_.load(std::memory_order_relaxed) >> 1) + 1 == step);
  static_cast<void>(step);
  replied_.fetch_add(2, std::memory_order_release);
  replied_.notify_one();
}

void Handover::fail_with(std::string reason) {
  reason_ = std::move(reason);
  close(Closed::kFailed);
}

void Handover::shutdown() { close(Closed::kShutDown); }

void Handover::close(Closed state) {
  Closed expected = Closed::kOpen;
  closed_.compare_exchange_strong(expected, state, std::memory_order_acq_rel);
  replied_.fetch_or(kClosedBit, std::memory_order_acq_rel);
  posted_.fetch_or(kClosedBit, std::memory_order_acq_rel);
  replied_.notify_all();
  posted_.notify_all();
}

}  // namespace strata::core
