#include "src/app/shutdown_signal.hpp"

#include "strata/base/error.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

namespace strata::app {

struct ShutdownSignal::State {
  sigset_t signals{};
  sigset_t before{};
  int signal_file = -1;
  int stop_file = -1;
  std::mutex mutex;
  std::function<void()> action;  // guarded by `mutex`
  std::thread acting;
};

ShutdownSignal::ShutdownSignal() : state_(std::make_unique<State>()) {
  ::sigemptyset(&state_->signals);
  for (const int number : {SIGINT, SIGTERM}) ::sigaddset(&state_->signals, number);
  ::pthread_sigmask(SIG_BLOCK, &state_->signals, &state_->before);
  state_->signal_file = ::signalfd(-1, &state_->signals, SFD_CLOEXEC);
  state_->stop_file = ::eventfd(0, EFD_CLOEXEC);
  if (state_->signal_file < 0 || state_->stop_file < 0) {
    fail(ErrorKind::kResource, "cannot wait for signals: {}", std::strerror(errno));
  }
  thread_ = std::thread([this] { run(); });
}

ShutdownSignal::~ShutdownSignal() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(state_->stop_file, &one, sizeof(one));
  thread_.join();
  if (state_->acting.joinable()) state_->acting.join();
  ::close(state_->signal_file);
  ::close(state_->stop_file);
  ::pthread_sigmask(SIG_SETMASK, &state_->before, nullptr);
}

void ShutdownSignal::on_first(std::function<void()> action) {
  const std::lock_guard lock(state_->mutex);
  state_->action = std::move(action);
}

void ShutdownSignal::run() {
  for (;;) {
    std::array<pollfd, 2> files = {pollfd{state_->signal_file, POLLIN, 0},
                                   pollfd{state_->stop_file, POLLIN, 0}};
    if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR) return;
    if (files[1].revents != 0) return;
    if (files[0].revents == 0) continue;
    signalfd_siginfo info{};
    if (::read(state_->signal_file, &info, sizeof(info)) != sizeof(info)) continue;
    const std::lock_guard lock(state_->mutex);
    std::function<void()> action = std::exchange(state_->action, nullptr);
    if (!action) ::_exit(128 + static_cast<int>(info.ssi_signo));
    state_->acting = std::thread(std::move(action));
  }
}

}  // namespace strata::app
