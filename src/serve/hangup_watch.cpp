#include "src/serve/hangup_watch.hpp"

#include "strata/base/error.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace strata::serve {

HangupWatch::HangupWatch()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;  // no connection's id
  if (epoll_ < 0 || stop_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_, &event) != 0) {
    fail(ErrorKind::kResource, "cannot watch connections: {}", std::strerror(errno));
  }
  thread_ = std::thread([this] { run(); });
}

HangupWatch::~HangupWatch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_, &one, sizeof(one));
  thread_.join();
  ::close(epoll_);
  ::close(stop_);
}

HangupWatch::Guard HangupWatch::watch(int socket, std::function<void()> gone) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = ++last_id_;
  epoll_event event{};
  event.events = EPOLLRDHUP | EPOLLONESHOT;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) != 0) {
    fail(ErrorKind::kResource, "cannot watch a connection: {}", std::strerror(errno));
  }
  entries_.emplace(id, Entry{socket, std::move(gone)});
  return Guard(this, id);
}

void HangupWatch::forget(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second.socket, nullptr);
  entries_.erase(found);
}

void HangupWatch::run() {
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == 0) return;
      // Under the lock, so that a guard that is gone is really gone.
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(id);
      if (found != entries_.end()) found->second.gone();
    }
  }
}

HangupWatch::Guard::Guard(Guard&& other) noexcept
    : watch_(std::exchange(other.watch_, nullptr)), id_(other.id_) {}

HangupWatch::Guard& HangupWatch::Guard::operator=(Guard&& other) noexcept {
  release();
  watch_ = std::exchange(other.watch_, nullptr);
  id_ = other.id_;
  return *this;
}

void HangupWatch::Guard::release() noexcept {
  if (watch_ != nullptr) watch_->forget(id_);
  watch_ = nullptr;
}

}  // namespace strata::serve
