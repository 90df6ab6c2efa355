#include "strata/core/copy_engine.hpp"

#include "strata/base/clock.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace strata::core {

// Copies in pieces and sleeps off what was faster than the link.
void copy_throttled(device::Copier& copier, const ExpertCache::Fill& fill, double bytes_per_second,
                    const std::stop_token& stop) {
  constexpr std::size_t kPiece = 256 * 1024;
  const Stopwatch watch;
  for (std::size_t done = 0; done < fill.bytes && !stop.stop_requested();) {
    const std::size_t n = std::min(kPiece, fill.bytes - done);
    copier.copy(fill.to + done, fill.from + done, n);
    done += n;
    if (bytes_per_second <= 0) continue;
    const double ahead = static_cast<double>(done) / bytes_per_second - watch.seconds();
    if (ahead > 0) std::this_thread::sleep_for(std::chrono::duration<double>(ahead));
  }
}

CopyEngine::CopyEngine(std::unique_ptr<device::Copier> copier, double bytes_per_second)
    : copier_(std::move(copier)),
      bytes_per_second_(bytes_per_second),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

CopyEngine::~CopyEngine() { stop(); }

void CopyEngine::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void CopyEngine::submit(const ExpertCache::Fill& fill) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(fill);
    under_way_.fetch_add(fill.bytes, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

void CopyEngine::collect(std::vector<std::int32_t>& landed) {
  if (arrivals_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  arrivals_.store(0, std::memory_order_relaxed);
  landed.insert(landed.end(), landed_.begin(), landed_.end());
  landed_.clear();
}

void CopyEngine::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || (queue_.empty() && !busy_); });
  if (failure_) std::rethrow_exception(failure_);
}

// False when it failed.
bool CopyEngine::copy(const ExpertCache::Fill& fill, const std::stop_token& stop) {
  try {
    const Stopwatch watch;
    copy_throttled(*copier_, fill, bytes_per_second_, stop);
    copied_bytes_ += static_cast<double>(fill.bytes);
    copied_seconds_ += watch.seconds();
    return true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    arrivals_.fetch_add(1, std::memory_order_release);
    return false;
  }
}

void CopyEngine::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !queue_.empty(); }) && !stop.stop_requested()) {
    const ExpertCache::Fill fill = queue_.front();
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    const bool copied = copy(fill, stop);
    if (copied_seconds_ > 0) {
      speed_.store(copied_bytes_ / copied_seconds_, std::memory_order_relaxed);
    }
    lock.lock();
    busy_ = false;
    under_way_.fetch_sub(fill.bytes, std::memory_order_relaxed);
    if (!copied) {
      changed_.notify_all();
      return;
    }
    if (!stop.stop_requested()) {
      landed_.push_back(fill.slot);
      arrivals_.fetch_add(1, std::memory_order_release);
    }
    changed_.notify_all();
  }
}

}  // namespace strata::core
