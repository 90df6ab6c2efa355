// Copies expert blobs into arena slots beside the forward pass, at most at a given speed.
#pragma once

#include "strata/core/expert_cache.hpp"
#include "strata/device/device.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace strata::core {

// Copies `fill` at most at bytes_per_second (0: as fast as memory allows); ends early when `stop`
// is asked for.
void copy_throttled(device::Copier& copier, const ExpertCache::Fill& fill, double bytes_per_second,
                    const std::stop_token& stop = {});

// A thread that does fills in the order they are given.
class CopyEngine {
 public:
  // bytes_per_second: the link's speed; 0 copies as fast as memory allows.
  CopyEngine(std::unique_ptr<device::Copier> copier, double bytes_per_second);
  ~CopyEngine();
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  void submit(const ExpertCache::Fill& fill);
  // Ends the copies, also the one under way; what is queued is not copied. Nothing may be submitted
  // after. Their memory may go once this has returned.
  void stop();
  // Appends the slots whose bytes have landed since the last call. Takes no lock when there are
  // none: it is asked between all windows. Throws what a copy threw: nothing is copied after it.
  void collect(std::vector<std::int32_t>& landed);
  // Submitted and not landed.
  [[nodiscard]] std::uint64_t bytes_under_way() const noexcept {
    return under_way_.load(std::memory_order_relaxed);
  }
  // Bytes a second of all copies so far, as measured; 0 before the first.
  [[nodiscard]] double speed() const noexcept { return speed_.load(std::memory_order_relaxed); }
  // Blocks until everything submitted has landed. Throws as collect().
  void drain();

 private:
  void work(const std::stop_token& stop);
  [[nodiscard]] bool copy(const ExpertCache::Fill& fill, const std::stop_token& stop);

  std::unique_ptr<device::Copier> copier_;
  double bytes_per_second_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<ExpertCache::Fill> queue_;
  std::vector<std::int32_t> landed_;
  bool busy_ = false;
  std::exception_ptr failure_;    // of the first copy that failed
  std::atomic<int> arrivals_{0};  // in landed_, or a failure
  std::atomic<std::uint64_t> under_way_{0};
  std::atomic<double> speed_{0};
  double copied_bytes_ = 0;    // the copying thread's
  double copied_seconds_ = 0;  // the copying thread's
  std::jthread thread_;
};

}  // namespace strata::core
