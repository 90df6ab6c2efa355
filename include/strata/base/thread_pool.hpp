// Pinned workers for the token path: they spin briefly for the next job, then sleep, so an idle
// engine uses no CPU.
//
// parallel_for hands out the indices 0..count-1 in rising order through one atomic counter, first a
// few at a time, the last ones singly; the calling thread works too. A job's results must not
// depend on which worker ran which index: all of the engine's exactness rests on that. One job at a
// time: parallel_for may be called from one thread at a time and not from inside a job; a debug
// build asserts both. docs/threads.md has the protocol and the measurements behind it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace strata {

struct ThreadPoolOptions {
  // Including the caller; Error(kUsage) below 1.
  int threads = 1;
  // Processors to pin to, [0] for the caller; a thread the list is too short for is not pinned.
  std::vector<int> cpus;
  // How long an idle worker spins before it sleeps; cut when threads outnumber processors.
  int spin_us = 1000;
};

class ThreadPool {
 public:
  // Starts and pins the workers, and pins the constructing thread to cpus[0] until the destructor
  // runs on it. Threads which that thread starts meanwhile inherit its pin. Workers take no
  // asynchronous signals: those stay with the caller's threads. Error(kResource) when the system
  // refuses a thread.
  explicit ThreadPool(const ThreadPoolOptions& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const noexcept;
  // Threads the system let us pin: less than min(size(), cpus.size()) when it refused a processor.
  [[nodiscard]] int pinned() const noexcept;

  // Calls job(index, worker) for every index in [0, count); worker is in [0, size()), 0 being the
  // caller, and no two calls with the same worker overlap. Returns when all have returned; what
  // they wrote is visible then. A job that throws ends the program (std::terminate).
  template <class Job>
  void parallel_for(std::size_t count, const Job& job) {
    run(
        count,
        [](const void* object, std::size_t index, int worker) {
          (*static_cast<const Job*>(object))(index, worker);
        },
        &job);
  }

 private:
  using Call = void (*)(const void* object, std::size_t index, int worker);
  void run(std::size_t count, Call call, const void* object) noexcept;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata
