// Pinned workers for the token path: they spin briefly for the next job, then sleep, so an idle engine uses no CPU.
//
// parallel_for hands out indices 0..count-1 in rising order through one atomic counter; the calling thread works too.
// A job's results must not depend on which worker ran which index: all of the engine's exactness rests on that.
// One job at a time: parallel_for may be called from one thread at a time and not from inside a job.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace strata {

struct ThreadPoolOptions {
  int threads = 1;        // including the caller
  std::vector<int> cpus;  // processors to pin to, [0] for the caller; empty or too short: that thread is not pinned
  int spin_us = 100;      // how long an idle worker spins before it sleeps
};

class ThreadPool {
 public:
  explicit ThreadPool(const ThreadPoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const noexcept;

  // Calls job(index, worker) for every index in [0, count); worker is in [0, size()). Returns when all have returned.
  // Jobs must not throw.
  template <class Job>
  void parallel_for(std::size_t count, const Job& job) {
    run(count, [](const void* object, std::size_t index, int worker) {
      (*static_cast<const Job*>(object))(index, worker);
    }, &job);
  }

 private:
  using Call = void (*)(const void* object, std::size_t index, int worker);
  void run(std::size_t count, Call call, const void* object);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata
