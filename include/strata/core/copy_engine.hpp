// Copies expert blobs into arena slots beside the forward pass, at most at a given speed.
#pragma once

#include "strata/core/expert_cache.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace strata::core {

// The stand-in for an accelerator's copy stream: one thread and memcpy. Fills are done in the order
// they are given.
class CopyEngine {
 public:
  // bytes_per_second: the link's speed; 0 copies as fast as memory allows.
  explicit CopyEngine(double bytes_per_second);
  ~CopyEngine();  // what is still queued is not copied
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  void submit(const ExpertCache::Fill& fill);
  // Appends the slots whose bytes have landed since the last call.
  void collect(std::vector<std::int32_t>& landed);
  // Blocks until everything submitted has landed.
  void drain();

 private:
  void work(const std::stop_token& stop);

  double bytes_per_second_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<ExpertCache::Fill> queue_;
  std::vector<std::int32_t> landed_;
  bool busy_ = false;
  std::jthread thread_;
};

}  // namespace strata::core
