#include "strata/base/thread_pool.hpp"

#include "strata/base/error.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace strata {
namespace {

using namespace std::chrono_literals;

ThreadPoolOptions unpinned(int threads, int spin_us = 100) { return {threads, {}, spin_us}; }

double process_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::vector<int> processors_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::pthread_getaffinity_np(::pthread_self(), sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

class ThreadPoolSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, ThreadPoolSizes, testing::Values(1, 2, 3, 5, 16));

TEST_P(ThreadPoolSizes, RunsEveryIndexExactlyOnce) {
  ThreadPool pool(unpinned(GetParam()));
  EXPECT_EQ(pool.size(), GetParam());
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 15, 16, 17, 1000}) {
    std::vector<std::atomic<int>> runs(count);
    pool.parallel_for(count, [&](std::size_t index, int worker) {
      ASSERT_TRUE(index < count && worker >= 0 && worker < pool.size());
      runs[index].fetch_add(1, std::memory_order_relaxed);
    });
    for (const auto& run : runs) ASSERT_EQ(run.load(), 1) << count;
  }
}

// Jobs follow each other without a pause, each with its own count and its own array, which is gone
// when the next one starts: a worker that ran an index of a finished job would touch freed memory,
// or leave a wrong stamp.
TEST_P(ThreadPoolSizes, StressOfShortJobs) {
  ThreadPool pool(unpinned(GetParam(), 5));  // workers fall asleep now and then
  const int jobs = GetParam() > 2 ? 20'000 : 200'000;
  std::mt19937 random(GetParam());
  std::uniform_int_distribution<std::size_t> counts(0, 24);
  std::uniform_int_distribution<int> one_in_1000(0, 999);
  for (int job = 1; job <= jobs; ++job) {
    const std::size_t count = counts(random);
    const auto stamps =
        std::make_unique<int[]>(count);  // plain ints: a race here is a finding for TSan
    pool.parallel_for(count, [&](std::size_t index, int) { stamps[index] += job; });
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(stamps[i], job) << "index " << i << " of " << count;
    if (one_in_1000(random) == 0) std::this_thread::sleep_for(50us);
  }
}

TEST(ThreadPool, OneWorkerNumberNeverRunsTwoIndicesAtOnce) {
  ThreadPool pool(unpinned(4));
  std::vector<int> busy(4, 0);  // plain: overlapping use is a data race
  for (int job = 0; job < 500; ++job) {
    pool.parallel_for(64, [&](std::size_t, int worker) {
      auto& mine = busy[static_cast<std::size_t>(worker)];
      ASSERT_EQ(mine++, 0);
      --mine;
    });
  }
}

TEST(ThreadPool, HandsOutIndicesInRisingOrder) {
  ThreadPool pool(unpinned(3));
  std::vector<std::vector<std::size_t>> seen(3);
  pool.parallel_for(3000, [&](std::size_t index, int worker) {
    seen[static_cast<std::size_t>(worker)].push_back(index);
  });
  for (const auto& indices : seen) EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
}

// Every worker must come for this job to end: two waves of tasks wait for all threads to be inside.
TEST(ThreadPool, SleepingWorkersAreWoken) {
  for (const int threads : {2, 3, 8}) {
    ThreadPool pool(unpinned(threads, 0));
    for (int job = 0; job < 50; ++job) {
      if (job % 10 == 0) std::this_thread::sleep_for(2ms);  // all asleep
      std::atomic<int> inside{0};
      pool.parallel_for(static_cast<std::size_t>(threads), [&](std::size_t, int) {
        inside.fetch_add(1);
        while (inside.load() < threads) std::this_thread::yield();
      });
      ASSERT_EQ(inside.load(), threads);
    }
  }
}

TEST(ThreadPool, CallerSleepsForAStraggler) {
  ThreadPool pool(unpinned(2, 0));
  const double before = process_cpu_seconds();
  std::atomic<int> inside{0};
  pool.parallel_for(2, [&](std::size_t, int worker) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
    if (worker != 0) std::this_thread::sleep_for(300ms);
  });
  EXPECT_LT(process_cpu_seconds() - before, 0.1);
}

TEST(ThreadPool, IdlePoolUsesNoProcessorTime) {
  ThreadPool pool(unpinned(4));
  std::atomic<int> runs{0};
  pool.parallel_for(100, [&](std::size_t, int) { runs.fetch_add(1); });
  std::this_thread::sleep_for(50ms);
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(process_cpu_seconds() - before, 0.005);  // 1 %
  EXPECT_EQ(runs.load(), 100);
}

TEST(ThreadPool, ShutsDownInEveryState) {
  for (int round = 0; round < 100; ++round) {
    { ThreadPool never_used(unpinned(3)); }
    {
      ThreadPool spinning(unpinned(3, 100'000));
      spinning.parallel_for(3, [](std::size_t, int) {});
    }
    {
      ThreadPool falling_asleep(unpinned(3, 0));
      falling_asleep.parallel_for(3, [](std::size_t, int) {});
    }
  }
  ThreadPool asleep(unpinned(3, 0));
  std::this_thread::sleep_for(20ms);
}

TEST(ThreadPool, TwoPoolsWorkSideBySide) {
  std::atomic<int> runs{0};
  const auto use = [&runs] {
    ThreadPool pool(unpinned(2));
    for (int job = 0; job < 1000; ++job)
      pool.parallel_for(7, [&](std::size_t, int) { runs.fetch_add(1); });
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(runs.load(), 14'000);
}

TEST(ThreadPool, AJobMayBeCalledFromAnyThreadInTurn) {
  ThreadPool pool(unpinned(2));
  int sum = 0;
  for (int round = 0; round < 20; ++round) {
    std::thread caller([&] {
      std::atomic<int> part{0};
      pool.parallel_for(10,
                        [&](std::size_t index, int) { part.fetch_add(static_cast<int>(index)); });
      sum += part.load();
    });
    caller.join();
  }
  EXPECT_EQ(sum, 20 * 45);
}

TEST(ThreadPool, PinsWorkersAndCallerAndPutsTheCallerBack) {
  const std::vector<int> allowed = processors_of_this_thread();
  const int threads = std::min<int>(static_cast<int>(allowed.size()), 4);
  {
    ThreadPool pool({threads, allowed, 100});
    EXPECT_EQ(pool.pinned(), threads);
    std::vector<std::vector<int>> masks(static_cast<std::size_t>(threads));
    std::atomic<int> inside{0};
    pool.parallel_for(static_cast<std::size_t>(threads), [&](std::size_t, int worker) {
      masks[static_cast<std::size_t>(worker)] = processors_of_this_thread();
      inside.fetch_add(1);
      while (inside.load() < threads) std::this_thread::yield();
    });
    for (int i = 0; i < threads; ++i) {
      const auto index = static_cast<std::size_t>(i);
      EXPECT_EQ(masks[index], std::vector<int>{allowed[index]});
    }
  }
  EXPECT_EQ(processors_of_this_thread(), allowed);
}

TEST(ThreadPool, CountsAProcessorItCannotPinTo) {
  const std::vector<int> allowed = processors_of_this_thread();
  ThreadPool pool({3, {allowed.front(), 1'000'000, CPU_SETSIZE - 1}, 100});
  EXPECT_EQ(pool.pinned(), 1);
  std::atomic<int> runs{0};
  pool.parallel_for(50, [&](std::size_t, int) { runs.fetch_add(1); });
  EXPECT_EQ(runs.load(), 50);
}

TEST(ThreadPool, WorkersWithoutAProcessorDoNotInheritTheCallersPin) {
  const std::vector<int> allowed = processors_of_this_thread();
  ThreadPool pool({2, {allowed.front()}, 100});
  std::vector<int> mask;
  std::atomic<int> inside{0};
  pool.parallel_for(2, [&](std::size_t, int worker) {
    if (worker == 1) mask = processors_of_this_thread();
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(mask, allowed);
}

TEST(ThreadPool, WorkersLeaveSignalsToTheCaller) {
  ThreadPool pool(unpinned(2));
  sigset_t mask[2];
  std::atomic<int> inside{0};
  pool.parallel_for(2, [&](std::size_t, int worker) {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask[worker]);
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(::sigismember(&mask[0], SIGINT), 0);
  EXPECT_EQ(::sigismember(&mask[1], SIGINT), 1);
  EXPECT_EQ(::sigismember(&mask[1], SIGSEGV), 0);
}

TEST(ThreadPool, RefusesAPoolWithoutThreads) {
  for (const int threads : {0, -1, INT_MIN}) {
    try {
      ThreadPool pool(unpinned(threads));
      FAIL() << threads;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    }
  }
}

TEST(ThreadPoolDeathTest, AJobThatThrowsEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  ThreadPool pool(unpinned(2));
  EXPECT_DEATH(pool.parallel_for(2, [](std::size_t, int) { throw 1; }), "");
}

#ifndef NDEBUG
TEST(ThreadPoolDeathTest, AssertsThatJobsDoNotNest) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  ThreadPool pool(unpinned(2));
  EXPECT_DEATH(pool.parallel_for(
                   2, [&](std::size_t, int) { pool.parallel_for(1, [](std::size_t, int) {}); }),
               "inside a job");
}
#endif

}  // namespace
}  // namespace strata
