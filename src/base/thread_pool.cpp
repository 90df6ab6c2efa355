#include "strata/base/thread_pool.hpp"

#include "strata/base/error.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <climits>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>

// How a job is handed out, and why no worker can run a task of one job with the pointers of
// another:
//
// `unclaimed` is the number of indices nobody has taken yet. A thread takes some by fetch_sub, and
// has them when the old value was positive. The job that they belong to is the one being run at
// that instant, whichever job the thread was woken for; and that job cannot end before the thread
// has reported them. So the fields of the job are read after the claim, and only then, and they
// stay put until the report. A late thread either claims of the job now running or finds nothing.
// Nothing depends on a wake-up either: the caller takes indices like everybody else, so a worker
// that sleeps through a job costs time, never a result.

namespace strata {
namespace {

// With more threads than processors a spinning thread holds up the one it waits for.
constexpr int kOversubscribedSpinUs = 2;
// Reading the clock costs about as much as this many pauses.
constexpr int kPausesPerClock = 32;
// How often a worker that a small job does not need looks again before it helps: about 1 us.
constexpr int kLooks = 16;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until ready() holds, at most `limit`; returns whether it held.
template <class Ready>
bool spin_until(std::chrono::nanoseconds limit, const Ready& ready) noexcept {
  using Clock = std::chrono::steady_clock;
  if (ready()) return true;
  Clock::time_point end{};
  for (;;) {
    for (int i = 0; i < kPausesPerClock; ++i) {
      pause();
      if (ready()) return true;
    }
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point{}) end = now + limit;
    if (now >= end) return false;
  }
}

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
                  sizeof(std::atomic<std::uint32_t>) == 4,
              "the kernel waits on the plain 32-bit word");

// Sleeps while word == expected; may return for no reason.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word, int threads) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

bool pin(pthread_t thread, int cpu) noexcept {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return ::pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

// Blocks every signal that is not the fault of the running instruction, for the threads started in
// its lifetime.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
      ::sigdelset(&blocked, fault);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

int processors_allowed() noexcept {
  cpu_set_t set;  // too small on a machine with more than 1024 processors: no bound is known then
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : INT_MAX;
}

// The mask of the thread that constructs it, put back by a destructor on the same thread.
class CallerPin {
 public:
  bool pin_caller(int cpu) noexcept {
    thread_ = ::pthread_self();
    pinned_ = ::pthread_getaffinity_np(thread_, sizeof before_, &before_) == 0 && pin(thread_, cpu);
    return pinned_;
  }
  ~CallerPin() {
    if (pinned_ && ::pthread_equal(thread_, ::pthread_self()) != 0) {
      ::pthread_setaffinity_np(thread_, sizeof before_, &before_);
    }
  }

 private:
  pthread_t thread_{};
  cpu_set_t before_{};
  bool pinned_ = false;
};

#ifndef NDEBUG
// Asserts that no two jobs of a pool run at a time, one inside the other or from two threads.
class OneJob {
 public:
  explicit OneJob(std::atomic<bool>& running) : running_(running) {
    [[maybe_unused]] const bool other = running_.exchange(true, std::memory_order_relaxed);
    assert(!other && "parallel_for called inside a job or from two threads at once");
  }
  ~OneJob() { running_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool>& running_;
};
#endif

}  // namespace

struct ThreadPool::Impl {
  // The job, on one cache line: a claim brings its fields along.
  alignas(64) std::atomic<std::int64_t> unclaimed{0};
  std::atomic<std::int64_t> offered{0};  // to the workers; a hint to those without a claim
  std::int64_t count = 0;
  Call call = nullptr;
  const void* object = nullptr;
  // Sleeping workers wait for `wake_ups` to change.
  alignas(64) std::atomic<std::uint32_t> wake_ups{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  // 1 while the caller sleeps for the last report.
  std::atomic<std::uint32_t> caller_sleeps{0};
  // Indices each worker has run since the start. A line a worker: sixteen workers that subtract
  // from one counter queue for it, a microsecond a job.
  struct alignas(64) Report {
    std::atomic<std::int64_t> run{0};
  };
  std::vector<Report> reports;  // [0], the caller's, stays 0

  alignas(64) std::chrono::nanoseconds spin{0};
  int size = 1;
  int pinned = 0;
  std::int64_t reports_expected = 0;  // the sum of `reports` once the job is done
  std::vector<std::thread> workers;
  CallerPin caller_pin;
#ifndef NDEBUG
  std::atomic<bool> running{false};
#endif

  explicit Impl(int threads) : reports(static_cast<std::size_t>(threads)), size(threads) {}
  ~Impl();
  void start(int worker, int cpu);
  void worker_main(int worker) noexcept;
  [[nodiscard]] std::int64_t share_of(std::int64_t left) const noexcept;
  void run_indices(std::int64_t begin, std::int64_t end, int worker) noexcept;
  [[nodiscard]] std::int64_t work(int worker) noexcept;
  void report(int worker, std::int64_t run) noexcept;
  void sleep() noexcept;
  void run_job(std::size_t job_count, Call job_call, const void* job_object) noexcept;
  void wake(std::int64_t wanted) noexcept;
  [[nodiscard]] bool all_reported() const noexcept;
  void wait_for_reports() noexcept;
};

void ThreadPool::Impl::start(int worker, int cpu) {
  try {
    const BlockedSignals blocked;
    workers.emplace_back([this, worker] { worker_main(worker); });
  } catch (const std::system_error& error) {
    fail(ErrorKind::kResource, "cannot start thread {} of {}: {}; ask for fewer threads",
         worker + 1, size, error.what());
  }
  const pthread_t thread = workers.back().native_handle();
  ::pthread_setname_np(thread, ("strata-" + std::to_string(worker)).c_str());
  if (cpu >= 0 && pin(thread, cpu)) ++pinned;
}

ThreadPool::Impl::~Impl() {
  stop.store(true, std::memory_order_release);
  wake_ups.fetch_add(1, std::memory_order_release);
  futex_wake(wake_ups, INT_MAX);
  for (std::thread& worker : workers) worker.join();
}

// A job with fewer indices than workers is for the first of them. Did all claim at once, the few
// that succeed would queue with those that do not; the others step in when the first do not come.
void ThreadPool::Impl::worker_main(int worker) noexcept {
  int looks = 0;
  const auto called = [this, worker, &looks] {
    if (unclaimed.load(std::memory_order_relaxed) <= 0) {
      looks = 0;
      return stop.load(std::memory_order_relaxed);
    }
    return offered.load(std::memory_order_relaxed) >= worker || ++looks > kLooks;
  };
  while (!stop.load(std::memory_order_relaxed)) {
    if (!spin_until(spin, called)) {
      sleep();
    } else if (const std::int64_t run = work(worker); run > 0) {
      report(worker, run);
    }
  }
}

// Half of what is left, in fair shares: many small tasks cost few claims, the last go one by one.
std::int64_t ThreadPool::Impl::share_of(std::int64_t left) const noexcept {
  return std::max<std::int64_t>(left / (2 * size), 1);
}

void ThreadPool::Impl::run_indices(std::int64_t begin, std::int64_t end, int worker) noexcept {
  for (std::int64_t index = begin; index < end; ++index) {
    call(object, static_cast<std::size_t>(index), worker);
  }
}

// Runs indices until none is left; returns how many it ran.
std::int64_t ThreadPool::Impl::work(int worker) noexcept {
  std::int64_t run = 0;
  std::int64_t seen = unclaimed.load(std::memory_order_relaxed);
  for (;;) {
    // Towards the end a look, which shares the line, is cheaper than a claim, which takes it away.
    if (seen < 2 * size) seen = unclaimed.load(std::memory_order_relaxed);
    if (seen <= 0) return run;
    const std::int64_t share = share_of(seen);
    const std::int64_t left = unclaimed.fetch_sub(share, std::memory_order_acquire);
    if (left <= 0) return run;
    const std::int64_t begin = count - left;
    const std::int64_t end = std::min(begin + share, count);
    run_indices(begin, end, worker);
    run += end - begin;
    seen = left - share;
  }
}

// Sequentially consistent with wait_for_reports: the caller sees our report, or we see it sleep.
void ThreadPool::Impl::report(int worker, std::int64_t run) noexcept {
  std::atomic<std::int64_t>& mine = reports[static_cast<std::size_t>(worker)].run;
  mine.store(mine.load(std::memory_order_relaxed) + run, std::memory_order_seq_cst);
  if (caller_sleeps.load(std::memory_order_seq_cst) != 0) {
    caller_sleeps.store(0, std::memory_order_relaxed);
    futex_wake(caller_sleeps, 1);
  }
}

// Sequentially consistent with run_job: the caller sees us among the sleepers, or we see its job.
// After the caller's look, a change of wake_ups ends the wait or keeps it from starting.
void ThreadPool::Impl::sleep() noexcept {
  const std::uint32_t seen = wake_ups.load(std::memory_order_acquire);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (unclaimed.load(std::memory_order_seq_cst) <= 0 && !stop.load(std::memory_order_acquire)) {
    futex_wait(wake_ups, seen);
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

// The caller's first share is never on offer: it costs no claim, and the line goes to the workers.
void ThreadPool::Impl::run_job(std::size_t job_count, Call job_call,
                               const void* job_object) noexcept {
  count = static_cast<std::int64_t>(job_count);
  call = job_call;
  object = job_object;
  const std::int64_t own = share_of(count);
  offered.store(count - own, std::memory_order_relaxed);
  unclaimed.store(count - own, std::memory_order_seq_cst);
  wake(count - own);
  run_indices(0, own, 0);
  const std::int64_t by_workers = count - own - work(0);
  if (by_workers == 0) return;
  reports_expected += by_workers;
  wait_for_reports();
}

// Wakes as many sleepers as it takes for `wanted` workers to be awake.
void ThreadPool::Impl::wake(std::int64_t wanted) noexcept {
  const int asleep = sleepers.load(std::memory_order_seq_cst);
  const int awake = size - 1 - asleep;
  if (asleep == 0 || wanted <= awake) return;
  wake_ups.fetch_add(1, std::memory_order_release);
  futex_wake(wake_ups, static_cast<int>(std::min<std::int64_t>(wanted - awake, asleep)));
}

bool ThreadPool::Impl::all_reported() const noexcept {
  std::int64_t sum = 0;
  for (const Report& report : reports) sum += report.run.load(std::memory_order_seq_cst);
  return sum == reports_expected;
}

void ThreadPool::Impl::wait_for_reports() noexcept {
  const auto finished = [this] { return all_reported(); };
  while (!spin_until(spin, finished)) {
    caller_sleeps.store(1, std::memory_order_seq_cst);
    if (!all_reported()) futex_wait(caller_sleeps, 1);
    caller_sleeps.store(0, std::memory_order_relaxed);
  }
}

ThreadPool::ThreadPool(const ThreadPoolOptions& options) {
  if (options.threads < 1) {
    fail(ErrorKind::kUsage, "a thread pool needs at least 1 thread, not {}", options.threads);
  }
  impl_ = std::make_unique<Impl>(options.threads);
  const bool oversubscribed = options.threads > processors_allowed();
  const int spin_us =
      oversubscribed ? std::min(options.spin_us, kOversubscribedSpinUs) : options.spin_us;
  impl_->spin = std::chrono::microseconds(std::max(spin_us, 0));
  const auto cpu_of = [&options](int thread) {
    const auto index = static_cast<std::size_t>(thread);
    return index < options.cpus.size() ? options.cpus[index] : -1;
  };
  for (int worker = 1; worker < options.threads; ++worker) impl_->start(worker, cpu_of(worker));
  // Last, since a thread starts with the mask of its creator.
  if (cpu_of(0) >= 0 && impl_->caller_pin.pin_caller(cpu_of(0))) ++impl_->pinned;
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const noexcept { return impl_->size; }
int ThreadPool::pinned() const noexcept { return impl_->pinned; }

void ThreadPool::run(std::size_t count, Call call, const void* object) noexcept {
#ifndef NDEBUG
  const OneJob one_job(impl_->running);
#endif
  if (impl_->size == 1 || count == 1) {  // not worth waking anyone
    for (std::size_t index = 0; index < count; ++index) call(object, index, 0);
    return;
  }
  if (count > 0) impl_->run_job(count, call, object);
}

}  // namespace strata
