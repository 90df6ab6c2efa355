#include "strata/serve/scheduler.hpp"

#include "src/serve/fair_queue.hpp"
#include "src/serve/slots.hpp"
#include "src/serve/window_plan.hpp"
#include "strata/base/clock.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <utility>

namespace strata::serve {
namespace {

constexpr int kLongestRetry = 60;  // seconds

std::string_view phase_name(Slot::Phase phase) noexcept {
  switch (phase) {
    case Slot::Phase::kIdle:
      return "idle";
    case Slot::Phase::kPlaced:
      return "placed";
    case Slot::Phase::kReading:
      return "reading";
    case Slot::Phase::kAnswering:
      return "answering";
  }
  return "";
}

[[noreturn]] void refuse_while_stopping() {
  throw Refused("the server is shutting down", kLongestRetry, true);
}

void check(const SchedulerOptions& options, const Engine& engine) {
  if (options.slots < 1 || options.slots >= engine.max_window()) {
    fail(ErrorKind::kUsage,
         "slots {}: expected 1 to {}, one less than the window; --window raises it", options.slots,
         engine.max_window() - 1);
  }
  if (options.queue < 1) fail(ErrorKind::kUsage, "queue 0: expected at least 1");
  if (options.chunk < 1) fail(ErrorKind::kUsage, "chunk 0: expected at least 1 token");
}

}  // namespace

struct Scheduler::Impl {
  Impl(Engine& e, const SchedulerOptions& o)
      : engine(e), options(o), queue(o.queue), slots(e, o.slots) {
    vocab = static_cast<std::size_t>(
        std::min<std::int64_t>(e.hparams().vocab, e.tokenizer().vocab_size()));
    publish();
  }

  void run();
  bool wait_for_work();
  void run_actions();
  void drop_cancelled();
  void admit();
  void compute();
  void deliver(const WindowPlan::Part& part, std::span<const float> logits, double seconds);
  void end(Slot& slot, Finish finish, const std::string& error = {});
  void settle(Slot& slot);
  void audit(const Slot& slot, const Outcome& outcome);
  void publish();
  void end_everything();
  [[nodiscard]] int retry_after() const;

  Engine& engine;
  SchedulerOptions options;
  std::size_t vocab = 0;  // rows of embeddings beyond the vocabulary stand for no token

  // Guarded by `mutex`.
  mutable std::mutex mutex;
  std::condition_variable work, idle;
  FairQueue<std::unique_ptr<Job>> queue;
  std::vector<std::packaged_task<void(SlotTable&)>> actions;
  bool draining = false, stopping = false, stopped = false;
  bool busy = false;  // are there jobs in slots?
  Snapshot shown;
  std::uint64_t refused = 0;
  double usual_seconds = 1;  // a request's time, the last ones counting most

  // Of the engine's thread.
  SlotTable slots;
  WindowPlan plan;
  Counters counters;
  std::int64_t tasks = 0;
};

void Scheduler::Impl::run() {
  while (wait_for_work()) {
    run_actions();
    drop_cancelled();
    admit();
    compute();
    publish();
  }
  end_everything();
}

// False: it is time to stop.
bool Scheduler::Impl::wait_for_work() {
  std::unique_lock lock(mutex);
  work.wait(lock, [&] { return stopping || busy || queue.size() > 0 || !actions.empty(); });
  return !stopping;
}

void Scheduler::Impl::run_actions() {
  std::vector<std::packaged_task<void(SlotTable&)>> now;
  {
    const std::lock_guard lock(mutex);
    now.swap(actions);
  }
  for (auto& action : now) action(slots);
}

void Scheduler::Impl::drop_cancelled() {
  {
    const std::lock_guard lock(mutex);
    queue.drop_if([&](const std::unique_ptr<Job>& job) {
      if (!job->answer()->cancelled()) return false;
      job->end(Finish::kCancelled);
      ++counters.of(Finish::kCancelled);
      return true;
    });
  }
  for (Slot& slot : slots.all()) {
    if (slot.job && slot.job->answer()->cancelled()) end(slot, Finish::kCancelled);
  }
}

void Scheduler::Impl::admit() {
  const auto start = [&] {
    for (Slot& slot : slots.all()) {
      if (slot.phase == Slot::Phase::kPlaced) slots.start_if_ready(slot);
    }
  };
  start();  // before an idle slot they may copy from is given away
  while (slots.has_idle()) {
    std::optional<std::unique_ptr<Job>> job;
    {
      const std::lock_guard lock(mutex);
      job = queue.pop();
      busy |= job.has_value();
    }
    if (!job) break;
    slots.place(std::move(*job));
    start();
  }
}

void Scheduler::Impl::compute() {
  plan_window(slots.all(), static_cast<std::size_t>(engine.max_window()), options.chunk, plan);
  if (plan.window.empty()) return;
  const Stopwatch watch;
  device::Rows logits;
  try {
    logits = engine.run(plan.window);
  } catch (const std::exception& error) {
    // What the sequences hold is not known any more.
    for (const WindowPlan::Part& part : plan.parts) {
      end(*part.slot, Finish::kError, error.what());
      slots.clear(*part.slot);
    }
    return;
  }
  const double seconds = watch.seconds();
  ++counters.windows;
  counters.window_slots += plan.parts.size();
  int row = 0;
  std::size_t at = 0;
  for (const WindowPlan::Part& part : plan.parts) {
    for (std::size_t i = 0; i < part.tokens; ++i) {
      part.slot->tokens.push_back(plan.window[at++].token);
    }
    if (!part.wants_logits) continue;
    deliver(part, {logits.row(row++), static_cast<std::size_t>(engine.hparams().vocab)}, seconds);
  }
}

void Scheduler::Impl::deliver(const WindowPlan::Part& part, std::span<const float> logits,
                              double seconds) {
  Slot& slot = *part.slot;
  if (slot.phase == Slot::Phase::kAnswering) counters.token.observe(seconds);
  slot.phase = Slot::Phase::kAnswering;
  try {
    if (!slot.job->step(logits, slot.tokens.size())) settle(slot);
  } catch (const Error& error) {  // a bias that bans every token, logits that are not numbers
    end(slot, Finish::kError, error.what());
  }
}

void Scheduler::Impl::end(Slot& slot, Finish finish, const std::string& error) {
  slot.job->end(finish, error);
  settle(slot);
}

// Counts the answer that has ended and frees its slot.
void Scheduler::Impl::settle(Slot& slot) {
  const Outcome& outcome = slot.job->outcome();
  ++counters.of(outcome.finish);
  counters.prompt_tokens += outcome.prompt_tokens - outcome.cached_tokens;
  counters.cached_tokens += outcome.cached_tokens;
  counters.generated_tokens += outcome.generated;
  counters.prompt_seconds += outcome.prompt_seconds;
  counters.answer_seconds += outcome.answer_seconds;
  counters.queued.observe(outcome.queued_seconds);
  counters.first_token.observe(outcome.queued_seconds + outcome.prompt_seconds);
  counters.request.observe(outcome.seconds());
  {
    const std::lock_guard lock(mutex);
    usual_seconds += (outcome.prompt_seconds + outcome.answer_seconds - usual_seconds) / 8;
  }
  audit(slot, outcome);
  slots.release(slot);
}

void Scheduler::Impl::audit(const Slot& slot, const Outcome& outcome) {
  RequestRecord record;
  record.slot = static_cast<int>(&slot - slots.all().data());
  record.task = ++tasks;
  record.prompt_tokens = outcome.prompt_tokens - outcome.cached_tokens;
  record.generated_tokens = outcome.generated;
  record.prompt_seconds = outcome.prompt_seconds;
  record.generation_seconds = outcome.answer_seconds;
  try {
    engine.audit(record);
  } catch (const Error& error) {
    if (options.complain) options.complain(error.what());
  }
}

void Scheduler::Impl::publish() {
  const std::lock_guard lock(mutex);
  shown.counters = counters;
  shown.engine = engine.stats();
  shown.slots.clear();
  for (const Slot& slot : slots.all()) {
    SlotView view{phase_name(slot.phase), slot.tokens.size(), 0, 0};
    if (slot.job) {
      view.prompt_tokens = slot.job->prompt().size();
      view.generated = slot.job->outcome().generated;
    }
    shown.slots.push_back(view);
  }
  busy = slots.busy() > 0;
  if (!busy && queue.size() == 0) idle.notify_all();
}

void Scheduler::Impl::end_everything() {
  for (Slot& slot : slots.all()) {
    if (slot.job) end(slot, Finish::kShutdown);
  }
  {
    const std::lock_guard lock(mutex);
    stopped = true;
    while (std::optional<std::unique_ptr<Job>> job = queue.pop()) (*job)->end(Finish::kShutdown);
    actions.clear();  // whoever waits for one gets std::future_error
  }
  publish();
}

int Scheduler::Impl::retry_after() const {
  const double rounds = std::ceil(static_cast<double>(queue.size()) / options.slots);
  return std::clamp(static_cast<int>(std::ceil(rounds * usual_seconds)), 1, kLongestRetry);
}

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options) {
  check(options, engine);
  impl_ = std::make_unique<Impl>(engine, options);
}

Scheduler::~Scheduler() = default;

void Scheduler::run() { impl_->run(); }

std::vector<std::shared_ptr<Answer>> Scheduler::submit(std::vector<GenerationRequest> requests) {
  std::vector<std::shared_ptr<Answer>> answers;
  if (requests.empty()) return answers;
  const std::string client = requests.front().client;
  const auto signal = std::make_shared<Signal>();
  std::vector<std::unique_ptr<Job>> jobs;
  for (GenerationRequest& request : requests) {
    jobs.push_back(
        std::make_unique<Job>(std::move(request), impl_->engine.tokenizer(), impl_->vocab,
                              static_cast<std::size_t>(impl_->engine.context()), signal));
    answers.push_back(jobs.back()->answer());
  }
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->draining || impl_->stopping) {
      refuse_while_stopping();
    }
    if (!impl_->queue.fits(client, jobs.size())) {
      ++impl_->refused;
      throw Refused("too many requests are waiting; try again later", impl_->retry_after(), false);
    }
    for (std::unique_ptr<Job>& job : jobs) impl_->queue.push(client, std::move(job));
  }
  impl_->work.notify_one();
  return answers;
}

std::shared_ptr<Answer> Scheduler::submit(GenerationRequest request) {
  std::vector<GenerationRequest> one;
  one.push_back(std::move(request));
  return submit(std::move(one)).front();
}

void Scheduler::between_windows(const std::function<void(SlotTable&)>& action) {
  std::packaged_task<void(SlotTable&)> task(action);
  std::future<void> done = task.get_future();
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopping) refuse_while_stopping();
    impl_->actions.push_back(std::move(task));
  }
  impl_->work.notify_one();
  try {
    done.get();
  } catch (const std::future_error&) {
    refuse_while_stopping();
  }
}

void Scheduler::drain() {
  const std::lock_guard lock(impl_->mutex);
  impl_->draining = true;
}

bool Scheduler::wait_until_idle(Clock::time_point deadline) {
  std::unique_lock lock(impl_->mutex);
  return impl_->idle.wait_until(
      lock, deadline, [&] { return impl_->stopped || (!impl_->busy && impl_->queue.size() == 0); });
}

void Scheduler::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->work.notify_one();
}

Snapshot Scheduler::snapshot() const {
  const std::lock_guard lock(impl_->mutex);
  Snapshot copy = impl_->shown;
  copy.counters.refused = impl_->refused;
  copy.waiting = impl_->queue.size();
  copy.queue_limit = impl_->queue.limit();
  copy.draining = impl_->draining || impl_->stopping;
  return copy;
}

const SchedulerOptions& Scheduler::options() const noexcept { return impl_->options; }

}  // namespace strata::serve
