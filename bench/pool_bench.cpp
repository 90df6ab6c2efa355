// Our thread pool against oneTBB on jobs like those of the token path, one thread a fast core.
// docs/threads.md has the results and what follows from them:
//   pool_bench --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
//
// Names: BACKEND/TASKS/NS is jobs of TASKS tasks that compute NS nanoseconds each, 8 jobs back to
// back; "us_a_job" is the wall time of one, "ideal_us" what the tasks alone would take with all
// threads in step. Wake/SPIN/GAP is our pool with spin_us = SPIN and the caller alone at work for
// GAP microseconds before each job; "us_a_job" is without the gap.
#include "strata/base/cpu_topology.hpp"
#include "strata/base/thread_pool.hpp"

#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kJobs = 8;

const strata::CpuTopology& machine() {
  static const strata::CpuTopology topology = strata::detect_topology();
  return topology;
}

int threads() { return machine().default_threads(); }

// A chain of dependent multiplications: its length in time does not depend on the other threads.
void compute(std::int64_t steps) {
  std::uint64_t value = 1;
  for (std::int64_t i = 0; i < steps; ++i) {
    value *= 6364136223846793005U;
    benchmark::DoNotOptimize(value);
  }
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The best of many runs, so that a pause of the machine does not shorten every task.
double steps_a_nanosecond() {
  static const double rate = [] {
    constexpr std::int64_t kSteps = 200'000;
    double best = 1e9;
    for (int run = 0; run < 30; ++run) {
      const Clock::time_point start = Clock::now();
      compute(kSteps);
      best = std::min(best, seconds_since(start));
    }
    return static_cast<double>(kSteps) / (best * 1e9);
  }();
  return rate;
}

std::int64_t steps_for(std::int64_t nanoseconds) {
  return static_cast<std::int64_t>(static_cast<double>(nanoseconds) * steps_a_nanosecond());
}

class OwnPool {
 public:
  explicit OwnPool(int spin_us = strata::ThreadPoolOptions().spin_us)
      : pool_({threads(), machine().pin_list(threads()), spin_us}) {}
  template <class Body>
  void run(std::size_t count, const Body& body) {
    pool_.parallel_for(count, [&body](std::size_t index, int) { body(index); });
  }

 private:
  strata::ThreadPool pool_;
};

// Pins each thread that enters the arena to a processor of its own, as our pool does.
class PinningObserver : public tbb::task_scheduler_observer {
 public:
  explicit PinningObserver(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) {
    ::pthread_getaffinity_np(::pthread_self(), sizeof before_, &before_);
    observe(true);
  }
  ~PinningObserver() override { observe(false); }
  void on_scheduler_entry(bool) override {
    const auto slot = static_cast<std::size_t>(tbb::this_task_arena::current_thread_index());
    if (slot >= cpus_.size()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus_[slot], &set);
    ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
  }
  void on_scheduler_exit(bool) override {
    ::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_);
  }

 private:
  std::vector<int> cpus_ = machine().pin_list(threads());
  cpu_set_t before_{};
};

template <class Partitioner>
class Tbb {
 public:
  template <class Body>
  void run(std::size_t count, const Body& body) {
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, count, 1),
        [&body](const tbb::blocked_range<std::size_t>& range) {
          for (std::size_t index = range.begin(); index < range.end(); ++index) body(index);
        },
        Partitioner());
  }
};

void jobs_back_to_back(benchmark::State& state, auto& backend) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const std::int64_t steps = steps_for(state.range(1));
  double seconds = 0;
  for ([[maybe_unused]] const auto _ : state) {
    const Clock::time_point start = Clock::now();
    for (int job = 0; job < kJobs; ++job) {
      backend.run(count, [steps](std::size_t) { compute(steps); });
    }
    const double run = seconds_since(start);
    state.SetIterationTime(run);
    seconds += run;
  }
  const auto jobs = static_cast<double>(state.iterations()) * kJobs;
  const auto rounds =
      (count + static_cast<std::size_t>(threads()) - 1) / static_cast<std::size_t>(threads());
  state.counters["us_a_job"] = seconds * 1e6 / jobs;
  state.counters["ideal_us"] =
      static_cast<double>(rounds) * static_cast<double>(state.range(1)) / 1e3;
  state.counters["threads"] = threads();
}

void Own(benchmark::State& state) {
  OwnPool pool;
  jobs_back_to_back(state, pool);
}

// All jobs of a run inside one execute: the caller stays in the arena, as a token path would.
template <class Partitioner>
void in_arena(benchmark::State& state) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<std::size_t>(threads()));
  tbb::task_arena arena(threads());
  const PinningObserver observer(arena);
  arena.execute([&state] {
    Tbb<Partitioner> backend;
    jobs_back_to_back(state, backend);
  });
}

void TbbSimple(benchmark::State& state) { in_arena<tbb::simple_partitioner>(state); }
void TbbStatic(benchmark::State& state) { in_arena<tbb::static_partitioner>(state); }

void Wake(benchmark::State& state) {
  OwnPool pool(static_cast<int>(state.range(0)));
  const std::int64_t gap_steps = steps_for(state.range(1) * 1000);
  constexpr std::size_t kTasks = 48;
  const std::int64_t steps = steps_for(3000);
  double seconds = 0;
  for ([[maybe_unused]] const auto _ : state) {
    compute(gap_steps);
    const Clock::time_point start = Clock::now();
    pool.run(kTasks, [steps](std::size_t) { compute(steps); });
    const double run = seconds_since(start);
    state.SetIterationTime(run);
    seconds += run;
  }
  state.counters["us_a_job"] = seconds * 1e6 / static_cast<double>(state.iterations());
  state.counters["ideal_us"] = 3.0 * kTasks / threads();
  state.counters["threads"] = threads();
}

void token_path(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{2, 16, 192}, {0, 1000, 5000, 30000}})
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(0.05);
}

}  // namespace

BENCHMARK(Own)->Apply(token_path);
BENCHMARK(TbbSimple)->Apply(token_path);
BENCHMARK(TbbStatic)->Apply(token_path);
BENCHMARK(Wake)
    ->ArgsProduct({{0, 20, 100, 500, 2000}, {5, 50, 300, 1000}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->MinTime(0.05);

BENCHMARK_MAIN();
