// SIGINT and SIGTERM for a program that has something to finish first.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace strata::app {

// While it lives, a thread of its own takes the signals, none of the program's others. The first
// one calls `action`; a second one, and one while there is no action, ends the program at once,
// with the code by which shells know a signal. One at a time; make it before other threads start,
// which inherit that they take none.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // `action` may take its time: it has a thread of its own. Once.
  void on_first(std::function<void()> action);

 private:
  struct State;
  void run();

  std::unique_ptr<State> state_;
  std::thread thread_;
};

}  // namespace strata::app
