#include "src/app/line_reader.hpp"

#include "src/app/interrupt.hpp"
#include "strata/base/error.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace strata::app {
namespace {

// Waits until standard input can be read. False when SIGINT came first, however early: it is
// blocked but for the wait itself.
bool wait_for_input() {
  sigset_t block;
  sigset_t before;
  ::sigemptyset(&block);
  ::sigaddset(&block, SIGINT);
  ::sigprocmask(SIG_BLOCK, &block, &before);
  bool ready = false;
  while (!ready && !InterruptWatch::interrupted()) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    ready = ::ppoll(&input, 1, nullptr, &before) == 1;
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return ready;
}

}  // namespace

bool LineReader::fill() {
  std::array<char, 4096> piece;
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, piece.data(), piece.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail(ErrorKind::kIo, "standard input: {}", std::strerror(errno));
  buffer_.append(piece.data(), static_cast<std::size_t>(count));
  return count > 0;
}

LineReader::Result LineReader::read(std::string& line) {
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Result::kLine;
    }
    if (!wait_for_input()) {
      buffer_.clear();
      return Result::kInterrupted;
    }
    if (fill()) continue;
    if (buffer_.empty()) return Result::kEnd;
    line = std::move(buffer_);  // a last line without a line break
    buffer_.clear();
    return Result::kLine;
  }
}

}  // namespace strata::app
