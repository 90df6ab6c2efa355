// Many requests on one engine. Each has a slot, a sequence of its own; every window computes the
// next token of each answer that is under way together with pieces of the prompts that wait to be
// read. What a request gets does not depend on its company: its tokens are those it would get alone
// (docs/exactness.md).
//
// Thread-safety: run() belongs to the thread that loaded the engine, and only it touches the
// engine; everything else may be called from any thread.
#pragma once

#include "strata/base/error.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/serve/answer.hpp"
#include "strata/serve/counters.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace strata::serve {

class SlotTable;

struct SchedulerOptions {
  int slots = 8;            // requests computed at once; below the engine's window
  std::size_t queue = 256;  // requests that may wait; at most half of them of one client
  std::size_t chunk = 128;  // tokens of prompts in a window while answers are under way
  // Told of what goes wrong beside the answers, such as an audit log that cannot be written. From
  // the engine's thread.
  std::function<void(const std::string& text)> complain{};
};

// The request was not taken, and another time it may be.
class Refused : public Error {
 public:
  Refused(const std::string& text, int retry_after, bool shutting_down)
      : Error(ErrorKind::kResource, text),
        retry_after_(retry_after),
        shutting_down_(shutting_down) {}
  [[nodiscard]] int retry_after() const noexcept { return retry_after_; }  // seconds
  [[nodiscard]] bool shutting_down() const noexcept { return shutting_down_; }

 private:
  int retry_after_;
  bool shutting_down_;
};

class Scheduler {
 public:
  // Error(kUsage) for options that cannot be obeyed, Error(kResource) when the slots do not fit in
  // memory. The engine must outlive the scheduler.
  Scheduler(Engine& engine, const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Computes until stop(); then ends every answer that is left, with Finish::kShutdown. Waiting for
  // requests costs no processor time.
  void run();

  // Takes all of the requests or none. Error(kUsage) for one that cannot be obeyed; Refused.
  [[nodiscard]] std::vector<std::shared_ptr<Answer>> submit(
      std::vector<GenerationRequest> requests);
  [[nodiscard]] std::shared_ptr<Answer> submit(GenerationRequest request);

  // Has run() do something between two windows, and waits until it is done; what it throws is
  // thrown here. Refused when the scheduler is stopping.
  void between_windows(const std::function<void(SlotTable&)>& action);

  void drain();  // refuses requests from now on
  // Until no request is left; false when the deadline comes first.
  [[nodiscard]] bool wait_until_idle(Clock::time_point deadline);
  void stop();

  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] const SchedulerOptions& options() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::serve
