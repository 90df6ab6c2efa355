#include "src/serve/guarded_stream.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace strata::serve {
namespace {

constexpr std::size_t kReceived = 16 << 10;
constexpr std::chrono::milliseconds kLinger{500};

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

template <class Ask>
void address(const Ask& ask, std::string& ip, int& port) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  std::array<char, INET6_ADDRSTRLEN> text{};
  ip.clear();
  port = 0;
  if (ask(reinterpret_cast<sockaddr*>(&storage), &size) != 0) return;
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    port = ntohs(v4->sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    port = ntohs(v6->sin6_port);
  }
  ip = text.data();
}

}  // namespace

GuardedStream::GuardedStream(int socket, int wake) : socket_(socket), wake_(wake) {}

GuardedStream::~GuardedStream() {
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

GuardedStream::Wait GuardedStream::wait_for(short events, Clock::time_point deadline,
                                            bool stoppable) const {
  std::array<pollfd, 2> files = {pollfd{socket_, events, 0}, pollfd{wake_, POLLIN, 0}};
  for (;;) {
    const int ready = ::poll(files.data(), stoppable ? 2 : 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return Wait::kTimeout;
    if (files[0].revents != 0) return Wait::kReady;
    return Wait::kStopped;
  }
}

// False: the peer has closed, or there is an error.
bool GuardedStream::receive_more() {
  received_.erase(0, std::exchange(read_, 0));
  const std::size_t before = received_.size();
  received_.resize(before + kReceived);
  ssize_t count = 0;
  do {
    count = ::recv(socket_, received_.data() + before, kReceived, 0);
  } while (count < 0 && errno == EINTR);
  received_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return count > 0;
}

bool GuardedStream::wait_for_request(int seconds) {
  if (!unread().empty()) return true;
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(seconds);
  return wait_for(POLLIN, deadline, true) == Wait::kReady && receive_more();
}

std::variant<HeadFacts, HeadProblem, GuardedStream::Closed> GuardedStream::receive_head(
    int seconds) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    if (const std::optional<std::size_t> end = find_head_end(unread())) {
      if (*end > kMaxHeadBytes) break;
      head_left_ = *end;
      const auto checked = check_head(unread().substr(0, *end));
      if (const auto* problem = std::get_if<HeadProblem>(&checked)) return *problem;
      return std::get<HeadFacts>(checked);
    }
    if (unread().size() > kMaxHeadBytes) break;
    switch (wait_for(POLLIN, deadline, true)) {
      case Wait::kTimeout:
        return HeadProblem{408, "the request's head did not come in time"};
      case Wait::kStopped:
        return Closed{};
      case Wait::kReady:
        break;
    }
    if (!receive_more()) return Closed{};
  }
  return HeadProblem{431, "the request's head is too large"};
}

void GuardedStream::expect_body(std::size_t bytes, int seconds, int write_seconds) noexcept {
  body_read_ = 0;
  body_limit_ = bytes;
  read_deadline_ = Clock::now() + std::chrono::seconds(seconds);
  write_seconds_ = write_seconds;
}

void GuardedStream::linger() {
  ::shutdown(socket_, SHUT_WR);
  const Clock::time_point deadline = Clock::now() + kLinger;
  std::array<char, kReceived> dropped{};
  while (wait_for(POLLIN, deadline, true) == Wait::kReady) {
    if (::recv(socket_, dropped.data(), dropped.size(), 0) <= 0) return;
  }
}

bool GuardedStream::is_readable() const {
  return !unread().empty() || wait_for(POLLIN, Clock::now(), false) == Wait::kReady;
}

bool GuardedStream::is_writable() const {
  char byte = 0;
  if (wait_for(POLLOUT, Clock::now() + std::chrono::seconds(write_seconds_), false) !=
      Wait::kReady) {
    return false;
  }
  return ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

ssize_t GuardedStream::read(char* bytes, std::size_t count) {
  if (unread().empty()) {
    if (wait_for(POLLIN, read_deadline_, false) != Wait::kReady) return -1;
    if (!receive_more()) return 0;
  }
  count = std::min(count, unread().size());
  if (head_left_ > 0) {
    count = std::min(count, head_left_);
    head_left_ -= count;
  } else {
    if (body_read_ + count > body_limit_) return -1;
    body_read_ += count;
  }
  std::memcpy(bytes, unread().data(), count);
  read_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t GuardedStream::write(const char* bytes, std::size_t count) {
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(write_seconds_);
  for (;;) {
    const ssize_t sent = ::send(socket_, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || wait_for(POLLOUT, deadline, false) != Wait::kReady) return -1;
  }
}

void GuardedStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  address([&](sockaddr* a, socklen_t* n) { return ::getpeername(socket_, a, n); }, ip, port);
}

void GuardedStream::get_local_ip_and_port(std::string& ip, int& port) const {
  address([&](sockaddr* a, socklen_t* n) { return ::getsockname(socket_, a, n); }, ip, port);
}

}  // namespace strata::serve
