#include "src/app/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace strata::app {
namespace {

// The only variables of the process that no object owns: a signal handler reaches nothing else.
std::atomic<int> presses{0};
std::atomic<bool> asked{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void count_press(int) {
  asked = true;
  if (presses.fetch_add(1) == 0) return;
  // Only async-signal-safe calls here; the newline takes the shell's prompt off the answer's line.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, "\n", 1);
  ::_exit(kExitInterrupted);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  reset();
  ::sigaction(SIGINT, nullptr, &before_);
  if (before_.sa_handler == SIG_IGN) return;  // started in the background: Ctrl-C is not for us
  struct sigaction action {};
  action.sa_handler = count_press;  // without SA_RESTART: a read of the terminal returns
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptWatch::~InterruptWatch() { ::sigaction(SIGINT, &before_, nullptr); }

bool InterruptWatch::interrupted() noexcept { return asked; }
void InterruptWatch::acknowledge() noexcept { asked = false; }
void InterruptWatch::reset() noexcept {
  asked = false;
  presses = 0;
}

}  // namespace strata::app
