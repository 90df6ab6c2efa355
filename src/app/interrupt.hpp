// Ctrl-C while an answer is being made: the first asks it to end, the second ends the program.
#pragma once

#include <signal.h>

namespace strata::app {

// While it lives, SIGINT is counted; a second one since the last reset() ends the process at once
// with exit code 130. Without it the system's own rule holds: the first one does. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  [[nodiscard]] static bool interrupted() noexcept;  // since the last acknowledge() or reset()
  static void acknowledge() noexcept;                // the next press is still the second
  static void reset() noexcept;                      // the next press is a first one again

 private:
  struct sigaction before_;
};

inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells report it

}  // namespace strata::app
